"""What each deviation does (docs/deviations.md): 3 to 5 in self-play, 5 to 7, 9 and 10 in whole runs of Macop.

    python benchmarks/deviations.py [--scenarios LBF4 PP1 PP2] [--seeds 1] [--whole LBF4] [--finished] [--parallel 2] [--out FILE]

Every variant gives up one of them; runs are shared with selfplay.py and macop.py and can be resumed. With `--finished`, variants
that have not been run are left out.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import macop
import selfplay

SELF_PLAY = {
    "as recommended": [],
    "one-step targets (3)": ["--td-lambda", "0"],
    "independent exploration (4)": ["--persistence", "0", "--together", "0"],
    "last weights (5)": ["--averaging", "0"],
}
WHOLE = {
    "as recommended": [],
    "last weights (5)": ["--averaging", "0"],
    "plain norm (6)": ["--regulariser-norm", "plain"],
    "ties expand (7)": ["--expansion-rule", "reach"],
    "no self-play of the ego (9)": ["--ego-self-play", "0"],
    "diversity on all (10)": ["--diversity-every", "1"],
}


def self_play(scenarios: list[str], seeds: int, work: Path, finished: bool, pool: ThreadPoolExecutor) -> list[str]:
    """A table of every team's greedy return."""
    jobs = [
        (scenario, name, seed)
        for scenario in scenarios
        for name, options in SELF_PLAY.items()
        for seed in range(seeds)
        if not finished or (selfplay.folder_of(scenario, seed, options, work) / "result.json").exists()
    ]
    results = list(pool.map(lambda job: selfplay.run(job[0], job[2], SELF_PLAY[job[1]], work), jobs))
    lines = ["| scenario | variant | mean | every team |", "|---|---|---|---|"]
    for scenario in scenarios:
        for name in SELF_PLAY:
            own = [result for job, result in zip(jobs, results, strict=True) if job[:2] == (scenario, name)]
            if not own:
                continue
            returns = [value for result in own for value in result["returns"]]
            each = ", ".join(f"{value:.2f}" for value in returns)
            lines.append(f"| {scenario} | {name} | {statistics.mean(returns):.2f} | {each} |")
    return lines


def whole_runs(scenario: str, seeds: int, finished: bool, pool: ThreadPoolExecutor) -> list[str]:
    """A table of what Macop comes to, a figure per seed."""
    jobs = [
        (name, seed)
        for name, options in WHOLE.items()
        for seed in range(seeds)
        if not finished
        or (macop.folder_of(scenario, "macop", seed, "paper", macop.WORK, options) / "summary.json").exists()
    ]
    results = list(pool.map(lambda job: macop.run(scenario, "macop", job[1], "paper", macop.WORK, WHOLE[job[0]]), jobs))
    lines = ["| variant | deeds | groups | heads | best head | minutes |", "|---|---|---|---|---|---|"]
    for name in WHOLE:
        own = [figures for job, figures in zip(jobs, results, strict=True) if job[0] == name]
        if not own:
            continue
        columns = [
            [macop.coverage(figures) for figures in own],
            [str(macop.generated(figures)) for figures in own],
            [str(figures["heads"]) for figures in own],
            [f"{statistics.mean(figures['best_head']):.2f}" for figures in own],
            [f"{figures['minutes']:.0f}" for figures in own],
        ]
        lines.append(f"| {name} | {' | '.join(', '.join(column) for column in columns)} |")
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    selfplay.add_options(parser, ["LBF4", "PP1", "PP2"], seeds=1)
    parser.add_argument("--whole", choices=list(macop.DEEDS), default="LBF4", help="scenario of the whole runs")
    parser.add_argument("--finished", action="store_true", help="only the runs that are there already")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "deviations.md")
    arguments = parser.parse_args()
    with ThreadPoolExecutor(arguments.parallel) as pool:
        learnt = self_play(arguments.scenarios, arguments.seeds, arguments.work, arguments.finished, pool)
        grown = whole_runs(arguments.whole, arguments.seeds, arguments.finished, pool)
    command = f"python benchmarks/deviations.py --scenarios {' '.join(arguments.scenarios)} --seeds {arguments.seeds}"
    lines = [
        "# What the deviations do",
        "",
        f"`{command} --whole {arguments.whole}`. Greedy self-play return of every team, after the paper's number of steps:",
        "",
        *learnt,
        "",
        f"Macop on {arguments.whole}; deeds: how many different ones after each iteration; groups: all that were made.",
        "",
        *grown,
    ]
    text = "\n".join(lines) + "\n"
    arguments.out.write_text(text)
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
