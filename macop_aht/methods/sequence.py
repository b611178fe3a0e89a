"""One sequence of groups from several runs, for continual learners to go through: the paper's test of what they forget.

A sequence is a folder that `--groups` takes like a finished run. The same runs, length and seed give the same sequence.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from macop_aht.config import ConfigError, to_toml
from macop_aht.learner.networks import Stack
from macop_aht.methods.origins import Groups, fingerprint, groups_of, require_end
from macop_aht.methods.training import read_run, setup_of
from macop_aht.runs import checkpoints

METHOD = "sequence"  # what stands for a method in its run.toml


@dataclass(frozen=True)
class SequenceRun:
    """What a sequence is made of."""

    scenario: str
    method: str
    seed: int
    length: int
    runs: list[str]


def draw(generators: Mapping[str, Collection[str]], length: int, seed: int) -> list[str]:
    """Groups, by the generators' names, in any order: as many of each generator as there can be. With a length of 0, all."""
    rng = np.random.default_rng(seed)
    waiting = [[str(name) for name in rng.permutation(list(own))] for own in generators.values()]
    turns = [own[turn] for turn in range(max(map(len, waiting), default=0)) for own in waiting if turn < len(own)]
    return [str(name) for name in rng.permutation(turns[: length or None])]


def make(folders: Sequence[Path], length: int, seed: int, out: Path) -> list[str]:
    """Write a sequence of different groups of these runs into a folder that does not exist yet; gives their names in order."""
    if length < 0:
        raise ConfigError(f"length is {length}; it must be at least 0")
    if out.exists():
        raise FileExistsError(f"{out} exists already; choose another folder")
    for folder in folders:
        require_end(folder)
    runs = [read_run(folder) for folder in folders]
    scenarios = sorted({run.scenario for run in runs})
    if len(scenarios) != 1:
        raise ValueError(f"these runs are of {', '.join(scenarios)}; a sequence is of one scenario")
    called = [f"{run.method}/{run.seed}" for run in runs]
    for origin in called:
        if called.count(origin) > 1:
            raise ValueError(f"two of these runs are called {origin}; give one of each method and seed")
    setup = setup_of(runs[0], "cpu")
    distinct: dict[bytes, tuple[str, str, Stack]] = {}
    for origin, folder in zip(called, folders, strict=True):
        for name, group in groups_of(folder, setup).items():
            distinct.setdefault(fingerprint(group), (origin, name, group))
    found: dict[str, dict[str, Stack]] = {}
    for origin, name, group in distinct.values():
        found.setdefault(origin, {})[f"{origin}/{name}"] = group
    order = draw(found, length, seed)
    if len(order) < 2:
        raise ValueError(f"{len(order)} groups make no sequence; name runs that have generated some, such as macop's")
    every = {name: group for own in found.values() for name, group in own.items()}
    net = Stack.gather([(every[name], 0) for name in order])
    groups = Groups(net, order, order, {"phase": "groups", "groups": order, "order": order})
    _write(SequenceRun(scenarios[0], METHOD, seed, length, [str(folder) for folder in folders]), groups, out)
    return order


def _write(run: SequenceRun, groups: Groups, out: Path) -> None:
    """Whole, or not at all."""
    unfinished = out.with_name(f"{out.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    (unfinished / "phases").mkdir(parents=True)
    (unfinished / "run.toml").write_text(to_toml(run), encoding="utf-8")
    checkpoints.write(unfinished / "phases" / "groups.npz", groups.arrays(), groups.note())
    (unfinished / "decisions.jsonl").write_text(json.dumps(groups.decision) + "\n", encoding="utf-8")
    (unfinished / "summary.json").write_text(json.dumps({"groups": groups.names}) + "\n", encoding="utf-8")
    unfinished.replace(out)
