"""TrajeDi: a population that is trained to act differently, L_sp + alpha_div L_div; the rest is FCP's."""

from __future__ import annotations

from dataclasses import dataclass, field

from macop_aht.config import at_least, setting
from macop_aht.learner.experience import self_play
from macop_aht.methods import terms
from macop_aht.methods.fcp import stages_from_preset, two_stages
from macop_aht.methods.macop import MacopConfig
from macop_aht.methods.phases import EgoConfig, Result, Setup, TeammatesConfig, Teams, train_teams
from macop_aht.runs.journal import Journal


@dataclass(frozen=True)
class TrajediConfig:
    """FCP's settings, and the diversity term of Macop's first population."""

    alpha_div: float = setting(0.1, "weight of the diversity term in the teammates' loss, at least 0")
    diversity_every: int = setting(
        4, "the diversity term uses every N-th episode of a batch, at least 1; the paper's: 1 (deviation 10)"
    )
    test_episodes: int = setting(32, "number of greedy episodes per measured return, at least 1")
    teammates: TeammatesConfig = field(default_factory=TeammatesConfig)
    ego: EgoConfig = field(default_factory=EgoConfig)

    def __post_init__(self) -> None:
        at_least(self, 1, "test_episodes", "diversity_every")
        at_least(self, 0, "alpha_div")


def train(setup: Setup[TrajediConfig], journal: Journal) -> Result:
    """Train groups that act differently; then the ego with all of them. Return the ego and the groups."""
    return two_stages(setup, journal, diverse_teams)


def diverse_teams(setup: Setup[TrajediConfig]) -> Teams:
    """L_sp + alpha_div L_div."""
    config, seed = setup.config.teammates, setup.phase_seed(0)
    teams = Teams.fresh(setup, config.population, config.training, seed)
    alone = self_play(teams.net, config.training, seed)
    losses = {"diversity": (setup.config.alpha_div, terms.diversity(setup.config.diversity_every))}
    train_teams(setup, "population", teams, [alone], config.training, config.steps, seed, losses)
    return teams


def from_preset(preset: MacopConfig, paper: MacopConfig) -> TrajediConfig:
    """Return the settings that match a preset of Macop's; `paper` has the paper's steps."""
    return TrajediConfig(
        preset.alpha_div, preset.diversity_every, preset.test_episodes, *stages_from_preset(preset, paper)
    )
