"""What a campaign is: methods x scenarios x seeds, whose groups come from whom, and what is to be done in which order.

A variation is a method with other settings and a name of its own, in all scenarios or in some; it is evaluated with the others,
and its groups join the evaluation set.

Learners, where there are any, go through one sequence of groups of all methods, for each scenario and seed; they are not
evaluated with the others, and come after all else. Their folders are SCENARIO/METHOD-on-sequence/SEED.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from macop_aht.config import ConfigError, at_least, changed, from_mapping, of_file, parse, read_toml, to_toml
from macop_aht.methods import presets
from macop_aht.methods.registry import METHODS, MethodRun, find, preset
from macop_aht.runs.folder import SEQUENCE
from macop_aht.util import hint

CAMPAIGN = "campaign.toml"  # in the campaign's folder, its own file
EVALUATION = "evaluation"  # the last part of its task's name, where others have a seed
BASE = "fresh"  # the learner that all others are compared with in forward transfer


@dataclass(frozen=True)
class Variation:
    """A method with other settings."""

    method: str = "macop"
    scenarios: list[str] = field(default_factory=list)  # in which it is run; none: all of the campaign's
    settings: dict = field(default_factory=dict)  # what differs from the method's


@dataclass(frozen=True)
class Campaign:
    """What is run, and how."""

    scenarios: list[str] = field(default_factory=list)
    methods: list[str] = field(default_factory=lambda: [name for name, method in METHODS.items() if method.compared])
    seeds: list[int] = field(default_factory=lambda: [0, 1, 2, 3, 4])
    preset: str = "fast"
    processes: int = 2  # at a time
    threads: int = 1  # of each
    device: str = "auto"
    episodes: int = 32  # of every ego with every group in the evaluation
    settings: dict = field(default_factory=dict)  # by method, what differs from the preset
    learners: list[str] = field(default_factory=list)  # methods that go through one sequence of groups of all methods
    sequence: int = 10  # groups in it; 0: all
    variations: dict = field(default_factory=dict)  # by name, as tables with what a Variation has

    def __post_init__(self) -> None:
        at_least(self, 1, "processes", "threads", "episodes")
        at_least(self, 0, "sequence")
        for name in ("scenarios", "methods", "seeds"):
            _check_list(name, getattr(self, name))
        if min(self.seeds) < 0:
            raise ConfigError(f"seeds has {min(self.seeds)}; they must be at least 0")
        for scenario in self.scenarios:
            presets.macop(self.preset, scenario)  # raises where there is no such preset or scenario
        for method in self.methods:
            source = find(method).lender
            if source and source not in self.methods:
                raise ConfigError(f"{method} learns with the groups of {source}; add {source!r} to the methods")
        _check_learners(self)
        _check_settings(self)
        _check_variations(self)

    @property
    def through_sequence(self) -> list[str]:
        """The learners, and the one that they are compared with."""
        return list(dict.fromkeys([*self.learners, BASE])) if self.learners else []

    def varied(self, scenario: str | None = None) -> dict[str, Variation]:
        """The variations by name; those of a scenario, where one is given."""
        found = {
            name: from_mapping(Variation, values, f"variations.{name}.") for name, values in self.variations.items()
        }
        return {
            name: own for name, own in found.items() if not (scenario and own.scenarios) or scenario in own.scenarios
        }

    def settings_of(self, name: str) -> dict[str, Any]:
        """What differs from the preset in a method's runs, or a variation's."""
        variation = self.varied().get(name)
        if variation is None:
            return self.settings.get(name, {})
        return presets.merged(self.settings.get(variation.method, {}), variation.settings)

    @property
    def generators(self) -> list[str]:
        """The methods that make groups."""
        return [method for method in self.methods if not METHODS[method].groups_from]


def _check_learners(campaign: Campaign) -> None:
    if campaign.learners:
        _check_list("learners", campaign.learners)
        if not campaign.generators:
            raise ConfigError("learners go through groups of the methods, which make none; add one such as 'macop'")
    able = [name for name, method in METHODS.items() if SEQUENCE in method.groups_from]
    for learner in campaign.learners:
        if learner not in able:
            raise ConfigError(f"{learner!r} goes through no sequence of groups; {hint(learner, able)}")


def _check_list(name: str, values: Sequence[object]) -> None:
    if not values:
        raise ConfigError(f"{name} is empty; name at least one")
    twice = [value for value in values if values.count(value) > 1]
    if twice:
        raise ConfigError(f"{name} has {twice[0]!r} twice; name it once")


def _check_settings(campaign: Campaign) -> None:
    """Every method's settings must be valid in every scenario, before anything is begun."""
    known = [*campaign.methods, *campaign.through_sequence]
    for method, values in campaign.settings.items():
        if method not in known:
            raise ConfigError(f"unknown key 'settings.{method}'; {hint(method, known)}")
        if not isinstance(values, Mapping):
            raise ConfigError(f"settings.{method} is {values!r}; it is a table")
        _check_config(campaign, campaign.scenarios, method, values, f"settings.{method}.")


