"""Whom the recogniser and the common head learn with: the groups of the run, and the ego's own heads in the teammates' place.

The heads are groups that never were, each another way of acting as one that the ego was trained with: they are there for the sake
of teammates who are none of the run's groups. In some episodes two environments' teammates change places, for the sake of those
who become others in mid-episode.
"""

from __future__ import annotations

import numpy as np

from macop_aht.learner.networks import Ego, Stack
from macop_aht.learner.rollout import Rollout
from macop_aht.scenarios.spec import World

AT_ONCE = 12_800  # steps of the longest episodes that are played in lockstep
ENVIRONMENTS = (64, 512)  # in lockstep, at least and about at most; as many for each group
OFTEN = 3  # times as many episodes with a group of the run as with a head in the teammates' place


def company(ego: Ego, groups: Stack) -> Stack:
    """The groups that the ego met, and behind them its own heads."""
    return Stack.gather([(stack, k) for stack in (groups, ego.apart()) for k in range(stack.population)])


def attendance(world: World, groups: int, heads: int) -> np.ndarray:
    """Who is in each of the environments that are played in lockstep: (B,). The last `heads` of the groups are the ego's own."""
    met = groups - heads
    who = [*range(met)] * (OFTEN if heads else 1) + [*range(met, groups)]
    copies = -(-int(np.clip(AT_ONCE // world.limit, *ENVIRONMENTS)) // len(who))
    return np.repeat(who, copies)


class Changes:
    """In some episodes of a round others take over: two environments' teammates change places, once, in the first half."""

    def __init__(self, able: np.ndarray, share: float, limit: int, rng: np.random.Generator) -> None:
        """In that share of the environments that are `able`, (B,) bool; `limit` is the longest episode."""
        drawn = rng.permutation(np.flatnonzero(able))
        pairs = round(share * len(drawn) / 2)
        self._here, self._there = drawn[: 2 * pairs].reshape(2, pairs)
        self._step = rng.integers(1, max(limit // 2, 1) + 1, pairs)

    def make(self, rollout: Rollout, group: np.ndarray, step: int) -> None:
        """Those that are due after so many steps; `group` (B,) is who is where."""
        due = self._step == step
        if due.any():
            here, there, to = self._here[due], self._there[due], np.arange(len(group))
            to[here], to[there] = there, here
            rollout.exchange(to)
            group[to] = group.copy()
