"""The contract that all worlds keep, and checks of their parameters.

Axis letters: B environments, N agents, A actions, D observation entries, K random draws, R rows (one agent of one
environment each). Families are frozen dataclasses, so they hash, compare and print. Everything that changes is in the
state: a named tuple of arrays with leading axis B.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import isfinite
from numbers import Real
from operator import index
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

if TYPE_CHECKING:
    from macop_aht.scenarios.batch import Batch
    from macop_aht.scenarios.scene import SceneOf

Cell = tuple[int, int]
Point = tuple[float, float]
MOST = 10**9  # of anything that is counted


@dataclass(frozen=True)
class Script:
    """A scripted teammate: a line that describes it, and the kernel that plays it.

    The kernel `act(params, code, argument, obs, mask, agent, memory, draws, action)` fills `action` (R,) and updates
    `memory` (R,H), zeros when an episode begins, in place. `agent` (R,) is the index of the agent in each row.
    """

    about: str
    act: Callable[..., None]
    params: Any  # what the kernel reads: figures of the world
    code: int  # which of the kernel's behaviours
    argument: int = 0  # which corner, prey, landmark or post
    memory: int = 0  # columns of its memory
    draws: int = 0  # random draws per step


@dataclass(frozen=True)
class OwnScript:
    """A scripted teammate of the user's: a line that describes it, and a policy or a callable (obs, mask) -> action."""

    about: str
    policy: Any


class Kernels(NamedTuple):
    """The rules of a family: compiled functions over B environments. They change only the arrays that they are given."""

    reset: Callable[..., None]  # (params, state, rows, draws): rows (B,) bool, draws (B,K)
    step: Callable[..., None]  # (params, state, action, draws, reward, terminated): (B,N) (B,K) -> (B,) (B,)
    observe: Callable[..., None]  # (params, state, rows, obs): (B,) bool -> (B,N,D) float32
    mask: Callable[..., None]  # (params, state, rows, mask): (B,) bool -> (B,N,A) int8
    advance: Callable[..., None]  # step, observe and mask in one call, because a call costs more than a small step
    global_state: Callable[..., None] | None = None  # (params, state, out): (B,S); None: all observations concatenated


def no_info(state: Any) -> Mapping[str, np.ndarray]:
    """Return nothing: most worlds add no entries to `info`."""
    return {}


