"""P teams that learn by self-play, each on its own, in one stack."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

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
    ratio: float = 2.0  # episodes that a team collects per update of it
    envs: int = 8  # environments per team in lockstep
    batch: int = 32  # episodes per team and update
    capacity: int = 5_000  # episodes per team
    target_every: int = 200  # episodes per team between copies of the target
    epsilon_start: float = 1.0
    epsilon_end: float = 0.05
    epsilon_steps: int = 50_000  # of all teams together, from start to end
    update: UpdateConfig = field(default_factory=UpdateConfig)


@dataclass
class Progress:
    """How far the training is; all figures per team."""

    steps: int = 0
    episodes: float = 0.0
    updates: int = 0
    updates_owed: float = 0.0
    since_target: float = 0.0  # episodes since the target was copied
    mean_return: float = 0.0  # of the last few hundred episodes, exploring
    td_loss: float = 0.0  # of the last update
    seconds: float = 0.0


def epsilon_at(config: SelfPlayConfig, steps: int) -> float:
    """Linear from start to end; `steps` of all teams together."""
    done = min(steps / config.epsilon_steps, 1.0)
    return config.epsilon_start + done * (config.epsilon_end - config.epsilon_start)


class SelfPlay:
    """The training as a thing that can be stopped after any step and taken up again. Same seed and threads, same weights."""

    def __init__(
        self,
        world: World,
        config: SelfPlayConfig,
        seed: int,
        device: torch.device,
        terms: Mapping[str, tuple[float, Term]] | None = None,
    ) -> None:
        self.world, self.config, self.device, self.terms = world, config, device, terms
        generator = torch.Generator().manual_seed(seed)
        net = Stack(Shape.of(world), config.teams, generator).to(device)
        mixer = make_mixer(config.mixer, config.teams, world.n_agents, world.state_dim, generator).to(device)
        self.learner = Learner(net, mixer, config.update)
        self.replay = Replay(world, config.teams, config.capacity, with_state=mixer.needs_state)
        self.collector = Collector(world, net, self.replay, config.envs, seed, device)
        self.progress = Progress()
        self._rng = np.random.default_rng([seed, 1])  # which episodes are sampled
        self._clock = time.perf_counter()

    @property
    def done(self) -> bool:
        return self.collector.steps >= self.config.steps * self.config.teams

    def step(self) -> None:
        """One environment step everywhere, and the updates that the finished episodes call for."""
        config, progress = self.config, self.progress
        _, returns = self.collector.step(epsilon_at(config, self.collector.steps))
        progress.steps = self.collector.steps // config.teams
        if len(returns):
            finished = len(returns) / config.teams
            progress.episodes += finished
            progress.since_target += finished
            progress.updates_owed += finished / config.ratio
            progress.mean_return += (float(returns.mean()) - progress.mean_return) * min(len(returns) / 200, 1.0)
            self._update()
        now = time.perf_counter()
        progress.seconds, self._clock = progress.seconds + now - self._clock, now

    def _update(self) -> None:
        config, progress = self.config, self.progress
        while progress.updates_owed >= 1.0:
            progress.updates_owed -= 1.0
            if len(self.replay) >= config.batch:
                batch = self.replay.sample(config.batch, self._rng, self.device, config.update.bootstrap_at_limit)
                losses = self.learner.update(batch, self.terms)
                progress.td_loss = float(losses["td"].mean())
                progress.updates += 1
        if progress.since_target >= config.target_every:
            self.learner.copy_target()
            progress.since_target = 0.0

    def state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """All that the rest of the training depends on: arrays, and a note in JSON."""
        arrays = {
            "learner": self.learner.state_arrays(),
            "replay": self.replay.state_arrays(),
            "collector": self.collector.state_arrays(),
        }
        generators = {"sample": self._rng, "explore": self.collector.rollout.rng}
        note = {
            "progress": asdict(self.progress),
            "generators": {name: rng.bit_generator.state for name, rng in generators.items()},
        }
        return arrays, note

    def load_state(self, arrays: Mapping[str, Any], note: Mapping[str, Any]) -> None:
        """Go on where `state` was taken."""
        self.learner.load_arrays(arrays["learner"])
        self.replay.load_arrays(arrays["replay"])
        self.collector.load_arrays(arrays["collector"])
        self.progress = Progress(**note["progress"])
        self._rng.bit_generator.state = note["generators"]["sample"]
        self.collector.rollout.rng.bit_generator.state = note["generators"]["explore"]
        self._clock = time.perf_counter()


def self_play_returns(world: World, net: Stack, episodes: int, seed: int, device: torch.device) -> np.ndarray:
    """The greedy return of every member with itself: (P,)."""
    seating = Seating.self_play(net, envs=episodes)
    return greedy_returns(world, seating, 1, seed, device).reshape(net.population, episodes).mean(axis=1)
