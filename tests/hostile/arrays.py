"""Damage to checkpoints and result rows: archives of arrays, and tables that may be compressed."""

from __future__ import annotations

import csv
import gzip
import io
import json
import random
import struct
import zipfile
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.hostile.trees import STRANGE, as_json, bytes_damaged, tree_damaged

NOTE = "note.json"  # the member of a checkpoint that holds JSON, as an array of bytes
BOMB = 1 << 30  # bytes that are nearly nothing when they are compressed


def archive_damaged(content: bytes, rng: random.Random) -> bytes:
    """Return a checkpoint, without a checksum, whose note or arrays are changed."""
    with np.load(io.BytesIO(content)) as stored:
        arrays: dict[str, Any] = {name: stored[name] for name in stored.files}
    names = [name for name in arrays if name != NOTE]
    if rng.random() < 0.4 or not names:
        tree = tree_damaged(json.loads(arrays[NOTE].tobytes()), rng)
        arrays[NOTE] = np.frombuffer(as_json(tree), np.uint8)
    else:
        for _ in range(rng.choice((1, 1, 2, 5))):
            rng.choice(CHANGES)(arrays, rng.choice(names), rng)
    if rng.random() < 0.03:
        return inflated(content)
    return _written(arrays, rng.choice((zipfile.ZIP_STORED,) * 9 + (zipfile.ZIP_DEFLATED,)), rng)


