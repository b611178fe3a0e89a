"""Zoo indices of format 1 become indices of format 2; the files of the groups stay as they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from macop_aht.zoo.cards import INDEX, cards_of, load_index, read_index, write_index

RENAMED = {"origin": "group", "tags": "outcomes"}


def convert_zoo(folder: Path) -> bool:
    """Bring a zoo, or the folder of one scenario in it, to the current format; return whether anything has changed.

    Each index is converted whole or not at all, and none before all have been read. Raise `FileNotFoundError` where there is no
    index, and `ValueError` where one cannot be read.
    """
    found = [path.parent for path in (folder / INDEX, *sorted(folder.glob(f"*/{INDEX}"))) if path.is_file()]
    if not found:
        raise FileNotFoundError(f"there is no {INDEX} in {folder} or in the folders in it")
    changed = []
    for own in found:
        try:
            content = load_index(own)
            if content.get("format", 1) != 1:
                read_index(own)
                continue
            groups = [_renamed(entry) for entry in content["groups"]]
            changed.append((own, cards_of({**content, "groups": groups}, own.name)))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise ValueError(f"{own / INDEX} cannot be converted ({error}); restore it") from error
    for own, cards in changed:
        write_index(own, cards)
    return bool(changed)


def _renamed(entry: dict[str, Any]) -> dict[str, Any]:
    return {RENAMED.get(name, name): value for name, value in entry.items()}
