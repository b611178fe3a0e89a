"""Does the fast preset do as well as the paper's numbers? Coverage, best-head return and minutes, seed by seed.

    python benchmarks/presets.py [--scenarios LBF4] [--methods macop macop+] [--seeds 3] [--presets paper fast]

The runs are those of `macop.py`. They can be resumed, and the two scripts share them. Coverage counts the different outcomes
of all groups that stayed in a population. A preset that finds fewer outcomes is not as good, whatever its returns. Lines of
other scenarios and methods stay in the table.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from macop import OUTCOMES, WORK, run

RESULTS = Path(__file__).parent / "results" / "presets.md"


def row(scenario: str, method: str, preset: str, results: list[dict[str, Any]]) -> str:
    """Return the figures of one preset, one for each seed."""
    columns = [
        [str(len({outcome for outcome in figures["outcomes"] if outcome})) for figures in results],
        [f"{statistics.mean(figures['best_head']):.2f}" for figures in results],
        [str(figures["heads"]) for figures in results],
        [f"{figures['minutes']:.0f}" for figures in results],
    ]
    return f"| {scenario} | {method} | {preset} | {' | '.join(', '.join(column) for column in columns)} |"


def recorded(path: Path) -> dict[tuple[str, str, str], str]:
    """Return the lines of an earlier table, by scenario, method and preset."""
    lines = path.read_text().splitlines() if path.exists() else []
    cells = [line.split(" | ") for line in lines]
    return {(c[0][2:], c[1], c[2]): line for c, line in zip(cells, lines, strict=True) if c[0][2:] in OUTCOMES}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenarios", nargs="+", choices=list(OUTCOMES), default=["LBF4"])
    parser.add_argument("--methods", nargs="+", default=["macop", "macop+"])
    parser.add_argument("--presets", nargs="+", default=["paper", "fast"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--parallel", type=int, default=2, help="runs at a time")
    parser.add_argument("--work", type=Path, default=WORK)
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    kinds = [(s, m, p) for s in arguments.scenarios for m in arguments.methods for p in arguments.presets]
    jobs = [(*kind, seed) for kind in kinds for seed in range(arguments.seeds)]
    with ThreadPoolExecutor(arguments.parallel) as pool:
        results = list(pool.map(lambda job: run(job[0], job[1], job[3], job[2], arguments.work), jobs))
    lines = recorded(arguments.out)
    for kind in kinds:
        lines[kind] = row(*kind, [figures for job, figures in zip(jobs, results, strict=True) if job[:3] == kind])
    head = [
        "# Presets",
        "",
        "`python benchmarks/presets.py --scenarios SCENARIO… --methods METHOD…`, a figure per seed.",
        "",
        "| scenario | method | preset | different outcomes | best head | heads | minutes |",
        "|---|---|---|---|---|---|---|",
    ]
    order = sorted(lines, key=lambda kind: (list(OUTCOMES).index(kind[0]), kind[1]))
    text = "\n".join([*head, *(lines[kind] for kind in order)]) + "\n"
    arguments.out.write_text(text)
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
