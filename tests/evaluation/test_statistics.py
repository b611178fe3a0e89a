"""Statistics against scipy, hand-worked numbers and known populations."""

import numpy as np
import pytest
from scipy import stats

from macop_aht.evaluation.statistics import bootstrap, interquartile_mean, rank_sum, signed_rank, worst_decile


def test_interquartile_mean_by_hand_and_by_scipy():
    assert interquartile_mean(np.array([100.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, -100.0])) == pytest.approx(
        3.5
    )  # of 2 3 4 5
    assert interquartile_mean(np.array([1.0, 2.0, 9.0])) == pytest.approx(4.0)  # nothing to cut off
    values = np.random.default_rng(0).normal(size=(7, 41))
    np.testing.assert_allclose(interquartile_mean(values), stats.trim_mean(values, 0.25, axis=1))


def test_bootstrap_of_one_seed_is_about_groups():
    rng = np.random.default_rng(0)
    alone = bootstrap({(0, g): float(g % 2) for g in range(100)}, rng)
    assert alone.value == 0.5
    assert 0.1 < alone.high - alone.low < 0.5
    # Three groups of four at 1, whose middle half is 1; 0.75 in each of four that are alike.
    assert bootstrap({(0, g): np.full(8, float(g < 3)) for g in range(4)}, rng).value == 1.0
    alike = bootstrap({(0, g): np.array([1.0, 1.0, 1.0, 0.0]) for g in range(4)}, rng)
    assert alike.low < alike.value == 0.75 < alike.high
    for nothing in ({}, {(0, 0): np.zeros(0)}):
        with pytest.raises(ValueError, match="none empty"):
            bootstrap(nothing, rng)


def test_bootstrap_crosses_groups_with_seeds():
    rng = np.random.default_rng(0)
    # Seeds that differ and groups that do not: only the seeds tell. Both seeds are the first in a quarter of the resamples.
    by_seed = bootstrap({(s, g): float(s) for s in range(2) for g in range(50)}, rng)
    assert (by_seed.low, by_seed.value, by_seed.high) == (0.0, 0.5, 1.0)
    # Two groups, 0 and 1, with all of 50 seeds: both drawn groups are the first in a quarter of the resamples. Nested in the
    # seeds, 100 values would be drawn one by one, and the interval would be within 0.35 and 0.65.
    by_group = bootstrap({(s, g): float(g) for s in range(50) for g in range(2)}, rng)
    assert (by_group.low, by_group.value, by_group.high) == (0.0, 0.5, 1.0)
    # What is missing is not made up: of two pairs that are there, 0 and 1, a resample has none, one or both of them.
    partial = bootstrap({(0, 0): 0.0, (1, 1): 1.0}, rng)
    assert (partial.low, partial.value, partial.high) == (0.0, 0.5, 1.0)
    with pytest.raises(ValueError, match="none NaN"):
        bootstrap({(0, 0): 0.0, (1, 0): float("nan")}, rng)


def test_tests_of_difference():
    assert rank_sum([1, 2, 3], [4, 5, 6]) is None
    # Four below four: of 70 orders two are as extreme.
    assert rank_sum([1, 2, 3, 4], [5, 6, 7, 8]) == pytest.approx(2 / 70)
    assert rank_sum([1, 2, 3, 4], [1, 2, 3, 4]) > 0.9
    # Five differences of one sign: of 32 signs two are as extreme.
    assert signed_rank([0.1, 0.2, 0.3, 0.4, 0.5, 0.0]) == pytest.approx(2 / 32)
    assert signed_rank([0.0, 0.0]) is None
    assert worst_decile([5.0, 1.0, 2.0]) == 1.0
    assert worst_decile(np.arange(20.0)) == 0.5
