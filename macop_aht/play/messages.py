"""What page and server tell each other, as JSON. docs/play.md lists the messages.

A message of a page is read strictly: a wrong one raises `ValueError`, which says what came and what is allowed.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from macop_aht.deploy.documents import as_dataclass, document, require
from macop_aht.play.choices import Choice, Offer
from macop_aht.play.game import Game
from macop_aht.play.orders import controls
from macop_aht.scenarios import SCENARIOS
from macop_aht.scenarios.scene import Body, Scene
from macop_aht.util import hint

PROTOCOL = 1
LONGEST = 2_048  # characters of a message of a page
FASTEST = 30.0  # steps per second


@dataclass(frozen=True)
class Start:
    """A new game; "" leaves a choice as it is."""

    agent: str = ""
    selector: str = ""
    teammate: str = ""
    person: bool = True


@dataclass(frozen=True)
class Act:
    """The person's order. In turns it is a step; in real time it lasts until the next order, or `release` of it."""

    action: int


@dataclass(frozen=True)
class Release:
    """A key is no longer held; an order that lasts stays."""

    action: int


@dataclass(frozen=True)
class Pace:
    """Steps per second; 0 waits for the person in every step."""

    steps: float

    def __post_init__(self) -> None:
        require(0 <= self.steps <= FASTEST, f"steps is {self.steps}; allowed are 0..{FASTEST:g} per second")


@dataclass(frozen=True)
class Next:
    """The next episode, where this one is over."""


@dataclass(frozen=True)
class Pause:
    """Stop the clock, or let it run."""

    on: bool


Message = Start | Act | Release | Pace | Next | Pause
KINDS: dict[str, type] = {kind.__name__.lower(): kind for kind in (Start, Act, Release, Pace, Next, Pause)}


def parse(text: str) -> Message:
    """Return a page's message; raise `ValueError` for one that is not allowed."""
    if len(text) > LONGEST:
        raise ValueError(f"the message has {len(text)} characters; allowed are {LONGEST}")
    found = document(text.encode("utf-8", "replace"))
    kind = found.pop("type", None)
    if not isinstance(kind, str) or kind not in KINDS:
        raise ValueError(f"unknown message type {kind!r:.60}; {hint(str(kind)[:60], KINDS)}")
    return as_dataclass(KINDS[kind], found)


def welcome(offer: Offer, game: Game, pace: float) -> dict[str, Any]:
    """Return the first message of a game: what it is, who plays, and what can be chosen."""
    world, choice = game.world, game.choice
    return {
        "type": "welcome",
        "protocol": PROTOCOL,
        "scenario": offer.scenario,
        "about": SCENARIOS[offer.scenario].about,
        "agents": {agent: list(selectors) for agent, selectors in offer.selectors.items()},
        "teammates": list(offer.teammates),
        "others": world.n_agents - world.controllable - 1,
        "choice": asdict(choice) if isinstance(choice, Choice) else {},
        "controls": [asdict(control) for control in controls(world)],
        "seat": game.seat,
        "limit": world.limit,
        "pace": pace,
    }


def state(game: Game, waiting: bool) -> dict[str, Any]:
    """Return what a page shows after a step. `waiting`: the clock waits for the person's first key."""
    mind = game.mind()
    return {
        "type": "state",
        "step": game.step_number,
        "episode": game.episodes + (not game.over),
        "scene": scene_message(game.scene()),
        "mask": game.mask,
        "last": game.last_actions,
        "score": game.score,
        "mean": game.mean_return,
        "episodes": game.episodes,
        "over": game.over,
        "waiting": waiting,
        "outcome": game.outcome if game.over else "",
        "won": game.won if game.over else None,
        "mind": {
            "kind": mind.kind,
            "head": mind.head,
            "bars": [[bar.label, round(bar.value, 4), bar.head, bar.tried] for bar in mind.bars],
        },
    }


def error(problem: Exception | str) -> dict[str, Any]:
    """Return the answer to a message that was wrong."""
    text = problem.args[0] if isinstance(problem, KeyError) and problem.args else problem
    return {"type": "error", "text": str(text)[:500]}


def scene_message(scene: Scene) -> dict[str, Any]:
    """Return a scene as JSON holds it; numbers are rounded to thousandths."""
    if scene.picture is not None:
        return {"picture": _data_url(scene.picture)}
    return {
        "area": [round(float(side), 3) for side in scene.area],
        "grid": list(scene.grid),
        "rings": [[round(ring.x, 3), round(ring.y, 3), ring.radius, ring.role] for ring in scene.rings],
        "bodies": [_body(body) for body in scene.bodies],
    }


def _body(body: Body) -> dict[str, Any]:
    found: dict[str, Any] = {"key": body.key, "x": round(body.x, 3), "y": round(body.y, 3), "r": body.radius}
    found |= {"role": body.role, "label": body.label, "agent": body.agent, "action": body.action}
    return found | {"gauges": [[round(gauge.fraction, 3), gauge.role] for gauge in body.gauges]}


def _data_url(picture: Any) -> str:
    from base64 import b64encode
    from io import BytesIO

    try:
        from PIL import Image
    except ImportError as missing:
        raise ImportError(
            "the pictures of this environment need Pillow: pip install 'macop-aht[play,render]'"
        ) from missing
    content = BytesIO()
    Image.fromarray(picture).save(content, "PNG")
    return f"data:image/png;base64,{b64encode(content.getvalue()).decode()}"
