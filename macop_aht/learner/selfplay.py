"""P teams that learn by self-play, each on its own, in one stack."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import torch

from macop_aht.learner.mixers import MixerName, make_mixer
from macop_aht.learner.networks import Shape, Stack
from macop_aht.learner.replay import Replay
from macop_aht.learner.rollout import Collector, Seating, greedy_returns
from macop_aht.learner.update import Learner, Term, UpdateConfig
from macop_aht.scenarios.spec import World


@dataclass(frozen=True)
class SelfPlayConfig:
    """How P teams are trained."""

    teams: int = 4
    steps: int = 125_000  # environment steps per team
    mixer: MixerName = "vdn"
    ratio: float = 8.0  # episodes that a team collects per update of it
    envs: int = 8  # environments per team in lockstep
    batch: int = 32  # episodes per team and update
    capacity: int = 5_000  # episodes per team
    target_every: int = 200  # episodes per team between copies of the target
    epsilon_start: float = 1.0
    epsilon_end: float = 0.05
    epsilon_steps: int = 50_000  # per team, from start to end
    update: UpdateConfig = field(default_factory=UpdateConfig)


@dataclass
class Progress:
    """How far the training is."""

    steps: int = 0  # per team
    episodes: float = 0.0  # per team
    updates: int = 0
    mean_return: float = 0.0  # of the last episodes, exploring
    mean_length: float = 0.0
    seconds: float = 0.0


def epsilon_at(config: SelfPlayConfig, steps: float) -> float:
    """Linear from start to end."""
    done = min(steps / config.epsilon_steps, 1.0)
    return config.epsilon_start + done * (config.epsilon_end - config.epsilon_start)


def train_teams(
    world: World,
    config: SelfPlayConfig,
    seed: int,
    device: torch.device,
    terms: Mapping[str, tuple[float, Term]] | None = None,
    watch: Callable[[Progress], None] | None = None,
) -> Learner:
    """Collect and learn in turn until every team has played its steps. Same seed and threads, same weights."""
    generator = torch.Generator().manual_seed(seed)
    net = Stack(Shape.of(world), config.teams, generator).to(device)
    mixer = make_mixer(config.mixer, config.teams, world.n_agents, world.state_dim, generator).to(device)
    learner = Learner(net, mixer, config.update)
    replay = Replay(world, config.teams, config.capacity, with_state=mixer.needs_state)
    collector = Collector(world, net, replay, config.envs, seed, device)
    rng, progress, start = np.random.default_rng(seed), Progress(), time.perf_counter()
    owed, since_copy = 0.0, 0.0
    while collector.steps < config.steps * config.teams:
        progress.steps = collector.steps // config.teams
        _, returns = collector.step(epsilon_at(config, progress.steps))
        if not len(returns):
            continue
        finished = len(returns) / config.teams
        progress.episodes += finished
        progress.mean_return += (returns.mean() - progress.mean_return) * min(len(returns) / 200, 1.0)
        owed, since_copy = owed + finished / config.ratio, since_copy + finished
        while owed >= 1.0:
            owed -= 1.0
            if len(replay) >= config.batch:
                learner.update(replay.sample(config.batch, rng, device, config.update.bootstrap_at_limit), terms)
                progress.updates += 1
        if since_copy >= config.target_every:
            learner.copy_target()
            since_copy = 0.0
        progress.seconds = time.perf_counter() - start
        if watch:
            watch(progress)
    return learner


def self_play_returns(world: World, net: Stack, episodes: int, seed: int, device: torch.device) -> np.ndarray:
    """The greedy return of every member with itself: (P,)."""
    seating = Seating.self_play(net, envs=episodes)
    return greedy_returns(world, seating, 1, seed, device).reshape(net.population, episodes).mean(axis=1)
