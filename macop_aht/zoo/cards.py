"""The card of a teammate group, and the index of a scenario's zoo folder, which holds the cards.

The index is read strictly: an unknown key, a missing one or a value of the wrong type is an error that says which.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from macop_aht.config import ConfigError, from_mapping
from macop_aht.util import hint, read_limited, write_whole

Split = Literal["train", "validation", "test"]
SPLITS: tuple[Split, ...] = ("train", "validation", "test")
INDEX = "index.json"
GROUP_FILE = re.compile(r"[^/\\\0\ud800-\udfff]{1,200}\.onnx")  # what a group's file may be called, in its folder
FORMAT = 2
LIMIT = 8 * 2**20  # bytes of an index
ABOUT = "Teammate groups of this scenario. The responder is the group of the zoo that does best with a group."


@dataclass(frozen=True)
class Card:
    """What is known of a teammate group."""

    name: str  # generator/number, unique in the scenario
    scenario: str
    generator: str  # the method that made it
    seed: int  # of the run
    group: str  # its name in the run
    config_hash: str  # sha-256 of the run's settings
    file: str
    sha256: str
    precision: Literal["single", "half"]
    self_play: float  # greedy mean return with itself
    best_response: float  # mean return of the responder with it, in the ego's seats
    responder: str  # the group of the zoo that does best with it, often itself
    outcomes: list[str] = field(default_factory=list)  # how its self-play ends, most often first
    split: Split = "train"

    def __post_init__(self) -> None:
        texts = (self.name, self.scenario, self.generator, self.group, self.file, self.responder, *self.outcomes)
        if not all(text.isprintable() for text in texts):
            raise ConfigError(f"card {self.name!r} has control characters among its texts")
        if not (math.isfinite(self.self_play) and math.isfinite(self.best_response)):
            raise ConfigError(f"card {self.name!r} has NaN or infinity among its figures")
        if "/" not in self.name or len(self.name) > 200 or not GROUP_FILE.fullmatch(self.file):
            raise ConfigError(
                f"card {self.name!r}, file {self.file!r}: a name is generator/number, a file is NAME.onnx in its folder"
            )


def generator_of(method: str) -> str:
    """Return what cards call a method: in a teammate's name, a plus begins a perturbation."""
    return method.replace("+", "-plus")


def method_of(generator: str) -> str:
    """Return the inverse of `generator_of`."""
    return generator.replace("-plus", "+")


def read_index(folder: Path) -> dict[str, Card]:
    """Return the cards of a scenario's folder by name; raise `FileNotFoundError` or `ValueError`."""
    path = folder / INDEX
    try:
        content = load_index(folder)
        written = content.get("format", 1)
        if written == 1:
            raise ConfigError("it is of format 1; convert it with `macop convert`")
        if written != FORMAT:
            raise ConfigError(f"it is of format {written!r}; this version reads {FORMAT}. Upgrade macop-aht")
        return cards_of(content, folder.name)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"{path} cannot be read ({error}); restore it, or add the groups again") from error


def load_index(folder: Path) -> dict[str, Any]:
    """Return the index of a scenario's folder as dictionaries and lists, of whatever format."""
    path = folder / INDEX
    if not path.is_file():
        raise FileNotFoundError(f"there is no {INDEX} in {folder}")
    found = json.loads(read_limited(path, LIMIT).decode("utf-8"))
    if not isinstance(found, dict):
        raise ConfigError("it is no table of keys and values")
    return found


def cards_of(content: dict[str, Any], scenario: str) -> dict[str, Card]:
    """Return the cards in an index of the present format; raise `ConfigError` or `KeyError`."""
    known = ("format", "about", "groups")
    unknown = next((name for name in content if name not in known), None)
    if unknown is not None:
        raise ConfigError(f"unknown key {unknown!r}; {hint(unknown, known)}")
    cards = [from_mapping(Card, entry) for entry in content["groups"]]
    strangers = sorted({card.scenario for card in cards} - {scenario})
    if strangers:
        raise ConfigError(f"it holds cards of {', '.join(strangers)}")
    for what in ("name", "file"):
        values = [getattr(card, what) for card in cards]
        twice = sorted({value for value in values if values.count(value) > 1})
        if twice:
            raise ConfigError(f"it has groups of the same {what}: {', '.join(twice)}")
    return {card.name: card for card in cards}


def write_index(folder: Path, cards: dict[str, Card], about: str = ABOUT) -> None:
    """Write the index of a scenario's folder, whole or not at all."""
    content = {"format": FORMAT, "about": about, "groups": [asdict(card) for card in cards.values()]}
    write_whole(folder / INDEX, json.dumps(content, indent=1) + "\n")
