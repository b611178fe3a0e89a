"""How long the runs of a campaign will take, before anything is begun.

Environment steps are nearly free and updates cost the time. So with Q-learning the minutes of a phase are its steps in millions,
divided by the episodes per update, times a cost of the scenario. With PPO, whose updates go by the steps, they are the steps
times another cost. The costs are in costs.toml, measured on one core by benchmarks/costs.py.

Estimates are pairs, (2,): for Macop's least and its greatest number of iterations.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from macop_aht.campaign.plan import Campaign, on_sequence
from macop_aht.config import changed
from macop_aht.learner.training import TrainingConfig
from macop_aht.methods.macop import MacopConfig
from macop_aht.methods.registry import BUILT_IN, METHODS, preset

MILLION = 1_000_000


@dataclass(frozen=True)
class Cost:
    """Core-minutes of a million steps: with an update per episode by Q-learning, and by PPO."""

    q: float
    ppo: float


@dataclass(frozen=True)
class Costs:
    """What training costs in one scenario."""

    population: Cost  # of groups by self-play, with the diversity term
    lesson: Cost  # of the ego with groups
    ppo: float  # of Stable-Baselines3's PPO, whose updates are its own
    factors: dict[str, float]  # by method: multiplies the cost of its mutation, its population or its lessons
    measured: bool = True  # whether in this scenario

    @staticmethod
    def of(scenario: str) -> Costs:
        """What was measured; for a scenario that was not, the mean of the others."""
        values = tomllib.loads((Path(__file__).parent / "costs.toml").read_text(encoding="utf-8"))
        known = values["scenarios"]
        mean = {name: float(np.mean([own[name] for own in known.values()])) for name in next(iter(known.values()))}
        own = known.get(scenario, mean)
        population, lesson = (Cost(own[part], own[f"{part}_ppo"]) for part in ("population", "lesson"))
        return Costs(population, lesson, values["ppo"], values["factors"], measured=scenario in known)


def core_hours(campaign: Campaign, scenario: str, name: str) -> np.ndarray:
    """The core-hours of a run of a method, a variation or a learner of the campaign, by its name: (2,)."""
    variation = campaign.varied().get(name)
    method = variation.method if variation else name.removesuffix(on_sequence(""))
    config = changed(preset(method, campaign.preset, scenario), campaign.settings_of(name if variation else method))
    costs = Costs.of(scenario)
    factor = costs.factors.get(method, 1.0)
    if isinstance(config, MacopConfig):
        return _macop(config, costs, factor) / 60
    if method not in BUILT_IN:
        return np.full(2, METHODS[method].steps(config) / MILLION * costs.lesson.q) / 60
    if not METHODS[method].groups_from:
        stages = factor * _stage(config.teammates.steps, config.teammates.training, costs.population)
        return np.full(2, stages + _stage(config.ego.steps, config.ego.training, costs.lesson)) / 60
    if method == "random-head":
        return np.zeros(2)
    if method == "ppo":
        return np.full(2, costs.ppo * config.steps / MILLION) / 60
    return _lessons(campaign, scenario, name, method) * factor * _lesson(config, costs) / 60


def groups_of(config: Any) -> np.ndarray:
    """How many groups a run generates: (2,)."""
    if isinstance(config, MacopConfig):
        return np.array([_least(config), config.max_iterations]) * config.population
    return np.full(2, getattr(config, "teammates", config).population)


def _least(config: MacopConfig) -> int:
    """Iterations of the shortest run: it cannot stop in the first."""
    return min(max(config.min_iterations, 2), config.max_iterations)


def _stage(steps: int, training: TrainingConfig, cost: Cost) -> float:
    each = cost.ppo if training.learner == "ppo" else cost.q / training.ratio
    return steps / MILLION * each


def _macop(config: MacopConfig, costs: Costs, factor: float) -> np.ndarray:
    first = _stage(config.teammate_steps, config.teammates, costs.population)
    mutation = factor * _stage(config.teammate_steps, config.mutation, costs.population)
    mutations = np.array([_least(config), config.max_iterations]) - 1
    return first + mutations * mutation + _lessons_of(config) * _stage(config.ego_steps, config.ego, costs.lesson)


def _lesson(config: Any, costs: Costs) -> float:
    """One group of a sequence."""
    if hasattr(config, "macop"):
        return _stage(config.macop.ego_steps, config.macop.ego, costs.lesson)
    return _stage(config.ego.steps, config.ego.training, costs.lesson)


def _lessons(campaign: Campaign, scenario: str, name: str, method: str) -> np.ndarray:
    """How many groups a method learns with, one after the other: (2,)."""

    def config(source: str) -> Any:
        return changed(preset(source, campaign.preset, scenario), campaign.settings_of(source))

    if not name.endswith(on_sequence("")):
        return _lessons_of(config(METHODS[method].lender))
    every = sum((groups_of(config(source)) for source in campaign.generators), np.zeros(2))
    return np.minimum(every, campaign.sequence) if campaign.sequence else every


def _lessons_of(config: Any) -> np.ndarray:
    """How many lessons an ego has with the groups of such a run: (2,). Macop has none in the iteration that it stops in."""
    if isinstance(config, MacopConfig):
        shortest = _least(config) - (config.max_iterations > 1)
        return np.array([shortest, config.max_iterations]) * config.population
    return groups_of(config)


def table(campaign: Campaign, scenarios: Sequence[str], seeds: int) -> str:
    """The runs and their core-hours, by scenario and method, and in all."""
    lines = [f"{'scenario':10}{'method':24}{'runs':>5}  core-hours"]
    total = np.zeros(2)
    for scenario in scenarios:
        names = [*campaign.methods, *campaign.varied(scenario), *map(on_sequence, campaign.through_sequence)]
        own = {name: seeds * core_hours(campaign, scenario, name) for name in names}
        lines += [f"{scenario:10}{name:24}{seeds:5}  {_text(hours)}" for name, hours in own.items()]
        unknown = "" if Costs.of(scenario).measured else "  (costs not measured here: the mean of other scenarios)"
        lines.append(f"{scenario:10}{'all':24}{seeds * len(names):5}  {_text(sum(own.values(), np.zeros(2)))}{unknown}")
        total += sum(own.values(), np.zeros(2))
    cores = campaign.processes * campaign.threads
    lines += ["", f"In all {_text(total)} core-hours; on {cores} cores {_text(total / cores)} hours."]
    lines.append(
        "The range covers Macop's fewest and most iterations. Costs were measured on one core of one machine. "
        "The evaluation is not included."
    )
    return "\n".join(lines)


def _text(hours: np.ndarray) -> str:
    low, high = (f"{value:.2f}" for value in hours)
    return low if low == high else f"{low} to {high}"
