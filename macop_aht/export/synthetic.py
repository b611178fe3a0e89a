"""The teammates that the recogniser and the generalist head are trained with.

They are the groups of the run and, as synthetic groups, the ego's own heads in the teammates' seats. Each head acts in a way that
the ego was trained with, so the synthetic groups stand for teammates who are in none of the run's groups. In some episodes the
teammate is swapped mid-episode: two environments exchange theirs.
"""

from __future__ import annotations

import numpy as np

from macop_aht.episodes.runner import Lockstep
from macop_aht.learner.networks import Ego, Stack
from macop_aht.learner.seats import NetworkSeats
from macop_aht.scenarios.spec import World

STEPS = 12_800  # about so many steps in a round, where all episodes are of the longest length
ENVIRONMENTS = (64, 512)  # the smallest and about the largest number of environments in lockstep
RATIO = 3  # environments with a group of the run for one with a synthetic group


def with_synthetic(ego: Ego, groups: Stack) -> Stack:
    """Return the groups of a run, followed by the ego's heads as synthetic groups."""
    return Stack.gather([(stack, k) for stack in (groups, ego.apart()) for k in range(stack.population)])


def environments(world: World, groups: int, synthetic: int) -> np.ndarray:
    """Return the group in each of the environments that are played in lockstep, (B,).

    The last `synthetic` of the groups are synthetic, and are in fewer environments.
    """
    real = groups - synthetic
    who = [*range(real)] * (RATIO if synthetic else 1) + [*range(real, groups)]
    copies = -(-int(np.clip(STEPS // world.limit, *ENVIRONMENTS)) // len(who))
    return np.repeat(who, copies)


class Swaps:
    """Swapped teammates: in some episodes two environments exchange theirs, once, in the first half."""

    def __init__(self, allowed: np.ndarray, share: float, limit: int, rng: np.random.Generator) -> None:
        """Draw pairs and steps, for a share of the environments that are `allowed`, (B,); `limit` is the longest episode."""
        drawn = rng.permutation(np.flatnonzero(allowed))
        pairs = round(share * len(drawn) / 2)
        self._here, self._there = drawn[: 2 * pairs].reshape(2, pairs)
        self._step = rng.integers(1, max(limit // 2, 1) + 1, pairs)

    def make(self, play: Lockstep, seats: NetworkSeats, group: np.ndarray, step: int) -> None:
        """Make the swaps that are due after so many steps, in the seats and in `group`, (B,)."""
        due = self._step == step
        if due.any():
            here, there, to = self._here[due], self._there[due], np.arange(len(group))
            to[here], to[there] = there, here
            seats.exchange(play, to)
            group[to] = group.copy()
