"""Helpers that every room may use: hints for misspelt words, and files that are written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path


def hint(word: str, allowed: Iterable[object]) -> str:
    """Return `did you mean 'corner-nw'? Allowed: …`, or only what is allowed where no name is near."""
    names = [str(name) for name in allowed]
    near = get_close_matches(word, names, n=1, cutoff=0.5)
    question = f"did you mean {near[0]!r}? " if near else ""
    return f"{question}Allowed: {', '.join(names)}"


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file so that it is there whole or not at all; what was there before stands until then."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f"{path.name}.unfinished")
    try:
        with open(unfinished, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    except OSError:
        unfinished.unlink(missing_ok=True)
        raise
