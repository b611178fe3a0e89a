"""One sequence of groups from several runs, for continual learners to go through: the paper's test of what they forget.

A sequence is a folder that `--groups` takes like a finished run. The same runs, length and seed give the same sequence.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from macop_aht.config import ConfigError
from macop_aht.learner.networks import Stack
from macop_aht.methods.borrowed import Groups
from macop_aht.runs.folder import BORROWED, SEQUENCE, RunFolder, fingerprint
from macop_aht.runs.lock import folder_lock
from macop_aht.runs.records import Decision, Summary
from macop_aht.util import require_free, whole_folder


@dataclass(frozen=True)
class SequenceRun:
    """What a sequence is made of."""

    scenario: str
    method: str
    seed: int
    length: int
    runs: list[str]


def draw(generators: Mapping[str, Collection[str]], length: int, seed: int) -> list[str]:
    """Return groups, by the generators' names, in random order: as many of each generator as possible. Length 0: all."""
    rng = np.random.default_rng(seed)
    waiting = [[str(name) for name in rng.permutation(list(own))] for own in generators.values()]
    turns = [own[turn] for turn in range(max(map(len, waiting), default=0)) for own in waiting if turn < len(own)]
    return [str(name) for name in rng.permutation(turns[: length or None])]


def make(folders: Sequence[Path], length: int, seed: int, out: Path) -> list[str]:
    """Write a sequence of different groups of these runs into a new folder; return their names in order.

    Raises `ConfigError`, `FileExistsError` or `ValueError` where that cannot be done.
    """
    if length < 0:
        raise ConfigError(f"length is {length}; it must be at least 0")
    require_free(out)
    runs = [RunFolder(folder) for folder in folders]
    for run in runs:
        run.require_ego()
    scenarios = sorted({run.scenario for run in runs})
    if len(scenarios) != 1:
        raise ValueError(f"these runs are of {', '.join(scenarios)}; a sequence is of one scenario")
    found = distinct(runs)
    order = draw(found, length, seed)
    if len(order) < 2:
        raise ValueError(f"{len(order)} groups make no sequence; name runs that have generated some, such as macop's")
    every = {name: group for own in found.values() for name, group in own.items()}
    net = Stack.gather([(every[name], 0) for name in order])
    groups = Groups(net, order, order, Decision(phase=BORROWED, groups=order, order=order))
    with folder_lock(out, "sequence"):
        _write(SequenceRun(scenarios[0], SEQUENCE, seed, length, [str(folder) for folder in folders]), groups, out)
    return order


def distinct(runs: Sequence[RunFolder]) -> dict[str, dict[str, Stack]]:
    """Return the groups of some runs by METHOD/SEED and name; of groups with the same weights, the first run's."""
    called = [f"{run.method}/{run.seed}" for run in runs]
    for lender in called:
        if called.count(lender) > 1:
            raise ValueError(f"two of these runs are called {lender}; give one of each method and seed")
    once: dict[bytes, tuple[str, str, Stack]] = {}
    for lender, run in zip(called, runs, strict=True):
        for name, group in run.generated().items():
            once.setdefault(fingerprint(group), (lender, name, group))
    found: dict[str, dict[str, Stack]] = {}
    for lender, name, group in once.values():
        found.setdefault(lender, {})[f"{lender}/{name}"] = group
    return found


def _write(run: SequenceRun, groups: Groups, out: Path) -> None:
    """Write the folder whole, or not at all."""
    with whole_folder(out) as place:
        unfinished = RunFolder(place)
        unfinished.begin(run, resume=False)
        unfinished.write_phase(BORROWED, groups.arrays(), groups.note())
        unfinished.add_decision(groups.decision, first=True)
        unfinished.write_summary(Summary(run.scenario, run.method, run.seed, groups.names))
