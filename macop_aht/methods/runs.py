"""Runs of methods: a folder with the settings, the phases as they end, and every decision."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch

from macop_aht.config import changed, from_toml
from macop_aht.learner import checkpoints
from macop_aht.learner.device import choose_device
from macop_aht.learner.networks import Ego, Stack
from macop_aht.learner.runs import open_folder
from macop_aht.methods import macop
from macop_aht.methods.journal import Journal, Status
from macop_aht.methods.macop import MacopConfig
from macop_aht.methods.phases import Learned, Outcome, Population, Setup
from macop_aht.scenarios import build

Method = Literal["macop", "macop+"]
METHODS: dict[str, dict[str, Any]] = {  # what each is
    "macop": {"incompatibility": "cross-play"},
    "macop+": {"incompatibility": "novelty"},
}
USUAL: dict[str, dict[str, Any]] = {
    "macop+": {"demonstrations": 0.2}
}  # what is usual with it, and can be set otherwise


@dataclass
class Finished:
    """A run that has come to its end."""

    run: MethodRun
    setup: Setup[MacopConfig]
    outcome: Outcome
    decisions: list[dict[str, Any]]
    minutes: float  # of all its parts; what a kill has cost is not in it


@dataclass(frozen=True)
class MethodRun:
    """What a run of a method is: the same run gives the same weights."""

    scenario: str
    method: Method = "macop"
    seed: int = 0
    threads: int = 1
    config: MacopConfig = field(default_factory=MacopConfig)

    def __post_init__(self) -> None:
        if changed(self.config, METHODS[self.method]) != self.config:
            raise ValueError(
                f"{self.method} is the method with {METHODS[self.method]}; choose the other --method, not the setting"
            )


def configure(method: str, config: MacopConfig) -> MacopConfig:
    """A preset as a method wants it."""
    if method not in METHODS:
        raise ValueError(f"unknown method {method!r}; allowed are {', '.join(METHODS)}")
    if method == "macop+":  # all of its mutation's episodes are self-play, where half of Macop's are: as many updates
        config = changed(config, {"mutation": {"ratio": 2 * config.mutation.ratio}})
    return changed(config, METHODS[method] | USUAL.get(method, {}))


def steps_at_most(config: MacopConfig) -> int:
    """Environment steps of a run that stops at its last iteration only."""
    return config.max_iterations * (config.teammate_steps + config.population * config.ego_steps)


def read_run(folder: Path) -> MethodRun:
    """The run that a folder holds."""
    stored = folder / "run.toml"
    if not stored.exists():
        raise FileNotFoundError(f"{folder} holds no run: there is no {stored.name} in it")
    return from_toml(MethodRun, stored.read_text())


def setup_of(run: MethodRun, device: str = "auto") -> Setup[MacopConfig]:
    """What the phases of a run are given."""
    return Setup(build(run.scenario), run.config, run.seed, choose_device(device))


def groups_of(folder: Path, setup: Setup[MacopConfig]) -> dict[str, Stack]:
    """Every group that a run has generated and kept so far, by name."""
    found: dict[str, Stack] = {}
    for path in sorted((folder / "phases").glob("population-*.npz")):
        population = Population.load(setup, *checkpoints.read(path))
        found |= {name: Stack.gather([(population.teams.net, k)]) for k, name in enumerate(population.names)}
    return found


def ego_of(folder: Path, setup: Setup[MacopConfig]) -> Ego:
    """The ego of a finished run."""
    if not (folder / "summary.json").exists():
        raise ValueError(f"the run in {folder} is not finished; go on with --resume first")
    phases = sorted((folder / "phases").glob("ego-*.npz"))
    return Learned.load(setup, *checkpoints.read(phases[-1])).ego


def train(
    run: MethodRun,
    folder: Path,
    resume: bool = False,
    device: str = "auto",
    say: Callable[[str], None] = print,
    show: Callable[[Status], None] | None = None,
) -> Finished:
    """Train, or go on training, to the end."""
    setup = setup_of(run, device)
    open_folder(folder, run, resume)
    torch.set_num_threads(run.threads)
    say(f"device {setup.device}, {run.threads} thread{'s' if run.threads > 1 else ''}")
    journal = Journal(folder, say, show)
    setup = setup._replace(watch=journal.watch)
    began = time.perf_counter()
    try:
        outcome = macop.train(setup, journal)
    finally:
        journal.close()
        minutes = _add_time(folder / "minutes.json", (time.perf_counter() - began) / 60)
    return Finished(run, setup._replace(watch=None), outcome, journal.decisions, minutes)


def _add_time(path: Path, minutes: float) -> float:
    """Note how long this part of the run took; gives the sum of all parts that are known. Never stops a run."""
    try:
        before = json.loads(path.read_text())
    except (OSError, ValueError):
        before = []
    parts = [*before, round(minutes, 2)]
    with contextlib.suppress(OSError):
        path.with_suffix(".unfinished").write_text(json.dumps(parts) + "\n")
        path.with_suffix(".unfinished").replace(path)
    return sum(parts)
