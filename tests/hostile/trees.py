"""Damage to trees of dictionaries and lists, as JSON and TOML hold them, and to the bytes of any file."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Iterator
from typing import Any

DEEP = "\0deep\0"  # stands for lists that are nested without end, which the writers of JSON and TOML cannot write
LONG = "\0long\0"
RAW = {json.dumps(DEEP): "[" * 100_000 + "]" * 100_000, json.dumps(LONG): "[" + "0," * 200_000 + "0]"}
STRANGE = (
    None, True, False, -1, 0, 1, 2, 65_537, 2**31, 2**63, 10**30, -(10**18), 0.5, -0.0, 1e-320, 1e308, float("nan"),
    float("inf"), "", "x", "../../x", "/etc/passwd", "\u0000", "é" * 50_000, "9" * 6_000, [], {}, [[]], [{}], {"": {}},
    {"format": 2}, DEEP, LONG,
)  # fmt: skip
AGAIN = "\0again"  # behind a key that is to be there twice


def bytes_damaged(content: bytes, rng: random.Random) -> bytes:
    """Return the content with flipped bits, a cut, or stretches inserted, doubled, zeroed or replaced."""
    changed = bytearray(content or b"\0")
    for _ in range(rng.choice((1, 1, 2, 8))):
        at, size = rng.randrange(len(changed) or 1), rng.choice((1, 4, 64, 1_024))
        kind = rng.randrange(6)
        if kind == 0 and changed:
            changed[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del changed[at : at + size if rng.random() < 0.5 else None]
        elif kind == 2:
            changed[at:at] = rng.randbytes(size)
        elif kind == 3:
            changed[at:at] = changed[at : at + size]
        elif kind == 4:
            changed[at : at + size] = bytes(len(changed[at : at + size]))
        else:
            changed[at : at + size] = rng.randbytes(size)
    return bytes(changed)


def places(tree: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every place in a tree: a dictionary or list, and a key or index of it."""
    entries = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in list(entries):
        yield tree, key
        yield from places(value)


def tree_damaged(tree: Any, rng: random.Random) -> Any:
    """Return a copy of a tree with one to three things changed."""
    root = [copy.deepcopy(tree)]  # so that the tree itself is a place too
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        if not root:
            break
        by_depth: dict[bool, list[tuple[Any, Any]]] = {True: [], False: []}
        for holder, key in places(root):
            by_depth[isinstance(holder[key], (dict, list))].append((holder, key))
        inner = rng.random() < 0.4 or not by_depth[False]  # else long lists of numbers would get all the damage
        holder, key = rng.choice(by_depth[inner] or by_depth[False])
        rng.choice(CHANGES)(holder, key, rng)
    return root[0] if root else None


def _replace(holder: Any, key: Any, rng: random.Random) -> None:
    holder[key] = copy.deepcopy(rng.choice(STRANGE))


def _drop(holder: Any, key: Any, rng: random.Random) -> None:
    del holder[key]


def _rename(holder: Any, key: Any, rng: random.Random) -> None:
    if isinstance(holder, dict):
        holder[rng.choice((f"{key}x", "", "format", "\u00e9", key[:-1], "a.b"))] = holder.pop(key)


def _double(holder: Any, key: Any, rng: random.Random) -> None:
    if isinstance(holder, dict):
        holder[key + AGAIN] = copy.deepcopy(holder[key])
    else:
        holder.insert(key, copy.deepcopy(holder[key]))


def _alter(holder: Any, key: Any, rng: random.Random) -> None:
    """Change a value into a near one of its own type."""
    value = holder[key]
    if isinstance(value, bool):
        holder[key] = not value
    elif isinstance(value, (int, float)):
        holder[key] = rng.choice((value + 1, value - 1, -value, value * 2, value * 10**6, 2**40))
    elif isinstance(value, str):
        holder[key] = rng.choice((value[:-1], value + "x", value.upper(), value[::-1], value * 1_000))
    elif isinstance(value, list):
        some = value[: rng.randrange(len(value) + 1)]
        holder[key] = rng.choice((some, value * 2, value * 300, value[::-1], [value], [*value, None]))
    elif isinstance(value, dict):
        holder[key] = rng.choice(([value], {"x": value}, {**value, "x": 1}, list(value), list(value.values())))


def _swap(holder: Any, key: Any, rng: random.Random) -> None:
    other = rng.choice(list(holder) if isinstance(holder, dict) else range(len(holder)))
    holder[key], holder[other] = holder[other], holder[key]


CHANGES: tuple[Callable[[Any, Any, random.Random], None], ...] = (
    _replace,
    _replace,
    _drop,
    _rename,
    _double,
    _alter,
    _alter,
    _swap,
)


def _finished(text: str) -> bytes:
    for mark, raw in RAW.items():
        text = text.replace(mark, raw)
    return text.replace(json.dumps(AGAIN)[1:-1], "").encode()


def as_json(tree: Any) -> bytes:
    """Return a tree as JSON, with the keys that are there twice, and what is nested without end."""
    return _finished(json.dumps(tree))


def as_lines(trees: Any) -> bytes:
    """Return a list of trees as lines of JSON."""
    return b"".join(as_json(tree) + b"\n" for tree in (trees if isinstance(trees, list) else [trees]))


def as_toml(tree: Any) -> bytes:
    """Return a tree as TOML; what TOML has no word for is left as JSON writes it, and so is no TOML."""
    if not isinstance(tree, dict):
        return as_json(tree)
    return _finished("\n".join(f"{json.dumps(key)} = {_inline(value)}" for key, value in tree.items()) + "\n")


def _inline(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {_inline(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_inline, value)) + "]"
    return {"NaN": "nan", "Infinity": "inf"}.get(text := json.dumps(value), text)
