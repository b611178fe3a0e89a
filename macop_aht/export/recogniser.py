"""The recogniser: which group are the teammates, and what would each head return with them?

The recogniser is an ensemble of small recurrent networks whose outputs are averaged. Each has the backbone of the agent
network, on what the ego's agents see and do, and two outputs: the log-probability of every group (the evidence), and the
return that every head would get if it were played from here on. A zero-shot selector uses it at every step:

    belief = softmax(prior + evidence)           evidence: of this episode, from the recogniser's memory
    prior  = log((1 - leak) b + leak / G)        b: the prior of the last step; at the start of an episode the last belief
    value  = belief @ returns + correction       returns: measured, of every head with every group, from the first step on
                                                 correction: learnt, from the memory and the belief
    head   = argmax(value + margin - penalty)    margin: a bonus for the active head
                                                 penalty: grows with the steps that a head has been active in this episode

The memory lasts one episode. The belief is carried over to the next one, and the leak moves it towards the uniform
distribution, so that a change of teammates is noticed.

- The *margin* keeps two heads of about the same value from taking turns at every step, which gets nowhere.
- The *penalty* breaks deadlocks, in which two agents stand in each other's way. A generalist head has none: it reacts by itself.
- The *correction* makes the value of a head depend on the present situation. It also serves with teammates that are in
  none of the groups: what a head returns in a situation may be known where the group is not.

The recogniser is trained on episodes of the ego with all groups and with synthetic groups (see `synthetic`). The ego
changes its head at random moments until it settles on one; the return of the episode is a sample of that head's value from
then on. In some episodes the teammate is swapped mid-episode.
"""

from __future__ import annotations

from collections import deque
from dataclasses import asdict, dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from macop_aht.config import at_least, setting, within
from macop_aht.deploy.manifest import BeliefParts
from macop_aht.deploy.selectors import belief_parts
from macop_aht.episodes.runner import Hook, Lockstep, run
from macop_aht.export.synthetic import Swaps, environments
from macop_aht.learner.networks import Backbone, Ego, Linear, Shape, Stack, encode
from macop_aht.learner.recurrence import packing
from macop_aht.learner.rollout import Rollout
from macop_aht.learner.seats import Exploration, Seating
from macop_aht.learner.update import clip_per_member
from macop_aht.scenarios.spec import World

NEW_HEAD = 0.2  # the probability of another head in a step, in episodes in which the ego changes its head at random
FROM_THE_START = 0.25  # share of the episodes in which the ego settles on a head in the first step
LATEST = 2 / 3  # of the longest episode: the ego settles before this step, or the episode is over
ROUNDS = 16  # the number of rounds of episodes in the replay buffer
GRADIENT_NORM = 1.0  # the largest, per network


@dataclass(frozen=True)
class RecogniserConfig:
    """How the recogniser is trained, and how the zero-shot selector uses it."""

    steps: int = setting(1_500_000, "number of environment steps to train the recogniser, at least 1")
    members: int = setting(2, "number of networks in the ensemble, at least 1")
    batch: int = setting(1_024, "approximate number of steps per update, at least 1; episodes are not split")
    learning_rate: float = setting(2e-3, "learning rate of Adam at the start, at least 0; it falls to 0 linearly")
    leak: float = setting(0.05, "share of the carried-over belief that is forgotten per step, in 0..1")
    margin: float = setting(
        0.5,
        "how much better another head must be to become active, in standard deviations of the returns, at least 0",
    )
    penalty: float = setting(
        1.0,
        "penalty on a head of the run for being active a whole episode, in standard deviations of the returns, at least 0",
    )
    passes: int = setting(3, "mean number of times that an episode is trained on, at least 1")
    swaps: float = setting(0.3, "share of the episodes in which the teammate is swapped mid-episode, in 0..1")
    noise: float = setting(0.3, "probability of a random action of the teammates in half of the episodes, in 0..1")

    def __post_init__(self) -> None:
        at_least(self, 1, "steps", "members", "passes", "batch")
        at_least(self, 0, "learning_rate", "margin", "penalty")
        within(self, 0, 1, "leak", "swaps", "noise")


