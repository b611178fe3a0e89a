"""Statistics over result rows: interquartile means with bootstrap intervals, tests of difference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

RESAMPLES = 2_000


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
    clusters: Sequence[np.ndarray], rng: np.random.Generator, confidence: float = 0.95, resamples: int = RESAMPLES
) -> Estimate:
    """The interquartile mean of all values; a percentile interval that resamples the clusters first, then the values in them.

    A cluster is what was drawn together, such as all episodes of a seed: the values of one are alike, so that only other clusters
    tell how another sample would have come out.
    """
    sizes = [len(cluster) for cluster in clusters]
    if not sizes or min(sizes) == 0:
        raise ValueError(f"there are clusters of the sizes {sizes}; give at least one, and none empty")
    values = np.concatenate(clusters)
    start, size = np.cumsum([0, *sizes[:-1]]), np.array(sizes)
    figures = np.empty(resamples)
    for k in range(resamples):
        chosen = rng.integers(0, len(sizes), len(sizes))
        within = np.repeat(chosen, size[chosen])
        figures[k] = interquartile_mean(
            values[start[within] + (rng.random(len(within)) * size[within]).astype(np.int64)]
        )
    low, high = np.quantile(figures, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Estimate(float(interquartile_mean(values)), float(low), float(high))


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
