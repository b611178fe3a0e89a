"""Networks in any agent's seat, one forward pass per stack and step: what the episode runner and the collector play with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from macop_aht.episodes.runner import Episodes, Hook, Lockstep, run
from macop_aht.learner.networks import Ego, Stack, encode
from macop_aht.policies.scripted import random_actions
from macop_aht.scenarios.spec import World


@dataclass(frozen=True)
class Seating:
    """Which member of which stack sits where: `member` (B,N) into the stack named by `stack` (B,N) in `stacks`.

    An ego's members are its heads.
    """

    stacks: tuple[Stack | Ego, ...]
    stack: np.ndarray
    member: np.ndarray

    @staticmethod
    def self_play(net: Stack, envs: int) -> Seating:
        """Every member with itself, in `envs` environments each."""
        return Seating.teams(net, np.repeat(np.arange(net.population), envs))

    @staticmethod
    def teams(net: Stack | Ego, members: np.ndarray) -> Seating:
        """Member `members[b]` in all seats of environment b."""
        member = members[:, None].repeat(net.shape.agents, axis=1)
        return Seating((net,), np.zeros_like(member), member)

    @staticmethod
    def cross_play(first: Stack | Ego, second: Stack | Ego, pairs: np.ndarray, envs: int, controllable: int) -> Seating:
        """Member `pairs[k,0]` of `first` in the ego's seats with `pairs[k,1]` of `second` in the others', `envs` each."""
        agents = first.shape.agents
        pairs = np.repeat(pairs, envs, axis=0)
        ego = np.arange(agents) < controllable
        stack = np.where(ego, 0, 1)[None].repeat(len(pairs), axis=0)
        return Seating((first, second), stack, np.where(ego, pairs[:, :1], pairs[:, 1:]))


@dataclass(frozen=True)
class Exploration:
    """Who tries another action than its best one, and which."""

    epsilon: np.ndarray | None  # (B,N) or what broadcasts to it: the probability of a random action
    persistence: float = 0.0  # the probability that it is the last action again, where that is available
    together: float = 0.0  # the probability that an environment's agents draw as one
    sampled: np.ndarray | None = None  # (N,) bool: agents whose action is sampled from the softmax of its values
    sticky: float = 0.0  # what is added to the value of a sampled agent's last action, before it is sampled
    permuted: np.ndarray | None = None  # (B,N,A): the action whose value each action gets


class _Rows:
    """The rows of one stack: where they are, and what they remember."""

    def __init__(self, net: Stack | Ego, member: np.ndarray, device: torch.device, agents: int) -> None:
        """`member` (B*N,) is -1 where somebody else sits."""
        if isinstance(net, Ego):
            rows = [np.flatnonzero(member >= 0)]
            self.head: Tensor | None = torch.from_numpy(member[rows[0]]).to(device)
        else:
            rows, self.head = [np.flatnonzero(member == p) for p in range(net.population)], None
            if not all(len(own) for own in rows):
                raise ValueError("a member of the stack sits nowhere; seat all, or gather those that play")
        width = max(len(own) for own in rows)
        # A member with fewer rows has some of them twice; both come to the same.
        self.rows = np.stack([np.resize(own, width) for own in rows])
        self.net = net
        self.place = torch.from_numpy(self.rows).to(device)
        self.agent = self.place % agents
        self.memory = torch.zeros(net.population, width, net.shape.hidden, device=device)

    def reseat(self, rows: np.ndarray, head: np.ndarray, agents: int) -> None:
        """Where an ego sits in the environments `rows`, (B,) bool, it plays the heads in `head`, (B,)."""
        if self.head is not None:
            environment = self.rows[0] // agents
            changed = torch.from_numpy(rows[environment]).to(self.head.device)
            wanted = torch.from_numpy(head[environment]).to(self.head.device)
            self.head = torch.where(changed, wanted, self.head)

    def move(self, to: np.ndarray, agents: int) -> None:
        """Members of a stack go on in environment `to[b]` instead of b; where that is another, they have forgotten everything."""
        if self.head is None:
            environment, agent = np.divmod(self.rows, agents)
            self.rows = to[environment] * agents + agent
            self.place = torch.from_numpy(self.rows).to(self.place.device)
            self.memory *= torch.from_numpy(to[environment] == environment).to(self.memory.device).unsqueeze(-1)

    def q(self, inputs: Tensor) -> Tensor:
        """Q of every row by its own member or head, and a step on in memory: (P,R,in) -> (P,R,A)."""
        q, self.memory = self.net.step(inputs, self.memory)
        if self.head is None:
            return q
        return q[self.head, torch.arange(len(self.head), device=q.device)].unsqueeze(0)


class NetworkSeats:
    """The seats of a `Seating`, all of them: the best available action by Q, and where an agent explores another one."""

    def __init__(self, seating: Seating, device: torch.device, rng: np.random.Generator | None = None) -> None:
        """`rng` draws for those who explore."""
        size, self._agents = seating.member.shape
        self._device, self.rng = device, rng or np.random.default_rng(0)
        self.exploration: Exploration | None = None
        self.stacks = [
            _Rows(net, np.where(seating.stack == s, seating.member, -1).ravel(), device, self._agents)
            for s, net in enumerate(seating.stacks)
        ]
        self._noise = np.zeros(size * self._agents, dtype=np.int64)

    def state_arrays(self) -> dict[str, Any]:
        """Return what the networks remember, for a checkpoint."""
        return {str(k): rows.memory.cpu().numpy() for k, rows in enumerate(self.stacks)}

    def load_arrays(self, arrays: Mapping[str, Any]) -> None:
        """Restore what `state_arrays` returned."""
        for k, rows in enumerate(self.stacks):
            rows.memory = torch.from_numpy(arrays[str(k)]).to(self._device).reshape(rows.memory.shape)

    def begin(self, play: Lockstep, rows: np.ndarray) -> None:
        """Forget everything in the environments in `rows`, (B,) bool."""
        flat = np.repeat(rows, self._agents)
        for own in self.stacks:
            keep = torch.from_numpy(~flat[own.rows]).to(self._device)
            own.memory *= keep.unsqueeze(-1)

    def act(self, play: Lockstep) -> None:
        """Write all actions, (B,N)."""
        batch, rows, exploration = play.batch, play.action.size, self.exploration
        obs = torch.from_numpy(batch.obs.reshape(rows, -1)).to(self._device)
        mask = torch.from_numpy(batch.mask.reshape(rows, -1)).to(self._device)
        last = torch.from_numpy(play.last_action.reshape(rows)).to(self._device)
        flat, luck, permuted = play.action.reshape(rows), self._luck(play), None
        if exploration and exploration.permuted is not None:
            permuted = torch.from_numpy(exploration.permuted.reshape(rows, -1)).to(self._device)
        with torch.no_grad():
            for own in self.stacks:
                inputs = encode(own.net.shape, obs[own.place], last[own.place], own.agent)
                q = own.q(inputs)
                if permuted is not None:
                    q = q.gather(-1, permuted[own.place])
                if luck is not None:
                    q = q + luck[own.place]
                best = q.masked_fill(mask[own.place] == 0, -torch.inf).argmax(dim=-1)
                flat[own.rows] = best.cpu().numpy()
        if exploration and exploration.epsilon is not None:
            self._explore(play, exploration, exploration.epsilon)

    def end(self, play: Lockstep, over: np.ndarray) -> None:
        """Nothing is learnt between episodes."""

    def _luck(self, play: Lockstep) -> Tensor | None:
        """What is added to the values, (B*N,A), for the best of them to be a sample of their softmax (Gumbel's trick)."""
        told, shape = self.exploration, play.batch.mask.shape
        if told is None or told.sampled is None:
            return None
        luck = self.rng.gumbel(size=shape)
        if told.together:
            as_one = self.rng.random((shape[0], 1, 1)) < told.together
            luck = np.where(as_one, luck[:, :1], luck)
        if told.sticky:
            luck += told.sticky * (play.last_action[..., None] == np.arange(shape[-1]))
        luck *= told.sampled[:, None]
        return torch.from_numpy(luck.reshape(shape[0] * shape[1], -1).astype(np.float32)).to(self._device)

    def _explore(self, play: Lockstep, exploration: Exploration, epsilon: np.ndarray) -> None:
        """Overwrite the actions of those who explore."""
        action, before, masks = play.action, play.last_action, play.batch.mask
        draws = self.rng.random((3, *action.shape))
        as_one = self.rng.random((len(action), 1)) < exploration.together
        draws = np.where(as_one, draws[:, :, :1], draws)
        random_actions(masks.reshape(self._noise.size, -1), draws[0].reshape(-1, 1), self._noise)
        available = np.take_along_axis(masks, np.maximum(before, 0)[..., None], axis=2)[..., 0] != 0
        again = (draws[1] < exploration.persistence) & (before >= 0) & available
        noise = np.where(again, before, self._noise.reshape(before.shape))
        np.copyto(action, noise, where=draws[2] < epsilon)

    def reseat(self, rows: np.ndarray, head: np.ndarray) -> None:
        """The ego in the environments `rows`, (B,) bool, plays these heads from now on: (R,)."""
        chosen = np.zeros(len(rows), dtype=np.int64)
        chosen[rows] = head
        for own in self.stacks:
            own.reseat(rows, chosen, self._agents)

    def exchange(self, play: Lockstep, to: np.ndarray) -> None:
        """Exchange the ego's teammates: those of environment b go on in `to[b]`, (B,) a permutation, as if they began there."""
        if all(own.head is None for own in self.stacks):
            raise ValueError("nobody here is an ego, whose teammates could change; seat an Ego, of one head if need be")
        moved = (to != np.arange(len(to)))[:, None].repeat(self._agents, axis=1).ravel()
        for own in self.stacks:
            own.move(to, self._agents)
            if own.head is None:
                play.last_action.reshape(-1)[own.rows[moved[own.rows]]] = -1


def greedy_episodes(
    world: World, seating: Seating, seeds: Sequence[int], device: torch.device, hooks: Sequence[Hook] = ()
) -> Episodes:
    """Play a greedy episode in every environment of the seating, with these seeds (B,); returns them, (B,1)."""
    return run(Lockstep(world, seeds), [NetworkSeats(seating, device)], hooks=hooks)


def greedy_returns(
    world: World, seating: Seating, episodes: int, seed: int, device: torch.device, alike: int | None = None
) -> np.ndarray:
    """Return the undiscounted returns of `episodes` greedy episodes in a row, in every environment's seating: (B,episodes).

    Environment b has the seed `seed` + b; with `alike`, there are only so many seeds, and then they come again.
    """
    size = len(seating.member)
    seeds = [seed + b % (alike or size) for b in range(size)]
    return run(Lockstep(world, seeds), [NetworkSeats(seating, device)], episodes).returns
