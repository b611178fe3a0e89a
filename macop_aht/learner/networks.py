"""The paper's agent network as a stack: P networks of one shape, with parameters (P, …), that run and train together.

backbone  2-layer MLP, GRU; input: observation, last action one-hot, agent's index one-hot
head      2-layer MLP that gives the Q value of every action

The networks of a stack share the computation and nothing else. The output of member p depends only on the parameters of member p.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from macop_aht.learner.recurrence import cell, packed_gru
from macop_aht.scenarios.spec import World

HIDDEN = 64


@dataclass(frozen=True)
class Shape:
    """The sizes of a network."""

    obs: int
    actions: int
    agents: int
    hidden: int = HIDDEN

    @staticmethod
    def of(world: World) -> Shape:
        """Return the shape of networks for a world."""
        return Shape(len(world.observations), len(world.actions), world.n_agents)

    @property
    def input(self) -> int:
        """The width of the input."""
        return self.obs + self.actions + self.agents


def encode(shape: Shape, obs: Tensor, last_action: Tensor, agent: Tensor) -> Tensor:
    """Return the networks' input: (…,D) (…) (…) -> (…,D+A+N). A last action of -1 means that there is none yet."""
    inputs = obs.new_zeros(*obs.shape[:-1], shape.input)
    inputs[..., : shape.obs] = obs
    acted = (last_action >= 0).to(obs.dtype).unsqueeze(-1)
    inputs[..., shape.obs : shape.obs + shape.actions].scatter_(-1, last_action.clamp(min=0).unsqueeze(-1), acted)
    inputs[..., shape.obs + shape.actions :].scatter_(-1, agent.unsqueeze(-1), 1.0)
    return inputs


class Linear(nn.Module):
    """P linear layers, initialised as those of torch: (P,R,in) -> (P,R,out)."""

    def __init__(self, population: int, fan_in: int, fan_out: int, generator: torch.Generator | None = None) -> None:
        super().__init__()
        bound = fan_in**-0.5
        self.weight = nn.Parameter(
            torch.empty(population, fan_in, fan_out).uniform_(-bound, bound, generator=generator)
        )
        self.bias = nn.Parameter(torch.empty(population, fan_out).uniform_(-bound, bound, generator=generator))

    def forward(self, rows: Tensor) -> Tensor:
        return torch.baddbmm(self.bias.unsqueeze(1), rows, self.weight)


class Backbone(nn.Module):
    """P encoders, each with a GRU."""

    def __init__(self, shape: Shape, population: int, generator: torch.Generator | None = None) -> None:
        super().__init__()
        hidden = shape.hidden
        self.encoder1 = Linear(population, shape.input, hidden, generator)
        self.encoder2 = Linear(population, hidden, hidden, generator)
        self.gru_input = Linear(population, hidden, 3 * hidden, generator)
        self.gru_hidden = Linear(population, hidden, 3 * hidden, generator)

    def gates(self, inputs: Tensor) -> Tensor:
        """Return the inputs' part of the GRU's gates: (P,R,in) -> (P,R,3H)."""
        return self.gru_input(torch.relu(self.encoder2(torch.relu(self.encoder1(inputs)))))

    def step(self, inputs: Tensor, memory: Tensor) -> Tensor:
        """Return the memory after one step: (P,R,in) (P,R,H) -> (P,R,H)."""
        return cell(self.gates(inputs), self.gru_hidden(memory), memory)

    def forward(self, inputs: Tensor, counts: Sequence[int]) -> Tensor:
        """Return the hidden states of whole packed sequences, from zero memory: (P,M,in) -> (P,M,H)."""
        return packed_gru(self.gates(inputs), self.gru_hidden.weight, self.gru_hidden.bias, counts)


class Heads(nn.Module):
    """P heads, each a 2-layer MLP: (P,R,H) -> q (P,R,A)."""

    def __init__(self, shape: Shape, population: int, generator: torch.Generator | None = None) -> None:
        super().__init__()
        self.head1 = Linear(population, shape.hidden, shape.hidden, generator)
        self.head2 = Linear(population, shape.hidden, shape.actions, generator)

    @property
    def population(self) -> int:
        """The number of heads."""
        return self.head1.weight.shape[0]

    def forward(self, hidden: Tensor) -> Tensor:
        return self.head2(torch.relu(self.head1(hidden)))


