"""Distillation of an ego's old heads (Macop+): while the backbone learns with a new group, their values stay near what they were.

The ego's memory has, for every lesson, the head that served the group in the end with its backbone (`taught`: head and
snapshot), and some episodes with that group (`kept`). These heads are the teachers, and the values in these episodes the targets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any

import numpy as np
from torch import Tensor

from macop_aht.learner.networks import Ego, Stack
from macop_aht.learner.replay import Replay
from macop_aht.learner.rollout import Collector
from macop_aht.learner.seats import Exploration, Seating
from macop_aht.learner.training import TrainingConfig
from macop_aht.learner.update import Term
from macop_aht.methods import terms
from macop_aht.methods.phases import Settings, Setup, snapshots_of
from macop_aht.methods.rehearsal import replay_of, share_out, state_width


def loss(setup: Setup[Settings], ego: Ego, memory: Mapping[str, Any], training: TrainingConfig, seed: int) -> Term:
    """Return the distillation term, on a batch with as many kept episodes of every lesson."""
    then = teachers(ego, snapshots_of(setup, memory), memory["taught"])
    replay = replay_of(setup.world, memory["kept"])
    return terms.distillation(then, replay, min(ceil(training.batch / then.population), len(replay)), [seed, 3])


def teachers(ego: Ego, snapshots: Sequence[Sequence[Tensor]], lessons: Mapping[str, np.ndarray]) -> Stack:
    """Return, for every lesson, the head that served the group in the end, with the backbone of that time."""
    heads, networks = ego.apart().requires_grad_(False), []
    for head, snapshot in zip(lessons["head"], lessons["snapshot"], strict=True):
        networks.append(Stack.gather([(heads, head)]).requires_grad_(False))
        for parameter, then in zip(networks[-1].backbone.parameters(), snapshots[snapshot], strict=True):
            parameter.copy_(then)
    return Stack.gather([(network, 0) for network in networks]).requires_grad_(False)


def remember(
    memory: Mapping[str, Any], head: int, episodes: Replay, total: int, seed: int, state: int
) -> dict[str, Any]:
    """Return the memory after a lesson: the newest snapshot with this head is the teacher for the group of these episodes."""
    before = memory.get("taught", {"head": np.zeros(0, np.int64), "snapshot": np.zeros(0, np.int64)})
    newest = len(memory["snapshots"]) - 1
    taught = {"head": np.append(before["head"], head), "snapshot": np.append(before["snapshot"], newest)}
    kept = share_out(total, memory.get("kept", {}), episodes, np.random.default_rng([seed, 4]), state)
    return {**memory, "taught": taught, "kept": kept}


def played(
    setup: Setup[Settings], ego: Ego, head: int, group: Stack, training: TrainingConfig, episodes: int, seed: int
) -> Replay:
    """Return so many episodes of a head with a group, explored as much as at the end of a training."""
    world, own, envs = setup.world, range(setup.world.controllable), min(training.envs, episodes)
    replay = Replay(world, 1, episodes + envs, state_width(world, training), own)
    seating = Seating.cross_play(ego, group, np.array([[head, 0]]), envs, world.controllable)
    collector = Collector(world, seating, np.zeros(envs, dtype=np.int64), replay, seed, setup.device)
    epsilon = np.where(np.isin(np.arange(world.n_agents), own), training.epsilon_end, 0.0)
    while len(replay) < episodes:
        collector.step(Exploration(epsilon, training.persistence, training.together))
    return replay
