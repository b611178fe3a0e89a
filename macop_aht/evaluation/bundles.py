"""Ego bundles in an evaluation: a head is chosen for every teammate by test episodes of their own, and played from then on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np

from macop_aht.deploy.files import read_manifest
from macop_aht.deploy.manifest import RunGroups
from macop_aht.deploy.runtime import EgoAgent
from macop_aht.evaluation.matches import Seats, play
from macop_aht.evaluation.rows import Played
from macop_aht.policies.protocol import Policy
from macop_aht.scenarios.batch import Batch
from macop_aht.scenarios.spec import World

SELECTION = 1 << 19  # the number of the first episode of choosing: no test has so many


class BundleSeats:
    """An agent from a bundle at play: one of its teams in every environment."""

    def __init__(self, agent: EgoAgent) -> None:
        self._agent = agent
        agent.episode_begin()

    def act(self, batch: Batch, action: np.ndarray, running: np.ndarray) -> None:
        own = slice(self._agent.controllable)
        action[:, own] = self._agent.act(batch.obs[:, own], batch.mask[:, own])


@dataclass(frozen=True)
class Bundle:
    """A bundle, and how it chooses its heads. `budget` is in episodes per teammate; None: what is usual for the selector."""

    folder: Path
    selector: str = "meta-test"
    budget: int | None = None

    def agent(self, teams: int) -> EgoAgent:
        return EgoAgent.load(self.folder, self.selector, teams, self.budget)

    @property
    def met(self) -> set[str]:
        """The hashes of the files of a zoo that are groups of its run."""
        return {digest for files in self._groups.sha256.values() for digest in files}

    @property
    def generator(self) -> str:
        """Of these groups, as cards name it."""
        return self._groups.generator

    @property
    def _groups(self) -> RunGroups:
        return read_manifest(self.folder).groups or RunGroups("", (), {})

    def meet(self, world: World, mates: Sequence[Policy], seed: int) -> tuple[Played, _Chosen]:
        """Choose a head for each of T teammates: what came of these episodes (T,budget), and the bundle with its choices."""
        agent, met = self.agent(len(mates)), []
        for episode in range(agent.budget):
            together = play(
                world, lambda who: BundleSeats(agent), mates, 1, seed, size=len(mates), first=SELECTION + episode
            )
            agent.episode_end(together.returns[:, 0])
            met.append(together)
        nothing = np.zeros((len(mates), 0))
        columns = [
            np.concatenate([nothing, *[getattr(episode, column.name) for episode in met]], axis=1)
            for column in fields(Played)
        ]
        return Played(*columns), _Chosen(self, agent)


class _Chosen:
    """A bundle that has met its teammates: gives the seats of as many matches with them as are played."""

    def __init__(self, bundle: Bundle, agent: EgoAgent) -> None:
        self._bundle, self._state = bundle, agent.state

    def __call__(self, who: np.ndarray) -> Seats:
        """`who` (B,) is the teammate in each environment."""
        agent = self._bundle.agent(len(who))
        of_teams = {name: np.asarray(own)[who].tolist() for name, own in self._state.items() if isinstance(own, list)}
        agent.restore({**self._state, **of_teams})
        return BundleSeats(agent)
