"""B environments that step together: what a reset of some of them does to the others."""

import numpy as np

from macop_aht.scenarios import build
from macop_aht.scenarios.batch import Batch

STAY = np.zeros((2, 2), dtype=np.int64)


def collect_in_both(batch):
    """Place both agents next to the food in the corner, and step: the food is collected and pays 1."""
    batch.state.pos[:] = [(0, 1), (1, 0)]
    batch.step(STAY)


def test_score_clock_and_episode_begin_anew_where_an_episode_begins():
    batch = Batch(build("LBF4"), 2)
    batch.seed([0, 1])
    batch.reset()
    collect_in_both(batch)
    assert (batch.score.tolist(), batch.clock.tolist(), batch.episode.tolist()) == ([1, 1], [1, 1], [0, 0])
    batch.reset(np.array([True, False]))
    assert (batch.score.tolist(), batch.clock.tolist(), batch.episode.tolist()) == ([0, 1], [0, 1], [1, 0])
    batch.reset()
    collect_in_both(batch)  # the return of one episode, not of two
    assert (batch.score.tolist(), batch.clock.tolist(), batch.episode.tolist()) == ([1, 1], [1, 1], [2, 1])
