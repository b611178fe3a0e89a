"""Who is it that we play with, and what would each head get? A recogniser, trained when all groups are known, and its belief.

The recogniser is the agent network's backbone, on what our agents see and do themselves, with two things on top: a layer that
names the group, and two that say what every head would return if it were played from here on. There are a few of it, which
learn from the same and differ in what they began with; they are heard together. It learns from episodes of the ego with any
group, in which the ego may change its head at any moment until it settles on one, and the teammates sometimes change too. Its
memory lasts an episode. What is carried over to the next one is the belief: what was believed in the end is what is believed
before anything is seen, and it leaks towards not knowing with every step.

    belief = softmax(prior + evidence)        evidence: what the recogniser makes of this episode
    prior  = log((1 - leak) b + leak / G)     b: the prior a step ago; when an episode begins, the belief a step ago
    value  = belief @ returns + correction    returns: measured from the first step on; correction: learnt, from memory and belief
    head   = argmax (value + hold - tired)    hold: something for the head that is being played
                                              tired: a little for every step that a head has been played in this episode;
                                              a common head never tires

Values are not exact: where two are close, heads would take turns from step to step and get nowhere, hence the hold. Where two
agents stand in each other's way, they would stand there for good, hence the tiring. One of the heads may be a common one (see
`common_head`), which is played until it is clear that another is better. The correction is what makes a head's
value depend on where the others have left it. It also serves with teammates that are none of the groups: what a head gets
where things stand like this may be known where the name of the group is not. For the sake of such teammates the ego's own
heads are among the groups: each is another way of acting as a group that it was trained with.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from macop_aht.config import at_least, setting, within
from macop_aht.deploy.selectors import belief_size
from macop_aht.export.generalist import CommonHeadConfig
from macop_aht.export.synthetic import Changes, attendance
from macop_aht.learner.networks import Backbone, Ego, Linear, Shape, Stack, encode
from macop_aht.learner.recurrence import packing
from macop_aht.learner.rollout import Exploration, Rollout, Seating
from macop_aht.learner.update import clip_per_member
from macop_aht.scenarios.spec import World

NEW_HEAD = 0.2  # the chance that the ego changes its head in a step, in those episodes in which it does
FROM_THE_START = 0.25  # share of the episodes in which the ego settles on a head in the first step
LATEST = 2 / 3  # of the longest episode: it settles in this part of it, or not at all
ROUNDS = 16  # of episodes that are kept to be learnt from again
CLIP = 1.0  # norm of a gradient, per network


@dataclass(frozen=True)
class RecogniserConfig:
    """How long it learns, and how fast it forgets."""

    steps: int = setting(1_500_000, "steps of the ego with its groups, for the recogniser to learn from")
    members: int = setting(2, "networks that learn it and are heard together")
    batch: int = setting(1_024, "steps in an update, about; episodes are whole")
    lr: float = setting(2e-3, "of Adam at first; it goes down to nothing")
    leak: float = setting(0.05, "share of the carried-over belief that is lost in a step")
    hold: float = setting(0.5, "standard deviations of the returns by which another head must be better to take over")
    tire: float = setting(
        1.0, "standard deviations of the returns that a head of the run loses if it is played for a whole episode"
    )
    passes: int = setting(3, "times that an episode is learnt from")
    switches: float = setting(0.3, "share of the episodes in which others take over")
    noise: float = setting(0.3, "chance of a random action of the teammates, in half of the episodes")
    test_episodes: int = setting(64, "greedy episodes behind every figure in the bundle")
    tier_episodes: int = setting(
        32, "episodes with each teammate of the zoo's test and each script, for the card; 0: none"
    )
    plot: bool = setting(True, "whether the card has a figure; it needs matplotlib")
    common: CommonHeadConfig = field(default_factory=CommonHeadConfig)

    def __post_init__(self) -> None:
        at_least(self, 1, "steps", "members", "passes", "batch", "test_episodes")
        at_least(self, 0, "lr", "hold", "tire", "tier_episodes")
        within(self, 0, 1, "leak", "switches", "noise")


class Recogniser(nn.Module):
    """Names the group and values the heads: each agent of ours by itself, in each of N networks, and all together by the mean."""

    def __init__(
        self,
        shape: Shape,
        returns: np.ndarray,
        config: RecogniserConfig,
        limit: int,
        generator: torch.Generator | None = None,
        common: bool = False,
    ) -> None:
        """`returns` (K,G) are those of every head with every group; `limit` is the longest episode.

        A common head, if there is one, is the last. It finds out by itself when something else is to be tried: it never tires.
        """
        super().__init__()
        self.shape, self.members = shape, config.members
        self.n_heads, self.groups = returns.shape
        self.backbone = Backbone(shape, self.members, generator)
        self.namer = Linear(self.members, shape.hidden, self.groups, generator)
        self.valuer1 = Linear(self.members, shape.hidden + self.groups, shape.hidden, generator)
        self.valuer2 = Linear(self.members, shape.hidden, self.n_heads, generator)
        scale = float(returns.std()) or 1.0
        self.returns: Tensor
        self.scale: Tensor  # a correction of 1 is so much return
        self.leak: Tensor
        self.hold: Tensor  # in units of return
        self.tire: Tensor  # the same of each head, in a step
        self.register_buffer("returns", torch.from_numpy(returns.T.astype(np.float32)))
        self.register_buffer("scale", torch.tensor(scale))
        self.register_buffer("leak", torch.tensor(config.leak))
        self.register_buffer("hold", torch.tensor(scale * config.hold))
        tiring = torch.arange(self.n_heads) < self.n_heads - common
        self.register_buffer("tire", scale * config.tire / limit * tiring)

    def belief_size(self, own: int) -> int:
        """The numbers in a belief, with so many agents of ours."""
        return belief_size(self.groups, own, self.members * self.shape.hidden, self.n_heads)

    def forward(self, inputs: Tensor, probability: Tensor, counts: tuple[int, ...]) -> tuple[Tensor, Tensor]:
        """Whole episodes in packed form: (M,m,in), belief (M,G) -> log-probabilities of the groups (N,M,G), values (N,M,K)."""
        own = inputs.shape[1]
        memory = self.backbone(self._to_all(inputs.flatten(0, 1)), [count * own for count in counts])
        memory = memory.unflatten(1, (-1, own))
        return self._named(memory).log_softmax(dim=-1), self._values(memory, probability)

    def _to_all(self, rows: Tensor) -> Tensor:
        """(R,…) -> (N,R,…)."""
        return rows.expand(self.members, *rows.shape)

    def _named(self, memory: Tensor) -> Tensor:
        """What each network says of the groups: (N,B,m,H) -> (N,B,G)."""
        return self.namer(memory.flatten(1, 2)).unflatten(1, memory.shape[1:3]).mean(dim=2)

    def _values(self, memory: Tensor, probability: Tensor) -> Tensor:
        """The return that is expected of each head, if it is played from here on: (N,B,m,H) (B,G) -> (N,B,K)."""
        believed = probability[:, None].expand(*memory.shape[:3], -1)
        told = torch.cat([memory, believed], dim=-1)
        hidden = torch.relu(self.valuer1(told.flatten(1, 2)))
        correction = self.valuer2(hidden).unflatten(1, memory.shape[1:3]).mean(dim=2)
        return probability @ self.returns + self.scale * correction

    def step(self, obs: Tensor, last_action: Tensor, agent: Tensor, belief: Tensor) -> tuple[Tensor, ...]:
        """What `selectors.zero_shot` does: (B,m,D) (B,m) (B,m) (B,S) -> values (B,K), probability (B,G), belief (B,S).

        The values are those that the head is chosen by: with the hold, and less what heads have tired by.
        """
        own, width = obs.shape[1], self.members * self.shape.hidden
        parts = [self.groups, self.groups, own * width, self.n_heads, self.n_heads]
        prior, evidence, memory, held, spent = belief.split(parts, dim=-1)
        first = last_action.amax(dim=1, keepdim=True) < 0
        prior = torch.where(first, prior + evidence, prior).softmax(dim=-1)
        prior = ((1 - self.leak) * prior + self.leak / self.groups).log()
        memory = torch.where(first, 0.0, memory).reshape(-1, self.members, self.shape.hidden).transpose(0, 1)
        inputs = encode(self.shape, obs, last_action, agent).flatten(0, 1)
        memory = self.backbone.step(self._to_all(inputs), memory).unflatten(1, (-1, own))  # (N,B,m,H)
        evidence = self._named(memory).mean(dim=0).log_softmax(dim=-1)
        probability = (prior + evidence).softmax(dim=-1)
        spent = torch.where(first, 0.0, spent)
        values = self._values(memory, probability).mean(dim=0) + torch.where(first, 0.0, held) - spent
        played = nn.functional.one_hot(values.argmax(dim=-1), self.n_heads)
        told = [prior, evidence, memory.movedim(0, 2).flatten(1), self.hold * played, spent + self.tire * played]
        return values, probability, torch.cat(told, dim=-1)


class Moments(NamedTuple):
    """Steps of episodes, one behind the other in packed form: see `recurrence`."""

    obs: Tensor  # (M,m,D)
    last_action: Tensor  # (M,m)
    group: Tensor  # (M,)
    probability: Tensor  # (M,G)
    head: Tensor  # (M,)
    settled: Tensor  # (M,)
    result: Tensor  # (M,)
    counts: tuple[int, ...]


@dataclass(frozen=True)
class Histories:
    """Episodes as our agents have seen them, who was there, and what came of it."""

    obs: np.ndarray  # (T,B,m,D)
    last_action: np.ndarray  # (T,B,m)
    group: np.ndarray  # (T,B)
    probability: np.ndarray  # (T,B,G) as it was believed then
    head: np.ndarray  # (T,B) that was played
    settled: np.ndarray  # (T,B) bool: it was played to the end
    result: np.ndarray  # (B,) the return
    length: np.ndarray  # (B,)

    def pack(self, chosen: np.ndarray) -> Moments:
        """Some of the episodes."""
        (step, episode), counts = packing(self.length[chosen])
        at = step, chosen[episode]
        obs, last, group, probability, head, settled = (
            torch.from_numpy(array[at])
            for array in (self.obs, self.last_action, self.group, self.probability, self.head, self.settled)
        )
        result = torch.from_numpy(self.result[at[1]])
        return Moments(obs, last, group, probability, head, settled, result, counts)


class Meetings:
    """The ego with all groups; who meets whom changes now and then, and in mid-episode.

    In half of the episodes the ego plays as it will, by what the recogniser makes of it so far, its belief fresh or carried over.
    In the others it plays any head, or one after the other. At some step it settles on a head, the one that the recogniser values
    most or any: what the episode returns is the value of that head from there on.
    """

    def __init__(
        self, world: World, ego: Ego, groups: Stack, config: RecogniserConfig, seed: int, heads: int = 0
    ) -> None:
        """The last `heads` of the groups are the ego's own, and met less often."""
        self.group = attendance(world, groups.population, heads)  # (B,) who is in each environment
        pairs = np.stack([np.zeros_like(self.group), self.group], axis=1)
        seating = Seating.cross_play(ego, groups, pairs, 1, world.controllable)
        self._rollout = Rollout(world, seating, seed, next(ego.parameters()).device)
        self._world, self._heads, self._config = world, ego.n_heads, config
        self._agent = torch.arange(world.controllable).expand(len(self.group), -1)
        width = config.members * Shape.of(world).hidden
        size = belief_size(groups.population, world.controllable, width, ego.n_heads)
        self._belief = torch.zeros(len(self.group), size)
        self._rng = np.random.default_rng([seed, 1])

    def play(self, recogniser: Recogniser) -> Histories:
        """An episode in every environment."""
        rollout, world, rng, size = self._rollout, self._world, self._rng, len(self.group)
        everywhere, theirs = np.ones(size, dtype=np.bool_), np.arange(world.n_agents) >= world.controllable
        guided, restless, trusting, noisy, forgetful = rng.random((5, size)) < 0.5
        settle = rng.integers(0, max(int(LATEST * world.limit), 1), size) * (rng.random(size) > FROM_THE_START)
        swaps = Changes(everywhere, self._config.switches, world.limit, rng)
        exploration = Exploration(self._config.noise * noisy[:, None] * theirs)
        rollout.begin(everywhere)
        self._belief[torch.from_numpy(forgetful)] = 0.0
        head, running = rng.integers(0, self._heads, size), everywhere.copy()
        result, length, moments = np.zeros(size, dtype=np.float32), np.zeros(size, dtype=np.int64), []
        for step in range(world.limit):
            obs, last = (array[:, ~theirs].copy() for array in (rollout.batch.obs, rollout.last_action))
            best, probability = self._look(recogniser, obs, last, running)
            settling, free = step == settle, step < settle
            follows = free & guided | settling & trusting
            changes = free & ~guided & restless & (rng.random(size) < NEW_HEAD) | settling & ~trusting
            head = np.where(follows, best, np.where(changes, rng.integers(0, self._heads, size), head))
            moments.append((obs, last, self.group.copy(), probability, head, ~free))
            length += running
            rollout.reseat(everywhere, head)
            rollout.act(exploration)
            over = rollout.step() & running
            result[over] = rollout.batch.score[over]
            running &= ~over
            if not running.any():
                break
            swaps.make(rollout, self.group, step + 1)
        seen, acted, group, believed, played, settled = (np.stack(column) for column in zip(*moments, strict=True))
        return Histories(seen, acted, group, believed, played, settled, result, length)

    @torch.no_grad()
    def _look(
        self, recogniser: Recogniser, obs: np.ndarray, last_action: np.ndarray, running: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """The heads that zero-shot would play, and its belief: (B,) (B,G). Where an episode has ended, it stays as it was."""
        inputs = torch.from_numpy(obs), torch.from_numpy(last_action), self._agent
        values, probability, belief = recogniser.step(*inputs, self._belief)
        self._belief = torch.where(torch.from_numpy(running).unsqueeze(-1), belief, self._belief)
        return values.argmax(dim=-1).numpy(), probability.numpy()


def train(
    world: World, ego: Ego, groups: Stack, returns: np.ndarray, config: RecogniserConfig, seed: int, heads: int = 0
) -> Recogniser:
    """A recogniser of these groups for this ego, whose heads get `returns` (K,G) with them; the same for the same seed.

    The last `heads` of the groups are the ego's own: see `company`.
    """
    generator = torch.Generator().manual_seed(seed)
    recogniser = Recogniser(Shape.of(world), returns, config, world.limit, generator, common=0 < heads < ego.n_heads)
    parameters = [*recogniser.parameters()]
    optimiser = torch.optim.Adam(parameters, lr=config.lr)
    meetings, rng, done = Meetings(world, ego, groups, config, seed, heads), np.random.default_rng([seed, 2]), 0
    rounds: deque[Histories] = deque(maxlen=ROUNDS)
    while done < config.steps:
        optimiser.param_groups[0]["lr"] = config.lr * (1 - done / config.steps)
        rounds.append(meetings.play(recogniser))
        done += int(rounds[-1].length.sum())
        for histories in [rounds[-1], *(rounds[k] for k in rng.integers(0, len(rounds), config.passes - 1))]:
            for chosen in _batches(histories.length, config.batch, rng):
                optimiser.zero_grad()
                _loss(recogniser, histories.pack(chosen)).sum().backward()
                clip_per_member(parameters, CLIP)
                optimiser.step()
    return recogniser


def _loss(recogniser: Recogniser, moments: Moments) -> Tensor:
    """Of the names at every step, and of the values of the heads that were played to the end: (N,)."""
    agent = torch.arange(moments.last_action.shape[1]).expand_as(moments.last_action)
    inputs = encode(recogniser.shape, moments.obs, moments.last_action, agent)
    named, values = recogniser(inputs, moments.probability, moments.counts)
    rows = torch.arange(len(moments.group))
    off = (values[:, rows, moments.head] - moments.result) / recogniser.scale
    valued = (off.square() * moments.settled).sum(dim=1) / moments.settled.sum().clamp(min=1)
    return valued - named[:, rows, moments.group].mean(dim=1)


def _batches(length: np.ndarray, steps: int, rng: np.random.Generator) -> list[np.ndarray]:
    """All episodes, of these lengths, in parts of about so many steps."""
    return np.array_split(rng.permutation(len(length)), min(-(-int(length.sum()) // steps), len(length)))
