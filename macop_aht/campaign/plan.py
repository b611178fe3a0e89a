"""What a campaign is: methods x scenarios x seeds, whose groups come from whom, and what is to be done in which order."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from macop_aht.config import ConfigError, at_least, changed, from_mapping, parse
from macop_aht.methods import presets
from macop_aht.methods.runs import METHODS, MethodRun, find, preset
from macop_aht.scenarios.spec import hint

# Whose groups a method learns with that makes none itself, as in the paper: those of the same scenario and seed.
GROUPS_OF = {"finetune": "macop", "single-head": "macop", "random-head": "macop", "ewc": "trajedi", "clear": "trajedi"}


@dataclass(frozen=True)
class Campaign:
    """What is run, and how."""

    scenarios: list[str] = field(default_factory=list)
    methods: list[str] = field(default_factory=lambda: list(METHODS))
    seeds: list[int] = field(default_factory=lambda: [0, 1, 2, 3, 4])
    preset: str = "fast"
    processes: int = 2  # at a time
    threads: int = 1  # of each
    device: str = "auto"
    episodes: int = 32  # of every ego with every group in the evaluation
    settings: dict = field(default_factory=dict)  # by method, what differs from the preset

    def __post_init__(self) -> None:
        at_least(self, 1, "processes", "threads", "episodes")
        for name in ("scenarios", "methods", "seeds"):
            _check_list(name, getattr(self, name))
        for scenario in self.scenarios:
            presets.macop(self.preset, scenario)  # raises where there is no such preset or scenario
        for method in self.methods:
            find(method)
            source = GROUPS_OF.get(method)
            if source and source not in self.methods:
                raise ConfigError(f"{method} learns with the groups of {source}; add {source!r} to the methods")
        _check_settings(self)


def _check_list(name: str, values: Sequence[object]) -> None:
    if not values:
        raise ConfigError(f"{name} is empty; name at least one")
    twice = [value for value in values if values.count(value) > 1]
    if twice:
        raise ConfigError(f"{name} has {twice[0]!r} twice; name it once")


def _check_settings(campaign: Campaign) -> None:
    """Every method's settings must be valid in every scenario, before anything is begun."""
    for method, values in campaign.settings.items():
        if method not in campaign.methods:
            raise ConfigError(f"unknown key 'settings.{method}'; {hint(method, campaign.methods)}")
        if not isinstance(values, Mapping):
            raise ConfigError(f"settings.{method} is {values!r}; it is a table")
        if "groups" in values:
            raise ConfigError(f"settings.{method}.groups is the campaign's to set: the run of {GROUPS_OF.get(method)}")
        for scenario in campaign.scenarios:
            config = changed(preset(method, campaign.preset, scenario), values, f"settings.{method}.")
            MethodRun(scenario, method, config=config)


def read(path: Path) -> Campaign:
    """The campaign that a file describes."""
    return from_mapping(Campaign, parse(path.read_text(encoding="utf-8")))


@dataclass(frozen=True)
class Task:
    """Something to be done by one process. Its name is a path in the campaign's folder."""

    name: str
    words: tuple[str, ...]  # of the command, behind `macop`
    result: str  # the file that is there when it is done
    needs: tuple[str, ...] = ()  # tasks that must be done before
    gathers: tuple[str, ...] = ()  # tasks that must have ended before; it is given those that are done

    @property
    def kind(self) -> str:
        """Tasks of a kind differ by their seed and take about as long."""
        return self.name.rpartition("/")[0]

    def command(self, done: Collection[str]) -> list[str]:
        """Its words, when these tasks are done."""
        return [*self.words, *(name for name in self.gathers if name in done)]


def tasks(campaign: Campaign) -> list[Task]:
    """What is to be done: scenario by scenario, those that others need first."""
    found: list[Task] = []
    for scenario in campaign.scenarios:
        runs = [_training(campaign, scenario, method, seed) for seed in campaign.seeds for method in campaign.methods]
        needed = {name for task in runs for name in task.needs}
        found += sorted(runs, key=lambda task: task.name not in needed)
        found.append(_evaluation(campaign, scenario, runs))
    return found


def _training(campaign: Campaign, scenario: str, method: str, seed: int) -> Task:
    name, source = f"{scenario}/{method}/{seed}", GROUPS_OF.get(method)
    needs = (f"{scenario}/{source}/{seed}",) if source else ()
    words = ["train", scenario, f"--method={method}", f"--seed={seed}", f"--preset={campaign.preset}"]
    words += [f"--threads={campaign.threads}", f"--device={campaign.device}", f"--out={name}"]
    words += [f"--groups={run}" for run in needs] + options(campaign.settings.get(method, {}))
    return Task(name, tuple(words), f"{name}/summary.json", needs)


def _evaluation(campaign: Campaign, scenario: str, runs: Sequence[Task]) -> Task:
    rows = f"{scenario}/rows.csv"
    words = ["pool", f"--episodes={campaign.episodes}", f"--threads={campaign.threads}", f"--device={campaign.device}"]
    words.append(f"--out={rows}")
    return Task(f"{scenario}/evaluation", tuple(words), rows, gathers=tuple(task.name for task in runs))


def options(settings: Mapping[str, Any], path: str = "") -> list[str]:
    """Settings as words of the command line."""
    words: list[str] = []
    for name, value in settings.items():
        if isinstance(value, Mapping):
            words += options(value, f"{path}{name}.")
        else:
            text = ("yes" if value else "no") if isinstance(value, bool) else str(value)
            words.append(f"--{(path + name).replace('_', '-')}={text}")
    return words