@dataclass(frozen=True, eq=False)
class World:
    """A family with its parameters set, ready to run: rules, sizes, and the names of actions and observation entries."""

    kernels: Kernels
    params: Any  # the named tuple of figures that the kernels read
    allocate: Callable[[int], Any]  # returns an empty state for B environments
    n_agents: int
    controllable: int  # agents 0..m-1 are the ego's
    limit: int  # steps after which an episode is truncated
    actions: tuple[str, ...]
    observations: tuple[str, ...]  # names of the D entries
    bounds: tuple[np.ndarray, np.ndarray]  # of the observation: (D,) (D,)
    state_dim: int
    reset_draws: int  # random draws per reset
    step_draws: int  # random draws per step
    scripts: Mapping[str, Script | OwnScript]
    scene: SceneOf  # what there is to see of environment b of a state
    outcome: Callable[[Any, int], str]  # label of how the episode in environment b ended; "" without success
    info: Callable[[Any], Mapping[str, np.ndarray]] = no_info  # a state's entries of `info`, (B,) each
    state_bounds: tuple[np.ndarray, np.ndarray] | None = None  # of the global state; None: those of all observations
    make_batch: Callable[[World, int], Batch] | None = None  # returns B environments; None: those of the kernels

    @property
    def own(self) -> bool:
        """Return whether this is a world of the suite, which knows where its agents are."""
        return self.make_batch is None

    @property
    def global_bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the bounds of the global state: (S,) (S,)."""
        low, high = self.bounds
        return self.state_bounds or (np.tile(low, self.n_agents), np.tile(high, self.n_agents))


class Family(Protocol):
    """A frozen dataclass of parameters, checked when it is made, that builds a world. Its docstring is the manual."""

    def build(self) -> World:
        """Return the world with these parameters."""
        ...

    def __hash__(self) -> int: ...


def circle(count: int, radius: float = 1.0, centre: Point = (0.0, 0.0), turn: float = 0.0) -> tuple[Point, ...]:
    """Return `count` points evenly spaced on a circle, from the east counter-clockwise; `turn` rotates, in whole turns."""
    angles = 2 * np.pi * (np.arange(count) / count + turn)
    return tuple((centre[0] + radius * float(np.cos(a)), centre[1] + radius * float(np.sin(a))) for a in angles)


def require(holds: bool, problem: str) -> None:
    """Raise a `ValueError` with this message where the condition does not hold."""
    if not holds:
        raise ValueError(problem)


def require_teammate(controllable: int, n_agents: int) -> None:
    """Raise a `ValueError` unless the team has at least one controllable agent and one teammate."""
    require(n_agents >= 2, f"n_agents is {n_agents}; a team has at least 2")
    require(
        1 <= controllable < n_agents,
        f"controllable is {controllable}; allowed are 1..{n_agents - 1}, so that a teammate remains",
    )


def _is_number(value: object) -> bool:
    try:
        return isinstance(value, Real) and isfinite(value)
    except OverflowError:  # a whole number that no float holds
        return False


def require_positive(thing: object, *names: str) -> None:
    """Raise a `ValueError` unless the named parameters are finite numbers above zero."""
    for name in names:
        value = getattr(thing, name)
        require(_is_number(value) and value > 0, f"{name} is {value!r}; it must be a positive finite number")


def require_not_negative(thing: object, *names: str) -> None:
    """Raise a `ValueError` unless the named parameters are finite numbers of at least zero."""
    for name in names:
        value = getattr(thing, name)
        require(_is_number(value) and value >= 0, f"{name} is {value!r}; it must be a finite number, at least 0")


def entries(name: str, value: Iterable[Any], what: str) -> tuple[Any, ...]:
    """Return a sequence of any kind as a tuple, so that it hashes. Raises `TypeError` for anything else."""
    try:
        return tuple(value)
    except TypeError:
        raise TypeError(f"{name} is {value!r}; give a sequence of {what}") from None


def whole(name: str, value: Any, least: int, most: int = MOST) -> int:
    """Return a number of any integer type as an int. Raises for other types, below `least` and above `most`."""
    bound = "a positive whole number" if least == 1 else f"a whole number, at least {least}"
    bound += "" if not isinstance(value, int) or value <= most else f" and at most {most}"
    problem = f"{name} is {value!r}; it must be {bound}"
    try:
        number = index(value)
    except TypeError:
        raise TypeError(problem) from None
    require(least <= number <= most, problem)
    return number


def make_whole(thing: object, **least: int) -> None:
    """Turn the named parameters of a frozen dataclass into ints; each name comes with its smallest allowed value."""
    for name, bound in least.items():
        object.__setattr__(thing, name, whole(name, getattr(thing, name), bound))


def point(name: str, value: Any) -> Point:
    """Return two finite numbers from a sequence of any kind."""
    pair = entries(name, value, "two numbers, such as (1, 2)")
    good = len(pair) == 2 and all(map(_is_number, pair))
    require(good, f"{name} is {value!r}; it must be two finite numbers, such as (1, 2)")
    return float(pair[0]), float(pair[1])


def points(name: str, value: Any, least: int) -> tuple[Point, ...]:
    """Return pairs of finite numbers, at least `least` of them, from a sequence of any kind."""
    pairs = entries(name, value, "pairs of numbers, such as ((1, 2), (3, 4))")
    require(len(pairs) >= least, f"{name} holds {len(pairs)} pairs; give at least {least}")
    return tuple(point(f"{name}[{k}]", pair) for k, pair in enumerate(pairs))


def cell(name: str, value: Any) -> Cell:
    """Return a row and a column, both integers."""
    row, col = point(name, value)
    require(row.is_integer() and col.is_integer(), f"{name} is {value!r}; rows and columns must be integers")
    return int(row), int(col)


def cells(name: str, value: Any, least: int) -> tuple[Cell, ...]:
    """Return rows and columns, at least `least` pairs of them."""
    return tuple(cell(f"{name}[{k}]", pair) for k, pair in enumerate(points(name, value, least)))
