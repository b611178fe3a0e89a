"""Helpers that every room may use: hints for misspelt words, and files that are written whole or not at all."""

from __future__ import annotations

import csv
import errno
import io
import os
import shutil
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from pathlib import Path
from typing import IO

UNFINISHED = ".unfinished"  # ends the name of a file or folder that is being written


def hint(word: str, allowed: Iterable[object]) -> str:
    """Return `did you mean 'corner-nw'? Allowed: …`, or only what is allowed where no name is near."""
    names = [str(name) for name in allowed]
    near = get_close_matches(word, names, n=1, cutoff=0.5)
    question = f"did you mean {near[0]!r}? " if near else ""
    return f"{question}Allowed: {', '.join(names)}"


def plain(text: object, longest: int | None = None) -> str:
    """Return a text as a terminal may show it: control characters are escaped, and the middle of a longer text is left out."""
    shown = "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in str(text))
    if longest is None or len(shown) <= longest:
        return shown
    return f"{shown[: longest - 200]} [...] {shown[-200:]}"


def show(text: object = "") -> None:
    """Print a text that may come from a file: see `plain`."""
    print(plain(text))


def read_limited(path: Path, limit: int) -> bytes:
    """Return the content of a file; raise `ValueError` where it has more bytes than the limit, or never ends."""
    with open(path, "rb") as file:
        content = file.read(limit + 1)
    if len(content) > limit:
        raise ValueError(f"it has more than {limit:,} bytes")
    return content


class TooLarge(MemoryError):
    """Something does not fit into memory; the message says what to make smaller."""


def require_memory(needed: int, what: str, remedy: str) -> None:
    """Raise `TooLarge` where something needs more bytes than the machine has in all; unknown on some systems."""
    try:
        there = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return
    if needed > there:
        raise TooLarge(f"{what} would need {needed / 1e9:,.0f} GB of {there / 1e9:,.0f} GB; {remedy}")


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file as `whole_file` does."""
    with whole_file(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)


def write_csv(path: Path, lines: Iterable[Iterable[object]]) -> None:
    """Write a CSV file as `whole_file` does."""
    text = io.StringIO(newline="")
    csv.writer(text).writerows(lines)
    write_whole(path, text.getvalue())


@contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """Give a binary file to write, which is there whole or not at all in the end; what was there before stands until then.

    The file behind a symlink is replaced, and the link stays. What is no ordinary file, such as a device or a pipe, is
    written to.
    """
    special = _special(path)
    if special is not None:
        with special:
            yield special
        return
    target = Path(os.path.realpath(path))
    if target.is_symlink():
        raise OSError(errno.ELOOP, "the link leads to itself", str(path))
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_name(target.name + UNFINISHED)
    try:
        with open(unfinished, "w+b") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            shutil.copymode(target, unfinished)
        unfinished.replace(target)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


def _special(path: Path) -> IO[bytes] | None:
    """Open what is no ordinary file; return None for a file, a folder, and where there is nothing yet."""
    try:
        there = os.stat(path)
    except OSError:
        return None
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, OSError):  # closed, or replaced by an object without a number
            if os.path.samestat(os.fstat(stream.fileno()), there):  # /dev/stdout, wherever that goes
                stream.flush()
                return os.fdopen(os.dup(stream.fileno()), "wb")
    return None if stat.S_ISREG(there.st_mode) or stat.S_ISDIR(there.st_mode) else open(path, "wb")


@contextmanager
def whole_folder(folder: Path) -> Iterator[Path]:
    """Give a place to write a new folder in: in the end it is there whole or not at all.

    Raise `FileExistsError` where the folder exists and is not empty.
    """
    folder = Path(os.path.realpath(folder))
    require_free(folder)
    unfinished = folder.with_name(folder.name + UNFINISHED)
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    try:
        yield unfinished
        if folder.exists():
            clear_unfinished(folder)
            folder.rmdir()
        unfinished.replace(folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def require_free(folder: Path, lacking: str = "") -> None:
    """Raise `FileExistsError` where a folder holds more than what a killed process has left of files it was writing.

    `lacking` adds what is not in it, such as " and holds no run".
    """
    if folder.exists() and (not folder.is_dir() or any(path not in _leftovers(folder) for path in folder.iterdir())):
        what = (
            f"is not empty{lacking}; choose another folder, or remove it"
            if folder.is_dir()
            else "is no folder; name one"
        )
        raise FileExistsError(f"{folder} {what}")


def clear_unfinished(folder: Path) -> None:
    """Remove what a killed process has left of files it was writing in a folder. The caller holds the folder's lock."""
    for path in _leftovers(folder):
        path.unlink(missing_ok=True)


def _leftovers(folder: Path) -> list[Path]:
    return [path for path in folder.glob(f"*{UNFINISHED}") if path.is_file()]
