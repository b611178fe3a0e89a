"""Result rows: one for every evaluation episode, from which all tables and figures are computed. Needs no torch."""

from __future__ import annotations

import csv
import gzip
import io
import math
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, fields, replace
from itertools import chain
from pathlib import Path
from typing import Any, TextIO

from macop_aht.episodes.runner import Episodes
from macop_aht.util import whole_file


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
    tier: str  # seen, unseen, unseen generator, scripted, person, other
    stage: str  # test, or selection where the agent was still choosing its head
    episode: int = 0
    return_: float = 0.0  # undiscounted
    length: int = 0  # steps
    outcome: str = ""  # how it ended: which food, prey, landmarks, enemies; "" for nothing
    won: bool | None = None  # whether the battle was won; None where there is none
    commit: str = ""  # of the code that has played the episode


FORMAT = "2"  # of the file; its last column says so in every row
COLUMNS = {column.name: column.name.rstrip("_") for column in fields(Row)}  # by field
HEADER = [*COLUMNS.values(), "format"]
KINDS = {"seed": int, "episode": int, "return_": float, "length": int}  # the others are texts
LIMIT = 2**26  # characters of a file
ROWS = 2**19  # of a file
LONGEST = 2**18  # characters of a line
DAMAGES = (csv.Error, EOFError, KeyError, TypeError, ValueError, gzip.BadGzipFile, zlib.error)


def episode_rows(common: Row, played: Episodes, teammate: int) -> list[Row]:
    """Return a row for every episode with that teammate; `common` has what they share."""
    parts = (part[teammate].tolist() for part in (played.returns, played.lengths, played.outcomes, played.won))
    return [
        replace(common, episode=e, return_=float(result), length=int(length), outcome=outcome, won=won)
        for e, (result, length, outcome, won) in enumerate(zip(*parts, strict=True))
    ]


def write_rows(rows: Sequence[Row], path: Path) -> None:
    """Write a CSV file, compressed where its name ends in .gz; it is written whole or not at all."""
    _write(([_text(getattr(row, name)) for name in COLUMNS] + [FORMAT] for row in rows), path)


def _write(lines: Iterable[Sequence[Any]], path: Path) -> None:
    with whole_file(path) as file, ExitStack() as stack:
        packed: Any = file
        if path.suffix == ".gz":  # the same rows make the same file, whenever
            packed = stack.enter_context(gzip.GzipFile("", "wb", fileobj=file, mtime=0))
        text = io.TextIOWrapper(packed, newline="", encoding="utf-8")
        csv.writer(text).writerows(chain([HEADER], lines))
        text.detach()


def _text(value: Any) -> Any:
    """Format a field: bool as 1 or 0, None as empty."""
    return "" if value is None else int(value) if isinstance(value, bool) else value


def _open(path: Path) -> TextIO:
    if path.suffix != ".gz":
        return open(path, newline="", encoding="utf-8")
    return gzip.open(path, "rt", newline="", encoding="utf-8")


def read_rows(path: Path) -> list[Row]:
    """Return the rows of a file that `write_rows` has written.

    Raises ValueError where the file is damaged, has other columns, or is of another format.
    """
    header, lines = _lines(path)
    if header == HEADER[:-1]:
        raise ValueError(f"{path} is of an earlier format; bring it over with: macop convert {path}")
    if header != HEADER:
        raise ValueError(f"{path} has the columns {header}; result rows have {HEADER}")
    try:
        return [_row(dict(zip(HEADER, line, strict=True))) for line in lines]
    except DAMAGES as error:
        raise ValueError(f"{path} is damaged: {error}") from error


def _limited(file: TextIO) -> Iterator[str]:
    """Return the lines of a file, of which none, nor all together, may be of any length."""
    left = LIMIT
    while line := file.readline(LONGEST):
        left -= len(line)
        if left < 0:
            raise ValueError(f"it has more than {LIMIT} characters")
        yield line


def _counted(lines: Iterable[list[str]]) -> Iterator[list[str]]:
    """Return the lines, each of as many fields as the first, and not more than a file may have."""
    width = 0
    for k, line in enumerate(lines):
        width = width or min(len(line), len(HEADER))
        if k > ROWS:
            raise ValueError(f"it has more than {ROWS} rows")
        if len(line) != width:
            raise ValueError(f"line {k + 1} has {len(line)} fields; {width} are expected")
        yield line


def _lines(path: Path) -> tuple[list[str], list[list[str]]]:
    """The header and the other lines."""
    try:
        with _open(path) as file:
            header, *lines = _counted(csv.reader(_limited(file)))
    except DAMAGES as error:
        raise ValueError(f"{path} is damaged: {error}") from error
    return header, lines


def convert_rows(path: Path) -> bool:
    """Bring a file of the earlier format over; returns whether there was anything to do."""
    header, lines = _lines(path)
    if header != HEADER[:-1]:
        return False
    _write(([*line, FORMAT] for line in lines), path)
    return True


def _row(line: dict[str, str]) -> Row:
    if line["format"] != FORMAT:
        raise ValueError(f"a row is of format {line['format']}; this version reads {FORMAT}. Upgrade macop-aht")
    values: dict[str, Any] = {name: KINDS.get(name, str)(line[column]) for name, column in COLUMNS.items()}
    if not math.isfinite(values["return_"]):
        raise ValueError(f"a return is {values['return_']}; it must be a finite number")
    return Row(**{**values, "won": {"": None, "0": False, "1": True}[line["won"]]})
