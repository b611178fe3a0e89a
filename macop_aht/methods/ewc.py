"""EWC, elastic weight consolidation: weights that mattered for earlier groups are held. The groups are a TrajeDi run's.

L_com + mu/2 sum_j F_j (theta_j - theta_{k-1,j})^2, with theta_{k-1} as learning with the k-th group begins. F is the sum of the
Fisher information, on its diagonal, of all groups before: the paper's formula has one F, and does not say of which.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from macop_aht.config import at_least, setting
from macop_aht.learner.networks import Stack
from macop_aht.learner.replay import Packed, Replay
from macop_aht.learner.update import Learner, Term
from macop_aht.methods import continual
from macop_aht.methods.continual import Lesson
from macop_aht.methods.journal import Journal
from macop_aht.methods.macop import MacopConfig
from macop_aht.methods.phases import EgoConfig, Outcome, Setup, numbered, tensors


@dataclass(frozen=True)
class EwcConfig:
    """Finetune's, and how strongly weights are held."""

    groups: str = setting("", "folder of the finished run whose groups it learns with; in the paper, TrajeDi's")
    mu: float = setting(1.0, "weight of the penalty for moving weights that mattered (benchmarks/tuning.py)")
    fisher_episodes: int = setting(256, "episodes with a group behind its Fisher information")
    test_episodes: int = setting(32, "greedy episodes behind every figure")
    ego: EgoConfig = field(default_factory=continual.usual_ego)

    def __post_init__(self) -> None:
        at_least(self, 1, "test_episodes", "fisher_episodes")
        at_least(self, 0, "mu")


def train(setup: Setup[EwcConfig], journal: Journal) -> Outcome:
    """One group after the other."""
    return continual.train(setup, journal, teach)


def teach(setup: Setup[EwcConfig], lesson: Lesson) -> dict[str, Any]:
    """L_com and the penalty; the Fisher information of the groups so far is remembered."""
    config, net = setup.config, lesson.net
    before = tensors(setup, lesson.memory.get("fisher", {}))
    held = {"penalty": (config.mu / 2, penalty(net, before))} if before else {}
    training = continual.join(setup, lesson, held)
    rng = np.random.default_rng([lesson.seed, 3])
    new = fisher(training.learner, training.replay, config.fisher_episodes, rng)
    return {"fisher": numbered([old + part for old, part in zip(before, new, strict=True)] if before else new)}


def penalty(net: Stack, importance: Sequence[Tensor]) -> Term:
    """sum_j F_j (theta_j - theta*_j)^2, where theta* are the weights as they are now."""
    here = [part.detach().clone() for part in net.parameters()]

    def term(learner: Learner, batch: Packed, q: Callable[[], Tensor]) -> Tensor:
        parts = zip(importance, learner.net.parameters(), here, strict=True)
        return torch.stack([(weight * (new - old) ** 2).sum() for weight, new, old in parts]).sum().expand(1)

    return term


def fisher(learner: Learner, replay: Replay, episodes: int, rng: np.random.Generator) -> list[Tensor]:
    """The Fisher information's diagonal by the TD error: the mean square of its loss's gradient over single episodes."""
    parameters = list(learner.net.parameters())
    total = [torch.zeros_like(part) for part in parameters]
    for _ in range(episodes):
        episode = replay.sample(1, rng, learner.device, learner.config.bootstrap_at_limit)
        loss = learner.td_loss(episode, "cross").sum()
        for sums, gradient in zip(total, torch.autograd.grad(loss, parameters), strict=True):
            sums += gradient**2 / episodes
    return total


def beside(ours: MacopConfig, papers: MacopConfig) -> EwcConfig:
    """The settings that go with Macop's."""
    return EwcConfig(test_episodes=ours.test_episodes, ego=continual.ego_beside(ours))
