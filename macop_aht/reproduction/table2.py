"""The paper's table of continual learning: what learners forget and gain as they go through one sequence of groups.

BWT is what learning does to the returns with earlier groups, FWT what earlier groups do to the return with a newly learnt one,
against an ego that was begun anew for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from macop_aht import plots
from macop_aht.campaign.plan import BASE, on_sequence
from macop_aht.evaluation.metrics import backward_transfer, forward_transfer, returns_over_time
from macop_aht.reproduction.material import Material, markdown, mean_and_std, paper, without, write_csv, write_text
from macop_aht.runs.folder import RunFolder
from macop_aht.scenarios.palette import COLOURS

CALLED = {"multi-head": "macop"}  # what the paper calls a learner, where that is another name
Direction = Literal["backward", "forward"]
TITLES: dict[Direction, str] = {"backward": "BWT", "forward": "FWT"}
Transfer = dict[Direction, list[float]]  # of every seed


def matrix(folder: Path) -> np.ndarray:
    """The returns of a learner with every group of its sequence after each: (K,K)."""
    return returns_over_time(RunFolder(folder).decisions())


def transfer(runs: Mapping[tuple[str, str, int], Path], scenario: str, learner: str) -> Transfer:
    """Both figures of every seed that has the learner and the one that it is compared with."""
    found: Transfer = {"backward": [], "forward": []}
    for (its, called, seed), folder in runs.items():
        base = runs.get((scenario, on_sequence(BASE), seed))
        if (its, called) == (scenario, on_sequence(learner)):
            returns = matrix(folder)
            found["backward"].append(backward_transfer(returns))
            if base:
                found["forward"].append(forward_transfer(returns, np.diag(matrix(base))))
    return found


def write(material: Material, out: Path) -> str:
    """table2.md, table2.csv, table2.png."""
    campaign = material.campaign
    if not campaign.learners:
        raise ValueError(
            f"the campaign in {material.folder} has no learners; name some, such as 'multi-head', in its file"
        )
    names = [on_sequence(learner) for learner in campaign.through_sequence]
    runs = material.runs(names)
    if not runs:
        raise ValueError(f"{material.folder} has no finished run of a learner; resume it with macop campaign first")
    figures = {
        scenario: {learner: transfer(runs, scenario, learner) for learner in campaign.learners}
        for scenario in campaign.scenarios
    }
    figures = {scenario: own for scenario, own in figures.items() if any(one["backward"] for one in own.values())}
    wanted = [(s, name, seed) for s in campaign.scenarios for name in names for seed in campaign.seeds]
    write_csv(
        out / "table2.csv",
        ["scenario", "method", "figure", "seeds", "mean", "std", "paper", "paper_std"],
        lines(figures),
    )
    draw(figures, out / "table2.png")
    note = (
        f"Preset `{campaign.preset}`; sequences of {campaign.sequence or 'all'} groups, one for each seed, from the runs of "
        f"{', '.join(campaign.generators)} with that seed. Mean ± standard deviation of a sample over seeds, in returns; the "
        "paper's figures in brackets."
    )
    title = "# Table 2: backward and forward transfer"
    return write_text(out / "table2.md", [title, without(wanted, runs), note, table(figures, campaign.learners)])


def theirs(learner: str, scenario: str, direction: Direction) -> list[float] | None:
    """The paper's mean and std, where it has them."""
    return paper()["table2"].get(CALLED.get(learner, learner), {}).get(scenario, {}).get(direction)


def lines(figures: Mapping[str, Mapping[str, Transfer]]) -> list[list[object]]:
    """A line for every figure."""
    found: list[list[object]] = []
    for scenario, own in figures.items():
        for learner, values in own.items():
            for direction, title in TITLES.items():
                if values[direction]:
                    ours = [len(values[direction]), *mean_and_std(values[direction])]
                    beside: list[Any] = theirs(learner, scenario, direction) or [None, None]
                    found.append([scenario, CALLED.get(learner, learner), title, *ours, *beside])
    return found


def table(figures: Mapping[str, Mapping[str, Transfer]], learners: Sequence[str]) -> str:
    """Ours, and the paper's in brackets; the best of every column in bold."""
    body = []
    for learner in learners:
        line = [CALLED.get(learner, learner)]
        for scenario, own in figures.items():
            line += [_cell(own, learner, scenario, direction) for direction in TITLES]
        body.append(line)
    return markdown(["method", *(f"{s} {title}" for s in figures for title in TITLES.values())], body)


def _cell(own: Mapping[str, Transfer], learner: str, scenario: str, direction: Direction) -> str:
    values, beside = own[learner][direction], theirs(learner, scenario, direction)
    papers = f" ({beside[0]:.2f} ± {beside[1]:.2f})" if beside else ""
    if not values:
        return "missing" + papers
    mean, std = mean_and_std(values)
    shown = round(mean, 2) + 0.0  # not -0.00
    best = max(round(float(np.mean(other[direction])), 2) for other in own.values() if other[direction])
    text = f"{shown:.2f}" + ("" if std is None else f" ± {std:.2f}")
    return (f"**{text}**" if shown == best else text) + papers


def draw(figures: Mapping[str, Mapping[str, Transfer]], path: Path) -> None:
    """Bars, and the paper's figures as diamonds: a row for each figure, a column for each scenario."""
    plt = plots.pyplot()
    figure, axes = plt.subplots(2, len(figures), figsize=(1.5 + 2.6 * len(figures), 5.6), squeeze=False, sharex="col")
    for column, (scenario, own) in zip(axes.T, figures.items(), strict=True):
        column[0].set_title(scenario)
        for axis, direction in zip(column, TITLES, strict=True):
            _bars(axis, scenario, own, direction)
    for axis, title in zip(axes[:, 0], TITLES.values(), strict=True):
        axis.set_ylabel(title)
    plots.save(figure, path)


def _bars(axis: Any, scenario: str, own: Mapping[str, Transfer], direction: Direction) -> None:
    present = [learner for learner, values in own.items() if values[direction]]
    ours = [mean_and_std(own[learner][direction]) for learner in present]
    axis.bar(
        range(len(present)), [mean for mean, _ in ours], yerr=[std or 0.0 for _, std in ours], color=COLOURS["mate"]
    )
    for k, learner in enumerate(present):
        beside = theirs(learner, scenario, direction)
        if beside:
            axis.plot(k, beside[0], "D", color=COLOURS["ego"])
    axis.axhline(0.0, color="black", linewidth=0.6)
    axis.set_xticks(range(len(present)), [CALLED.get(learner, learner) for learner in present], rotation=60, ha="right")
