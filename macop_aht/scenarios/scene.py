"""What there is to see of a world: bodies and ranges with their roles, from which pictures and the page's messages are made.

A family describes its scene once. Coordinates are the world's own; y points up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

Role = Literal["ego", "mate", "food", "prey", "landmark", "enemy", "health", "shield"]


class Area(NamedTuple):
    """The part of the world to show."""

    left: float
    bottom: float
    right: float
    top: float


UNIT = Area(0.0, 0.0, 1.0, 1.0)


@dataclass(frozen=True)
class Gauge:
    """A bar over a body."""

    fraction: float  # filled
    role: Role


@dataclass(frozen=True)
class Ring:
    """A range around a point."""

    x: float
    y: float
    radius: float
    role: Role


@dataclass(frozen=True)
class Body:
    """A thing with a place and a size. A body keeps its key from step to step; a body that is gone is left out."""

    key: str
    x: float
    y: float
    radius: float
    role: Role
    label: str = ""  # written on it
    glyph: str = "?"  # stands for it in text
    agent: int | None = None  # the number of the agent that this body is
    action: int | None = None  # the action that is aimed at this body, such as an attack
    gauges: tuple[Gauge, ...] = ()


@dataclass(frozen=True, eq=False)
class Scene:
    """All that is shown of an environment at one moment: bodies and ranges, or a picture of the environment's own."""

    area: Area = UNIT
    bodies: tuple[Body, ...] = ()  # in the order in which they are drawn
    rings: tuple[Ring, ...] = ()
    grid: tuple[int, int] = (0, 0)  # rows and columns of tiles with sides of 1; none in a world without tiles
    picture: np.ndarray | None = None  # (height, width, 3) uint8, where there is nothing else to show

    @property
    def agents(self) -> dict[int, Body]:
        """Return the agents' bodies by their numbers; the dead are missing."""
        return {body.agent: body for body in self.bodies if body.agent is not None}


SceneOf = Callable[[Any, int], Scene]  # (state, b): the scene of environment b


def seat_role(agent: int, controllable: int) -> Role:
    """Return the role of an agent's body."""
    return "ego" if agent < controllable else "mate"
