"""A head for anyone, beside those of the run.

A head of the run knows what to do with its own groups. What to do until it is clear who the others are, and with others who are
like none of the groups, no head has learnt. The common head is a network of its own that learns it when the run is over: with
all groups at once, of which it is told nothing, so that it finds out by itself what it needs to know. To teach it to go by what
the others do, whoever they are, some of them act at random, now and then or all the time; some take actions for others, and so
purposefully go where no group goes; and the less it is shown of what follows, the more often others take over in mid-episode.

At first it is shown what the head would do that is best with the group that plays; more and more, and then altogether, it goes by
what its own episodes return (proximal policy optimisation, with a critic that is told who the others are). Values did not do
here: a step in the wrong direction costs little, and the values of two actions differ by less than they are off by.

In a bundle it comes behind the run's heads, its memory behind the memory of theirs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from macop_aht.config import at_least, setting, within
from macop_aht.export.synthetic import Changes, attendance
from macop_aht.learner.networks import Backbone, Ego, Linear, Shape, Stack, encode
from macop_aht.learner.recurrence import packing
from macop_aht.learner.rollout import Exploration, Rollout, Seating
from macop_aht.scenarios.spec import World

PARTS = 4  # of the episodes of a round: as many updates in a pass
CLIP = 0.2  # how far the chance of an action may go in a round
GRADIENT = 0.5  # norm of a gradient, of the policy and of the critic
NOISY = 0.1  # share of the episodes in which teammates act at random with some chance, which is drawn
STRANGE = 0.2  # share of the episodes in which teammates take actions for others, by a permutation that is drawn
HABITS = 2  # numbers that the critic is told of the others, beside the group
PERSISTENCE = 0.5  # the chance that a random action of theirs is the last one again
TRACE = 0.95  # share of what was seen later in an advantage, in a step


@dataclass(frozen=True)
class CommonHeadConfig:
    """How the common head learns."""

    rounds: int = setting(1_200, "rounds of some hundred episodes with all groups at once; 0: no common head")
    epochs: int = setting(3, "times that a round is learnt from")
    learning_rate: float = setting(1e-3, "of Adam at first; it goes down to nothing")
    gamma: float = setting(0.99, "discount per step")
    entropy: float = setting(0.01, "weight of the policy's entropy at first; it goes down to nothing")
    switches: float = setting(0.4, "share of the episodes in which others take over, of those with groups as they are")
    shown: float = setting(0.3, "part of the training in which it is shown, less and less, what the best head would do")

    def __post_init__(self) -> None:
        at_least(self, 0, "rounds", "learning_rate", "entropy")
        at_least(self, 1, "epochs")
        within(self, 0, 1, "gamma", "switches", "shown")


class Critic(nn.Module):
    """What the team will still get; it is told who the others are, in so many numbers: (M,m,in) (M,told) -> (M,)."""

    def __init__(self, shape: Shape, told: int, generator: torch.Generator) -> None:
        super().__init__()
        self.backbone = Backbone(replace(shape, obs=told + shape.obs), 1, generator)
        self.output = Linear(1, shape.hidden, 1, generator)

    def forward(self, inputs: Tensor, company: Tensor, counts: Sequence[int]) -> Tensor:
        told = torch.cat([company.unsqueeze(1).expand(-1, inputs.shape[1], -1), inputs], dim=-1)
        memory = self.backbone(told.flatten(0, 1).unsqueeze(0), [count * inputs.shape[1] for count in counts])
        return self.output(memory).view(inputs.shape[:2]).mean(dim=1)


def log_policy(net: Ego, inputs: Tensor, mask: Tensor, counts: Sequence[int]) -> Tensor:
    """The logarithm of each action's chance, by each of the network's K heads: (M,m,in) (M,m,A) -> (K,M,m,A)."""
    rows = [count * inputs.shape[1] for count in counts]
    values = net(inputs.flatten(0, 1).unsqueeze(0), rows).unflatten(1, inputs.shape[:2])
    return values.masked_fill(~mask, -1e9).log_softmax(dim=-1)


class Episodes(NamedTuple):
    """A round of episodes, one in every environment, as our agents have seen them."""

    inputs: Tensor  # (T,B,m,in)
    mask: Tensor  # (T,B,m,A) bool
    group: Tensor  # (T,B) who was there
    action: Tensor  # (T,B,m)
    reward: np.ndarray  # (T,B)
    length: np.ndarray  # (B,)
    noise: Tensor  # (B,) the chance of a random action of the others, whoever they are at the time
    strange: Tensor  # (B,) bool: they, too, take actions for others

    def company(self, at: tuple[np.ndarray, np.ndarray], groups: int) -> Tensor:
        """For the critic, in these steps of these episodes: (M,groups+HABITS)."""
        habits = torch.stack([self.noise, self.strange.float()], dim=1)
        return torch.cat([nn.functional.one_hot(self.group[at], groups).float(), habits[at[1]]], dim=1)


class Judged(NamedTuple):
    """What is known of a round before anything is learnt from it."""

    before: Tensor  # (T,B,m) the logarithm of the chance that each action had
    shown: Tensor  # (T,B,m) the action of the head that is best with the group; zeros where nothing is shown any more
    advantage: Tensor  # (T,B)
    target: Tensor  # (T,B) for the critic


class Lessons:
    """The common head with all groups."""

    def __init__(
        self,
        world: World,
        ego: Ego,
        groups: Stack,
        returns: np.ndarray,
        config: CommonHeadConfig,
        seed: int,
    ) -> None:
        """`returns` (K,G) are those of the ego's heads, the last K of the groups."""
        generator, shape = torch.Generator().manual_seed(seed), ego.shape
        self.net, self.critic = Ego(shape, 1, generator), Critic(shape, groups.population + HABITS, generator)
        self._group = attendance(world, groups.population, ego.n_heads)  # (B,) who is in each environment
        pairs = np.stack([np.zeros_like(self._group), self._group], axis=1)
        self._rollout = Rollout(
            world, Seating.cross_play(self.net, groups, pairs, 1, world.controllable), seed, torch.device("cpu")
        )
        self._world, self._ego, self._config = world, ego, config
        self._best = torch.from_numpy(returns.argmax(axis=0))  # (G,) head
        self._scale = float(np.abs(returns.max(axis=0)).mean()) or 1.0  # of returns
        self._rng = np.random.default_rng([seed, 1])
        self._parameters = [[*self.net.parameters()], [*self.critic.parameters()]]
        self._optimiser = torch.optim.Adam([part for parts in self._parameters for part in parts], fused=True)

    def round(self, done: float) -> None:
        """Play an episode in every environment and learn from it, when `done` of the training is done."""
        config = self._config
        self._optimiser.param_groups[0]["lr"] = config.learning_rate * (1 - done)
        shown = max(1 - done / config.shown, 0.0) if config.shown else 0.0
        episodes = self._play(config.switches * (1 - shown))
        judged = self._judge(episodes, shown > 0)
        for _ in range(config.epochs):
            for chosen in np.array_split(self._rng.permutation(len(episodes.length)), PARTS):
                self._optimiser.zero_grad(set_to_none=True)
                self._loss(episodes, judged, chosen, shown, config.entropy * (1 - done)).backward()
                for parameters in self._parameters:
                    nn.utils.clip_grad_norm_(parameters, GRADIENT)
                self._optimiser.step()

    def _play(self, switches: float) -> Episodes:
        rollout, world, size = self._rollout, self._world, len(self._group)
        everywhere, ours = np.ones(size, dtype=np.bool_), np.arange(world.n_agents) < world.controllable
        noise, strange = (self._rng.random(size) < NOISY) * self._rng.random(size), self._rng.random(size) < STRANGE
        actions = np.broadcast_to(np.arange(len(world.actions)), (size, len(world.actions)))
        taken_for = np.where(strange[:, None], self._rng.permuted(actions, axis=1), actions)
        mixed = np.where(ours[:, None], actions[:, None], taken_for[:, None])  # (B,N,A)
        swaps = Changes(~strange & (noise == 0), switches, world.limit, self._rng)
        exploration = Exploration(noise[:, None] * ~ours, PERSISTENCE, drawn=ours, taken_for=mixed)
        rollout.begin(everywhere)
        running, length, steps = everywhere.copy(), np.zeros(size, dtype=np.int64), []
        while running.any():
            batch = rollout.batch
            seen = [array[:, ours] for array in (batch.obs, rollout.last_action, batch.mask)]
            rollout.act(exploration)
            over = rollout.step()
            steps.append((*seen, self._group.copy(), rollout.action[:, ours], batch.reward * running / self._scale))
            length += running
            running &= ~over
            swaps.make(rollout, self._group, len(steps))
        obs, last, mask, met, action, reward = (np.stack(column) for column in zip(*steps, strict=True))
        agent = torch.arange(world.controllable).expand(last.shape)
        inputs = encode(self.net.shape, torch.from_numpy(obs), torch.from_numpy(last), agent)
        allowed, group, taken = (torch.from_numpy(array) for array in (mask != 0, met, action))
        habits = torch.from_numpy(noise.astype(np.float32)), torch.from_numpy(strange)
        return Episodes(inputs, allowed, group, taken, reward.astype(np.float32), length, *habits)

    @torch.no_grad()
    def _judge(self, episodes: Episodes, show: bool) -> Judged:
        at, counts = packing(episodes.length)
        inputs, mask, group, action = (part[at] for part in episodes[:4])
        before, shown = torch.zeros_like(episodes.action, dtype=torch.float32), torch.zeros_like(episodes.action)
        policy = log_policy(self.net, inputs, mask, counts)[0]
        before[at] = policy.gather(-1, action.unsqueeze(-1)).squeeze(-1)
        if show:
            of_all = log_policy(self._ego, inputs, mask, counts).argmax(dim=-1)  # (K,M,m)
            shown[at] = of_all[self._best[group], torch.arange(len(group))]
        value = np.zeros((len(episodes.reward) + 1, len(episodes.length)), dtype=np.float32)
        value[at] = self.critic(inputs, episodes.company(at, len(self._best)), counts).numpy()
        advantage = advantages(episodes.reward, value, episodes.length, self._config.gamma)
        target = torch.from_numpy(advantage + value[:-1])
        of_steps = advantage[at]
        advantage = (advantage - of_steps.mean()) / (of_steps.std() + 1e-6)
        return Judged(before, shown, torch.from_numpy(advantage), target)

    def _loss(self, episodes: Episodes, judged: Judged, chosen: np.ndarray, shown: float, entropy: float) -> Tensor:
        """Of the policy, by its own episodes and by what it is shown, and of the critic, on some of the episodes."""
        (step, episode), counts = packing(episodes.length[chosen])
        at = step, chosen[episode]
        inputs = episodes.inputs[at]
        policy = log_policy(self.net, inputs, episodes.mask[at], counts)[0]
        taken = policy.gather(-1, episodes.action[at].unsqueeze(-1)).squeeze(-1)
        change, gain = (taken - judged.before[at]).exp(), judged.advantage[at].unsqueeze(-1)
        own = -torch.minimum(change * gain, change.clamp(1 - CLIP, 1 + CLIP) * gain)  # (M,m)
        spread = -(policy.exp() * policy).sum(dim=-1).mean()
        off = self.critic(inputs, episodes.company(at, len(self._best)), counts) - judged.target[at]
        if shown:
            imitated = -policy.gather(-1, judged.shown[at].unsqueeze(-1)).squeeze(-1)
            known = ~episodes.strange[at[1]].unsqueeze(-1)  # what is best with strangers, no head can show
            own = torch.lerp(own, imitated, shown * known.float())
        return own.mean() - entropy * spread + 0.5 * off.square().mean()


def advantages(reward: np.ndarray, value: np.ndarray, length: np.ndarray, gamma: float) -> np.ndarray:
    """How much better than expected it went from each step on: (T,B) (T+1,B) (B,) -> (T,B). The time limit is an end."""
    found, later = np.zeros_like(reward), np.zeros_like(reward[0])
    for step in reversed(range(len(reward))):
        goes_on = step + 1 < length
        surprise = reward[step] + gamma * goes_on * value[step + 1] - value[step]
        later = np.where(step < length, surprise + gamma * TRACE * goes_on * later, 0.0)
        found[step] = later
    return found


def learn(world: World, ego: Ego, groups: Stack, returns: np.ndarray, config: CommonHeadConfig, seed: int) -> Ego:
    """A network that joins any of the groups; the same for the same seed.

    The ego's heads, which get `returns` (K,G), are the last of the groups: see `company`.
    """
    lessons = Lessons(world, ego, groups, returns, config, seed)
    for k in range(config.rounds):
        lessons.round(k / config.rounds)
    return lessons.net


@torch.no_grad()
def beside(ego: Ego, net: Ego) -> Ego:
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
