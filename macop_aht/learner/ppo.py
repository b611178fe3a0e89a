"""Recurrent proximal policy optimisation (PPO) of a stack of networks, with central critics: one update.

A network's outputs are the logits of its policy. In evaluations it plays its most probable action, so a network that was trained
by PPO can be used wherever one that was trained by Q-learning can.

Exploration is part of the policy. For some time at the start, the logit of the last action has a bonus, so that an agent persists
in what it does. The bonus is part of the probabilities that the update uses, so no episode is off-policy. But it is not part of
the policy whose entropy is raised: that would teach the network to undo the bonus.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from math import log
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from macop_aht.config import ConfigError, at_least, setting, within
from macop_aht.learner.networks import Backbone, Linear, Shape, Stack, set_weights, weights
from macop_aht.learner.replay import Packed
from macop_aht.learner.update import (
    Losses,
    adam_arrays,
    clip_per_member,
    lambda_target,
    load_adam,
    masked_mean,
    q_values,
)

IMPOSSIBLE = -1e9  # the logit of an unavailable action
LAST_RATE = 0.05  # the learning rate at the end, relative to that at the start


@dataclass(frozen=True)
class ProximalConfig:
    """The settings of PPO. Its discount factor, persistence and shared draws are those of the training."""

    envs: int = setting(
        128, "number of environments per network and source, at least 1; a round of PPO is an episode in each"
    )
    epochs: int = setting(3, "number of passes over the episodes of a round, at least 1")
    parts: int = setting(4, "number of parts of a round, at least 1; a pass makes an update with each")
    learning_rate: float = setting(
        1e-3, "learning rate of Adam at the start, above 0; it falls linearly to a twentieth of it"
    )
    clip: float = setting(0.2, "how far from 1 the ratio of an action's new and old probability counts, above 0")
    max_grad_norm: float = setting(
        0.5, "norm to which the gradients of a network and of its critic are clipped, above 0"
    )
    trace: float = setting(0.95, "lambda of generalised advantage estimation, in 0..1")
    entropy: float = setting(
        0.01, "weight of the policy's entropy in the loss at the start, at least 0; it falls linearly to 0"
    )
    exploring: float = setting(
        0.4, "share of the training over which persistence and shared draws fall linearly to 0, in 0..1"
    )
    imitation: float = setting(
        0.0,
        "weight at the start of the imitation of a network's own best episodes, at least 0; it falls linearly to 0",
    )
    floor: float = setting(
        0.1, "smallest deviation by which advantages are divided, relative to the largest reward so far, above 0"
    )

    def __post_init__(self) -> None:
        at_least(self, 1, "envs", "epochs", "parts")
        at_least(self, 0, "entropy", "imitation")
        within(self, 0, 1, "trace", "exploring")
        for name in ("learning_rate", "clip", "max_grad_norm", "floor"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"{name} is {getattr(self, name)}; it must be above 0")


@dataclass(frozen=True)
class Schedule:
    """What changes in the course of a training."""

    learning_rate: float
    entropy: float  # weight of the policy's entropy
    sticky: float  # the bonus on the logit of the last action
    together: float  # the probability that the agents of a team share their draws

    @staticmethod
    def at(done: float, config: ProximalConfig, persistence: float, together: float, actions: int) -> Schedule:
        """Return the schedule when the share `done` of the training is over."""
        exploring = max(1 - done / config.exploring, 0.0) if config.exploring else 0.0
        rate = config.learning_rate * (1 - (1 - LAST_RATE) * done)
        sticky = exploring * stickiness(persistence, actions)
        return Schedule(rate, config.entropy * (1 - done), sticky, exploring * together)


def stickiness(persistence: float, actions: int) -> float:
    """Return the bonus for which a uniform policy plays the last action as often as one that repeats it with this probability.

    That one repeats its last action with probability `persistence`, and else draws any of the actions.
    """
    return log(1 + min(persistence, 0.99) * actions / (1 - min(persistence, 0.99)))


class Critic(nn.Module):
    """P critics, each a GRU on what it is told of the state: (P,M,S) -> the expected return of the team from there (P,M)."""

    def __init__(self, population: int, told: int, hidden: int, generator: torch.Generator | None = None) -> None:
        super().__init__()
        self.backbone = Backbone(Shape(told, 0, 0, hidden), population, generator)
        self.output = Linear(population, hidden, 1, generator)

    def forward(self, state: Tensor, counts: Sequence[int]) -> Tensor:
        return self.output(self.backbone(state, counts)).squeeze(-1)


def log_policy(net: Stack, batch: Packed, logits: Tensor, sticky: float = 0.0) -> Tensor:
    """Return the log-probability of every action, with the bonus for the last one: (P,M,N,A) -> (P,M,N,A)."""
    if sticky:
        obs, actions = net.shape.obs, net.shape.actions
        logits = logits + sticky * batch.inputs[..., obs : obs + actions]
    return logits.masked_fill(~batch.mask, IMPOSSIBLE).log_softmax(dim=-1)


def taken(log_probability: Tensor, batch: Packed) -> Tensor:
    """Return the log-probability of the actions that were played: (P,M,N,A) -> (P,M,N)."""
    return log_probability.gather(-1, batch.action.unsqueeze(-1)).squeeze(-1)


def clipped(now: Tensor, before: Tensor, advantage: Tensor, clip: float) -> Tensor:
    """Return PPO's loss of every action, from its log-probability now and when it was played."""
    ratio = (now - before).exp()
    return -torch.minimum(ratio * advantage, ratio.clamp(1 - clip, 1 + clip) * advantage)


