"""A run's folder: the only code that knows what lies where in it.

| file | what it holds | of |
|---|---|---|
| `run.toml` | scenario, method, seed, threads, config, with a format version | every run |
| `phases/NAME.npz` | what came out of a phase: networks, and a `PhaseNote` | train, sequence |
| `decisions.jsonl` | a `Decision` per line | train, sequence |
| `checkpoints/` | where the training stands | selfplay |
| `metrics.jsonl`, `tensorboard/` | returns and losses over the training | train, selfplay |
| `parts.json` | minutes and commit of every part between two kills | train |
| `summary.json`, `summary.md` | a `Summary`, last of all: the mark of a finished run | train, sequence |
| `crossplay.csv`, `*.png` | returns of heads with groups, and figures | train |
| `result.json` | a `SelfPlayResult`: the mark of a finished run | selfplay |
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import warnings
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from macop_aht.config import ConfigError, differences, of_file, parse, read_toml, to_toml
from macop_aht.learner.networks import Ego, Shape, Stack, set_weights, weights
from macop_aht.runs import checkpoints
from macop_aht.runs.metrics import Metrics
from macop_aht.runs.records import (
    SETTINGS,
    DamagedError,
    Decision,
    Part,
    PhaseNote,
    SelfPlayResult,
    Summary,
    check_format,
    holds_run,
    parse_decisions,
    parse_parts,
    parts_text,
    read_text,
    settings_text,
    table,
)
from macop_aht.scenarios import build, find
from macop_aht.util import clear_unfinished, require_free, write_csv, write_whole

SELF_PLAY, SEQUENCE = "selfplay", "sequence"  # what stands for a method in runs of these commands
BORROWED = "groups"  # the phase in which the groups of another run are taken


class RunFolder:
    """A run on the disk, finished or not: of `macop train`, `macop selfplay` or `macop sequence`."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)

    def __fspath__(self) -> str:
        return str(self.path)

    # --- What the run is

    @property
    def exists(self) -> bool:
        """Whether a run was begun here."""
        return holds_run(self.path)

    @property
    def settings_file(self) -> Path:
        return self.path / SETTINGS

    @cached_property
    def settings(self) -> dict[str, Any]:
        """The run's settings as TOML has them; raise `FileNotFoundError` or `FormatError` where there are none."""
        if not self.exists:
            raise FileNotFoundError(f"{self.path} holds no run: there is no {self.settings_file.name} in it")
        values = check_format(read_toml(self.settings_file), str(self.settings_file), self.path)
        with of_file(self.settings_file):
            _check_settings(values)
        return values

    @property
    def settings_hash(self) -> str:
        """The SHA-256 of the settings' file."""
        return hashlib.sha256(self.settings_file.read_bytes()).hexdigest()

    @property
    def scenario(self) -> str:
        return self.settings["scenario"]

    @property
    def method(self) -> str:
        """The method's name; `selfplay` or `sequence` in runs of these commands."""
        return self.settings.get("method", SELF_PLAY)

    @property
    def seed(self) -> int:
        return self.settings.get("seed", 0)

    @property
    def lender(self) -> RunFolder | None:
        """The run whose groups this one has borrowed; None where it generates its own.

        A relative path is looked for from the folders above, since the run was made in one of these, and from here.
        """
        groups = self.settings.get("config", {}).get("groups")
        if not groups:
            return None
        places = [RunFolder(above / groups) for above in self.path.resolve().parents]
        return next((place for place in places if place.exists), RunFolder(groups))

    @property
    def maker(self) -> str:
        """The method that has generated this run's groups: its own, or the lender's."""
        return (self.lender or self).method

    # --- Whether it is finished

    @property
    def finished(self) -> bool:
        """Whether the run has come to its end. One whose mark is damaged comes there again when it is resumed."""
        try:
            return self._mark.exists() and bool(self._record(self._mark))
        except DamagedError:
            return False

    def require_finished(self) -> None:
        """Raise where the run has not come to its end, or files of its phases are gone."""
        if not self._mark.exists():
            raise ValueError(f"the run in {self.path} is not finished; resume it with --resume first")
        self._record(self._mark)
        phases = [] if self.method == SELF_PLAY else [decision.phase for decision in self.decisions()]
        missing = [self.phase_file(name).name for name in phases if not self.has_phase(name)]
        if missing:
            raise FileNotFoundError(
                f"{self.path / 'phases'} lacks {', '.join(missing)}; --resume makes the run whole again "
                f"({self._decisions.name} says what there was)"
            )

    def require_ego(self) -> None:
        """Raise where this is not a finished run that has an ego."""
        if self.method in (SELF_PLAY, SEQUENCE):
            raise ValueError(
                f"the run in {self.path} is one of macop {self.method}, and has no ego; give one of macop train"
            )
        self.require_finished()

    # --- What it has come to

    def decisions(self) -> list[Decision]:
        """What was decided so far, in order."""
        return parse_decisions(read_text(self._decisions), str(self._decisions), self.path)

    def summary(self) -> Summary:
        """What a finished run has come to."""
        return Summary.parse(self._record(self._summary), str(self._summary), self.path)

    def result(self) -> SelfPlayResult:
        """What a finished run of self-play has come to."""
        return SelfPlayResult.parse(self._record(self._result), str(self._result), self.path)

    @property
    def order(self) -> list[str]:
        """The groups in the order in which the ego has learnt with them; where it met all at once, as they are numbered."""
        decisions = self.decisions()
        lessons = [decision.group for decision in decisions if decision.group is not None]
        return lessons or [name for decision in decisions[:1] for name in decision.groups or ()]

    @property
    def met(self) -> list[str]:
        """The groups that the ego of a finished run has had a lesson with."""
        return list(self.summary().joined)

    def parts(self) -> list[Part]:
        """How long each part of the run took, and with what code; those that are known."""
        try:
            return parse_parts(self._record(self._parts), str(self._parts), self.path)
        except FileNotFoundError:
            return []
        except (OSError, ValueError, KeyError, TypeError) as error:
            warnings.warn(
                f"{self._parts} cannot be read ({error}); the minutes of earlier parts are lost", stacklevel=2
            )
            return []

    @property
    def minutes(self) -> float:
        """Of training, over all parts; what a kill has cost is not in it."""
        return sum(part.minutes for part in self.parts())

    @property
    def commits(self) -> list[str]:
        """Of the code that ran, in the order of the parts."""
        return list(dict.fromkeys(part.commit for part in self.parts()))

    # --- Its networks

    def ego(self, device: Any = "cpu") -> Ego:
        """The ego of a finished run."""
        self.require_ego()
        phases = [name for name in self.phases if name.startswith("ego-")]
        if not phases:
            raise FileNotFoundError(
                f"{self.path / 'phases'} lacks the phases of the ego; --resume makes the run whole again"
            )
        arrays, note = self.read_phase(phases[-1])
        with checkpoints.fitting(self.phase_file(phases[-1])):
            ego = Ego(self._shape, note.heads or 0).to(device)
            set_weights(ego, arrays["ego"])
            return ego

    def generated(self, device: Any = "cpu") -> dict[str, Stack]:
        """Every group that the run has generated and kept so far, by name; the teams of a run of self-play."""
        if self.method == SELF_PLAY:
            return self._teams(device)
        found: dict[str, Stack] = {}
        for phase in self.phases:
            if phase.startswith("population-"):
                found |= self._named(phase, device)
        return found

    def groups(self, device: Any = "cpu") -> dict[str, Stack]:
        """The groups of a run by name, its own or borrowed ones; those too that its ego had no lesson with."""
        if not self.has_phase(BORROWED):
            return self.generated(device)
        return self._named(BORROWED, device)

    def _teams(self, device: Any) -> dict[str, Stack]:
        found = checkpoints.load(self.checkpoints)
        if found is None:
            raise ValueError(f"the run in {self.path} has no checkpoint")
        with checkpoints.fitting(checkpoints.newest(self.checkpoints)):
            learner = found[0]["learner"]
            trained = learner.get("average", learner["net"])  # PPO averages no weights
            count = len(next(iter(trained.values())))
            return self._stacks(trained, [str(k) for k in range(count)], device)

    def _named(self, phase: str, device: Any) -> dict[str, Stack]:
        """The groups in a phase's file by name."""
        arrays, note = self.read_phase(phase)
        with checkpoints.fitting(self.phase_file(phase)):
            return self._stacks(arrays["net"], note.names or [], device)

    def _stacks(self, arrays: Mapping[str, np.ndarray], names: Sequence[str], device: Any) -> dict[str, Stack]:
        net = Stack(self._shape, len(names)).to(device)
        set_weights(net, arrays)
        return {name: Stack.gather([(net, k)]) for k, name in enumerate(names)}

    @cached_property
    def _shape(self) -> Shape:
        return Shape.of(build(self.scenario))

    # --- Writing

    def begin(self, run: Any, resume: bool) -> None:
        """Make the folder of a new run, or see that the run to resume is the same.

        Raises `FileExistsError`, `FileNotFoundError` or `ValueError` where that is not so.
        """
        if self.exists:
            self._check_same(run, resume)
        elif resume and not self.path.exists():
            raise FileNotFoundError(f"there is no run in {self.path} to resume; leave out --resume to start one")
        else:
            require_free(self.path, " and holds no run")
            write_whole(self.settings_file, settings_text(run))
        for folder in (self.path, self.path / "phases", self.checkpoints):
            clear_unfinished(folder)

    def _check_same(self, run: Any, resume: bool) -> None:
        if not resume:
            raise FileExistsError(f"{self.path} holds a run already; resume it with --resume, or choose another folder")
        differing = differences(self.settings, parse(to_toml(run)))
        if differing:
            raise ValueError(
                f"{self.settings_file} describes another run: {'; '.join(differing)}. Resume with the same settings, or start "
                "in another folder"
            )

    @property
    def phases(self) -> list[str]:
        """The names of the phases whose files are there."""
        return sorted(path.stem for path in (self.path / "phases").glob("*.npz"))

    def has_phase(self, name: str) -> bool:
        return self.phase_file(name).exists()

    def phase_file(self, name: str) -> Path:
        return self.path / "phases" / f"{name}.npz"

    def read_phase(self, name: str) -> tuple[dict[str, Any], PhaseNote]:
        """The arrays and the note of a phase; raise `CheckpointError` where the file is damaged."""
        path = self.phase_file(name)
        arrays, note = checkpoints.read(path)
        with checkpoints.fitting(path):
            return arrays, PhaseNote.parse(note, str(path), self.path)

    def write_phase(self, name: str, arrays: Mapping[str, Any], note: PhaseNote) -> None:
        checkpoints.write(self.phase_file(name), arrays, note.values())

    def add_decision(self, decision: Decision, first: bool = False) -> None:
        """Append a decision; the first one begins the file anew, so that a resumed run has every decision once."""
        self.path.mkdir(parents=True, exist_ok=True)
        with open(self._decisions, "w" if first else "a", encoding="utf-8") as file:
            file.write(decision.line())
            file.flush()
            os.fsync(file.fileno())

    def metrics(self, kept: int) -> Metrics:
        """Open the metrics, of which `kept` bytes stand."""
        return Metrics(self._metrics, self.path / "tensorboard", kept)

    def curve(self) -> list[dict[str, Any]]:
        """The lines of the metrics: step, return, losses, and the phase where a run has several."""
        return [table(line, str(self._metrics)) for line in read_text(self._metrics).splitlines()]

    def add_part(self, part: Part) -> list[Part]:
        """Note a part of the run; return all that are known. Never stops a run."""
        parts = [*self.parts(), part]
        with contextlib.suppress(OSError):
            write_whole(self._parts, parts_text(parts))
        return parts

    @property
    def checkpoints(self) -> Path:
        """The folder of a self-play run's checkpoints."""
        return self.path / "checkpoints"

    def figure(self, name: str) -> Path:
        """The file of a figure."""
        return self.path / f"{name}.png"

    def write_report(self, text: str, matrix: np.ndarray, names: Sequence[str]) -> None:
        """Write the table of a finished run, and the returns of heads with groups: (K,P)."""
        write_whole(self.path / "summary.md", text)
        write_csv(
            self.path / "crossplay.csv", [["head", *names], *([k, *row] for k, row in enumerate(matrix.tolist()))]
        )

    def write_summary(self, summary: Summary) -> None:
        """Mark the run as finished."""
        write_whole(self._summary, summary.text())

    def write_result(self, result: SelfPlayResult) -> None:
        """Mark a run of self-play as finished."""
        write_whole(self._result, result.text())

    # --- Files

    @staticmethod
    def _record(path: Path) -> dict[str, Any]:
        return table(read_text(path), str(path))

    @property
    def _mark(self) -> Path:
        """The record that is written last of all."""
        return self._result if self.method == SELF_PLAY else self._summary

    @property
    def _metrics(self) -> Path:
        return self.path / "metrics.jsonl"

    @property
    def _decisions(self) -> Path:
        return self.path / "decisions.jsonl"

    @property
    def _summary(self) -> Path:
        return self.path / "summary.json"

    @property
    def _result(self) -> Path:
        return self.path / "result.json"

    @property
    def _parts(self) -> Path:
        return self.path / "parts.json"


def _check_settings(values: Mapping[str, Any]) -> None:
    """Raise `ConfigError` or `KeyError` unless the settings that every kind of run has are of the right type."""
    kinds = {"scenario": str, "method": str, "seed": int, "config": dict}
    given = {"method": SELF_PLAY, "seed": 0, "config": {}, **values}
    for name, kind in kinds.items():
        if not isinstance(given.get(name), kind):
            raise ConfigError(f"{name} is {str(given.get(name))[:60]!r}; it must be of type {kind.__name__}")
    if not isinstance(given["config"].get("groups", ""), str):
        raise ConfigError("config.groups must be the path of a run")
    find(given["scenario"])


def fingerprint(group: Stack) -> bytes:
    """Return a hash of a group's weights."""
    return hashlib.sha256(b"".join(part.tobytes() for _, part in sorted(weights(group).items()))).digest()
