"""A phase of training: episodes come from one or more sources, and each finished episode counts towards an update."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from math import isfinite
from typing import Any, Literal

import numpy as np

from macop_aht.config import ConfigError, at_least, from_mapping, setting, within
from macop_aht.learner.mixers import MixerName
from macop_aht.learner.ppo import ProximalConfig
from macop_aht.learner.replay import Packed
from macop_aht.learner.rollout import Collector
from macop_aht.learner.seats import Exploration
from macop_aht.learner.threads import begin
from macop_aht.learner.update import Learner, Losses, Play, UpdateConfig


@dataclass(frozen=True)
class TrainingConfig:
    """The settings of a training phase."""

    learner: Literal["q", "ppo"] = setting(
        "q", "what trains the networks; q: Q-learning with a mixer and a replay buffer, ppo: recurrent PPO"
    )
    mixer: MixerName = setting(
        "vdn", "how the agents' values become the team's value; vdn: their sum, qmix: a monotonic network"
    )
    ratio: float = setting(
        2.0, "number of episodes of a network per update, above 0; of several sources, only the first counts"
    )
    envs: int = setting(32, "number of environments that step together, per network and source, at least 1")
    batch: int = setting(32, "number of episodes of a network per update, at least 1")
    capacity: int = setting(5_000, "number of episodes in the replay buffer of a network, at least envs + batch")
    target_every: int = setting(200, "number of episodes of a network between copies to its target network, at least 1")
    epsilon_start: float = setting(1.0, "probability of a random action at the start, in 0..1")
    epsilon_end: float = setting(0.05, "probability of a random action at the end, in 0..1")
    epsilon_steps: int = setting(
        50_000, "number of environment steps of a network over which epsilon falls linearly, at least 1"
    )
    persistence: float = setting(
        0.9, "probability that a random action repeats the last action, in 0..1; the paper's: 0 (deviation 4)"
    )
    together: float = setting(
        0.5, "probability that the agents of a team share their random draws, in 0..1; the paper's: 0 (deviation 4)"
    )
    epsilon_waits: bool = setting(
        True, "whether epsilon starts to fall only after the network's first reward; the paper's: no (deviation 4)"
    )
    update: UpdateConfig = field(default_factory=UpdateConfig)
    ppo: ProximalConfig = field(default_factory=ProximalConfig)

    def __post_init__(self) -> None:
        at_least(self, 1, "envs", "batch", "target_every", "epsilon_steps")
        within(self, 0, 1, "epsilon_start", "epsilon_end", "persistence", "together")
        if not self.ratio > 0:
            raise ConfigError(f"ratio is {self.ratio}; it must be above 0")
        if self.capacity < self.envs + self.batch:
            raise ConfigError(
                f"capacity is {self.capacity}; it must be at least envs + batch, {self.envs + self.batch}, or there is never a "
                "batch of finished episodes"
            )


@dataclass(frozen=True)
class Source:
    """A source of episodes, such as self-play or cross-play with a group.

    Of several sources, the one that has the fewest episodes for its share takes the next step.
    """

    collector: Collector
    share: float = 1.0
    explorers: Sequence[int] | None = None  # the agents that explore; None: all agents


@dataclass
class Progress:
    """The state of a training phase. Figures are per network, except `steps`."""

    steps: int = 0  # of all networks and sources together
    episodes: float = 0.0  # of the first source
    updates: int = 0
    updates_owed: float = 0.0
    since_target: float = 0.0  # episodes since the target was copied
    mean_return: float = 0.0  # of the last few hundred episodes of the first source, with exploration
    td_loss: float = 0.0  # of the last update
    seconds: float = 0.0

    @staticmethod
    def restored(values: Mapping[str, Any]) -> Progress:
        """Return the progress with these values of a file; raise `ConfigError` for those that no training has."""
        found = from_mapping(Progress, values)
        at_least(found, 0, "steps", "episodes", "updates", "since_target", "seconds")
        within(found, 0, 1, "updates_owed")
        return found


def check_loss(progress: Progress) -> None:
    """Raise `RuntimeError` where the loss is not a number any more."""
    if not isfinite(progress.td_loss):
        raise RuntimeError(
            f"the loss is {progress.td_loss} after {progress.updates} updates; set a smaller learning rate or smaller "
            "weights of the loss terms"
        )


def epsilon_at(config: TrainingConfig, steps: np.ndarray) -> np.ndarray:
    """Return epsilon, which falls linearly; `steps` of each network since its first reward: (P,) -> (P,)."""
    done = np.clip(steps / config.epsilon_steps, 0.0, 1.0)
    return config.epsilon_start + done * (config.epsilon_end - config.epsilon_start)


class Training:
    """A phase of training that can be stopped after any step, and resumed.

    The TD loss is computed on the replay buffer of the first source.
    """

    def __init__(
        self,
        config: TrainingConfig,
        learner: Learner,
        sources: Sequence[Source],
        steps: int,
        seed: int,
        terms: Losses | None = None,
        play: Play = "self",
    ) -> None:
        """Set up a phase of `steps` steps, of all networks and sources together. `play` chooses the mixer of the TD loss."""
        self.config, self.learner, self.sources, self.steps = config, learner, sources, steps
        self.terms, self.play, self.progress = terms, play, Progress()
        self.replay = sources[0].collector.replay
        waits = -1 if config.epsilon_waits else 0
        self._rewarded = np.full((len(sources), learner.net.population), waits)  # step of the first reward; -1: not yet
        self._rng = np.random.default_rng([seed, 1])  # which episodes are sampled
        self._clock = time.perf_counter()

    @property
    def done(self) -> bool:
        """Whether all steps were taken."""
        return self.progress.steps >= self.steps

    def run(self) -> None:
        """Run to the end. The network then becomes the average of its last weights (deviation 5)."""
        while not self.done:
            self.step()
        self.learner.settle()

    def step(self) -> None:
        """Take one environment step of one source, and the updates that are due then."""
        source = min(self.sources, key=lambda source: source.collector.episodes / source.share)
        member, returns = source.collector.step(self._exploration(source))
        self.progress.steps += source.collector.size
        if len(returns):
            self._note_rewards(source, member, source.collector.learnt)
        if len(returns) and source is self.sources[0]:
            self._count(returns)
            self._update()
        now = time.perf_counter()
        self.progress.seconds, self._clock = self.progress.seconds + now - self._clock, now

    def _exploration(self, source: Source) -> Exploration | None:
        config, now, collector = self.config, self.progress.steps, source.collector
        first = self._rewarded[self._number(source)]
        since = (now - np.where(first < 0, now, first)) / self.learner.net.population
        epsilon = epsilon_at(config, since)[collector.member, None]
        if source.explorers is not None:
            if not source.explorers:
                return None
            agents = np.arange(collector.rollout.action.shape[1])
            epsilon = epsilon * np.isin(agents, source.explorers)
        return Exploration(epsilon, config.persistence, config.together)

    def _number(self, source: Source) -> int:
        return next(k for k, other in enumerate(self.sources) if other is source)

    def _note_rewards(self, source: Source, member: np.ndarray, returns: np.ndarray) -> None:
        first = self._rewarded[self._number(source)]
        first[member[(returns != 0) & (first[member] < 0)]] = self.progress.steps

    def _count(self, returns: np.ndarray) -> None:
        progress, finished = self.progress, len(returns) / self.learner.net.population
        progress.episodes += finished
        progress.since_target += finished
        progress.updates_owed += finished / self.config.ratio
        progress.mean_return += (float(returns.mean()) - progress.mean_return) * min(len(returns) / 200, 1.0)

    def _update(self) -> None:
        config, progress, learner = self.config, self.progress, self.learner
        due, progress.updates_owed = divmod(progress.updates_owed, 1.0)
        if due and all(len(source.collector.replay) >= config.batch for source in self.sources):
            sampling = (config.batch, self._rng, learner.device, config.update.bootstrap_at_limit)
            following: Callable[[], Packed] = partial(self.replay.sample, *sampling)
            for left in reversed(range(int(due))):
                losses = learner.losses(following(), self.terms, self.play)
                if left:  # the next batch is sampled while the gradients are computed
                    following = begin(self.replay.sample, *sampling)
                progress.td_loss = float(learner.descend(losses, self.terms)["td"].mean())
                progress.updates += 1
                check_loss(progress)
        if progress.since_target >= config.target_every:
            self.learner.copy_target()
            progress.since_target = 0.0

    def state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return everything that the rest of the training depends on: arrays, and a note for JSON.

        This is for phases with one source and no terms.
        """
        collector = self.sources[0].collector
        arrays = {
            "learner": self.learner.state_arrays(),
            "replay": self.replay.state_arrays(),
            "collector": collector.state_arrays(),
            "rewarded": self._rewarded,
        }
        generators = {"sample": self._rng, "explore": collector.rollout.rng}
        note = {
            "progress": asdict(self.progress),
            "generators": {name: rng.bit_generator.state for name, rng in generators.items()},
        }
        return arrays, note

    def load_state(self, arrays: Mapping[str, Any], note: Mapping[str, Any]) -> None:
        """Restore what `state` returned."""
        collector = self.sources[0].collector
        self.learner.load_arrays(arrays["learner"])
        self.replay.load_arrays(arrays["replay"])
        collector.load_arrays(arrays["collector"])
        self._rewarded[:] = arrays["rewarded"]
        self.progress = Progress.restored(note["progress"])
        self._rng.bit_generator.state = note["generators"]["sample"]
        collector.rollout.rng.bit_generator.state = note["generators"]["explore"]
        self._clock = time.perf_counter()
