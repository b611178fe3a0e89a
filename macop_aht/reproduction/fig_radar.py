"""The paper's radar chart: every method's ego with some groups of the evaluation set, an axis for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from macop_aht import plots
from macop_aht.methods.sequence import draw as draw_evenly
from macop_aht.reproduction.material import Material, markdown, write_csv, write_text
from macop_aht.reproduction.table1 import Pairings, pairings

AXES = 12  # groups, at most
SCENARIO = "PP1"  # the paper's


def choose(pairs: Mapping[str, Pairings], most: int = AXES) -> list[str]:
    """Groups of the lowest seed, as many of each generator as there can be, generator by generator."""
    names = sorted({teammate for own in pairs.values() for _, teammate in own})
    seed = min(int(name.split("/")[1]) for name in names)
    by_generator: dict[str, list[str]] = {}
    for name in names:
        generator, its, _ = name.split("/", 2)
        if int(its) == seed:
            by_generator.setdefault(generator, []).append(name)
    return sorted(draw_evenly(by_generator, most, seed=0))


def returns(pairs: Mapping[str, Pairings], groups: Sequence[str]) -> dict[str, list[float]]:
    """Every method's mean return over its seeds with these groups."""
    return {
        method: [
            float(np.mean([value for (_, teammate), value in own.items() if teammate == group])) for group in groups
        ]
        for method, own in pairs.items()
    }


def write(material: Material, out: Path) -> str:
    """fig-radar.md, fig-radar.csv, and a picture for every scenario that has been evaluated; the paper's is of PP1."""
    paragraphs, lines = ["# Every ego with some groups of the evaluation set"], []
    for scenario, rows in material.rows().items():
        methods = material.campaign.methods
        pairs = {method: own for method, own in pairings(rows).items() if method in methods}
        groups = choose(pairs)
        found = returns(pairs, groups)
        name = f"fig-radar-{scenario}.png"
        draw(found, groups, scenario, out / name)
        lines += [
            [scenario, method, group, value]
            for method, own in found.items()
            for group, value in zip(groups, own, strict=True)
        ]
        body = [[group, *(f"{own[k]:.2f}" for own in found.values())] for k, group in enumerate(groups)]
        paragraphs += [f"## {scenario}", markdown(["group", *found], body), f"![{scenario}]({name})"]
    write_csv(out / "fig-radar.csv", ["scenario", "method", "group", "return"], lines)
    paragraphs.append(f"Mean returns over seeds. The paper's chart, of {SCENARIO}, prints no figures.")
    return write_text(out / "fig-radar.md", paragraphs)


def draw(found: Mapping[str, Sequence[float]], groups: Sequence[str], scenario: str, path: Path) -> None:
    plt = plots.pyplot()
    angles = 2 * np.pi * np.arange(len(groups) + 1) / len(groups)  # the first comes again, to close the line
    figure, axis = plt.subplots(figsize=(6.5, 5.5), subplot_kw={"projection": "polar"})
    for k, (method, own) in enumerate(found.items()):
        whole, thick = [*own, own[0]], 2.5 if method == "macop" else 1.0
        axis.plot(angles, whole, linewidth=thick, color=plt.get_cmap("tab10")(k % 10), label=method)
    axis.set_xticks(angles[:-1], groups, fontsize=7)
    axis.set_title(scenario)
    axis.legend(fontsize=7, loc="center left", bbox_to_anchor=(1.15, 0.5))
    plots.save(figure, path)
