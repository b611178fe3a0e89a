"""Checkpoints: named arrays and a JSON note in one file, written whole or not at all, without pickle.

A file is a readable `.npz` whose archive comment is a SHA-256 of all bytes before. The sum is verified before anything of the
file is parsed, so that no damage is ever taken for data.
"""

from __future__ import annotations

import errno
import hashlib
import io
import json
import math
import os
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from macop_aht.runs.records import FormatError
from macop_aht.util import whole_file

KEEP = 2  # the newest, and the one before it in case the newest is damaged
_NOTE = "note.json"
_MAGIC = b"macop sha-256 "
_TRAILER = len(_MAGIC) + 64  # bytes
_CHUNK = 1 << 20
_END = b"PK\x05\x06"  # begins the 22 bytes in which a ZIP archive without a comment ends


MISFITS = (
    ArithmeticError, AttributeError, EOFError, LookupError, MemoryError, NotImplementedError, OSError, RuntimeError, SyntaxError,
    TypeError, ValueError, struct.error, tokenize.TokenError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip


class CheckpointError(RuntimeError):
    """A checkpoint cannot be written or read; the message says what still stands and what to do."""


class MisfitError(CheckpointError):
    """A file whose checksum is right does not hold what it should. Nobody writes over it unasked."""


def flatten(tree: Mapping[str, Any], prefix: str = "") -> dict[str, np.ndarray]:
    """Return nested dictionaries of arrays as one dictionary, the names joined by a slash."""
    flat: dict[str, np.ndarray] = {}
    for name, value in tree.items():
        if isinstance(value, Mapping):
            flat |= flatten(value, f"{prefix}{name}/")
        else:
            flat[prefix + name] = np.asarray(value)
    return flat


def unflatten(flat: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Return nested dictionaries: the inverse of `flatten`."""
    tree: dict[str, Any] = {}
    for path, value in flat.items():
        *outer, name = path.split("/")
        place = tree
        for key in outer:
            place = place.setdefault(key, {})
        place[name] = value
    return tree


def _files(folder: Path) -> list[Path]:
    return sorted(folder.glob("checkpoint-*.npz"))


def write(path: Path, arrays: Mapping[str, Any], note: Mapping[str, Any]) -> None:
    """Write a file that is whole or not there; until then, what was there before stands. Raises `CheckpointError`."""
    encoded = np.frombuffer(json.dumps(note).encode(), dtype=np.uint8)
    try:
        with whole_file(path) as file:
            np.savez(file, allow_pickle=False, **{_NOTE: encoded}, **flatten(arrays))
            _seal(file)
    except OSError as error:
        why = "the disk is full" if error.errno == errno.ENOSPC else str(error)
        raise CheckpointError(
            f"cannot write {path}: {why}. Files that were written before are intact. Free disk space, then resume with --resume"
        ) from error


def _seal(file: IO[bytes]) -> None:
    """Append the checksum, as the comment of a ZIP archive that ends where the file does."""
    size = file.seek(0, os.SEEK_END)
    file.seek(size - 2)
    file.write(_TRAILER.to_bytes(2, "little"))  # the comment's length, which was 0
    digest = _digest(file, size)
    file.seek(size)
    file.write(_MAGIC + digest)


def _digest(file: IO[bytes], size: int) -> bytes:
    """Return the SHA-256 of the first `size` bytes, in hexadecimal."""
    digest = hashlib.sha256()
    file.seek(0)
    while size > 0:
        chunk = file.read(min(_CHUNK, size))
        if not chunk:
            break
        digest.update(chunk)
        size -= len(chunk)
    return digest.hexdigest().encode()


def is_intact(path: Path) -> bool:
    """Return whether a file is there and ends in the right checksum. Raises OSError where it cannot be read."""
    if not path.is_file():
        return False
    with open(path, "rb") as file:
        size = file.seek(0, os.SEEK_END) - _TRAILER
        if size < 0:
            return False
        file.seek(size)
        return file.read() == _MAGIC + _digest(file, size)


def is_unsealed(path: Path) -> bool:
    """Return whether a file is an archive without a checksum, as earlier versions wrote it."""
    with open(path, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(size - 22, 0))
        end = file.read()
    return len(end) == 22 and end.startswith(_END) and end.endswith(b"\0\0")


def read(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the arrays and the note of a file. Raises `CheckpointError` where its checksum is wrong, or it holds neither."""
    try:
        intact, why = is_intact(path), "its checksum is wrong" if path.exists() else "it is not there"
    except OSError as error:
        intact, why = False, str(error)
    if not intact:
        raise CheckpointError(f"{path} is damaged ({why}); --resume makes a run whole again")
    return read_unchecked(path)


def read_unchecked(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the arrays and the note of a file whose checksum is not looked at. Raises `CheckpointError`."""
    with fitting(path), zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        if sum(member.file_size for member in members) > path.stat().st_size:
            raise ValueError("its content is larger than the file")
        arrays = {member.filename.removesuffix(".npy"): _array(archive.read(member)) for member in members}
        if len(arrays) < len(members):
            raise ValueError("it has two arrays of the same name")
        note = json.loads(arrays.pop(_NOTE).tobytes())
        if not isinstance(note, dict):
            raise ValueError("its note is no table")
        return unflatten(arrays), note


def _array(content: bytes) -> np.ndarray:
    """Return the array in a member of an archive; raise ValueError where its header does not say what there is."""
    file = io.BytesIO(content)
    version = np.lib.format.read_magic(file)
    header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}[version]
    shape, by_columns, kind = header(file)
    start = file.tell()
    if kind.kind not in "biuf" or min(shape, default=0) < 0 or math.prod(shape) * kind.itemsize != len(content) - start:
        raise ValueError(f"an array of type {kind} and shape {shape} has {len(content) - start} bytes")
    array = np.frombuffer(bytearray(content), kind, offset=start)  # of a bytearray, so that it can be written to
    return array.reshape(shape, order="F" if by_columns else "C")


@contextmanager
def fitting(path: Path) -> Iterator[None]:
    """Raise `MisfitError` where what a file holds does not fit what is made of it inside."""
    try:
        yield
    except (CheckpointError, FormatError):
        raise
    except MISFITS as error:
        raise MisfitError(
            f"{path} does not hold what it should ({type(error).__name__}: {str(error)[:300]}). Was it written by another "
            "version? Without this file, --resume makes the run whole again"
        ) from error


def save(folder: Path, number: int, arrays: Mapping[str, Any], note: Mapping[str, Any]) -> Path:
    """Write checkpoint `number` into the folder. Only when it is safely on the disk, older ones are removed."""
    path = folder / f"checkpoint-{number:09d}.npz"
    write(path, arrays, note)
    for old in _files(folder)[:-KEEP]:
        old.unlink()
    return path


def newest(folder: Path) -> Path:
    """Return the file of the newest checkpoint that is intact; the folder where there is none."""
    return next((path for path in reversed(_files(folder)) if is_intact(path)), folder)


def load(folder: Path) -> tuple[dict[str, Any], dict[str, Any], list[str]] | None:
    """Return the newest intact checkpoint: arrays, note, and what was wrong with newer ones. None where there is none.

    Raises `CheckpointError` where there are checkpoints and all are damaged, `MisfitError` where one is not a checkpoint.
    """
    complaints: list[str] = []
    for path in reversed(_files(folder)):
        try:
            return *read(path), complaints
        except MisfitError:
            raise
        except CheckpointError:
            complaints.append(f"{path.name} is damaged (its checksum is wrong); going back to the one before")
    if complaints:
        raise CheckpointError(
            f"no checkpoint in {folder} can be read: {'; '.join(complaints)}. Start again in another folder"
        )
    return None
