"""The paper's heat maps: how well the groups of a population get on with each other, method beside method.

A method covers more conventions the lower the returns are off the diagonal, if those on it are high. Groups of the same outcome
get on with each other, and the more groups there are, the more of them must: so pairs of the same outcome are also told apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from macop_aht import plots
from macop_aht.learner.networks import Stack
from macop_aht.methods.phases import cross_returns
from macop_aht.methods.training import read_run, setup_of
from macop_aht.reproduction.material import Material, markdown, without, write_csv, write_text
from macop_aht.runs.folder import RunFolder

METHODS = ("macop", "macop+", "trajedi", "lipo", "fcp")


def matrix(folder: Path) -> tuple[list[str], np.ndarray]:
    """The groups of a run, each in the ego's places in the row with each as the teammate in the column: (K,K)."""
    setup = setup_of(read_run(folder), "cpu")
    groups = RunFolder(folder).generated()
    net = Stack.gather([(group, 0) for group in groups.values()])
    return list(groups), cross_returns(setup, net, net, setup.phase_seed(3_000))


def alike(folder: Path, names: Sequence[str]) -> np.ndarray:
    """Which of a run's groups have the same outcome as which others: (K,K) bool."""
    summary = RunFolder(folder).summary()
    outcomes = dict(zip(summary.groups, summary.outcomes, strict=True))
    own = np.array([outcomes[name] for name in names])
    return (own[:, None] == own) & (own != "") & ~np.eye(len(own), dtype=bool)


def apart(returns: np.ndarray) -> float:
    """The mean off the diagonal; nan where there is one group."""
    return _mean(returns[~np.eye(len(returns), dtype=bool)])


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else float("nan")


def write(material: Material, out: Path) -> str:
    """fig-crossplay.md, fig-crossplay.csv, and a picture for every scenario, of its first seed."""
    campaign = material.campaign
    methods = [method for method in METHODS if method in campaign.methods]
    runs = material.runs(methods)
    if not runs:
        raise ValueError(
            f"{material.folder} has no finished run of {', '.join(METHODS)}; the figure is of their groups"
        )
    found = {key: matrix(folder) for key, folder in runs.items()}
    entries = [
        [*key, ego, teammate, value]
        for key, (names, returns) in found.items()
        for ego, line in zip(names, returns.tolist(), strict=True)
        for teammate, value in zip(names, line, strict=True)
    ]
    write_csv(out / "fig-crossplay.csv", ["scenario", "method", "seed", "ego", "teammate", "return"], entries)
    wanted = [(s, method, seed) for s in campaign.scenarios for method in methods for seed in campaign.seeds]
    paragraphs = ["# Cross-play of the groups that each method generates", without(wanted, runs)]
    for scenario in campaign.scenarios:
        own = {key[1:]: returns for key, (_, returns) in found.items() if key[0] == scenario}
        same = {key[1:]: alike(runs[key], names) for key, (names, _) in found.items() if key[0] == scenario}
        if own:
            paragraphs += [f"## {scenario}", table(own, same), picture(scenario, own, out)]
    return write_text(out / "fig-crossplay.md", paragraphs)


def table(own: dict[tuple[str, int], np.ndarray], same: dict[tuple[str, int], np.ndarray]) -> str:
    """A line for every method: a figure for every seed, and those of the pairs of the same outcome, of all seeds."""
    lines = []
    for method in dict.fromkeys(method for method, _ in own):
        matrices = {key: returns for key, returns in own.items() if key[0] == method}
        others = {key: ~same[key] & ~np.eye(len(same[key]), dtype=bool) for key in matrices}
        diagonal, off = [float(np.diag(one).mean()) for one in matrices.values()], [*map(apart, matrices.values())]
        figures = [", ".join(f"{value:.2f}" for value in values) for values in (diagonal, off)]
        twins, strangers = (np.concatenate([matrices[key][of[key]] for key in matrices]) for of in (same, others))
        share = len(twins) / max(len(twins) + len(strangers), 1)
        counts = ", ".join(str(len(one)) for one in matrices.values())
        pooled = [f"{share:.0%}", f"{_mean(twins):.2f}", f"{_mean(strangers):.2f}"]
        lines.append([method, counts, *figures, f"{np.nanmean(off):.2f}", *pooled])
    means = ["with themselves", "with each other", "mean over seeds"]
    return markdown(
        ["method", "groups", *means, "pairs of the same outcome", "their return", "that of the others"], lines
    )


def picture(scenario: str, own: dict[tuple[str, int], np.ndarray], out: Path) -> str:
    first = min(seed for _, seed in own)
    shown = {
        f"{method}: {apart(returns):.2f} off the diagonal": returns
        for (method, seed), returns in own.items()
        if seed == first
    }
    name = f"fig-crossplay-{scenario}.png"
    plots.heat_maps(shown, f"{scenario}, seed {first}: ego's places in the row, teammate in the column", out / name)
    return f"![{scenario}]({name})"
