"""The paper's heat maps: how well the groups of a population get on with each other, method beside method.

A method covers more conventions the lower the returns are off the diagonal, if those on it are high.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from macop_aht.evaluation import plots
from macop_aht.learner.networks import Stack
from macop_aht.methods.phases import cross_returns
from macop_aht.methods.runs import groups_of, read_run, setup_of
from macop_aht.reproduction.material import Material, markdown, without, write_csv, write_text

METHODS = ("macop", "macop+", "trajedi", "lipo", "fcp")


def matrix(folder: Path) -> tuple[list[str], np.ndarray]:
    """The groups of a run, each in the ego's places in the row with each as the teammate in the column: (K,K)."""
    setup = setup_of(read_run(folder), "cpu")
    groups = groups_of(folder, setup)
    net = Stack.gather([(group, 0) for group in groups.values()])
    return list(groups), cross_returns(setup, net, net, setup.phase_seed(3_000))


def apart(returns: np.ndarray) -> float:
    """The mean off the diagonal; nan where there is one group."""
    others = returns[~np.eye(len(returns), dtype=bool)]
    return float(others.mean()) if len(others) else float("nan")


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
        [*key, ego, mate, value]
        for key, (names, returns) in found.items()
        for ego, line in zip(names, returns.tolist(), strict=True)
        for mate, value in zip(names, line, strict=True)
    ]
    write_csv(out / "fig-crossplay.csv", ["scenario", "method", "seed", "ego", "teammate", "return"], entries)
    wanted = [(s, method, seed) for s in campaign.scenarios for method in methods for seed in campaign.seeds]
    paragraphs = ["# Cross-play of the groups that each method generates", without(wanted, runs)]
    for scenario in campaign.scenarios:
        own = {key[1:]: returns for key, (_, returns) in found.items() if key[0] == scenario}
        if own:
            paragraphs += [f"## {scenario}", table(own), picture(scenario, own, out)]
    return write_text(out / "fig-crossplay.md", paragraphs)


def table(own: dict[tuple[str, int], np.ndarray]) -> str:
    """A line for every method, with a figure for every seed."""
    lines = []
    for method in dict.fromkeys(method for method, _ in own):
        matrices = [returns for (its, _), returns in own.items() if its == method]
        diagonal, off = [float(np.diag(one).mean()) for one in matrices], [apart(one) for one in matrices]
        figures = [", ".join(f"{value:.2f}" for value in values) for values in (diagonal, off)]
        lines.append([method, ", ".join(str(len(one)) for one in matrices), *figures, f"{np.nanmean(off):.2f}"])
    return markdown(["method", "groups", "with themselves", "with each other", "mean over seeds"], lines)


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
