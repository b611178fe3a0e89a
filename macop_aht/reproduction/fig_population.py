"""The paper's figure of TrajeDi with more and more groups, beside Macop: whether a larger population makes up for generating.

The curve is made of the variations of TrajeDi that change its population, and of TrajeDi itself. Groups of the variations are
left out of the evaluation set here: a large population would be tested with little but itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from macop_aht import plots
from macop_aht.config import changed
from macop_aht.evaluation.rows import Row
from macop_aht.methods.training import preset
from macop_aht.reproduction.fig_sensitivity import Point
from macop_aht.reproduction.material import Material, markdown, without, write_csv, write_text
from macop_aht.reproduction.table1 import Cell, by_seed, cells, pairings
from macop_aht.scenarios.palette import COLOURS

METHOD, RIVAL = "trajedi", "macop"


def sizes(material: Material, scenario: str) -> dict[str, int]:
    """The population of TrajeDi and of its variations, by name."""
    campaign, usual = material.campaign, preset(METHOD, material.campaign.preset, scenario)
    names = [METHOD] if METHOD in campaign.methods else []
    names += [name for name, one in campaign.varied(scenario).items() if one.method == METHOD]
    return {name: changed(usual, campaign.settings_of(name)).teammates.population for name in names}


def curve(material: Material, scenario: str, rows: Sequence[Row]) -> tuple[list[Point], Cell | None]:
    """TrajeDi by the size of its population, and Macop, which is 1 where it is there."""
    kept = [row for row in rows if row.teammate.split("/")[0] in material.campaign.methods]
    returns, wanted = pairings(kept), sizes(material, scenario)
    column = cells({name: by_seed(own) for name, own in returns.items() if name in (*wanted, RIVAL)}, RIVAL)
    points = [Point(size, name, column[name]) for name, size in wanted.items() if name in column]
    return sorted(points), column.get(RIVAL)


def write(material: Material, out: Path) -> str:
    """fig-population.md, fig-population.csv, fig-population.png."""
    campaign, rows = material.campaign, material.rows()
    if not any(variation.method == METHOD for variation in campaign.varied().values()):
        raise ValueError(
            f"the campaign in {material.folder} has no variations of {METHOD}; name some, with other populations"
        )
    made = {scenario: curve(material, scenario, own) for scenario, own in rows.items()}
    lines = [
        [scenario, point.name, point.value, point.cell.seeds, point.cell.mean, point.cell.value, point.cell.std]
        for scenario, (points, rival) in made.items()
        for point in [*points, *([Point(0, RIVAL, rival)] if rival else [])]
    ]
    head = ["scenario", "method", "population", "seeds", "return", "scaled", "scaled_std"]
    write_csv(out / "fig-population.csv", head, lines)
    draw(made, out / "fig-population.png")
    wanted = [(s, name, seed) for s in campaign.scenarios for name in sizes(material, s) for seed in campaign.seeds]
    found = [(row.scenario, row.method, row.seed) for own in rows.values() for row in own]
    paragraphs = ["# TrajeDi with larger and larger populations", without(wanted, found)]
    paragraphs.append(
        "Return with the groups of the campaign's methods, Macop = 1; mean ± standard deviation over seeds. The paper prints no "
        "figures; it says that the return grows with the population until it stays the same, considerably below Macop's."
    )
    for scenario, (points, _) in made.items():
        body = [[f"{point.value:g}", str(point.cell), f"{point.cell.mean:.2f}"] for point in points]
        paragraphs += [f"## {scenario}", markdown(["population", "scaled", "return"], body)]
    return write_text(out / "fig-population.md", paragraphs)


def draw(made: dict[str, tuple[list[Point], Cell | None]], path: Path) -> None:
    plt = plots.pyplot()
    figure, axes = plt.subplots(1, len(made), figsize=(1 + 3.8 * len(made), 3.4), squeeze=False)
    for axis, (scenario, (points, rival)) in zip(axes[0], made.items(), strict=True):
        values, spread = [point.cell.value for point in points], [point.cell.std or 0.0 for point in points]
        axis.errorbar(
            [point.value for point in points], values, yerr=spread, fmt="o-", color=COLOURS["mate"], label="TrajeDi"
        )
        if rival:
            axis.axhline(rival.value, color=COLOURS["ego"], label="Macop")
            low, high = rival.value - (rival.std or 0.0), rival.value + (rival.std or 0.0)
            axis.axhspan(low, high, color=COLOURS["ego"], alpha=0.15)
        axis.set(title=scenario, xlabel="groups in the population")
        axis.legend()
    axes[0][0].set_ylabel("return")
    plots.save(figure, path)