class Recogniser(nn.Module):
    """An ensemble of N networks that names the group and values the heads; the outputs of all agents and members are averaged."""

    def __init__(
        self,
        shape: Shape,
        returns: np.ndarray,
        config: RecogniserConfig,
        limit: int,
        generator: torch.Generator | None = None,
        generalist: bool = False,
    ) -> None:
        """`returns` (K,G) are those of every head with every group; `limit` is the longest episode.

        A generalist head, if there is one, is the last; it pays no penalty.
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
        self.scale: Tensor  # the return that a correction of 1 stands for
        self.leak: Tensor
        self.margin: Tensor  # in units of return
        self.penalty: Tensor  # the same, for each head and step
        self.register_buffer("returns", torch.from_numpy(returns.T.astype(np.float32)))
        self.register_buffer("scale", torch.tensor(scale))
        self.register_buffer("leak", torch.tensor(config.leak))
        self.register_buffer("margin", torch.tensor(scale * config.margin))
        penalised = torch.arange(self.n_heads) < self.n_heads - generalist
        self.register_buffer("penalty", scale * config.penalty / limit * penalised)

    def belief(self, own: int) -> BeliefParts:
        """Return the sizes of a belief of `own` agents of the ego."""
        return belief_parts(self.groups, own, self.members * self.shape.hidden, self.n_heads)

    def forward(self, inputs: Tensor, probability: Tensor, counts: tuple[int, ...]) -> tuple[Tensor, Tensor]:
        """Return the groups' log-probabilities (N,M,G) and the heads' values (N,M,K) for packed episodes, (M,m,in) (M,G)."""
        own = inputs.shape[1]
        memory = self.backbone(self._to_all(inputs.flatten(0, 1)), [count * own for count in counts])
        memory = memory.unflatten(1, (-1, own))
        return self._named(memory).log_softmax(dim=-1), self._values(memory, probability)

    def _to_all(self, rows: Tensor) -> Tensor:
        """Return the rows once for every member: (R,…) -> (N,R,…)."""
        return rows.expand(self.members, *rows.shape)

    def _named(self, memory: Tensor) -> Tensor:
        """Return each member's logits of the groups: (N,B,m,H) -> (N,B,G)."""
        return self.namer(memory.flatten(1, 2)).unflatten(1, memory.shape[1:3]).mean(dim=2)

    def _values(self, memory: Tensor, probability: Tensor) -> Tensor:
        """Return the expected return of each head, if it is played from here on: (N,B,m,H) (B,G) -> (N,B,K)."""
        believed = probability[:, None].expand(*memory.shape[:3], -1)
        inputs = torch.cat([memory, believed], dim=-1)
        hidden = torch.relu(self.valuer1(inputs.flatten(1, 2)))
        correction = self.valuer2(hidden).unflatten(1, memory.shape[1:3]).mean(dim=2)
        return probability @ self.returns + self.scale * correction

    def step(self, obs: Tensor, last_action: Tensor, agent: Tensor, belief: Tensor) -> tuple[Tensor, ...]:
        """Do what `selectors.zero_shot` does: (B,m,D) (B,m) (B,m) (B,S) -> values (B,K), probability (B,G), belief (B,S).

        The head of the highest value is played: the values include the margin and the penalty.
        """
        own = obs.shape[1]
        prior, evidence, memory, margin, penalty = belief.split([*asdict(self.belief(own)).values()], dim=-1)
        first = last_action.amax(dim=1, keepdim=True) < 0
        prior = torch.where(first, prior + evidence, prior).softmax(dim=-1)
        prior = ((1 - self.leak) * prior + self.leak / self.groups).log()
        memory = torch.where(first, 0.0, memory).reshape(-1, self.members, self.shape.hidden).transpose(0, 1)
        inputs = encode(self.shape, obs, last_action, agent).flatten(0, 1)
        memory = self.backbone.step(self._to_all(inputs), memory).unflatten(1, (-1, own))  # (N,B,m,H)
        evidence = self._named(memory).mean(dim=0).log_softmax(dim=-1)
        probability = (prior + evidence).softmax(dim=-1)
        penalty = torch.where(first, 0.0, penalty)
        values = self._values(memory, probability).mean(dim=0) + torch.where(first, 0.0, margin) - penalty
        active = nn.functional.one_hot(values.argmax(dim=-1), self.n_heads)
        flat = memory.movedim(0, 2).flatten(1)
        parts = [prior, evidence, flat, self.margin * active, penalty + self.penalty * active]
        return values, probability, torch.cat(parts, dim=-1)


class Steps(NamedTuple):
    """Steps of episodes in packed form: see `recurrence`."""

    obs: Tensor  # (M,m,D)
    last_action: Tensor  # (M,m)
    group: Tensor  # (M,)
    probability: Tensor  # (M,G)
    head: Tensor  # (M,)
    settled: Tensor  # (M,)
    result: Tensor  # (M,)
    counts: tuple[int, ...]


