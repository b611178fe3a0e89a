"""CLEAR: episodes of earlier groups are kept and rehearsed beside those of the newest. The groups are a TrajeDi run's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil
from typing import Any

import numpy as np
import torch

from macop_aht.config import ConfigError, at_least, setting
from macop_aht.learner.networks import Shape, Stack, member_weights, set_member
from macop_aht.learner.update import Term, td_on
from macop_aht.methods import continual, terms
from macop_aht.methods.continual import Lesson
from macop_aht.methods.macop import MacopConfig
from macop_aht.methods.phases import EgoConfig, Result, Setup
from macop_aht.methods.rehearsal import replay_of, share_out, state_width
from macop_aht.runs.journal import Journal


@dataclass(frozen=True)
class ClearConfig:
    """Finetune's settings, and how much is rehearsed."""

    groups: str = setting(
        "",
        "folder of the finished run, or of the sequence, whose groups it learns with; required; the paper's: a run of TrajeDi",
    )
    alpha_rehearsal: float = setting(
        1.0,
        "weight of the loss on episodes of earlier groups, at least 0: the TD loss, or with PPO cloning of the policy",
    )
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
    """L_com, and rehearsal of the groups before; some of this group's episodes are kept for those to come."""
    config, memory, training = setup.config, lesson.memory, setup.config.ego.training
    again = {"rehearsal": (config.alpha_rehearsal, rehearsal(setup, memory, lesson.seed))} if memory else {}
    learnt = continual.join(setup, lesson, again)
    rng, state = np.random.default_rng([lesson.seed, 4]), state_width(setup.world, training)
    kept = share_out(config.kept_episodes, memory.get("kept", {}), learnt.replay, rng, state)
    if training.learner == "q":
        return {"kept": kept}
    before = memory.get("networks", {})
    return {"kept": kept, "networks": {**before, str(len(before)): member_weights(lesson.net, 0)}}


def rehearsal(setup: Setup[ClearConfig], memory: Mapping[str, Any], seed: int) -> Term:
    """Return what keeps earlier groups in mind, on a batch that has as much of each of them.

    With Q-learning it is the TD loss. With PPO, the policy that the ego had after each lesson is cloned.
    """
    training, kept = setup.config.ego.training, memory["kept"]
    groups = len(kept["length"])
    if training.learner == "q":
        replay = replay_of(setup.world, kept, rings=groups)
        return td_on(replay, min(training.batch, len(replay)), [seed, 3], "cross")
    teachers, replay = Stack(Shape.of(setup.world), groups).to(setup.device), replay_of(setup.world, kept)
    for k in range(groups):
        set_member(teachers, k, {name: torch.from_numpy(part) for name, part in memory["networks"][str(k)].items()})
    return terms.cloning(teachers, replay, min(ceil(training.batch / groups), len(replay)), [seed, 3])


def from_preset(preset: MacopConfig, paper: MacopConfig) -> ClearConfig:
    """Return CLEAR's settings that match a preset of Macop's."""
    return ClearConfig(test_episodes=preset.test_episodes, ego=continual.ego_from_preset(preset))
