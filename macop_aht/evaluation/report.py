"""An evaluation as one self-contained HTML page: the table, with the plots inside."""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from macop_aht import plots
from macop_aht.evaluation.evaluate import TIERS, lines
from macop_aht.evaluation.rows import Row
from macop_aht.scenarios.palette import COLOURS
from macop_aht.util import write_whole

RETURNS = ("mean", "interquartile mean", "over the best response", "worst tenth")
STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #1f2933; }
table { border-collapse: collapse; } td, th { padding: .3rem .8rem; border-bottom: 1px solid #ddd; text-align: right; }
td:first-child, th:first-child { text-align: left; } img { max-width: 100%; }
"""


def write(rows: Sequence[Row], path: Path) -> None:
    """Write the page. Needs matplotlib."""
    agent, scenario = html.escape(rows[0].method), html.escape(rows[0].scenario)
    head = "".join(f"<th>{name}</th>" for name in ("tier", "teammates", "episodes", *RETURNS))
    body = "".join(
        f"<tr><td>{line.tier}</td><td>{line.teammates}</td><td>{line.episodes}</td><td>{line.mean:.2f}</td><td>{line.result}</td>"
        f"<td>{line.normalised or '-'}</td><td>{line.worst:.2f}</td></tr>"
        for line in lines(rows)
    )
    page = f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{agent} on {scenario}</title><style>{STYLE}</style></head><body>
<h1>{agent} on {scenario}</h1>
<p>All figures are over the mean returns with every teammate. 95% bootstrap intervals. {len(rows):,} episodes.</p>
<table><tr>{head}</tr>{body}</table>
<h2>With every teammate</h2><img alt="mean return with every teammate" src="{_picture(_by_teammate(rows))}">
<h2>Distribution of the returns</h2><img alt="share of teammates above a return" src="{_picture(_profile(rows))}">
</body></html>
"""
    write_whole(path, page)


def _picture(figure: Any) -> str:
    content = io.BytesIO()
    figure.tight_layout()
    figure.savefig(content, format="png", dpi=100)
    plots.pyplot().close(figure)
    return "data:image/png;base64," + base64.b64encode(content.getvalue()).decode()


def _means(rows: Sequence[Row], tier: str) -> dict[str, float]:
    own: dict[str, list[float]] = {}
    for row in rows:
        if row.tier == tier and row.stage == "test":
            own.setdefault(row.teammate, []).append(row.return_)
    return {name: float(np.mean(results)) for name, results in own.items()}


def _by_teammate(rows: Sequence[Row]) -> Any:
    """A bar for every teammate, the tiers in colours."""
    means = [(tier, name, mean) for tier in TIERS for name, mean in _means(rows, tier).items()]
    figure, axis = plots.pyplot().subplots(figsize=(9, 1 + 0.25 * len(means)))
    roles = ("ego", "food", "mate", "landmark", "shield", "prey")
    colours = {tier: COLOURS[role] for tier, role in zip(TIERS, roles, strict=True)}
    for place, (tier, _, mean) in enumerate(means):
        axis.barh(place, mean, color=colours[tier])
    axis.set_yticks(range(len(means)), [f"{name} ({tier})" for tier, name, _ in means], fontsize=8)
    axis.invert_yaxis()
    axis.set_xlabel("mean return")
    return figure


def _profile(rows: Sequence[Row]) -> Any:
    """The share of teammates with which the mean return is above a value."""
    figure, axis = plots.pyplot().subplots(figsize=(9, 3.5))
    for tier in TIERS:
        means = np.sort(list(_means(rows, tier).values()))
        if len(means):
            axis.step(np.append(means, means[-1]), 1 - np.arange(len(means) + 1) / len(means), where="pre", label=tier)
    axis.set(xlabel="mean return", ylabel="share of teammates above", ylim=(0, 1.05))
    axis.legend()
    return figure
