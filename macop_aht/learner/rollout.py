"""Many environments in lockstep on the kernels, any network in any agent's seat, one forward per stack and step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from macop_aht.learner.networks import Ego, Stack, encode
from macop_aht.learner.replay import Replay
from macop_aht.policies.scripted import random_actions
from macop_aht.scenarios.batch import Batch
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
    """Who tries something else than its best action, and what."""

    epsilon: np.ndarray  # (B,N) or what spreads to it: the chance of it
    persistence: float = 0.0  # the chance that it is the last action again, where that is available
    together: float = 0.0  # the chance that an environment's agents draw as one
    # (N,) bool: the agents whose action is drawn by the softmax of its values, not the best
    drawn: np.ndarray | None = None
    taken_for: np.ndarray | None = None  # (B,N,A): the action whose value each action is believed to have


class _Table:
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


class Rollout:
    """B environments that are never idle: a new episode begins where one has ended."""

    def __init__(
        self, world: World, seating: Seating, seed: int, device: torch.device, alike: int | None = None
    ) -> None:
        """Environments have seeds of their own; with `alike`, only so many, and then they come again."""
        size, agents = seating.member.shape
        self.world, self.device = world, device
        self.batch = Batch(world, size)
        self.batch.seed([seed + b % (alike or size) for b in range(size)])
        self.rng = np.random.default_rng(seed)
        self._tables = []
        for s, net in enumerate(seating.stacks):
            member = np.where(seating.stack == s, seating.member, -1).ravel()
            self._tables.append(_Table(net, member, device, agents))
        self.action = np.zeros((size, agents), dtype=np.int64)
        self.last_action = np.full((size, agents), -1, dtype=np.int64)
        self._noise = np.zeros(size * agents, dtype=np.int64)
        self.batch.reset()

    def state_arrays(self) -> dict[str, Any]:
        """Where every episode stands, for a checkpoint."""
        batch = self.batch
        return {
            "world": batch.state._asdict(),
            "clock": batch.clock,
            "episode": batch.episode,
            "score": batch.score,
            "last_action": self.last_action,
            "memory": {str(k): table.memory.cpu().numpy() for k, table in enumerate(self._tables)},
        }

    def load_arrays(self, arrays: Mapping[str, Any]) -> None:
        """Take over what `state_arrays` gave."""
        batch = self.batch
        for name, array in arrays["world"].items():
            getattr(batch.state, name)[:] = array
        for name in ("clock", "episode", "score"):
            getattr(batch, name)[:] = arrays[name]
        self.last_action[:] = arrays["last_action"]
        for k, table in enumerate(self._tables):
            table.memory = torch.from_numpy(arrays["memory"][str(k)]).to(self.device)
        batch.look()

    def begin(self, rows: np.ndarray) -> None:
        """A new episode in the environments in `rows`, (B,) bool: memories and last actions are wiped."""
        self.batch.reset(rows)
        self.last_action[rows] = -1
        flat = np.repeat(rows, self.world.n_agents)
        for table in self._tables:
            keep = torch.from_numpy(~flat[table.rows]).to(self.device)
            table.memory *= keep.unsqueeze(-1)

    def act(self, exploration: Exploration | None = None) -> None:
        """Fill `action`, (B,N): the best available by Q, and where an agent explores a random available one."""
        rows = self.action.size
        obs = torch.from_numpy(self.batch.obs.reshape(rows, -1)).to(self.device)
        mask = torch.from_numpy(self.batch.mask.reshape(rows, -1)).to(self.device)
        last = torch.from_numpy(self.last_action.reshape(rows)).to(self.device)
        flat, luck, taken_for = self.action.reshape(rows), self._luck(exploration), None
        if exploration and exploration.taken_for is not None:
            taken_for = torch.from_numpy(exploration.taken_for.reshape(rows, -1)).to(self.device)
        with torch.no_grad():
            for table in self._tables:
                inputs = encode(table.net.shape, obs[table.place], last[table.place], table.agent)
                q = table.q(inputs)
                if taken_for is not None:
                    q = q.gather(-1, taken_for[table.place])
                if luck is not None:
                    q = q + luck[table.place]
                best = q.masked_fill(mask[table.place] == 0, -torch.inf).argmax(dim=-1)
                flat[table.rows] = best.cpu().numpy()
        if exploration:
            self._explore(exploration)

    def _luck(self, exploration: Exploration | None) -> Tensor | None:
        """What is added to the values, (B*N,A), for the best of them to be a draw by their softmax (Gumbel's)."""
        if exploration is None or exploration.drawn is None:
            return None
        luck = self.rng.gumbel(size=self.batch.mask.shape) * exploration.drawn[:, None]
        return torch.from_numpy(luck.reshape(self.action.size, -1).astype(np.float32)).to(self.device)

    def _explore(self, exploration: Exploration) -> None:
        """Overwrite the actions of those who explore."""
        draws = self.rng.random((3, *self.action.shape))
        as_one = self.rng.random((len(self.action), 1)) < exploration.together
        draws = np.where(as_one, draws[:, :, :1], draws)
        masks, before = self.batch.mask, self.last_action
        random_actions(masks.reshape(self._noise.size, -1), draws[0].reshape(-1, 1), self._noise)
        available = np.take_along_axis(masks, np.maximum(before, 0)[..., None], axis=2)[..., 0] != 0
        again = (draws[1] < exploration.persistence) & (before >= 0) & available
        noise = np.where(again, before, self._noise.reshape(before.shape))
        np.copyto(self.action, noise, where=draws[2] < exploration.epsilon)

    def reseat(self, rows: np.ndarray, head: np.ndarray) -> None:
        """The ego in the environments `rows`, (B,) bool, plays these heads from now on: (R,)."""
        chosen = np.zeros(len(rows), dtype=np.int64)
        chosen[rows] = head
        for table in self._tables:
            table.reseat(rows, chosen, self.world.n_agents)

    def exchange(self, to: np.ndarray) -> None:
        """The ego's teammates change: those of environment b go on in `to[b]`, (B,) a permutation, as if they began there."""
        if all(table.head is None for table in self._tables):
            raise ValueError("nobody here is an ego, whose teammates could change; seat an Ego, of one head if need be")
        moved = (to != np.arange(len(to)))[:, None].repeat(self.world.n_agents, axis=1).ravel()
        for table in self._tables:
            table.move(to, self.world.n_agents)
            if table.head is None:
                self.last_action.reshape(-1)[table.rows[moved[table.rows]]] = -1

    def step(self) -> np.ndarray:
        """All act as `action` says. Gives the environments whose episode has ended, (B,) bool; `begin` them again."""
        self.batch.step(self.action)
        self.last_action[:] = self.action
        return self.batch.terminated | self.batch.truncated


class Collector:
    """Episodes of some seating, written straight into a replay: environment b's are `member[b]`'s, and go into `ring[b]`."""

    def __init__(
        self,
        world: World,
        seating: Seating,
        member: np.ndarray,
        replay: Replay,
        seed: int,
        device: torch.device,
        ring: np.ndarray | None = None,
    ) -> None:
        """Without `ring`, every member has one."""
        self.rollout = Rollout(world, seating, seed, device)
        self.replay, self.member, self.ring = replay, member, member if ring is None else ring
        self.episodes = 0.0  # finished, per member
        self.when_over: list[Callable[[np.ndarray, np.ndarray, np.ndarray], None]] = []  # told environment, ring, slot
        self._slot = replay.begin(self.ring)
        self._members = len(np.unique(member))

    @property
    def size(self) -> int:
        """Environment steps that a step takes."""
        return len(self.member)

    def state_arrays(self) -> dict[str, Any]:
        return {"rollout": self.rollout.state_arrays(), "slot": self._slot, "episodes": np.array(self.episodes)}

    def load_arrays(self, arrays: Mapping[str, Any]) -> None:
        self.rollout.load_arrays(arrays["rollout"])
        self._slot[:], self.episodes = arrays["slot"], float(arrays["episodes"])

    def step(self, exploration: Exploration | None = None) -> tuple[np.ndarray, np.ndarray]:
        """One step everywhere. Gives the members whose episodes have ended, and their returns: (R,) (R,)."""
        rollout, replay = self.rollout, self.replay
        batch = rollout.batch
        at = (self.ring, self._slot, batch.clock.copy())
        self._look(at)
        rollout.act(exploration)
        replay.action[at] = rollout.action[:, replay.seats]
        over = rollout.step()
        replay.reward[at] = batch.reward
        if not over.any():
            return self.member[:0], batch.score[:0]
        ring, slot, length = self.ring[over], self._slot[over], batch.clock[over]
        self._look((self.ring, self._slot, batch.clock))  # the last observation of the episodes that have ended
        replay.end(ring, slot, length, batch.truncated[over])
        returns = batch.score[over]
        self.episodes += len(returns) / self._members
        for tell in self.when_over:
            tell(over, ring, slot)
        rollout.begin(over)
        self._slot[over] = replay.begin(ring)
        return self.member[over], returns

    def _look(self, at: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
        batch, replay = self.rollout.batch, self.replay
        replay.obs[at] = batch.obs[:, replay.seats]
        replay.mask[at] = batch.mask[:, replay.seats]
        if replay.state.shape[-1]:
            replay.state[at] = batch.global_state()


def greedy_returns(
    world: World, seating: Seating, episodes: int, seed: int, device: torch.device, alike: int | None = None
) -> np.ndarray:
    """The undiscounted return of `episodes` greedy episodes in every environment's seating, one after the other: (B,episodes)."""
    rollout = Rollout(world, seating, seed, device, alike)
    returns: list[list[float]] = [[] for _ in range(rollout.batch.size)]
    while any(len(own) < episodes for own in returns):
        rollout.act()
        over = rollout.step()
        for b in np.flatnonzero(over):
            returns[b].append(float(rollout.batch.score[b]))
        if over.any():
            rollout.begin(over)
    return np.array([own[:episodes] for own in returns])
