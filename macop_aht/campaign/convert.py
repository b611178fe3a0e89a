"""Bring campaign folders of earlier versions to the present format, in place. Their runs are converted before.

A task's status had the words of its command, and has the settings now: those of a run are read from its folder. A run that had
not begun yet is forgotten, and begins from the start.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from macop_aht.campaign.plan import CAMPAIGN
from macop_aht.campaign.status import STATUS
from macop_aht.runs.convert import rename
from macop_aht.runs.folder import RunFolder
from macop_aht.runs.lock import folder_lock
from macop_aht.runs.records import FORMAT, FormatError, read_text, table
from macop_aht.util import show, write_whole


def find(path: Path) -> list[Path]:
    """Return the campaign folders in or under a path that are of an earlier format."""
    found = [path / STATUS, *sorted(path.rglob(f"*/{STATUS}"))]
    return [file.parent for file in found if file.is_file() and _is_earlier(file)]


def convert(folder: Path, say: Callable[[str], None] = show) -> None:
    """Convert a campaign's own files: first its settings, last `status.json`, as the mark of a converted folder."""
    with folder_lock(folder, "convert"):
        stored = folder / CAMPAIGN
        if stored.exists():
            write_whole(stored, rename(stored.read_text(encoding="utf-8")))
        path = folder / STATUS
        before = table(read_text(path), str(path))
        try:
            tasks = {name: _status(folder / name, own) for name, own in before.items()}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise FormatError(f"{path} cannot be converted ({error}); restore it") from error
        kept = {name: own for name, own in tasks.items() if own is not None}
        write_whole(path, json.dumps({"format": FORMAT, "tasks": kept}, indent=1) + "\n")
        (folder / "campaign.lock").unlink(missing_ok=True)


def _is_earlier(file: Path) -> bool:
    try:
        values = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, OSError, RecursionError):
        return False
    if not isinstance(values, dict) or "format" in values:
        return False
    return all(isinstance(own, dict) and "state" in own for own in values.values())


def _status(result: Path, before: Mapping[str, Any]) -> dict[str, Any] | None:
    words: Sequence[str] = before.get("command", [])
    settings = _settings(result, words)
    return None if settings is None else {"settings": settings, "inputs": {}, **before}


def _settings(result: Path, words: Sequence[str]) -> dict[str, Any] | None:
    given = {word.partition("=")[0]: word.partition("=")[2] for word in words}
    if words[:1] == ["pool"]:
        return {"episodes": int(given["--episodes"]), "by_folder": "--by-folder" in given}
    if words[:1] == ["sequence"]:
        return {"length": int(given["--length"]), "seed": int(given["--seed"])}
    run = RunFolder(result)
    return run.settings if run.exists else None
