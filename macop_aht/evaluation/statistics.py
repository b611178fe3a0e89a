"""Statistics over result rows: interquartile means with bootstrap intervals, tests of difference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

RESAMPLES = 2_000
ENOUGH = 10  # seeds from which a 95% bootstrap interval covers about 95%


def interquartile_mean(values: np.ndarray) -> np.ndarray:
    """Return the mean of the middle half over the last axis: a quarter is cut off at each end, rounded down."""
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
    values: Mapping[Any, Any],
    rng: np.random.Generator,
    confidence: float = 0.95,
    resamples: int = RESAMPLES,
) -> Estimate:
    """Return the interquartile mean of values by (seed, group), and its percentile interval.

    A value is a number, or the episodes whose mean it is. Groups are crossed with seeds, since the egos of all seeds meet the
    same groups: a resample draws seeds, draws groups, takes the values of all drawn pairs, and draws the episodes of each last.
    Pairs that are missing stay missing. The middle half is that of the values: of single episodes that pay 1 or nothing, it
    would make 1.00 of 0.76.
    """
    if not values or any(np.size(value) == 0 or np.isnan(value).any() for value in values.values()):
        raise ValueError(f"there are {len(values)} values; give at least one, none empty and none NaN")
    seeds, groups = (list(dict.fromkeys(pair[k] for pair in values)) for k in (0, 1))
    again = np.full((resamples, len(seeds), len(groups)), np.nan)
    for (seed, group), value in values.items():
        again[:, seeds.index(seed), groups.index(group)] = _means_again(np.atleast_1d(value), rng, resamples)
    drawn_seeds, drawn_groups = (rng.integers(0, len(own), (resamples, len(own))) for own in (seeds, groups))
    drawn = again[np.arange(resamples)[:, None, None], drawn_seeds[:, :, None], drawn_groups[:, None, :]]
    drawn = drawn.reshape(resamples, -1)
    if np.isnan(drawn).any():
        present = [one[~np.isnan(one)] for one in drawn]
        figures = np.array([interquartile_mean(one) for one in present if len(one)])
    else:
        figures = interquartile_mean(drawn)
    low, high = np.quantile(figures, [(1 - confidence) / 2, (1 + confidence) / 2])
    middle = interquartile_mean(np.array([np.mean(value) for value in values.values()]))
    return Estimate(float(middle), float(low), float(high))


def _means_again(episodes: np.ndarray, rng: np.random.Generator, resamples: int) -> np.ndarray:
    """The means of so many resamples: (resamples,)."""
    return episodes[rng.integers(0, len(episodes), (resamples, len(episodes)))].mean(axis=1)


@cache
def coverage(seeds: int, trials: int = 400, groups: int = 32, resamples: int = 300) -> float:
    """Return how often the 95% interval covers the true interquartile mean, measured on synthetic data with so many seeds.

    A value is the sum of a seed's effect, a group's and its own, all normal, with standard deviations 0.1, 0.3 and 0.1.
    """
    rng, hits = np.random.default_rng([seeds, trials]), 0
    for _ in range(trials):
        table = rng.normal(0.0, 0.1, (seeds, 1)) + rng.normal(0.0, 0.3, groups) + rng.normal(0.0, 0.1, (seeds, groups))
        drawn = {(s, g): float(table[s, g]) for s in range(seeds) for g in range(groups)}
        interval = bootstrap(drawn, rng, resamples=resamples)
        hits += interval.low <= 0.0 <= interval.high
    return hits / trials


def caveat(seeds: int) -> str:
    """Return a warning for intervals over few seeds; "" where there are enough, or one alone."""
    if not 1 < seeds < ENOUGH:
        return ""
    return (
        f"With {seeds} seeds, such intervals cover the true value in {coverage(seeds):.0%} of trials on synthetic data."
    )


def worst_decile(means: Sequence[float]) -> float:
    """Return the mean over the worst tenth of the teammates, at least one."""
    ordered = np.sort(np.asarray(means, dtype=float))
    return float(ordered[: max(len(ordered) // 10, 1)].mean())


def rank_sum(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Return the two-sided p of Wilcoxon's rank-sum test, exact but for ties; None under four values on a side."""
    if min(len(first), len(second)) < 4:
        return None
    mannwhitneyu = _scipy("mannwhitneyu")
    ties = len(set(first) | set(second)) < len(first) + len(second)
    return float(mannwhitneyu(first, second, alternative="two-sided", method="asymptotic" if ties else "exact").pvalue)


def signed_rank(differences: Sequence[float]) -> float | None:
    """Return the two-sided p of Wilcoxon's signed-rank test of paired differences; None where all are zero."""
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
