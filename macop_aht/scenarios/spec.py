"""What all worlds share: the contract of a world, and what a scripted teammate is.

Axis letters: B environments, N agents, A actions, D observation entries, K random draws, R rows (one agent of one
environment each). Worlds are frozen dataclasses, so they hash, compare and print; everything that changes is in the
state, a named tuple of arrays with leading axis B.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

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


@runtime_checkable
class World(Protocol):
    """A family with its parameters set. The methods are pure kernels: they change only the arrays they are given."""

    limit: int  # steps, after which an episode is truncated
    controllable: int  # agents 0..m-1 are the ego's

    @property
    def n_agents(self) -> int: ...
    @property
    def actions(self) -> tuple[str, ...]: ...  # their names; the length is A
    @property
    def observations(self) -> tuple[str, ...]: ...  # the entries' names; the length is D
    @property
    def bounds(self) -> tuple[np.ndarray, np.ndarray]: ...  # of the observation: (D,) (D,)
    @property
    def state_dim(self) -> int: ...
    @property
    def reset_draws(self) -> int: ...
    @property
    def step_draws(self) -> int: ...

    def allocate(self, size: int) -> Any: ...
    def reset(self, state: Any, rows: np.ndarray, draws: np.ndarray) -> None: ...
    def step(
        self, state: Any, action: np.ndarray, draws: np.ndarray, reward: np.ndarray, terminated: np.ndarray
    ) -> None: ...
    def observe(self, state: Any, obs: np.ndarray) -> None: ...
    def mask(self, state: Any, mask: np.ndarray) -> None: ...
    def global_state(self, state: Any, out: np.ndarray) -> None: ...

    def scripts(self) -> Mapping[str, Script]: ...
    def draw(self, canvas: Canvas, state: Any, b: int) -> None: ...


def hint(word: str, allowed: Mapping[str, object] | list[str] | tuple[str, ...]) -> str:
    """`'corner-nw' is not …` with a suggestion where one is near, and the list of what is allowed."""
    near = get_close_matches(word, list(allowed), n=1, cutoff=0.5)
    question = f"did you mean {near[0]!r}? " if near else ""
    return f"{question}Allowed: {', '.join(map(str, allowed))}"


def circle(count: int, radius: float = 1.0, centre: Point = (0.0, 0.0), turn: float = 0.0) -> tuple[Point, ...]:
    """`count` points evenly on a circle, from the east counter-clockwise; `turn` is in whole turns."""
    angles = 2 * np.pi * (np.arange(count) / count + turn)
    return tuple((centre[0] + radius * float(np.cos(a)), centre[1] + radius * float(np.sin(a))) for a in angles)


def concatenated(observe: Callable[[Any, np.ndarray], None], state: Any, n_agents: int, out: np.ndarray) -> None:
    """The global state where a scenario says nothing else: all agents' observations in a row."""
    observe(state, out.reshape(out.shape[0], n_agents, -1))


def require(holds: bool, problem: str) -> None:
    """Raise a ValueError that says what came and what is allowed."""
    if not holds:
        raise ValueError(problem)
