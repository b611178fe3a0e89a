"""A phase of training, by either learner."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil

import torch

from macop_aht.learner.experience import Experience, environments
from macop_aht.learner.mixers import Qmix, Vdn
from macop_aht.learner.networks import Stack
from macop_aht.learner.ppo import PpoLearner
from macop_aht.learner.replay import Replay
from macop_aht.learner.rollout import Collector
from macop_aht.learner.rounds import PpoTraining
from macop_aht.learner.training import Source, Training, TrainingConfig
from macop_aht.learner.update import Learner, Losses, Play, td_on
from macop_aht.scenarios.spec import World

AnyLearner = Learner | PpoLearner
AnyTraining = Training | PpoTraining
Mixers = Mapping[Play, Vdn | Qmix]  # of Q-learning: for self-play, and for cross-play (default: VDN)


def begin(
    world: World,
    net: Stack,
    experiences: Sequence[Experience],
    config: TrainingConfig,
    steps: int,
    seed: int,
    terms: Losses | None = None,
    mixers: Mixers | None = None,
) -> AnyTraining:
    """Return a phase in which a stack learns from experiences, by the learner that the settings name.

    `terms` are added to its loss. `steps` are those of all networks and experiences together. The mixers are for Q-learning.
    """
    if config.learner == "ppo":
        return PpoTraining(world, config, net, experiences, steps, seed, terms)
    mixing: dict[Play, Vdn | Qmix] = {"self": Vdn(), "cross": Vdn(), **(mixers or {})}
    learner = Learner(net, mixing["self"], config.update, mixing["cross"])
    sources: list[Source] = []
    added = dict(terms or {})
    for k, experience in enumerate(experiences):
        first = sources[0].collector.replay if sources else None
        with_mixer = isinstance(mixing[experience.play], Qmix)
        sources.append(source(world, experience, config, net.population, with_mixer, learner.device, first))
        if k > 0 and not experience.demonstration:
            replay = sources[k].collector.replay
            term = td_on(replay, config.batch, experience.draws, experience.play, experience.sign)
            added[f"experience {k}"] = (experience.weight, term)
    return Training(config, learner, sources, steps, seed, added, experiences[0].play)


def source(
    world: World,
    experience: Experience,
    config: TrainingConfig,
    members: int,
    with_mixer: bool,
    device: torch.device,
    first: Replay | None = None,
) -> Source:
    """Return an experience as Q-learning takes it: with a replay buffer, which is the first one's for demonstrations."""
    replay = first
    if replay is None or not experience.demonstration:
        state = world.state_dim if with_mixer else 0
        replay = Replay(world, members, capacity(config, experience.groups), state, experience.seats, experience.groups)
    ring = None if experience.group is None else experience.ring
    collector = Collector(world, experience.seating, experience.member, replay, experience.seed, device, ring)
    if experience.attach:
        experience.attach(collector)
    return Source(collector, experience.share, experience.explorers)


def capacity(config: TrainingConfig, groups: int) -> int:
    """Return the capacity of each of a network's rings: room at least for its part of a batch."""
    return max(config.capacity // groups, environments(config, groups) + ceil(config.batch / groups))
