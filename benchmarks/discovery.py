"""What does random play discover, before any group is trained?

    python benchmarks/discovery.py [--scenarios PP2 …] [--seeds 0 1 2]

The random steps, exploration and number of groups are those of Macop+ with the preset `strong`. Outcomes are the scenario's own
labels, which discovery does not see.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import torch
from macop import OUTCOMES

from macop_aht.learner.threads import use_threads
from macop_aht.methods import presets
from macop_aht.methods.discovery import discover
from macop_aht.scenarios import build

CPU = torch.device("cpu")


def row(scenario: str, seeds: list[int]) -> str:
    """Return the line of a scenario."""
    world, config = build(scenario), presets.macop("strong", scenario)
    nothing = np.zeros((0, world.n_agents * len(world.observations)))
    counts, groups, pure, seconds = [], [], [], []
    for seed in seeds:
        began = time.process_time()
        found = discover(world, config.teammates, config.discovery, config.population, nothing, seed, CPU)
        seconds.append(time.process_time() - began)
        if found is None:
            raise SystemExit(f"nothing was rewarded in {scenario} with seed {seed}")
        outcome = found.seeds.episodes["outcome"]
        counts.append(Counter(outcome.tolist()))
        begun = [
            Counter(outcome[numbers].tolist()).most_common(1)[0] for numbers in found.seeds.numbers if len(numbers)
        ]
        groups.append(len({name for name, _ in begun}))
        pure.append(sum(count for _, count in begun) / sum(map(len, found.seeds.numbers)))
    each = ", ".join(f"{name}: {'/'.join(str(own[name]) for own in counts)}" for name in OUTCOMES[scenario])
    cells = [
        scenario,
        ", ".join(str(len({*own} & {*OUTCOMES[scenario]})) for own in counts) + f" of {len(OUTCOMES[scenario])}",
        each,
        ", ".join(map(str, groups)) + f" of {min(config.population, len(OUTCOMES[scenario]))}",
        ", ".join(f"{share:.0%}" for share in pure),
        f"{np.mean(seconds):.1f}",
    ]
    return f"| {' | '.join(cells)} |"


def main() -> int:
    able = [name for name in OUTCOMES if presets.macop("strong", name).discovery]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenarios", nargs="+", choices=able, default=able)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "discovery.md")
    arguments = parser.parse_args()
    use_threads(1)
    lines = [
        "# What random play discovers",
        "",
        f"`python benchmarks/discovery.py --seeds {' '.join(map(str, arguments.seeds))}`, a figure per seed. Successful episodes "
        "of random play by outcome; the different outcomes that the groups of a first population begin with; the share of "
        "their episodes that have the outcome of most of them; CPU seconds.",
        "",
        "| scenario | outcomes | episodes of each | outcomes that groups begin with | alike | seconds |",
        "|---|---|---|---|---|---|",
    ]
    for scenario in arguments.scenarios:
        lines.append(row(scenario, arguments.seeds))
        print(lines[-1], flush=True)
    arguments.out.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
