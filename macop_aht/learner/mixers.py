"""Mixers: they turn the agents' Q values into the team's, by a sum (VDN) or by a monotone network on the state (QMIX)."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from macop_aht.learner.networks import Linear

MixerName = Literal["vdn", "qmix"]
HYPER, EMBED = 64, 32


class Vdn(nn.Module):
    """VDN: the team's value is the sum over agents."""

    def forward(self, q: Tensor, state: Tensor, agent: Tensor | None = None) -> Tensor:
        """Return the team's values: (P,M,N) (P,M,S) -> (P,M)."""
        return q.sum(dim=-1)


class Qmix(nn.Module):
    """QMIX: P mixing networks, whose weights come from hypernetworks on the global state.

    The weights are never negative, so the best action of each agent is best for the team.
    """

    def __init__(self, population: int, agents: int, state: int, generator: torch.Generator | None = None) -> None:
        super().__init__()
        self.agents = agents
        self.weight1_hidden = Linear(population, state, HYPER, generator)
        self.weight1 = Linear(population, HYPER, agents * EMBED, generator)
        self.bias1 = Linear(population, state, EMBED, generator)
        self.weight2_hidden = Linear(population, state, HYPER, generator)
        self.weight2 = Linear(population, HYPER, EMBED, generator)
        self.bias2_hidden = Linear(population, state, EMBED, generator)
        self.bias2 = Linear(population, EMBED, 1, generator)

    def forward(self, q: Tensor, state: Tensor, agent: Tensor | None = None) -> Tensor:
        """Return the team's values: (P,M,N) (P,M,S) -> (P,M). `agent` (N,) says which agents are mixed, if not all are."""
        weight1 = self.weight1(torch.relu(self.weight1_hidden(state))).abs().unflatten(-1, (self.agents, EMBED))
        if agent is not None:
            weight1 = weight1[:, :, agent]
        hidden = nn.functional.elu(torch.einsum("pmn,pmne->pme", q, weight1) + self.bias1(state))
        weight2 = self.weight2(torch.relu(self.weight2_hidden(state))).abs()
        bias2 = self.bias2(torch.relu(self.bias2_hidden(state)))
        return (hidden * weight2).sum(dim=-1) + bias2.squeeze(-1)


def make_mixer(
    name: MixerName, population: int, agents: int, state: int, generator: torch.Generator | None = None
) -> Vdn | Qmix:
    """Return a mixer for P teams. Raises `ValueError` for an unknown name."""
    if name == "vdn":
        return Vdn()
    if name == "qmix":
        return Qmix(population, agents, state, generator)
    raise ValueError(f"unknown mixer {name!r}; allowed are 'vdn' and 'qmix'")
