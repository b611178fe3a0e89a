"""A head for anyone, beside those of the run.

A head of the run knows what to do with its own groups. What to do until it is clear who the others are, and with others who are
like none of the groups, no head has learnt. The common head is a network of its own that learns it when the run is over: with
all groups at once, of which it is told nothing, so that it finds out by itself what it needs to know. The ego's own heads in the
teammates' place are further groups, and half of the teammates act at random now and then, for the sake of those who are not in
the run. In a bundle it comes behind the run's heads, its memory behind the memory of theirs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from macop_aht.config import at_least, setting
from macop_aht.learner.networks import Ego, Shape, Stack
from macop_aht.learner.training import TrainingConfig
from macop_aht.methods.phases import Setup, join

ENVIRONMENTS = 4  # with each of the groups, in lockstep


@dataclass(frozen=True)
class CommonHeadConfig:
    """How the common head learns; what is not set here is as for all networks in the scenario."""

    steps: int = setting(2_000_000, "steps with all groups at once; 0: no common head")
    batch: int = setting(128, "episodes per update")
    ratio: float = setting(4.0, "episodes that are collected per update")
    lr: float = setting(1e-3, "of Adam at first; it goes down to nothing")

    def __post_init__(self) -> None:
        at_least(self, 0, "steps")
        at_least(self, 1, "batch")

    def training(self, usual: TrainingConfig, groups: int) -> TrainingConfig:
        """With what is usual in the scenario: its mixer, and how it explores. The teammates' noise is not the ego's."""
        update, envs = replace(usual.update, learning_rate=self.lr), ENVIRONMENTS * groups
        return replace(
            usual, batch=self.batch, ratio=self.ratio, envs=envs, together=0.0, rate_falls=True, update=update
        )


def learn(
    setup: Setup[Any], groups: Stack, config: CommonHeadConfig, usual: TrainingConfig, noise: float, seed: int
) -> Stack:
    """A network that joins any of the groups; half of them act at random with the chance `noise`."""
    net = Stack(Shape.of(setup.world), 1, torch.Generator().manual_seed(seed)).to(setup.device)
    join(
        setup,
        "common head",
        net,
        groups,
        config.training(usual, groups.population),
        config.steps,
        seed + 1,
        noise=noise,
    )
    return net


@torch.no_grad()
def beside(ego: Ego, net: Stack) -> Ego:
    """An ego with one head more: the network's, which has a memory of its own behind the ego's."""
    hidden = ego.shape.hidden
    joined = Ego(replace(ego.shape, hidden=2 * hidden), 0)
    for name in ("encoder1", "encoder2", "gru_input", "gru_hidden"):
        layer, *parts = (getattr(module.backbone, name) for module in (joined, ego, net))
        gates = 3 if name.startswith("gru_") else 1
        first, second = (part.weight.unflatten(2, (gates, hidden)) for part in parts)  # (1,in,gates,H)
        both = torch.cat([first, second], dim=3) if name == "encoder1" else _apart(first, second)
        layer.weight.copy_(both.flatten(2))
        layer.bias.copy_(torch.cat([part.bias.unflatten(1, (gates, hidden)) for part in parts], dim=2).flatten(1))
    own, other, heads = ego.heads, net.heads, joined.heads
    read = _beside_nothing(own.head1.weight, before=False), _beside_nothing(other.head1.weight, before=True)
    heads.head1.weight.data = torch.cat(read)  # (K+1,2H,H): each reads its own half of the memory
    heads.head1.bias.data = torch.cat([own.head1.bias, other.head1.bias])
    heads.head2.weight.data = torch.cat([own.head2.weight, other.head2.weight])
    heads.head2.bias.data = torch.cat([own.head2.bias, other.head2.bias])
    return joined


def _apart(first: Tensor, second: Tensor) -> Tensor:
    """Two layers as one that goes from the inputs of both to the outputs of both, each by itself: (1,H,g,H) -> (1,2H,g,2H)."""
    nothing = torch.zeros_like(first)
    return torch.cat([torch.cat([first, nothing], dim=3), torch.cat([nothing, second], dim=3)], dim=1)


def _beside_nothing(weight: Tensor, before: bool) -> Tensor:
    """Layers that also have inputs, before or behind theirs, that they do not heed: (K,H,out) -> (K,2H,out)."""
    parts = [torch.zeros_like(weight), weight]
    return torch.cat(parts if before else parts[::-1], dim=1)
