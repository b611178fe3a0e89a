"""One gradient step of a stack of teams: double Q-learning with a mixer, and the loss terms that a method adds."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from macop_aht.config import ConfigError, setting, within
from macop_aht.learner import kernels
from macop_aht.learner.mixers import Qmix, Vdn
from macop_aht.learner.networks import Ego, Stack, set_weights, weights
from macop_aht.learner.replay import Packed, Replay
from macop_aht.learner.threads import begin

Play = Literal["self", "cross"]
Term = Callable[
    [Any, Packed, Callable[[], Tensor]], Tensor
]  # (learner, batch, its outputs) -> loss of each member (P,)
Losses = Mapping[str, tuple[float, Term]]  # what is added to a learner's own loss, by name: weight and term


@dataclass(frozen=True)
class UpdateConfig:
    """The settings of an update."""

    learning_rate: float = setting(5e-4, "learning rate of Adam, above 0")
    gamma: float = setting(0.99, "discount factor per step, in 0..1")
    max_grad_norm: float = setting(10.0, "norm to which a network's gradient is clipped, above 0")
    td_lambda: float = setting(0.8, "lambda of the TD targets, in 0..1; the paper's: 0, one-step targets (deviation 3)")
    averaging: float = setting(
        0.99,
        "decay of the average of the weights, per update, in 0..0.9999; the paper's: 0, the last weights (deviation 5)",
    )
    bootstrap_at_limit: bool = setting(
        False, "whether targets at the time limit bootstrap from the value of the last observation"
    )

    def __post_init__(self) -> None:
        within(self, 0, 1, "gamma", "td_lambda")
        within(self, 0, 0.9999, "averaging")
        if not (self.learning_rate > 0 and self.max_grad_norm > 0):
            raise ConfigError("learning_rate and max_grad_norm must be above 0")


def q_values(net: Stack | Ego, batch: Packed) -> Tensor:
    """Return Q of every agent at every step: (P,M,N,A)."""
    counts = [count * len(batch.agent) for count in batch.counts]  # the agents of a row are consecutive
    return net(batch.inputs.flatten(1, 2), counts).unflatten(1, batch.inputs.shape[1:3])


def masked_mean(values: Tensor, real: Tensor) -> Tensor:
    """Return the mean over a member's own steps: (P,M) (P,M) -> (P,)."""
    return (values * real).sum(dim=1) / real.sum(dim=1).clamp(min=1.0)


def td_target(
    q: Tensor, target_q: Tensor, target_mixer: nn.Module, batch: Packed, gamma: float, td_lambda: float = 0.0
) -> Tensor:
    """Return targets: r + gamma * Q'(next state, the best action there by the online network): (P,M).

    With `td_lambda`, they are λ targets.
    """
    best = q.masked_fill(~batch.mask, -torch.inf).argmax(dim=-1, keepdim=True)
    value = target_q.gather(-1, best).squeeze(-1)  # (P,M,N) at every step; the next line takes that of the next step
    next_value = target_mixer(value[:, batch.following], batch.state[:, batch.following], batch.agent)
    if td_lambda == 0:
        return batch.reward + gamma * batch.continues * next_value
    return lambda_target(batch, next_value, gamma, td_lambda)


def lambda_target(batch: Packed, next_value: Tensor, gamma: float, td_lambda: float) -> Tensor:
    """Return λ targets, from the values of the next steps: (P,M) -> (P,M)."""
    if next_value.device.type == "cpu" and next_value.dtype == torch.float32:
        return _compiled_lambda_target(batch, next_value, gamma, td_lambda)
    return _lambda_target(batch, next_value, gamma, td_lambda)


def _lambda_target(batch: Packed, next_value: Tensor, gamma: float, td_lambda: float) -> Tensor:
    """Return λ targets: a share of the next step's target replaces its value, from the last step to the first: (P,M)."""
    target = batch.reward + gamma * batch.continues * next_value
    start, later, later_start = target.shape[1], 0, 0
    for count in reversed(batch.counts):
        start -= count
        if later:  # the rows with a next step; the others end here
            here, after = slice(start, start + later), slice(later_start, later_start + later)
            surprise = (target[:, after] - next_value[:, here]) * batch.real[:, after]
            target[:, here] += gamma * td_lambda * batch.continues[:, here] * surprise
        later, later_start = count, start
    return target


