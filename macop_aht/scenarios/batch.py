"""B copies of one world in lockstep: their states, clocks and random streams."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numba import njit

from macop_aht.scenarios import streams
from macop_aht.scenarios.spec import World


@njit(cache=True)
def _begin(rows, clock, episode):
    for b in range(rows.shape[0]):
        if rows[b]:
            clock[b] = 0
            episode[b] += 1


@njit(cache=True)
def _tick(clock):
    clock += 1


@njit(cache=True)
def _truncate(clock, limit, terminated, truncated):
    for b in range(clock.shape[0]):
        truncated[b] = clock[b] >= limit and not terminated[b]


class Batch:
    """B environments of one world, without teammates: every agent's action comes from outside.

    After `reset` and `step`, the arrays `obs` (B,N,D), `mask` (B,N,A), `reward`, `terminated` and `truncated` (B,) hold what
    has come of it; they are written over by the next call. Environments are never reset by themselves. One
    that has ended must be reset before it is stepped again; until then its entries mean nothing.
    """

    def __init__(self, world: World, size: int) -> None:
        self.world, self.size = world, size
        self.state = world.allocate(size)
        self.obs = np.zeros((size, world.n_agents, len(world.observations)), dtype=np.float32)
        self.mask = np.zeros((size, world.n_agents, len(world.actions)), dtype=np.int8)
        self.reward = np.zeros(size)
        self.terminated = np.zeros(size, dtype=np.bool_)
        self.truncated = np.zeros(size, dtype=np.bool_)
        self.clock = np.zeros(size, dtype=np.int64)  # steps of this episode
        self.episode = np.full(size, -1, dtype=np.int64)
        self._key = streams.keys(range(size), streams.WORLD)
        self._reset_draws = np.zeros((size, world.reset_draws))
        self._step_draws = np.zeros((size, world.step_draws))
        self._all = np.ones(size, dtype=np.bool_)

    def seed(self, seeds: Sequence[int], rows: np.ndarray | None = None) -> None:
        """Give every environment (or those in `rows`, (B,) bool) its stream; the next reset is its episode 0."""
        rows = self._all if rows is None else rows
        self._key[rows] = streams.keys(seeds, streams.WORLD)
        self.episode[rows] = -1

    def reset(self, rows: np.ndarray | None = None) -> None:
        """Begin a new episode in every environment, or in those in `rows`, (B,) bool."""
        rows = self._all if rows is None else rows
        _begin(rows, self.clock, self.episode)
        streams.uniforms(self._key, self.episode, self.clock, self._reset_draws)
        self.world.kernels.reset(self.world.params, self.state, rows, self._reset_draws)
        self.look()

    def step(self, action: np.ndarray) -> None:
        """All agents act at once: `action` (B,N) int64."""
        _tick(self.clock)
        if self.world.step_draws:
            streams.uniforms(self._key, self.episode, self.clock, self._step_draws)
        self.world.kernels.advance(
            self.world.params, self.state, action, self._step_draws, self.reward, self.terminated, self.obs, self.mask
        )
        _truncate(self.clock, self.world.limit, self.terminated, self.truncated)

    def look(self) -> None:
        """Write what the agents see and may do now; needed only after the state was changed from outside."""
        self.world.kernels.observe(self.world.params, self.state, self.obs)
        self.world.kernels.mask(self.world.params, self.state, self.mask)

    def global_state(self) -> np.ndarray:
        """The state for centralised training, freshly written: (B,S) float32."""
        if self.world.kernels.global_state is None:
            return self.obs.reshape(self.size, -1).copy()
        out = np.zeros((self.size, self.world.state_dim), dtype=np.float32)
        self.world.kernels.global_state(self.world.params, self.state, out)
        return out
