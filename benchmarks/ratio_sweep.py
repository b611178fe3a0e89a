"""How many episodes per update can there be without a loss of quality? The largest such ratio becomes the default.

    python benchmarks/ratio_sweep.py [--scenarios LBF4 PP1] [--ratios 1 2 4 … or ours] [--seeds 3] [--out FILE]

The figure is the self-play return after the paper's number of steps. Two runs go at a time, with one thread each. They are
shared with selfplay.py. Lines of other scenarios stay in the table.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from selfplay import TASKS, add_options, recorded, run, speed

from macop_aht.methods import presets


def options(scenario: str, ratio: float) -> list[str]:
    """Return the options of a ratio; None for the recommended ratio, which is the same run as in selfplay.py."""
    return [] if ratio == presets.training(scenario).ratio else ["--ratio", f"{ratio:g}"]


def ratios(scenario: str, words: list[str]) -> list[float]:
    """Return the ratios to measure, the cheapest first."""
    found = {presets.training(scenario).ratio if word == "ours" else float(word) for word in words}
    return sorted(found, reverse=True)


def row(scenario: str, ratio: float, own: list[dict[str, Any]]) -> str:
    """Return the figures of one ratio over the seeds."""
    means = [statistics.mean(result["returns"]) for result in own]
    updates = statistics.median(result["progress"]["updates"] for result in own)
    seeds = ", ".join(f"{mean:.2f}" for mean in means)
    figures = f"{statistics.median(means):.2f} | {updates:,.0f} | {speed(own):,.0f}"
    return f"| {scenario} | {ratio:g} | {seeds} | {figures} |"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser, ["LBF4", "PP1"], seeds=3)
    parser.add_argument(
        "--ratios", nargs="+", default=["1", "2", "4", "8", "16", "32"], help="ours: the recommended one"
    )
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "ratio_sweep.md")
    arguments = parser.parse_args()
    jobs = [
        (scenario, ratio, seed)
        for scenario in arguments.scenarios
        for ratio in ratios(scenario, arguments.ratios)
        for seed in range(arguments.seeds)
    ]
    with ThreadPoolExecutor(arguments.parallel) as pool:
        results = list(pool.map(lambda job: run(job[0], job[2], options(job[0], job[1]), arguments.work), jobs))
    lines = recorded(arguments.out)
    for scenario in arguments.scenarios:
        lines = {key: line for key, line in lines.items() if key[0] != scenario}
        for ratio in reversed(ratios(scenario, arguments.ratios)):
            own = [result for job, result in zip(jobs, results, strict=True) if job[:2] == (scenario, ratio)]
            lines[scenario, f"{ratio:g}"] = row(scenario, ratio, own)
    head = [
        "# Episodes per update",
        "",
        "`python benchmarks/ratio_sweep.py --scenarios SCENARIO… --ratios RATIO… --seeds N`, one thread for each run.",
        "",
        "| scenario | ratio | returns of the seeds | median | updates per team | steps/s |",
        "|---|---|---|---|---|---|",
    ]
    order = sorted(lines, key=lambda key: list(TASKS).index(key[0]))
    text = "\n".join([*head, *(lines[key] for key in order)]) + "\n"
    arguments.out.write_text(text)
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
