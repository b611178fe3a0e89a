"""Continual learning with group after group: the paper's backward and forward transfer."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from macop_aht.runs.records import Decision


def backward_transfer(returns: np.ndarray) -> float:
    """Return BWT, what learning does to the returns with earlier groups on average; below 0 where they are forgotten.

    `returns[k,j]` is the return with group j after learning with group k: (K,K).
    """
    count = _groups(returns)
    drops = returns - np.diag(returns)  # from what it was when group j had just been learnt
    return float(np.mean([drops[k, :k].mean() for k in range(1, count)]))


def forward_transfer(returns: np.ndarray, fresh: np.ndarray) -> float:
    """Return FWT, what earlier groups do to the return with a newly learnt one on average.

    `fresh[j]` is the return of an ego that has learnt with group j alone: (K,K) (K,).
    """
    count = _groups(returns)
    if fresh.shape != (count,):
        raise ValueError(f"fresh has the shape {fresh.shape}; it needs a return for each of the {count} groups")
    gains = np.diag(returns) - fresh
    return float(np.mean([gains[1 : k + 1].mean() for k in range(1, count)]))


def returns_over_time(decisions: Sequence[Decision]) -> np.ndarray:
    """Return the matrix of a run with group after group, from its decisions: (K,K), a row and a column for every lesson."""
    names = decisions[0].groups or []
    lessons = [(one.group, one.returns) for one in decisions if one.group is not None and one.returns is not None]
    columns = [names.index(group) for group, _ in lessons]
    return np.array([[returns[column] for column in columns] for _, returns in lessons])


def _groups(returns: np.ndarray) -> int:
    if returns.ndim != 2 or returns.shape[0] != returns.shape[1] or len(returns) < 2:
        raise ValueError(
            f"returns have the shape {returns.shape}; a sequence of K groups, at least two, needs K rows and K columns"
        )
    return len(returns)