class Stack(nn.Module):
    """P agent networks, each with a backbone and a head of its own."""

    def __init__(self, shape: Shape, population: int, generator: torch.Generator | None = None) -> None:
        super().__init__()
        self.shape, self.population = shape, population
        self.backbone = Backbone(shape, population, generator)
        self.heads = Heads(shape, population, generator)

    @staticmethod
    def of(shape: Shape, backbone: Backbone, heads: Heads) -> Stack:
        """Return a stack of these parts. The parts are shared, not copied."""
        stack = Stack(shape, 0)
        stack.population, stack.backbone, stack.heads = heads.population, backbone, heads
        return stack

    @staticmethod
    def gather(members: Sequence[tuple[Stack, int]]) -> Stack:
        """Return a stack with copies of members of other stacks."""
        shape = members[0][0].shape
        stack = Stack(shape, len(members)).to(next(members[0][0].parameters()).device)
        for place, (source, p) in enumerate(members):
            set_member(stack, place, member(source, p))
        return stack

    def step(self, inputs: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Run one step of R rows per network: (P,R,in) (P,R,H) -> q (P,R,A), memory (P,R,H)."""
        memory = self.backbone.step(inputs, memory)
        return self.heads(memory), memory

    def forward(self, inputs: Tensor, counts: Sequence[int]) -> Tensor:
        """Return the values of whole packed sequences, from zero memory: (P,M,in) -> q (P,M,A)."""
        return self.heads(self.backbone(inputs, counts))


class Ego(nn.Module):
    """The ego network: one backbone and K heads, which run in one pass."""

    def __init__(self, shape: Shape, heads: int, generator: torch.Generator | None = None) -> None:
        super().__init__()
        self.shape, self.population = shape, 1
        self.backbone = Backbone(shape, 1, generator)
        self.heads = Heads(shape, heads, generator)

    @property
    def n_heads(self) -> int:
        """The number of heads, K."""
        return self.heads.population

    def _all_heads(self, memory: Tensor) -> Tensor:
        return self.heads(memory.expand(self.n_heads, -1, -1))

    def step(self, inputs: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Run one step: (1,R,in) (1,R,H) -> q of all heads (K,R,A), memory (1,R,H)."""
        memory = self.backbone.step(inputs, memory)
        return self._all_heads(memory), memory

    def forward(self, inputs: Tensor, counts: Sequence[int]) -> Tensor:
        """Return the values of whole packed sequences, from zero memory: (1,M,in) -> q of all heads (K,M,A)."""
        return self._all_heads(self.backbone(inputs, counts))

    def apart(self) -> Stack:
        """Return K separate networks: copies of the heads, each with a copy of the backbone."""
        stack = Stack(self.shape, self.n_heads).to(self.heads.head1.weight.device)
        with torch.no_grad():
            for own, copy in zip(self.parameters(), stack.parameters(), strict=True):
                copy.copy_(own)
        return stack

    def add_head(self, head: Heads) -> None:
        """Append a copy of that head. The other heads keep their weights."""
        for old, new in zip(self.heads.parameters(), head.parameters(), strict=True):
            old.data = torch.cat([old.data, new.data])
            old.grad = None

    def drop_head(self, k: int) -> None:
        """Remove head k; the heads after it move up. Raises `ValueError` where there is no such head."""
        if not 0 <= k < self.n_heads:
            raise ValueError(f"cannot drop head {k} of {self.n_heads}; allowed are 0..{self.n_heads - 1}")
        for parameter in self.heads.parameters():
            parameter.data = torch.cat([parameter.data[:k], parameter.data[k + 1 :]])
            parameter.grad = None


def member(module: nn.Module, p: int) -> dict[str, Tensor]:
    """Return a copy of the parameters of one member of a stack (of networks, mixers or heads)."""
    return {name: value[p].detach().clone() for name, value in module.named_parameters()}


def set_member(module: nn.Module, p: int, weights: Mapping[str, Tensor]) -> None:
    """Overwrite the parameters of one member of a stack. Raises `ValueError` for other names or shapes."""
    own = dict(module.named_parameters())
    if set(weights) != set(own):
        raise ValueError(f"the weights are {sorted(weights)}; this network has {sorted(own)}")
    for name, value in weights.items():
        if value.shape != own[name].shape[1:]:
            raise ValueError(
                f"{name} has the shape {tuple(value.shape)}, this network needs {tuple(own[name].shape[1:])}; was it made "
                "for another scenario?"
            )
    with torch.no_grad():
        for name, value in weights.items():
            own[name][p] = value


def weights(module: nn.Module) -> dict[str, np.ndarray]:
    """Return all parameters as arrays, for a file."""
    return {name: value.detach().cpu().numpy() for name, value in module.state_dict().items()}


def member_weights(module: nn.Module, p: int) -> dict[str, np.ndarray]:
    """Return the parameters of one member of a stack as arrays, for a file."""
    return {name: array[p] for name, array in weights(module).items()}


def set_weights(module: nn.Module, arrays: Mapping[str, np.ndarray]) -> None:
    """Load the arrays that `weights` returned."""
    module.load_state_dict({name: torch.from_numpy(np.asarray(array)) for name, array in arrays.items()})
