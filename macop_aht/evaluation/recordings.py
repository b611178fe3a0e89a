"""Recorded episodes with a person as the teammate: a file of JSON lines, one episode in each. docs/play.md describes it.

A recording is reported and never replayed: a person reacts to what the ego does, so the same actions beside another ego
would be nobody's play.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from macop_aht.deploy.documents import LARGEST, Floats, Integers, as_dataclass, as_document, document, require
from macop_aht.evaluation.rows import Row
from macop_aht.policies.prefixes import register_prefix

if TYPE_CHECKING:
    from macop_aht.deploy.manifest import Manifest
    from macop_aht.scenarios.spec import World

FORMAT = 1
PERSON = "person"
STAGES = ("selection", "test")


@dataclass(frozen=True, kw_only=True, eq=False)
class Recording:
    """One episode. The arrays begin with its T steps; an observation is what an agent saw before it acted."""

    scenario: str
    agent: str  # who played the ego's seats: a bundle's name, or a spec
    sha256: str  # of the bundle, see `bundle_hash`; "" where the agent is no bundle
    selector: str  # of the bundle; "" where there is none
    stage: str  # selection while the selector was still choosing a head, then test
    teammate: str  # person, or the spec of who sat in the person's seat
    seat: int  # the number of that agent
    seed: int  # of the game
    episode: int  # of the game, from 0
    obs: Floats  # (T,N,D)
    actions: Integers  # (T,N)
    rewards: Floats  # (T,)
    return_: float
    outcome: str
    won: bool | None = None

    def __post_init__(self) -> None:
        steps, agents = self.actions.shape if self.actions.ndim == 2 else (0, 0)
        shapes = (self.obs.shape[:2], self.rewards.shape)
        require(
            steps > 0 and self.obs.ndim == 3 and shapes == ((steps, agents), (steps,)),
            f"obs, actions and rewards have the shapes {self.obs.shape}, {self.actions.shape} and {self.rewards.shape}; "
            "they must be (T,N,D), (T,N) and (T,)",
        )
        require(self.stage in STAGES, f"stage is {self.stage!r}; allowed are {', '.join(STAGES)}")
        require(0 <= self.seat < agents, f"seat is {self.seat}; this team has 0..{agents - 1}")
        total = float(self.rewards.sum())
        require(
            abs(total - self.return_) <= 1e-4 * max(1.0, abs(total)),
            f"return_ is {self.return_}, but the rewards add up to {total:g}",
        )

    @property
    def length(self) -> int:
        """Return the number of steps."""
        return len(self.actions)


def bundle_hash(manifest: Manifest) -> str:
    """Return one sha-256 for all files of a bundle, from those in its manifest."""
    listed = "".join(f"{name} {digest}\n" for name, digest in sorted(manifest.sha256.items()))
    return hashlib.sha256(listed.encode()).hexdigest()


def line_of(recording: Recording) -> bytes:
    """Return a recording as the line that `read` understands."""
    entries = {"format": FORMAT, **as_document(recording), "obs": _short(recording.obs)}
    return json.dumps(entries | {"rewards": _short(recording.rewards)}, allow_nan=False).encode() + b"\n"


def _short(array: np.ndarray) -> Any:
    """The numbers of an array with as many digits as single precision needs."""
    if array.ndim > 1:
        return [_short(row) for row in array]
    return [float(str(number)) for number in array.astype(np.float32)]


def append(path: Path, recording: Recording) -> None:
    """Add a recording at the end of a file."""
    with open(path, "ab") as file:
        file.write(line_of(recording))


def read(path: Path) -> Iterator[Recording]:
    """Yield the recordings of a file. Raise `ValueError` for the first line that is not one, and `OSError` without a file."""
    with open(path, "rb") as file:
        number = 0
        while line := file.readline(LARGEST + 1):
            number += 1
            try:
                yield parse(line)
            except ValueError as error:
                raise ValueError(f"line {number} of {path} is no recorded episode: {error}. Remove that line") from None


def parse(line: bytes) -> Recording:
    """Return the recording in a line; raise `ValueError`, which says what came and what is allowed."""
    found = document(line)
    written = found.pop("format", None)
    if written != FORMAT or isinstance(written, bool):
        raise ValueError(f"it is of format {written!r:.60}; this version reads {FORMAT}")
    require(line.endswith(b"\n"), "it is cut off at the end of the file")
    return as_dataclass(Recording, found)


def person_rows(spec: str, manifest: Manifest, common: Row) -> list[Row]:
    """Return a row for every episode that a bundle has played with a person, from the file of a spec `person:FILE`.

    Raise `ValueError` where the file has none of them.
    """
    path, sha256 = Path(spec.partition(":")[2]), bundle_hash(manifest)
    others: set[str] = set()
    found: list[Row] = []
    for own in read(path):
        if own.teammate != PERSON:
            continue
        if (own.scenario, own.sha256) != (common.scenario, sha256):
            others.add(f"{own.agent} ({own.scenario}, {own.sha256[:12] or 'no bundle'})")
            continue
        teammate = f"{PERSON}:{path.name} with {own.selector}"
        played = replace(common, teammate=teammate, tier=PERSON, stage=own.stage, episode=own.episode)
        found.append(replace(played, return_=own.return_, length=own.length, outcome=own.outcome, won=own.won))
    if not found:
        there = f"it has episodes of {', '.join(sorted(others))}" if others else "it has no episode with a person"
        raise ValueError(
            f"{path} has no episode of a person with this bundle ({common.scenario}, {sha256[:12]}); {there}"
        )
    return found


def _policies(spec: str, scenario: str, world: World) -> Sequence[Any]:
    raise ValueError(
        f"{PERSON}:{spec} cannot play: recorded persons are reported and never replayed; use it in "
        f"`macop evaluate BUNDLE --teammates {PERSON}:{spec}`"
    )


register_prefix(PERSON, _policies)  # type: ignore[arg-type]
