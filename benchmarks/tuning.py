"""Which weights are best, where the paper leaves them open or they mean something else here?

    python benchmarks/tuning.py [--weights alpha-cross mu …] [--seeds 100 101] [--preset paper] [--parallel 2]

No other result uses these seeds. LIPO's groups should be good in self-play and bad with each other. EWC's ego should learn
each group that it meets, and keep its return with the earlier ones. Macop's ego should in the end do well with all groups
that it met. Runs can be resumed. Each has one thread. Every weight has a part of the results, which stays as it is when
others are measured.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from macop import WORK, train

from macop_aht.evaluation.metrics import backward_transfer, returns_over_time
from macop_aht.learner.threads import use_threads
from macop_aht.reproduction.fig_crossplay import apart, matrix
from macop_aht.runs.folder import RunFolder

NO_EGO = ("--ego.steps", "2000")  # where only the groups matter
ONCE = ("--min-iterations", "1", "--max-iterations", "1")


def among_themselves(folder: Path) -> list[str]:
    """Return how a run's groups do among themselves."""
    summary = RunFolder(folder).summary()
    own, kinds = summary.self_play, len({outcome for outcome in summary.outcomes if outcome})
    return [f"{statistics.mean(own):.2f}", f"{min(own):.2f}", f"{apart(matrix(folder)[1]):.2f}", str(kinds)]


def in_the_end(folder: Path) -> list[str]:
    """Return how a run's ego does in the end with all groups that it met, each with its best head."""
    summary = RunFolder(folder).summary()
    returns = summary.best_head
    return [f"{statistics.mean(returns):.2f}", f"{min(returns):.2f}", str(summary.heads), f"{moved(folder):.2%}"]


def held(folder: Path) -> list[str]:
    """Return how an ego that met groups one by one does with all in the end, with each when it was new, and the loss between."""
    returns = returns_over_time(RunFolder(folder).decisions())
    figures = returns[-1].mean(), returns[-1].min(), np.diag(returns).mean(), backward_transfer(returns)
    return [f"{figure:.2f}" for figure in figures]


def moved(folder: Path) -> float:
    """Return how far the ego's backbone ends from where the first group left it, relative to its own norm."""
    run = RunFolder(folder)
    phases = [name for name in run.phases if name.startswith("ego-")]
    first, last = (
        np.concatenate(
            [part.ravel() for key, part in sorted(run.read_phase(name)[0]["ego"].items()) if key.startswith("backbone")]
        )
        for name in (phases[0], phases[-1])
    )
    return float(np.linalg.norm(last - first) / np.linalg.norm(first))


@dataclass(frozen=True)
class Weight:
    """A weight to vary, the runs in which it varies, and the figures that judge them."""

    about: str
    scenarios: tuple[str, ...]
    method: str
    values: tuple[str, ...]  # with further options behind one where it goes with them
    figures: Callable[[Path], list[str]]
    columns: tuple[str, ...]
    options: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()  # method and options of the run whose groups are learnt with


EGO = ("return", "with the worst group", "heads", "backbone moved")
WEIGHTS = {
    "alpha-cross": Weight(
        "LIPO: its groups with themselves and with each other.", ("LBF4",), "lipo", ("0.03", "0.1", "0.3", "1"),
        among_themselves, ("self-play", "of the worst group", "cross-play", "different outcomes"), NO_EGO,
    ),
    "mu": Weight(
        "EWC: its ego with the groups of Macop's first population, one after the other; backward transfer is what it forgot.",
        ("LBF4", "PP1"), "ewc", ("0", "10", "100", "1000", "1e4"), held,
        ("in the end", "with the worst group", "when new", "backward transfer"), groups=("macop", *ONCE),
    ),
    "alpha-reg": Weight(
        "Macop: its ego in the end, with the groups of a first population that it met one after the other.",
        ("PP2",), "multi-head", ("10", "1", "0.1", "0.01"), in_the_end, EGO, groups=("macop", *ONCE),
    ),
    "alpha-distil": Weight(
        "Macop: the same, with the regulariser as it is, and with old heads held to their values instead.",
        ("PP1",), "multi-head", ("0", "10 --alpha-reg 0"), in_the_end, EGO, groups=("macop", *ONCE),
    ),
}  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weights", nargs="+", choices=list(WEIGHTS), default=list(WEIGHTS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[100, 101])
    parser.add_argument("--preset", default="paper")
    parser.add_argument("--parallel", type=int, default=2, help="runs at a time")
    parser.add_argument("--work", type=Path, default=WORK)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "tuning.md")
    arguments = parser.parse_args()
    use_threads(1)

    def made(job: tuple[str, str, int, tuple[str, ...]]) -> Path:
        return train(*job[:3], arguments.preset, arguments.work, job[3])

    jobs = {
        (name, scenario, value, seed): (scenario, weight.method, seed, (*weight.options, f"--{name}", *value.split()))
        for name, weight in WEIGHTS.items()
        if name in arguments.weights
        for scenario in weight.scenarios
        for value in weight.values
        for seed in arguments.seeds
    }
    with ThreadPoolExecutor(arguments.parallel) as pool:
        borrowed = {key: WEIGHTS[key[0]].groups for key in jobs if WEIGHTS[key[0]].groups}
        lenders = {key: (key[1], groups[0], key[3], groups[1:]) for key, groups in borrowed.items()}
        distinct = list(dict.fromkeys(lenders.values()))
        lent = dict(zip(distinct, pool.map(made, distinct), strict=True))
        for key, lender in lenders.items():
            scenario, method, seed, options = jobs[key]
            jobs[key] = scenario, method, seed, ("--groups", str(lent[lender]), *options)
        folders = dict(zip(jobs, pool.map(made, jobs.values()), strict=True))
    parts = recorded(arguments.out)
    for name in arguments.weights:
        weight = WEIGHTS[name]
        asked = f"--weights {name} --seeds {' '.join(map(str, arguments.seeds))} --preset {arguments.preset}"
        lines = [
            f"{weight.about} `python benchmarks/tuning.py {asked}`, a figure per seed.",
            "",
            f"| scenario | {name} | {' | '.join(weight.columns)} |",
        ]
        lines += ["|---" * (2 + len(weight.columns)) + "|"]
        for scenario in weight.scenarios:
            for value in weight.values:
                seeds = [weight.figures(folders[name, scenario, value, seed]) for seed in arguments.seeds]
                cells = (", ".join(column) for column in zip(*seeds, strict=True))
                lines.append(f"| {scenario} | {value} | {' | '.join(cells)} |")
        parts[name] = "\n".join(lines)
    known = [f"## {name}\n\n{parts[name]}" for name in WEIGHTS if name in parts]
    text = "\n\n".join(["# Weights that the paper leaves open", *known]) + "\n"
    arguments.out.write_text(text)
    print(text)
    return 0


def recorded(path: Path) -> dict[str, str]:
    """Return the parts of earlier results, by weight."""
    parts = path.read_text().split("\n## ")[1:] if path.exists() else []
    return {name: content.strip() for name, content in (part.split("\n", 1) for part in parts)}


if __name__ == "__main__":
    sys.exit(main())
