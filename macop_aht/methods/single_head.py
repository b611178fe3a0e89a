"""Single Head: Macop's regulariser on the backbone, without its heads. The groups are a Macop run's."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from macop_aht.config import at_least, setting
from macop_aht.methods import continual, terms
from macop_aht.methods.continual import Lesson
from macop_aht.methods.macop import MacopConfig
from macop_aht.methods.phases import EgoConfig, Result, Setup, snapshots_of, with_snapshot
from macop_aht.runs.journal import Journal


@dataclass(frozen=True)
class SingleHeadConfig:
    """Finetune's settings, and Macop's regulariser."""

    groups: str = setting(
        "",
        "folder of the finished run, or of the sequence, whose groups it learns with; required; the paper's: a run of Macop",
    )
    alpha_reg: float = setting(10.0, "weight of the regulariser of the backbone in the ego's loss, at least 0")
    regulariser_norm: terms.Norm = setting(
        "squared", "norm of the backbone's distance from a snapshot; the paper's: plain (deviation 6)"
    )
    regulariser_snapshots: Literal["all", "newest"] = setting(
        "all", "snapshots of the backbone that the regulariser uses: all, or only the newest"
    )
    test_episodes: int = setting(32, "number of greedy episodes per measured return, at least 1")
    ego: EgoConfig = field(default_factory=continual.usual_ego)

    def __post_init__(self) -> None:
        at_least(self, 1, "test_episodes")
        at_least(self, 0, "alpha_reg")


def train(setup: Setup[SingleHeadConfig], journal: Journal) -> Result:
    """Learn with each group in turn, with the regulariser on the backbone; return the ego and the groups."""
    return continual.train(setup, journal, teach)


def teach(setup: Setup[SingleHeadConfig], lesson: Lesson) -> dict[str, Any]:
    """L_com + alpha_reg L_reg (Eq. 8); the backbone is remembered as it is after every group."""
    config, snapshots = setup.config, snapshots_of(setup, lesson.memory)
    kept = snapshots if config.regulariser_snapshots == "all" else snapshots[-1:]
    near = {"regulariser": (config.alpha_reg, terms.regulariser(kept, config.regulariser_norm))} if kept else {}
    continual.join(setup, lesson, near)
    return with_snapshot(lesson.memory, lesson.net.backbone)


def from_preset(preset: MacopConfig, paper: MacopConfig) -> SingleHeadConfig:
    """Return Single Head's settings that match a preset of Macop's."""
    return SingleHeadConfig(
        alpha_reg=preset.alpha_reg,
        regulariser_norm=preset.regulariser_norm,
        regulariser_snapshots=preset.regulariser_snapshots,
        test_episodes=preset.test_episodes,
        ego=continual.ego_from_preset(preset),
    )
