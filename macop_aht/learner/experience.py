"""What networks learn from: who plays with whom, and whose experience of it counts. Both learners take it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Protocol

import numpy as np

from macop_aht.learner.best import Seeds
from macop_aht.learner.networks import Stack
from macop_aht.learner.replay import Replay
from macop_aht.learner.rollout import Rollout
from macop_aht.learner.seats import Seating
from macop_aht.learner.training import TrainingConfig
from macop_aht.learner.update import Play


class Recorder(Protocol):
    """Plays an experience, and keeps its episodes in a replay buffer."""

    @property
    def rollout(self) -> Rollout: ...
    @property
    def replay(self) -> Replay: ...
    @property
    def when_over(self) -> list[Callable[[np.ndarray, np.ndarray, np.ndarray], None]]:
        """Called when episodes are over, with the environments (B,) bool, and the rings and slots of their episodes (R,)."""
        ...


@dataclass(frozen=True)
class Experience:
    """Episodes of some seating, which networks learn from.

    The loss on the first experience of a training is the learner's own. The losses on further ones are added with their
    weights. A demonstration has no loss of its own in Q-learning: its episodes join those of the first. PPO imitates it.
    """

    seating: Seating
    member: np.ndarray  # (B,) the network whose experience each environment's episodes are
    seed: int  # of the environments
    seats: Sequence[int] | None = None  # the agents whose experience it is, and who explore; None: all agents
    group: np.ndarray | None = None  # (B,) which of its `groups` the network plays with
    groups: int = 1  # of every network; batches have as many episodes of each
    share: float = 1.0  # of the episodes, relative to the first experience
    play: Play = "self"  # which mixer Q-learning uses
    weight: float = 1.0  # of the loss on it
    sign: float = 1.0  # of the reward
    draws: Sequence[int] = ()  # the seed by which Q-learning draws its batches, in further experiences
    demonstration: bool = False  # nobody explores, and the actions are somebody else's
    attach: Callable[[Recorder], None] | None = None  # called once with whoever plays it
    seeds: Seeds | None = None  # what PPO imitates at first, of the first experience
    keep: int = 0  # episodes of the last rounds that PPO keeps in the replay buffer, per ring

    @property
    def ring(self) -> np.ndarray:
        """The ring of the replay buffer that each environment's episodes go to: (B,)."""
        return self.member if self.group is None else self.member * self.groups + self.group

    @property
    def explorers(self) -> Sequence[int] | None:
        """The agents who explore; None: all agents."""
        return () if self.demonstration else self.seats


def environments(training: TrainingConfig, groups: int = 1, share: float = 1.0) -> int:
    """Return the number of environments for each of so many groups of a network.

    Q-learning takes turns between experiences, by their shares. PPO plays an episode in every environment, so that the share is
    one of the environments.
    """
    return ceil(training.ppo.envs * share / groups if training.learner == "ppo" else training.envs / groups)


def self_play(net: Stack, training: TrainingConfig, seed: int) -> Experience:
    """Return the self-play of every network of a stack."""
    envs = environments(training)
    return Experience(Seating.self_play(net, envs), np.repeat(np.arange(net.population), envs), seed)
