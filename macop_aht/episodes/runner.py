"""The episode runner: who sits where, times a batch of environments, gives episodes. Needs no torch.

Everything that plays goes through `run`: evaluations, cross-play, demonstrations, the testing phase, exports. Who plays is a
`Seats`; who watches is a `Hook`. An episode depends on its environment's seed and on who plays, never on how many
environments stand beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from macop_aht.policies.protocol import Policy
from macop_aht.scenarios import streams
from macop_aht.scenarios.batch import make_batch
from macop_aht.scenarios.spec import World


class Lockstep:
    """B environments at play: their batch, what the agents do now, and what they did last."""

    def __init__(self, world: World, seeds: Sequence[int]) -> None:
        """One environment for every seed."""
        self.world, self.batch = world, make_batch(world, len(seeds))
        self.batch.seed(seeds)
        self.action = np.zeros((len(seeds), world.n_agents), dtype=np.int64)
        self.last_action = np.full_like(self.action, -1)  # -1 where an episode has just begun
        self.running = np.ones(len(seeds), dtype=np.bool_)  # where an episode is being played

    @property
    def size(self) -> int:
        """Return the number of environments."""
        return self.batch.size

    def begin(self, rows: np.ndarray) -> None:
        """Begin a new episode in the environments in `rows`, (B,) bool."""
        self.batch.reset(rows)
        self.last_action[rows] = -1

    def step(self) -> np.ndarray:
        """All agents act as `action` says. Returns where an episode has ended, (B,) bool."""
        self.batch.step(self.action)
        self.last_action[:] = self.action
        return self.batch.terminated | self.batch.truncated


class Seats(Protocol):
    """Whoever plays some of the agents, in some environments or in all."""

    def begin(self, play: Lockstep, rows: np.ndarray) -> None:
        """An episode begins in the environments in `rows`, (B,) bool: what was remembered there is forgotten."""

    def act(self, play: Lockstep) -> None:
        """Write these agents' actions into `play.action`, (B,N), at least where an episode is running."""

    def end(self, play: Lockstep, over: np.ndarray) -> None:
        """An episode has ended in the environments in `over`, (B,) bool; `play.batch.score` has its return."""


class Hook:
    """Whoever watches. A subclass overrides the methods that it needs; `counted` (B,) bool is where the episode counts."""

    def chosen(self, play: Lockstep, counted: np.ndarray) -> None:
        """All have written their actions, and nobody has moved."""

    def stepped(self, play: Lockstep, counted: np.ndarray) -> None:
        """All have moved."""

    def ended(self, play: Lockstep, over: np.ndarray) -> None:
        """Episodes that count have ended in the environments in `over`, (B,) bool."""


@dataclass(frozen=True)
class Episodes:
    """What came of E episodes in each of R rows: environments, or teammates."""

    returns: np.ndarray  # (R,E) undiscounted
    lengths: np.ndarray  # (R,E) steps
    outcomes: np.ndarray  # (R,E) of str, "" where nothing was done
    won: np.ndarray  # (R,E) of bool, or of None where a scenario has no battle

    @staticmethod
    def empty(rows: int, episodes: int) -> Episodes:
        """Return a table to be filled."""
        outcomes, won = (np.full((rows, episodes), nothing, dtype=object) for nothing in ("", None))
        return Episodes(np.zeros((rows, episodes)), np.zeros((rows, episodes), dtype=np.int64), outcomes, won)

    @staticmethod
    def join(parts: Sequence[Episodes], axis: int = 0) -> Episodes:
        """Return these as one, along the rows (axis 0) or the episodes (axis 1)."""
        columns = [[getattr(part, name) for part in parts] for name in ("returns", "lengths", "outcomes", "won")]
        return Episodes(*(np.concatenate(column, axis=axis) for column in columns))

    def by_row(self, rows: int) -> Episodes:
        """Return the same episodes in so many rows, in order."""
        return Episodes(*(part.reshape(rows, -1) for part in (self.returns, self.lengths, self.outcomes, self.won)))

    def note(self, play: Lockstep, over: np.ndarray, number: np.ndarray) -> None:
        """Fill in the episodes that have ended in the environments in `over`, (B,) bool; `number` (B,) is that of each."""
        batch, world = play.batch, play.world
        self.returns[over, number[over]] = batch.score[over]
        self.lengths[over, number[over]] = batch.clock[over]
        victory = world.info(batch.state).get("battle_won")
        for b in np.flatnonzero(over).tolist():
            self.outcomes[b, number[b]] = world.outcome(batch.state, b)
            self.won[b, number[b]] = None if victory is None else bool(victory[b])


