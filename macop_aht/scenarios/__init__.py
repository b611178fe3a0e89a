"""The worlds, and the table of scenarios (`SCENARIOS`) that the other rooms and the tests walk through."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import lru_cache
from typing import Any

from macop_aht import paths
from macop_aht.scenarios.combat import MARINE, ZEALOT, Combat, Unit, zealot_circle
from macop_aht.scenarios.external import External, ExternalError, from_smac, use_workers
from macop_aht.scenarios.lbf import LevelBasedForaging
from macop_aht.scenarios.particle import CooperativeNavigation, PredatorPrey
from macop_aht.scenarios.spec import Family, Kernels, Script, World, circle
from macop_aht.util import hint

__all__ = [
    "MARINE",
    "SCENARIOS",
    "ZEALOT",
    "Combat",
    "CooperativeNavigation",
    "External",
    "ExternalError",
    "Family",
    "Kernels",
    "LevelBasedForaging",
    "PredatorPrey",
    "Scenario",
    "Script",
    "Unit",
    "World",
    "build",
    "build_with",
    "circle",
    "find",
    "from_smac",
    "use_workers",
]


@dataclass(frozen=True)
class Scenario:
    """A family with fixed parameters, and the name under which users find it.

    `about` describes it in one line.
    """

    name: str
    family: Family
    about: str


SCENARIOS: dict[str, Scenario] = {
    scenario.name: scenario
    for scenario in (
        Scenario(
            "LBF1",
            LevelBasedForaging(shape=(5, 5), foods=((4, 4),), spawn=((0, 0), (0, 1), (1, 0), (1, 1)), meetings=2),
            "5x5 grid, one food; pays only if the two stood side by side twice before",
        ),
        Scenario("LBF4", LevelBasedForaging(), "6x6 grid, a food in each corner; meet at the same one"),
        Scenario("PP1", PredatorPrey(), "3 random prey; both predators at the same one at once"),
        Scenario(
            "PP2",
            PredatorPrey(
                prey=((1.0, 0.0), (0.31, 0.95), (-0.8, 0.6), (-0.8, -0.6), (0.31, -0.95)),
                prey_policy="flee",
                prey_acceleration=1.5,
                prey_max_speed=0.3,
            ),
            "5 fleeing prey; both predators at the same one at once",
        ),
        Scenario("CN2", CooperativeNavigation(), "2 landmarks, one agent at each"),
        Scenario(
            "CN3",
            CooperativeNavigation(
                agents=((1.0, 0.0), (-0.5, 0.87), (-0.5, -0.87)),
                landmarks=((0.5, 0.87), (-1.0, 0.0), (0.5, -0.87)),
                near=1.7,
                controllable=2,
            ),
            "3 landmarks, one agent at each; two of the three agents are the ego's",
        ),
        Scenario("SMAC1", Combat(), "2 marines against two separate pairs of marines"),
        Scenario("SMAC2", zealot_circle(), "2 marines against six separate zealots"),
    )
}


def find(name: str) -> Scenario:
    """Return the scenario of that name. `my_module:make_env` is an environment of the user's.

    Raises `KeyError` with a suggestion where there is none.
    """
    if name in SCENARIOS:
        return SCENARIOS[name]
    if isinstance(name, str) and ":" in name:
        return _of_module(name)
    other_case = next((known for known in SCENARIOS if known.lower() == str(name).lower()), str(name))
    raise KeyError(f"unknown scenario {name!r}; {hint(other_case, SCENARIOS)}")


def _of_module(spec: str) -> Scenario:
    """Return the environment that `my_module:make_env` makes as a scenario, which is then known as `my_module_make_env`.

    The module may have a function that makes environments, or a family such as `External(...)`.
    """
    where, _, what = spec.partition(":")
    name = re.sub(r"\W", "_", spec)
    if name in SCENARIOS:
        return SCENARIOS[name]
    try:
        module = paths.module(where)
    except ModuleNotFoundError as error:
        if error.name != where.partition(".")[0]:
            raise
        raise KeyError(
            f"unknown scenario {spec!r}: there is no module {where!r} here; MODULE:FUNCTION is looked for from the working folder"
        ) from error
    if not hasattr(module, what):
        raise KeyError(f"unknown scenario {spec!r}; {where} has no {what!r}. {hint(what, vars(module))}")
    made = getattr(module, what)
    family = made if callable(getattr(made, "build", None)) else External(make=made)
    SCENARIOS[name] = Scenario(name, family, f"the environment that {spec} makes")
    return SCENARIOS[name]


@lru_cache(maxsize=64)
def _build(family: Family) -> World:
    return family.build()


def build(scenario: str | Scenario | Family, **changes: Any) -> World:
    """Build the world of a scenario, with `changes` to its family's parameters.

    The scenario is a name, a `Scenario` or a family. Returns a `World`; equal arguments return the same object.
    Raises `KeyError` for an unknown scenario, `TypeError` for an unknown parameter, and what the family raises for a bad value.
    """
    return build_with(scenario, changes)


def build_with(scenario: str | Scenario | Family | World, changes: dict[str, Any], also: tuple[str, ...] = ()) -> World:
    """Build a world as `build` does, with the changes in a dictionary.

    `also` names arguments that the caller handles itself. An error about an unknown parameter lists them too.
    """
    if isinstance(scenario, World) and not changes:
        return scenario
    if isinstance(scenario, World):
        raise TypeError(
            f"a built world takes no parameters, and {', '.join(changes)} came; give the scenario's name or its family"
        )
    if isinstance(scenario, str):
        scenario = find(scenario)
    family = scenario.family if isinstance(scenario, Scenario) else scenario
    if not is_dataclass(family) or isinstance(family, type):
        raise TypeError(
            f"scenario is {family!r}; give a name such as 'LBF4', or a family such as LevelBasedForaging(...)"
        )
    allowed = [*also, *(field.name for field in fields(family))]
    for name in changes:
        if name == "max_episode_steps":
            raise TypeError("got an unexpected keyword argument 'max_episode_steps'; the scenarios call it 'limit'")
        if name not in allowed:
            raise TypeError(f"got an unexpected keyword argument {name!r}; {hint(name, allowed)}")
    return _build(replace(family, **changes) if changes else family)
