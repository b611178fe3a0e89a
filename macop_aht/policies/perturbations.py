"""Habits that any teammate can be given: noisy, sticky, delayed, idle, switching in mid-episode.

A wrapper's memory holds the agent's index, its own columns, and then the memory of the policy inside.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from macop_aht.policies.adapters import as_policy
from macop_aht.policies.scripted import random_actions
from macop_aht.scenarios.spec import World

MOST_STEPS = 1_000
Decision = tuple[np.ndarray, np.ndarray]


def _idle_action(mask: np.ndarray) -> np.ndarray:
    """Doing nothing is the first available action in every scenario: (R,A) -> (R,)."""
    return np.argmax(mask, axis=1)


def _inside(memory: np.ndarray, first: int, size: int) -> np.ndarray:
    """The inner policy's part of the memory, with the agent's index where it expects it."""
    inner = memory[:, first : first + size].copy()
    inner[:, 0] = memory[:, 0]
    return inner


def _probability(name: str, value: float) -> float:
    if not 0 <= value <= 1:
        raise ValueError(f"{name} is {value}; it is a probability, so give a number in 0..1")
    return float(value)


def _steps(name: str, value: float) -> int:
    if not (0 <= value <= MOST_STEPS and value == int(value)):
        raise ValueError(f"{name} is {value}; give a whole number of steps in 0..{MOST_STEPS}")
    return int(value)


class Noisy:
    """Takes a random available action with probability `epsilon`."""

    checked = True

    def __init__(self, inner: Any, epsilon: float = 0.1) -> None:
        inner = as_policy(inner)
        self.inner, self.epsilon = inner, _probability("noisy", epsilon)
        self.name = f"{inner.name}+noisy={self.epsilon:g}"
        self.memory_size, self.draws = inner.memory_size, 2 + inner.draws

    def act(self, obs: np.ndarray, mask: np.ndarray, memory: np.ndarray, draws: np.ndarray) -> Decision:
        action, memory = self.inner.act(obs, mask, memory, np.ascontiguousarray(draws[:, 2:]))
        noise = np.zeros(len(obs), dtype=np.int64)
        random_actions(mask, np.ascontiguousarray(draws[:, 1:2]), noise)
        return np.where(draws[:, 0] < self.epsilon, noise, action), memory


class Sticky:
    """Repeats its last action with probability `p` (what the policy inside would have done is lost)."""

    checked = True

    def __init__(self, inner: Any, p: float = 0.25) -> None:
        inner = as_policy(inner)
        self.inner, self.p = inner, _probability("sticky", p)
        self.name = f"{inner.name}+sticky={self.p:g}"
        self.memory_size, self.draws = 2 + inner.memory_size, 1 + inner.draws

    def act(self, obs: np.ndarray, mask: np.ndarray, memory: np.ndarray, draws: np.ndarray) -> Decision:
        memory = memory.copy()
        inner_memory = _inside(memory, 2, self.inner.memory_size)
        action, memory[:, 2:] = self.inner.act(obs, mask, inner_memory, np.ascontiguousarray(draws[:, 1:]))
        last = memory[:, 1].astype(np.int64) - 1  # the column holds the last action + 1, and 0 at first
        repeat = (last >= 0) & (draws[:, 0] < self.p)
        repeat &= mask[np.arange(len(mask)), np.maximum(last, 0)] == 1
        action = np.where(repeat, last, action)
        memory[:, 1] = action + 1
        return action, memory


class Delayed:
    """Acts on what it saw `steps` ago; until then on the first thing it saw."""

    checked = True

    def __init__(self, inner: Any, steps: float, world: World) -> None:
        inner = as_policy(inner)
        self.inner, self.steps = inner, _steps("delayed", steps)
        self.name = f"{inner.name}+delayed={self.steps}"
        self._split = len(world.observations)
        self._width = self._split + len(world.actions)
        self._held = 2 + self.steps * self._width  # agent, clock, then the views held back, oldest first
        self.memory_size, self.draws = self._held + inner.memory_size, inner.draws

    def act(self, obs: np.ndarray, mask: np.ndarray, memory: np.ndarray, draws: np.ndarray) -> Decision:
        memory = memory.copy()
        now = np.concatenate([obs, mask], axis=1).astype(np.float32)
        held = memory[:, 2 : self._held]
        first = memory[:, 1] == 0
        held[first] = np.tile(now[first], self.steps)
        line = np.concatenate([held, now], axis=1)
        seen = np.ascontiguousarray(line[:, : self._split])
        seen_mask = line[:, self._split : self._width].astype(np.int8)
        memory[:, 2 : self._held] = line[:, self._width :]
        memory[:, 1] = 1
        inner_memory = _inside(memory, self._held, self.inner.memory_size)
        action, memory[:, self._held :] = self.inner.act(seen, seen_mask, inner_memory, draws)
        available = mask[np.arange(len(mask)), action] == 1
        return np.where(available, action, _idle_action(mask)), memory


class Idle:
    """Does nothing for the first `steps` steps, then plays as if the episode had begun."""

    checked = True

    def __init__(self, inner: Any, steps: float = 5) -> None:
        inner = as_policy(inner)
        self.inner, self.steps = inner, _steps("idle", steps)
        self.name = f"{inner.name}+idle={self.steps}"
        self.memory_size, self.draws = 2 + inner.memory_size, inner.draws

    def act(self, obs: np.ndarray, mask: np.ndarray, memory: np.ndarray, draws: np.ndarray) -> Decision:
        memory = memory.copy()
        action = _idle_action(mask)
        up = np.flatnonzero(memory[:, 1] >= self.steps)
        memory[:, 1] += 1
        if len(up):
            inner_memory = _inside(memory[up], 2, self.inner.memory_size)
            action[up], memory[up, 2:] = self.inner.act(obs[up], mask[up], inner_memory, draws[up])
        return action, memory


class Switching:
    """Plays as one policy, and after `steps` steps as another, which then begins afresh."""

    checked = True

    def __init__(self, first: Any, then: Any, steps: float = 10) -> None:
        first, then = as_policy(first), as_policy(then)
        self.first, self.then, self.steps = first, then, _steps("switch", steps)
        self.name = f"{first.name}+switch={self.steps},{then.name}"
        self._second = 2 + first.memory_size
        self.memory_size = self._second + then.memory_size
        self.draws = max(first.draws, then.draws)

    def act(self, obs: np.ndarray, mask: np.ndarray, memory: np.ndarray, draws: np.ndarray) -> Decision:
        memory = memory.copy()
        action = np.zeros(len(obs), dtype=np.int64)
        late = memory[:, 1] >= self.steps
        memory[:, 1] += 1
        for policy, plays, at in ((self.first, ~late, 2), (self.then, late, self._second)):
            rows = np.flatnonzero(plays)
            if len(rows):
                inner_memory = _inside(memory[rows], at, policy.memory_size)
                action[rows], memory[rows, at : at + policy.memory_size] = policy.act(
                    obs[rows], mask[rows], inner_memory, np.ascontiguousarray(draws[rows, : policy.draws])
                )
        return action, memory
