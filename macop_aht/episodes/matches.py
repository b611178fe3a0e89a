"""Who meets whom: an ego with teammates, a group in all seats, a session of several episodes. Needs no torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from zlib import crc32

import numpy as np

from macop_aht.episodes.runner import Episodes, Hook, Lockstep, PolicySeats, Seats, run
from macop_aht.policies.protocol import Policy
from macop_aht.scenarios import streams
from macop_aht.scenarios.spec import World

EGO = 4  # the purpose of the ego's draws, beside those in `streams`
TEAM = 16  # the same of a team's first agent; the others' follow
BATCH = 4_096  # environments at a time

# Whoever plays the ego's seats: a policy, or what makes its seats when it is told the teammate in each environment, (B,).
Ego = Policy | Callable[[np.ndarray], Seats]


def episode_seeds(seed: int, teammate: str, first: int, episodes: int) -> np.ndarray:
    """Return the environment seeds of the episodes with a teammate, numbered from `first`: (E,)."""
    return (crc32(f"{seed} {teammate}".encode()) << 20) + first + np.arange(episodes)


def play(
    world: World, ego: Ego, teammates: Sequence[Policy], episodes: int, seed: int = 0, size: int = BATCH, first: int = 0
) -> Episodes:
    """Play `episodes` episodes of the ego with each of the teammates, numbered from `first`, and return them: (T,episodes).

    An episode depends on the seed, the teammate's name and its number only, not on `size`, the environments at a time.
    """
    seeds = np.concatenate([episode_seeds(seed, teammate.name, first, episodes) for teammate in teammates])
    who = np.repeat(np.arange(len(teammates)), episodes)
    parts = [
        _play_batch(world, ego, teammates, who[at : at + size], seeds[at : at + size])
        for at in range(0, len(who), size)
    ]
    return Episodes.join(parts).by_row(len(teammates))


def _play_batch(world: World, ego: Ego, teammates: Sequence[Policy], who: np.ndarray, seeds: np.ndarray) -> Episodes:
    own = np.arange(world.controllable)
    if isinstance(ego, Policy):
        seats: Seats = PolicySeats(ego, np.arange(len(who)), own, streams.keys(seeds, EGO))
    else:
        seats = ego(who)
    return run(Lockstep(world, seeds.tolist()), [seats, *_teammates(world, teammates, who, seeds)])


def _teammates(
    world: World, teammates: Sequence[Policy], who: np.ndarray, seeds: Sequence[int] | np.ndarray
) -> list[Seats]:
    """The teammates' seats: teammate `who[b]` in environment b."""
    keys, theirs = streams.keys(seeds, streams.TEAMMATE), np.arange(world.controllable, world.n_agents)
    return [PolicySeats(teammates[t], np.flatnonzero(who == t), theirs, keys) for t in np.unique(who)]


def self_play(
    world: World, groups: Sequence[Policy], episodes: int, seed: int = 0, hooks: Sequence[Hook] = ()
) -> Episodes:
    """Play every group in all seats, `episodes` environments each, group by group; returns the episodes (G,episodes)."""
    who = np.repeat(np.arange(len(groups)), episodes)
    seeds = np.concatenate([episode_seeds(seed, group.name, 0, episodes) for group in groups])
    keys, everybody = streams.keys(seeds, streams.TEAMMATE), np.arange(world.n_agents)
    seats = [PolicySeats(group, np.flatnonzero(who == g), everybody, keys) for g, group in enumerate(groups)]
    return run(Lockstep(world, seeds.tolist()), seats, hooks=hooks).by_row(len(groups))


def team_play(
    world: World, team: Sequence[Policy], episodes: int, seed: int = 0, hooks: Sequence[Hook] = ()
) -> np.ndarray:
    """Play one policy per agent, in environments with the seeds `seed`, `seed` + 1, …; returns the returns (episodes,)."""
    seeds, everywhere = list(range(seed, seed + episodes)), np.arange(episodes)
    agents: dict[int, list[int]] = {}
    for i, policy in enumerate(team):
        agents.setdefault(id(policy), []).append(i)
    seats = [
        PolicySeats(team[own[0]], everywhere, np.array(own), streams.keys(seeds, TEAM + own[0]))
        for own in agents.values()
    ]
    return run(Lockstep(world, seeds), seats, hooks=hooks).returns[:, 0]


def sessions(
    world: World,
    ego: Seats,
    teammates: Sequence[Policy],
    who: np.ndarray,
    episodes: int,
    seeds: Sequence[int],
    hooks: Sequence[Hook] = (),
) -> np.ndarray:
    """Play session s, `episodes` episodes in a row with teammate `who[s]`; the ego may learn on the way. Returns (S,episodes)."""
    return run(Lockstep(world, seeds), [ego, *_teammates(world, teammates, who, seeds)], episodes, hooks).returns