def _check_config(
    campaign: Campaign, scenarios: Sequence[str], method: str, values: Mapping[str, Any], where: str
) -> None:
    if "groups" in values:
        raise ConfigError(f"{where}groups is the campaign's to set: the run of {find(method).lender}")
    for scenario in scenarios:
        MethodRun(scenario, method, config=changed(preset(method, campaign.preset, scenario), values, where))


def _check_variations(campaign: Campaign) -> None:
    """They must be valid in their scenarios, and have names that are folders beside the methods'."""
    for name, values in campaign.variations.items():
        if not isinstance(values, Mapping):
            raise ConfigError(f"variations.{name} is {values!r}; it is a table")
        if name in (*METHODS, EVALUATION, SEQUENCE) or "/" in name or name.endswith(on_sequence("")):
            raise ConfigError(f"a variation is called {name!r}, which is taken or no name for a folder; choose another")
    for name, variation in campaign.varied().items():
        find(variation.method)
        strangers = [scenario for scenario in variation.scenarios if scenario not in campaign.scenarios]
        if strangers:
            raise ConfigError(
                f"variations.{name}.scenarios has {strangers[0]!r}; {hint(strangers[0], campaign.scenarios)}"
            )
        source = find(variation.method).lender
        if source and source not in campaign.methods:
            raise ConfigError(f"{name} learns with the groups of {source}; add {source!r} to the methods")
        own, where = variation.scenarios or campaign.scenarios, f"variations.{name}.settings."
        _check_config(campaign, own, variation.method, campaign.settings_of(name), where)


def read(path: Path) -> Campaign:
    """The campaign that a file describes."""
    values = read_toml(path)
    with of_file(path):
        return from_mapping(Campaign, values)


@dataclass(frozen=True)
class Task:
    """Something to be done by one process. Its name is a path in the campaign's folder."""

    name: str
    words: tuple[str, ...]  # of the command, behind `macop`
    settings: Mapping[str, Any]  # what its result depends on, beside its inputs; of a run, all that `run.toml` has
    result: str  # the file or the run's folder that is there when it is done
    needs: tuple[str, ...] = ()  # tasks that must be done before
    gathers: tuple[str, ...] = ()  # tasks that must have ended before; it is given those that are done

    @property
    def kind(self) -> str:
        """Tasks of a kind differ by their seed and take about as long."""
        return self.name.rpartition("/")[0]

    @property
    def trains(self) -> bool:
        """Whether it is a run, which takes its settings from a file."""
        return self.words[0] == "train"

    def command(self, done: Collection[str]) -> list[str]:
        """Its words, when these tasks are done."""
        return [*self.words, *(name for name in self.gathers if name in done)]


