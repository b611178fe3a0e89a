"""How an environment is made, begun and described."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Mapping
from typing import Any

import numpy as np

from macop_aht.scenarios.external.errors import ExternalError, require
from macop_aht.scenarios.external.forms import own_limit, parallel_form
from macop_aht.scenarios.external.layout import (
    Layout,
    action_sizes,
    observation_readers,
    team_order,
    where_masks_are,
)
from macop_aht.scenarios.external.smac import SmacTeam, import_hint

Infos = Mapping[Hashable, Any]


def takes(function: Any, name: str, keywords: bool = False) -> bool:
    """Return whether a function has a parameter of that name; with `keywords`, also whether it takes any keyword."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False
    return name in parameters or (keywords and any(own.kind is own.VAR_KEYWORD for own in parameters.values()))


def opened(make: Callable[..., Any], seed: int, **more: Any) -> tuple[Any, Any]:
    """Return what `make` returns, and its parallel form. `make` gets the seed if it has a parameter of that name."""
    given = {"seed": seed} if takes(make, "seed") else {}
    try:
        env = make(**given, **more)
    except ImportError as error:
        raise ExternalError(f"make failed: {error}{import_hint(error)}") from error
    except ExternalError:
        raise
    except Exception as error:
        raise ExternalError(
            f"make failed: {type(error).__name__}: {error}. It is called as make({'seed=…' if given else ''}); what else it "
            "needs is given by a function around it"
        ) from error
    require(env is not None, "make returned None; it must return the environment")
    return env, parallel_form(env)


def reseeds(form: Any) -> bool:
    """Return whether `reset` takes a seed."""
    return bool(getattr(form, "reseeds", takes(form.reset, "seed", keywords=True)))


def begun(form: Any, seed: int) -> tuple[Mapping[Hashable, Any], Infos]:
    """Begin an episode, and return observations and infos."""
    found = form.reset(seed=seed) if reseeds(form) else form.reset()
    require(
        isinstance(found, tuple) and len(found) == 2 and all(isinstance(part, Mapping) for part in found),
        f"reset returned a {type(found).__name__}; it must return (observations, infos), two dictionaries by agent",
    )
    return found


def describe(make: Callable[..., Any], form: Any, ego: int | tuple[Hashable, ...], limit: int | None) -> Layout:
    """Return the layout of an environment. Raises `ExternalError` where it lacks what is needed."""
    require(
        reseeds(form) or takes(make, "seed") or isinstance(form, SmacTeam),
        "reset takes no seed, and make neither; add a parameter seed to one of them, so that episodes can be repeated",
    )
    agents, controllable = team_order(form.possible_agents, ego)
    counts, starts = action_sizes(form, agents)
    seen, infos = begun(form, 0)
    steps = limit or own_limit(form)
    require(steps, "the environment does not say after how many steps an episode is cut; give limit=…")
    names = getattr(form, "action_names", None) or tuple(f"action_{k}" for k in range(max(counts)))
    return Layout(
        agents,
        controllable,
        int(steps or 0),
        observation_readers(form, agents, seen),
        tuple(names),
        counts,
        starts,
        where_masks_are(agents, seen, infos),
        _state_size(form),
        getattr(form, "battle_won", None) is not None,
    )


def _state_size(form: Any) -> int:
    """Return the size of the environment's own state; 0 where it has none."""
    if not callable(getattr(form, "state", None)):
        return 0
    try:
        return int(np.size(form.state()))
    except NotImplementedError:  # of PettingZoo's base class
        return 0
