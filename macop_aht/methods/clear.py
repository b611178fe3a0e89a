"""CLEAR: episodes of earlier groups are kept and rehearsed beside those of the newest. The groups are a TrajeDi run's."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from macop_aht.config import ConfigError, at_least, setting
from macop_aht.learner.update import Term
from macop_aht.methods import continual, terms
from macop_aht.methods.continual import Lesson
from macop_aht.methods.macop import MacopConfig
from macop_aht.methods.phases import EgoConfig, Result, Setup, ego_mixer
from macop_aht.methods.rehearsal import Kept, replay_of, share_out
from macop_aht.runs.journal import Journal


@dataclass(frozen=True)
class ClearConfig:
    """Finetune's settings, and how much is rehearsed."""

    groups: str = setting(
        "",
        "folder of the finished run, or of the sequence, whose groups it learns with; required; the paper's: a run of TrajeDi",
    )
    alpha_rehearsal: float = setting(1.0, "weight of the TD loss on episodes of earlier groups, at least 0")
    kept_episodes: int = setting(
        1_000, "number of episodes kept for rehearsal, of all earlier groups together, at least twice a batch"
    )
    test_episodes: int = setting(32, "number of greedy episodes per measured return, at least 1")
    ego: EgoConfig = field(default_factory=continual.usual_ego)

    def __post_init__(self) -> None:
        at_least(self, 1, "test_episodes")
        at_least(self, 0, "alpha_rehearsal")
        if self.kept_episodes < 2 * self.ego.training.batch:
            raise ConfigError(
                f"kept_episodes is {self.kept_episodes}; it must be at least twice a batch, {2 * self.ego.training.batch}"
            )


def train(setup: Setup[ClearConfig], journal: Journal) -> Result:
    """Learn with each group in turn, and rehearse the earlier ones; return the ego and the groups."""
    return continual.train(setup, journal, teach)


def teach(setup: Setup[ClearConfig], lesson: Lesson) -> dict[str, Any]:
    """L_com, and the TD loss on as many episodes of the groups before; some of this group's are kept for those to come."""
    config, kept = setup.config, lesson.memory.get("kept", {})
    again = {"rehearsal": (config.alpha_rehearsal, rehearsal(setup, kept, lesson.seed))} if kept else {}
    training = continual.join(setup, lesson, again)
    return {"kept": share_out(config.kept_episodes, kept, training.replay, np.random.default_rng([lesson.seed, 4]))}


def rehearsal(setup: Setup[ClearConfig], kept: Kept, seed: int) -> Term:
    """The TD loss on a batch that has as much of every earlier group."""
    training = setup.config.ego.training
    replay = replay_of(setup.world, kept, ego_mixer(setup.world, training), rings=len(kept["length"]))
    return terms.td_on(replay, min(training.batch, len(replay)), [seed, 3], "cross")


def from_preset(preset: MacopConfig, paper: MacopConfig) -> ClearConfig:
    """Return CLEAR's settings that match a preset of Macop's."""
    return ClearConfig(test_episodes=preset.test_episodes, ego=continual.ego_from_preset(preset))
