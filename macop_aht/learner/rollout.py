"""Many environments in lockstep that are never idle, and the collector that writes their episodes into a replay."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from macop_aht.episodes.runner import Lockstep
from macop_aht.learner.replay import Replay, check_within
from macop_aht.learner.seats import Exploration, NetworkSeats, Seating
from macop_aht.scenarios.batch import Batch
from macop_aht.scenarios.spec import World


class Rollout:
    """B environments in which networks play; whoever steps them begins a new episode where one has ended."""

    def __init__(self, world: World, seating: Seating, seed: int, device: torch.device, begin: bool = True) -> None:
        """Environment b has the seed `seed` + b. Without `begin`, its first episode is left out."""
        size = len(seating.member)
        self.play = Lockstep(world, [seed + b for b in range(size)])
        self.rng = np.random.default_rng(seed)
        self.seats = NetworkSeats(seating, device, self.rng)
        if begin:
            self.play.begin(np.ones(size, dtype=np.bool_))
        else:
            self.batch.episode += 1

    @property
    def batch(self) -> Batch:
        """Return the environments."""
        return self.play.batch

    @property
    def action(self) -> np.ndarray:
        """Return what everybody does now: (B,N)."""
        return self.play.action

    @property
    def last_action(self) -> np.ndarray:
        """Return what everybody did last, -1 where an episode has just begun: (B,N)."""
        return self.play.last_action

    def state_arrays(self) -> dict[str, Any]:
        """Return where every episode stands, for a checkpoint."""
        return {
            **self.batch.state_arrays(),
            "last_action": self.play.last_action,
            "memory": self.seats.state_arrays(),
        }

    def load_arrays(self, arrays: Mapping[str, Any]) -> None:
        """Restore what `state_arrays` returned; episodes of environments that are not deterministic begin anew."""
        check_within("clock", arrays["clock"], 0, self.batch.world.limit)
        check_within("last_action", arrays["last_action"], -1, len(self.batch.world.actions) - 1)
        failed = self.batch.load_arrays(arrays)
        self.play.last_action[:] = arrays["last_action"]
        self.seats.load_arrays(arrays["memory"])
        if failed.any():
            warnings.warn(
                f"{failed.sum()} unfinished episodes came to something else when they were repeated: the environment is not "
                "deterministic. They begin anew, and the run will not have the weights that it would have had",
                stacklevel=2,
            )
            self.begin(failed)

    def begin(self, rows: np.ndarray) -> None:
        """Begin a new episode in the environments in `rows`, (B,) bool: memories and last actions are cleared."""
        self.play.begin(rows)
        self.seats.begin(self.play, rows)

    def act(self, exploration: Exploration | None = None) -> None:
        """Fill `play.action`, (B,N): the best available by Q, and where an agent explores another one."""
        self.seats.exploration = exploration
        self.seats.act(self.play)

    def reseat(self, rows: np.ndarray, head: np.ndarray) -> None:
        """The ego in the environments `rows`, (B,) bool, plays these heads from now on: (R,)."""
        self.seats.reseat(rows, head)

    def exchange(self, to: np.ndarray) -> None:
        """Exchange the ego's teammates: those of environment b go on in `to[b]`, (B,) a permutation."""
        self.seats.exchange(self.play, to)

    def step(self) -> np.ndarray:
        """All act as `play.action` says. Returns where an episode has ended, (B,) bool; `begin` them again."""
        return self.play.step()


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
        self.learnt = np.zeros(0)  # shaped returns of the episodes that the last step has ended

    @property
    def size(self) -> int:
        """Environment steps that a step takes."""
        return len(self.member)

    def state_arrays(self) -> dict[str, Any]:
        return {"rollout": self.rollout.state_arrays(), "slot": self._slot, "episodes": np.array(self.episodes)}

    def load_arrays(self, arrays: Mapping[str, Any]) -> None:
        self.rollout.load_arrays(arrays["rollout"])
        check_within("slot", arrays["slot"], 0, self.replay.capacity - 1)
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
        replay.reward[at] = batch.shaped
        if batch.void.any():
            over = self._restarted(over)
        if not over.any():
            return self.member[:0], batch.score[:0]
        ring, slot, length = self.ring[over], self._slot[over], batch.clock[over]
        self._look((self.ring, self._slot, batch.clock))  # the last observation of the episodes that have ended
        replay.end(ring, slot, length, batch.truncated[over])
        returns = batch.score[over]
        self.learnt = batch.shaped_score[over]
        self.episodes += len(returns) / self._members
        for tell in self.when_over:
            tell(over, ring, slot)
        rollout.begin(over)
        self._slot[over] = replay.begin(ring)
        return self.member[over], returns

    def _restarted(self, over: np.ndarray) -> np.ndarray:
        """Begin the void episodes anew, which leave nothing to learn from; return where others are over, (B,) bool."""
        void = over & self.rollout.batch.void
        self.rollout.begin(void)
        return over & ~void

    def _look(self, at: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
        batch, replay = self.rollout.batch, self.replay
        replay.obs[at] = batch.obs[:, replay.seats]
        replay.mask[at] = batch.mask[:, replay.seats]
        if replay.state.shape[-1]:
            replay.state[at] = batch.global_state()
