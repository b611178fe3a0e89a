"""What each deviation in the learning does to self-play (docs/deviations.md, 3 to 5).

    python benchmarks/deviations.py [--scenarios LBF4 PP1 PP2] [--seeds 1] [--parallel 2] [--out FILE]

Every variant gives up one of them; runs are shared with selfplay.py and can be resumed.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from selfplay import add_options, run

VARIANTS = {
    "as recommended": [],
    "one-step targets (3)": ["--td-lambda", "0"],
    "independent exploration (4)": ["--persistence", "0", "--together", "0"],
    "last weights (5)": ["--averaging", "0"],
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser, ["LBF4", "PP1", "PP2"], seeds=1)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "deviations.md")
    arguments = parser.parse_args()
    jobs = [
        (scenario, name, seed)
        for scenario in arguments.scenarios
        for name in VARIANTS
        for seed in range(arguments.seeds)
    ]
    with ThreadPoolExecutor(arguments.parallel) as pool:
        results = list(pool.map(lambda job: run(job[0], job[2], VARIANTS[job[1]], arguments.work), jobs))
    lines = [
        "# What the deviations do",
        "",
        f"`python benchmarks/deviations.py --scenarios {' '.join(arguments.scenarios)} --seeds {arguments.seeds}`: "
        "greedy self-play return of every team, after the paper's number of steps.",
        "",
        "| scenario | variant | mean | every team |",
        "|---|---|---|---|",
    ]
    for scenario in arguments.scenarios:
        for name in VARIANTS:
            own = [result for job, result in zip(jobs, results, strict=True) if job[:2] == (scenario, name)]
            returns = [value for result in own for value in result["returns"]]
            each = ", ".join(f"{value:.2f}" for value in returns)
            lines.append(f"| {scenario} | {name} | {statistics.mean(returns):.2f} | {each} |")
    text = "\n".join(lines) + "\n"
    arguments.out.write_text(text)
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
