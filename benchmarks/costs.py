"""What does training cost in each scenario? The result is macop_aht/campaign/costs.toml, for `macop campaign --dry-run`.

    python benchmarks/costs.py [--scenarios LBF4 …] [--presets paper strong] [--share 0.25] [--factors LBF4]

The unit is core-minutes per million steps, with an update per episode by Q-learning, for a population and for the ego's lessons.
It is measured as process time, over the first part of Macop's first population and of a lesson with one of its groups, with the
presets `paper`, and `strong` for PPO. A method's factor says how much more its mutation, population or lessons take. It is
measured over whole phases.
Scenarios that are not measured keep their lines in the file.
"""

from __future__ import annotations

import argparse
import sys
import time
import tomllib
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from macop_aht.campaign import estimate
from macop_aht.learner.networks import Stack
from macop_aht.learner.threads import use_threads
from macop_aht.methods import (
    clear,
    ewc,
    fcp,
    finetune,
    lipo,
    macop,
    macop_plus,
    ppo_learner,
    presets,
    single_head,
    trajedi,
)
from macop_aht.methods.continual import Lesson
from macop_aht.methods.phases import Setup, Teams, fresh_ego, whole
from macop_aht.methods.training import METHODS, configure
from macop_aht.policies import resolve
from macop_aht.scenarios import SCENARIOS, build

FILE = Path(estimate.__file__).parent / "costs.toml"
CPU = torch.device("cpu")
POPULATIONS: dict[str, Callable[[Setup[Any]], Teams]] = {
    "fcp": fcp.independent_teams,
    "trajedi": trajedi.diverse_teams,
    "lipo": lipo.incompatible_teams,
}
TEACHERS: dict[str, Callable[[Setup[Any], Lesson], dict[str, Any]]] = {
    "single-head": single_head.teach,
    "ewc": ewc.teach,
    "clear": clear.teach,
}


def minutes(work: Callable[[], Any]) -> tuple[float, Any]:
    """Return the process time of some work, in minutes, and its result."""
    began = time.process_time()
    result = work()
    return (time.process_time() - began) / 60, result


def settings(scenario: str, method: str, share: float, preset: str = "paper") -> Setup[Any]:
    """Return a method's settings, with a share of Macop's steps in each phase."""
    usual = presets.macop(preset, scenario)
    fewer = replace(usual, teammate_steps=round(share * usual.teammate_steps), ego_steps=round(share * usual.ego_steps))
    config = configure(method, fewer)
    if hasattr(config, "teammates") and method != "macop":
        config = replace(config, teammates=replace(config.teammates, steps=fewer.teammate_steps))
    return Setup(build(scenario), config, 0, CPU)


def per_million(took: float, steps: int, ratio: float) -> float:
    """Return the minutes per million steps, with an update per episode, of a phase that took `took` minutes."""
    return took / steps * estimate.MILLION * ratio


def of_scenario(scenario: str, share: float, preset: str = "paper") -> tuple[dict[str, float], Teams]:
    """Return the costs of a population and of a lesson, and the population."""
    setup = settings(scenario, "macop", share, preset)
    config = setup.config
    took, teams = minutes(lambda: macop.first_population(setup))
    ratios = [1.0 if part.learner == "ppo" else part.ratio for part in (config.teammates, config.ego)]
    population = per_million(took, config.teammate_steps, ratios[0])
    took, _ = taught(settings(scenario, "finetune", share, preset), finetune.teach, Stack.gather([(teams.net, 0)]), {})
    return {"population": population, "lesson": per_million(took, config.ego_steps, ratios[1])}, teams


def taught(setup: Setup[Any], teach: Callable[..., Any], group: Stack, memory: dict[str, Any]) -> tuple[float, Any]:
    """Run a lesson with a group, for an ego that keeps something of earlier groups."""
    ego = fresh_ego(setup, 1, 0)
    return minutes(lambda: teach(setup, Lesson("", whole(ego), group, memory, seed=1)))


