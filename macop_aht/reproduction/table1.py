"""The paper's main table: how well every method's ego does with the groups of all methods, scaled to Finetune = 1.

The first table is the paper's: its methods, and a pool of the groups that these have generated. In the second every generator
counts the same, since some have many more groups than others. The third has all methods of the campaign, with the groups of
methods that the paper does not have in the pool too. The last have what the field asks for now: interquartile means with
intervals, the worst tenth of the groups, and groups apart by how well the ego knows them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from macop_aht import plots
from macop_aht.evaluation.rows import Row
from macop_aht.evaluation.statistics import bootstrap, caveat, rank_sum, worst_decile
from macop_aht.reproduction.material import Material, markdown, paper, without, write_csv, write_text
from macop_aht.scenarios.palette import COLOURS

ANCHOR, RIVAL = "finetune", "macop"  # what returns are scaled to, and whom the symbols compare with
LEVEL = 0.05  # of the test
TIERS = ("seen", "unseen", "unseen generator")
Pairings = dict[tuple[int, str], float]  # mean return of a method's ego by seed and teammate


@dataclass(frozen=True)
class Cell:
    """A method in a scenario; `value` and `std`, over seeds, are scaled."""

    value: float
    std: float | None  # of a sample; None where there is one seed
    mean: float  # the return itself
    seeds: int
    symbol: str  # +, ≈ or - where it is inferior to Macop, about the same or superior; n/a under four seeds
    p: float | None

    def __str__(self) -> str:
        spread = "" if self.std is None else f" ± {self.std:.2f}"
        return f"{self.value:.2f}{spread}"


def pairings(rows: Sequence[Row]) -> dict[str, Pairings]:
    """The test episodes, by method: each group has as many."""
    found: dict[str, dict[tuple[int, str], list[float]]] = {}
    for row in rows:
        if row.stage == "test":
            found.setdefault(row.method, {}).setdefault((row.seed, row.teammate), []).append(row.return_)
    return {method: {pair: float(np.mean(own)) for pair, own in pairs.items()} for method, pairs in found.items()}


def by_seed(pairs: Pairings, balanced: bool = False) -> list[float]:
    """The mean return of every seed's ego: over all groups, or over the generators' own means."""
    found: dict[int, dict[str, list[float]]] = {}
    for (seed, teammate), value in pairs.items():
        generator = teammate.split("/")[0] if balanced else ""
        found.setdefault(seed, {}).setdefault(generator, []).append(value)
    return [float(np.mean([np.mean(own) for own in generators.values()])) for generators in found.values()]


def cells(returns: Mapping[str, Sequence[float]], anchor_name: str = ANCHOR) -> dict[str, Cell]:
    """A scenario's column, from every method's mean return by seed. Without the one that is scaled to, nothing is scaled."""
    anchor = float(np.mean(returns[anchor_name])) if anchor_name in returns else 1.0
    found = {}
    for method, own in returns.items():
        rival = returns.get(RIVAL, ()) if method != RIVAL else ()
        p, mean = rank_sum(own, rival), float(np.mean(own))
        std = _over(float(np.std(own, ddof=1)), anchor) if len(own) > 1 else None
        symbol = _symbol(p, mean, float(np.mean(rival))) if len(rival) else ""
        found[method] = Cell(_over(mean, anchor), std, mean, len(own), symbol, p)
    return found


def _over(value: float, anchor: float) -> float:
    """Where the one that is scaled to gets nothing, there is no figure."""
    return value / anchor if anchor else float("nan")


def _symbol(p: float | None, own: float, rival: float) -> str:
    if p is None:
        return "n/a"
    return "≈" if p >= LEVEL or own == rival else "+" if own < rival else "-"


def improvement(columns: Mapping[str, Mapping[str, Cell]], method: str) -> float | None:
    """Over Finetune in percent, averaged over the scenarios that have both; None where there is none."""
    values = [column[method].value for column in columns.values() if method in column and ANCHOR in column]
    return 100 * (float(np.mean(values)) - 1) if values else None


def comparable(columns: Mapping[str, Mapping[str, Cell]]) -> dict[str, dict[str, list[float]]]:
    """The paper's figures in those of our scenarios that are scaled as its are, by method."""
    scaled = [scenario for scenario, column in columns.items() if ANCHOR in column]
    return {
        method: {scenario: figures[scenario] for scenario in scaled if scenario in figures}
        for method, figures in paper()["table1"].items()
    }


# --- Text


