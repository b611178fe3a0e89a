"""Reads an ONNX file strictly.

The reader refuses everything that it does not know: subgraphs, functions, external data, training information. So a runtime sees
nothing in the file that was not read here.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from macop_aht.onnx.format import TYPES, Attribute, FormatError, Graph, Node, Raw, Tensor

VARINT, BYTES, REAL = 0, 2, 5  # wire types; a field with another wire type is refused
MOST = 1_000  # the most nodes, weights, inputs, outputs or attributes of a graph
MOST_AXES = 8


def _read_varint(content: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(content) or shift > 63:
            raise FormatError("a number does not end")
        byte = content[at]
        value, at, shift = value | (byte & 0x7F) << shift, at + 1, shift + 7
        if byte < 0x80:
            if value >= 1 << 64:
                raise FormatError("a number is too large")
            return value, at


class _Message:
    """The fields of a message, read strictly.

    `single` and `many` give the wire type of each allowed field; a single field occurs at most once. Raises `FormatError`.
    """

    def __init__(
        self, content: memoryview, what: str, single: Mapping[int, int], many: Mapping[int, int] | None = None
    ) -> None:
        self._what, self._found, at = what, dict[int, list[Any]](), 0
        kinds = {**single, **(many or {})}
        while at < len(content):
            key, at = _read_varint(content, at)
            place, wire = key >> 3, key & 7
            if place not in kinds or key >= 1 << 32:
                raise FormatError(f"{what} has the field {place}, which we do not read")
            if wire != kinds[place] and not (kinds[place] == VARINT and wire == BYTES and place in (many or {})):
                raise FormatError(f"field {place} of {what} has the wire type {wire}")
            value: Any
            if wire == VARINT:
                value, at = _read_varint(content, at)
            else:
                size, at = _read_varint(content, at) if wire == BYTES else (4, at)
                if at + size > len(content):
                    raise FormatError(f"field {place} of {what} is cut off")
                value, at = content[at : at + size], at + size
            values = self._found.setdefault(place, [])
            values.append(value)
            if (place in single and len(values) > 1) or len(values) > MOST:
                raise FormatError(f"field {place} of {what} is there {len(values)} times")

    def many(self, place: int) -> list[Any]:
        return self._found.get(place, [])

    def number(self, place: int, otherwise: int = 0) -> int:
        return _signed(self._found[place][0]) if place in self._found else otherwise

    def text(self, place: int) -> str:
        return _text(self._found[place][0]) if place in self._found else ""

    def texts(self, place: int) -> list[str]:
        return [_text(value) for value in self.many(place)]

    def numbers(self, place: int, most: int = MOST) -> list[int]:
        """Return the numbers of a repeated field, packed or not, at most so many."""
        numbers: list[int] = []
        for value in self.many(place):
            if isinstance(value, int):
                numbers.append(_signed(value))
                continue
            at = 0
            while at < len(value):
                number, at = _read_varint(value, at)
                numbers.append(_signed(number))
                if len(numbers) > most:
                    raise FormatError(f"field {place} of {self._what} has too many numbers")
        return numbers


def _text(value: memoryview) -> str:
    try:
        return bytes(value).decode()
    except UnicodeDecodeError as error:
        raise FormatError(f"a text is damaged ({error})") from error


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


def _read_tensor(content: memoryview) -> tuple[str, Raw]:
    """Return a weight's name and array: plain bytes, or lists of numbers. Not external data (13, 14), nor texts (6)."""
    single = {2: VARINT, 4: BYTES, 5: BYTES, 7: BYTES, 8: BYTES, 9: BYTES, 12: BYTES, 14: VARINT}
    message = _Message(content, "weights", single, {1: VARINT})
    dims, kind, name = message.numbers(1), message.number(2), message.text(8)
    if kind not in TYPES or len(dims) > MOST_AXES or any(size < 0 for size in dims) or message.number(14):
        raise FormatError(f"weights {name!r} have the type {kind}, {len(dims)} axes, or no content in the file itself")
    given, item = [place for place in (4, 5, 7, 9) if message.many(place)], np.dtype(TYPES[kind]).newbyteorder("<")
    cells = math.prod(dims)
    if len(given) > 1 or (cells and not given):
        raise FormatError(f"weights {name!r} have content in the fields {given}; it must be in one of 4, 5, 7 and 9")
    raw = _raw(message, given[0], item, name) if given else b""
    if len(raw) != cells * item.itemsize:
        raise FormatError(f"weights {name!r} have {len(raw)} bytes, which is not what the shape {dims} needs")
    return name, Raw(kind, tuple(dims), raw)


