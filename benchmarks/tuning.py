"""The weights that the paper leaves open, on seeds that no result is of: LIPO's of cross-play, EWC's of its penalty.

    python benchmarks/tuning.py [--scenario LBF4] [--alphas 0.03 0.1 0.3 1] [--mus 30 1000 30000] [--seeds 100 101]

LIPO: the groups should be good with themselves and bad with each other. EWC: its ego should do well with all groups it
met, TrajeDi's. Runs can be resumed; each has one thread.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from macop import WORK, train

from macop_aht.learner.threads import use_threads
from macop_aht.reproduction.fig_crossplay import apart, matrix

NO_EGO = ["--ego.steps", "2000"]  # where only the groups matter


def lipo(folder: Path) -> list[str]:
    """Self-play, cross-play, and the number of different deeds."""
    figures = json.loads((folder / "summary.json").read_text())
    own, kinds = figures["self_play"], len({deed for deed in figures["deeds"] if deed})
    return [f"{statistics.mean(own):.2f}", f"{min(own):.2f}", f"{apart(matrix(folder)[1]):.2f}", str(kinds)]


def ewc(folder: Path) -> list[str]:
    """What the ego gets with all of the groups, and with the worst of them."""
    returns = json.loads((folder / "summary.json").read_text())["ego"]
    return [f"{statistics.mean(returns):.2f}", f"{min(returns):.2f}"]


def table(head: Iterable[str], entries: dict[str, list[list[str]]]) -> list[str]:
    """A line per value, the figures of the seeds beside each other."""
    names = list(head)
    lines = [f"| {' | '.join(names)} |", "|---" * len(names) + "|"]
    for value, seeds in entries.items():
        lines.append(f"| {value} | {' | '.join(', '.join(column) for column in zip(*seeds, strict=True))} |")
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenario", default="LBF4")
    parser.add_argument("--alphas", nargs="+", default=["0.03", "0.1", "0.3", "1"], help="of LIPO's alpha_cross")
    parser.add_argument("--mus", nargs="+", default=["30", "1000", "30000"], help="of EWC's mu")
    parser.add_argument("--seeds", nargs="+", type=int, default=[100, 101])
    parser.add_argument("--preset", default="paper")
    parser.add_argument("--parallel", type=int, default=2, help="runs at a time")
    parser.add_argument("--work", type=Path, default=WORK)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "tuning.md")
    arguments = parser.parse_args()
    use_threads(1)

    def made(method: str, seed: int, *options: str) -> Path:
        return train(arguments.scenario, method, seed, arguments.preset, arguments.work, options)

    with ThreadPoolExecutor(arguments.parallel) as pool:
        lent = dict(
            zip(arguments.seeds, pool.map(lambda seed: made("trajedi", seed, *NO_EGO), arguments.seeds), strict=True)
        )
        jobs = [
            ("lipo", seed, *NO_EGO, "--alpha-cross", value) for value in arguments.alphas for seed in arguments.seeds
        ]
        jobs += [
            ("ewc", seed, "--groups", str(lent[seed]), "--mu", mu) for mu in arguments.mus for seed in arguments.seeds
        ]
        folders = list(pool.map(lambda job: made(*job), jobs))
    found = [(job[0], job[-1], folder) for job, folder in zip(jobs, folders, strict=True)]
    lines = [
        "# Weights that the paper leaves open",
        "",
        f"`python benchmarks/tuning.py --scenario {arguments.scenario} --alphas {' '.join(arguments.alphas)} "
        f"--mus {' '.join(arguments.mus)} --seeds {' '.join(map(str, arguments.seeds))} --preset {arguments.preset}`, "
        "a figure per seed.",
        "",
        "LIPO's groups with themselves and with each other:",
        "",
        *table(
            ["alpha_cross", "self-play", "of the worst group", "cross-play", "different deeds"],
            {
                value: [lipo(folder) for method, own, folder in found if (method, own) == ("lipo", value)]
                for value in arguments.alphas
            },
        ),
        "",
        "EWC's ego, in the end, with the groups of TrajeDi that it met one after the other:",
        "",
        *table(
            ["mu", "return", "with the worst group"],
            {
                value: [ewc(folder) for method, own, folder in found if (method, own) == ("ewc", value)]
                for value in arguments.mus
            },
        ),
    ]
    text = "\n".join(lines) + "\n"
    arguments.out.write_text(text)
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