def entropy(log_probability: Tensor) -> Tensor:
    """Return the entropy of policies: (…,A) -> (…)."""
    return -(log_probability.exp() * log_probability).sum(dim=-1)


def normalised(advantage: Sequence[Tensor], real: Sequence[Tensor], least: Tensor) -> list[Tensor]:
    """Return the advantages of a round's parts, (P,M) each, less their mean and over their deviation; `least` (P,) bounds it.

    Where `least` is 0, no reward has come yet, and the advantages are nothing but the critic's error: they become 0.
    """
    every, steps = torch.cat([*advantage], dim=1), torch.cat([*real], dim=1)
    mean = masked_mean(every, steps).unsqueeze(1)
    deviation = masked_mean((every - mean).square(), steps).sqrt()
    scale = torch.where(least > 0, 1 / torch.maximum(deviation, least).clamp(min=1e-8), 0.0).unsqueeze(1)
    return [(part - mean) * scale for part in advantage]


@dataclass(frozen=True)
class Part:
    """A part of a round's episodes, and what they are trained towards."""

    batch: Packed
    before: Tensor  # (P,M,N) the log-probability of each action when it was played
    advantage: Tensor  # (P,M)
    target: Tensor  # (P,M) of the critic


@dataclass(frozen=True)
class Demonstration:
    """Episodes to be imitated: somebody else's, or a network's own best ones."""

    batch: Packed
    worth: Tensor | None = None  # (P,M) the weight of each step; None: 1


