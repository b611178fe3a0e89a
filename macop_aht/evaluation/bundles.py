"""Ego bundles in an evaluation: a head is chosen for every teammate in episodes of its own, and played from then on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from macop_aht.deploy.files import read_manifest
from macop_aht.deploy.manifest import Manifest, RunGroups
from macop_aht.deploy.runtime import EgoAgent
from macop_aht.episodes.matches import play
from macop_aht.episodes.runner import Episodes, Lockstep, Seats
from macop_aht.policies.protocol import Policy
from macop_aht.scenarios.spec import World

SELECTION = 1 << 19  # the number of the first episode of choosing; no test has that many


class AgentSeats:
    """An ego agent in its seats, one of its teams in every environment."""

    def __init__(self, agent: Any, told: bool = True) -> None:
        """`agent` is an EgoAgent, or has its `episode_begin`, `act` and `episode_end`.

        `told`: whether it is told what an episode has returned, and so chooses its next head.
        """
        self._agent, self._told = agent, told

    def begin(self, play: Lockstep, rows: np.ndarray) -> None:
        """Forget the last episode in the environments in `rows`, (B,) bool."""
        self._agent.episode_begin(rows)

    def act(self, play: Lockstep) -> None:
        """Write the ego's actions."""
        own = slice(play.world.controllable)
        play.action[:, own] = self._agent.act(play.batch.obs[:, own], play.batch.mask[:, own])

    def end(self, play: Lockstep, over: np.ndarray) -> None:
        """Tell the agent what the episodes in `over`, (B,) bool, have returned."""
        if self._told:
            self._agent.episode_end(play.batch.score[over], over)


@dataclass(frozen=True)
class Bundle:
    """A bundle and how it chooses its heads. `budget` is in episodes per teammate; None is the selector's default."""

    folder: Path
    selector: str = "meta-test"
    budget: int | None = None

    def agent(self, teams: int) -> EgoAgent:
        return EgoAgent.load(self.folder, self.selector, teams, self.budget)

    @property
    def manifest(self) -> Manifest:
        """Return what the bundle says of itself."""
        return read_manifest(self.folder)

    @property
    def met(self) -> set[str]:
        """Return the hashes of the zoo's files that hold groups of its run."""
        return {digest for files in self._groups.sha256.values() for digest in files}

    @property
    def generator(self) -> str:
        """Return the generator of these groups, as zoo cards name it."""
        return self._groups.generator

    @property
    def _groups(self) -> RunGroups:
        return self.manifest.groups or RunGroups("", (), {})

    def meet(
        self, world: World, teammates: Sequence[Policy], seed: int
    ) -> tuple[Episodes, Callable[[np.ndarray], Seats]]:
        """Choose a head for each of T teammates in test episodes.

        Returns these episodes (T,budget), and what makes the ego's seats of as many matches with these teammates as are played.
        """
        agent = self.agent(len(teammates))
        met, silent = [Episodes.empty(len(teammates), 0)], AgentSeats(agent, told=False)
        for episode in range(agent.budget):
            number = SELECTION + episode
            met.append(play(world, lambda who: silent, teammates, 1, seed, size=len(teammates), first=number))
            agent.episode_end(met[-1].returns[:, 0])  # of all at once, so that draws go by the teammate's number
        state = agent.state

        def seats(who: np.ndarray) -> Seats:
            """`who` (B,) is the teammate in each environment."""
            of_teams = {name: np.asarray(own)[who].tolist() for name, own in state.items() if isinstance(own, list)}
            copy = self.agent(len(who))
            copy.restore({**state, **of_teams})
            return AgentSeats(copy, told=False)

        return Episodes.join(met, axis=1), seats
