"""How fast are the environments, and the libraries that they follow? All are measured in one run on one core.

    python benchmarks/env_throughput.py [--rounds 7] [--out benchmarks/results/env_throughput.md] [--readme docs/speed.md]

Rates are medians over rounds. In each round all contestants of a group run one after the other, so that ratios hold on a busy
machine. Actions are drawn in advance. An environment step is one step of the whole team; in combat it has eight game loops.
The exit code is 1 where a required rate is missed.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

import macop_aht  # noqa: F401 - registers the environments
from macop_aht.scenarios import build
from macop_aht.scenarios.batch import Batch

Runner = Callable[[], int]  # runs for a while, gives the number of environment steps
SLICE = 0.25  # seconds per contestant and round
BATCH = 1_024  # environments of the bare kernels
VECTOR = 256  # environments behind gym.make_vec


def single(env_id: str, **kwargs: Any) -> Runner:
    """Return a runner of our or lbforaging's environment through `gym.make`, with random actions."""
    env = gym.make(env_id, **kwargs)
    env.action_space.seed(0)
    actions = [env.action_space.sample() for _ in range(1_000)]
    env.reset(seed=0)

    def run() -> int:
        for action in actions:
            _, _, terminated, truncated, _ = env.step(action)
            if terminated or truncated:
                env.reset()
        return len(actions)

    return run


def mpe(module: str, **kwargs: Any) -> Runner:
    """Return a runner of mpe2's own parallel environment, with random actions."""
    from importlib import import_module

    env = import_module(f"mpe2.{module}").parallel_env(max_cycles=25, **kwargs)
    env.reset(seed=0)
    rng = np.random.default_rng(0)
    actions = [{agent: int(rng.integers(5)) for agent in env.possible_agents} for _ in range(200)]

    def run() -> int:
        for action in actions:
            env.step(action)
            if not env.agents:
                env.reset()
        return len(actions)

    return run


def kernels(scenario: str, size: int = BATCH) -> Runner:
    """Return a runner of the bare batched kernels: step, observation and mask; ended environments are reset."""
    world = build(scenario)
    batch = Batch(world, size)
    batch.seed(range(size))
    batch.reset()
    actions = np.random.default_rng(0).integers(0, len(world.actions), (16, size, world.n_agents))

    def run() -> int:
        for action in actions:
            batch.step(action)
            over = batch.terminated | batch.truncated
            if over.any():
                batch.reset(over)
        return size * len(actions)

    return run


def vector(scenario: str, teammate: str = "random") -> Runner:
    """Return a runner of an environment through `gym.make_vec`, with a random ego."""
    envs = gym.make_vec(f"Macop{scenario}-v0", num_envs=VECTOR, teammate=teammate)
    envs.reset(seed=0)
    envs.action_space.seed(0)
    actions = [envs.action_space.sample() for _ in range(50)]

    def run() -> int:
        for action in actions:
            envs.step(action)
        return VECTOR * len(actions)

    return run


def measure(contestants: dict[str, Runner], rounds: int) -> dict[str, list[float]]:
    """Return the steps per second of every contestant in every round."""
    rates: dict[str, list[float]] = {name: [] for name in contestants}
    for run in contestants.values():
        run()  # compile and warm up
    for _ in range(rounds):
        for name, run in contestants.items():
            steps, start = 0, time.perf_counter()
            while (elapsed := time.perf_counter() - start) < SLICE:
                steps += run()
            rates[name].append(steps / elapsed)
    return rates


def layers(scenario: str, size: int) -> dict[str, float]:
    """Return the microseconds of one step in each layer, without the layers inside it, in random play."""
    env_id = f"Macop{scenario}-v0"
    outer: Any = (
        gym.make_vec(env_id, num_envs=size, teammate="random") if size > 1 else gym.make(env_id, teammate="random")
    )
    outer.reset(seed=0)
    env = outer.unwrapped
    game, spent = env._game, {"whole": 0.0}

    def clock(owner: Any, name: str) -> None:
        inner = getattr(owner, name)
        spent[name] = 0.0

        def clocked(*arguments: Any) -> Any:
            start = time.perf_counter()
            result = inner(*arguments)
            spent[name] += time.perf_counter() - start
            return result

        setattr(owner, name, clocked)

    clock(game.batch, "_advance")
    clock(game.batch, "step")
    clock(game.population, "act")
    clock(game, "reset")
    outer.action_space.seed(0)
    actions = [outer.action_space.sample() for _ in range(2_000 if size == 1 else 200)]
    for action in actions:
        start = time.perf_counter()
        result = outer.step(action)
        if size == 1 and (result[2] or result[3]):
            outer.reset()
        spent["whole"] += time.perf_counter() - start
    each = {name: 1e6 * seconds / len(actions) for name, seconds in spent.items()}
    return {
        "kernel: step, observation, mask": each["_advance"],
        "clocks and draws": each["step"] - each["_advance"],
        "random teammate": each["act"],
        "resets": each["reset"],
        "checks, copies, info, Gymnasium's wrappers": each["whole"] - each["step"] - each["act"] - each["reset"],
    }


