"""B copies of a user's environment behind the contract of `Batch`."""

from __future__ import annotations

import atexit
import weakref
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from macop_aht.compiling import njit
from macop_aht.scenarios.batch import Batch
from macop_aht.scenarios.binding import bind
from macop_aht.scenarios.external.crew import Crew, allocate
from macop_aht.scenarios.external.team import SEEDS, Recipe, Team
from macop_aht.scenarios.external.workers import RemoteCrew, Workers, workers_wanted
from macop_aht.scenarios.spec import World

EACH = 2  # environments that a worker has at least


class State(NamedTuple):
    """What outcomes, infos and pictures are read from."""

    won: np.ndarray  # (B,) bool
    outcome: np.ndarray  # (B,) str
    sparse: np.ndarray  # (B,) reward without shaping
    void: np.ndarray  # (B,) bool: where an episode ended because the connection to the game was lost
    batch: Any  # weak reference to the batch, which draws


class Pool:
    """The environments of a world that nobody uses now, and the processes that have others."""

    def __init__(self, recipe: Recipe, idle: Sequence[Team] = ()) -> None:
        self.recipe, self.idle = recipe, list(idle)
        self._workers: Workers | None = None
        self._crews: weakref.WeakSet[Crew] = weakref.WeakSet()
        atexit.register(_close, weakref.ref(self))

    def __deepcopy__(self, memo: dict[int, Any]) -> Pool:
        return self

    def crew(self, size: int, most: int) -> Crew | RemoteCrew:
        """Return a crew for so many environments: of this process, or of worker processes where these are wanted."""
        wanted = workers_wanted()
        if wanted and size >= EACH * wanted:
            if self._workers is None or self._workers.closed or len(self._workers) != wanted:
                self._workers = Workers(self.recipe, wanted)
            return RemoteCrew(self._workers, self.recipe, size, most)
        crew = Crew(self.recipe, allocate(self.recipe.layout, size), self.idle, most)
        self._crews.add(crew)
        return crew

    def close(self) -> None:
        """Close all environments, and end the processes."""
        for crew in self._crews:
            crew.release()
        if self._workers is not None:
            self._workers.close()
            self._workers = None
        while self.idle:
            self.idle.pop().close()


def _close(pool: weakref.ref[Pool]) -> None:
    found = pool()
    if found is not None:
        found.close()


def seed_of(seed: int, episode: int) -> int:
    """Return the seed of an environment's episode. The first episode's is the seed itself, but for its highest bits."""
    if episode == 0:
        return seed % SEEDS
    return int(np.random.SeedSequence([seed, episode]).generate_state(1)[0]) % SEEDS


@njit(cache=True)
def _prepare(live, action, clock, log, rows, reward, shaped, terminated, truncated):
    """Mark the environments that are played, and note their actions."""
    for b in range(live.shape[0]):
        rows[b], reward[b], shaped[b] = live[b], 0.0, 0.0
        terminated[b] = truncated[b] = False
        if live[b]:
            log[b, min(clock[b], log.shape[1] - 1)] = action[b]
            clock[b] += 1


@njit(cache=True)
def _settle(live, clock, limit, void, rows, reward, shaped, terminated, truncated, score, shaped_score):
    """Cut episodes at the limit, add up returns, and mark where an episode is over; return whether one is."""
    over = False
    for b in range(live.shape[0]):
        rows[b] = False
        if live[b]:
            if void[b]:  # an episode without a result
                terminated[b] = False
                truncated[b] = True
            truncated[b] |= clock[b] >= limit and not terminated[b]
            score[b] += reward[b]
            shaped_score[b] += shaped[b]
            rows[b] = terminated[b] or truncated[b]
            live[b] = not rows[b]
            over |= rows[b]
    return over