def scaled_table(columns: Mapping[str, Mapping[str, Cell]], methods: Sequence[str], papers: Mapping[str, Any]) -> str:
    """Ours, and the paper's in brackets; the best of every column in bold."""
    lines = []
    for method in methods:
        line = [method]
        for scenario, column in columns.items():
            theirs = papers.get(method, {}).get(scenario)
            beside = f" ({theirs[0]:.2f} ± {theirs[1]:.2f})" if theirs else ""
            line.append(_marked(column, method) + beside if method in column else "missing")
        gain, published = improvement(columns, method), list(papers.get(method, {}).values())
        beside = f" ({100 * (np.mean([value for value, _ in published]) - 1):+.1f})" if published else ""
        line.append("/" if method == ANCHOR else ("-" if gain is None else f"{gain:+.1f}") + beside)
        lines.append(line)
    lines.append(["+/≈/-", *(_counts(column) for column in columns.values()), ""])
    return markdown(["method", *columns, "improvement, %"], lines)


def _marked(column: Mapping[str, Cell], method: str) -> str:
    cell, best = column[method], max(cell.value for cell in column.values())
    text = f"**{cell}**" if cell.value == best else str(cell)
    return f"{text} {cell.symbol}".strip()


def _counts(column: Mapping[str, Cell]) -> str:
    symbols = [cell.symbol for cell in column.values() if cell.symbol]
    if not symbols or "n/a" in symbols:
        return "n/a"
    return "/".join(str(symbols.count(symbol)) for symbol in ("+", "≈", "-"))


def modern(rows: Sequence[Row], pairs: Mapping[str, Pairings]) -> dict[str, list[object]]:
    """By method: interquartile mean and its interval, the worst tenth of the groups, and the mean of every tier."""
    of_tier: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        if row.stage == "test":
            of_tier.setdefault((row.method, row.tier), []).append(row.return_)
    found: dict[str, list[object]] = {}
    for method, own in pairs.items():
        middle = bootstrap(own, np.random.default_rng(0))
        groups: dict[str, list[float]] = {}
        for (_, teammate), value in own.items():
            groups.setdefault(teammate, []).append(value)
        tiers = [of_tier.get((method, tier)) for tier in TIERS]
        found[method] = [
            middle.value,
            middle.low,
            middle.high,
            worst_decile([float(np.mean(values)) for values in groups.values()]),
            *(None if values is None else float(np.mean(values)) for values in tiers),
        ]
    return found


def modern_table(figures: Mapping[str, Sequence[Any]], methods: Sequence[str]) -> str:
    lines = []
    for method in methods:
        if method in figures:
            middle, low, high, *others = figures[method]
            texts = ["-" if value is None else f"{value:.2f}" for value in others]
            lines.append([method, f"{middle:.2f} ({low:.2f} to {high:.2f})", *texts])
    return markdown(["method", "interquartile mean", "worst tenth of groups", *TIERS], lines)


# --- All of it


def of_paper(rows: Mapping[str, Sequence[Row]]) -> dict[str, list[Row]]:
    """The rows of the paper's methods, with groups of these."""
    theirs = paper()["table1"]
    return {
        scenario: [row for row in own if row.method in theirs and row.generator in theirs]
        for scenario, own in rows.items()
    }


def columns_of(
    rows: Mapping[str, Sequence[Row]], methods: Sequence[str], balanced: bool = False
) -> dict[str, dict[str, Cell]]:
    """The table by scenario and method."""
    pairs = {scenario: pairings(own) for scenario, own in rows.items()}
    return {
        scenario: cells({method: by_seed(own[method], balanced) for method in methods if method in own})
        for scenario, own in pairs.items()
    }