class PpoLearner:
    """A stack, a critic for every source of its episodes, and an optimiser."""

    INFORMATION = 1.0  # the Fisher information is the mean square of the gradient of the log-probability

    def __init__(
        self,
        net: Stack,
        told: Sequence[int],
        config: ProximalConfig,
        gamma: float,
        generator: torch.Generator | None = None,
    ) -> None:
        """`told` are the widths of what each source's critic is told of the state; demonstrations have none, and 0."""
        self.net, self.config, self.gamma = net, config, gamma
        critics = [
            Critic(net.population, width, net.shape.hidden, generator) if width else nn.Identity() for width in told
        ]
        self.critics = nn.ModuleList(critics).to(self.device)
        self._clipped = [own for module in (net, *self.critics) if (own := [*module.parameters()])]
        parameters = [parameter for group in self._clipped for parameter in group]
        self.optimiser = torch.optim.Adam(parameters, lr=config.learning_rate, fused=True)

    @property
    def device(self) -> torch.device:
        """The device of the parameters."""
        return next(self.net.parameters()).device

    @torch.no_grad()
    def prepare(self, source: int, batches: Sequence[Packed], largest: np.ndarray, sticky: float) -> list[Part]:
        """Return the parts of a round of a source; `largest` (P,) is the size of each network's largest reward so far."""
        parts, least = [], torch.from_numpy(self.config.floor * largest).float().to(self.device)
        for batch in batches:
            before = taken(log_policy(self.net, batch, q_values(self.net, batch), sticky), batch)
            value = self.critics[source](batch.state, batch.counts)
            target = lambda_target(batch, value[:, batch.following], self.gamma, self.config.trace)
            parts.append(Part(batch, before, target - value, target))
        real = [batch.real for batch in batches]
        found = normalised([part.advantage for part in parts], real, least)
        return [replace(part, advantage=advantage) for part, advantage in zip(parts, found, strict=True)]

    def losses(
        self, parts: Mapping[int, tuple[float, Part | Demonstration]], schedule: Schedule, terms: Losses | None = None
    ) -> dict[str, Tensor]:
        """Return the weighted losses per member, (P,): on a part of each source, and the terms on that of source 0.

        `parts` are the weights and parts of the sources, by their numbers.
        """
        total: dict[str, Tensor] = {}
        for k, (scale, part) in parts.items():
            batch = part.batch
            logits = cache(partial(q_values, self.net, batch))
            policy = log_policy(self.net, batch, logits(), schedule.sticky)
            if isinstance(part, Part):
                loss = clipped(taken(policy, batch), part.before, part.advantage.unsqueeze(-1), self.config.clip)
                loss = loss - schedule.entropy * entropy(log_policy(self.net, batch, logits()))
                error = self.critics[k](batch.state, batch.counts) - part.target
                total[f"value {k}"] = 0.5 * masked_mean(error.square(), batch.real)
            else:
                loss = -taken(policy, batch)
                loss = loss if part.worth is None else part.worth.unsqueeze(-1) * loss
            total[f"policy {k}"] = scale * masked_mean(loss.mean(dim=-1), batch.real)
            if k == 0:
                total |= {name: weight * term(self, batch, logits) for name, (weight, term) in (terms or {}).items()}
        return total

    def descend(self, losses: Mapping[str, Tensor], learning_rate: float) -> Tensor:
        """Take one step of Adam on the sum of what `losses` returned. Returns the norms of the networks' gradients: (P,)."""
        self.optimiser.param_groups[0]["lr"] = learning_rate
        self.optimiser.zero_grad(set_to_none=True)
        torch.stack([loss.sum() for loss in losses.values()]).sum().backward()
        norms = [clip_per_member(group, self.config.max_grad_norm) for group in self._clipped]
        self.optimiser.step()
        return norms[0]

    def difference(self, then: Tensor, now: Tensor, mask: Tensor) -> Tensor:
        """Return how far the policies have moved: KL(then || now), the mean over agents: (P,M,N,A) -> (P,M)."""
        before, after = (logits.masked_fill(~mask, IMPOSSIBLE).log_softmax(dim=-1) for logits in (then, now))
        return (before.exp() * (before - after)).sum(dim=-1).mean(dim=-1)

    def score(self, batch: Packed, rng: np.random.Generator) -> Tensor:
        """Return the sum of the log-probabilities of actions drawn from the policy, with random signs.

        The Fisher information is its squared gradient: the products of two different steps cancel on average.
        """
        policy = log_policy(self.net, batch, q_values(self.net, batch))
        luck = torch.from_numpy(rng.gumbel(size=policy.shape).astype(np.float32)).to(self.device)
        drawn = (policy.detach() + luck).argmax(dim=-1, keepdim=True)
        signs = torch.from_numpy(rng.choice([-1.0, 1.0], drawn.shape).astype(np.float32)).to(self.device)
        return (signs * policy.gather(-1, drawn) * batch.real[:, :, None, None]).sum()

    def settle(self) -> None:
        """Do nothing: the learning rate has fallen, so the last weights are the result."""

    def state_arrays(self) -> dict[str, Any]:
        """Return weights and the optimiser's moments, for a checkpoint."""
        arrays = {"net": weights(self.net), "critics": weights(self.critics)}
        return {**arrays, "adam": adam_arrays(self.optimiser)}

    def load_arrays(self, arrays: Mapping[str, Any]) -> None:
        """Load the arrays that `state_arrays` returned."""
        set_weights(self.net, arrays["net"])
        set_weights(self.critics, arrays["critics"])
        load_adam(self.optimiser, arrays.get("adam", {}))
