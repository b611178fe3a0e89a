"""What teammate groups do when they play among themselves: returns, outcomes and tracks."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import torch

from macop_aht.learner.networks import Stack
from macop_aht.learner.rollout import Rollout, Seating
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


class _AgentFinder:
    """A canvas that notes where the agents are drawn."""

    def __init__(self) -> None:
        self.places: list[tuple[float, float]] = []

    def area(self, left: float, bottom: float, right: float, top: float) -> None: ...

    def tile(self, x: float, y: float, dark: bool) -> None: ...

    def ring(self, x: float, y: float, radius: float, role: str) -> None: ...

    def bar(self, x: float, y: float, width: float, fraction: float, role: str) -> None: ...

    def disc(self, x: float, y: float, radius: float, role: str, label: str = "", glyph: str = "?") -> None:
        if role in ("ego", "mate"):
            self.places.append((float(x), float(y)))


def watch_self_play(
    world: World, groups: Stack, episodes: int, seed: int, device: torch.device, tracked: int = 8
) -> list[Behaviour]:
    """Every group among itself, greedily; the ways of the first `tracked` episodes are kept."""
    rollout = Rollout(world, Seating.self_play(groups, episodes), seed, device)
    behaviours = [Behaviour() for _ in range(groups.population)]
    running = np.ones(rollout.batch.size, dtype=np.bool_)
    ways = {b: [_places(world, rollout, b)] for b in range(len(running)) if b % episodes < tracked}
    while running.any():
        rollout.act()
        over = rollout.step()
        for b, way in ways.items():
            if running[b]:
                way.append(_places(world, rollout, b))
        for b in np.flatnonzero(over & running).tolist():
            behaviour = behaviours[b // episodes]
            behaviour.returns.append(float(rollout.batch.score[b]))
            outcome = world.outcome(rollout.batch.state, b)
            if outcome:
                behaviour.outcomes[outcome] += 1
            if b in ways:
                behaviour.tracks.append(_by_agent(ways[b]))
        running &= ~over
        if over.any():
            rollout.begin(over)
    return behaviours


def _places(world: World, rollout: Rollout, b: int) -> list[tuple[float, float]]:
    finder = _AgentFinder()
    world.draw(finder, rollout.batch.state, b)
    return finder.places


def _by_agent(steps: list[list[tuple[float, float]]]) -> list[np.ndarray]:
    """The dead are not drawn: a way ends where fewer agents are left than at first."""
    agents = len(steps[0])
    whole = [places for places in steps if len(places) == agents]
    return [np.array([places[i] for places in whole]) for i in range(agents)]
