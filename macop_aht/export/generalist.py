"""The generalist head: one head for any teammate, trained by PPO when the run is over.

A head of the run plays well with the groups that it was trained with. It has not learnt what to do before it is clear who the
teammates are, or with teammates that are like none of the groups. The generalist head is a network of its own that learns both:
it plays with all groups at once and is not told which one it has, so it has to react to what the teammates do.

Training varies the teammates' behaviour, so that the head cannot rely on knowing the groups:

- in some episodes the teammates act at random, with a probability that is drawn for the episode;
- in some episodes their actions are randomly permuted, so that they purposefully go where no group goes;
- in some episodes the teammate is swapped mid-episode for another one.

At first the head imitates the head of the run that is best with the group in play. The weight of imitation falls to zero in the
first part of the training, and the weight of proximal policy optimisation (PPO) rises to one. The critic is told the group. The
head is a policy and not a value function: a step in the wrong direction costs little, so the values of two actions differ by less
than their error.

In a bundle the generalist head is the last head, and its memory follows the run's in `memory`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from macop_aht.config import at_least, setting, within
from macop_aht.episodes.runner import Hook, Lockstep, run
from macop_aht.export.synthetic import Swaps, environments
from macop_aht.learner.networks import Backbone, Ego, Linear, Shape, Stack, encode
from macop_aht.learner.recurrence import packing
from macop_aht.learner.rollout import Rollout
from macop_aht.learner.seats import Exploration, NetworkSeats, Seating
from macop_aht.scenarios.spec import World

MINIBATCHES = 4  # of a round
CLIP = 0.2  # PPO's: how far the probability ratio of an action may move in a round
GRADIENT_NORM = 0.5  # the largest, of the policy and of the critic
NOISY = 0.1  # share of the episodes in which the teammates act at random, with a probability that is drawn
PERMUTED = 0.2  # share of the episodes in which the teammates' actions are randomly permuted
PERTURBATIONS = 2  # numbers that the critic is told of the perturbation, beside the group
PERSISTENCE = 0.5  # the probability that a random action of a teammate repeats its last one
TRACE = 0.95  # lambda of generalised advantage estimation


@dataclass(frozen=True)
class GeneralistConfig:
    """How the generalist head is trained."""

    rounds: int = setting(
        1_200, "number of training rounds, of some hundred episodes with all groups each; 0: no generalist head"
    )
    epochs: int = setting(3, "number of passes over the episodes of a round, at least 1")
    learning_rate: float = setting(1e-3, "learning rate of Adam at the start, at least 0; it falls to 0 linearly")
    gamma: float = setting(0.99, "discount factor per step, in 0..1")
    entropy: float = setting(
        0.01, "weight of the policy's entropy in the loss at the start, at least 0; it falls to 0 linearly"
    )
    swaps: float = setting(
        0.4, "share of the episodes with unperturbed groups in which the teammate is swapped mid-episode, in 0..1"
    )
    imitation: float = setting(
        0.3, "share of the training, at its start, in which the best head is imitated, in 0..1; the weight falls to 0"
    )

    def __post_init__(self) -> None:
        at_least(self, 0, "rounds", "learning_rate", "entropy")
        at_least(self, 1, "epochs")
        within(self, 0, 1, "gamma", "swaps", "imitation")


class Critic(nn.Module):
    """The expected return of the team from a step on, for one who knows the teammates: (M,m,in) (M,extra) -> (M,)."""

    def __init__(self, shape: Shape, extra: int, generator: torch.Generator) -> None:
        """`extra` is the number of values that describe the teammates."""
        super().__init__()
        self.backbone = Backbone(replace(shape, obs=extra + shape.obs), 1, generator)
        self.output = Linear(1, shape.hidden, 1, generator)

    def forward(self, inputs: Tensor, teammates: Tensor, counts: Sequence[int]) -> Tensor:
        rows = torch.cat([teammates.unsqueeze(1).expand(-1, inputs.shape[1], -1), inputs], dim=-1)
        memory = self.backbone(rows.flatten(0, 1).unsqueeze(0), [count * inputs.shape[1] for count in counts])
        return self.output(memory).view(inputs.shape[:2]).mean(dim=1)


def log_policy(net: Ego, inputs: Tensor, mask: Tensor, counts: Sequence[int]) -> Tensor:
    """Return the log-probability of each action, for each of the network's K heads: (M,m,in) (M,m,A) -> (K,M,m,A)."""
    rows = [count * inputs.shape[1] for count in counts]
    values = net(inputs.flatten(0, 1).unsqueeze(0), rows).unflatten(1, inputs.shape[:2])
    return values.masked_fill(~mask, -1e9).log_softmax(dim=-1)


