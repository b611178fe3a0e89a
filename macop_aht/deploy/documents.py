"""Strict JSON: text to dictionaries and lists, these to dataclasses, and back.

What is not expected is refused with a `BundleError` that says what came and what is allowed: unknown or missing keys, values of
the wrong type, NaN and infinity, documents that are too large or too deep, lists that are too long. Dataclasses may hold other
dataclasses, numbers, texts, tuples, dictionaries with texts as keys, and arrays (`Floats`, `Integers`). The document leaves out
fields that are None.
"""

from __future__ import annotations

import json
import re
from dataclasses import MISSING, fields, is_dataclass
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from macop_aht.util import hint

LARGEST = 8 * 2**20  # bytes of a document
DEEPEST = 12  # levels of nested lists and tables
LONGEST = 16_384  # entries of a list or a table, characters of a text
COUNT = 1 << 16  # the largest integer in an array
WIDEST = float(np.finfo(np.float32).max)

Floats = NDArray[np.float32]
Integers = NDArray[np.int64]
T = TypeVar("T")


class BundleError(ValueError):
    """A bundle that is damaged, of an unknown format, or not what its manifest says."""


def require(agrees: bool, what: str) -> None:
    """Raise a `BundleError` with this message unless something agrees."""
    if not agrees:
        raise BundleError(what)


def document(content: bytes) -> dict[str, Any]:
    """Return a JSON document as dictionaries and lists; raise `BundleError` where it is no table, too large or too deep."""
    require(len(content) <= LARGEST, f"the file has {len(content)} bytes; allowed are {LARGEST}")
    try:
        text = content.decode("utf-8")
        _check_depth(text)
        found = json.loads(text, parse_constant=_no_constant, object_pairs_hook=_unique)
    except BundleError:
        raise
    except ValueError as error:  # of the encoding, of JSON, or of a number with thousands of digits
        raise BundleError(f"it is no JSON ({error})") from error
    require(isinstance(found, dict), f"it holds {_shown(found)}; it must be a table of keys and values")
    return found


def _check_depth(text: str) -> None:
    depth = 0
    for match in re.finditer(r'"(?:[^"\\]|\\.)*"?|[\[{]|[\]}]', text, re.DOTALL):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(match[0], 0)
        require(depth <= DEEPEST, f"lists and tables are nested more than {DEEPEST} deep")


def _no_constant(word: str) -> float:
    raise BundleError(f"it holds {word}; numbers must be finite")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    require(len(found) == len(pairs), f"a key is there twice among {[name for name, _ in pairs][:8]}")
    return found


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"


def as_dataclass(kind: type[T], value: Any, where: str = "") -> T:
    """Return a table of a document as a dataclass of that kind; `where` is its path in error messages, with a dot behind it."""
    require(isinstance(value, dict), f"{where.rstrip('.')} is {_shown(value)}; it must be a table")
    types, own = get_type_hints(kind), {field.name: field for field in fields(kind)}  # type: ignore[arg-type]
    for name in value:
        require(name in own, f"unknown key {where + name!r}; {hint(name, own)}")
    missing = [where + name for name, field in own.items() if field.default is MISSING and name not in value]
    require(not missing, f"the keys {', '.join(missing)} are missing")
    return kind(**{name: _value(types[name], entry, where + name) for name, entry in value.items()})


def _value(kind: Any, value: Any, where: str) -> Any:
    """Return a value of a document as what a field of that kind holds."""
    if is_dataclass(kind) and isinstance(kind, type):
        return as_dataclass(kind, value, f"{where}.")
    if get_origin(kind) is UnionType:  # of a dataclass and None, which is written by leaving the key out
        return _value(get_args(kind)[0], value, where)
    if kind in (Floats, Integers):
        return _array(kind, value, where)
    if get_origin(kind) is tuple:
        require(isinstance(value, list), f"{where} is {_shown(value)}; it must be a list")
        require(len(value) <= LONGEST, f"{where} has {len(value)} entries; allowed are {LONGEST}")
        return tuple(_value(get_args(kind)[0], entry, f"{where}[{k}]") for k, entry in enumerate(value))
    if get_origin(kind) is dict:
        require(isinstance(value, dict), f"{where} is {_shown(value)}; it must be a table")
        require(len(value) <= LONGEST, f"{where} has {len(value)} entries; allowed are {LONGEST}")
        return {name: _value(get_args(kind)[1], entry, f"{where}.{name}") for name, entry in value.items()}
    if kind is float:
        return float(_number(value, where))
    fits = isinstance(value, kind) and not (kind is int and isinstance(value, bool))
    require(fits, f"{where} is {_shown(value)}; it must be of type {kind.__name__}")
    require(kind is not str or len(value) <= LONGEST, f"{where} has more than {LONGEST} characters")
    return value


def _number(value: Any, where: str) -> int | float:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise BundleError(f"{where} is {_shown(value)}; it must be a number")
    if not abs(value) <= WIDEST:
        raise BundleError(f"{where} is {_shown(value)}; numbers must be finite, in single precision")
    return value


def _array(kind: Any, value: Any, where: str) -> np.ndarray:
    """Return nested lists of numbers as an array; all lists of a level must be of one length."""
    shape, level = [], value
    while isinstance(level, list):
        shape.append(len(level))
        require(0 < len(level) <= LONGEST, f"{where} has a list of {len(level)} entries; allowed are 1..{LONGEST}")
        level = level[0]
    require(bool(shape), f"{where} is {_shown(value)}; it must be a list")
    numbers = _flat(value, shape, where)
    if kind == Integers:
        require(
            all(isinstance(number, int) and abs(number) <= COUNT for number in numbers), f"{where} must hold integers"
        )
        return np.array(numbers, dtype=np.int64).reshape(shape)
    return np.array(numbers, dtype=np.float32).reshape(shape)


def _flat(value: Any, shape: list[int], where: str) -> list[int | float]:
    if not shape:
        return [_number(value, where)]
    require(
        isinstance(value, list) and len(value) == shape[0],
        f"{where} has lists of different lengths, or numbers beside them",
    )
    return [number for entry in value for number in _flat(entry, shape[1:], where)]


def as_document(value: Any) -> Any:
    """Return a dataclass, or a part of one, as JSON holds it; fields that are None are left out."""
    if is_dataclass(value):
        entries = ((field.name, getattr(value, field.name)) for field in fields(value))
        return {name: as_document(entry) for name, entry in entries if entry is not None}
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, tuple):
        return [as_document(entry) for entry in value]
    if isinstance(value, dict):
        return {name: as_document(entry) for name, entry in value.items()}
    return value