def tasks(campaign: Campaign) -> list[Task]:
    """What is to be done: scenario by scenario, those that others need first."""
    found: list[Task] = []
    for scenario in campaign.scenarios:
        methods = {name: name for name in campaign.methods}
        methods |= {name: variation.method for name, variation in campaign.varied(scenario).items()}
        runs = [_training(campaign, scenario, *pair, seed) for seed in campaign.seeds for pair in methods.items()]
        needed = {name for task in runs for name in task.needs}
        found += sorted(runs, key=lambda task: task.name not in needed)
        found.append(_evaluation(campaign, scenario, runs))
        for seed in campaign.seeds if campaign.learners else ():
            found.append(_sequence(campaign, scenario, seed))
            found += [_learner(campaign, scenario, method, seed) for method in campaign.through_sequence]
    return found


def outside(campaign: Campaign, scenarios: Sequence[str] | None, seeds: Sequence[int] | None) -> set[str]:
    """The tasks of other scenarios and seeds than these; None: all. The evaluation of a scenario is of all its seeds."""
    for name, wanted, known in (("scenarios", scenarios, campaign.scenarios), ("seeds", seeds, campaign.seeds)):
        strangers = [value for value in wanted or () if value not in known]
        if strangers:
            raise ValueError(f"{name} has {strangers[0]!r}; the campaign's are {', '.join(map(str, known))}")
    places, numbers = scenarios or campaign.scenarios, {str(seed) for seed in seeds or campaign.seeds}
    parts = {task.name: task.name.split("/") for task in tasks(campaign)}
    return {
        name
        for name, (scenario, *_, last) in parts.items()
        if scenario not in places or last not in {*numbers, EVALUATION}
    }


def on_sequence(method: str) -> str:
    """What a learner's runs are called."""
    return f"{method}-on-sequence"


def _sequence(campaign: Campaign, scenario: str, seed: int) -> Task:
    name, needs = f"{scenario}/sequence/{seed}", tuple(f"{scenario}/{one}/{seed}" for one in campaign.generators)
    words = ("sequence", *needs, f"--length={campaign.sequence}", f"--seed={seed}", f"--out={name}")
    return Task(name, words, {"length": campaign.sequence, "seed": seed}, name, needs)


def _learner(campaign: Campaign, scenario: str, method: str, seed: int) -> Task:
    return _train(campaign, scenario, on_sequence(method), method, seed, f"{scenario}/sequence/{seed}")


def _training(campaign: Campaign, scenario: str, called: str, method: str, seed: int) -> Task:
    source = find(method).lender
    return _train(campaign, scenario, called, method, seed, f"{scenario}/{source}/{seed}" if source else None)


def _train(campaign: Campaign, scenario: str, called: str, method: str, seed: int, groups: str | None) -> Task:
    """A run of a method; `groups` is the task whose groups it learns with."""
    name, needs = f"{scenario}/{called}/{seed}", (groups,) if groups else ()
    own = campaign.settings_of(called if called in campaign.variations else method)
    config = changed(preset(method, campaign.preset, scenario), {**own, **({"groups": groups} if groups else {})})
    settings = parse(to_toml(MethodRun(scenario, method, seed, campaign.threads, config)))
    words = ("train", f"--config={settings_file(name)}", f"--device={campaign.device}", f"--out={name}")
    return Task(name, words, settings, name, needs)


def settings_file(name: str) -> str:
    """Return the file with the settings of a run, beside its folder."""
    return f"{name}.toml"


def _evaluation(campaign: Campaign, scenario: str, runs: Sequence[Task]) -> Task:
    rows = f"{scenario}/rows.csv"
    words = ["pool", f"--episodes={campaign.episodes}", f"--threads={campaign.threads}", f"--device={campaign.device}"]
    words += [f"--out={rows}", *(["--by-folder"] if campaign.variations else [])]
    settings = {"episodes": campaign.episodes, "by_folder": bool(campaign.variations)}
    return Task(f"{scenario}/{EVALUATION}", tuple(words), settings, rows, gathers=tuple(task.name for task in runs))
