"""Checkpoints: named arrays and a JSON note in one file, written whole or not at all, without pickle."""

from __future__ import annotations

import errno
import json
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

KEEP = 2  # the newest, and the one before it in case the newest is damaged
DAMAGES = (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile)  # what reading a damaged file raises
_NOTE = "note.json"


class CheckpointError(RuntimeError):
    """A checkpoint cannot be written or read; the message says what still stands and what to do."""


def flatten(tree: Mapping[str, Any], prefix: str = "") -> dict[str, np.ndarray]:
    """Nested dictionaries of arrays as one, the names joined by a slash."""
    flat: dict[str, np.ndarray] = {}
    for name, value in tree.items():
        if isinstance(value, Mapping):
            flat |= flatten(value, f"{prefix}{name}/")
        else:
            flat[prefix + name] = np.asarray(value)
    return flat


def unflatten(flat: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """The inverse of `flatten`."""
    tree: dict[str, Any] = {}
    for path, value in flat.items():
        *rooms, name = path.split("/")
        room = tree
        for key in rooms:
            room = room.setdefault(key, {})
        room[name] = value
    return tree


def _files(folder: Path) -> list[Path]:
    return sorted(folder.glob("checkpoint-*.npz"))


def write(path: Path, arrays: Mapping[str, Any], note: Mapping[str, Any]) -> None:
    """Write a file that is whole or not there; what was there before stands until then."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".unfinished")
    try:
        with open(unfinished, "wb") as file:
            encoded = np.frombuffer(json.dumps(note).encode(), dtype=np.uint8)
            np.savez(file, allow_pickle=False, **{_NOTE: encoded}, **flatten(arrays))
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    except OSError as error:
        unfinished.unlink(missing_ok=True)
        why = "the disk is full" if error.errno == errno.ENOSPC else str(error)
        raise CheckpointError(
            f"cannot write {path}: {why}. What was written before still stands. Make room, then go on with --resume"
        ) from error


def read(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The arrays and the note of a file."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}  # reading checks every entry's sum
        note = json.loads(arrays.pop(_NOTE).tobytes())
    except DAMAGES as error:
        raise CheckpointError(f"{path} is damaged ({error}); --resume makes a run whole again") from error
    return unflatten(arrays), note


def save(folder: Path, number: int, arrays: Mapping[str, Any], note: Mapping[str, Any]) -> Path:
    """Write checkpoint `number` into the folder. Only when it is safely on the disk, older ones are removed."""
    path = folder / f"checkpoint-{number:09d}.npz"
    write(path, arrays, note)
    for old in _files(folder)[:-KEEP]:
        old.unlink()
    return path


def load(folder: Path) -> tuple[dict[str, Any], dict[str, Any], list[str]] | None:
    """The newest checkpoint that can be read: arrays, note, and what was wrong with newer ones. None where there is none."""
    complaints: list[str] = []
    for path in reversed(_files(folder)):
        try:
            return *read(path), complaints
        except CheckpointError as error:
            complaints.append(f"{path.name} is damaged ({error.__cause__}); going back to the one before")
    if complaints:
        raise CheckpointError(
            f"no checkpoint in {folder} can be read: {'; '.join(complaints)}. Start again in another folder"
        )
    return None
