"""Who is it that we play with? A recogniser, trained when all groups are known, and the belief that it keeps.

The recogniser is the agent network's backbone with a layer that names the group, on what our agents see and do themselves. It
learns from episodes of the ego with any group, in which the ego may change its head at any moment, and the teammates sometimes
change too: it names the group of every step. Its memory lasts an episode. What is carried over to the next one is the belief:
what was believed in the end is what is believed before anything is seen, and it leaks towards not knowing with every step.

    belief = softmax(prior + evidence)        evidence: what the recogniser makes of this episode
    prior  = log((1 - leak) b + leak / G)     b: the prior a step ago; when an episode begins, the belief a step ago
    head   = argmax belief^(1 - caution) @ returns

The caution is for teammates that are none of the groups: the likeliest group is then only the one most like them, and a head that
also does well with the second likeliest is the better choice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from macop_aht.config import at_least, setting, within
from macop_aht.deploy.selectors import belief_size
from macop_aht.learner.networks import Backbone, Ego, Linear, Shape, Stack, encode
from macop_aht.learner.rollout import Exploration, Rollout, Seating
from macop_aht.scenarios.spec import World

ENVIRONMENTS = 512  # in lockstep, at least; one for each group
NEW_HEAD = 0.2  # the chance that the ego changes its head in a step, in the half of the episodes in which it does
LATEST = 3  # a head that takes over late does so in the first of so many parts of the longest episode
CLIP = 1.0  # norm of a gradient


@dataclass(frozen=True)
class RecogniserConfig:
    """How long it learns, and how fast it forgets."""

    episodes: int = setting(60_000, "episodes of the ego with its groups, for the recogniser to learn from")
    batch: int = setting(64, "episodes in an update")
    lr: float = setting(2e-3, "of Adam at first; it goes down to nothing")
    leak: float = setting(0.02, "share of the carried-over belief that is lost in a step")
    caution: float = setting(0.5, "how far heads are compared as if all groups were as likely; 0: by the belief alone")
    switches: float = setting(0.3, "teammate changes in an episode of full length, on average")
    noise: float = setting(0.1, "chance of a random action of the teammates, in half of the episodes")
    test_episodes: int = setting(64, "greedy episodes behind every figure in the bundle")

    def __post_init__(self) -> None:
        at_least(self, 1, "episodes", "batch", "test_episodes")
        at_least(self, 0, "lr", "switches")
        within(self, 0, 1, "leak", "noise", "caution")


class Recogniser(nn.Module):
    """Names the group: every agent of ours by itself, and all of them together by the mean of what they say."""

    def __init__(self, shape: Shape, groups: int, generator: torch.Generator | None = None) -> None:
        super().__init__()
        self.shape, self.groups = shape, groups
        self.backbone = Backbone(shape, 1, generator)
        self.namer = Linear(1, shape.hidden, groups, generator)

    def forward(self, inputs: Tensor, counts: tuple[int, ...]) -> Tensor:
        """Log-probabilities of whole episodes in packed form: (M,m,in) -> (M,G)."""
        own = inputs.shape[1]
        memory = self.backbone(inputs.flatten(0, 1).unsqueeze(0), [count * own for count in counts])
        return self._named(memory.view(len(inputs), own, -1))

    def _named(self, memory: Tensor) -> Tensor:
        """(B,m,H) -> (B,G)."""
        said = self.namer(memory.flatten(0, 1).unsqueeze(0)).view(*memory.shape[:2], -1)
        return said.mean(dim=1).log_softmax(dim=-1)

    def step(self, obs: Tensor, last_action: Tensor, agent: Tensor, belief: Tensor, leak: float) -> tuple[Tensor, ...]:
        """What `selectors.zero_shot` does: (B,m,D) (B,m) (B,m) (B,S) -> probability of every group (B,G), belief (B,S)."""
        own, hidden = obs.shape[1], self.shape.hidden
        prior, evidence, memory = belief.split([self.groups, self.groups, own * hidden], dim=-1)
        first = last_action.amax(dim=1, keepdim=True) < 0
        prior = torch.where(first, prior + evidence, prior).softmax(dim=-1)
        prior = ((1 - leak) * prior + leak / self.groups).log()
        memory = torch.where(first, 0.0, memory).reshape(1, -1, hidden)
        inputs = encode(self.shape, obs, last_action, agent).flatten(0, 1).unsqueeze(0)
        memory = self.backbone.step(inputs, memory).view(len(obs), own, hidden)
        evidence = self._named(memory)
        return (prior + evidence).softmax(dim=-1), torch.cat([prior, evidence, memory.flatten(1)], dim=-1)


@dataclass(frozen=True)
class Histories:
    """Episodes as our agents have seen them, and who was there."""

    obs: np.ndarray  # (T,B,m,D)
    last_action: np.ndarray  # (T,B,m)
    group: np.ndarray  # (T,B)
    length: np.ndarray  # (B,)

    def pack(self, chosen: np.ndarray) -> tuple[Tensor, Tensor, Tensor, tuple[int, ...]]:
        """Some of the episodes in packed form: obs (M,m,D), last_action (M,m), group (M,), counts; see `recurrence`."""
        chosen = chosen[np.argsort(-self.length[chosen], kind="stable")]
        length = self.length[chosen]
        counts = [int((length > t).sum()) for t in range(length[0])]
        at = np.repeat(np.arange(len(counts)), counts), np.concatenate([chosen[:count] for count in counts])
        obs, last, group = (torch.from_numpy(array[at]) for array in (self.obs, self.last_action, self.group))
        return obs, last, group, tuple(counts)


class Meetings:
    """The ego with all groups, in as many environments each; who meets whom changes now and then, and in mid-episode.

    In half of the episodes the ego plays as it will, by the belief of the recogniser so far, fresh or carried over. In the others
    it plays any head, or one after the other.
    """

    def __init__(
        self, world: World, ego: Ego, groups: Stack, returns: np.ndarray, config: RecogniserConfig, seed: int
    ) -> None:
        """`returns` (K,G) are those of every head with every group."""
        copies = -(-ENVIRONMENTS // groups.population)
        pairs = np.array([(0, group) for group in range(groups.population)])
        seating = Seating.cross_play(ego, groups, pairs, copies, world.controllable)
        self.group = np.repeat(np.arange(groups.population), copies)  # (B,) who is in each environment
        self._rollout = Rollout(world, seating, seed, next(ego.parameters()).device)
        self._world, self._heads, self._config = world, ego.n_heads, config
        self._returns = torch.from_numpy(returns.T.astype(np.float32))
        self._agent = torch.arange(world.controllable).expand(len(self.group), -1)
        self._belief = torch.zeros(
            len(self.group), belief_size(groups.population, world.controllable, ego.shape.hidden)
        )
        self._rng = np.random.default_rng([seed, 1])

    def play(self, recogniser: Recogniser) -> Histories:
        """An episode in every environment."""
        rollout, world, rng, size = self._rollout, self._world, self._rng, len(self.group)
        own, everywhere = slice(world.controllable), np.ones(size, dtype=np.bool_)
        guided, restless, noisy, forgetful = rng.random((4, size)) < 0.5
        exploration = Exploration(
            self._config.noise * noisy[:, None] * (np.arange(world.n_agents) >= world.controllable)
        )
        rollout.begin(everywhere)
        self._belief[torch.from_numpy(forgetful)] = 0.0
        self._change_heads(everywhere)
        seen, acted, who, length, running = [], [], [], np.zeros(size, dtype=np.int64), everywhere.copy()
        while running.any():
            seen.append(rollout.batch.obs[:, own].copy())
            acted.append(rollout.last_action[:, own].copy())
            who.append(self.group.copy())
            length += running
            rollout.reseat(guided, self._choice(recogniser, seen[-1], acted[-1])[guided])
            rollout.act(exploration)
            running &= ~rollout.step()
            self._change_heads(restless & ~guided & (rng.random(size) < NEW_HEAD))
            self._change_groups(rng.random(size) < self._config.switches / world.limit)
        return Histories(np.stack(seen), np.stack(acted), np.stack(who), length)

    @torch.no_grad()
    def _choice(self, recogniser: Recogniser, obs: np.ndarray, last_action: np.ndarray) -> np.ndarray:
        """The heads that zero-shot would play: (B,)."""
        inputs = torch.from_numpy(obs), torch.from_numpy(last_action), self._agent
        probability, self._belief = recogniser.step(*inputs, self._belief, self._config.leak)
        return (probability ** (1 - self._config.caution) @ self._returns).argmax(dim=-1).numpy()

    def _change_heads(self, rows: np.ndarray) -> None:
        self._rollout.reseat(rows, self._rng.integers(0, self._heads, rows.sum()))

    def _change_groups(self, rows: np.ndarray) -> None:
        """The teammates of these environments go around."""
        places = self._rng.permutation(np.flatnonzero(rows))
        to = np.arange(len(rows))
        to[places] = np.roll(places, 1)
        self._rollout.exchange(to)
        self.group[to] = self.group.copy()


def returns_of_late_heads(world: World, ego: Ego, groups: Stack, episodes: int, seed: int) -> np.ndarray:
    """The greedy return of every head with every group where it takes over in mid-episode from random ones: (K,G).

    A head that is as good as another from the first step on may not know the way from where the other has left it.
    """
    pairs = np.array([(head, group) for head in range(ego.n_heads) for group in range(groups.population)])
    seating = Seating.cross_play(ego, groups, pairs, episodes, world.controllable)
    rollout = Rollout(world, seating, seed, next(ego.parameters()).device, alike=episodes)
    wanted, rng = np.repeat(pairs[:, 0], episodes), np.random.default_rng([seed, 3])
    late = rng.integers(1, max(world.limit // LATEST, 1) + 1, len(wanted))  # the step at which it takes over
    returns, running = np.zeros(len(wanted)), np.ones(len(wanted), dtype=np.bool_)
    while running.any():
        before = rollout.batch.clock < late
        rollout.reseat(before, rng.integers(0, ego.n_heads, before.sum()))
        rollout.reseat(~before, wanted[~before])
        rollout.act()
        over = rollout.step() & running
        returns[over] = rollout.batch.score[over]
        running &= ~over
    return returns.reshape(ego.n_heads, groups.population, episodes).mean(axis=2)


Watch = Callable[[int, float], None]  # told the episodes so far, and the loss


def train(
    world: World,
    ego: Ego,
    groups: Stack,
    returns: np.ndarray,
    config: RecogniserConfig,
    seed: int,
    watch: Watch | None = None,
) -> Recogniser:
    """A recogniser of these groups for this ego, whose heads get `returns` (K,G) with them; the same for the same seed."""
    recogniser = Recogniser(ego.shape, groups.population, torch.Generator().manual_seed(seed))
    optimiser = torch.optim.Adam(recogniser.parameters(), lr=config.lr)
    agent, done = torch.arange(world.controllable), 0
    meetings, rng = Meetings(world, ego, groups, returns, config, seed), np.random.default_rng([seed, 2])
    while done < config.episodes:
        histories = meetings.play(recogniser)
        for chosen in _batches(len(histories.length), config.batch, rng):
            optimiser.param_groups[0]["lr"] = config.lr * max(1 - done / config.episodes, 0.0)
            obs, last, group, counts = histories.pack(chosen)
            inputs = encode(ego.shape, obs, last, agent.expand_as(last))
            loss = nn.functional.nll_loss(recogniser(inputs, counts), group)
            optimiser.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(recogniser.parameters(), CLIP)
            optimiser.step()
            done += len(chosen)
        if watch:
            watch(done, loss.item())
    return recogniser


def _batches(count: int, size: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
    order = rng.permutation(count)
    for start in range(0, count, size):
        yield order[start : start + size]
