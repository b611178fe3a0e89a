"""Named settings: how networks are trained in each scenario, and a method's own, as TOML files beside this one."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from macop_aht.config import ConfigError, changed
from macop_aht.learner.training import TrainingConfig
from macop_aht.methods.macop import MacopConfig
from macop_aht.scenarios import SCENARIOS, External, find
from macop_aht.util import hint

FOLDER = Path(__file__).parent
MACOP = ("paper", "fast", "demo", "strong")


def table(name: str, scenario: str) -> dict[str, Any]:
    """What a file says for all scenarios, under [all], and for one of them; [external] is for all of the user's environments."""
    found = find(scenario)
    values = tomllib.loads((FOLDER / f"{name}.toml").read_text(encoding="utf-8"))
    strangers = set(values) - {"all", "external", *SCENARIOS}
    if strangers:
        raise ConfigError(
            f"{name}.toml has tables {sorted(strangers)}; allowed are all, external and the scenarios' names"
        )
    own = "external" if isinstance(found.family, External) else scenario
    return merged(values.get("all", {}), values.get(own, {}))


def merged(base: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
    """The tables one over the other, inner tables too."""
    nested = {name: merged(base.get(name, {}), value) for name, value in change.items() if isinstance(value, dict)}
    return base | change | nested


def training(scenario: str) -> TrainingConfig:
    """How networks are trained in a scenario."""
    return changed(TrainingConfig(), table("training", scenario))


def macop(preset: str, scenario: str) -> MacopConfig:
    """A preset of Macop for a scenario: the paper's numbers, and over them what the preset changes."""
    if preset not in MACOP:
        raise ValueError(f"unknown preset {preset!r}; {hint(preset, MACOP)}")
    networks, numbers = training(scenario), merged(table("paper", scenario), table(preset, scenario))
    return changed(MacopConfig(teammates=networks, mutation=networks, ego=networks), numbers)
