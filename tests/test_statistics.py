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


def test_bootstrap_is_about_clusters():
    rng = np.random.default_rng(0)
    alone = bootstrap([np.array([0.0, 1.0] * 50)], rng)
    assert alone.value == 0.5
    assert alone.high - alone.low < 0.5  # one cluster: only the values vary
    apart = bootstrap([np.zeros(50), np.ones(50)], rng)
    assert (apart.low, apart.value, apart.high) == (0.0, 0.5, 1.0)  # two that never vary inside: only they tell
    # Values of which each is the mean of some episodes: three of four at 1, whose middle half is 1; 0.75 among four alike.
    teammates = [np.ones(8), np.ones(8), np.ones(8), np.zeros(8)]
    assert bootstrap([[one] for one in teammates], rng).value == 1.0
    alike = bootstrap([[np.array([1.0, 1.0, 1.0, 0.0])] for _ in range(4)], rng)
    assert alike.low < alike.value == 0.75 < alike.high
    with pytest.raises(ValueError, match="none empty"):
        bootstrap([np.zeros(3), np.zeros(0)], rng)


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
