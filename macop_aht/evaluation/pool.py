"""The paper's evaluation: one pool of all groups that some runs have generated, and the ego of every run with every group of it.

All play greedily. An ego of several heads chooses one for every group by the testing phase, a few episodes with each head in
turn, which are rows of the stage `selection`; Random Head draws one for every episode. Whoever the ego is, its episodes with a
group begin the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from zlib import crc32

import numpy as np
import torch

from macop_aht.episodes.heads import choose_head, turns
from macop_aht.episodes.matches import episode_seeds
from macop_aht.episodes.runner import Episodes
from macop_aht.evaluation.bundles import SELECTION
from macop_aht.evaluation.rows import Row, episode_rows, write_rows
from macop_aht.learner.device import choose_device
from macop_aht.learner.networks import Ego, Stack
from macop_aht.learner.seats import Seating, greedy_episodes
from macop_aht.methods.training import MethodRun, learner_of, preset_of, read_run, setup_of
from macop_aht.paths import commit
from macop_aht.runs.folder import SEQUENCE, RunFolder, fingerprint
from macop_aht.scenarios import build
from macop_aht.scenarios.spec import World
from macop_aht.util import show

AT_ONCE = 8_192  # environments
Owner = tuple[str, int, str]  # a run's name and seed, and what it calls the group


@dataclass(frozen=True)
class Entrant:
    """A finished run, as it enters the evaluation."""

    run: MethodRun
    name: str  # of its method, or of a variation of that
    origin: tuple[str, int]  # name and seed of the run whose groups it has learnt with
    met: frozenset[str]  # those of these groups that it has met in training
    ego: Ego
    groups: dict[str, Stack]  # that it has generated

    @staticmethod
    def load(folder: Path, device: str = "auto", by_folder: bool = False) -> Entrant:
        """`by_folder`: a run is called by the folder that it is in, as NAME in NAME/0; else by its method."""
        own = RunFolder(folder)
        own.require_ego()
        run, lender = read_run(folder), own.lender or own
        if lender.method == SEQUENCE:
            raise ValueError(
                f"the ego in {folder} has learnt with a sequence, and has met groups of all runs; leave it out"
            )
        origin, place = (_name(lender, by_folder), lender.seed), choose_device(device)
        return Entrant(run, _name(own, by_folder), origin, frozenset(own.met), own.ego(place), own.generated(place))

    def tier(self, owners: Sequence[Owner]) -> str:
        """What a group that these runs have generated is to its ego."""
        if any((name, seed) == self.origin and group in self.met for name, seed, group in owners):
            return "seen"
        return "unseen" if any(name == self.origin[0] for name, *_ in owners) else "unseen generator"


def _name(run: RunFolder, by_folder: bool) -> str:
    return run.path.resolve().parent.name if by_folder else run.method


class Pool:
    """All groups of some runs, and where their episodes begin.

    Runs may have groups in common, as variations of a method have their first ones; these are in it once, by the first run's
    name.
    """

    def __init__(self, world: World, entrants: Sequence[Entrant], device: torch.device, seed: int = 0) -> None:
        self.world, self.device, self.seed = world, device, seed
        found: dict[bytes, tuple[Stack, list[Owner]]] = {}
        for one in entrants:
            for name, group in one.groups.items():
                found.setdefault(fingerprint(group), (group, []))[1].append((one.name, one.run.seed, name))
        self._groups = [group for group, _ in found.values()]
        self.owners = [owners for _, owners in found.values()]
        self.names = ["/".join(map(str, owners[0])) for owners in self.owners]
        self.generators = [owners[0][0] for owners in self.owners]  # methods, or variations of them
        if not self._groups:
            raise ValueError("none of these runs has generated groups; add one of macop, macop+, fcp, trajedi or lipo")

    def play(self, ego: Ego, heads: np.ndarray, first: int) -> Episodes:
        """Play episodes with every group, numbered from `first`, with the ego's head in each: (G,E)."""
        each = heads.shape[1]
        step = max(AT_ONCE // each, 1)  # groups at a time
        parts = [self._part(ego, heads[at : at + step], at, first) for at in range(0, len(heads), step)]
        return Episodes.join(parts).by_row(len(heads))

    def _part(self, ego: Ego, heads: np.ndarray, at: int, first: int) -> Episodes:
        count, each = heads.shape
        groups = Stack.gather([(group, 0) for group in self._groups[at : at + count]])
        pairs = np.stack([heads.ravel(), np.repeat(np.arange(count), each)], axis=1)
        seeds = [episode_seeds(self.seed, name, first, each) for name in self.names[at : at + count]]
        seating = Seating.cross_play(ego, groups, pairs, 1, self.world.controllable)
        return greedy_episodes(self.world, seating, np.concatenate(seeds).tolist(), self.device)


def choose_heads(pool: Pool, ego: Ego) -> tuple[np.ndarray, Episodes]:
    """Return the testing phase's head for every group, (G,), and the episodes behind that."""
    played = pool.play(ego, np.tile(turns(ego.n_heads), (len(pool.names), 1)), SELECTION)
    return choose_head(played.returns, ego.n_heads), played


def rows_of(entrant: Entrant, pool: Pool, episodes: int) -> list[Row]:
    """An ego with the whole pool."""
    run, ego, groups = entrant.run, entrant.ego, len(pool.names)
    tiers = [entrant.tier(owners) for owners in pool.owners]

    common = Row(
        method=entrant.name, learner=learner_of(run), preset=preset_of(run), seed=run.seed, scenario=run.scenario,
        teammate="", tier="", stage="", commit=commit(),
    )  # fmt: skip

    def rows(stage: str, played: Episodes) -> list[Row]:
        known = zip(pool.names, pool.generators, tiers, strict=True)
        return [
            row
            for k, (name, generator, tier) in enumerate(known)
            for row in episode_rows(
                replace(common, teammate=name, generator=generator, tier=tier, stage=stage), played, k
            )
        ]

    if run.method == "random-head":
        rng = np.random.default_rng([pool.seed, run.seed, crc32(run.scenario.encode())])
        return rows("test", pool.play(ego, rng.integers(0, ego.n_heads, (groups, episodes)), 0))
    if ego.n_heads == 1:
        return rows("test", pool.play(ego, np.zeros((groups, episodes), dtype=np.int64), 0))
    heads, choosing = choose_heads(pool, ego)
    return rows("selection", choosing) + rows("test", pool.play(ego, np.repeat(heads[:, None], episodes, axis=1), 0))


def evaluate(
    folders: Sequence[Path],
    episodes: int,
    out: Path,
    device: str = "auto",
    seed: int = 0,
    say: Callable[[str], None] = show,
    by_folder: bool = False,
) -> None:
    """Write the rows of all runs, which must be finished and of one scenario; the file is whole or not there."""
    entrants = [Entrant.load(folder, device, by_folder) for folder in folders]
    scenarios = sorted({entrant.run.scenario for entrant in entrants})
    if len(scenarios) != 1:
        raise ValueError(f"these runs are of {', '.join(scenarios)}; a pool is of one scenario")
    called = [(entrant.name, entrant.run.seed) for entrant in entrants]
    for name, number in called:
        if called.count((name, number)) > 1:
            raise ValueError(
                f"two of these runs are called {name}, seed {number}; give one of each, or put them into folders as "
                "NAME/0, and call them by these with --by-folder"
            )
    pool = Pool(build(scenarios[0]), entrants, setup_of(entrants[0].run, device).device, seed)
    say(f"{len(entrants)} egos with {len(pool.names)} groups")
    rows: list[Row] = []
    for entrant in entrants:
        own = rows_of(entrant, pool, episodes)
        mean = np.mean([row.return_ for row in own if row.stage == "test"])
        say(f"{entrant.name}, seed {entrant.run.seed}: {mean:.2f} on average")
        rows += own
    write_rows(rows, out)
