"""What do random teams achieve? Mean return and outcomes of random episodes, by the kind of exploration (deviation 4).

python benchmarks/exploration.py [--episodes 6000] [--out FILE]
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import torch

from macop_aht.episodes.runner import Lockstep, run
from macop_aht.learner.networks import Shape, Stack
from macop_aht.learner.seats import Exploration, NetworkSeats, Seating
from macop_aht.scenarios import SCENARIOS, build

WAYS = {"independent": (0.0, 0.0), "persistent 0.9": (0.9, 0.0), "together 0.5": (0.0, 0.5), "both": (0.9, 0.5)}
HUNTS = {"0.9, 0.5": (0.9, 0.5), "0.9, 1": (0.9, 1.0), "0.7, 1": (0.7, 1.0), "0.5, 1": (0.5, 1.0)}


def explore(scenario: str, persistence: float, together: float, episodes: int) -> tuple[float, Counter[str]]:
    """Return the mean return of teams that only explore, and how often each outcome occurred."""
    world = build(scenario)
    seats = NetworkSeats(Seating.self_play(Stack(Shape.of(world), 1), episodes), torch.device("cpu"))
    seats.exploration = Exploration(np.ones((1, 1)), persistence, together)
    played = run(Lockstep(world, range(episodes)), [seats])
    return float(played.returns.mean()), Counter(played.outcomes[:, 0].tolist())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=6_000)
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
        figures = [explore(scenario, *way, arguments.episodes)[0] for way in WAYS.values()]
        lines.append(f"| {scenario} | {' | '.join(f'{figure:.4f}' for figure in figures)} |")
        print(lines[-1], flush=True)
    lines += ["", "How often predators caught which prey, by persistence and together:", ""]
    lines += [f"| scenario | {' | '.join(HUNTS)} |", f"|---|{'---|' * len(HUNTS)}"]
    for scenario, prey in (("PP1", 3), ("PP2", 5)):
        caught = [explore(scenario, *way, arguments.episodes)[1] for way in HUNTS.values()]
        cells = [" ".join(str(outcomes[f"prey {k}"]) for k in range(prey)) for outcomes in caught]
        lines.append(f"| {scenario} | {' | '.join(cells)} |")
        print(lines[-1], flush=True)
    arguments.out.write_text("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
