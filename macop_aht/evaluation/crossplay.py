"""Who gets on with whom: the matrix of returns of any set of policies, each in the ego's places with each as the teammate."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from macop_aht.episodes.matches import play
from macop_aht.policies.protocol import Policy
from macop_aht.scenarios.spec import World


def matrix(world: World, policies: Sequence[Policy], episodes: int, seed: int = 0) -> np.ndarray:
    """Mean returns, the ego's policy in the row, the teammate's in the column: (K,K)."""
    return np.stack([play(world, ego, policies, episodes, seed).returns.mean(axis=1) for ego in policies])


def summary(returns: np.ndarray) -> str:
    """How compatible they are: with themselves, and with the others."""
    own, others = np.diag(returns), returns[~np.eye(len(returns), dtype=bool)]
    apart = f", {others.mean():.2f} with each other" if len(others) else ""
    return f"{len(returns)} policies: mean return {own.mean():.2f} with themselves{apart}"


def write(returns: np.ndarray, names: Sequence[str], title: str, out: Path) -> None:
    """FILE.csv, and FILE.png where matplotlib is installed; `out` is FILE without an ending."""
    with open(f"{out}.csv", "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(
            [["ego", *names], *([name, *row] for name, row in zip(names, returns.tolist(), strict=True))]
        )
    from macop_aht import plots

    plots.heat_map(returns, names, names, title, Path(f"{out}.png"))
