"""The paper's ablation: Macop beside itself without one of its parts, with the groups of all of them in the evaluation set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from macop_aht import plots
from macop_aht.evaluation.rows import Row
from macop_aht.reproduction.material import Material, markdown, paper, without, write_csv, write_text
from macop_aht.reproduction.table1 import Cell, by_seed, cells, pairings
from macop_aht.scenarios.palette import COLOURS

WHOLE = "macop"  # what the variations are of, and scaled to


def columns(material: Material, rows: Mapping[str, Sequence[Row]]) -> dict[str, dict[str, Cell]]:
    """Macop and its variations in every scenario that has some, in the order of the campaign's file; scaled to Macop = 1."""
    found = {}
    for scenario, own in rows.items():
        names = [name for name, one in material.campaign.varied(scenario).items() if one.method == WHOLE]
        pairs = pairings(own)
        if names:
            present = [name for name in (WHOLE, *names) if name in pairs]
            found[scenario] = cells({name: by_seed(pairs[name]) for name in present}, WHOLE)
    if not found:
        raise ValueError(
            f"the campaign in {material.folder} has evaluated no variations of {WHOLE}; name some in its file"
        )
    return found


def missing(material: Material, rows: Mapping[str, Sequence[Row]]) -> str:
    """A note on the runs that the rows lack."""
    campaign = material.campaign
    wanted = [
        (scenario, name, seed)
        for scenario in campaign.scenarios
        for name in (WHOLE, *campaign.varied(scenario))
        for seed in campaign.seeds
    ]
    return without(wanted, [(row.scenario, row.method, row.seed) for own in rows.values() for row in own])


def write(material: Material, out: Path) -> str:
    """fig-ablation.md, fig-ablation.csv, fig-ablation.png."""
    rows = material.rows()
    found = columns(material, rows)
    lines = [
        [scenario, name, cell.seeds, cell.mean, cell.value, cell.std, cell.p, cell.symbol]
        for scenario, column in found.items()
        for name, cell in column.items()
    ]
    head = ["scenario", "variation", "seeds", "return", "scaled", "scaled_std", "p", "symbol"]
    write_csv(out / "fig-ablation.csv", head, lines)
    draw(found, out / "fig-ablation.png")
    note = (
        "Return with all groups of the evaluation set, Macop = 1; mean ± standard deviation of a sample over seeds. +, ≈ and - "
        "are for inferior to Macop, about the same, superior, by Wilcoxon's rank-sum test at 0.05; n/a under four seeds."
    )
    title = "# Ablation: Macop without its parts"
    return write_text(out / "fig-ablation.md", [title, missing(material, rows), note, table(found), compared(found)])


def table(found: Mapping[str, Mapping[str, Cell]]) -> str:
    names = dict.fromkeys(name for column in found.values() for name in column)
    body = [
        [
            name,
            *(f"{column[name]} {column[name].symbol}".strip() if name in column else "-" for column in found.values()),
        ]
        for name in names
    ]
    return markdown(["variation", *found], body)


def compared(found: Mapping[str, Mapping[str, Cell]]) -> str:
    """The paper prints no figures; what its text says, and whether that is so here."""
    told = paper()["ablation"]
    lines = []
    for scenario, column in found.items():
        order = sorted(column, key=lambda name: column[name].value)
        says = (
            f"the paper: {told['best']} is best, {told['worst']} worst"
            if scenario in told["scenarios"]
            else "not in the paper"
        )
        lines.append(f"- {scenario}: {order[-1]} is best, {order[0]} worst ({says}).")
    return "\n".join(lines)


def draw(found: Mapping[str, Mapping[str, Cell]], path: Path) -> None:
    plt = plots.pyplot()
    figure, axes = plt.subplots(1, len(found), figsize=(1.5 + 3.0 * len(found), 3.6), squeeze=False)
    for axis, (scenario, column) in zip(axes[0], found.items(), strict=True):
        values, spread = [cell.value for cell in column.values()], [cell.std or 0.0 for cell in column.values()]
        colours = [COLOURS["ego" if name == WHOLE else "mate"] for name in column]
        axis.bar(range(len(column)), values, yerr=spread, color=colours, capsize=3)
        axis.set_xticks(range(len(column)), list(column), rotation=45, ha="right")
        axis.set_title(scenario)
    axes[0][0].set_ylabel("return, Macop = 1")
    plots.save(figure, path)