class ExternalBatch(Batch):
    """B copies of a user's environment.

    Every episode is reseeded, by the environment's seed and the number of the episode. Environments whose episode is over are
    not stepped until they are reset.
    """

    def __init__(self, world: World, size: int, pool: Pool, most: int) -> None:
        self._crew = crew = pool.crew(size, most)
        self.most = most
        super().__init__(world, size)
        arrays = crew.arrays
        self.obs, self.mask, self.reward, self.void = arrays.obs, arrays.mask, arrays.reward, arrays.void
        self.terminated, self.truncated = arrays.terminated, arrays.truncated
        self.shaped, self.shaped_score = arrays.shaped, np.zeros(size)
        self.state = State(arrays.won, arrays.outcome, arrays.reward, arrays.void, weakref.ref(self))
        self.log = np.zeros((size, world.limit, world.n_agents), dtype=np.int64)  # the actions of this episode
        self.live = np.zeros(size, dtype=np.bool_)  # where an episode is being played
        self._seeds = [int(b) for b in range(size)]
        self._own_state = pool.recipe.layout.state_dim > 0
        self._release = weakref.finalize(self, crew.release)
        results = (arrays.reward, arrays.shaped, arrays.terminated, arrays.truncated)
        self._prepare = bind(_prepare, self.live, arrays.action, self.clock, self.log, arrays.rows, *results)
        scores = (self.score, self.shaped_score)
        self._settle = bind(_settle, self.live, self.clock, world.limit, arrays.void, arrays.rows, *results, *scores)

    def _bind(self) -> None:
        pass  # there are no kernels of a world to bind

    def __deepcopy__(self, memo: dict[int, Any]) -> ExternalBatch:
        raise TypeError(
            "an environment that is not the suite's own cannot be copied; make another one and repeat its actions"
        )

    def seed(self, seeds: Sequence[int], rows: np.ndarray | None = None) -> None:
        """Seed every environment, or those in `rows`, (B,) bool: one seed for each. The next reset begins its episode 0."""
        super().seed(seeds, rows)
        for b, seed in zip(np.arange(self.size) if rows is None else np.flatnonzero(rows), seeds, strict=True):
            self._seeds[int(b)] = int(seed)

    def reset(self, rows: np.ndarray | None = None) -> None:
        """Begin a new episode in every environment, or in those in `rows`, (B,) bool."""
        marked = np.ones(self.size, dtype=np.bool_) if rows is None else np.asarray(rows)
        self.episode[marked] += 1
        self.clock[marked] = 0
        self.score[marked] = 0.0
        self.shaped_score[marked] = 0.0
        self._begin_episodes(marked)

    def _begin_episodes(self, marked: np.ndarray) -> None:
        """Begin the episodes that `episode` says in these environments, (B,) bool."""
        arrays = self._crew.arrays
        for b in np.flatnonzero(marked).tolist():
            arrays.seed[b] = seed_of(self._seeds[b], int(self.episode[b]))
        arrays.first[:] = self.episode == 0
        arrays.rows[:] = marked
        self._crew.reset()
        self.live |= marked

    def step(self, action: np.ndarray) -> None:
        """Step all environments whose episode is not over: `action` (B,N), each in 0..A-1. The range is not checked here."""
        self._crew.arrays.action[:] = action
        self._prepare()
        self._crew.step()
        if self._settle():
            self._crew.finish()

    def look(self) -> None:
        """Do nothing: the state of an external environment is not set from outside."""

    def global_state(self) -> np.ndarray:
        """Return the state for centralised training as a new array: (B,S) float32."""
        if not self._own_state:
            return self.obs.reshape(self.size, -1).copy()
        self._crew.look()
        return self._crew.arrays.state.copy()

    def picture(self, b: int) -> np.ndarray:
        """Return environment b's own picture: (height, width, 3) uint8."""
        seed = seed_of(self._seeds[b], int(self.episode[b]))
        return self._crew.picture(b, seed, self.log[b, : min(int(self.clock[b]), self.world.limit)])

    # --- Checkpoints

    def state_arrays(self) -> dict[str, Any]:
        """Return where every episode stands: the actions so far, since an environment's own state is not known."""
        longest = int(self.clock[self.live].max(initial=0))
        return {
            "world": {"log": self.log[:, :longest], "obs": self.obs.copy(), "live": self.live},
            "clock": self.clock,
            "episode": self.episode,
            "score": self.score,
        }

    def load_arrays(self, arrays: Mapping[str, Any]) -> np.ndarray:
        """Play the unfinished episodes again up to where they stood.

        Returns the environments in which that came to something else, (B,) bool: they are not deterministic.
        """
        kept = arrays["world"]
        clock, live = np.array(arrays["clock"]), np.array(kept["live"])
        self.episode[:] = arrays["episode"]
        self.clock[:] = 0
        self.score[:] = self.shaped_score[:] = 0.0
        self.live[:] = False
        if live.any():
            self._begin_episodes(live)
        over = np.zeros_like(live)  # an episode that was not over ends: the environment is not deterministic
        for t in range(int(clock[live].max(initial=0))):
            self.live[:] = live & (clock > t) & ~over
            self.step(kept["log"][:, t])
            over |= self.terminated | self.truncated
        differs = live & (
            over | (self.obs != kept["obs"]).any(axis=(1, 2)) | (np.abs(self.score - arrays["score"]) > 1e-9)
        )
        self.clock[:], self.live[:] = clock, live
        self.score[~live] = arrays["score"][~live]
        return differs