class Report:
    """Lines for the screen and the file, and whether every required rate was reached."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.summary: list[str] = ["| what | figure |", "|---|---|"]  # for the README
        self.met = True

    def say(self, line: str = "") -> None:
        print(line, flush=True)
        self.lines.append(line)

    def table(self, *columns: str) -> None:
        self.say("| " + " | ".join(columns) + " |")
        self.say("|" + "---|" * len(columns))

    def row(self, what: str, rate: float, got: float, bar: float, unit: str) -> None:
        self.met &= got >= bar
        shown, wanted = (f"{got:.1f}x", f"{bar:.0f}x") if unit == "x" else (_rate(got), _rate(bar))
        self.say(f"| {what} | {_rate(rate)} | {shown} | {wanted} | {'yes' if got >= bar else 'NO'} |")


def _rate(steps: float) -> str:
    return f"{steps / 1e6:.2f}M" if steps >= 1e6 else f"{steps / 1e3:.1f}k"


def against_references(report: Report, rounds: int) -> None:
    groups = {
        # Four foods on a 6x6 grid make lbforaging's resets slow, since it looks for places by chance: two are fairer.
        "LBF4": (8, "lbforaging 6x6, 2 foods", single("lbforaging:Foraging-6x6-2p-2f-coop-v3")),
        "CN3": (20, "mpe2 simple_spread", mpe("simple_spread_v3", N=3)),
        "PP1": (20, "mpe2 simple_tag", mpe("simple_tag_v3", num_good=3, num_adversaries=2, num_obstacles=0)),
    }
    report.say("\n## Single environments, through `gym.make`, random ego and random teammate\n")
    report.table("scenario and its reference", "our steps/s", "times the reference", "bar", "met")
    for scenario, (bar, reference, theirs) in groups.items():
        rates = measure({"ours": single(f"Macop{scenario}-v0", teammate="random"), "theirs": theirs}, rounds)
        ratio = statistics.median(a / b for a, b in zip(rates["ours"], rates["theirs"], strict=True))
        theirs_rate = statistics.median(rates["theirs"])
        what = f"{scenario}; {reference} ({_rate(theirs_rate)})"
        report.row(what, statistics.median(rates["ours"]), ratio, bar, "x")
        report.summary.append(f"| {scenario} through `gym.make`, against {reference} | {ratio:.0f} times as fast |")


def in_batches(report: Report, rounds: int) -> None:
    families = {
        "LBF1": (10e6, 1e6), "LBF4": (10e6, 1e6), "PP1": (1.5e6, 5e5), "PP2": (1.5e6, 5e5), "CN2": (1.5e6, 5e5),
        "CN3": (1.5e6, 5e5), "SMAC1": (5e5, 2e5), "SMAC2": (5e5, 2e5),
    }  # fmt: skip
    for column, title, make in (
        (0, f"Batched kernels, {BATCH} environments, one core", kernels),
        (1, f"Vector environments, through `gym.make_vec`, {VECTOR} environments, random teammate", vector),
    ):
        report.say(f"\n## {title}\n")
        report.table("scenario", "best round, steps/s", "median", "bar", "met")
        rates = measure({scenario: make(scenario) for scenario in families}, rounds)
        medians = [_rate(statistics.median(rates[scenario])) for scenario in ("LBF4", "PP1", "CN3", "SMAC1")]
        report.summary.append(f"| {title.split(', random')[0]}: LBF4, PP1, CN3, SMAC1 | {', '.join(medians)} steps/s |")
        for scenario, bars in families.items():
            median = statistics.median(rates[scenario])
            report.row(scenario, max(rates[scenario]), median, bars[column], "steps")
    report.say("\nThe same with the default population of all scripted teammates:\n")
    report.table("scenario", "steps/s")
    rates = measure({scenario: vector(scenario, "scripted") for scenario in families}, rounds)
    for scenario in families:
        report.say(f"| {scenario} | {_rate(statistics.median(rates[scenario]))} |")


def by_batch_size(report: Report, rounds: int) -> None:
    """Report how the rates depend on the size of the batch."""
    scenarios = ("LBF1", "LBF4", "PP1", "CN3", "SMAC1", "SMAC2")
    report.say("\n## Batched kernels by the number of environments, median steps/s (LBF's bar is 10M, combat's 500k)\n")
    report.table("environments", *scenarios)
    for size in (256, 1_024, 4_096, 16_384):
        rates = measure({scenario: kernels(scenario, size) for scenario in scenarios}, rounds)
        report.say(f"| {size} | " + " | ".join(_rate(statistics.median(rates[name])) for name in scenarios) + " |")


def where_the_time_goes(report: Report) -> None:
    report.say("\n## Where the time goes, microseconds per step\n")
    columns = [(scenario, size) for size in (1, VECTOR) for scenario in ("LBF4", "PP1", "CN3", "SMAC1")]
    report.table("layer", *(f"{scenario}, {size}" for scenario, size in columns))
    rows = [layers(scenario, size) for scenario, size in columns]
    for layer in rows[0]:
        report.say(f"| {layer} | " + " | ".join(f"{row[layer]:.1f}" for row in rows) + " |")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--out", type=Path, help="also write the tables to this file")
    parser.add_argument("--readme", type=Path, help="also put a summary into this file, between its marks")
    arguments = parser.parse_args()
    report = Report()
    report.say("# Environment throughput")
    report.say(f"\n`python benchmarks/env_throughput.py --rounds {arguments.rounds}`")
    against_references(report, arguments.rounds)
    in_batches(report, arguments.rounds)
    by_batch_size(report, arguments.rounds)
    where_the_time_goes(report)
    report.say(f"\n{'Every bar is met.' if report.met else 'Not every bar is met.'}")
    if arguments.out:
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text("\n".join(report.lines) + "\n")
    if arguments.readme:
        before, _, rest = arguments.readme.read_text().partition("<!-- env_throughput -->\n")
        after = rest.partition("<!-- end -->")[2]
        summary = "\n".join(report.summary)
        arguments.readme.write_text(f"{before}<!-- env_throughput -->\n{summary}\n<!-- end -->{after}")
    return 0 if report.met else 1


if __name__ == "__main__":
    sys.exit(main())
