"""What all worlds share: the contract of a world, and what a scripted teammate is.

Axis letters: B environments, N agents, A actions, D observation entries, K random draws, R rows (one agent of one
environment each). Worlds are frozen dataclasses, so they hash, compare and print; everything that changes is in the
state, a named tuple of arrays with leading axis B.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

if TYPE_CHECKING:
    from macop_aht.scenarios.drawing import Canvas

Cell = tuple[int, int]
Point = tuple[float, float]


@dataclass(frozen=True)
class Script:
    """A scripted behaviour: what it does in one line, and the kernel that does it.

    The kernel `act(params, code, argument, obs, mask, memory, draws, action)` fills `action` (R,) and updates
    `memory` (R,H) in place. Column 0 of the memory holds the agent's index; the others are zero when an episode begins.
    """

    about: str
    act: Callable[..., None]
    params: Any  # what the kernel must know of the world
    code: int  # which behaviour
    argument: int = 0  # which corner, prey, landmark, post
    memory: int = 1  # columns
    draws: int = 0  # random draws per step


class Kernels(NamedTuple):
    """The rules of a family: compiled functions over B environments that change only the arrays they are given."""

    reset: Callable[..., None]  # (params, state, rows, draws): rows (B,) bool, draws (B,K)
    step: Callable[..., None]  # (params, state, action, draws, reward, terminated): (B,N) (B,K) -> (B,) (B,)
    observe: Callable[..., None]  # (params, state, rows, obs): (B,) bool -> (B,N,D) float32
    mask: Callable[..., None]  # (params, state, rows, mask): (B,) bool -> (B,N,A) int8
    advance: Callable[..., None]  # the last three in one call, since a call costs more than a small step
    global_state: Callable[..., None] | None = None  # (params, state, out): (B,S); none: all observations in a row


@dataclass(frozen=True, eq=False)
class World:
    """A family with its parameters set, ready to run: its rules, its sizes and the names of everything in it."""

    kernels: Kernels
    params: Any  # what the kernels read
    allocate: Callable[[int], Any]  # an empty state for B environments
    n_agents: int
    controllable: int  # agents 0..m-1 are the ego's
    limit: int  # steps, after which an episode is truncated
    actions: tuple[str, ...]
    observations: tuple[str, ...]  # the names of the entries
    bounds: tuple[np.ndarray, np.ndarray]  # of the observation: (D,) (D,)
    state_dim: int
    reset_draws: int  # random draws per reset
    step_draws: int  # and per step
    scripts: Mapping[str, Script]
    draw: Callable[[Canvas, Any, int], None]  # paint environment b of a state


class Family(Protocol):
    """A frozen dataclass of parameters, checked when made, that builds a world. Its docstring is the manual."""

    def build(self) -> World: ...
    def __hash__(self) -> int: ...


def hint(word: str, allowed: Mapping[str, object] | list[str] | tuple[str, ...]) -> str:
    """`'corner-nw' is not …` with a suggestion where one is near, and the list of what is allowed."""
    near = get_close_matches(word, list(allowed), n=1, cutoff=0.5)
    question = f"did you mean {near[0]!r}? " if near else ""
    return f"{question}Allowed: {', '.join(map(str, allowed))}"


def circle(count: int, radius: float = 1.0, centre: Point = (0.0, 0.0), turn: float = 0.0) -> tuple[Point, ...]:
    """`count` points evenly on a circle, from the east counter-clockwise; `turn` is in whole turns."""
    angles = 2 * np.pi * (np.arange(count) / count + turn)
    return tuple((centre[0] + radius * float(np.cos(a)), centre[1] + radius * float(np.sin(a))) for a in angles)


def require(holds: bool, problem: str) -> None:
    """Raise a ValueError that says what came and what is allowed."""
    if not holds:
        raise ValueError(problem)


def require_teammate(controllable: int, n_agents: int) -> None:
    """Every team has at least one agent of the ego's and one teammate."""
    require(n_agents >= 2, f"n_agents is {n_agents}; a team has at least 2")
    require(
        1 <= controllable < n_agents,
        f"controllable is {controllable}; allowed are 1..{n_agents - 1}, so that a teammate remains",
    )


def require_positive(thing: object, *names: str) -> None:
    """The named parameters are greater than zero (NaN is not)."""
    for name in names:
        value = getattr(thing, name)
        require(value > 0, f"{name} is {value}; it must be positive")
