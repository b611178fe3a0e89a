"""What does a teammate inside cost over PettingZoo's own loop, and what do worker processes bring?

    python benchmarks/embed_speed.py [--rounds 7] [--out benchmarks/results/embed_speed.md]

The environment is MPE's simple_spread. The contestants run one after the other in each round, so that ratios hold on a busy
machine; rates are medians over rounds. In PettingZoo's loop, the script draws the teammates' random actions itself. The exit code
is 1 where the overhead is more than 15%, or where two workers bring less than 1.6 times the steps of one process.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from mpe2 import simple_spread_v3

import macop_aht
from macop_aht.scenarios import External, build, use_workers
from macop_aht.scenarios.batch import make_batch

STEPS = 1_000
BATCH = 64  # environments with and without workers
OVERHEAD, SPEEDUP = 0.15, 1.6


def bare() -> Callable[[], int]:
    """Return a runner of PettingZoo's own loop, with random teammates."""
    env, rng = simple_spread_v3.parallel_env(), np.random.default_rng(0)
    actions = rng.integers(0, 5, STEPS)

    def run() -> int:
        env.reset(seed=0)
        for action in actions.tolist():
            env.step({"agent_0": action, "agent_1": int(rng.integers(5)), "agent_2": int(rng.integers(5))})
            if not env.agents:
                env.reset()
        return STEPS

    return run


def embedded() -> Callable[[], int]:
    """Return a runner of the same environment with random teammates inside."""
    env = macop_aht.embed(simple_spread_v3.parallel_env, teammate="random")
    actions = np.random.default_rng(0).integers(0, 5, STEPS)

    def run() -> int:
        env.reset(seed=0)
        for action in actions.tolist():
            _, _, terminated, truncated, _ = env.step(action)
            if terminated or truncated:
                env.reset()
        return STEPS

    return run


def batched(workers: int) -> Callable[[], int]:
    """Return a runner of many environments, in this process or in others."""
    use_workers(workers)
    batch = make_batch(build(External(make=simple_spread_v3.parallel_env)), BATCH)
    batch.reset()
    actions = np.random.default_rng(0).integers(0, 5, (STEPS // BATCH, BATCH, 3))

    def run() -> int:
        for action in actions:
            batch.step(action)
            over = batch.terminated | batch.truncated
            if over.any():
                batch.reset(over)
        return len(actions) * BATCH

    return run


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    runners = {
        "PettingZoo's loop": bare(),
        "teammates inside": embedded(),
        f"{BATCH} environments, one process": batched(1),
        f"{BATCH} environments, two workers": batched(2),
    }
    rates: dict[str, list[float]] = {name: [] for name in runners}
    for _ in range(arguments.rounds):
        for name, run in runners.items():
            began = time.perf_counter()
            rates[name].append(run() / (time.perf_counter() - began))
    one, inside, alone, two = rates.values()
    overhead = statistics.median(a / b for a, b in zip(one, inside, strict=True)) - 1
    speedup = statistics.median(b / a for a, b in zip(alone, two, strict=True))
    lines = ["| simple_spread | steps per second |", "|---|---|"]
    lines += [f"| {name} | {statistics.median(own):,.0f} |" for name, own in rates.items()]
    lines += ["", f"Overhead of teammates inside: {overhead:.0%}. Two workers: {speedup:.2f} times one process."]
    print("\n".join(lines))
    if arguments.out:
        arguments.out.write_text(
            "\n".join(["# Speed of environments from outside", "", *lines]) + "\n", encoding="utf-8"
        )
    return int(overhead > OVERHEAD or speedup < SPEEDUP)


if __name__ == "__main__":
    sys.exit(main())
