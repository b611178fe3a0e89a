"""Self-play: P independent teams that learn in one stack."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch

from macop_aht.config import at_least, setting
from macop_aht.learner.experience import self_play
from macop_aht.learner.mixers import make_mixer
from macop_aht.learner.networks import Shape, Stack
from macop_aht.learner.phase import AnyTraining, begin
from macop_aht.learner.seats import Seating, greedy_returns
from macop_aht.learner.training import TrainingConfig
from macop_aht.learner.update import Losses
from macop_aht.scenarios.spec import World


@dataclass(frozen=True)
class SelfPlayConfig:
    """The settings of a self-play training."""

    teams: int = setting(4, "number of teams to train in one stack, at least 1")
    steps: int = setting(125_000, "number of environment steps per team, at least 1")
    training: TrainingConfig = field(default_factory=TrainingConfig)

    def __post_init__(self) -> None:
        at_least(self, 1, "teams", "steps")


def self_play_training(
    world: World,
    config: SelfPlayConfig,
    seed: int,
    device: torch.device,
    terms: Losses | None = None,
) -> AnyTraining:
    """Return the training of a self-play population. The same seed and threads give the same weights."""
    generator, training = torch.Generator().manual_seed(seed), config.training
    net = Stack(Shape.of(world), config.teams, generator).to(device)
    mixer = make_mixer(training.mixer, config.teams, world.n_agents, world.state_dim, generator).to(device)
    experience = self_play(net, training, seed)
    return begin(world, net, [experience], training, config.steps * config.teams, seed, terms, {"self": mixer})


def self_play_returns(world: World, net: Stack, episodes: int, seed: int, device: torch.device) -> np.ndarray:
    """Return the mean greedy return of every member in self-play: (P,)."""
    seating = Seating.self_play(net, envs=episodes)
    return greedy_returns(world, seating, 1, seed, device).reshape(net.population, episodes).mean(axis=1)
