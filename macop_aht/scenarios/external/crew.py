"""The environments of a batch, or those that one worker process has of it: they step into shared arrays."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from macop_aht.scenarios.external.layout import Layout
from macop_aht.scenarios.external.team import Recipe, Team

LABEL = 64  # characters of an outcome


class Arrays(NamedTuple):
    """What a batch and its crews share, with leading axis B."""

    rows: np.ndarray  # bool: where something is to be done
    seed: np.ndarray  # int64: of the episode that begins
    first: np.ndarray  # bool: whether it is the first one of its seed
    action: np.ndarray  # (B,N) int64
    obs: np.ndarray  # (B,N,D) float32
    mask: np.ndarray  # (B,N,A) int8
    reward: np.ndarray
    shaped: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    void: np.ndarray  # bool: the episode ended without a result, since the connection to the game was lost
    won: np.ndarray
    outcome: np.ndarray  # str
    state: np.ndarray  # (B,S) float32: the environment's own

    def every(self, first: int, step: int) -> Arrays:
        """Return every so many environments' part of the arrays."""
        return Arrays(*(array[first::step] for array in self))


def fields(layout: Layout, size: int) -> dict[str, tuple[tuple[int, ...], Any]]:
    """Return the shapes and types of the arrays."""
    agents = len(layout.agents)
    flags = ("rows", "first", "terminated", "truncated", "void", "won")
    return {
        "seed": ((size,), np.int64),
        "action": ((size, agents), np.int64),
        "reward": ((size,), np.float64),
        "shaped": ((size,), np.float64),
        "obs": ((size, agents, layout.entries), np.float32),
        "state": ((size, layout.state_dim), np.float32),
        "outcome": ((size,), f"U{LABEL}"),
        "mask": ((size, agents, len(layout.actions)), np.int8),
        **dict.fromkeys(flags, ((size,), np.bool_)),
    }


def bytes_needed(layout: Layout, size: int) -> int:
    """Return the size of a buffer for the arrays."""
    return max(sum(int(np.prod(shape)) * np.dtype(kind).itemsize for shape, kind in fields(layout, size).values()), 1)


def allocate(layout: Layout, size: int, buffer: Any = None) -> Arrays:
    """Return new arrays, or arrays in a buffer."""
    made, at = {}, 0
    for name, (shape, kind) in fields(layout, size).items():
        if buffer is None:
            made[name] = np.zeros(shape, dtype=kind)
        else:
            made[name] = np.ndarray(shape, dtype=kind, buffer=buffer, offset=at)
            at += made[name].nbytes
    return Arrays(**made)


class Crew:
    """Environments at some rows. They are taken from a pool of idle ones, and made where there is none."""

    def __init__(self, recipe: Recipe, arrays: Arrays, idle: list[Team], most: int) -> None:
        """At most `most` environments are alive, unless more episodes are played at the same time."""
        self._recipe, self.arrays, self._idle, self._most = recipe, arrays, idle, most
        self._team: dict[int, Team] = {}  # by row
        self._over: dict[int, None] = {}  # rows whose episode is over, the oldest first

    def reset(self, look: bool = False) -> None:
        """Begin an episode in the marked rows; `look`: write the states there."""
        arrays = self.arrays
        for b in np.flatnonzero(arrays.rows).tolist():
            self._over.pop(b, None)
            team = self._team.get(b) or self._taken(b)
            arrays.void[b], arrays.outcome[b] = False, ""
            team.begin(int(arrays.seed[b]), bool(arrays.first[b]), arrays.obs[b], arrays.mask[b])
            arrays.won[b] = False
            if look:
                arrays.state[b] = team.state()

    def _taken(self, b: int) -> Team:
        """Return an environment for a row: an idle one, or one whose episode is over, or a new one."""
        if self._idle:
            team = self._idle.pop()
        elif len(self._team) >= self._most and self._over:
            oldest = next(iter(self._over))
            del self._over[oldest]
            team = self._team.pop(oldest)
        else:
            team = Team(self._recipe)
        self._team[b] = team
        return team

    def step(self, look: bool = False) -> None:
        """Step the environments in the marked rows; `look`: write their states."""
        arrays = self.arrays
        for b in arrays.rows.nonzero()[0].tolist():
            team = self._team[b]
            reward, shaped, over, cut = team.step(arrays.action[b], arrays.obs[b], arrays.mask[b])
            arrays.reward[b], arrays.shaped[b], arrays.terminated[b], arrays.truncated[b] = reward, shaped, over, cut
            if self._recipe.layout.battles:
                arrays.won[b], arrays.void[b] = team.won, team.lost
            if look:
                arrays.state[b] = team.state()

    def finish(self) -> None:
        """Note the outcome in the marked rows, whose episodes are over."""
        for b in np.flatnonzero(self.arrays.rows).tolist():
            self._over[b] = None
            if self._recipe.outcome is not None:
                self.arrays.outcome[b] = self._team[b].outcome()[:LABEL]

    def look(self) -> None:
        """Write the environments' own states."""
        for b, team in self._team.items():
            self.arrays.state[b] = team.state()

    def picture(self, b: int, seed: int, actions: np.ndarray) -> np.ndarray:
        """Return the picture of an episode after these actions."""
        return self._team[b].picture(seed, actions)

    def release(self) -> None:
        """Give all environments back to the pool."""
        self._idle.extend(self._team.values())
        self._team.clear()
        self._over.clear()