def factors(scenario: str) -> dict[str, float]:
    """Return the factor of every method, relative to the costs of the scenario."""
    share = 1.0
    costs, teams = of_scenario(scenario, share)
    setup = settings(scenario, "macop", share)
    config, found = setup.config, {}
    for name in ("macop", "macop+"):
        own = setup._replace(config=configure(name, config))
        known = macop_plus.Known.of(own, teams.net, own.config.mutation, (0,)) if name == "macop+" else None
        work = partial(macop.mutate, own, 2, fresh_ego(setup, 1, 0), teams, known)
        took, _ = minutes(work)
        found[name] = per_million(took, config.teammate_steps, own.config.mutation.ratio) / costs["population"]
    for name, generate in POPULATIONS.items():
        own = settings(scenario, name, share)
        took, _ = minutes(lambda own=own, generate=generate: generate(own))  # type: ignore[misc]
        stage = own.config.teammates
        found[name] = per_million(took, stage.steps, stage.training.ratio) / costs["population"]
    for name, teach in TEACHERS.items():
        own = settings(scenario, name, share)
        _, memory = taught(own, teach, Stack.gather([(teams.net, 0)]), {})
        took, _ = taught(own, teach, Stack.gather([(teams.net, 1)]), memory)
        found[name] = per_million(took, config.ego_steps, config.ego.ratio) / costs["lesson"]
    return found


def of_ppo(steps: int = 40_000) -> float:
    """Return the cost of Stable-Baselines3's PPO. Its steps and updates cost about the same in all scenarios."""
    setup = settings("LBF4", "ppo", 1.0)
    setup = setup._replace(config=replace(setup.config, steps=steps))
    mates = resolve("scripted:nearest", setup.world)
    took, _ = minutes(lambda: ppo_learner.learn(setup, fresh_ego(setup, 1, 0), mates, seed=0))
    return took / steps * estimate.MILLION


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenarios", nargs="+", choices=list(SCENARIOS), default=list(SCENARIOS))
    parser.add_argument("--share", type=float, default=0.25, help="of the steps of a phase (default: %(default)s)")
    parser.add_argument("--presets", nargs="+", choices=["paper", "strong"], default=["paper", "strong"])
    parser.add_argument("--factors", nargs="*", choices=list(SCENARIOS), default=["LBF4"])
    arguments = parser.parse_args()
    use_threads(1)
    values: dict[str, Any] = tomllib.loads(FILE.read_text(encoding="utf-8"))
    relative: list[dict[str, float]] = []
    for scenario in arguments.scenarios:
        costs = values["scenarios"].setdefault(scenario, {})
        for preset in arguments.presets:
            found, _ = of_scenario(scenario, arguments.share, preset)
            costs |= {name + ("_ppo" if preset == "strong" else ""): value for name, value in found.items()}
        print(scenario, values["scenarios"][scenario], flush=True)
        if scenario in arguments.factors:
            relative.append(factors(scenario))
            print(relative[-1], flush=True)
    if relative:
        values["factors"] = {name: float(np.mean([own[name] for own in relative])) for name in relative[0]}
    if "paper" in arguments.presets:
        values["ppo"] = of_ppo()
    lines = [
        "# Core-minutes of a million steps: with an update per episode by Q-learning, and by PPO; from benchmarks/costs.py.",
        "",
        f"ppo = {values['ppo']:.2f} # Stable-Baselines3's, whatever the scenario",
        "",
        "[scenarios]",
    ]
    for name in SCENARIOS:
        if name in values["scenarios"]:
            parts = ", ".join(f"{part} = {value:.2f}" for part, value in values["scenarios"][name].items())
            lines.append(f"{name} = {{ {parts} }}")
    lines += ["", "[factors] # by method, of its mutation, its population or its lessons"]
    lines += [f'"{name}" = {value:.2f}' for name, value in values["factors"].items() if name in METHODS]
    FILE.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(FILE.read_text(encoding="utf-8"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
