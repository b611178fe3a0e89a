"""Typed records: what a run writes into its folder, each with one reader, one writer and a format version.

A reader raises `FormatError` where a record is of an earlier format (the message names the command that converts it), of a
later one, or has unknown keys.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from macop_aht.config import ConfigError, from_mapping, to_toml
from macop_aht.util import read_limited

FORMAT = 2  # of run folders and of every record in them; 1 had none written down
SETTINGS = "run.toml"  # the file in which a run's settings are
PHASE = re.compile(r"(?=.{0,64}$)[a-z]+(-[a-z0-9]+)*|")  # what a phase may be called, as its file is called so too
LIMIT = 256 << 20  # bytes of a record's file
REMEDY = "--resume makes the run whole again"
T = TypeVar("T")


def settings_text(run: Any) -> str:
    """Return the content of a settings file: of a run, or of such settings as nested dictionaries."""
    return f"format = {FORMAT}\n{to_toml(run)}"


def holds_run(folder: Path | str) -> bool:
    """Return whether a run was begun in a folder."""
    return (Path(folder) / SETTINGS).exists()


class FormatError(ValueError):
    """A file is of another format than this version reads; the message says what to do."""


class DamagedError(FormatError):
    """A record cannot be read; the message has its file and what to do."""


def read_text(path: Path) -> str:
    """Return the text of a record's file; raise `DamagedError` where it is none, or is too long."""
    try:
        return read_limited(path, LIMIT).decode("utf-8")
    except ValueError as error:
        raise DamagedError(f"{path} is damaged ({error}); {REMEDY}") from error


def table(text: str, where: str, remedy: str = REMEDY) -> dict[str, Any]:
    """Return a table of JSON; raise `DamagedError` where the text is none."""
    try:
        found = json.loads(text)
        if not isinstance(found, dict):
            raise ValueError("it is no table of keys and values")
    except (ValueError, RecursionError) as error:
        raise DamagedError(f"{where} is damaged ({error}); {remedy}") from error
    return found


def check_format(values: Mapping[str, Any], where: str, convert: Path | str, current: int = FORMAT) -> dict[str, Any]:
    """Return the values without their format version; raise `FormatError` where it is not the current one."""
    found = values.get("format", 1)
    if not isinstance(found, int) or found < current:
        raise FormatError(f"{where} was written by an earlier version; convert it first: macop convert {convert}")
    if found > current:
        raise FormatError(f"{where} has format {found}, and this version reads {current}; update macop-aht")
    return {name: value for name, value in values.items() if name != "format"}


def as_values(record: Any) -> dict[str, Any]:
    """Return a record's fields that are not None, for a file."""
    values = {own.name: getattr(record, own.name) for own in fields(record)}
    return {name: value for name, value in values.items() if value is not None}


def from_values(kind: type[T], values: Mapping[str, Any], where: str) -> T:
    """Return the record with these values; raise `FormatError` where keys are unknown or missing, or values of other types."""
    try:
        return from_mapping(kind, values)
    except ConfigError as error:
        raise FormatError(f"{where}: {error}. Was it written by another version?") from error
    except TypeError as error:
        raise FormatError(f"{where} lacks a key: {error}") from error


@dataclass(frozen=True)
class Decision:
    """What was measured and decided at the end of a phase: a line of `decisions.jsonl`.

    A decision has the fields that its phase knows; the others are None.
    """

    phase: str = ""  # set by the journal
    groups: list[str] | None = None  # the population that the phase ends with, or the groups that were borrowed
    order: list[str] | None = None  # of borrowed groups: the order of the lessons
    candidates: list[str] | None = None  # of a selection: parents and offspring
    self_play: list[float] | None = None  # return of every candidate, or of every group, with itself
    cross_play: list[float] | None = None  # return of every candidate with the ego's best head
    candidate_heads: list[int] | None = None  # the ego's head that does best with every candidate, in other episodes
    compatibility: float | None = None  # C, by which Macop stops
    novelty: list[float] | None = None  # of every offspring of a selection of Macop+, in 0..1
    new: list[str] | None = None  # of a selection of Macop+: the groups that behave in a new way
    group: str | None = None  # of a lesson: the group that the ego learns with
    old_heads: list[float] | None = None  # return of every old head with that group
    best_head: int | None = None  # the old head that does best with it, in other episodes; None where there is none
    new_head: float | None = None  # return of the new head; None where no lesson was needed
    kept: bool | None = None  # whether the new head was added
    heads: int | None = None  # heads of the ego after the phase
    returns: list[float] | None = None  # return of the ego with every group

    def __post_init__(self) -> None:
        if not PHASE.fullmatch(self.phase):
            raise ConfigError(f"phase is {self.phase[:60]!r}; a phase has a name such as ego-01-00")

    @staticmethod
    def parse(values: Mapping[str, Any], where: str) -> Decision:
        return from_values(Decision, values, where)

    def line(self) -> str:
        """Return the decision as a line of JSON."""
        return json.dumps({"format": FORMAT, **as_values(self)}) + "\n"


