"""Changes of a zoo folder: killed at any moment, it is as before or as after.

A change writes three things in this order: a note of all files that it adds and drops, the new files, and the index. New
files have names that no earlier card uses, so the old index stays true until the new one replaces it. Then, and again at the
beginning of the next change, the files in the note that no card names are removed.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Mapping
from pathlib import Path

from macop_aht.util import read_limited, write_whole
from macop_aht.zoo.cards import GROUP_FILE, INDEX, LIMIT, Card, read_index, write_index

NOTE = "change.json"  # the files of a change that is under way


def file_name(name: str, content: bytes) -> str:
    """Return the file of a group with this name and content: no other content gets it."""
    return f"{name.replace('/', '-')}-{hashlib.sha256(content).hexdigest()[:8]}.onnx"


def replace_cards(folder: Path, cards: dict[str, Card], contents: Mapping[str, bytes]) -> None:
    """Give a scenario's folder these cards, with the contents of their new files by file name.

    The caller holds the lock of the folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    clean(folder)
    kept = {card.file for card in cards.values()}
    dropped = {card.file for card in present(folder).values()} - kept
    write_whole(folder / NOTE, json.dumps(sorted({*contents, *dropped}), indent=1) + "\n")
    for name, content in contents.items():
        write_whole(folder / name, content)
    write_index(folder, cards)
    clean(folder)


def clean(folder: Path) -> None:
    """Remove what an unfinished change has left behind. The caller holds the lock of the folder."""
    note = folder / NOTE
    if note.is_file():
        named = {card.file for card in present(folder).values()}
        for name in _noted(note):
            (folder / f"{name}.unfinished").unlink(missing_ok=True)
            if name not in named:
                (folder / name).unlink(missing_ok=True)
        note.unlink()
    for name in (NOTE, INDEX):
        (folder / f"{name}.unfinished").unlink(missing_ok=True)


def _noted(note: Path) -> list[str]:
    """Return the files that a note names; none where it cannot be read, since they are in nobody's way.

    Raises ValueError where it names what is no file of a group.
    """
    try:
        names = json.loads(read_limited(note, LIMIT))
        if not isinstance(names, list):
            raise ValueError("it is no list of names")
    except (ValueError, RecursionError) as error:
        warnings.warn(
            f"{note} is damaged ({error}); files of an unfinished change may stay in {note.parent}", stacklevel=2
        )
        return []
    for name in names:
        if not isinstance(name, str) or not GROUP_FILE.fullmatch(name):
            raise ValueError(f"{note} names {str(name)[:60]!r}, which is no file of a group; look at it, and remove it")
    return names


def present(folder: Path) -> dict[str, Card]:
    """Return the cards of a folder; none where there is no index yet."""
    return read_index(folder) if (folder / INDEX).is_file() else {}
