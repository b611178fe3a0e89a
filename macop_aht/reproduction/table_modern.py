"""What the field asks for beside the paper's table, over all scenarios of a campaign.

A return is normalised by the best that is known with the group: its own self-play, or an ego's. So scenarios and groups of
different worth count alike, and 1 means that nobody is known to do better.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path

import numpy as np

from macop_aht import plots
from macop_aht.evaluation.rows import Row
from macop_aht.evaluation.statistics import Estimate, bootstrap, caveat, interquartile_mean, worst_decile
from macop_aht.reproduction.material import Material, markdown, write_csv, write_text
from macop_aht.reproduction.table1 import RIVAL, TIERS, Pairings, notes, pairings
from macop_aht.runs.folder import RunFolder
from macop_aht.scenarios.palette import COLOURS

Scenarios = Mapping[str, Mapping[str, Pairings]]  # normalised returns by scenario, method, and seed and group


@dataclass(frozen=True)
class Line:
    """A method over all scenarios; returns are normalised."""

    iqm: float  # interquartile mean
    iqm_low: float
    iqm_high: float
    mean: float
    gap: float  # on average, what is missing to 1
    worst_tenth: float  # of the groups of a scenario, on average over scenarios
    improvement: float | None  # the chance that a run of Macop is better than one of it
    selection: float  # episodes of choosing a head, with every group


def best_known(rows: Sequence[Row], self_play: Mapping[str, float]) -> dict[str, float]:
    """The best mean return with every group: an ego's, or its own among itself.

    The ego is chosen by every other episode and counts by the rest: of many that are equally good, the luckiest would
    seem better than any is.
    """
    tried, counted = (pairings([row for row in rows if row.episode % 2 == half]) for half in (0, 1))
    found = dict(self_play)
    top: dict[str, float] = {}
    for method, own in tried.items():
        for pair, value in own.items():
            own_play = self_play.get(pair[1], -np.inf)
            if value > top.get(pair[1], own_play):
                top[pair[1]] = value
                found[pair[1]] = max(counted.get(method, {}).get(pair, value), own_play)
    return found


def self_play(material: Material, scenario: str) -> dict[str, float]:
    """Of every group in the campaign, as its run has measured it."""
    found: dict[str, float] = {}
    campaign = material.campaign
    for (its, name, seed), folder in material.runs([*campaign.methods, *campaign.varied()]).items():
        if its == scenario:
            summary = RunFolder(folder).summary()
            values = zip(summary.groups, summary.self_play, strict=True)
            found |= {f"{name}/{seed}/{group}": value for group, value in values}
    return found


def normalised(pairs: Mapping[str, Pairings], best: Mapping[str, float]) -> dict[str, Pairings]:
    """Groups with which nobody gets anything are left out."""
    return {
        method: {(seed, group): value / best[group] for (seed, group), value in own.items() if best[group] > 0}
        for method, own in pairs.items()
    }


def interval(scenarios: Scenarios, method: str) -> Estimate:
    """Of all its normalised returns; seeds are resampled, and the groups of all scenarios."""
    values = {
        (seed, (scenario, group)): value
        for scenario, own in scenarios.items()
        for (seed, group), value in own.get(method, {}).items()
    }
    return bootstrap(values, np.random.default_rng(0))


def improvement(scenarios: Scenarios, first: str, second: str) -> float | None:
    """The chance that a run of the first is better than one of the second, on average over scenarios; a tie is a half."""
    chances = []
    for own in scenarios.values():
        if first in own and second in own:
            ours, theirs = (np.array(list(_means(own[name]).values())) for name in (first, second))
            chances.append(float((np.sign(ours[:, None] - theirs[None]) / 2 + 0.5).mean()))
    return float(np.mean(chances)) if chances else None


def _means(pairs: Pairings, by: int = 0) -> dict[object, float]:
    """By seed (0) or by group (1)."""
    found: dict[object, list[float]] = {}
    for key, value in pairs.items():
        found.setdefault(key[by], []).append(value)
    return {name: float(np.mean(own)) for name, own in found.items()}


def selection(rows: Mapping[str, Sequence[Row]], method: str) -> float:
    """Episodes of choosing a head, for each ego and group."""
    own = [row for part in rows.values() for row in part if row.method == method]
    pairs = {(row.scenario, row.seed, row.teammate) for row in own}
    return sum(row.stage == "selection" for row in own) / max(len(pairs), 1)


def line(scenarios: Scenarios, rows: Mapping[str, Sequence[Row]], method: str) -> Line:
    """All figures of a method."""
    values = np.array([value for own in scenarios.values() for value in own.get(method, {}).values()])
    worst = [worst_decile(list(_means(own[method], by=1).values())) for own in scenarios.values() if method in own]
    middle, gap = interval(scenarios, method), float(np.maximum(1 - values, 0).mean())
    chance = improvement(scenarios, RIVAL, method) if method != RIVAL else None
    figures = (middle.value, middle.low, middle.high, float(values.mean()), gap, float(np.mean(worst)), chance)
    return Line(*figures, selection(rows, method))


def by_tier(scenarios: Scenarios, rows: Mapping[str, Sequence[Row]], method: str) -> list[float | None]:
    """The interquartile mean with groups that its ego has met, others of their generators, those of other generators."""
    tiers: dict[str, list[float]] = {tier: [] for tier in TIERS}
    for scenario, own in scenarios.items():
        known = {(row.seed, row.teammate): row.tier for row in rows[scenario] if row.method == method}
        for pair, value in own.get(method, {}).items():
            tiers.setdefault(known[pair], []).append(value)
    return [float(interquartile_mean(np.array(tiers[tier]))) if tiers[tier] else None for tier in TIERS]


def write(material: Material, out: Path) -> str:
    """table-modern.md, table-modern.csv, table-modern.png."""
    rows = material.rows()
    scenarios = {
        scenario: normalised(pairings(own), best_known(own, self_play(material, scenario)))
        for scenario, own in rows.items()
    }
    names = [*material.campaign.methods, *material.campaign.varied()]
    present = [name for name in names if any(own.get(name) for own in scenarios.values())]
    lines = {name: line(scenarios, rows, name) for name in present}
    tiers = {name: by_tier(scenarios, rows, name) for name in present}
    head = ["method", *(column.name for column in fields(Line)), *(tier.replace(" ", "_") for tier in TIERS)]
    write_csv(out / "table-modern.csv", head, [[name, *astuple(own), *tiers[name]] for name, own in lines.items()])
    draw(lines, out / "table-modern.png")
    note = (
        "Returns are normalised by the best that is known with the group. Interquartile means with intervals of 95% by bootstrap "
        "over the mean returns with every group, seeds and groups resampled; gap: what is missing to 1 on average; worst tenth "
        "of a scenario's groups; the chance that a run of Macop is better than one of the method; episodes of choosing a head "
        "with a group, which are in none of the other figures; then interquartile means by how well the ego knows the groups."
    )
    title = f"# All methods with the groups of all methods: {', '.join(rows)}"
    missing, seeds = notes(material, rows, {})[0], {row.seed for own in rows.values() for row in own}
    return write_text(out / "table-modern.md", [title, missing, note, caveat(len(seeds)), table(lines, tiers)])


def table(lines: Mapping[str, Line], tiers: Mapping[str, Sequence[float | None]]) -> str:
    def text(value: float | None) -> str:
        return "-" if value is None else f"{value:.2f}"

    body = []
    for name, own in sorted(lines.items(), key=lambda item: -item[1].iqm):
        middle = f"{own.iqm:.2f} ({own.iqm_low:.2f} to {own.iqm_high:.2f})"
        figures = [text(value) for value in (own.mean, own.gap, own.worst_tenth, own.improvement)]
        body.append([name, middle, *figures, f"{own.selection:.0f}", *map(text, tiers[name])])
    head = ["method", "interquartile mean", "mean", "gap", "worst tenth", "Macop better", "choosing", *TIERS]
    return markdown(head, body)


def draw(lines: Mapping[str, Line], path: Path) -> None:
    """Interquartile means with their intervals, the best on top."""
    plt = plots.pyplot()
    order = sorted(lines, key=lambda name: lines[name].iqm)
    figure, axis = plt.subplots(figsize=(6, 1 + 0.35 * len(order)))
    for k, name in enumerate(order):
        own = lines[name]
        axis.plot([own.iqm_low, own.iqm_high], [k, k], color=COLOURS["mate"], linewidth=6, alpha=0.5)
        axis.plot(own.iqm, k, "|", color=COLOURS["ego"], markersize=14, markeredgewidth=3)
    axis.set_yticks(range(len(order)), order)
    axis.set_xlabel("interquartile mean of normalised returns, 95% interval")
    plots.save(figure, path)