def parse_decisions(text: str, where: str, convert: Path | str) -> list[Decision]:
    """Return the decisions of a file, in the order in which they were made."""
    lines = [check_format(table(line, where), where, convert) for line in text.splitlines()]
    return [Decision.parse(line, where) for line in lines]


@dataclass(frozen=True)
class PhaseNote:
    """What a phase's file has beside its arrays."""

    decision: Decision
    names: list[str] | None = None  # of the groups in it
    order: list[str] | None = None  # of borrowed groups: the order of the lessons
    heads: int | None = None  # of the ego in it
    metrics: int = 0  # bytes of the metrics file when the phase ended
    steps: int = 0  # environment steps of the phase

    @staticmethod
    def parse(values: Mapping[str, Any], where: str, convert: Path | str) -> PhaseNote:
        return from_values(PhaseNote, {"decision": {}, **check_format(values, where, convert)}, where)

    def values(self) -> dict[str, Any]:
        """Return the note for a file."""
        return {"format": FORMAT, **as_values(self), "decision": as_values(self.decision)}


@dataclass(frozen=True)
class Summary:
    """What a finished run has come to: `summary.json`. Lists are by group, in the order of `groups`."""

    scenario: str
    method: str
    seed: int
    groups: list[str]  # every group that was ever in a population, or that was borrowed
    preset: str = ""  # whose settings the run has; "" where it has others
    commits: list[str] = field(default_factory=list)  # of the code that ran
    iterations: int = 1
    heads: int = 0  # of the ego
    compatibility: list[float] = field(default_factory=list)  # C, by iteration from the second
    self_play: list[float] = field(default_factory=list)  # mean return of every group with itself
    joined: list[str] = field(default_factory=list)  # the groups that the ego has had a lesson with
    ego: list[float] = field(default_factory=list)  # return of the ego with every group
    best_head: list[float] = field(default_factory=list)  # return of the head that does best with every group
    outcomes: list[str] = field(
        default_factory=list
    )  # how every group's self-play ends most often; "" where in no one way
    minutes: float = 0.0  # of training

    @staticmethod
    def parse(values: Mapping[str, Any], where: str, convert: Path | str) -> Summary:
        return from_values(Summary, check_format(values, where, convert), where)

    def text(self) -> str:
        """Return the summary as JSON."""
        return json.dumps({"format": FORMAT, **as_values(self)}, indent=1) + "\n"


@dataclass(frozen=True)
class SelfPlayResult:
    """What a finished self-play run has come to: `result.json`."""

    returns: list[float]  # greedy self-play return of every team
    progress: Mapping[str, float]  # steps, updates and others, when the training ended

    @staticmethod
    def parse(values: Mapping[str, Any], where: str, convert: Path | str) -> SelfPlayResult:
        return from_values(SelfPlayResult, check_format(values, where, convert), where)

    def text(self) -> str:
        """Return the result as JSON."""
        return json.dumps({"format": FORMAT, **as_values(self)}, indent=1) + "\n"


@dataclass(frozen=True)
class Part:
    """A run, or a part of it between two kills: an entry of `parts.json`."""

    minutes: float
    commit: str  # of the code that ran


@dataclass(frozen=True)
class Parts:
    """All parts of a run: `parts.json`."""

    parts: list[Part]


def parse_parts(values: Mapping[str, Any], where: str, convert: Path | str) -> list[Part]:
    """Return the parts in order."""
    return from_values(Parts, check_format(values, where, convert), where).parts


def parts_text(parts: Sequence[Part]) -> str:
    """Return the parts as JSON."""
    return json.dumps({"format": FORMAT, "parts": [as_values(part) for part in parts]}) + "\n"


class Iteration(NamedTuple):
    """An iteration of a run that generates groups."""

    iteration: int
    groups: int  # in any population so far
    heads: int  # of the ego at its end
    compatible: float  # C; NaN in the first, which has none


def iterations(decisions: Sequence[Decision]) -> list[Iteration]:
    """Return the iterations of a run, from its decisions."""
    found: list[Iteration] = []
    known: set[str] = set()
    for decision in decisions:
        if decision.groups is not None:  # a new iteration, which the heads of the ego's phases behind it belong to
            known |= set(decision.groups)
            number, heads = max(_number(decision.phase), 1), found[-1].heads if found else 0
            compatible = math.nan if decision.compatibility is None else decision.compatibility
            found.append(Iteration(number, len(known), heads, compatible))
        elif found:
            found[-1] = found[-1]._replace(heads=decision.heads or 0)
    return found


def _number(phase: str) -> int:
    """Return the iteration in a phase's name; 0 where there is none."""
    digits = re.search(r"-([0-9]{1,9})\b", phase)
    return int(digits[1]) if digits else 0