@dataclass(frozen=True)
class Episodes:
    """A round of episodes, one in every environment, as the ego's agents have seen them."""

    obs: np.ndarray  # (T,B,m,D)
    last_action: np.ndarray  # (T,B,m)
    group: np.ndarray  # (T,B)
    probability: np.ndarray  # (T,B,G) the belief of that time
    head: np.ndarray  # (T,B) the active one
    settled: np.ndarray  # (T,B) bool: the head stays active to the end
    result: np.ndarray  # (B,) the return
    length: np.ndarray  # (B,)

    def pack(self, chosen: np.ndarray) -> Steps:
        """Return the steps of some of the episodes."""
        (step, episode), counts = packing(self.length[chosen])
        at = step, chosen[episode]
        obs, last, group, probability, head, settled = (
            torch.from_numpy(array[at])
            for array in (self.obs, self.last_action, self.group, self.probability, self.head, self.settled)
        )
        result = torch.from_numpy(self.result[at[1]])
        return Steps(obs, last, group, probability, head, settled, result, counts)


class Collector:
    """Plays the ego with all groups, to record episodes for the recogniser.

    In half of the episodes the ego plays the heads that the recogniser values most so far, with a fresh belief or one that
    is carried over. In the others it plays a random head, or one random head after the other. At some step it settles on a
    head, the one that the recogniser values most or a random one: the return of the episode is a sample of that head's
    value from there on.
    """

    def __init__(
        self, world: World, ego: Ego, groups: Stack, config: RecogniserConfig, seed: int, synthetic: int = 0
    ) -> None:
        """The last `synthetic` of the groups are the ego's own heads, and are met less often."""
        self.group = environments(world, groups.population, synthetic)  # (B,) in each environment
        pairs = np.stack([np.zeros_like(self.group), self.group], axis=1)
        seating = Seating.cross_play(ego, groups, pairs, 1, world.controllable)
        self._rollout = Rollout(world, seating, seed, next(ego.parameters()).device)
        self._world, self.heads, self._config = world, ego.n_heads, config
        self.seats, self.controllable = self._rollout.seats, world.controllable
        self._agent = torch.arange(world.controllable).expand(len(self.group), -1)
        width = config.members * Shape.of(world).hidden
        parts = belief_parts(groups.population, world.controllable, width, ego.n_heads)
        self._belief = torch.zeros(len(self.group), parts.size)
        self.rng = np.random.default_rng([seed, 1])

    def play(self, recogniser: Recogniser) -> Episodes:
        """Play an episode in every environment."""
        rng, size, limit = self.rng, len(self.group), self._world.limit
        everywhere, theirs = np.ones(size, dtype=np.bool_), np.arange(self._world.n_agents) >= self._world.controllable
        guided, restless, trusting, noisy, forgetful = rng.random((5, size)) < 0.5
        settle = rng.integers(0, max(int(LATEST * limit), 1), size) * (rng.random(size) > FROM_THE_START)
        swaps = Swaps(everywhere, self._config.swaps, limit, rng)
        self._rollout.seats.exploration = Exploration(self._config.noise * noisy[:, None] * theirs)
        self._belief[torch.from_numpy(forgetful)] = 0.0
        plan = _Plan(guided, restless, trusting, settle, swaps, rng.integers(0, self.heads, size))
        seats = _RestlessSeats(self, recogniser, plan)
        played = run(self._rollout.play, [seats], hooks=[seats])
        seen, acted, group, believed, heads, settled = (np.stack(column) for column in zip(*seats.steps, strict=True))
        result = played.returns[:, 0].astype(np.float32)
        return Episodes(seen, acted, group, believed, heads, settled, result, played.lengths[:, 0])

    @torch.no_grad()
    def recognise(
        self, recogniser: Recogniser, obs: np.ndarray, last_action: np.ndarray, running: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return zero-shot's heads (B,) and belief (B,G). The belief stays as it is where an episode has ended."""
        inputs = torch.from_numpy(obs), torch.from_numpy(last_action), self._agent
        values, probability, belief = recogniser.step(*inputs, self._belief)
        self._belief = torch.where(torch.from_numpy(running).unsqueeze(-1), belief, self._belief)
        return values.argmax(dim=-1).numpy(), probability.numpy()


@dataclass
class _Plan:
    """What the ego does in a round's episodes, (B,) each."""

    guided: np.ndarray  # it plays the head that the recogniser values most
    restless: np.ndarray  # else it changes its head now and then
    trusting: np.ndarray  # it settles on the head that the recogniser values most, not on a random one
    settle: np.ndarray  # the step in which it settles
    swaps: Swaps
    head: np.ndarray  # that it plays


class _RestlessSeats(Hook):
    """All seats of a round: networks, and an ego that changes its head as the plan says. Records every step."""

    def __init__(self, collector: Collector, recogniser: Recogniser, plan: _Plan) -> None:
        self._collector, self._recogniser, self._plan = collector, recogniser, plan
        self._seats, self._own = collector.seats, slice(collector.controllable)
        self.steps: list[tuple[np.ndarray, ...]] = []

    def begin(self, play: Lockstep, rows: np.ndarray) -> None:
        """Forget everything in the environments in `rows`, (B,) bool."""
        self._seats.begin(play, rows)

    def act(self, play: Lockstep) -> None:
        """Choose the ego's heads, record the step, and write all actions."""
        plan, rng, size, step = self._plan, self._collector.rng, play.size, len(self.steps)
        obs, last = (array[:, self._own].copy() for array in (play.batch.obs, play.last_action))
        best, probability = self._collector.recognise(self._recogniser, obs, last, play.running)
        settling, free = step == plan.settle, step < plan.settle
        follows = free & plan.guided | settling & plan.trusting
        changes = free & ~plan.guided & plan.restless & (rng.random(size) < NEW_HEAD) | settling & ~plan.trusting
        drawn = rng.integers(0, self._collector.heads, size)
        plan.head = np.where(follows, best, np.where(changes, drawn, plan.head))
        self.steps.append((obs, last, self._collector.group.copy(), probability, plan.head, ~free))
        self._seats.reseat(np.ones(size, dtype=np.bool_), plan.head)
        self._seats.act(play)

    def end(self, play: Lockstep, over: np.ndarray) -> None:
        """Nothing is learnt between episodes."""

    def stepped(self, play: Lockstep, counted: np.ndarray) -> None:
        """Swap teammates where that is due, unless everything is over."""
        if (play.running & ~(play.batch.terminated | play.batch.truncated)).any():
            self._plan.swaps.make(play, self._seats, self._collector.group, len(self.steps))


def train(
    world: World, ego: Ego, groups: Stack, returns: np.ndarray, config: RecogniserConfig, seed: int, synthetic: int = 0
) -> Recogniser:
    """Return a recogniser of these groups for this ego; it is the same for the same seed.

    `returns` (K,G) are those of the ego's heads with the groups. The last `synthetic` of the groups are the heads of the run: see
    `with_synthetic`. Where the ego has one head more, that is a generalist head.
    """
    generator = torch.Generator().manual_seed(seed)
    generalist = 0 < synthetic < ego.n_heads
    recogniser = Recogniser(Shape.of(world), returns, config, world.limit, generator, generalist)
    parameters = [*recogniser.parameters()]
    optimiser = torch.optim.Adam(parameters, lr=config.learning_rate)
    collector, rng, done = Collector(world, ego, groups, config, seed, synthetic), np.random.default_rng([seed, 2]), 0
    rounds: deque[Episodes] = deque(maxlen=ROUNDS)
    while done < config.steps:
        optimiser.param_groups[0]["lr"] = config.learning_rate * (1 - done / config.steps)
        rounds.append(collector.play(recogniser))
        done += int(rounds[-1].length.sum())
        for episodes in [rounds[-1], *(rounds[k] for k in rng.integers(0, len(rounds), config.passes - 1))]:
            for chosen in _batches(episodes.length, config.batch, rng):
                optimiser.zero_grad()
                _loss(recogniser, episodes.pack(chosen)).sum().backward()
                clip_per_member(parameters, GRADIENT_NORM)
                optimiser.step()
    return recogniser


def _loss(recogniser: Recogniser, steps: Steps) -> Tensor:
    """Return each member's loss, (N,): of the group at every step, and of the value of the head that the ego has settled on."""
    agent = torch.arange(steps.last_action.shape[1]).expand_as(steps.last_action)
    inputs = encode(recogniser.shape, steps.obs, steps.last_action, agent)
    named, values = recogniser(inputs, steps.probability, steps.counts)
    rows = torch.arange(len(steps.group))
    off = (values[:, rows, steps.head] - steps.result) / recogniser.scale
    valued = (off.square() * steps.settled).sum(dim=1) / steps.settled.sum().clamp(min=1)
    return valued - named[:, rows, steps.group].mean(dim=1)


def _batches(length: np.ndarray, steps: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Return all episodes, of these lengths, in random parts of about so many steps."""
    return np.array_split(rng.permutation(len(length)), min(-(-int(length.sum()) // steps), len(length)))
