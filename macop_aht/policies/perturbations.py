"""Perturbations of a teammate: noisy, sticky, delayed, idle, or switching to another teammate mid-episode.

A perturbed policy does not notice it: the last action that it is told is always the one that it chose itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from macop_aht.policies.adapters import as_policy
from macop_aht.policies.protocol import Array, Decision, Policy
from macop_aht.policies.scripted import random_actions
from macop_aht.scenarios.spec import World

MOST_STEPS = 1_000


def _idle_action(mask: np.ndarray) -> np.ndarray:
    """Doing nothing is the first available action in every scenario: (R,A) -> (R,)."""
    return np.argmax(mask, axis=1)


def _probability(name: str, value: float) -> float:
    if not 0 <= value <= 1:
        raise ValueError(f"{name} is {value}; it is a probability, so give a number in 0..1")
    return float(value)


def _steps(name: str, value: float) -> int:
    if not (0 <= value <= MOST_STEPS and value == int(value)):
        raise ValueError(f"{name} is {value}; give a whole number of steps in 0..{MOST_STEPS}")
    return int(value)


class _Inner:
    """The policy inside a perturbation, and its columns of the memory: its own last action + 1, then what it remembers."""

    def __init__(self, policy: Policy, first: int) -> None:
        """`first` is the first of these columns."""
        self.policy, self._at, self.end = policy, first, first + 1 + policy.memory_size

    def act(
        self, obs: np.ndarray, mask: np.ndarray, agent: np.ndarray, memory: np.ndarray, draws: np.ndarray
    ) -> np.ndarray:
        """Return the actions (R,), and write its columns of the memory (R,H)."""
        last_action = memory[:, self._at].astype(np.int64) - 1
        own = memory[:, self._at + 1 : self.end].copy()
        draws = np.ascontiguousarray(draws[:, : self.policy.draws])
        action, own = self.policy.act(obs, mask, agent, last_action, own, draws)
        memory[:, self._at] = action + 1
        memory[:, self._at + 1 : self.end] = own
        return action


class Noisy:
    """Takes a random available action with probability `epsilon`."""

    def __init__(self, inner: Any, epsilon: float = 0.1) -> None:
        policy = as_policy(inner)
        self.epsilon, self._inner = _probability("noisy", epsilon), _Inner(policy, 0)
        self.name = f"{policy.name}+noisy={self.epsilon:g}"
        self.memory_size, self.draws = self._inner.end, 2 + policy.draws

    def act(self, obs: Array, mask: Array, agent: Array, last_action: Array, memory: Array, draws: Array) -> Decision:
        memory = memory.copy()
        action = self._inner.act(obs, mask, agent, memory, draws[:, 2:])
        noise = np.zeros(len(obs), dtype=np.int64)
        random_actions(mask, np.ascontiguousarray(draws[:, 1:2]), noise)
        return np.where(draws[:, 0] < self.epsilon, noise, action), memory


class Sticky:
    """Repeats its last action with probability `p`; what the policy inside has chosen in that step is lost."""

    def __init__(self, inner: Any, p: float = 0.25) -> None:
        policy = as_policy(inner)
        self.p, self._inner = _probability("sticky", p), _Inner(policy, 0)
        self.name = f"{policy.name}+sticky={self.p:g}"
        self.memory_size, self.draws = self._inner.end, 1 + policy.draws

    def act(self, obs: Array, mask: Array, agent: Array, last_action: Array, memory: Array, draws: Array) -> Decision:
        memory = memory.copy()
        action = self._inner.act(obs, mask, agent, memory, draws[:, 1:])
        repeat = (last_action >= 0) & (draws[:, 0] < self.p)
        repeat &= mask[np.arange(len(mask)), np.maximum(last_action, 0)] == 1
        return np.where(repeat, last_action, action), memory


class Delayed:
    """Acts on what it saw `steps` ago; until then, on the first thing that it saw."""

    def __init__(self, inner: Any, steps: float, world: World) -> None:
        policy = as_policy(inner)
        self.steps = _steps("delayed", steps)
        self.name = f"{policy.name}+delayed={self.steps}"
        self._split = len(world.observations)
        self._width = self._split + len(world.actions)
        self._held = 1 + self.steps * self._width  # whether it has begun, then the views held back, oldest first
        self._inner = _Inner(policy, self._held)
        self.memory_size, self.draws = self._inner.end, policy.draws

    def act(self, obs: Array, mask: Array, agent: Array, last_action: Array, memory: Array, draws: Array) -> Decision:
        memory = memory.copy()
        now = np.concatenate([obs, mask], axis=1).astype(np.float32)
        held = memory[:, 1 : self._held]
        first = memory[:, 0] == 0
        held[first] = np.tile(now[first], self.steps)
        line = np.concatenate([held, now], axis=1)
        seen = np.ascontiguousarray(line[:, : self._split])
        seen_mask = line[:, self._split : self._width].astype(np.int8)
        memory[:, 1 : self._held] = line[:, self._width :]
        memory[:, 0] = 1
        action = self._inner.act(seen, seen_mask, agent, memory, draws)
        available = mask[np.arange(len(mask)), action] == 1
        return np.where(available, action, _idle_action(mask)), memory


class Idle:
    """Does nothing for the first `steps` steps, then plays as if the episode had begun."""

    def __init__(self, inner: Any, steps: float = 5) -> None:
        policy = as_policy(inner)
        self.steps, self._inner = _steps("idle", steps), _Inner(policy, 1)  # column 0 is the clock
        self.name = f"{policy.name}+idle={self.steps}"
        self.memory_size, self.draws = self._inner.end, policy.draws

    def act(self, obs: Array, mask: Array, agent: Array, last_action: Array, memory: Array, draws: Array) -> Decision:
        memory = memory.copy()
        action = _idle_action(mask)
        up = np.flatnonzero(memory[:, 0] >= self.steps)
        memory[:, 0] += 1
        if len(up):
            own = memory[up]
            action[up] = self._inner.act(obs[up], mask[up], agent[up], own, draws[up])
            memory[up] = own
        return action, memory


class Switching:
    """Plays as one policy, and after `steps` steps as another, for which the episode then begins."""

    def __init__(self, first: Any, then: Any, steps: float = 10) -> None:
        before, after = as_policy(first), as_policy(then)
        self.steps = _steps("switch", steps)
        self.name = f"{before.name}+switch={self.steps},{after.name}"
        self._first = _Inner(before, 1)  # column 0 is the clock
        self._then = _Inner(after, self._first.end)
        self.memory_size, self.draws = self._then.end, max(before.draws, after.draws)

    def act(self, obs: Array, mask: Array, agent: Array, last_action: Array, memory: Array, draws: Array) -> Decision:
        memory = memory.copy()
        action = np.zeros(len(obs), dtype=np.int64)
        late = memory[:, 0] >= self.steps
        memory[:, 0] += 1
        for inner, plays in ((self._first, ~late), (self._then, late)):
            rows = np.flatnonzero(plays)
            if len(rows):
                own = memory[rows]
                action[rows] = inner.act(obs[rows], mask[rows], agent[rows], own, draws[rows])
                memory[rows] = own
        return action, memory
