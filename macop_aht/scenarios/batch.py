"""B copies of one world that step together: their states, clocks and random streams."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from macop_aht.compiling import njit
from macop_aht.scenarios import streams
from macop_aht.scenarios.binding import bind
from macop_aht.scenarios.spec import World
from macop_aht.util import require_memory


@njit(cache=True)
def _begin(rows, clock, episode, score):
    for b in range(rows.shape[0]):
        if rows[b]:
            clock[b] = 0
            episode[b] += 1
            score[b] = 0.0


@njit(cache=True)
def _tick(clock):
    clock += 1


@njit(cache=True)
def _settle(clock, limit, reward, terminated, truncated, score):
    for b in range(clock.shape[0]):
        truncated[b] = clock[b] >= limit and not terminated[b]
        score[b] += reward[b]


def _bytes(world: World) -> int:
    """Return about how many bytes an environment takes, with teammates in it."""
    state = sum(part.nbytes for part in world.allocate(1) or ())  # an external world keeps its own
    agent = 4 * len(world.observations) + len(world.actions) + 100
    return state + world.n_agents * agent + 8 * (world.reset_draws + world.step_draws)


class Batch:
    """B environments of one world, without teammates: the caller gives every agent's action.

    `reset` and `step` write their results into the arrays `obs` (B,N,D), `mask` (B,N,A), `reward`, `terminated` and
    `truncated` (B,). The next call overwrites them.

    There is no automatic reset. After an episode has ended, its environment must be reset before its next step.
    Until then its entries in the arrays are meaningless.

    The arrays are changed in place and never replaced. To set a state from outside, write into `state` and call `look`.

    `shaped` and `shaped_score` are what is learnt from. Only worlds with shaped rewards have others than `reward` and `score`.
    `void` (B,) says where an episode ended without a result; it must be played again.
    """

    most: int | None = None  # episodes that are best played at the same time; None: any number

    def __init__(self, world: World, size: int) -> None:
        require_memory(
            size * _bytes(world), f"{size:,} environments", "make fewer of them, such as with num_envs or --envs"
        )
        self.world, self.size = world, size
        self.state = world.allocate(size)
        self.obs = np.zeros((size, world.n_agents, len(world.observations)), dtype=np.float32)
        self.mask = np.zeros((size, world.n_agents, len(world.actions)), dtype=np.int8)
        self.reward = np.zeros(size)
        self.terminated = np.zeros(size, dtype=np.bool_)
        self.truncated = np.zeros(size, dtype=np.bool_)
        self.clock = np.zeros(size, dtype=np.int64)  # steps of this episode
        self.score = np.zeros(size)  # return of this episode
        self.shaped, self.shaped_score = self.reward, self.score
        self.void = np.zeros(size, dtype=np.bool_)
        self.episode = np.full(size, -1, dtype=np.int64)
        self._action = np.zeros((size, world.n_agents), dtype=np.int64)
        self._rows, self._all = np.ones((2, size), dtype=np.bool_)
        self._key = streams.keys(range(size), streams.WORLD)
        self._reset_draws = np.zeros((size, world.reset_draws))
        self._step_draws = np.zeros((size, world.step_draws))
        self._bind()

    def _bind(self) -> None:
        kernels, params, state = self.world.kernels, self.world.params, self.state
        moment = (self._key, self.episode, self.clock)
        self._begin = bind(_begin, self._rows, self.clock, self.episode, self.score)
        self._draw_reset = bind(streams.uniforms_for, self._rows, *moment, self._reset_draws)
        self._reset = bind(kernels.reset, params, state, self._rows, self._reset_draws)
        self._observe = bind(kernels.observe, params, state, self._rows, self.obs)
        self._mask = bind(kernels.mask, params, state, self._rows, self.mask)
        self._tick = bind(_tick, self.clock)
        self._draw_step = bind(streams.uniforms, *moment, self._step_draws)
        outcome = (self.reward, self.terminated)
        self._advance = bind(
            kernels.advance, params, state, self._action, self._step_draws, *outcome, self._all, self.obs, self.mask
        )
        self._settle = bind(_settle, self.clock, self.world.limit, *outcome, self.truncated, self.score)

    def seed(self, seeds: Sequence[int], rows: np.ndarray | None = None) -> None:
        """Seed every environment, or those in `rows`, (B,) bool: one seed for each. The next reset begins its episode 0."""
        at = slice(None) if rows is None else rows
        self._key[at] = streams.keys(seeds, streams.WORLD)
        self.episode[at] = -1

    def reset(self, rows: np.ndarray | None = None) -> None:
        """Begin a new episode in every environment, or in those in `rows`, (B,) bool."""
        self._rows[:] = True if rows is None else rows
        self._begin()
        self._draw_reset()
        self._reset()
        self._observe()
        self._mask()

    def step(self, action: np.ndarray) -> None:
        """Step all environments: `action` (B,N), each in 0..A-1. The range is not checked here."""
        self._action[:] = action
        self._tick()
        if self.world.step_draws:
            self._draw_step()
        self._advance()
        self._settle()

    def look(self) -> None:
        """Recompute `obs` and `mask` after a state was set from outside."""
        self._rows[:] = True
        self._observe()
        self._mask()

    def global_state(self) -> np.ndarray:
        """Return the state for centralised training as a new array: (B,S) float32."""
        if self.world.kernels.global_state is None:
            return self.obs.reshape(self.size, -1).copy()
        out = np.zeros((self.size, self.world.state_dim), dtype=np.float32)
        self.world.kernels.global_state(self.world.params, self.state, out)
        return out

    def state_arrays(self) -> dict[str, Any]:
        """Return where every episode stands, for a checkpoint."""
        return {"world": self.state._asdict(), "clock": self.clock, "episode": self.episode, "score": self.score}

    def load_arrays(self, arrays: Mapping[str, Any]) -> np.ndarray:
        """Restore what `state_arrays` returned. Returns where that has failed: nowhere, (B,) bool."""
        for name, array in arrays["world"].items():
            getattr(self.state, name)[:] = array
        for name in ("clock", "episode", "score"):
            getattr(self, name)[:] = arrays[name]
        self.look()
        return np.zeros(self.size, dtype=np.bool_)


def make_batch(world: World, size: int) -> Batch:
    """Return so many environments of a world."""
    return Batch(world, size) if world.make_batch is None else world.make_batch(world, size)