def _compiled_lambda_target(batch: Packed, next_value: Tensor, gamma: float, td_lambda: float) -> Tensor:
    """Return what `_lambda_target` returns, from a compiled kernel on the CPU."""
    target = torch.empty_like(next_value)
    parts = (batch.reward, batch.continues, batch.real, next_value.contiguous(), target)
    kernels.lambda_target(np.array(batch.counts), gamma, td_lambda, *(part.numpy() for part in parts))
    return target


class Learner:
    """A stack with its mixers, target networks and optimiser.

    `mixer` is for self-play. `cross` is for cross-play, where only some of the agents are the stack's own (default: VDN).
    """

    INFORMATION = 2.0  # a squared error is the likelihood of a normal distribution with variance 1/2

    def __init__(self, net: Stack, mixer: Vdn | Qmix, config: UpdateConfig, cross: Vdn | Qmix | None = None) -> None:
        self.net, self.config = net, config
        self.mixers = nn.ModuleDict({"self": mixer, "cross": cross or Vdn()})
        self.target_net, self.target_mixers = copy.deepcopy(net), copy.deepcopy(self.mixers)
        self.average = copy.deepcopy(net)  # of the last weights: the result of the training
        self.parameters = [*net.parameters(), *self.mixers.parameters()]
        self._averaging: tuple[list[Tensor], list[Tensor]] = [*self.average.parameters()], [*net.parameters()]
        self.optimiser = torch.optim.Adam(self.parameters, lr=config.learning_rate, fused=True)

    def td_loss(self, batch: Packed, play: Play = "self") -> Tensor:
        """Return the mean squared TD error of each member: (P,)."""
        target_q = self._begin_target(batch)
        return self._td_loss(batch, play, q_values(self.net, batch), target_q())

    def _begin_target(self, batch: Packed) -> Callable[[], Tensor]:
        """Start the pass of the target network, which runs beside that of the other network."""
        return begin(torch.no_grad()(q_values), self.target_net, batch)

    def _td_loss(self, batch: Packed, play: Play, q: Tensor, target_q: Tensor) -> Tensor:
        config = self.config
        with torch.no_grad():
            target = td_target(q, target_q, self.target_mixers[play], batch, config.gamma, config.td_lambda)
        chosen = q.gather(-1, batch.action.unsqueeze(-1)).squeeze(-1)
        error = self.mixers[play](chosen, batch.state, batch.agent) - target
        return masked_mean(error * error, batch.real)

    def update(self, batch: Packed, terms: Losses | None = None, play: Play = "self") -> dict[str, Tensor]:
        """Take one step of Adam on the TD loss and the weighted terms. Returns each loss per member: (P,)."""
        losses = self.losses(batch, terms, play)
        return self.descend(losses, terms)

    def losses(self, batch: Packed, terms: Losses | None = None, play: Play = "self") -> dict[str, Tensor]:
        """Return the TD loss and the terms, each per member: (P,).

        A term gets the Q values as a function. So it can start work on helper threads before it asks for them.
        """
        target_q, q = self._begin_target(batch), cache(partial(q_values, self.net, batch))
        losses = {name: term(self, batch, q) for name, (_, term) in (terms or {}).items()}
        return {**losses, "td": self._td_loss(batch, play, q(), target_q())}

    def descend(self, losses: Mapping[str, Tensor], terms: Losses | None = None) -> dict[str, Tensor]:
        """Take one step of Adam on what `losses` returned. Returns each loss and the norm of the gradient, per member: (P,)."""
        total = losses["td"]
        for name, (weight, _) in (terms or {}).items():
            total = total + weight * losses[name]
        self.optimiser.zero_grad(set_to_none=True)
        total.sum().backward()
        norm = clip_per_member(self.parameters, self.config.max_grad_norm)
        self.optimiser.step()
        with torch.no_grad():
            torch._foreach_lerp_(*self._averaging, 1.0 - self.config.averaging)
        return {name: loss.detach() for name, loss in losses.items()} | {"grad_norm": norm}

    def difference(self, then: Tensor, now: Tensor, mask: Tensor) -> Tensor:
        """Return how far the values have moved, (P,M): the mean square over agents and actions, (P,M,N,A)."""
        return (now - then).square().mean(dim=(2, 3))

    def score(self, batch: Packed, rng: np.random.Generator) -> Tensor:
        """Return the sum of all values with random signs; the Fisher information is INFORMATION times its squared gradient.

        In the square, the products of two different values cancel on average.
        """
        values = q_values(self.net, batch) * batch.real[:, :, None, None]  # (P,M,N,A)
        signs = torch.from_numpy(rng.choice([-1.0, 1.0], values.shape).astype(np.float32)).to(self.device)
        return (signs * values).sum()

    def _parts(self) -> dict[str, nn.Module]:
        return {
            "net": self.net,
            "mixers": self.mixers,
            "target_net": self.target_net,
            "target_mixers": self.target_mixers,
            "average": self.average,
        }

    def state_arrays(self) -> dict[str, Any]:
        """Return weights, targets and the optimiser's moments, for a checkpoint."""
        arrays: dict[str, Any] = {part: weights(module) for part, module in self._parts().items()}
        return {**arrays, "adam": adam_arrays(self.optimiser)}

    def load_arrays(self, arrays: Mapping[str, Any]) -> None:
        """Load the arrays that `state_arrays` returned."""
        for part, module in self._parts().items():
            set_weights(module, arrays.get(part, {}))
        load_adam(self.optimiser, arrays.get("adam", {}))

    @property
    def device(self) -> torch.device:
        """The device of the parameters."""
        return self.parameters[0].device

    def settle(self) -> None:
        """Replace the network's weights by the average of its last weights (deviation 5)."""
        self.net.load_state_dict(self.average.state_dict())

    def copy_target(self) -> None:
        """Copy the networks to their targets."""
        self.target_net.load_state_dict(self.net.state_dict())
        self.target_mixers.load_state_dict(self.mixers.state_dict())


