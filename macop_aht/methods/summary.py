"""What a finished run has come to: a table, the cross-play matrix, and the paper's figures of the process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from macop_aht import plots
from macop_aht.methods.behaviour import Behaviour, watch_self_play
from macop_aht.methods.phases import Result, Setup, cross_returns
from macop_aht.methods.registry import MACOPS, MethodRun, preset_of
from macop_aht.runs.folder import RunFolder
from macop_aht.runs.records import Decision, Summary, iterations
from macop_aht.util import show

EPISODES = 100  # of self-play, behind every outcome


@dataclass(frozen=True)
class Finished:
    """A run that has come to its end."""

    run: MethodRun
    folder: RunFolder
    setup: Setup[Any]
    result: Result  # the ego and the groups
    decisions: list[Decision]
    summary: Summary | None = None
    text: str = ""  # the summary as a table

    @property
    def minutes(self) -> float:
        """Of training, over all parts of the run."""
        return self.folder.minutes

    @property
    def commits(self) -> list[str]:
        """Of the code, in the order of the parts."""
        return self.folder.commits


def finish(finished: Finished, say: Callable[[str], None] = show) -> Finished:
    """Write summary.md, crossplay.csv, the figures where matplotlib is installed, and last of all summary.json.

    Returns the run with its summary.
    """
    setup, result, folder = finished.setup, finished.result, finished.folder
    behaviours = watch_self_play(setup.world, result.groups, EPISODES, setup.phase_seed(1_000), setup.device)
    chosen = cross_returns(setup, result.ego, result.groups, setup.phase_seed(1_001)).argmax(axis=0)
    # measured in other episodes than those that the heads are chosen by
    matrix = cross_returns(setup, result.ego, result.groups, setup.phase_seed(1_002))
    summary = summarise(finished, behaviours, matrix, chosen)
    text = table(finished, summary, matrix, chosen)
    folder.write_report(text, matrix, result.names)
    try:
        draw(finished, behaviours, matrix)
    except ImportError as error:
        say(f"no figures: {error}")
    folder.write_summary(summary)
    return replace(finished, summary=summary, text=text)


def ego_returns(result: Result, matrix: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """Return what the ego gets with every group, by its chosen heads or by a random one: (K,P) (P,) -> (P,)."""
    return matrix.mean(axis=0) if result.head == "random" else matrix[chosen, np.arange(len(chosen))]


def summarise(finished: Finished, behaviours: Sequence[Behaviour], matrix: np.ndarray, chosen: np.ndarray) -> Summary:
    """Return everything that tables over several runs are made of."""
    run, result = finished.run, finished.result
    compatible = [one.compatibility for one in finished.decisions if one.compatibility is not None]
    return Summary(
        scenario=run.scenario,
        method=run.method,
        seed=run.seed,
        preset=preset_of(run),
        commits=finished.commits,
        iterations=len(compatible) + 1,
        groups=result.names,
        heads=result.ego.n_heads,
        compatibility=compatible,
        self_play=[float(np.mean(behaviour.returns)) for behaviour in behaviours],
        joined=result.joined,
        ego=ego_returns(result, matrix, chosen).tolist(),
        best_head=matrix[chosen, np.arange(len(chosen))].tolist(),
        outcomes=[behaviour.outcome for behaviour in behaviours],
        minutes=round(finished.minutes, 1),
    )


def table(finished: Finished, summary: Summary, matrix: np.ndarray, chosen: np.ndarray) -> str:
    """Return the run in words, and every group in a line."""
    run, result, heads = finished.run, finished.result, len(matrix)
    outcomes = sorted({one for one in summary.outcomes if one})
    lines = [
        f"# {run.method} on {run.scenario}, seed {run.seed}",
        "",
        f"{len(result.names)} groups, {heads} head{'s' if heads > 1 else ''}, {finished.minutes:.1f} minutes. "
        f"{result.head.capitalize()}-head return {np.mean(summary.ego):.2f} on average over all groups. "
        f"Different outcomes: {len(outcomes)} ({', '.join(outcomes) or 'none'}).",
        "",
        f"| group | met | self-play | {result.head} head | its return | outcome |",
        "|---|---|---|---|---|---|",
    ]
    for k, name in enumerate(result.names):
        head = chosen[k] if result.head == "best" else "any"
        met = "yes" if name in result.joined else "no"
        figures = f"{summary.self_play[k]:.2f} | {head} | {summary.ego[k]:.2f}"
        lines.append(f"| {name} | {met} | {figures} | {summary.outcomes[k] or '-'} |")
    return "\n".join(lines) + "\n"


def draw(finished: Finished, behaviours: Sequence[Behaviour], matrix: np.ndarray) -> None:
    """Draw the cross-play matrix, how the groups move, and the process of methods that generate until all are compatible."""
    run, names, folder = finished.run, finished.result.names, finished.folder
    if run.method in MACOPS:
        plots.process(iterations(finished.decisions), run.config.stop_threshold, folder.figure("process"))
    heads = [f"head {k}" for k in range(len(matrix))]
    plots.heat_map(matrix, heads, names, f"{run.method} on {run.scenario}: return", folder.figure("crossplay"))
    if finished.setup.world.own:
        plots.ways(finished.setup.world, names, behaviours, folder.figure("ways"))
