"""A method of one's own: an ego that learns with groups of random, untrained networks. In this folder:

    macop --import own_method train LBF4 --method untrained --preset demo --out runs/untrained

A campaign file names it like any other method, and `macop --import own_method campaign FILE.toml --out FOLDER` runs it.
"""

from dataclasses import dataclass, field

from macop_aht.config import at_least, setting
from macop_aht.methods import Method, register_method
from macop_aht.methods.fcp import stages_from_preset
from macop_aht.methods.phases import (
    EgoConfig,
    Learned,
    Population,
    Result,
    Teams,
    cross_returns,
    fresh_ego,
    join,
    self_play_returns,
    whole,
)  # fmt: skip
from macop_aht.runs.records import Decision


@dataclass(frozen=True)
class UntrainedConfig:
    """The settings; each becomes an option of `macop train --method untrained`."""

    population: int = setting(6, "groups")
    test_episodes: int = setting(32, "greedy episodes per measured return")
    ego: EgoConfig = field(default_factory=EgoConfig)

    def __post_init__(self):
        at_least(self, 1, "population", "test_episodes")


def train(setup, journal):
    """The algorithm box. What the journal holds already is not done again."""
    population = journal.phase("population-00", Population, generate, setup)
    learned = journal.phase("ego-01", Learned, learn, setup, population)
    return Result(learned.ego, population.names, population.teams.net, population.names)


def generate(setup):
    """A phase. It depends on its arguments alone, so that a killed run repeats it exactly."""
    seed, names = setup.phase_seed(0), [f"0/{k}" for k in range(setup.config.population)]
    teams = Teams.fresh(setup, setup.config.population, setup.config.ego.training, seed)
    return Population(teams, names, Decision(groups=names, self_play=self_play_returns(setup, teams.net, seed + 1)))


def learn(setup, population):
    seed, groups = setup.phase_seed(1), population.teams.net
    ego = fresh_ego(setup, 1, seed)
    join(setup, "ego", whole(ego), groups, setup.config.ego, seed)
    return Learned(ego, Decision(returns=cross_returns(setup, ego, groups, seed + 1)[0].tolist(), heads=1))


def from_preset(preset, paper):
    """As many steps as FCP's ego has."""
    return UntrainedConfig(test_episodes=preset.test_episodes, ego=stages_from_preset(preset, paper)[1])


method = Method("an ego with untrained groups", UntrainedConfig, from_preset, train, lambda config: config.ego.steps)
register_method("untrained", method)
