"""Statistics over result rows: interquartile means with bootstrap intervals, tests of difference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

RESAMPLES = 2_000
ENOUGH = 10  # seeds with which a bootstrap interval is what it claims
_AT_ONCE = 1_000_000  # values


def interquartile_mean(values: np.ndarray) -> np.ndarray:
    """The mean of the middle half, over the last axis: a quarter is cut off at each end, rounded down."""
    ordered = np.sort(values, axis=-1)
    cut = ordered.shape[-1] // 4
    return ordered[..., cut : ordered.shape[-1] - cut].mean(axis=-1)


@dataclass(frozen=True)
class Estimate:
    """A figure with its interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.2f} ({self.low:.2f}-{self.high:.2f})"


def bootstrap(
    clusters: Sequence[Sequence[np.ndarray] | np.ndarray],
    rng: np.random.Generator,
    confidence: float = 0.95,
    resamples: int = RESAMPLES,
) -> Estimate:
    """The interquartile mean of all values, and a percentile interval: clusters are resampled first, then the values in them.

    A cluster is what was drawn together, such as all of a seed: the values of one are alike, so that only other clusters tell
    how another sample would have come out. A value is a number, or some episodes that it is the mean of, which are resampled
    last. The middle half is that of the values: of single episodes that pay 1 or nothing, it would make 1.00 of 0.76.
    """
    sizes = [len(cluster) for cluster in clusters]
    if not sizes or min(sizes) == 0:
        raise ValueError(f"there are clusters of the sizes {sizes}; give at least one, and none empty")
    values = [np.atleast_1d(value) for cluster in clusters for value in cluster]
    again = np.stack([_means_again(value, rng, resamples) for value in values], axis=1)  # (resamples,V)
    start, size = np.cumsum([0, *sizes[:-1]]), np.array(sizes)
    figures: list[float] = []
    at_once = max(_AT_ONCE // len(values), 1) if min(sizes) == max(sizes) else 1  # samples of one length make an array
    while len(figures) < resamples:
        means = again[len(figures) : len(figures) + at_once]
        chosen = rng.integers(0, len(sizes), (len(means), len(sizes)))
        within = np.repeat(chosen, size[chosen[0]], axis=1)
        places = start[within] + (rng.random(within.shape) * size[within]).astype(np.int64)
        figures += interquartile_mean(np.take_along_axis(means, places, axis=1)).tolist()
    low, high = np.quantile(figures, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Estimate(float(interquartile_mean(np.array([value.mean() for value in values]))), float(low), float(high))


def _means_again(episodes: np.ndarray, rng: np.random.Generator, resamples: int) -> np.ndarray:
    """The means of so many resamples: (resamples,)."""
    return episodes[rng.integers(0, len(episodes), (resamples, len(episodes)))].mean(axis=1)


@cache
def coverage(seeds: int, trials: int = 400, teammates: int = 32, resamples: int = 300) -> float:
    """How often the 95% interval holds the true interquartile mean, measured on made-up data with so many seeds.

    The values of a seed have a mean of their own, off by 0.1, and scatter by 0.3 around it, all normally.
    """
    rng, hits = np.random.default_rng([seeds, trials]), 0
    for _ in range(trials):
        drawn = [rng.normal(rng.normal(0.0, 0.1), 0.3, teammates) for _ in range(seeds)]
        interval = bootstrap(drawn, rng, resamples=resamples)
        hits += interval.low <= 0.0 <= interval.high
    return hits / trials


def caveat(seeds: int) -> str:
    """What to say beside intervals over so few seeds; "" where they are what they claim, or of one seed alone."""
    if not 1 < seeds < ENOUGH:
        return ""
    return f"With {seeds} seeds such intervals hold the truth in {coverage(seeds):.0%} of trials on made-up data."


def worst_decile(means: Sequence[float]) -> float:
    """The mean over the worst tenth of the teammates, at least one."""
    ordered = np.sort(np.asarray(means, dtype=float))
    return float(ordered[: max(len(ordered) // 10, 1)].mean())


def rank_sum(first: Sequence[float], second: Sequence[float]) -> float | None:
    """The two-sided p of Wilcoxon's rank-sum test, exact but for ties; None under four values on a side, which show nothing."""
    if min(len(first), len(second)) < 4:
        return None
    mannwhitneyu = _scipy("mannwhitneyu")
    ties = len(set(first) | set(second)) < len(first) + len(second)
    return float(mannwhitneyu(first, second, alternative="two-sided", method="asymptotic" if ties else "exact").pvalue)


def signed_rank(differences: Sequence[float]) -> float | None:
    """The two-sided p of Wilcoxon's signed-rank test of paired differences; None where all are zero."""
    told_apart = [difference for difference in differences if difference != 0]
    if not told_apart:
        return None
    wilcoxon = _scipy("wilcoxon")
    return float(wilcoxon(told_apart).pvalue)


def _scipy(name: str) -> Any:
    try:
        from scipy import stats
    except ImportError as error:
        raise ImportError("tests of difference need scipy: pip install 'macop-aht[report]'") from error
    return getattr(stats, name)
