"""The paper's analysis of sensitivity: Macop's return over the values of one hyper-parameter at a time.

A curve is made of the variations that change this one setting, and of Macop itself, which has the preset's value.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from macop_aht import plots
from macop_aht.config import changed, settings
from macop_aht.methods.training import preset
from macop_aht.reproduction.fig_ablation import WHOLE, columns, missing
from macop_aht.reproduction.material import Material, markdown, paper, write_csv, write_text
from macop_aht.reproduction.table1 import Cell
from macop_aht.scenarios.palette import COLOURS, FAINT


class Point(NamedTuple):
    """A value of a setting, and what came of it."""

    value: float
    name: str  # of the variation
    cell: Cell


Curves = dict[tuple[str, str], list[Point]]  # by scenario and setting


def curves(material: Material, found: Mapping[str, Mapping[str, Cell]]) -> Curves:
    """Sorted by value; settings of which there is Macop's own value only are left out."""
    campaign, made = material.campaign, dict[tuple[str, str], list[Point]]()
    for scenario, column in found.items():
        usual = changed(preset(WHOLE, campaign.preset, scenario), campaign.settings_of(WHOLE))
        for name, variation in campaign.varied(scenario).items():
            if variation.method == WHOLE and len(variation.settings) == 1 and name in column:
                ((setting, value),) = variation.settings.items()
                if isinstance(value, (int, float)):
                    made.setdefault((scenario, setting), []).append(Point(value, name, column[name]))
        for (its, setting), points in made.items():
            if its == scenario and WHOLE in column:
                points.append(Point(getattr(usual, setting), WHOLE, column[WHOLE]))
    return {key: sorted(points) for key, points in made.items()}


def write(material: Material, out: Path) -> str:
    """fig-sensitivity.md, fig-sensitivity.csv, fig-sensitivity.png."""
    rows = material.rows()
    made = curves(material, columns(material, rows))
    if not made:
        raise ValueError(
            f"no variation in {material.folder} changes a single setting of {WHOLE}; the figure is of these"
        )
    lines = [
        [*key, point.value, point.name, point.cell.seeds, point.cell.mean, point.cell.value, point.cell.std]
        for key, points in made.items()
        for point in points
    ]
    head = ["scenario", "setting", "value", "variation", "seeds", "return", "scaled", "scaled_std"]
    write_csv(out / "fig-sensitivity.csv", head, lines)
    draw(made, out / "fig-sensitivity.png")
    note = (
        "Return with all groups of the evaluation set, Macop with the preset = 1; mean ± standard deviation over seeds."
    )
    paragraphs = ["# Sensitivity of Macop to its hyper-parameters", missing(material, rows), note]
    for (scenario, setting), points in made.items():
        body = [[f"{point.value:g}", str(point.cell), f"{point.cell.mean:.2f}"] for point in points]
        paragraphs += [f"## {setting} on {scenario}", compared(scenario, setting, points)]
        paragraphs += [markdown([setting, "scaled", "return"], body)]
    return write_text(out / "fig-sensitivity.md", paragraphs)


def compared(scenario: str, setting: str, points: list[Point]) -> str:
    """The paper prints no figures; which value it finds best, and which is best here."""
    best = max(points, key=lambda point: point.cell.value)
    theirs = papers_best(scenario, setting)
    says = "not in the paper" if theirs is None else f"the paper's: {theirs:g}"
    about = next((one.about for one in settings(type(preset(WHOLE, "paper", scenario))) if one.path == setting), "")
    return f"{about.capitalize()}. Best: {best.value:g} ({says})."


def papers_best(scenario: str, setting: str) -> float | None:
    told = paper()["sensitivity"].get(setting, {})
    return told.get("best") if told.get("scenario") == scenario else None


def draw(made: Curves, path: Path) -> None:
    """A curve for each; the paper's choice is dashed."""
    plt = plots.pyplot()
    across = min(len(made), 3)
    down = -(-len(made) // across)
    figure, axes = plt.subplots(down, across, figsize=(3.4 * across, 2.9 * down), squeeze=False)
    for axis in axes.flat[len(made) :]:
        axis.axis("off")
    for axis, (key, points) in zip(axes.flat, made.items(), strict=False):
        _curve(axis, *key, points)
    plots.save(figure, path)


def _curve(axis: Any, scenario: str, setting: str, points: list[Point]) -> None:
    places = range(len(points))  # values are far apart: they stand side by side
    values, spread = [point.cell.value for point in points], [point.cell.std or 0.0 for point in points]
    axis.errorbar(places, values, yerr=spread, fmt="o-", color=COLOURS["ego"], capsize=3)
    theirs = papers_best(scenario, setting)
    for place, point in zip(places, points, strict=True):
        if point.value == theirs:
            axis.axvline(place, color=FAINT, linestyle="--")
    axis.set_xticks(places, [f"{point.value:g}" for point in points])
    axis.set(title=f"{scenario}: {setting}", ylabel="return, Macop = 1")
