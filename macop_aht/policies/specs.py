"""Teammate specs: what a user writes for a teammate, made into policies.

A spec is a policy, a callable `(obs, mask) -> action`, a model with `predict`, the path of an `.onnx` file, a string, or a
list of specs, which is a population. The strings:

    random                        any available action with equal chance
    scripted                      all of the scenario's scripts
    scripted:corner-ne            one of them
    zoo:macop/3                   a group of the zoo; zoo:test is a split, zoo:all is every group
    agent:macop-plus/LBF4         a shipped bundle, or the folder of one, playing a teammate; agent:macop/LBF4@2 plays head 2
    FILE.onnx                     a network in a file
    PREFIX:...                    what a registered prefix stands for; see `prefixes`

Perturbations follow a `+`: `scripted:corner-ne+noisy=0.1+idle=3`, `random+switch=10,scripted:nearest`. Those of a population
are given to each of its members.
"""

from __future__ import annotations

from os import PathLike
from typing import Any

from macop_aht.policies.adapters import as_policy
from macop_aht.policies.onnx import OnnxPolicy
from macop_aht.policies.perturbations import Delayed, Idle, Noisy, Sticky, Switching
from macop_aht.policies.prefixes import loader, prefixes
from macop_aht.policies.protocol import Policy
from macop_aht.policies.scripted import Random, scripted
from macop_aht.scenarios.spec import World
from macop_aht.util import hint

PERTURBATIONS = {
    "noisy": "noisy=0.1: a random action with this probability",
    "sticky": "sticky=0.25: repeats its last action with this probability",
    "delayed": "delayed=2: acts on what it saw this many steps ago",
    "idle": "idle=5: does nothing for this many steps at first",
    "switch": "switch=10,random: becomes another teammate after this many steps",
}


def resolve(spec: Any, world: World, scenario: str = "") -> list[Policy]:
    """Return the population that a spec stands for: a list of at least one policy.

    `scenario` is the name of the world's scenario, for specs such as `zoo:test`, which depend on it.
    """
    try:
        return _resolved(spec, world, scenario)
    except RecursionError:
        raise ValueError("the teammates are nested too deeply; give a flat list, and a few perturbations") from None


def _resolved(spec: Any, world: World, scenario: str) -> list[Policy]:
    if isinstance(spec, str):
        return _from_string(spec, world, scenario)
    if isinstance(spec, PathLike):
        return [OnnxPolicy(str(spec), world)]
    if isinstance(spec, (list, tuple)):
        if not spec:
            raise ValueError("the list of teammates is empty; give at least one")
        return [policy for part in spec for policy in _resolved(part, world, scenario)]
    return [as_policy(spec)]


def _from_string(text: str, world: World, scenario: str) -> list[Policy]:
    file = text.rfind(".onnx") + len(".onnx") if ".onnx" in text else 0  # a path may hold a plus
    head, *perturbations = text[file:].split("+")
    head = text[:file] + head
    population = _named(head, world, scenario)
    for position, perturbation in enumerate(perturbations):
        name, _, value = perturbation.partition("=")
        if name not in PERTURBATIONS:
            raise ValueError(f"unknown perturbation {perturbation!r} in teammate {text!r}; {hint(name, PERTURBATIONS)}")
        if name == "switch":  # everything behind the comma is the other teammate, with its perturbations
            rest = "+".join([value, *perturbations[position + 1 :]])
            return [_switching(text, policy, rest, world, scenario) for policy in population]
        try:
            amount = float(value)
        except ValueError:
            usage = PERTURBATIONS[name]
            raise ValueError(f"{perturbation!r} in teammate {text!r} has no number; write {usage}") from None
        population = [_perturbed(policy, name, amount, world) for policy in population]
    return population


def _named(head: str, world: World, scenario: str) -> list[Policy]:
    kind, _, name = head.partition(":")
    if head.endswith(".onnx"):
        return [OnnxPolicy(head, world)]
    if head == "random":
        return [Random()]
    if head.partition(":")[0] == "scripted" and not world.scripts:
        raise ValueError(
            f"teammate is {head!r}, and this environment has no scripts; give another teammate, such as 'random', a policy or "
            "'zoo:NAME', or scripts with External(scripts={…})"
        )
    if head == "scripted":
        return list(scripted(world).values())
    if kind == "scripted":
        by_name = scripted(world)
        if name not in by_name:
            raise ValueError(f"unknown scripted teammate {name!r}; {hint(name, by_name)}")
        return [by_name[name]]
    load = loader(kind) if name else None
    if load is not None:
        return load(name, scenario, world)
    allowed = ["random", "scripted", *(f"scripted:{script}" for script in world.scripts)]
    allowed += [*(f"{prefix}:NAME" for prefix in prefixes()), "FILE.onnx"]
    raise ValueError(f"unknown teammate {head!r}; {hint(head, allowed)}")


def _perturbed(policy: Policy, name: str, amount: float, world: World) -> Policy:
    if name == "noisy":
        return Noisy(policy, amount)
    if name == "sticky":
        return Sticky(policy, amount)
    if name == "idle":
        return Idle(policy, amount)
    return Delayed(policy, amount, world)


def _switching(text: str, policy: Policy, rest: str, world: World, scenario: str) -> Policy:
    steps, comma, other = rest.partition(",")
    if not comma or not steps.isdigit():
        raise ValueError(f"cannot read the switch in teammate {text!r}; write {PERTURBATIONS['switch']}")
    then = _from_string(other, world, scenario)
    if len(then) != 1:
        raise ValueError(f"{other!r} in teammate {text!r} is a population; switch to a single teammate")
    return Switching(policy, then[0], int(steps))
