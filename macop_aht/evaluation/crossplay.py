"""Cross-play: the returns of every policy in the ego's seats with every policy as the teammate."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from macop_aht.episodes.matches import play
from macop_aht.policies.protocol import Policy
from macop_aht.scenarios.spec import World
from macop_aht.util import write_csv


def matrix(world: World, policies: Sequence[Policy], episodes: int, seed: int = 0) -> np.ndarray:
    """Return the mean returns, (K,K): the ego's policy in the row, the teammate's in the column."""
    return np.stack([play(world, ego, policies, episodes, seed).returns.mean(axis=1) for ego in policies])


def summary(returns: np.ndarray) -> str:
    """Return a sentence with the mean returns in self-play and in cross-play."""
    own, others = np.diag(returns), returns[~np.eye(len(returns), dtype=bool)]
    apart = f", {others.mean():.2f} with each other" if len(others) else ""
    return f"{len(returns)} policies: mean return {own.mean():.2f} with themselves{apart}"


def write(returns: np.ndarray, names: Sequence[str], title: str, out: Path) -> list[Path]:
    """Write OUT.csv, and OUT.png where matplotlib is installed; return the files that were written."""
    written = [Path(f"{out}.csv")]
    lines = [["ego", *names], *([name, *row] for name, row in zip(names, returns.tolist(), strict=True))]
    write_csv(written[0], lines)
    if find_spec("matplotlib"):
        from macop_aht import plots

        written.append(Path(f"{out}.png"))
        plots.heat_map(returns, names, names, title, written[1])
    return written
