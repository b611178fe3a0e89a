"""Random Head: Macop's ego, which plays any of its heads instead of the one that does best. Nothing is trained."""

from __future__ import annotations

from dataclasses import dataclass

from macop_aht.config import at_least, setting
from macop_aht.methods.borrowed import Groups, borrow
from macop_aht.methods.macop import MacopConfig
from macop_aht.methods.phases import Learned, Result, Setup, cross_returns
from macop_aht.runs.folder import RunFolder
from macop_aht.runs.journal import Journal
from macop_aht.runs.records import Decision


@dataclass(frozen=True)
class RandomHeadConfig:
    """Whose ego and groups."""

    groups: str = setting("", "folder of the finished run of Macop or Macop+ whose ego and groups it takes; required")
    test_episodes: int = setting(32, "number of greedy episodes per measured return, at least 1")

    def __post_init__(self) -> None:
        at_least(self, 1, "test_episodes")


def train(setup: Setup[RandomHeadConfig], journal: Journal) -> Result:
    """Macop's ego as it is."""
    groups = journal.phase("groups", Groups, borrow, setup)
    taken = journal.phase("ego-001", Learned, take, setup, groups)
    return Result(taken.ego, groups.names, groups.net, list(dict.fromkeys(groups.order)), head="random")


def take(setup: Setup[RandomHeadConfig], groups: Groups) -> Learned:
    """The ego of the run that the groups are from; a random head is worth the mean of all."""
    ego = RunFolder(setup.config.groups).ego(setup.device)
    returns = cross_returns(setup, ego, groups.net, setup.phase_seed(1, 1)).mean(axis=0).tolist()
    return Learned(ego, Decision(returns=returns, heads=ego.n_heads))


def steps(config: RandomHeadConfig) -> int:
    """Return the environment steps of a run: none."""
    return 0


def from_preset(preset: MacopConfig, paper: MacopConfig) -> RandomHeadConfig:
    """Return Random Head's settings that match a preset of Macop's."""
    return RandomHeadConfig(test_episodes=preset.test_episodes)
