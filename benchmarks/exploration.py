"""What random teams hit on: the mean return of random episodes, by how exploration draws (docs/deviations.md, 4).

python benchmarks/exploration.py [--episodes 4000] [--out FILE]
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
import torch

from macop_aht.learner.networks import Shape, Stack
from macop_aht.learner.rollout import Exploration, Rollout, Seating
from macop_aht.scenarios import SCENARIOS, build

WAYS = {"independent": (0.0, 0.0), "persistent 0.9": (0.9, 0.0), "together 0.5": (0.0, 0.5), "both": (0.9, 0.5)}


def random_return(scenario: str, persistence: float, together: float, episodes: int) -> float:
    """The mean return of teams that do nothing but explore."""
    world = build(scenario)
    rollout = Rollout(world, Seating.self_play(Stack(Shape.of(world), 1), episodes), 0, torch.device("cpu"))
    exploration = Exploration(np.ones((1, 1)), persistence, together)
    returns, running = np.zeros(episodes), np.ones(episodes, dtype=np.bool_)
    while running.any():
        rollout.act(exploration)
        over = rollout.step()
        returns[over & running] = rollout.batch.score[over & running]
        running &= ~over
        if over.any():
            rollout.begin(over)
    return float(returns.mean())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=4_000)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "exploration.md")
    arguments = parser.parse_args()
    lines = [
        "# What random teams hit on",
        "",
        f"`python benchmarks/exploration.py --episodes {arguments.episodes}`: mean return of teams whose every action is random.",
        "",
        f"| scenario | {' | '.join(WAYS)} |",
        f"|---|{'---|' * len(WAYS)}",
    ]
    for scenario in SCENARIOS:
        figures = [random_return(scenario, *way, arguments.episodes) for way in WAYS.values()]
        lines.append(f"| {scenario} | {' | '.join(f'{figure:.4f}' for figure in figures)} |")
        print(lines[-1], flush=True)
    arguments.out.write_text("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