def _raw(message: _Message, place: int, item: np.dtype, name: str) -> bytes:
    """Return the content of a weight as plain bytes."""
    content = bytes(message.many(place)[0])
    if place == 9:
        return content
    if place == 4 and item == np.float32:
        return content
    if (place, item) in ((7, np.int64), (5, np.int32), (5, np.bool_)):
        numbers, limits = message.numbers(place, most=len(content)), np.iinfo(np.int32 if place == 5 else np.int64)
        if all(limits.min <= number <= limits.max for number in numbers):
            return np.array(numbers, dtype=np.int64).astype(item).tobytes()
    raise FormatError(f"weights {name!r} of type {item} have content in field {place}, where it does not belong")


def _read_value(content: memoryview) -> Tensor:
    message = _Message(content, "a tensor", {1: BYTES, 2: BYTES, 3: BYTES}, {4: BYTES})
    name = message.text(1)
    if not message.many(2):
        raise FormatError(f"{name!r} has no type")
    described = _Message(message.many(2)[0], f"the type of {name!r}", {1: BYTES})
    if not described.many(1):
        raise FormatError(f"{name!r} is not a tensor")
    kind = _Message(described.many(1)[0], f"the type of {name!r}", {1: VARINT, 2: BYTES})
    if kind.number(1) not in TYPES:
        raise FormatError(f"{name!r} has the type {kind.number(1)}; allowed are {sorted(TYPES)}")
    if not kind.many(2):
        return Tensor(name, TYPES[kind.number(1)], None)
    axes = _Message(kind.many(2)[0], f"the shape of {name!r}", {}, {1: BYTES}).many(1)
    if len(axes) > MOST_AXES:
        raise FormatError(f"{name!r} has {len(axes)} axes; allowed are {MOST_AXES}")
    return Tensor(name, TYPES[kind.number(1)], tuple(_read_size(axis) for axis in axes))


def _read_size(content: memoryview) -> int | str:
    message = _Message(content, "an axis", {1: VARINT, 2: BYTES})
    if len(message.many(1)) + len(message.many(2)) > 1:
        raise FormatError("an axis has two sizes")
    return message.number(1) if message.many(1) else message.text(2)


def _read_attribute(content: memoryview) -> tuple[str, Attribute]:
    """Return an attribute's name and value: numbers, texts, lists of these, or an array; no graphs."""
    single = {1: BYTES, 2: REAL, 3: VARINT, 4: BYTES, 5: BYTES, 7: BYTES, 13: BYTES, 20: VARINT}
    message = _Message(content, "an attribute", single, {6: BYTES, 8: VARINT, 9: BYTES, 11: BYTES})
    if message.many(6) or message.many(11):
        raise FormatError(f"attribute {message.text(1)!r} holds a graph; loops and branches are not supported")
    kinds = {2: 1, 3: 2, 4: 3, 5: 4, 7: 6, 8: 7, 9: 8}  # field number: the type that field 20 must name
    given = [place for place in kinds if message.many(place)]
    kind = message.number(20)
    if not given and kind in (6, 7, 8):
        return message.text(1), []
    if not given and kind == 3:
        return message.text(1), ""
    if len(given) != 1 or kind != kinds[given[0]]:
        raise FormatError(f"attribute {message.text(1)!r} is of a type that is not supported")
    values: dict[int, Callable[[], Attribute]] = {
        2: lambda: struct.unpack("<f", bytes(message.many(2)[0]))[0],
        3: lambda: message.number(3),
        4: lambda: message.text(4),
        5: lambda: _read_tensor(message.many(5)[0])[1],
        7: lambda: _floats(message.many(7)[0]),
        8: lambda: message.numbers(8),
        9: lambda: message.texts(9),
    }
    return message.text(1), values[given[0]]()