def _written(arrays: dict[str, Any], compression: int, rng: random.Random) -> bytes:
    """Return the arrays as an archive; what is bytes already is written as it is."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", compression) as archive:
        for name, array in arrays.items():
            entry = io.BytesIO()
            if not isinstance(array, bytes):
                np.lib.format.write_array(entry, np.asanyarray(array), allow_pickle=True)
            archive.writestr(f"{name}.npy", array if isinstance(array, bytes) else entry.getvalue())
    return made.getvalue()


def _drop(arrays: dict[str, Any], name: str, rng: random.Random) -> None:
    arrays.pop(name, None)


def _rename(arrays: dict[str, Any], name: str, rng: random.Random) -> None:
    if name in arrays:
        arrays[rng.choice((f"{name}x", f"{name}/x", name.rpartition("/")[0] or "x", "../x"))] = arrays.pop(name)


def _values(arrays: dict[str, Any], name: str, rng: random.Random) -> None:
    array = np.array(arrays.get(name, 0))
    if array.dtype.kind not in "biuf" or not array.size:
        return
    strange = rng.choice((np.nan, np.inf, -1, 2**40, -(2**40), 0, 1, 3e38))
    array = array.astype(array.dtype if array.dtype.kind == "f" or np.isfinite(strange) else np.float64)
    with np.errstate(all="ignore"):
        new = np.array(strange).astype(array.dtype)
    array.flat[rng.randrange(array.size) if rng.random() < 0.5 else slice(None)] = new
    arrays[name] = array


def _shape(arrays: dict[str, Any], name: str, rng: random.Random) -> None:
    array = np.array(arrays.get(name, 0))
    arrays[name] = rng.choice(
        (array.T, array[None], array.ravel(), array.ravel()[:-1], array.ravel()[:0], np.array(0.0))
    )


def _type(arrays: dict[str, Any], name: str, rng: random.Random) -> None:
    array = np.array(arrays.get(name, 0))
    kinds = ("f8", "f2", "i8", "u1", "?", "c8", "U5", "S3", "O", ">f4", "M8[s]")
    if array.dtype.kind in "biuf":
        with np.errstate(all="ignore"):
            arrays[name] = array.astype(rng.choice(kinds))


def _bomb(arrays: dict[str, Any], name: str, rng: random.Random) -> None:
    """A header that promises more than there is."""
    header = io.BytesIO()
    shape = rng.choice(((2**40,), (2**62, 4), (-1,), (10**30,), (2**31, 2**31), (1 << 28,)))
    told = {"descr": rng.choice(("<f4", "|u1", "|O", "<f9", "x" * 20_000)), "fortran_order": False, "shape": shape}
    text = repr(told).encode() if rng.random() < 0.9 else b"(" * 5_000
    header.write(b"\x93NUMPY\x02\x00" + len(text).to_bytes(4, "little") + text)
    arrays[name] = header.getvalue() + rng.randbytes(64)


def _raw(arrays: dict[str, Any], name: str, rng: random.Random) -> None:
    arrays[name] = rng.choice((b"", b"text", b"\x93NUMPY", rng.randbytes(200)))


CHANGES: tuple[Callable[[dict[str, Any], str, random.Random], None], ...] = (
    _drop, _rename, _values, _values, _values, _shape, _shape, _type, _bomb, _raw,
)  # fmt: skip


def inflated(content: bytes) -> bytes:
    """Return a checkpoint with one more member, of a few kilobytes, that takes gigabytes when it is read.

    Its compressed blocks repeat each other. They are stored as they are, and both headers of the member are then changed.
    """
    header, packer = io.BytesIO(), zlib.compressobj(9, wbits=-15)
    told = {"descr": "|u1", "fortran_order": False, "shape": (2 * BOMB,)}
    np.lib.format.write_array_header_1_0(header, told)
    start = packer.compress(header.getvalue()) + packer.flush(zlib.Z_FULL_FLUSH)
    block = packer.compress(bytes(1 << 24)) + packer.flush(zlib.Z_FULL_FLUSH)
    made = io.BytesIO(content)
    with zipfile.ZipFile(made, "a") as archive:
        archive.writestr("bomb.npy", start + block * (2 * BOMB >> 24) + packer.flush())
    changed, size = bytearray(made.getvalue()), struct.pack("<I", 2 * BOMB + len(header.getvalue()))
    for mark, method, length in ((b"PK\3\4", 8, 22), (b"PK\1\2", 10, 24)):
        at = changed.rindex(mark)
        changed[at + method : at + method + 2], changed[at + length : at + length + 4] = b"\x08\0", size
    return bytes(changed)


def table_damaged(content: bytes, rng: random.Random) -> bytes:
    """Return a CSV file with cells, rows or columns changed."""
    lines = list(csv.reader(io.StringIO(content.decode())))
    for _ in range(rng.choice((1, 1, 2, 4))):
        k = rng.randrange(len(lines) or 1)
        line, kind = lines[k] if lines else [], rng.randrange(6)
        at = rng.randrange(len(line) or 1)
        if kind < 2 and line:
            line[at] = rng.choice((*map(str, STRANGE[:28]), "1e999", "\n", '"', "0x10", "1_000", " 1 ", "é" * 200_000))
        elif kind == 2:
            del line[at : at + 1]
        elif kind == 3:
            line.insert(at, rng.choice(("", "x", "0")))
        elif kind == 4:
            del lines[k : k + rng.choice((1, 10**6))]
        else:
            lines[k:k] = [list(line)] * rng.choice((1, 3))
    text = io.StringIO()
    csv.writer(text).writerows(lines)
    return text.getvalue().encode()


def compressed_damaged(content: bytes, rng: random.Random) -> bytes:
    """Return a compressed table that is damaged within, without, or that is endless."""
    kind = rng.random()
    if kind < 0.25:
        return bytes_damaged(content, rng)
    if kind < 0.3:
        text = gzip.decompress(content)
        header, row = text.split(b"\r\n")[:2]
        endless = rng.choice((bytes(1), row[:-1], row + b"\r\n", b'"', b"a,")) * 10_000
        block = gzip.compress(endless * (1 + (1 << 24) // len(endless)))
        return gzip.compress(header + b"\r\n") + block * (BOMB >> 24)  # parts of such a file follow each other
    return gzip.compress(table_damaged(gzip.decompress(content), rng), 1)
