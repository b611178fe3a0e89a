"""Prefixes of teammate specs: who makes policies of `zoo:macop/3`, `agent:macop-plus/LBF4` and the like.

A room that knows a kind of policies registers a prefix for it. Those of this package are registered when their room is
imported, which `announce` makes happen when the first spec of that prefix is resolved.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from macop_aht.scenarios.spec import World

# (what stands behind the prefix, the scenario's name or "", its world) -> policies
Loader = Callable[[str, str, "World"], list[Any]]
_loaders: dict[str, Loader] = {}
_announced: dict[str, str] = {}  # the module that registers a prefix


def register_prefix(prefix: str, load: Loader) -> None:
    """Make teammate specs that begin with `prefix:` known.

    `load` gets what stands behind the prefix, the scenario's name ("" where it has none) and its world. It returns the
    policies that this stands for, at least one.

    Raises ValueError where the prefix is taken, or is no name.
    """
    if not prefix.replace("-", "_").isidentifier():
        raise ValueError(f"the prefix {prefix!r} must consist of letters, digits and dashes, such as 'mine'")
    if prefix in ("scripted", "random") or _loaders.get(prefix, load) is not load:
        raise ValueError(f"the prefix {prefix!r} is taken; choose another name")
    _loaders[prefix] = load


def announce(prefix: str, module: str) -> None:
    """Say which module registers a prefix when it is imported."""
    _announced[prefix] = module


def prefixes() -> list[str]:
    """Return every known prefix."""
    return sorted({*_loaders, *_announced})


def loader(prefix: str) -> Loader | None:
    """Return what loads specs of that prefix; None where it is unknown."""
    if prefix not in _loaders and prefix in _announced:
        import_module(_announced[prefix])
    return _loaders.get(prefix)
