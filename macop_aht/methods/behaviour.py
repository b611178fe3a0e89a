"""What teammate groups do when they play among themselves: returns, outcomes and tracks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from macop_aht.episodes.runner import Hook, Lockstep
from macop_aht.learner.networks import Stack
from macop_aht.learner.seats import Seating, greedy_episodes
from macop_aht.scenarios.spec import World


@dataclass
class Behaviour:
    """One group over some greedy episodes of self-play."""

    returns: list[float] = field(default_factory=list)
    outcomes: Counter[str] = field(default_factory=Counter)  # of the episodes that have one
    tracks: list[list[np.ndarray]] = field(default_factory=list)  # per episode and agent, its places on the map (T,2)

    @property
    def outcome(self) -> str:
        """The most frequent outcome, if a quarter of the episodes or more end in it; else ""."""
        outcome, count = self.outcomes.most_common(1)[0] if self.outcomes else ("", 0)
        return outcome if 4 * count >= len(self.returns) else ""


def watch_self_play(
    world: World, groups: Stack, episodes: int, seed: int, device: torch.device, tracked: int = 8
) -> list[Behaviour]:
    """Play every group in all seats, greedily, and return what it does; the tracks of the first `tracked` episodes are kept."""
    seating = Seating.self_play(groups, episodes)
    size = len(seating.member)
    tracks = _Tracks([b for b in range(size) if b % episodes < tracked and world.own])
    played = greedy_episodes(world, seating, range(seed, seed + size), device, [tracks])
    behaviours = [Behaviour() for _ in range(groups.population)]
    for b in tracks.order:
        behaviour = behaviours[b // episodes]
        behaviour.returns.append(float(played.returns[b, 0]))
        if played.outcomes[b, 0]:
            behaviour.outcomes[played.outcomes[b, 0]] += 1
        if b in tracks.places:
            behaviour.tracks.append(_by_agent(tracks.places[b]))
    return behaviours


class _Tracks(Hook):
    """Notes where the agents are in some environments, at first and after every step, and which episodes end in which order."""

    def __init__(self, environments: Sequence[int]) -> None:
        self.places: dict[int, list[list[tuple[float, float]]]] = {b: [] for b in environments}
        self.order: list[int] = []

    def chosen(self, play: Lockstep, counted: np.ndarray) -> None:
        for b, places in self.places.items():
            if not places:
                places.append(_places(play, b))

    def stepped(self, play: Lockstep, counted: np.ndarray) -> None:
        for b, places in self.places.items():
            if play.running[b]:
                places.append(_places(play, b))

    def ended(self, play: Lockstep, over: np.ndarray) -> None:
        self.order += np.flatnonzero(over).tolist()


def _places(play: Lockstep, b: int) -> list[tuple[float, float]]:
    return [(body.x, body.y) for body in play.world.scene(play.batch.state, b).agents.values()]


def _by_agent(steps: list[list[tuple[float, float]]]) -> list[np.ndarray]:
    """The dead are not drawn: a way ends where fewer agents are left than at first."""
    agents = len(steps[0])
    whole = [places for places in steps if len(places) == agents]
    return [np.array([places[i] for places in whole]) for i in range(agents)]
