"""The replay buffer: whole episodes in preallocated rings, one or more for each member, sampled in packed form."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from macop_aht.learner import kernels
from macop_aht.learner.networks import Shape
from macop_aht.scenarios.spec import World
from macop_aht.util import require_memory


@dataclass(frozen=True)
class Packed:
    """Sampled episodes of every member in packed form: see `recurrence`.

    `counts` follows the longest episodes of any member. Members with shorter ones have rows that are not steps of theirs; `real`
    is 0 there.
    """

    counts: tuple[int, ...]  # rows at each step
    agent: Tensor  # (N,) the indices of the agents whose experience this is
    following: Tensor  # (M,) the row of the next step of the same episode; 0 if there is none
    inputs: Tensor  # (P,M,N,in) the networks' input
    mask: Tensor  # (P,M,N,A) bool
    action: Tensor  # (P,M,N)
    reward: Tensor  # (P,M)
    real: Tensor  # (P,M) 1 where the row is a step of the member
    continues: Tensor  # (P,M) 1 where the value of the next step belongs to the target
    state: Tensor  # (P,M,S); S = 0 where the mixer does not need it

    def every(self, k: int) -> tuple[Packed, Tensor]:
        """Return every k-th episode, and the rows of its steps in this one: (M',)."""
        start, kept = 0, []
        for count in self.counts:
            kept.append(torch.arange(start, start + count, k))
            start += count
        index = torch.cat(kept).to(self.inputs.device)
        new_place = torch.zeros(start, dtype=torch.int64, device=index.device)
        new_place[index] = torch.arange(len(index), device=index.device)
        rows = {
            name: getattr(self, name)[:, index]
            for name in ("inputs", "mask", "action", "reward", "real", "continues", "state")
        }
        counts = tuple(len(rows_of_step) for rows_of_step in kept)
        return Packed(counts, self.agent, new_place[self.following[index]], **rows), index


def check_within(name: str, array: np.ndarray, low: int, high: int) -> None:
    """Raise ValueError where an array has other numbers than whole ones in low..high."""
    if array.dtype.kind not in "iu" or ((array < low) | (array > high)).any():
        raise ValueError(f"{name} must hold whole numbers in {low}..{high}")


class Replay:
    """The last `capacity` episodes of each of P members, or of each of their rings.

    With R rings per member, those of member p are p*R … p*R+R-1, and the member samples evenly from them. An episode is written
    step by step into the slot that `begin` returned. It can be sampled after `end` was called.
    """

    _CONTENT = ("obs", "mask", "state", "action", "reward", "length", "truncated")

    def __init__(
        self,
        world: World,
        population: int,
        capacity: int,
        state: int,
        seats: Sequence[int] | None = None,
        rings: int = 1,
    ) -> None:
        """Keep the agents in `seats` (default: all) and so many numbers of the `state`.

        Every member has `rings` rings of that capacity.
        """
        self._made = world, population, state, seats, rings
        self.seats = np.arange(world.n_agents) if seats is None else np.array(seats)
        agents, obs, actions = len(self.seats), len(world.observations), len(world.actions)
        self.shape, self.capacity, self.limit, self.rings = Shape.of(world), capacity, world.limit, rings
        population *= rings
        steps = (population, capacity, world.limit + 1)  # the last observation is kept for bootstrapping
        needed = math.prod(steps) * (agents * (4 * obs + actions + 8) + 4 * state + 4)
        require_memory(needed, f"a replay of {capacity:,} episodes for each of {population:,}", "make capacity smaller")
        self.obs = np.zeros((*steps, agents, obs), dtype=np.float32)
        self.mask = np.zeros((*steps, agents, actions), dtype=np.bool_)
        self.state = np.zeros((*steps, state), dtype=np.float32)
        self.action = np.full((*steps, agents), -1, dtype=np.int64)
        self.reward = np.zeros(steps, dtype=np.float32)
        self.length = np.zeros((population, capacity), dtype=np.int64)  # 0 without a finished episode
        self.truncated = np.zeros((population, capacity), dtype=np.bool_)
        self._next = np.zeros(population, dtype=np.int64)
        self._full = False  # whether a ring was ever full

    def like(self, capacity: int) -> Replay:
        """Return an empty buffer of another capacity for episodes of this one."""
        world, population, state, seats, rings = self._made
        return Replay(world, population, capacity, state, seats, rings)

    def clear(self) -> None:
        """Forget everything."""
        self.length[:] = 0
        self._next[:] = 0
        self._full = False

    def state_arrays(self) -> dict[str, np.ndarray]:
        """Return all slots that were ever written, for a checkpoint."""
        used = self._used()
        arrays = {name: getattr(self, name)[:, :used] for name in self._CONTENT}
        return {**arrays, "next": self._next, "full": np.array(self._full)}

    def load_arrays(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Load the arrays that `state_arrays` returned; raise ValueError where they point outside of the rings."""
        used = arrays["length"].shape[1]
        check_within("next", arrays["next"], 0, self.capacity - 1)
        check_within("length", arrays["length"], 0, self.limit)
        check_within("action", arrays["action"], -1, self.mask.shape[-1] - 1)
        self._next[:], self._full = arrays["next"], bool(arrays["full"])
        for name in self._CONTENT:
            getattr(self, name)[:, :used] = arrays[name]

    def episodes(self, ring: int, slots: np.ndarray) -> dict[str, np.ndarray]:
        """Return copies of the episodes in these slots of a ring, (R,…), named as in a checkpoint."""
        return {name: getattr(self, name)[ring, slots] for name in self._CONTENT}

    def put(self, ring: int, slots: np.ndarray, episodes: Mapping[str, np.ndarray]) -> None:
        """Write what `episodes` returned into these slots of a ring."""
        for name in self._CONTENT:
            getattr(self, name)[ring, slots] = episodes[name]
        self._full = True  # these slots may be any

    def _used(self) -> int:
        return self.capacity if self._full else int(self._next.max())

    def begin(self, members: np.ndarray) -> np.ndarray:
        """Return a slot for a new episode in each of these rings: (R,) -> (R,). Old episodes there are forgotten."""
        slots = np.empty(len(members), dtype=np.int64)
        for row, p in enumerate(members):
            slots[row] = self._next[p]
            self._next[p] = (self._next[p] + 1) % self.capacity
            self._full |= self._next[p] == 0
        self.length[members, slots] = 0
        return slots

    def end(self, members: np.ndarray, slots: np.ndarray, lengths: np.ndarray, truncated: np.ndarray) -> None:
        """Finish the episodes in these slots, of these lengths in steps."""
        self.length[members, slots] = lengths
        self.truncated[members, slots] = truncated

    def __len__(self) -> int:
        """Return the largest batch that every member can sample evenly from its rings."""
        return self.rings * int((self.length > 0).sum(axis=1).min())

    def sample(self, batch: int, rng: np.random.Generator, device: torch.device, through_limit: bool = False) -> Packed:
        """Return `batch` different episodes of each member.

        With `through_limit`, a target at the time limit bootstraps from the last observation.
        """
        population = len(self.length) // self.rings
        drawn = [self._draw(p, batch, rng) for p in range(population)]
        ring, slots = (np.stack(parts) for parts in zip(*drawn, strict=True))
        return self.pack(slots, device, through_limit, ring)

    def _draw(self, member: int, batch: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Return rings and slots of a member's batch, evenly from each ring; the remainder goes to random rings."""
        order = rng.permutation(self.rings) if self.rings > 1 else np.zeros(1, dtype=np.int64)
        ring = member * self.rings + order[np.arange(batch) % self.rings]
        slots = np.empty(batch, dtype=np.int64)
        for own in sorted({*ring.tolist()}):
            wanted = ring == own
            slots[wanted] = rng.choice(np.flatnonzero(self.length[own]), size=wanted.sum(), replace=False)
        return ring, slots

    def pack(
        self, slots: np.ndarray, device: torch.device, through_limit: bool = False, ring: np.ndarray | None = None
    ) -> Packed:
        """Return the episodes in these slots, (P,batch), in packed form. `ring` (P,batch) is each member's own by default."""
        if ring is None:
            ring = np.arange(len(slots))[:, None].repeat(slots.shape[1], axis=1)
        seen = self.length[ring, slots] + (
            self.truncated[ring, slots] if through_limit else 0
        )  # observations of each episode
        order = np.argsort(-seen, axis=1, kind="stable")
        ring, slots, seen = (np.take_along_axis(part, order, axis=1) for part in (ring, slots, seen))
        running = seen[:, None, :] > np.arange(seen.max())[None, :, None]  # (P,T,batch)
        counts = running.sum(axis=2).max(axis=0)
        step = np.repeat(np.arange(len(counts)), counts)  # (M,)
        start = np.cumsum(counts) - counts
        row = np.arange(len(step)) - start[step]
        has_next = row < np.append(counts[1:], 0)[step]
        following = np.where(has_next, np.append(start[1:], 0)[step] + row, 0)

        rows = (*ring.shape[:1], len(step))
        agents, actions, state = *self.mask.shape[-2:], self.state.shape[-1]
        packed = {
            "inputs": np.zeros((*rows, agents, self.shape.input), dtype=np.float32),
            "mask": np.empty((*rows, agents, actions), dtype=np.bool_),
            "action": np.empty((*rows, agents), dtype=np.int64),
            "reward": np.empty(rows, dtype=np.float32),
            "state": np.empty((*rows, state), dtype=np.float32),
            "real": np.empty(rows, dtype=np.float32),
        }
        content = (self.length, self.obs, self.mask, self.action, self.reward, self.state)
        kernels.pack(counts, ring, slots, self.seats, *content, *packed.values())
        packed["continues"] = (step + 1 < seen[:, row]).astype(np.float32)
        packed |= {"agent": self.seats, "following": following}
        tensors = {name: torch.from_numpy(array).to(device) for name, array in packed.items()}
        return Packed(counts=tuple(counts.tolist()), **tensors)