def write(material: Material, out: Path) -> str:
    """table1.md, table1.csv, table1.png, and table1-all.csv with the methods that the paper does not have."""
    everything, every = material.rows(), material.campaign.methods
    rows, methods = of_paper(everything), [method for method in every if method in paper()["table1"]]
    columns, balanced, beyond = (
        columns_of(rows, methods), columns_of(rows, methods, balanced=True), columns_of(everything, every)
    )  # fmt: skip
    figures = {scenario: modern(own, pairings(own)) for scenario, own in everything.items()}
    papers = comparable(columns)
    _write_csv(
        out / "table1.csv", columns, balanced, {s: modern(own, pairings(own)) for s, own in rows.items()}, papers
    )
    _write_csv(out / "table1-all.csv", beyond, columns_of(everything, every, balanced=True), figures, {})
    draw(columns, methods, papers, out / "table1.png")
    paragraphs = [
        "# Table 1: return with all groups of the paper's methods, Finetune = 1",
        *notes(material, everything, columns),
        f"{_groups_in(rows)}.",
        scaled_table(columns, methods, papers),
        "## Every generator counts the same",
        scaled_table(balanced, methods, {}),
        "## All methods, pool of all groups",
        f"{_groups_in(everything)}.",
        scaled_table(beyond, every, {}),
    ]
    for scenario, own in figures.items():
        paragraphs += [f"## {scenario}: returns with the groups of all methods, not scaled", modern_table(own, every)]
    paragraphs.append(
        "Intervals of 95% by bootstrap over the mean returns with every group; seeds and groups are resampled. "
        + caveat(len({row.seed for own in everything.values() for row in own}))
    )
    return write_text(out / "table1.md", paragraphs)


def notes(
    material: Material, rows: Mapping[str, Sequence[Row]], columns: Mapping[str, Mapping[str, Cell]]
) -> list[str]:
    """What is in the table, and what is not."""
    campaign = material.campaign
    wanted = [
        (scenario, method, seed)
        for scenario in campaign.scenarios
        for method in campaign.methods
        for seed in campaign.seeds
    ]
    found = [(row.scenario, row.method, row.seed) for own in rows.values() for row in own]
    unscaled = [scenario for scenario, column in columns.items() if ANCHOR not in column]
    return [
        without(wanted, found),
        f"**Not scaled, since Finetune is missing:** {', '.join(unscaled)}." if unscaled else "",
        f"Preset `{campaign.preset}`, {len(campaign.seeds)} seeds, {campaign.episodes} greedy episodes with every group. "
        "Mean ± standard deviation of a sample over seeds; the paper's figures in brackets, its improvement over "
        "the same scenarios. +, ≈ and - are for inferior to Macop, about the same, superior, by Wilcoxon's rank-sum test over "
        "the seeds' means at 0.05; n/a under four seeds.",
    ]


def _groups_in(rows: Mapping[str, Sequence[Row]]) -> str:
    counts = [f"{len({row.teammate for row in own})} in {scenario}" for scenario, own in rows.items()]
    return f"Groups in the pool: {', '.join(counts)}"


def _write_csv(
    path: Path,
    columns: Mapping[str, Mapping[str, Cell]],
    balanced: Mapping[str, Mapping[str, Cell]],
    figures: Mapping[str, Mapping[str, Sequence[object]]],
    papers: Mapping[str, Any],
) -> None:
    head = ["scenario", "method", "seeds", "return", "scaled", "scaled_std", "p", "symbol", "balanced_scaled"]
    head += ["balanced_std", "iqm", "iqm_low", "iqm_high", "worst_tenth", *(tier.replace(" ", "_") for tier in TIERS)]
    head += ["paper", "paper_std"]
    lines = []
    for scenario, column in columns.items():
        for method, cell in column.items():
            even, theirs = balanced[scenario][method], papers.get(method, {}).get(scenario, [None, None])
            ours = [cell.seeds, cell.mean, cell.value, cell.std, cell.p, cell.symbol, even.value, even.std]
            lines.append([scenario, method, *ours, *figures[scenario][method], *theirs])
    write_csv(path, head, lines)


def draw(
    columns: Mapping[str, Mapping[str, Cell]], methods: Sequence[str], papers: Mapping[str, Any], path: Path
) -> None:
    """Bars, and the paper's figures as diamonds."""
    plt = plots.pyplot()
    figure, axes = plt.subplots(1, len(columns), figsize=(1.5 + 3.2 * len(columns), 3.6), squeeze=False)
    for axis, (scenario, column) in zip(axes[0], columns.items(), strict=True):
        present = [method for method in methods if method in column]
        values, spread = [column[name].value for name in present], [column[name].std or 0.0 for name in present]
        axis.bar(range(len(present)), values, yerr=spread, color=COLOURS["mate"], capsize=3)
        theirs = [(k, papers[name][scenario][0]) for k, name in enumerate(present) if scenario in papers.get(name, {})]
        if theirs:
            axis.plot(*zip(*theirs, strict=True), "D", color=COLOURS["ego"], label="the paper's")
            axis.legend(fontsize=8)
        axis.set_xticks(range(len(present)), present, rotation=60, ha="right")
        axis.set_title(scenario)
    axes[0][0].set_ylabel("return, Finetune = 1")
    plots.save(figure, path)
