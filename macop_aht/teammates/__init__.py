"""Teammates: policies that play inside an environment, and the specs that name them.

A spec is a policy, a callable `(obs, mask) -> action`, a model with `predict`, the path of an `.onnx` file, a string, or
a list of specs, which is a population. Strings: `random`; `scripted`, all of the scenario's scripts;
`scripted:corner-ne`, one of them; `zoo:macop/3`, `zoo:test` or `zoo:all`, of the zoo's groups. Habits follow a `+`:
`scripted:corner-ne+noisy=0.1+idle=3`, `random+switch=10,scripted:nearest`. Habits of a population are given to each of its
members.
"""

from __future__ import annotations

from os import PathLike
from typing import Any

from macop_aht.scenarios.spec import World, hint
from macop_aht.teammates.adapters import as_policy
from macop_aht.teammates.onnx import OnnxPolicy
from macop_aht.teammates.protocol import Policy
from macop_aht.teammates.scripted import Random, Scripted, scripted
from macop_aht.teammates.wrappers import Delayed, Idle, Noisy, Sticky, Switching

__all__ = [
    "HABITS",
    "Delayed",
    "Idle",
    "Noisy",
    "OnnxPolicy",
    "Policy",
    "Random",
    "Scripted",
    "Sticky",
    "Switching",
    "resolve",
]

HABITS = {
    "noisy": "noisy=0.1: a random action with this probability",
    "sticky": "sticky=0.25: repeats its last action with this probability",
    "delayed": "delayed=2: acts on what it saw this many steps ago",
    "idle": "idle=5: does nothing for this many steps at first",
    "switch": "switch=10,random: becomes another teammate after this many steps",
}


def resolve(spec: Any, world: World, scenario: str = "") -> list[Policy]:
    """The population that a spec stands for: a list of at least one policy. The zoo's are those of the scenario of that name."""
    if isinstance(spec, str):
        return _from_string(spec, world, scenario)
    if isinstance(spec, PathLike):
        return [OnnxPolicy(str(spec), world)]
    if isinstance(spec, (list, tuple)):
        if not spec:
            raise ValueError("the list of teammates is empty; give at least one")
        return [policy for part in spec for policy in resolve(part, world, scenario)]
    return [as_policy(spec)]


def _from_string(text: str, world: World, scenario: str) -> list[Policy]:
    file = text.rfind(".onnx") + len(".onnx") if ".onnx" in text else 0  # a path may hold a plus
    head, *habits = text[file:].split("+")
    head = text[:file] + head
    population = _named(head, world, scenario)
    for position, habit in enumerate(habits):
        name, _, value = habit.partition("=")
        if name not in HABITS:
            raise ValueError(f"unknown habit {habit!r} in teammate {text!r}; {hint(name, HABITS)}")
        if name == "switch":  # everything behind the comma is the other teammate, with its habits
            rest = "+".join([value, *habits[position + 1 :]])
            return [_switching(text, policy, rest, world, scenario) for policy in population]
        try:
            amount = float(value)
        except ValueError:
            raise ValueError(f"{habit!r} in teammate {text!r} has no number; write {HABITS[name]}") from None
        population = [_with_habit(policy, name, amount, world) for policy in population]
    return population


def _named(head: str, world: World, scenario: str) -> list[Policy]:
    kind, _, name = head.partition(":")
    if head.endswith(".onnx"):
        return [OnnxPolicy(head, world)]
    if head == "random":
        return [Random()]
    if head == "scripted":
        return list(scripted(world).values())
    if kind == "scripted":
        by_name = scripted(world)
        if name not in by_name:
            raise ValueError(f"unknown scripted teammate {name!r}; {hint(name, by_name)}")
        return [by_name[name]]
    if kind == "zoo":
        from macop_aht import zoo  # which knows of teammates

        if not scenario:
            raise ValueError(f"{head!r} needs a scenario with a name; make the environment by its id")
        return list(zoo.policies(name, scenario, world))
    allowed = ["random", "scripted", *(f"scripted:{script}" for script in world.scripts), "zoo:NAME", "FILE.onnx"]
    raise ValueError(f"unknown teammate {head!r}; {hint(head, allowed)}")


def _with_habit(policy: Policy, name: str, amount: float, world: World) -> Policy:
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
        raise ValueError(f"cannot read the switch in teammate {text!r}; write {HABITS['switch']}")
    then = _from_string(other, world, scenario)
    if len(then) != 1:
        raise ValueError(f"{other!r} in teammate {text!r} is a population; switch to a single teammate")
    return Switching(policy, then[0], int(steps))
