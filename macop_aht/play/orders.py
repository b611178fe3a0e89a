"""A person's orders: keys for the actions, and what is done where an order cannot be carried out at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from macop_aht.scenarios.scene import Scene
from macop_aht.scenarios.spec import World

IDLE = ("stay", "nothing", "stop", "noop", "no-op")  # the first that a world has is what a person does without a key
WAYS = {"north": (0, 1), "south": (0, -1), "west": (-1, 0), "east": (1, 0)}
KEYS = {
    "north": ("ArrowUp", "KeyW"),
    "south": ("ArrowDown", "KeyS"),
    "west": ("ArrowLeft", "KeyA"),
    "east": ("ArrowRight", "KeyD"),
}
LABELS = {"north": "↑", "south": "↓", "west": "←", "east": "→"}
ARROWED = {"up": "north", "down": "south", "left": "west", "right": "east"}  # as other environments name them


@dataclass(frozen=True)
class Control:
    """A button of the page for one action, and the keys that do the same, as `KeyboardEvent.code`."""

    action: int
    name: str
    label: str
    keys: tuple[str, ...]
    way: str = ""  # the direction that it leads to
    held: bool = True  # lasts as long as the key is held; else until the next order


def idle_action(actions: Sequence[str]) -> int:
    """Return the action that does nothing, by its name; the first one where no name says so."""
    return next((actions.index(name) for name in IDLE if name in actions), 0)


def controls(world: World) -> list[Control]:
    """Return a control for every action of a person, except that of the dead."""
    found, number = [], 0
    idle = idle_action(world.actions)
    for action, name in enumerate(world.actions):
        way = ARROWED.get(name.lower(), name.lower())
        if action == idle:
            found.append(Control(action, name, name, ("Space",)))
        elif way in KEYS:
            found.append(Control(action, name, LABELS[way], KEYS[way], way))
        elif name not in IDLE:
            told = name.rpartition(" ")[2]  # of "attack 3"
            digit = int(told) if told.isdigit() else (number := number + 1)
            keys = (f"Digit{digit}", f"Numpad{digit}") if digit < 10 else ()
            found.append(Control(action, name, name, keys, held=not name.startswith("attack")))
    return found


def carried_out(order: int, idle: int, mask: Sequence[int], world: World, scene: Scene, seat: int) -> int:
    """Return the available action that carries out an order, or begins to.

    An order aimed at a body that is too far away, such as an attack, leads towards that body. Otherwise an order that is not
    available is replaced by doing nothing, and that by the first available action.
    """
    if mask[order]:
        return order
    target = next((body for body in scene.bodies if body.action == order), None)
    own = scene.agents.get(seat)
    if target and own:
        dx, dy = target.x - own.x, target.y - own.y
        nearer = sorted(WAYS, key=lambda way: -(WAYS[way][0] * dx + WAYS[way][1] * dy))
        for way in nearer[:2]:
            if way in world.actions and mask[world.actions.index(way)]:
                return world.actions.index(way)
    return idle if mask[idle] else next((action for action, open_ in enumerate(mask) if open_), idle)