def _floats(content: memoryview) -> list[float]:
    if len(content) % 4 or len(content) > 4 * MOST:
        raise FormatError(f"a list of numbers has {len(content)} bytes")
    return [*struct.unpack(f"<{len(content) // 4}f", bytes(content))]


def _read_node(content: memoryview) -> Node:
    single = {3: BYTES, 4: BYTES, 6: BYTES, 7: BYTES, 8: BYTES}
    message = _Message(content, "an operation", single, {1: BYTES, 2: BYTES, 5: BYTES, 9: BYTES})
    if message.text(7) not in ("", "ai.onnx") or message.text(8):
        raise FormatError(
            f"operation {message.text(4)!r} is of the domain {message.text(7)!r}; only ONNX's own are supported"
        )
    attributes = [_read_attribute(attribute) for attribute in message.many(5)]
    if len(dict(attributes)) < len(attributes):
        raise FormatError(f"the operation {message.text(4)!r} has an attribute twice")
    return Node(message.text(4), tuple(message.texts(1)), tuple(message.texts(2)), dict(attributes))


def _constant(node: Node) -> np.ndarray:
    """Return what a node `Constant` gives."""
    value = next(iter(node.attributes.values()), None)
    if (
        node.inputs
        or len(node.outputs) != 1
        or len(node.attributes) != 1
        or not isinstance(value, (int, float, list, Raw))
    ):
        raise FormatError("a Constant has inputs, several outputs, or no numbers")
    if isinstance(value, Raw):
        return value.array
    if isinstance(value, list) and any(isinstance(entry, str) for entry in value):
        raise FormatError("a Constant holds texts")
    whole = "int" in next(iter(node.attributes))
    return np.array(value, dtype=np.int64 if whole else np.float32)


def read(content: bytes) -> Graph:
    """Return the graph in a file; its constants are among the weights. Raises `FormatError`.

    It does so where the file is damaged or has unsupported parts.
    """
    single = {1: VARINT, 2: BYTES, 3: BYTES, 4: BYTES, 5: VARINT, 6: BYTES, 7: BYTES, 8: BYTES}
    file = _Message(memoryview(content), "the file", single, {14: BYTES})
    if not file.many(7) or not file.many(8):
        raise FormatError("the file holds no graph, or no operator set for it")
    opset = _Message(file.many(8)[0], "the operator set", {1: BYTES, 2: VARINT})
    if opset.text(1) not in ("", "ai.onnx") or opset.number(2) < 1:
        raise FormatError(f"operators of the domain {opset.text(1)!r} are imported; only ONNX's own are supported")
    notes = [_Message(note, "a note", {1: BYTES, 2: BYTES}) for note in file.many(14)]
    many = {1: BYTES, 5: BYTES, 11: BYTES, 12: BYTES, 13: BYTES, 16: BYTES}
    graph = _Message(file.many(7)[0], "the graph", {2: BYTES, 10: BYTES}, many)
    nodes = [_read_node(node) for node in graph.many(1)]
    weights = [(name, raw.array) for name, raw in map(_read_tensor, graph.many(5))]
    weights += [(node.outputs[0], _constant(node)) for node in nodes if node.op == "Constant"]
    if len(dict(weights)) < len(weights):
        raise FormatError("two weights have the same name")
    return Graph(
        [node for node in nodes if node.op != "Constant"],
        [_read_value(value) for value in graph.many(11)],
        [_read_value(value) for value in graph.many(12)],
        dict(weights),
        {note.text(1): note.text(2) for note in notes},
        opset.number(2),
        [_read_value(value) for value in graph.many(13)],
    )
