"""How a user's environment fits into arrays: the order of its agents, its observations by name, its actions.

Agents with unlike spaces are padded: observations with zeros, actions with ones that are never available.
"""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces

from macop_aht.scenarios.external.errors import ExternalError, require

MASK = "action_mask"  # in an agent's info, or in its Dict observation


@dataclass(frozen=True)
class Part:
    """A simple space inside an agent's observation: where it is found, and which entries it fills."""

    path: tuple[Hashable, ...]  # keys of Dicts, places in Tuples
    shape: tuple[int, ...]
    first: int  # entry
    size: int
    choices: tuple[int, ...] = ()  # of one-hot entries: the number of each choice's entries; empty for numbers
    starts: tuple[int, ...] = ()  # of one-hot entries: each choice's smallest value


@dataclass(frozen=True)
class Reader:
    """Writes one agent's observation into a row of entries."""

    agent: Hashable
    parts: tuple[Part, ...]
    width: int
    names: tuple[str, ...]
    low: np.ndarray
    high: np.ndarray

    def read(self, seen: Any, out: np.ndarray) -> None:
        """Write an observation into `out` (D,). Raises `ExternalError` where it does not fit its space."""
        parts = self.parts
        if len(parts) == 1 and not parts[0].path and not parts[0].choices:  # the usual case is fast
            part = parts[0]
            if getattr(seen, "shape", None) != part.shape:
                seen = self._fitting(seen, part)
            if len(part.shape) == 1 and part.size == out.shape[0]:
                out[:] = seen
            else:
                out[: part.size] = seen.reshape(-1)
            return
        for part in parts:
            self._read_part(part, self._found(seen, part), out[part.first : part.first + part.size])

    def _read_part(self, part: Part, value: Any, out: np.ndarray) -> None:
        value = self._fitting(value, part)
        if not part.choices:
            out[:] = value.reshape(-1)
            return
        out[:] = 0.0
        first = 0
        for choice, start, count in zip(value.reshape(-1).tolist(), part.starts, part.choices, strict=True):
            require(
                0 <= choice - start < count,
                f"{self._what(part)} is {choice}; its space has {start}..{start + count - 1}",
            )
            out[first + int(choice) - start] = 1.0
            first += count

    def _found(self, seen: Any, part: Part) -> Any:
        for key in part.path:
            try:
                seen = seen[key]
            except (KeyError, IndexError, TypeError) as error:
                raise ExternalError(f"{self._what(part)} is missing; the space of the observation has it") from error
        return seen

    def _fitting(self, value: Any, part: Part) -> np.ndarray:
        try:
            array = np.asarray(value, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise ExternalError(f"{self._what(part)} is {value!r}, which is not made of numbers") from error
        require(
            array.shape == part.shape,
            f"{self._what(part)} has the shape {array.shape}, and its space {part.shape}; spaces must not change. Pad the "
            "observation to one shape",
        )
        return array

    def _what(self, part: Part) -> str:
        inside = "".join(f"[{key!r}]" for key in part.path)
        return f"the observation{inside} of agent {self.agent!r}"


def reader(agent: Hashable, space: Any) -> Reader:
    """Return the reader for an agent's observation space. A Dict may hold `action_mask`, which is no entry."""
    parts: list[Part] = []
    names: list[str] = []
    bounds: list[tuple[np.ndarray, np.ndarray]] = []
    for path, leaf in _leaves(agent, space):
        part, own, low, high = _part(agent, path, leaf, sum(part.size for part in parts))
        parts.append(part)
        names += own
        bounds.append((low, high))
    require(names, f"the observation space of agent {agent!r} is {space}, which has no entries")
    low, high = (np.concatenate([pair[k] for pair in bounds]).astype(np.float32) for k in (0, 1))
    return Reader(agent, tuple(parts), len(names), tuple(names), low, high)


def _leaves(agent: Hashable, space: Any, path: tuple[Hashable, ...] = ()) -> Iterator[tuple[tuple[Hashable, ...], Any]]:
    if isinstance(space, spaces.Dict):
        for key, inner in space.spaces.items():
            if key != MASK:
                yield from _leaves(agent, inner, (*path, key))
    elif isinstance(space, spaces.Tuple):
        for k, inner in enumerate(space.spaces):
            yield from _leaves(agent, inner, (*path, k))
    else:
        yield path, space


def _part(
    agent: Hashable, path: tuple[Hashable, ...], space: Any, first: int
) -> tuple[Part, list[str], np.ndarray, np.ndarray]:
    """Return the part of a simple space, the names of its entries, and their bounds."""
    name = "_".join(str(key) for key in path if key != "observation") or "obs"
    if isinstance(space, (spaces.Box, spaces.MultiBinary)):
        size = int(np.prod(space.shape))
        names = [f"{name}_{k}" for k in range(size)] if size > 1 or name == "obs" else [name]
        low = space.low.reshape(-1) if isinstance(space, spaces.Box) else np.zeros(size)
        high = space.high.reshape(-1) if isinstance(space, spaces.Box) else np.ones(size)
        return Part(path, tuple(space.shape), first, size), names, low, high
    choices: tuple[int, ...]
    starts: tuple[int, ...]
    if isinstance(space, spaces.Discrete):
        choices, starts = (int(space.n),), (int(space.start),)
    elif isinstance(space, spaces.MultiDiscrete):
        choices = tuple(int(n) for n in space.nvec.reshape(-1))
        starts = tuple(int(start) for start in np.broadcast_to(space.start, space.shape).reshape(-1))
    else:
        raise ExternalError(
            f"the observation of agent {agent!r} has the space {space}; allowed are Box, Discrete, MultiDiscrete and "
            "MultiBinary, and Dicts and Tuples of these"
        )
    several = len(choices) > 1
    names = [
        f"{name}_{k}_is_{start + value}" if several else f"{name}_is_{start + value}"
        for k, (count, start) in enumerate(zip(choices, starts, strict=True))
        for value in range(count)
    ]
    size = len(names)
    return Part(path, tuple(space.shape or ()), first, size, choices, starts), names, np.zeros(size), np.ones(size)


@dataclass(frozen=True)
class Layout:
    """What the arrays of an environment are like. Agents are in the order of the suite: the ego's first."""

    agents: tuple[Hashable, ...]
    controllable: int
    limit: int
    readers: tuple[Reader, ...]
    actions: tuple[str, ...]
    counts: tuple[int, ...]  # actions of each agent
    starts: tuple[int, ...]  # each agent's smallest action
    masks: tuple[str, ...]  # where each agent's mask is: "info", "observation" or "" without
    state_dim: int  # 0 where the environment has no state of its own
    battles: bool  # whether it tells who has won

    @property
    def entries(self) -> int:
        """Return the number of entries of an observation."""
        return max(own.width for own in self.readers)

    @property
    def observations(self) -> tuple[str, ...]:
        """Return the names of the entries; numbers where the agents have different ones."""
        names = {own.names for own in self.readers}
        return next(iter(names)) if len(names) == 1 else tuple(f"obs_{k}" for k in range(self.entries))

    @property
    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the bounds of the entries over all agents; an agent that has left observes zeros."""
        low, high = np.zeros((2, self.entries), dtype=np.float32)
        for own in self.readers:
            low[: own.width] = np.minimum(low[: own.width], own.low)
            high[: own.width] = np.maximum(high[: own.width], own.high)
        return low, high


def team_order(possible: Sequence[Hashable], ego: int | Sequence[Hashable]) -> tuple[tuple[Hashable, ...], int]:
    """Return the agents with the ego's first, and how many of them are the ego's."""
    team = tuple(possible)
    require(
        len(team) >= 2, f"possible_agents is {list(team)}; a team has at least 2 agents, so that a teammate remains"
    )
    require(len(set(team)) == len(team), f"possible_agents is {list(team)}; every agent needs a name of its own")
    if isinstance(ego, int):
        require(
            1 <= ego < len(team),
            f"ego is {ego}; allowed are 1..{len(team) - 1}, so that a teammate remains, or names of {list(team)}",
        )
        return team, ego
    strangers = [name for name in ego if name not in team]
    require(not strangers, f"ego names {strangers}; the environment's agents are {list(team)}")
    require(
        1 <= len(set(ego)) == len(ego) < len(team),
        f"ego is {list(ego)}; name at least one of {list(team)}, once, and leave a teammate",
    )
    return (*ego, *(name for name in team if name not in ego)), len(ego)


def action_sizes(form: Any, agents: Sequence[Hashable]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return each agent's number of actions, and the smallest of them. Raises `ExternalError` unless they are discrete."""
    counts, starts = [], []
    for agent in agents:
        space = _space(form, "action", agent)
        require(space is not None, f"the environment has no action space for agent {agent!r}; add action_space(agent)")
        if isinstance(space, spaces.Box):
            raise ExternalError(
                f"agent {agent!r} has the continuous action space {space}; all networks here choose among discrete actions. Make "
                "the environment with discrete actions (continuous_actions=False in MPE), or wrap it"
            )
        if not isinstance(space, spaces.Discrete):
            raise ExternalError(
                f"agent {agent!r} has the action space {space}; allowed is Discrete. Number the combinations in a wrapper"
            )
        counts.append(int(space.n))
        starts.append(int(space.start))
    return tuple(counts), tuple(starts)


def observation_readers(form: Any, agents: Sequence[Hashable], seen: Mapping[Hashable, Any]) -> tuple[Reader, ...]:
    """Return the readers of all agents. Where there is no observation space, the first observation says what it is like."""
    found = []
    for agent in agents:
        space = _space(form, "observation", agent)
        if space is None:
            require(
                agent in seen, f"agent {agent!r} has neither an observation space nor a first observation; add a space"
            )
            shape = np.shape(seen[agent])
            space = spaces.Box(-np.inf, np.inf, shape, dtype=np.float32)
        found.append(reader(agent, space))
    return tuple(found)


def _space(form: Any, kind: str, agent: Hashable) -> Any:
    """Return an agent's space, by PettingZoo's dictionary or its method; None where there is neither."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PettingZoo's base class warns before it fails
        try:
            return getattr(form, f"{kind}_space")(agent)
        except (AttributeError, KeyError, NotImplementedError, TypeError):
            table = getattr(form, f"{kind}_spaces", None)
    return table.get(agent) if isinstance(table, Mapping) else None


def where_masks_are(
    agents: Sequence[Hashable], seen: Mapping[Hashable, Any], infos: Mapping[Hashable, Any]
) -> tuple[str, ...]:
    """Return where each agent's mask of available actions is, by what `reset` returned."""

    def where(agent: Hashable) -> str:
        for place, told in (("info", infos.get(agent)), ("observation", seen.get(agent))):
            if isinstance(told, Mapping) and MASK in told:
                return place
        return ""

    return tuple(where(agent) for agent in agents)
