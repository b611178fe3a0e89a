"""Agents with teammates, many episodes at once, the same whatever the size of the batch. Needs no torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol
from zlib import crc32

import numpy as np

from macop_aht.evaluation.rows import Played
from macop_aht.policies.protocol import Policy, fresh_memory
from macop_aht.scenarios import streams
from macop_aht.scenarios.batch import Batch
from macop_aht.scenarios.spec import World

EGO = 4  # the purpose of the ego's draws, beside those in `streams`
BATCH = 4_096  # environments at a time


class Seats(Protocol):
    """Some of the agents in a batch of matches."""

    def act(self, batch: Batch, action: np.ndarray, running: np.ndarray) -> None:
        """Write their actions into (B,N), where the episode is still running, (B,) bool."""
        ...


Ego = Policy | Callable[[np.ndarray], Seats]  # the latter is told the number of the teammate in each environment (B,)


def play(
    world: World, ego: Ego, mates: Sequence[Policy], episodes: int, seed: int = 0, size: int = BATCH, first: int = 0
) -> Played:
    """`episodes` episodes of the ego with each of the teammates, numbered from `first`.

    An episode depends on the seed, the teammate's name and its number only.
    """
    seeds = np.concatenate([episode_seeds(seed, mate.name, first, episodes) for mate in mates])
    who = np.repeat(np.arange(len(mates)), episodes)
    starts = range(0, len(who), size)
    parts = [_play_batch(world, ego, mates, who[at : at + size], seeds[at : at + size]) for at in starts]
    return Played(*(np.concatenate(column).reshape(-1, episodes) for column in zip(*parts, strict=True)))


def episode_seeds(seed: int, teammate: str, first: int, episodes: int) -> np.ndarray:
    """What the episodes with a teammate begin with, numbered from `first`: (E,)."""
    return (crc32(f"{seed} {teammate}".encode()) << 20) + first + np.arange(episodes)


class _PolicySeats:
    """The rows that one policy plays: which environments and agents, and what it remembers there."""

    def __init__(self, policy: Policy, environments: np.ndarray, agents: np.ndarray, keys: np.ndarray) -> None:
        self.policy, self.environments, self.agents = policy, environments, agents
        self._keys = keys[environments]
        self._draws = np.zeros((len(environments), len(agents) * policy.draws))
        self._memory = fresh_memory(np.tile(agents, len(environments)), policy.memory_size)

    def begin(self, over: np.ndarray) -> None:
        """A new episode in these environments, (B,) bool: what was remembered there is forgotten."""
        rows = np.repeat(over[self.environments], len(self.agents))
        self._memory[rows] = fresh_memory(np.tile(self.agents, rows.sum() // len(self.agents)), self.policy.memory_size)

    def act(self, batch: Batch, action: np.ndarray, running: np.ndarray) -> None:
        playing = running[self.environments]
        own, count = self.environments[playing], int(playing.sum()) * len(self.agents)
        if not count:
            return
        if self.policy.draws:
            everywhere = self.environments
            streams.uniforms(self._keys, batch.episode[everywhere], batch.clock[everywhere], self._draws)
        at, rows = np.ix_(own, self.agents), np.repeat(playing, len(self.agents))
        obs, mask = batch.obs[at].reshape(count, -1), batch.mask[at].reshape(count, -1)
        draws = self._draws.reshape(len(rows), -1)[rows]
        chosen, self._memory[rows] = self.policy.act(obs, mask, self._memory[rows], draws)
        action[at] = np.asarray(chosen).reshape(len(own), -1)


def _play_batch(
    world: World, ego: Ego, mates: Sequence[Policy], who: np.ndarray, seeds: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    batch, size = Batch(world, len(who)), len(who)
    batch.seed([int(seed) for seed in seeds])
    batch.reset()
    agents = np.arange(world.n_agents)
    ours, theirs = agents[: world.controllable], agents[world.controllable :]
    own = _PolicySeats(ego, np.arange(size), ours, streams.keys(seeds, EGO)) if isinstance(ego, Policy) else ego(who)
    seats: list[Seats] = [own]
    teammate_keys = streams.keys(seeds, streams.TEAMMATE)
    seats += [_PolicySeats(mates[t], np.flatnonzero(who == t), theirs, teammate_keys) for t in np.unique(who)]
    action = np.zeros((size, world.n_agents), dtype=np.int64)
    returns, lengths, running = np.zeros(size), np.zeros(size, dtype=np.int64), np.ones(size, dtype=np.bool_)
    outcomes, won = (np.full(size, nothing, dtype=object) for nothing in ("", None))
    while running.any():
        for seat in seats:
            seat.act(batch, action, running)
        batch.step(action)
        returns += np.where(running, batch.reward, 0.0)
        lengths += running
        over = running & (batch.terminated | batch.truncated)
        note_ends(world, batch, over, outcomes, won)
        running &= ~over
    return returns, lengths, outcomes, won


def note_ends(world: World, batch: Batch, over: np.ndarray, outcomes: np.ndarray, won: np.ndarray) -> None:
    """Write down how the episodes in `over`, (B,) bool, have ended: (B,) of str, (B,) of bool or None."""
    if over.any():
        victory = world.info(batch.state).get("battle_won")
        for b in np.flatnonzero(over).tolist():
            outcomes[b] = world.outcome(batch.state, b)
            won[b] = None if victory is None else bool(victory[b])


def among_themselves(
    world: World,
    groups: Sequence[Policy],
    episodes: int,
    seed: int,
    watch: Callable[[Batch, np.ndarray, np.ndarray], None],
) -> np.ndarray:
    """Every group in all places, in `episodes` environments each, group by group; gives the returns (G,episodes).

    `watch` is shown the batch at every step, what all are about to do (B,N), and which episodes are still running (B,) bool.
    """
    size, who = len(groups) * episodes, np.repeat(np.arange(len(groups)), episodes)
    seeds = np.concatenate([episode_seeds(seed, group.name, 0, episodes) for group in groups])
    batch, everybody, keys = Batch(world, size), np.arange(world.n_agents), streams.keys(seeds, streams.TEAMMATE)
    batch.seed([int(own) for own in seeds])
    batch.reset()
    seats = [_PolicySeats(group, np.flatnonzero(who == g), everybody, keys) for g, group in enumerate(groups)]
    action, running = np.zeros((size, world.n_agents), dtype=np.int64), np.ones(size, dtype=np.bool_)
    returns = np.zeros(size)
    while running.any():
        for seat in seats:
            seat.act(batch, action, running)
        watch(batch, action, running)
        batch.step(action)
        returns += np.where(running, batch.reward, 0.0)
        running &= ~(batch.terminated | batch.truncated)
    return returns.reshape(len(groups), episodes)


class Player(Protocol):
    """Who decides for our agents in many teams at once, and is told how it went, such as a `deploy.runtime.EgoAgent`."""

    def episode_begin(self, teams: np.ndarray | None = None) -> None:
        """In all teams, or in those of (S,) bool."""

    def act(self, obs: np.ndarray, mask: np.ndarray) -> np.ndarray:
        """(S,m,D) (S,m,A) -> (S,m)."""
        ...

    def episode_end(self, returns: np.ndarray, teams: np.ndarray) -> None:
        """What the episodes of the teams in (S,) bool have returned: (R,)."""


def sessions(
    world: World,
    player: Player,
    mates: Sequence[Policy],
    who: np.ndarray,
    episodes: int,
    seeds: Sequence[int],
    watch: Callable[[], None] | None = None,
) -> np.ndarray:
    """Team s plays episode after episode with mate `who[s]`, and the player may learn on the way: returns (S,episodes).

    `watch` is called at every step, when our agents have decided and nobody has acted.
    """
    size, own = len(who), world.controllable
    batch = Batch(world, size)
    batch.seed(seeds)
    batch.reset()
    keys, theirs = streams.keys(seeds, streams.TEAMMATE), np.arange(own, world.n_agents)
    seats = [_PolicySeats(mates[t], np.flatnonzero(who == t), theirs, keys) for t in np.unique(who)]
    action, everywhere = np.zeros((size, world.n_agents), dtype=np.int64), np.ones(size, dtype=np.bool_)
    returns, done = np.zeros((size, episodes)), np.zeros(size, dtype=np.int64)
    player.episode_begin()
    while (done < episodes).any():
        action[:, :own] = player.act(batch.obs[:, :own], batch.mask[:, :own])
        for seat in seats:
            seat.act(batch, action, everywhere)
        if watch:
            watch()
        batch.step(action)
        over = batch.terminated | batch.truncated
        if over.any():
            counted = over & (done < episodes)  # whoever is ready before the others plays on, and it does not count
            returns[counted, done[counted]] = batch.score[counted]
            done += over
            player.episode_end(batch.score[over], over)
            player.episode_begin(over)
            batch.reset(over)
            for seat in seats:
                seat.begin(over)
    return returns
