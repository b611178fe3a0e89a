"""The generalist head: one head for any teammate, trained by PPO when the run is over.

A head of the run plays well with the groups that it was trained with. It has not learnt what to do before it is clear who the
teammates are, or with teammates that are like none of the groups. The generalist head is a network of its own that learns both:
it plays with all groups at once and is not told which one it has, so it has to react to what the teammates do.

Training varies the teammates' behaviour, so that the head cannot rely on knowing the groups:

- in some episodes the teammates act at random, with a probability that is drawn for the episode;
- in some episodes their actions are randomly permuted, so that they purposefully go where no group goes;
- in some episodes the teammate is swapped mid-episode for another one.

At first the head imitates the head of the run that is best with the group in play. The weight of imitation falls to zero in the
first part of the training, and the weight of PPO rises to one. The critic is told the group. The head is a policy and not a value
function: a step in the wrong direction costs little, so the values of two actions differ by less than their error.

In a bundle the generalist head is the last head, and its memory follows the run's in `memory`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from macop_aht.config import at_least, setting, within
from macop_aht.episodes.runner import Lockstep
from macop_aht.export.synthetic import Swaps, environments
from macop_aht.learner.experience import Experience
from macop_aht.learner.networks import Ego, Stack
from macop_aht.learner.ppo import IMPOSSIBLE, PpoLearner, ProximalConfig, Schedule, log_policy
from macop_aht.learner.replay import Packed
from macop_aht.learner.rounds import Rounds
from macop_aht.learner.seats import Exploration, Seating
from macop_aht.learner.update import Losses, masked_mean, q_values
from macop_aht.scenarios.spec import World

NOISY = 0.1  # share of the episodes in which the teammates act at random, with a probability that is drawn
PERMUTED = 0.2  # share of the episodes in which the teammates' actions are randomly permuted
PERTURBATIONS = 2  # numbers that the critic is told of the perturbation, beside the group
PERSISTENCE = 0.5  # the probability that a random action of a teammate repeats its last one


@dataclass(frozen=True)
class GeneralistConfig:
    """How the generalist head is trained."""

    rounds: int = setting(
        1_200, "number of training rounds, of some hundred episodes with all groups each; 0: no generalist head"
    )
    epochs: int = setting(3, "number of passes over the episodes of a round, at least 1")
    learning_rate: float = setting(
        1e-3, "learning rate of Adam at the start, above 0; it falls linearly to a twentieth"
    )
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
        at_least(self, 0, "rounds")
        within(self, 0, 1, "gamma", "swaps", "imitation")
        self.ppo()

    def ppo(self) -> ProximalConfig:
        """Return the settings of PPO. Raises `ConfigError` where they are out of range."""
        return ProximalConfig(epochs=self.epochs, learning_rate=self.learning_rate, entropy=self.entropy)


class Practice(Rounds):
    """Rounds with all groups, in which the teammates' behaviour varies. The critic is told who they are and how it does."""

    def __init__(
        self, world: World, net: Ego, groups: Stack, synthetic: int, seed: int, rng: np.random.Generator
    ) -> None:
        """The last `synthetic` of the groups are the ego's own heads."""
        self.group = environments(world, groups.population, synthetic)  # (B,) who plays in each environment
        self.noise = np.zeros(len(self.group))  # (B,) the probability of a random action of the teammates
        self.permuted = np.zeros(len(self.group), dtype=np.bool_)  # (B,) where the teammates' actions are permuted
        self.swaps = 0.0  # share of the episodes with unperturbed groups in which the teammate is swapped
        self._groups, self._world, self._rng, self._steps = groups.population, world, rng, 0
        self._ours = np.arange(world.n_agents) < world.controllable
        pairs = np.stack([np.zeros_like(self.group), self.group], axis=1)
        seating = Seating.cross_play(net, groups, pairs, 1, world.controllable)
        experience = Experience(seating, np.zeros_like(self.group), seed, range(world.controllable))
        super().__init__(world, experience, 1, torch.device("cpu"))

    def exploration(self, schedule: Schedule) -> Exploration:
        """Draw how the teammates' behaviour varies in the round. The ego's actions are sampled from its policy."""
        rng, world, size = self._rng, self._world, len(self.group)
        self.noise, self.permuted = (rng.random(size) < NOISY) * rng.random(size), rng.random(size) < PERMUTED
        actions = np.broadcast_to(np.arange(len(world.actions)), (size, len(world.actions)))
        theirs = np.where(self.permuted[:, None], rng.permuted(actions, axis=1), actions)
        mixed = np.where(self._ours[:, None], actions[:, None], theirs[:, None])  # (B,N,A)
        self._swapping, self._steps = Swaps(~self.permuted & (self.noise == 0), self.swaps, world.limit, rng), 0
        return Exploration(self.noise[:, None] * ~self._ours, PERSISTENCE, sampled=self._ours, permuted=mixed)

    def known(self) -> np.ndarray:
        """Return the group, one-hot, and the two perturbations: (B,G+2)."""
        return np.column_stack([self.group[:, None] == np.arange(self._groups), self.noise, self.permuted])

    def stepped(self, play: Lockstep, counted: np.ndarray) -> None:
        """Record the reward, and swap teammates where that is due."""
        super().stepped(play, counted)
        self._steps += 1
        self._swapping.make(play, self.rollout.seats, self.group, self._steps)


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
        generator = torch.Generator().manual_seed(seed)
        self.net = Ego(ego.shape, 1, generator)
        self._rng = np.random.default_rng([seed, 1])
        self.practice = Practice(world, self.net, groups, ego.n_heads, seed, self._rng)
        self._ego, self._config, self._ppo, self._actions = ego, config, config.ppo(), len(world.actions)
        self._best = torch.from_numpy(returns.argmax(axis=0))  # (G,) the best head
        net = Stack.of(self.net.shape, self.net.backbone, self.net.heads)
        self.learner = PpoLearner(net, [self.practice.told], self._ppo, config.gamma, generator)

    def round(self, done: float) -> None:
        """Play an episode in every environment and learn from it; `done` is the share of the training that is over."""
        config, schedule = self._config, Schedule.at(done, self._ppo, 0.0, 0.0, self._actions)
        imitation = max(1 - done / config.imitation, 0.0) if config.imitation else 0.0
        self.practice.swaps = config.swaps * (1 - imitation)
        self.practice.play(schedule)
        parts = self.learner.prepare(
            0, self.practice.parts(self._ppo.parts, self._rng), self.practice.largest, schedule.sticky
        )
        terms: Losses = {"imitation": (imitation, self.imitation)} if imitation else {}
        for _ in range(config.epochs):
            for at in self._rng.permutation(len(parts)):
                losses = self.learner.losses({0: (1 - imitation, parts[at])}, schedule, terms)
                self.learner.descend(losses, schedule.learning_rate)

    def imitation(self, learner: PpoLearner, batch: Packed, logits: Callable[[], Tensor]) -> Tensor:
        """Return the loss of not acting like the head that is best with the group.

        With permuted actions, no head knows what is best.
        """
        groups = len(self._best)
        known = batch.state[0, :, -groups - PERTURBATIONS :]  # (M,G+2): see `Practice.known`
        with torch.no_grad():
            of_all = q_values(self._ego, batch).masked_fill(~batch.mask, IMPOSSIBLE).argmax(dim=-1)  # (K,M,m)
        head = self._best[known[:, :groups].argmax(dim=1)]
        best = of_all[head, torch.arange(len(head))].view(1, len(head), -1, 1)
        loss = -log_policy(learner.net, batch, logits()).gather(-1, best).squeeze(-1).mean(dim=-1)
        return masked_mean(loss * (1 - known[:, -1]), batch.real)


def train(
    world: World,
    ego: Ego,
    groups: Stack,
    returns: np.ndarray,
    config: GeneralistConfig,
    seed: int,
    say: Callable[[str], None] = lambda line: None,
) -> Ego:
    """Return a network with a generalist head; it is the same for the same seed.

    `returns` (K,G) are those of the ego's heads with the groups, of which the last are these heads: see `with_synthetic`.
    `say` is told every tenth of the rounds.
    """
    trainer = GeneralistTrainer(world, ego, groups, returns, config, seed)
    for k in range(config.rounds):
        trainer.round(k / config.rounds)
        if 10 * (k + 1) // config.rounds > 10 * k // config.rounds:
            say(f"generalist head: {k + 1:,} of {config.rounds:,} rounds")
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
