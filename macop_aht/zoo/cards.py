"""What is known of each group in the zoo: its card; and the index of a scenario, which holds the cards.

The index is read strictly: an unknown key, a missing one or a value of the wrong kind is an error that says which.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

from macop_aht.config import ConfigError, from_mapping

Split = Literal["train", "validation", "test"]
SPLITS: tuple[Split, ...] = ("train", "validation", "test")
INDEX = "index.json"
LIMIT = 8 * 2**20  # bytes of an index


@dataclass(frozen=True)
class Card:
    """One teammate group."""

    name: str  # generator/number, unique in the scenario
    scenario: str
    generator: str  # the method that made it
    seed: int  # of the run
    origin: str  # its name in the run
    config_hash: str  # sha-256 of the run's settings
    file: str
    sha256: str
    precision: Literal["single", "half"]
    self_play: float  # greedy mean return with itself
    best_response: float  # what the responder gets with it, in the ego's seats
    responder: str  # the group of the zoo that does best with it, often itself
    tags: list[str] = field(default_factory=list)  # what it does, most often first
    split: Split = "train"

    def __post_init__(self) -> None:
        if not (math.isfinite(self.self_play) and math.isfinite(self.best_response)):
            raise ConfigError(f"card {self.name!r} has figures that are no numbers")
        if "/" not in self.name or Path(self.file).name != self.file or not self.file.endswith(".onnx"):
            raise ConfigError(
                f"card {self.name!r}, file {self.file!r}: a name is generator/number, a file is NAME.onnx in its folder"
            )


def generator_of(method: str) -> str:
    """What cards call a method: a plus begins a habit in a teammate's name."""
    return method.replace("+", "-plus")


def method_of(generator: str) -> str:
    """The inverse of `generator_of`."""
    return generator.replace("-plus", "+")


def read_index(folder: Path) -> dict[str, Card]:
    """The cards of a scenario's folder by name."""
    path = folder / INDEX
    if not path.is_file():
        raise FileNotFoundError(f"there is no {INDEX} in {folder}")
    try:
        if path.stat().st_size > LIMIT:
            raise ConfigError(f"it has more than {LIMIT} bytes")
        content = json.loads(path.read_text(encoding="utf-8"))
        cards = [from_mapping(Card, entry) for entry in content["groups"]]
        strangers = sorted({card.scenario for card in cards} - {folder.name})
        if strangers:
            raise ConfigError(f"it holds cards of {', '.join(strangers)}")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"{path} cannot be read ({error}); restore it, or add the groups again") from error
    names = [card.name for card in cards]
    if len(set(names)) < len(names):
        raise ValueError(
            f"{path} has groups of the same name: {sorted({name for name in names if names.count(name) > 1})}"
        )
    return dict(zip(names, cards, strict=True))


def write_index(folder: Path, cards: dict[str, Card], about: str) -> None:
    """Replace the index of a folder, whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    content = {"about": about, "groups": [asdict(card) for card in cards.values()]}
    unfinished = folder / f"{INDEX}.unfinished"
    unfinished.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    unfinished.replace(folder / INDEX)