class Episodes(NamedTuple):
    """A round of episodes, one in every environment, as the ego's agents have seen them."""

    inputs: Tensor  # (T,B,m,in)
    mask: Tensor  # (T,B,m,A) bool
    group: Tensor  # (T,B) in the teammates' seats
    action: Tensor  # (T,B,m)
    reward: np.ndarray  # (T,B)
    length: np.ndarray  # (B,)
    noise: Tensor  # (B,) the probability of a random action of the teammates
    permuted: Tensor  # (B,) bool: the teammates' actions are permuted

    def teammates(self, at: tuple[np.ndarray, np.ndarray], groups: int) -> Tensor:
        """Return what the critic is told of the teammates, in these steps of these episodes: (M,groups+PERTURBATIONS)."""
        perturbations = torch.stack([self.noise, self.permuted.float()], dim=1)
        return torch.cat([nn.functional.one_hot(self.group[at], groups).float(), perturbations[at[1]]], dim=1)


class Targets(NamedTuple):
    """What a round is trained towards."""

    before: Tensor  # (T,B,m) the log-probability of each action when it was played
    best: Tensor  # (T,B,m) the action of the head that is best with the group, to be imitated; zeros after imitation has ended
    advantage: Tensor  # (T,B)
    value: Tensor  # (T,B) for the critic


