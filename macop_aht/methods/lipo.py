"""LIPO: a population whose members are trained to play badly with each other, L_sp + alpha_cross L_cross; the rest is FCP's.

J_LIPO = -sum of J(<i, j>) over pairs: for each of the two, the TD loss on their episodes with the team's reward negated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from macop_aht.config import ConfigError, at_least, setting
from macop_aht.learner.experience import Experience, environments, self_play
from macop_aht.learner.networks import Stack
from macop_aht.learner.seats import Seating
from macop_aht.learner.training import TrainingConfig
from macop_aht.methods.fcp import stages_from_preset, two_stages
from macop_aht.methods.macop import MacopConfig
from macop_aht.methods.phases import EgoConfig, Result, Setup, TeammatesConfig, Teams, train_teams
from macop_aht.runs.journal import Journal

HALF = 0.5  # share of cross-play in each of the two seats, relative to self-play


@dataclass(frozen=True)
class LipoConfig:
    """FCP's settings, and the weight of cross-play."""

    alpha_cross: float = setting(
        1.0, "weight of the cross-play term in the teammates' loss, at least 0 (chosen by benchmarks/tuning.py)"
    )
    test_episodes: int = setting(32, "number of greedy episodes per measured return, at least 1")
    teammates: TeammatesConfig = field(default_factory=TeammatesConfig)
    ego: EgoConfig = field(default_factory=EgoConfig)

    def __post_init__(self) -> None:
        at_least(self, 1, "test_episodes")
        at_least(self, 0, "alpha_cross")
        if self.teammates.population < 2:
            raise ConfigError(
                f"population is {self.teammates.population}; LIPO needs at least 2 groups, that play with each other"
            )


def train(setup: Setup[LipoConfig], journal: Journal) -> Result:
    """Train groups that are incompatible with each other; then the ego with all of them. Return the ego and the groups."""
    return two_stages(setup, journal, incompatible_teams)


def incompatible_teams(setup: Setup[LipoConfig]) -> Teams:
    """L_sp + alpha_cross L_cross. Half of the episodes are cross-play, in half of these a member has the ego's seats."""
    config, seed, world = setup.config.teammates, setup.phase_seed(0), setup.world
    training = config.training
    teams = Teams.fresh(setup, config.population, training, seed)
    experiences = [self_play(teams.net, training, seed)]
    for k, own in enumerate([range(world.controllable), range(world.controllable, world.n_agents)], start=3):
        crossed = with_each_other(setup, teams.net, training, seed + k, own)
        experiences.append(replace(crossed, weight=setup.config.alpha_cross / 2, draws=[seed, k]))
    train_teams(setup, "population", teams, experiences, training, config.steps, seed, {})
    return teams


def with_each_other(
    setup: Setup[LipoConfig], net: Stack, training: TrainingConfig, seed: int, seats: Sequence[int]
) -> Experience:
    """Every member in those seats, where it explores, with every other in the rest; a batch has as much of each partner.

    The team's reward is negated.
    """
    others = net.population - 1
    owner, partner, place = pairing(net.population, environments(training, others, HALF))
    pairs = np.stack([owner, partner] if 0 in seats else [partner, owner], axis=1)
    seating = Seating.cross_play(net, net, pairs, 1, setup.world.controllable)
    return Experience(seating, owner, seed, seats, place, others, share=HALF, play="cross", sign=-1.0)


def pairing(population: int, each: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Every member with every other in `each` environments: owners, partners, and the partner's place among its owner's, (B,)."""
    others = population - 1
    environment = np.arange(population * others * each)
    owner, place = environment // (others * each), environment % others
    return owner, (owner + 1 + place) % population, place


def from_preset(preset: MacopConfig, paper: MacopConfig) -> LipoConfig:
    """Return the settings that match a preset of Macop's; `paper` has the paper's steps.

    Half of the episodes are self-play, where all of FCP's are: half the ratio makes as many updates of as many steps.
    """
    teammates, ego = stages_from_preset(preset, paper)
    often = replace(teammates.training, ratio=teammates.training.ratio / 2)
    return LipoConfig(test_episodes=preset.test_episodes, teammates=replace(teammates, training=often), ego=ego)
