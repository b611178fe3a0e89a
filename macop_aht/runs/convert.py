"""Bring run folders of earlier versions to the present format, in place: every file whole or not at all.

What was converted stays so: a conversion that was stopped is taken up again by the same command. `run.toml` comes last, as the
mark of a converted folder.

| file | format 1 | format 2 |
|---|---|---|
| `run.toml` | no format version; `alpha_keep` | `format`; `alpha_distil` |
| `phases/*.npz`, `checkpoints/*.npz` | no checksum | SHA-256 as the archive's comment |
| `decisions.jsonl`, notes | `chosen` | `candidate_heads` of a selection, `best_head` of a lesson |
| `summary.json` | `deeds` | `outcomes`; keys that others have added go to files of their own |
| `parts.json` | a list | `parts` and `format` |
"""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from macop_aht.config import parse
from macop_aht.runs import checkpoints
from macop_aht.runs.lock import folder_lock
from macop_aht.runs.records import FORMAT, SETTINGS, Summary, read_text
from macop_aht.util import show, write_whole

RENAMED = {"alpha_keep": "alpha_distil"}  # settings
UNREADABLE = (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, checkpoints.CheckpointError)


def find(path: Path) -> list[Path]:
    """Return the run folders in or under a path that are of an earlier format."""
    found = [path / SETTINGS, *sorted(path.rglob(f"*/{SETTINGS}"))]
    return [file.parent for file in found if file.is_file() and _is_earlier(file)]


def convert(folder: Path, say: Callable[[str], None] = show) -> None:
    """Convert a run's folder. What cannot be read stays as it is, and is told; a resumed run does such a phase again."""
    with folder_lock(folder, "convert"):
        for path in sorted([*folder.glob("phases/*.npz"), *folder.glob("checkpoints/*.npz")]):
            try:
                _checkpoint(path)
            except UNREADABLE as error:
                say(f"{path} is damaged ({error}) and stays as it is")
        for name, change in (
            ("decisions.jsonl", _decisions),
            ("summary.json", _summary),
            ("result.json", _result),
            ("parts.json", _parts),
        ):
            path = folder / name
            if path.exists():
                _rewrite(path, change, say)
        _rewrite(folder / SETTINGS, lambda text, _: settings(text), say)


def settings(text: str) -> str:
    """Return the content of a settings file in the present format."""
    return text if "format" in parse(text) else f"format = {FORMAT}\n{rename(text)}"


def rename(text: str) -> str:
    """Return TOML with the settings' present names."""
    for old, new in RENAMED.items():
        text = re.sub(rf"\b{old}(?=\s*=)", new, text)
    return text


def _is_earlier(file: Path) -> bool:
    try:
        return "format" not in parse(file.read_text(encoding="utf-8"))
    except (ValueError, OSError):
        return False


def _rewrite(path: Path, change: Callable[[str, Path], str], say: Callable[[str], None]) -> None:
    try:
        text = read_text(path)
        changed = change(text, path.parent)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        say(f"{path} is damaged ({error}) and stays as it is")
        return
    if changed != text:
        write_whole(path, changed)


def _checkpoint(path: Path) -> None:
    if checkpoints.is_intact(path):
        return
    arrays, note = checkpoints.read_unchecked(path)
    if "decision" in note:
        with checkpoints.fitting(path):
            note = {**note, "format": FORMAT, "decision": _decision(note["decision"])}
    checkpoints.write(path, arrays, note)


def _decision(values: Mapping[str, Any]) -> dict[str, Any]:
    named = dict(values)
    chosen = named.pop("chosen", None)
    named["candidate_heads" if isinstance(chosen, list) else "best_head"] = chosen
    return {name: value for name, value in named.items() if value is not None}


def _decisions(text: str, folder: Path) -> str:
    lines = [json.loads(line) for line in text.splitlines()]
    lines = [line if "format" in line else {"format": FORMAT, **_decision(line)} for line in lines]
    return "".join(json.dumps(line) + "\n" for line in lines)


def _summary(text: str, folder: Path) -> str:
    values = json.loads(text)
    if "format" in values:
        return text
    if "deeds" in values:
        values["outcomes"] = values.pop("deeds")
    if "scenario" not in values:  # of a sequence, which had its groups alone
        run = parse((folder / SETTINGS).read_text(encoding="utf-8"))
        values = {name: run[name] for name in ("scenario", "method", "seed")} | values
    known = {own.name for own in fields(Summary)}
    for name in [name for name in values if name not in known]:
        write_whole(folder / f"{name}.json", json.dumps(values.pop(name)) + "\n")
    return json.dumps({"format": FORMAT, **values}, indent=1) + "\n"


def _result(text: str, folder: Path) -> str:
    values = json.loads(text)
    return text if "format" in values else json.dumps({"format": FORMAT, **values}, indent=1) + "\n"


def _parts(text: str, folder: Path) -> str:
    values = json.loads(text)
    return text if isinstance(values, dict) else json.dumps({"format": FORMAT, "parts": values}) + "\n"
