"""FCP, fictitious co-play: groups that learn each on its own, then an ego that learns with all of them.

They differ by their random beginnings only. As in the Macop paper, the ego meets the groups as they end, not their earlier
checkpoints. TrajeDi and LIPO are this with another loss of the population.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from macop_aht.config import at_least, setting
from macop_aht.learner.experience import self_play
from macop_aht.methods.macop import MacopConfig
from macop_aht.methods.phases import (
    EgoConfig,
    Learned,
    Population,
    Result,
    Setup,
    TeammatesConfig,
    Teams,
    cross_returns,
    fresh_ego,
    join,
    self_play_returns,
    train_teams,
    whole,
)
from macop_aht.runs.journal import Journal
from macop_aht.runs.records import Decision


class TwoStages(Protocol):
    """What is set in every method that trains a population, then an ego."""

    @property
    def test_episodes(self) -> int: ...
    @property
    def teammates(self) -> TeammatesConfig: ...
    @property
    def ego(self) -> EgoConfig: ...


@dataclass(frozen=True)
class FcpConfig:
    """The paper's numbers."""

    test_episodes: int = setting(32, "number of greedy episodes per measured return, at least 1")
    teammates: TeammatesConfig = field(default_factory=TeammatesConfig)
    ego: EgoConfig = field(default_factory=EgoConfig)

    def __post_init__(self) -> None:
        at_least(self, 1, "test_episodes")


def train(setup: Setup[FcpConfig], journal: Journal) -> Result:
    """Groups, each on its own; then the ego with all of them."""
    return two_stages(setup, journal, independent_teams)


def independent_teams(setup: Setup[FcpConfig]) -> Teams:
    """L_sp alone."""
    config, seed = setup.config.teammates, setup.phase_seed(0)
    teams = Teams.fresh(setup, config.population, config.training, seed)
    alone = self_play(teams.net, config.training, seed)
    train_teams(setup, "population", teams, [alone], config.training, config.steps, seed, losses={})
    return teams


# --- The two stages


def two_stages(setup: Setup[TwoStages], journal: Journal, generate: Callable[[Setup[Any]], Teams]) -> Result:
    """A population as `generate` makes it, and an ego that learns with all of it."""
    population = journal.phase("population-00", Population, _population, setup, generate)
    learned = journal.phase("ego-01", Learned, _ego, setup, population)
    return Result(learned.ego, population.names, population.teams.net, population.names)


def _population(setup: Setup[TwoStages], generate: Callable[[Setup[Any]], Teams]) -> Population:
    teams = generate(setup)
    names = [f"0/{k}" for k in range(teams.net.population)]
    returns = self_play_returns(setup, teams.net, setup.phase_seed(0, 1))
    return Population(teams, names, Decision(groups=names, self_play=returns))


def _ego(setup: Setup[TwoStages], population: Population) -> Learned:
    """L_com with every group in an equal share of the environments and of every batch."""
    config, groups, seed = setup.config.ego, population.teams.net, setup.phase_seed(1)
    ego = fresh_ego(setup, 1, seed)
    join(setup, "ego", whole(ego), groups, config, seed)
    returns = cross_returns(setup, ego, groups, setup.phase_seed(1, 1))[0].tolist()
    return Learned(ego, Decision(returns=returns, heads=1))


def steps(config: TwoStages) -> int:
    """Return the environment steps of a run."""
    return config.teammates.steps + config.ego.steps


def stages_from_preset(preset: MacopConfig, paper: MacopConfig) -> tuple[TeammatesConfig, EgoConfig]:
    """Return the paper's million steps for each stage, scaled as Macop's are, with Macop's settings of the training."""
    teammates, ego = TeammatesConfig(), EgoConfig()
    return (
        TeammatesConfig(
            steps=round(teammates.steps * preset.teammate_steps / paper.teammate_steps), training=preset.teammates
        ),
        EgoConfig(steps=round(ego.steps * preset.ego_steps / paper.ego_steps), training=preset.ego),
    )


def from_preset(preset: MacopConfig, paper: MacopConfig) -> FcpConfig:
    """Return the settings that match a preset of Macop's; `paper` has the paper's steps."""
    return FcpConfig(preset.test_episodes, *stages_from_preset(preset, paper))
