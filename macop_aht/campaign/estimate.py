"""How long the runs of a campaign will take, before anything is begun.

Environment steps are nearly free and updates cost the time. A phase takes its steps, over the episodes per update, times
what a million steps with an update per episode take in its scenario. These figures are in costs.toml, measured on one core.

Estimates are pairs: Macop stops somewhere between its least and its greatest number of iterations, (2,).
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from macop_aht.campaign.plan import GROUPS_OF, Campaign, on_sequence
from macop_aht.config import changed
from macop_aht.learner.training import TrainingConfig
from macop_aht.methods.macop import MacopConfig
from macop_aht.methods.runs import METHODS, preset

MILLION = 1_000_000


@dataclass(frozen=True)
class Costs:
    """Core-minutes of a million steps with an update per episode, in one scenario."""

    population: float  # of groups by self-play, with the diversity term
    lesson: float  # of the ego with groups
    factors: dict[str, float]  # by method: how much more its mutation, its population or its lessons take

    @staticmethod
    def of(scenario: str) -> Costs:
        """What was measured; for a scenario that was not, the mean of the others."""
        values = tomllib.loads((Path(__file__).parent / "costs.toml").read_text(encoding="utf-8"))
        known = values["scenarios"]
        mean = {name: float(np.mean([own[name] for own in known.values()])) for name in ("population", "lesson")}
        return Costs(**known.get(scenario, mean), factors=values["factors"])


def core_hours(campaign: Campaign, scenario: str, name: str, factors: Mapping[str, float] | None = None) -> np.ndarray:
    """A run of a method, a variation or a learner of the campaign, by its name: (2,). `factors` in the place of the measured."""
    variation = campaign.varied().get(name)
    method = variation.method if variation else name.removesuffix(on_sequence(""))
    config = changed(preset(method, campaign.preset, scenario), campaign.settings_of(name if variation else method))
    costs = Costs.of(scenario)
    factor = (costs.factors if factors is None else factors).get(method, 1.0)
    if isinstance(config, MacopConfig):
        return _macop(config, costs, factor) / 60
    if not METHODS[method].groups_from:
        stages = factor * _stage(config.teammates.steps, config.teammates.training, costs.population)
        return np.full(2, stages + _stage(config.ego.steps, config.ego.training, costs.lesson)) / 60
    if method == "random-head":
        return np.zeros(2)
    if method == "ppo":
        return np.full(2, factor * config.steps / MILLION) / 60
    return _lessons(campaign, scenario, name, method) * factor * _lesson(config, costs) / 60


def _stage(steps: int, training: TrainingConfig, cost: float) -> float:
    return steps / MILLION * cost / training.ratio


def _macop(config: MacopConfig, costs: Costs, factor: float) -> np.ndarray:
    first = _stage(config.teammate_steps, config.teammates, costs.population)
    mutation = factor * _stage(config.teammate_steps, config.mutation, costs.population)
    iterations = np.array([config.min_iterations, config.max_iterations])
    return (
        first + (iterations - 1) * mutation + _lessons_of(config) * _stage(config.ego_steps, config.ego, costs.lesson)
    )


def _lesson(config: Any, costs: Costs) -> float:
    """One group of a sequence."""
    if hasattr(config, "macop"):
        return _stage(config.macop.ego_steps, config.macop.ego, costs.lesson)
    return _stage(config.ego.steps, config.ego.training, costs.lesson)


def _lessons(campaign: Campaign, scenario: str, name: str, method: str) -> np.ndarray:
    """How many groups a method learns with, one after the other: (2,)."""
    if name.endswith(on_sequence("")):
        return np.full(2, campaign.sequence)
    source = GROUPS_OF[method]
    return _lessons_of(changed(preset(source, campaign.preset, scenario), campaign.settings_of(source)))


def _lessons_of(config: Any) -> np.ndarray:
    """How many lessons Macop's ego has, none in the last iteration of a run that stops, or a population's ego: (2,)."""
    if isinstance(config, MacopConfig):
        return np.array([config.min_iterations - 1, config.max_iterations]) * config.population
    return np.full(2, config.teammates.population)


def table(campaign: Campaign) -> str:
    """The runs and their core-hours, by scenario and method, and in all."""
    lines = [f"{'scenario':10}{'method':24}{'runs':>5}  core-hours"]
    total, seeds = np.zeros(2), len(campaign.seeds)
    for scenario in campaign.scenarios:
        names = [*campaign.methods, *campaign.varied(scenario), *map(on_sequence, campaign.through_sequence)]
        own = {name: seeds * core_hours(campaign, scenario, name) for name in names}
        lines += [f"{scenario:10}{name:24}{seeds:5}  {_text(hours)}" for name, hours in own.items()]
        lines.append(f"{scenario:10}{'all':24}{seeds * len(names):5}  {_text(sum(own.values(), np.zeros(2)))}")
        total += sum(own.values(), np.zeros(2))
    lines += [
        "",
        f"In all {_text(total)} core-hours; on {campaign.processes} cores {_text(total / campaign.processes)} hours.",
    ]
    lines.append(
        "From the least to the greatest number of Macop's iterations. By what was measured on one core (costs.toml): another "
        "machine may be faster or slower. The evaluation is not in it."
    )
    return "\n".join(lines)


def _text(hours: np.ndarray) -> str:
    low, high = (f"{value:.2f}" for value in hours)
    return low if low == high else f"{low} to {high}"
