"""Do whole runs differ between two commits? Best head, heads, coverage, compatibility and minutes of both.

    python benchmarks/before_after.py COMMIT [--scenarios SMAC2 PP1] [--method macop] [--out FILE]

"Before" is what macop.py recorded at COMMIT. "After" is what it has recorded now. Run macop.py first.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from macop import OUTCOMES, RESULTS, Key, coverage, recorded

RECORDS = RESULTS / "macop.jsonl"


def earlier(commit: str) -> dict[Key, dict[str, Any]]:
    """Return the figures that were recorded in that commit."""
    place = RECORDS.resolve().relative_to(Path(__file__).resolve().parent.parent)
    command = ["git", "-C", str(Path(__file__).parent), "show", f"{commit}:{place.as_posix()}"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    runs = [json.loads(line) for line in text.splitlines()]
    return {(run["scenario"], run["method"], run["seed"]): run for run in runs}


def row(name: str, when: str, run: dict[str, Any]) -> str:
    kinds = f" of {len(OUTCOMES[run['scenario']])}" if OUTCOMES[run["scenario"]] else ""
    cells = [
        name,
        when,
        f"{statistics.mean(run['best_head']):.2f}",
        f"{statistics.mean(run['self_play']):.2f}",
        str(run["heads"]),
        coverage(run) + kinds,
        " ".join(f"{value:.2f}" for value in run["compatibility"]),
        f"{run['minutes']:.0f}",
    ]
    return f"| {' | '.join(cells)} |"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commit")
    parser.add_argument("--scenarios", nargs="+", choices=list(OUTCOMES), default=["SMAC2", "PP1"])
    parser.add_argument("--method", default="macop")
    parser.add_argument("--out", type=Path, default=RESULTS / "before_after.md")
    arguments = parser.parse_args()
    before, after = earlier(arguments.commit), recorded(RECORDS)
    asked = f"{arguments.commit} --scenarios {' '.join(arguments.scenarios)} --method {arguments.method}"
    lines = [
        "# Whole runs, before and after",
        "",
        f"`python benchmarks/before_after.py {asked}`, preset `paper`. Best head: mean return over all groups of the run, of the",
        "head that other episodes have chosen. Coverage: different outcomes of the groups after each iteration. C: from",
        "the second iteration on. Minutes are wall-clock time, and other processes ran on the same cores.",
        "",
        "| scenario, seed | run | best head | groups' self-play | heads | coverage | C | minutes |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for scenario in arguments.scenarios:
        for key in sorted(before.keys() & after.keys()):
            if key[:2] == (scenario, arguments.method):
                if before[key] == after[key]:
                    print(f"{key} was not run again since {arguments.commit}", file=sys.stderr)
                    continue
                name = f"{scenario}, {key[2]}"
                lines += [row(name, "before", before[key]), row(name, "after", after[key])]
    text = "\n".join(lines) + "\n"
    arguments.out.write_text(text, encoding="utf-8")
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
