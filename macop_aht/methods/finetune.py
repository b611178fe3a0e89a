"""Finetune: one head, tuned to group after group, with nothing against forgetting. The groups are a Macop run's."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from macop_aht.config import at_least, setting
from macop_aht.methods import continual
from macop_aht.methods.continual import Lesson
from macop_aht.methods.macop import MacopConfig
from macop_aht.methods.phases import EgoConfig, Result, Setup
from macop_aht.runs.journal import Journal


@dataclass(frozen=True)
class FinetuneConfig:
    """Whose groups, and how the ego learns with each."""

    groups: str = setting(
        "",
        "folder of the finished run, or of the sequence, whose groups it learns with; required; the paper's: a run of Macop",
    )
    test_episodes: int = setting(32, "number of greedy episodes per measured return, at least 1")
    ego: EgoConfig = field(default_factory=continual.usual_ego)

    def __post_init__(self) -> None:
        at_least(self, 1, "test_episodes")


def train(setup: Setup[FinetuneConfig], journal: Journal) -> Result:
    """Tune one head to each group in turn; return the ego and the groups."""
    return continual.train(setup, journal, teach)


def teach(setup: Setup[FinetuneConfig], lesson: Lesson) -> dict[str, Any]:
    """L_com alone; nothing is remembered."""
    continual.join(setup, lesson)
    return {}


def from_preset(preset: MacopConfig, paper: MacopConfig) -> FinetuneConfig:
    """Return Finetune's settings that match a preset of Macop's."""
    return FinetuneConfig(test_episodes=preset.test_episodes, ego=continual.ego_from_preset(preset))
