"""What a finished run has come to: a table, the cross-play matrix, and the paper's figures of the process."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np

from macop_aht import plots
from macop_aht.methods.behaviour import Behaviour, watch_self_play
from macop_aht.methods.macop import MacopConfig
from macop_aht.methods.phases import Outcome, cross_returns
from macop_aht.methods.training import Finished, preset_of

EPISODES = 100  # of self-play, behind every deed


def write(finished: Finished, folder: Path, say: Callable[[str], None] = print) -> None:
    """summary.md, summary.json, crossplay.csv, and the figures where matplotlib is installed."""
    setup, outcome = finished.setup, finished.outcome
    behaviours = watch_self_play(setup.world, outcome.groups, EPISODES, setup.phase_seed(1_000), setup.device)
    chosen = cross_returns(setup, outcome.ego, outcome.groups, setup.phase_seed(1_001)).argmax(axis=0)
    matrix = cross_returns(
        setup, outcome.ego, outcome.groups, setup.phase_seed(1_002)
    )  # other episodes than those it is chosen by
    text = table(finished, behaviours, matrix, chosen)
    (folder / "summary.md").write_text(text, encoding="utf-8")
    (folder / "summary.json").write_text(json.dumps(figures(finished, behaviours, matrix, chosen), indent=1) + "\n")
    with open(folder / "crossplay.csv", "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["head", *outcome.names], *([k, *row] for k, row in enumerate(matrix.tolist()))])
    say(text)
    try:
        draw(finished, behaviours, matrix, folder)
    except ImportError as error:
        say(f"no figures: {error}")


def ego_returns(outcome: Outcome, matrix: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """What the ego gets with every group, by its chosen heads or by any: (K,P) (P,) -> (P,)."""
    return matrix.mean(axis=0) if outcome.head == "random" else matrix[chosen, np.arange(len(chosen))]


def figures(
    finished: Finished, behaviours: list[Behaviour], matrix: np.ndarray, chosen: np.ndarray
) -> dict[str, object]:
    """Everything that tables over several runs are made of."""
    compatible = [decision["compatibility"] for decision in finished.decisions if "compatibility" in decision]
    return {
        "scenario": finished.run.scenario,
        "method": finished.run.method,
        "seed": finished.run.seed,
        "preset": preset_of(finished.run),
        "commits": finished.commits,
        "iterations": len(compatible) + 1,
        "groups": finished.outcome.names,
        "heads": finished.outcome.ego.n_heads,
        "compatibility": compatible,
        "self_play": [float(np.mean(behaviour.returns)) for behaviour in behaviours],
        "joined": finished.outcome.joined,
        "ego": ego_returns(finished.outcome, matrix, chosen).tolist(),
        "best_head": matrix[chosen, np.arange(len(chosen))].tolist(),
        "deeds": [behaviour.outcome for behaviour in behaviours],
        "minutes": round(finished.minutes, 1),
    }


def table(finished: Finished, behaviours: list[Behaviour], matrix: np.ndarray, chosen: np.ndarray) -> str:
    """The run in words, and every group in a line."""
    run, outcome = finished.run, finished.outcome
    returns, heads = ego_returns(outcome, matrix, chosen), len(matrix)
    deeds = sorted({behaviour.outcome for behaviour in behaviours if behaviour.outcome})
    lines = [
        f"# {run.method} on {run.scenario}, seed {run.seed}",
        "",
        f"{len(outcome.names)} groups, {heads} head{'s' if heads > 1 else ''}, {finished.minutes:.1f} minutes. "
        f"{outcome.head.capitalize()}-head return {returns.mean():.2f} on average over all groups. "
        f"Different deeds: {len(deeds)} ({', '.join(deeds) or 'none'}).",
        "",
        f"| group | met | self-play | {outcome.head} head | its return | deed |",
        "|---|---|---|---|---|---|",
    ]
    for k, (name, behaviour) in enumerate(zip(outcome.names, behaviours, strict=True)):
        head = chosen[k] if outcome.head == "best" else "any"
        met = "yes" if name in outcome.joined else "no"
        figures = f"{np.mean(behaviour.returns):.2f} | {head} | {returns[k]:.2f}"
        lines.append(f"| {name} | {met} | {figures} | {behaviour.outcome or '-'} |")
    return "\n".join(lines) + "\n"


def draw(finished: Finished, behaviours: list[Behaviour], matrix: np.ndarray, folder: Path) -> None:
    """crossplay.png, ways.png, and process.png of methods that go on until all are compatible."""
    run, names = finished.run, finished.outcome.names
    if isinstance(run.config, MacopConfig):
        plots.process(finished.decisions, run.config.stop_threshold, folder / "process.png")
    heads = [f"head {k}" for k in range(len(matrix))]
    plots.heat_map(matrix, heads, names, f"{run.method} on {run.scenario}: return", folder / "crossplay.png")
    plots.ways(finished.setup.world, names, behaviours, folder / "ways.png")