def td_on(replay: Replay, batch_size: int, seed: Sequence[int], play: Play, sign: float = 1.0) -> Term:
    """Return the TD loss on another replay, with the reward times `sign`."""
    rng = np.random.default_rng(seed)

    def term(learner: Learner, batch: Packed, q: Callable[[], Tensor]) -> Tensor:
        other = replay.sample(batch_size, rng, learner.device, learner.config.bootstrap_at_limit)
        other = replace(other, reward=sign * other.reward)
        return learner.td_loss(other, play)

    return term


def adam_arrays(optimiser: torch.optim.Optimizer) -> dict[str, Any]:
    """Return an optimiser's moments as arrays, for a checkpoint."""
    moments = optimiser.state_dict()["state"]
    return {str(k): {name: value.cpu().numpy() for name, value in state.items()} for k, state in moments.items()}


def load_adam(optimiser: torch.optim.Optimizer, arrays: Mapping[str, Any]) -> None:
    """Load the moments that `adam_arrays` returned; raise ValueError where they are not those of this optimiser."""
    whole = optimiser.state_dict()
    parts = [part for group in optimiser.param_groups for part in group["params"]]
    for k, state in arrays.items():
        shapes = {name: np.shape(value) for name, value in state.items()}
        wanted = parts[int(k)].shape
        if shapes != {"step": (), "exp_avg": wanted, "exp_avg_sq": wanted}:
            raise ValueError(f"the moments of parameter {k} have the shapes {shapes}; it has {tuple(wanted)}")
    whole["state"] = {
        int(k): {name: torch.from_numpy(np.asarray(value)) for name, value in state.items()}
        for k, state in arrays.items()
    }
    optimiser.load_state_dict(whole)


@torch.no_grad()
def clip_per_member(parameters: list[nn.Parameter], limit: float) -> Tensor:
    """Scale each member's gradient to a norm of at most `limit`. Returns the norms before: (P,)."""
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    if not gradients:  # nothing was learnt from
        return torch.zeros(len(parameters[0]), device=parameters[0].device)
    norms = torch.stack([torch.linalg.vector_norm(gradient.flatten(1), dim=1) for gradient in gradients])
    norm = torch.linalg.vector_norm(norms, dim=0)
    scale = (limit / (norm + 1e-6)).clamp(max=1.0)
    if (scale < 1.0).any():
        for gradient in gradients:
            gradient.mul_(scale.view(-1, *[1] * (gradient.dim() - 1)))
    return norm
