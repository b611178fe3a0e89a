"""The zoo: teammate groups by name, safe to load.

    zoo.list("LBF4")                    the names
    zoo.load("LBF4", "macop/3")         a group as a policy
    zoo.split("LBF4", "test")           the groups of a split as policies
    zoo.card("LBF4", "macop/3")         what is known of a group

Before a network runs, its file is compared with its card (size and sha-256), and its graph is checked: see `graphs`.
"""

from __future__ import annotations

import builtins
import hashlib
from pathlib import Path

from macop_aht import paths
from macop_aht.onnx import FormatError, Graph, read
from macop_aht.policies.onnx import OnnxPolicy
from macop_aht.policies.prefixes import register_prefix
from macop_aht.scenarios import build, find
from macop_aht.scenarios.spec import World
from macop_aht.util import hint
from macop_aht.zoo import graphs
from macop_aht.zoo.cards import INDEX, SPLITS, Card, read_index

__all__ = ["Card", "card", "cards", "graph", "list", "load", "split"]


def cards(scenario: str, folder: str | Path | None = None) -> dict[str, Card]:
    """Return every card of a scenario, by name. `folder` is another zoo than the installed one.

    Raise `KeyError` for an unknown scenario, `FileNotFoundError` where the zoo has none of its groups, and `ValueError` where
    the index cannot be read.
    """
    own = paths.find("zoo", folder) / find(scenario).name
    if not own.is_dir():
        raise FileNotFoundError(f"the zoo in {own.parent} has no groups for {scenario}; make some with `macop zoo add`")
    return read_index(own)


def list(scenario: str, folder: str | Path | None = None) -> builtins.list[str]:
    """Return the names of a scenario's groups."""
    return [*cards(scenario, folder)]


def card(scenario: str, name: str, folder: str | Path | None = None) -> Card:
    """Return the card of a group; raise `KeyError` where there is none of that name."""
    known = cards(scenario, folder)
    if name not in known:
        raise KeyError(f"there is no group {name!r} for {scenario} in the zoo; {hint(name, known)}")
    return known[name]


def load(scenario: str, name: str, folder: str | Path | None = None, world: World | None = None) -> OnnxPolicy:
    """Return a group as a policy for all seats of its team; `world` is the scenario's unless it is given.

    Raise `KeyError` for an unknown name, and `FileNotFoundError` or `ValueError` where the file is missing or damaged.
    """
    return _policy(card(scenario, name, folder), world or build(scenario), folder)


def split(
    scenario: str, name: str, folder: str | Path | None = None, world: World | None = None
) -> builtins.list[OnnxPolicy]:
    """Return the groups of a split as policies: train, validation or test."""
    if name not in SPLITS:
        raise ValueError(f"unknown split {name!r}; {hint(name, SPLITS)}")
    found = [known for known in cards(scenario, folder).values() if known.split == name]
    if not found:
        raise ValueError(f"the split {name!r} of {scenario} is empty")
    return [_policy(known, world or build(scenario), folder) for known in found]


def graph(known: Card, folder: str | Path | None = None) -> Graph:
    """Return the graph of a group, its file checked against its card."""
    return _checked(known, build(known.scenario), folder)[1]


def policies(spec: str, scenario: str, world: World) -> builtins.list[OnnxPolicy]:
    """Return what a teammate spec stands for behind `zoo:`: a group, a split, or `all`."""
    if not scenario:
        raise ValueError(f"'zoo:{spec}' needs a scenario with a name; make the environment by its id")
    if spec in SPLITS:
        return split(scenario, spec, world=world)
    if spec == "all":
        return [load(scenario, name, world=world) for name in list(scenario)]
    return [load(scenario, spec, world=world)]


register_prefix("zoo", policies)


def _policy(known: Card, world: World, folder: str | Path | None) -> OnnxPolicy:
    content, _ = _checked(known, world, folder)
    return OnnxPolicy(paths.find("zoo", folder) / known.scenario / known.file, world, content, name=f"zoo:{known.name}")


def _checked(known: Card, world: World, folder: str | Path | None) -> tuple[bytes, Graph]:
    path = paths.find("zoo", folder) / known.scenario / known.file
    if not path.is_file():
        raise FileNotFoundError(f"{path}, the file of {known.name}, is missing; restore it from the zoo's source")
    try:
        with open(path, "rb") as file:
            content = file.read(graphs.LIMIT + 1)
        if len(content) > graphs.LIMIT:
            raise FormatError(f"it has more than {graphs.LIMIT} bytes")
        if hashlib.sha256(content).hexdigest() != known.sha256:
            raise FormatError("its sha-256 is not the one on its card")
        found = read(content)
        graphs.check(found, world)
    except FormatError as error:
        raise ValueError(
            f"{path} is not the file that {INDEX} names for {known.name}: {error}. Restore it from the zoo's source"
        ) from error
    return content, found
