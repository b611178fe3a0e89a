"""Result rows: one for every evaluation episode, from which all tables and figures are computed. Needs no torch."""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal, TextIO

from macop_aht.episodes.runner import Episodes


@dataclass(frozen=True, kw_only=True)
class Row:
    """One episode. The fields are the columns of the file, in this order; `return_` is the column `return`."""

    method: str  # or the name of an agent that is no method's
    learner: str = ""  # q (Q-learning) or ppo: what has trained the agent; "" where that is not known
    preset: str = ""  # the one whose settings the agent's run has; "" where it has others
    seed: int = 0  # of the agent's run
    scenario: str
    teammate: str
    generator: str = ""  # the method that has made the teammate; "" where none has
    tier: str  # seen, unseen, unseen generator, scripted, other
    stage: str  # test, or selection where the agent was still choosing its head
    episode: int = 0
    return_: float = 0.0  # undiscounted
    length: int = 0  # steps
    outcome: str = ""  # how it ended: which food, prey, landmarks, enemies; "" for nothing
    won: bool | None = None  # whether the battle was won; None where there is none
    commit: str = ""  # of the code that has played the episode


COLUMNS = {column.name: column.name.rstrip("_") for column in fields(Row)}  # by field
KINDS = {"seed": int, "episode": int, "return_": float, "length": int}  # the others are texts


def episode_rows(common: Row, played: Episodes, teammate: int) -> list[Row]:
    """A row for every episode with that teammate; `common` has what they share."""
    parts = (part[teammate].tolist() for part in (played.returns, played.lengths, played.outcomes, played.won))
    return [
        replace(common, episode=e, return_=float(result), length=int(length), outcome=outcome, won=won)
        for e, (result, length, outcome, won) in enumerate(zip(*parts, strict=True))
    ]


def write_rows(rows: Sequence[Row], path: Path) -> None:
    """A CSV file, compressed where it is called .gz; it is whole or not there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f"{path.name}.unfinished")
    with _open(unfinished, "w", path.suffix == ".gz") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS.values())
        for row in rows:
            writer.writerow(_text(getattr(row, name)) for name in COLUMNS)
    unfinished.replace(path)


def _text(value: Any) -> Any:
    """Format a field: bool as 1 or 0, None as empty."""
    return "" if value is None else int(value) if isinstance(value, bool) else value


def _open(path: Path, mode: Literal["r", "w"], compressed: bool) -> TextIO:
    if not compressed:
        return open(path, mode, newline="", encoding="utf-8")
    packed: Any = gzip.GzipFile(path, f"{mode}b", mtime=0)  # the same rows make the same file, whenever
    return io.TextIOWrapper(packed, newline="", encoding="utf-8")


def read_rows(path: Path) -> list[Row]:
    """What `write_rows` has written."""
    wanted = list(COLUMNS.values())
    try:
        with _open(path, "r", path.suffix == ".gz") as file:
            reader = csv.DictReader(file)
            found = reader.fieldnames
            rows = [_row(line) for line in reader] if found == wanted else []
    except (EOFError, KeyError, TypeError, ValueError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{path} is damaged: {error}") from error
    if found != wanted:
        raise ValueError(f"{path} has the columns {found}; result rows have {wanted}")
    return rows


def _row(line: dict[str, str]) -> Row:
    values: dict[str, Any] = {name: KINDS.get(name, str)(line[column]) for name, column in COLUMNS.items()}
    return Row(**{**values, "won": {"": None, "0": False, "1": True}[line["won"]]})