class GeneralistTrainer:
    """Trains a generalist head with all groups."""

    def __init__(
        self,
        world: World,
        ego: Ego,
        groups: Stack,
        returns: np.ndarray,
        config: GeneralistConfig,
        seed: int,
    ) -> None:
        """`returns` (K,G) are those of the ego's heads with the groups; the last K groups are these heads."""
        generator, shape = torch.Generator().manual_seed(seed), ego.shape
        self.net, self.critic = Ego(shape, 1, generator), Critic(shape, groups.population + PERTURBATIONS, generator)
        self._group = environments(world, groups.population, ego.n_heads)  # (B,) in each environment
        pairs = np.stack([np.zeros_like(self._group), self._group], axis=1)
        self._rollout = Rollout(
            world, Seating.cross_play(self.net, groups, pairs, 1, world.controllable), seed, torch.device("cpu")
        )
        self._world, self._ego, self._config = world, ego, config
        self._best = torch.from_numpy(returns.argmax(axis=0))  # (G,) the best head
        self._scale = float(np.abs(returns.max(axis=0)).mean()) or 1.0  # of returns
        self._rng = np.random.default_rng([seed, 1])
        self._parameters = [[*self.net.parameters()], [*self.critic.parameters()]]
        self._optimiser = torch.optim.Adam([part for parts in self._parameters for part in parts], fused=True)

    def round(self, done: float) -> None:
        """Play an episode in every environment and train on it; `done` is the share of the training that is over."""
        config = self._config
        self._optimiser.param_groups[0]["lr"] = config.learning_rate * (1 - done)
        imitation = max(1 - done / config.imitation, 0.0) if config.imitation else 0.0
        episodes = self._play(config.swaps * (1 - imitation))
        targets = self._targets(episodes, imitation > 0)
        for _ in range(config.epochs):
            for chosen in np.array_split(self._rng.permutation(len(episodes.length)), MINIBATCHES):
                self._optimiser.zero_grad(set_to_none=True)
                self._loss(episodes, targets, chosen, imitation, config.entropy * (1 - done)).backward()
                for parameters in self._parameters:
                    nn.utils.clip_grad_norm_(parameters, GRADIENT_NORM)
                self._optimiser.step()

    def _play(self, swaps: float) -> Episodes:
        rollout, world, size, rng = self._rollout, self._world, len(self._group), self._rng
        ours = np.arange(world.n_agents) < world.controllable
        noise, permuted = (rng.random(size) < NOISY) * rng.random(size), rng.random(size) < PERMUTED
        actions = np.broadcast_to(np.arange(len(world.actions)), (size, len(world.actions)))
        taken_for = np.where(permuted[:, None], rng.permuted(actions, axis=1), actions)
        mixed = np.where(ours[:, None], actions[:, None], taken_for[:, None])  # (B,N,A)
        swapping = Swaps(~permuted & (noise == 0), swaps, world.limit, rng)
        rollout.seats.exploration = Exploration(noise[:, None] * ~ours, PERSISTENCE, sampled=ours, permuted=mixed)
        steps = _Steps(rollout.seats, ours, self._group, swapping)
        length = run(rollout.play, [rollout.seats], hooks=[steps]).lengths[:, 0]
        obs, last, mask, group, action, reward = (np.stack(column) for column in zip(*steps.found, strict=True))
        agent = torch.arange(world.controllable).expand(last.shape)
        inputs = encode(self.net.shape, torch.from_numpy(obs), torch.from_numpy(last), agent)
        allowed, played, taken = (torch.from_numpy(array) for array in (mask != 0, group, action))
        perturbations = torch.from_numpy(noise.astype(np.float32)), torch.from_numpy(permuted)
        return Episodes(
            inputs, allowed, played, taken, (reward / self._scale).astype(np.float32), length, *perturbations
        )

    @torch.no_grad()
    def _targets(self, episodes: Episodes, imitate: bool) -> Targets:
        at, counts = packing(episodes.length)
        inputs, mask, group, action = (part[at] for part in episodes[:4])
        before, best = torch.zeros_like(episodes.action, dtype=torch.float32), torch.zeros_like(episodes.action)
        policy = log_policy(self.net, inputs, mask, counts)[0]
        before[at] = policy.gather(-1, action.unsqueeze(-1)).squeeze(-1)
        if imitate:
            of_all = log_policy(self._ego, inputs, mask, counts).argmax(dim=-1)  # (K,M,m)
            best[at] = of_all[self._best[group], torch.arange(len(group))]
        value = np.zeros((len(episodes.reward) + 1, len(episodes.length)), dtype=np.float32)
        value[at] = self.critic(inputs, episodes.teammates(at, len(self._best)), counts).numpy()
        advantage = advantages(episodes.reward, value, episodes.length, self._config.gamma)
        target = torch.from_numpy(advantage + value[:-1])
        of_steps = advantage[at]
        advantage = (advantage - of_steps.mean()) / (of_steps.std() + 1e-6)
        return Targets(before, best, torch.from_numpy(advantage), target)

    def _loss(
        self, episodes: Episodes, targets: Targets, chosen: np.ndarray, imitation: float, entropy: float
    ) -> Tensor:
        """Return the loss of policy and critic on some of the episodes; `imitation` and `entropy` are weights."""
        (step, episode), counts = packing(episodes.length[chosen])
        at = step, chosen[episode]
        inputs = episodes.inputs[at]
        policy = log_policy(self.net, inputs, episodes.mask[at], counts)[0]
        taken = policy.gather(-1, episodes.action[at].unsqueeze(-1)).squeeze(-1)
        ratio, gain = (taken - targets.before[at]).exp(), targets.advantage[at].unsqueeze(-1)
        loss = -torch.minimum(ratio * gain, ratio.clamp(1 - CLIP, 1 + CLIP) * gain)  # (M,m)
        spread = -(policy.exp() * policy).sum(dim=-1).mean()
        off = self.critic(inputs, episodes.teammates(at, len(self._best)), counts) - targets.value[at]
        if imitation:
            imitated = -policy.gather(-1, targets.best[at].unsqueeze(-1)).squeeze(-1)
            known = ~episodes.permuted[at[1]].unsqueeze(-1)  # no head knows what is best with permuted actions
            loss = torch.lerp(loss, imitated, imitation * known.float())
        return loss.mean() - entropy * spread + 0.5 * off.square().mean()


