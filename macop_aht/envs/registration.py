"""Gymnasium ids: one per scenario, and `register` for scenarios of your own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import gymnasium

if TYPE_CHECKING:
    from macop_aht.scenarios import Family, Scenario

BUILTIN = ("LBF1", "LBF4", "PP1", "PP2", "CN2", "CN3", "SMAC1", "SMAC2")


def env_id(scenario: str) -> str:
    """Return the Gymnasium id of a scenario."""
    return f"Macop{scenario}-v0"


def _register(name: str, scenario: str | Scenario) -> None:
    gymnasium.register(
        id=env_id(name),
        entry_point="macop_aht.envs.single:MacopEnv",
        vector_entry_point="macop_aht.envs.vector:MacopVectorEnv",
        kwargs={"scenario": scenario},
    )


def register_builtin() -> None:
    """Register the eight scenarios by name. A world is built when an environment is made."""
    for name in BUILTIN:
        if env_id(name) not in gymnasium.registry:
            _register(name, name)


def register(name: str, family: Family, about: str = "") -> str:
    """Add a scenario of your own, and return its Gymnasium id.

    After `register("LBF9", LevelBasedForaging(shape=(9, 9), ...))`, `gym.make("MacopLBF9-v0")`, `gym.make_vec` and
    `parallel_env("LBF9")` know it in this process. Worker processes that make it by its id must register it too: call
    `register` in a module that they import. `about` describes the scenario in one line.

    Raises `ValueError` for a name with other characters than letters, digits and underscores, and for a name that has other
    parameters already. Raises `TypeError` where `family` is not an object with parameters.
    """
    from macop_aht.scenarios import SCENARIOS, Scenario

    if not f"_{name}".isidentifier() or not name:
        raise ValueError(f"scenario name {name!r}: allowed are letters, digits and underscores, as in 'LBF9'")
    if name in SCENARIOS and SCENARIOS[name].family != family:
        raise ValueError(f"scenario {name!r} exists already with other parameters; choose another name")
    if isinstance(family, type) or not callable(getattr(family, "build", None)):
        raise TypeError(
            f"family is {family!r}; give parameters such as LevelBasedForaging(...), PredatorPrey(...), "
            "CooperativeNavigation(...) or Combat(...), or External(make=...) for an environment of yours"
        )
    if name not in SCENARIOS:
        SCENARIOS[name] = Scenario(name, family, about or (type(family).__doc__ or "").split("\n")[0])
        _register(
            name, SCENARIOS[name]
        )  # the scenario itself, so that a spec that is sent to another process is complete
    return env_id(name)
