"""EWC, elastic weight consolidation: a penalty on moving what mattered for earlier groups. The groups are a TrajeDi run's.

L_com + mu/2 sum_j F_j (theta_j - theta_{k-1,j})^2, with theta_{k-1} as learning with the k-th group begins. F is the sum of the
Fisher information, on its diagonal, of all groups before: the paper's formula has one F, and does not say of which.

The TD loss is a squared error: the negative log-likelihood of a normal distribution around Q with variance 1/2, whose Fisher
information is 2 E[(dQ/dtheta)^2]. It is summed over all actions, since the greedy policy depends on the values of all. To first
order, the penalty is then mu times the mean square by which earlier values change. The squared gradient of the loss itself would
vanish with the TD errors, that is where a group was learnt well.

With PPO it is the Fisher information of the policy, E[(d log pi/dtheta)^2].
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
from macop_aht.learner.phase import AnyLearner
from macop_aht.learner.replay import Packed, Replay
from macop_aht.learner.update import Term
from macop_aht.methods import continual
from macop_aht.methods.continual import Lesson
from macop_aht.methods.macop import MacopConfig
from macop_aht.methods.phases import EgoConfig, Result, Setup, numbered, tensors
from macop_aht.runs.journal import Journal


@dataclass(frozen=True)
class EwcConfig:
    """Finetune's settings, and the weight of the penalty."""

    groups: str = setting(
        "",
        "folder of the finished run, or of the sequence, whose groups it learns with; required; the paper's: a run of TrajeDi",
    )
    mu: float = setting(
        100.0,
        "weight of the penalty on moving weights that mattered for earlier groups, at least 0 (chosen by benchmarks/tuning.py)",
    )
    fisher_episodes: int = setting(
        256, "number of episodes with a group to estimate its Fisher information, at least 1"
    )
    test_episodes: int = setting(32, "number of greedy episodes per measured return, at least 1")
    ego: EgoConfig = field(default_factory=continual.usual_ego)

    def __post_init__(self) -> None:
        at_least(self, 1, "test_episodes", "fisher_episodes")
        at_least(self, 0, "mu")


def train(setup: Setup[EwcConfig], journal: Journal) -> Result:
    """Learn with each group in turn, with the penalty on the weights that mattered; return the ego and the groups."""
    return continual.train(setup, journal, teach)


def teach(setup: Setup[EwcConfig], lesson: Lesson) -> dict[str, Any]:
    """L_com and the penalty; the Fisher information of the groups so far is remembered."""
    config, net = setup.config, lesson.net
    before = tensors(setup, lesson.memory.get("fisher", {}))
    losses = {"penalty": (config.mu / 2, penalty(net, before))} if before else {}
    training = continual.join(setup, lesson, losses)
    rng = np.random.default_rng([lesson.seed, 3])
    new = fisher(training.learner, training.replay, config.fisher_episodes, rng)
    return {"fisher": numbered([old + part for old, part in zip(before, new, strict=True)] if before else new)}


def penalty(net: Stack, importance: Sequence[Tensor]) -> Term:
    """sum_j F_j (theta_j - theta*_j)^2, where theta* are the weights as they are now."""
    here = [part.detach().clone() for part in net.parameters()]

    def term(learner: AnyLearner, batch: Packed, q: Callable[[], Tensor]) -> Tensor:
        parts = zip(importance, learner.net.parameters(), here, strict=True)
        return torch.stack([(weight * (new - old) ** 2).sum() for weight, new, old in parts]).sum().expand(1)

    return term


def fisher(learner: AnyLearner, replay: Replay, episodes: int, rng: np.random.Generator) -> list[Tensor]:
    """Return the Fisher information of every weight, the mean over the steps of some episodes; see `score` of the learners."""
    parameters = list(learner.net.parameters())
    total, steps = [torch.zeros_like(part) for part in parameters], 0
    for _ in range(episodes):
        episode = replay.sample(1, rng, learner.device)
        gradients = torch.autograd.grad(learner.score(episode, rng), parameters)
        for sums, gradient in zip(total, gradients, strict=True):
            sums += learner.INFORMATION * gradient**2
        steps += int(episode.real.sum())
    return [sums / max(steps, 1) for sums in total]


def from_preset(preset: MacopConfig, paper: MacopConfig) -> EwcConfig:
    """Return EWC's settings that match a preset of Macop's."""
    return EwcConfig(test_episodes=preset.test_episodes, ego=continual.ego_from_preset(preset))
