"""What methods add to the TD loss of self-play: terms, each a loss per member of the stack."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from macop_aht.learner.networks import Backbone, Stack
from macop_aht.learner.phase import AnyLearner
from macop_aht.learner.replay import Packed, Replay
from macop_aht.learner.threads import begin
from macop_aht.learner.update import Term, masked_mean, q_values

Norm = Literal["squared", "plain"]


def policies(q: Tensor, mask: Tensor) -> Tensor:
    """softmax(Q) over the available actions, as the paper replaces policies: (…,A) -> (…,A)."""
    return torch.softmax(q.masked_fill(~mask, -1e9), dim=-1)


def divergence(policy: Tensor) -> Tensor:
    """Jensen-Shannon divergence of P policies: the mean of KL(policy || their mixture), Eq. 2: (P,…,A) -> (…)."""
    mixture = policy.mean(dim=0, keepdim=True)
    ratio = (policy.clamp(min=1e-8) / mixture.clamp(min=1e-8)).log()
    return (policy * ratio).sum(dim=-1).mean(dim=0)


def diversity(every: int) -> Term:
    """-JSD of the population in the states that each member has met itself, the other members being constants.

    On every `every`-th episode of the batch: in all of them, it would cost more than all the rest.
    """

    def term(learner: AnyLearner, batch: Packed, q: Callable[[], Tensor]) -> Tensor:
        part, index = batch.every(every)
        others = begin(_everywhere, learner.net, part)
        mine, population = q()[:, index], learner.net.population
        own = torch.eye(population, dtype=torch.bool, device=mine.device).view(population, population, 1, 1, 1)
        joint = torch.where(own, mine.unsqueeze(0), others())
        jsd = divergence(policies(joint, part.mask.unsqueeze(0))).mean(dim=-1)  # (P member, steps)
        return -masked_mean(jsd, part.real)

    return term


@torch.no_grad()
def _everywhere(net: Stack, batch: Packed) -> Tensor:
    """Q of every network on every member's steps: (P network, P member, M,N,A)."""
    population, steps, agents = batch.action.shape
    inputs, counts = _side_by_side(batch)
    q = net(inputs.expand(population, -1, -1), counts)
    return q.view(population, steps, agents, population, -1).movedim(3, 1)


def _side_by_side(batch: Packed) -> tuple[Tensor, list[int]]:
    """The inputs of all members of a batch for one network, a step's agents and members side by side: (1,M*N*P,in), counts."""
    population, _, agents = batch.action.shape
    counts = [count * agents * population for count in batch.counts]
    return batch.inputs.movedim(0, 2).flatten(0, 2).unsqueeze(0), counts


def distance(backbone: Backbone, snapshots: Sequence[Sequence[Tensor]], norm: Norm) -> Tensor:
    """The mean over the snapshots of ||backbone - snapshot||, Eq. 7: ()."""
    total = torch.zeros((), device=next(backbone.parameters()).device)
    for snapshot in snapshots:
        pairs = zip(backbone.parameters(), snapshot, strict=True)
        square = torch.stack([((new - old) ** 2).sum() for new, old in pairs]).sum()
        # the gradient of a root has no value at zero, where every training begins
        total = total + (square if norm == "squared" else (square + 1e-12).sqrt())
    return total / max(len(snapshots), 1)


def regulariser(snapshots: Sequence[Sequence[Tensor]], norm: Norm) -> Term:
    """Keeps the backbone near the snapshots."""

    def term(learner: AnyLearner, batch: Packed, q: Callable[[], Tensor]) -> Tensor:
        return distance(learner.net.backbone, snapshots, norm).expand(1)

    return term


def distillation(teachers: Stack, replay: Replay, batch_size: int, seed: Sequence[int]) -> Term:
    """Return the term that keeps the outputs of old heads, with the backbone that is being trained, near their teachers'.

    `teachers` are the old heads, each with the backbone of its time; member k of the replay has episodes with the group of
    head k. The mean over heads and their episodes' steps.
    """
    rng = np.random.default_rng(seed)

    def term(learner: AnyLearner, batch: Packed, q: Callable[[], Tensor]) -> Tensor:
        kept = replay.sample(batch_size, rng, learner.device)
        outputs_then = begin(torch.no_grad()(q_values), teachers, kept)
        hidden = learner.net.backbone(*_side_by_side(kept))
        now = teachers.heads(hidden.view(-1, teachers.population, hidden.shape[-1]).movedim(1, 0))  # (K,M*N,A)
        then = outputs_then()
        off = learner.difference(then, now.view_as(then), kept.mask)  # (K,M)
        return masked_mean(off, kept.real).mean().expand(1)

    return term


def cloning(teachers: Stack, replay: Replay, batch_size: int, seed: Sequence[int]) -> Term:
    """Return the term that keeps a network's outputs near its teachers', each in episodes of its own member of the replay."""
    rng = np.random.default_rng(seed)

    def term(learner: AnyLearner, batch: Packed, q: Callable[[], Tensor]) -> Tensor:
        kept = replay.sample(batch_size, rng, learner.device)
        with torch.no_grad():
            then = q_values(teachers, kept)
        now = learner.net(*_side_by_side(kept)).view(-1, kept.action.shape[-1], teachers.population, then.shape[-1])
        off = learner.difference(then, now.movedim(2, 0), kept.mask)
        return masked_mean(off, kept.real).mean().expand(1)

    return term
