"""The testing phase: which of an ego's heads to play with a teammate, by some episodes with each. Needs no torch."""

from __future__ import annotations

import numpy as np

EPISODES_PER_HEAD = 4  # of choosing, with a teammate; the paper gives no number


def turns(heads: int, episodes: int | None = None) -> np.ndarray:
    """Return the head to play in each episode of choosing: all in turn; without `episodes`, EPISODES_PER_HEAD each: (E,)."""
    return np.arange(EPISODES_PER_HEAD * heads if episodes is None else episodes) % heads


def choose_head(returns: np.ndarray, heads: int) -> np.ndarray:
    """Return the head with the highest mean return, by the episodes of `turns`; the first of equals: (…,E) -> (…).

    A head that was not played is never chosen.
    """
    played = turns(heads, returns.shape[-1])
    means = np.full((*returns.shape[:-1], heads), -np.inf)
    for head in range(min(heads, returns.shape[-1])):
        means[..., head] = returns[..., played == head].mean(axis=-1)
    return means.argmax(axis=-1)