def run(
    play: Lockstep,
    seats: Sequence[Seats],
    episodes: int = 1,
    hooks: Sequence[Hook] = (),
    until: Callable[[], bool] = lambda: False,
) -> Episodes:
    """Play `episodes` episodes in a row in every environment and return them, (B,episodes).

    Where several are played in a row, an environment that is ready before the others plays on, and what comes of it does not
    count. `until` ends everything early, between two steps; episodes that were not finished by then are left empty.
    """
    everywhere, done = np.ones(play.size, dtype=np.bool_), np.zeros(play.size, dtype=np.int64)
    found = Episodes.empty(play.size, episodes)
    waiting = everywhere & (np.arange(play.size) >= (play.batch.most or play.size))  # environments that begin later
    play.running[:] = ~waiting
    _begin(play, seats, ~waiting)
    while (done < episodes).any() and not until():
        counted = (done < episodes) & ~waiting
        for seat in seats:
            seat.act(play)
        for hook in hooks:
            hook.chosen(play, counted)
        over = play.step() & play.running
        for hook in hooks:
            hook.stepped(play, counted)
        if play.batch.void.any():
            void = over & play.batch.void
            over &= ~void
            _begin(play, seats, void)  # as if they had not been
        if over.any():
            counted = over & counted
            found.note(play, counted, done)
            done += over
            for seat in seats:
                seat.end(play, over)
            for hook in hooks:
                hook.ended(play, counted)
            if waiting.any():
                _relieve(play, seats, over, done >= episodes, waiting)
            elif episodes > 1:
                _begin(play, seats, over)
            else:
                play.running &= ~over
    return found


def _relieve(play: Lockstep, seats: Sequence[Seats], over: np.ndarray, ready: np.ndarray, waiting: np.ndarray) -> None:
    """Begin as many of the waiting environments as others are ready; where more episodes are to be played, begin the next."""
    relieved = over & ready
    first = np.flatnonzero(waiting)[: relieved.sum()]
    begin = over & ~ready
    begin[first] = True
    waiting[first] = False
    play.running &= ~relieved
    play.running |= begin
    _begin(play, seats, begin)


def _begin(play: Lockstep, seats: Sequence[Seats], rows: np.ndarray) -> None:
    play.begin(rows)
    for seat in seats:
        seat.begin(play, rows)


class PolicySeats:
    """A policy in some agents' seats, in some of the environments."""

    def __init__(self, policy: Policy, environments: np.ndarray, agents: np.ndarray, keys: np.ndarray) -> None:
        """`environments` (E,) and `agents` (M,) are numbers; `keys` (B,) are those of the policy's random streams."""
        self.policy, self._environments, self._agents = policy, environments, agents
        self._keys, rows = keys[environments], len(environments) * len(agents)
        self._agent = np.tile(agents, len(environments))
        self._draws = np.zeros((len(environments), len(agents) * policy.draws))
        self._memory = np.zeros((rows, policy.memory_size), dtype=np.float32)

    def begin(self, play: Lockstep, rows: np.ndarray) -> None:
        """Forget everything in these environments, (B,) bool."""
        self._memory[np.repeat(rows[self._environments], len(self._agents))] = 0.0

    def act(self, play: Lockstep) -> None:
        """Write the policy's actions where an episode is running."""
        batch, playing = play.batch, play.running[self._environments]
        own, rows = self._environments[playing], np.repeat(playing, len(self._agents))
        count = int(rows.sum())
        if not count:
            return
        if self.policy.draws:
            here = self._environments
            streams.uniforms(self._keys, batch.episode[here], batch.clock[here], self._draws)
        at = np.ix_(own, self._agents)
        obs, mask = batch.obs[at].reshape(count, -1), batch.mask[at].reshape(count, -1)
        draws = self._draws.reshape(len(rows), -1)[rows]
        last_action = play.last_action[at].reshape(count)
        told = (self._agent[rows], last_action, self._memory[rows], draws)
        chosen, self._memory[rows] = self.policy.act(obs, mask, *told)
        play.action[at] = np.asarray(chosen).reshape(len(own), -1)

    def end(self, play: Lockstep, over: np.ndarray) -> None:
        """Nothing is learnt."""
