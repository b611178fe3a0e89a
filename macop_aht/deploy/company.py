"""Whom the recogniser and the common head learn with: the groups of the run, and the ego's own heads in the teammates' place.

The heads are groups that never were, each another way of acting as one that the ego was trained with: they are there for the sake
of teammates who are none of the run's groups. At times two environments' teammates change places, for the sake of those who
become others in mid-episode.
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


def change_places(rollout: Rollout, group: np.ndarray, chance: float, rng: np.random.Generator) -> None:
    """With that chance, an environment's teammates change places with another's in mid-episode; `group` (B,) is who is where."""
    drawn, to = rng.random(len(group)) < chance / 2, np.arange(len(group))
    there = rng.permutation(to[~drawn])[: drawn.sum()]
    here = to[drawn][: len(there)]
    to[here], to[there] = there, here
    rollout.exchange(to)
    group[to] = group.copy()