class _Steps(Hook):
    """Records every step as the ego's agents see it, and swaps teammates when that is due."""

    def __init__(self, seats: NetworkSeats, ours: np.ndarray, group: np.ndarray, swaps: Swaps) -> None:
        """`ours` (N,) bool are the ego's agents; `group` (B,) is who plays where, and changes with every swap."""
        self._seats, self._ours, self._group, self._swaps = seats, ours, group, swaps
        self._seen: tuple[np.ndarray, ...] = ()
        self.found: list[tuple[np.ndarray, ...]] = []

    def chosen(self, play: Lockstep, counted: np.ndarray) -> None:
        parts = (play.batch.obs, play.last_action, play.batch.mask)
        self._seen = (*(part[:, self._ours] for part in parts), self._group.copy(), play.action[:, self._ours])

    def stepped(self, play: Lockstep, counted: np.ndarray) -> None:
        self.found.append((*self._seen, play.batch.reward * counted))
        self._swaps.make(play, self._seats, self._group, len(self.found))


def advantages(reward: np.ndarray, value: np.ndarray, length: np.ndarray, gamma: float) -> np.ndarray:
    """Return generalised advantage estimates: (T,B) (T+1,B) (B,) -> (T,B). The time limit counts as an end."""
    found, later = np.zeros_like(reward), np.zeros_like(reward[0])
    for step in reversed(range(len(reward))):
        goes_on = step + 1 < length
        surprise = reward[step] + gamma * goes_on * value[step + 1] - value[step]
        later = np.where(step < length, surprise + gamma * TRACE * goes_on * later, 0.0)
        found[step] = later
    return found


def train(world: World, ego: Ego, groups: Stack, returns: np.ndarray, config: GeneralistConfig, seed: int) -> Ego:
    """Return a network with a generalist head; it is the same for the same seed.

    `returns` (K,G) are those of the ego's heads with the groups, of which the last are these heads: see `with_synthetic`.
    """
    trainer = GeneralistTrainer(world, ego, groups, returns, config, seed)
    for k in range(config.rounds):
        trainer.round(k / config.rounds)
    return trainer.net


@torch.no_grad()
def with_generalist(ego: Ego, net: Ego) -> Ego:
    """Return an ego with the network's head as its last head; the network's memory follows the ego's."""
    hidden = ego.shape.hidden
    joined = Ego(replace(ego.shape, hidden=2 * hidden), 0)
    for name in ("encoder1", "encoder2", "gru_input", "gru_hidden"):
        layer, *parts = (getattr(module.backbone, name) for module in (joined, ego, net))
        gates = 3 if name.startswith("gru_") else 1
        first, second = (part.weight.unflatten(2, (gates, hidden)) for part in parts)  # (1,in,gates,H)
        both = torch.cat([first, second], dim=3) if name == "encoder1" else _block_diagonal(first, second)
        layer.weight.copy_(both.flatten(2))
        layer.bias.copy_(torch.cat([part.bias.unflatten(1, (gates, hidden)) for part in parts], dim=2).flatten(1))
    own, other, heads = ego.heads, net.heads, joined.heads
    read = _padded(own.head1.weight, before=False), _padded(other.head1.weight, before=True)
    heads.head1.weight.data = torch.cat(read)  # (K+1,2H,H): each reads its own half of the memory
    heads.head1.bias.data = torch.cat([own.head1.bias, other.head1.bias])
    heads.head2.weight.data = torch.cat([own.head2.weight, other.head2.weight])
    heads.head2.bias.data = torch.cat([own.head2.bias, other.head2.bias])
    return joined


def _block_diagonal(first: Tensor, second: Tensor) -> Tensor:
    """Return two layers as one block-diagonal layer: (1,H,g,H) -> (1,2H,g,2H)."""
    nothing = torch.zeros_like(first)
    return torch.cat([torch.cat([first, nothing], dim=3), torch.cat([nothing, second], dim=3)], dim=1)


def _padded(weight: Tensor, before: bool) -> Tensor:
    """Return layers with as many more inputs, before or after their own, of weight zero: (K,H,out) -> (K,2H,out)."""
    parts = [torch.zeros_like(weight), weight]
    return torch.cat(parts if before else parts[::-1], dim=1)
