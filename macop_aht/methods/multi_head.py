"""Multi Head: Macop's ego alone, with the groups of another run, one after the other; a head for each that needs one.

What Macop does when it generates no groups itself: for comparing continual learners on one sequence of groups.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from macop_aht.config import at_least, setting
from macop_aht.episodes.heads import EPISODES_PER_HEAD
from macop_aht.learner.networks import Ego
from macop_aht.methods import macop
from macop_aht.methods.borrowed import Groups, borrow, lessons_of
from macop_aht.methods.macop import MacopConfig
from macop_aht.methods.phases import Learned, Result, Setup, cross_returns, fresh_ego
from macop_aht.runs.journal import Journal


@dataclass(frozen=True)
class MultiHeadConfig:
    """Whose groups, and Macop's settings. Only those of the ego's lessons have an effect."""

    groups: str = setting("", "folder of the finished run, or of the sequence, whose groups it learns with; required")
    test_episodes: int = setting(32, "number of greedy episodes per measured return, at least 1")
    macop: MacopConfig = field(default_factory=MacopConfig)

    def __post_init__(self) -> None:
        at_least(self, 1, "test_episodes")


def train(setup: Setup[MultiHeadConfig], journal: Journal) -> Result:
    """Learn with each group in turn, with a new head where one is needed; return the ego and the groups."""
    groups = journal.phase("groups", Groups, borrow, setup)
    learned = Learned(fresh_ego(setup, 0, setup.phase_seed(0, 2)))
    for k, name in enumerate(groups.order, start=1):
        learned = journal.phase(f"ego-{k:03d}", Learned, _learn, setup, k, name, learned, groups)
    return Result(learned.ego, groups.names, groups.net, list(dict.fromkeys(groups.order)))


def _learn(setup: Setup[MultiHeadConfig], k: int, name: str, before: Learned, groups: Groups) -> Learned:
    """The k-th group of the sequence; then a test with every group, whether met or not."""
    phase = f"group {k} of {len(groups.order)}: ego with {name}"
    as_macop = Setup(setup.world, setup.config.macop, setup.seed, setup.device, setup.watch, setup.stream)
    learned = macop.expand(as_macop, phase, before, name, groups[name], (k,))
    returns = tested_returns(setup, learned.ego, groups, k).tolist()
    return replace(learned, decision=replace(learned.decision, returns=returns))


def tested_returns(setup: Setup[MultiHeadConfig], ego: Ego, groups: Groups, k: int) -> np.ndarray:
    """With every group, the return of the head that the testing phase chooses, in other episodes than its: (P,)."""
    tried = cross_returns(setup, ego, groups.net, setup.phase_seed(k, 3), EPISODES_PER_HEAD)
    tested = cross_returns(setup, ego, groups.net, setup.phase_seed(k, 4))
    return tested[tried.argmax(axis=0), np.arange(len(groups.names))]


def steps(config: MultiHeadConfig) -> int:
    """Return the environment steps of a run; of a single lesson where the lender is not there any more."""
    return config.macop.ego_steps * lessons_of(config.groups)


def from_preset(preset: MacopConfig, paper: MacopConfig) -> MultiHeadConfig:
    """Return Multi Head's settings that match a preset of Macop's."""
    return MultiHeadConfig(test_episodes=preset.test_episodes, macop=macop.from_preset(preset, paper))
