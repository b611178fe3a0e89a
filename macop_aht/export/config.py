"""The settings of an export: what is measured for the card, and how the two networks are trained that every bundle gets."""

from __future__ import annotations

from dataclasses import dataclass, field

from macop_aht.config import at_least, setting
from macop_aht.export.generalist import GeneralistConfig
from macop_aht.export.recogniser import RecogniserConfig


@dataclass(frozen=True)
class ExportConfig:
    """The settings of `macop export`."""

    test_episodes: int = setting(64, "number of greedy episodes per measured return, at least 1")
    tier_episodes: int = setting(
        32,
        "number of episodes with each test group of the zoo and each script, for the card's table of tiers; 0: no table",
    )
    plot: bool = setting(True, "whether the card has a plot, which needs matplotlib")
    recogniser: RecogniserConfig = field(default_factory=RecogniserConfig)
    generalist: GeneralistConfig = field(default_factory=GeneralistConfig)

    def __post_init__(self) -> None:
        at_least(self, 1, "test_episodes")
        at_least(self, 0, "tier_episodes")
