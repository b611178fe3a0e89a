"""A reader and a writer of ONNX files without the onnx package, for the part of the format that our graphs need.

A file is a protobuf message: a list of fields, each with a number, a wire type and a value. A value can be a message again. The
reader refuses everything that it does not know. So a runtime sees nothing in the file that was not checked here.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

IR_VERSION, OPSET = 9, 17
TYPES: dict[int, Any] = {1: np.float32, 6: np.int32, 7: np.int64, 9: np.bool_, 10: np.float16}
CODES = {np.dtype(kind): code for code, kind in TYPES.items()}
Shape = tuple[int | str, ...]  # a name means that the axis has any size


class FormatError(ValueError):
    """The content is not an ONNX file, is damaged, or has parts that the reader does not support."""


@dataclass(frozen=True)
class Tensor:
    """An input or an output of a graph."""

    name: str
    kind: Any  # type of numpy
    shape: Shape


@dataclass(frozen=True)
class Node:
    """One operation. Attributes are integers, floats or lists of integers."""

    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, int | float | list[int]] = field(default_factory=dict)


@dataclass(frozen=True)
class Graph:
    """The content of a file."""

    nodes: Sequence[Node]
    inputs: Sequence[Tensor]
    outputs: Sequence[Tensor]
    weights: Mapping[str, np.ndarray]
    notes: Mapping[str, str] = field(default_factory=dict)
    opset: int = OPSET


class Builder:
    """A list of nodes that grows call by call, with generated names."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []

    def __call__(self, op: str, *inputs: str, output: str = "", **attributes: int | float | list[int]) -> str:
        """Add an operation with one output, and return the output's name."""
        name = output or f"{op.lower()}{len(self.nodes)}"
        self.nodes.append(Node(op, inputs, (name,), attributes))
        return name

    def split(self, value: str, sizes: str, count: int) -> list[str]:
        """Add a split along the last axis, and return the names of its outputs."""
        names = [f"split{len(self.nodes)}_{part}" for part in range(count)]
        self.nodes.append(Node("Split", (value, sizes), tuple(names), {"axis": -1}))
        return names


# --- Writing


def _varint(value: int) -> bytes:
    value &= (1 << 64) - 1  # negative numbers as two's complement
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)


def _number(place: int, value: int) -> bytes:
    return _varint(place << 3) + _varint(value)


def _bytes(place: int, value: bytes | str) -> bytes:
    content = value.encode() if isinstance(value, str) else value
    return _varint(place << 3 | 2) + _varint(len(content)) + content


def _write_tensor(name: str, array: np.ndarray) -> bytes:
    dims = b"".join(_number(1, size) for size in array.shape)
    content = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
    return dims + _number(2, CODES[array.dtype]) + _bytes(8, name) + _bytes(9, content)


def _write_value(tensor: Tensor) -> bytes:
    sizes = [_number(1, size) if isinstance(size, int) else _bytes(2, size) for size in tensor.shape]
    shape = b"".join(_bytes(1, size) for size in sizes)
    kind = _number(1, CODES[np.dtype(tensor.kind)]) + _bytes(2, shape)
    return _bytes(1, tensor.name) + _bytes(2, _bytes(1, kind))


def _write_attribute(name: str, value: int | float | list[int]) -> bytes:
    if isinstance(value, int):
        return _bytes(1, name) + _number(3, value) + _number(20, 2)
    if isinstance(value, float):
        return _bytes(1, name) + _varint(2 << 3 | 5) + struct.pack("<f", value) + _number(20, 1)
    return _bytes(1, name) + b"".join(_number(8, entry) for entry in value) + _number(20, 7)


def _write_node(node: Node, index: int) -> bytes:
    parts = [_bytes(1, name) for name in node.inputs] + [_bytes(2, name) for name in node.outputs]
    parts += [_bytes(3, f"{node.op}_{index}"), _bytes(4, node.op)]
    parts += [_bytes(5, _write_attribute(name, value)) for name, value in node.attributes.items()]
    return b"".join(parts)


def write(graph: Graph) -> bytes:
    """Return the content of the file of a graph."""
    parts = [_bytes(1, _write_node(node, index)) for index, node in enumerate(graph.nodes)]
    parts += [_bytes(2, "graph")]
    parts += [_bytes(5, _write_tensor(name, array)) for name, array in graph.weights.items()]
    parts += [_bytes(11, _write_value(tensor)) for tensor in graph.inputs]
    parts += [_bytes(12, _write_value(tensor)) for tensor in graph.outputs]
    notes = [_bytes(14, _bytes(1, key) + _bytes(2, value)) for key, value in graph.notes.items()]
    header = _number(1, IR_VERSION) + _bytes(2, "macop-aht")
    return header + _bytes(7, b"".join(parts)) + _bytes(8, _number(2, graph.opset)) + b"".join(notes)


# --- Reading

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

    def numbers(self, place: int) -> list[int]:
        """Return the numbers of a repeated field, packed or not."""
        numbers: list[int] = []
        for value in self.many(place):
            if isinstance(value, int):
                numbers.append(_signed(value))
                continue
            at = 0
            while at < len(value):
                number, at = _read_varint(value, at)
                numbers.append(_signed(number))
                if len(numbers) > MOST:
                    raise FormatError(f"field {place} of {self._what} has too many numbers")
        return numbers


def _text(value: memoryview) -> str:
    try:
        return bytes(value).decode()
    except UnicodeDecodeError as error:
        raise FormatError(f"a text is damaged ({error})") from error


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


def _read_tensor(content: memoryview) -> tuple[str, np.ndarray]:
    """Return a weight's name and array. Only plain bytes are supported: not fields 4-7, 10, 11, nor 13 and 14 (external)."""
    message = _Message(content, "weights", {2: VARINT, 8: BYTES, 9: BYTES, 12: BYTES}, {1: VARINT})
    dims, kind, name = message.numbers(1), message.number(2), message.text(8)
    if kind not in TYPES or not message.many(9) or len(dims) > MOST_AXES or any(size < 0 for size in dims):
        raise FormatError(f"weights {name!r} have the type {kind}, {len(dims)} axes, or no content in the file itself")
    raw, item = bytes(message.many(9)[0]), np.dtype(TYPES[kind]).newbyteorder("<")
    if len(raw) != math.prod(dims) * item.itemsize:
        raise FormatError(f"weights {name!r} have {len(raw)} bytes, which is not what the shape {dims} needs")
    return name, np.frombuffer(raw, dtype=item).reshape(dims)


def _read_value(content: memoryview) -> Tensor:
    message = _Message(content, "a tensor", {1: BYTES, 2: BYTES, 3: BYTES})
    name = message.text(1)
    if not message.many(2):
        raise FormatError(f"{name!r} has no type")
    described = _Message(message.many(2)[0], f"the type of {name!r}", {1: BYTES})
    if not described.many(1):
        raise FormatError(f"{name!r} is not a tensor")
    kind = _Message(described.many(1)[0], f"the type of {name!r}", {1: VARINT, 2: BYTES})
    axes = _Message(kind.many(2)[0], f"the shape of {name!r}", {}, {1: BYTES}).many(1) if kind.many(2) else []
    if kind.number(1) not in TYPES or len(axes) > MOST_AXES:
        raise FormatError(f"{name!r} has the type {kind.number(1)} and {len(axes)} axes; allowed are {sorted(TYPES)}")
    return Tensor(name, TYPES[kind.number(1)], tuple(_read_size(axis) for axis in axes))


def _read_size(content: memoryview) -> int | str:
    message = _Message(content, "an axis", {1: VARINT, 2: BYTES})
    if len(message.many(1)) + len(message.many(2)) != 1:
        raise FormatError("an axis has no size, or two")
    return message.number(1) if message.many(1) else message.text(2)


def _read_attribute(content: memoryview) -> tuple[str, int | float | list[int]]:
    """Return an attribute's name and value. Only numbers are supported: no texts, tensors or graphs."""
    single = {1: BYTES, 2: REAL, 3: VARINT, 13: BYTES, 20: VARINT}
    message = _Message(content, "an attribute", single, {8: VARINT})
    kinds = {2: 1, 3: 2, 8: 7}  # field number: the type that field 20 must name
    given = [place for place in kinds if message.many(place)]
    if len(given) != 1 or message.number(20) != kinds[given[0]]:
        raise FormatError(f"attribute {message.text(1)!r} is of a type that is not supported")
    if given == [2]:
        return message.text(1), struct.unpack("<f", bytes(message.many(2)[0]))[0]
    return message.text(1), message.number(3) if given == [3] else message.numbers(8)


def _read_node(content: memoryview) -> Node:
    single = {3: BYTES, 4: BYTES, 6: BYTES, 7: BYTES}
    message = _Message(content, "an operation", single, {1: BYTES, 2: BYTES, 5: BYTES})
    if message.text(7) not in ("", "ai.onnx"):
        raise FormatError(
            f"operation {message.text(4)!r} is of the domain {message.text(7)!r}; only ONNX's own are supported"
        )
    attributes = dict(_read_attribute(attribute) for attribute in message.many(5))
    return Node(message.text(4), tuple(message.texts(1)), tuple(message.texts(2)), attributes)


def read(content: bytes) -> Graph:
    """Return the graph in a file. Raises `FormatError` where the file is damaged or has unsupported parts."""
    single = {1: VARINT, 2: BYTES, 3: BYTES, 4: BYTES, 5: VARINT, 6: BYTES, 7: BYTES, 8: BYTES}
    file = _Message(memoryview(content), "the file", single, {14: BYTES})
    if not file.many(7) or not file.many(8):
        raise FormatError("the file holds no graph, or no operator set for it")
    opset = _Message(file.many(8)[0], "the operator set", {1: BYTES, 2: VARINT})
    if opset.text(1) not in ("", "ai.onnx") or opset.number(2) < 1:
        raise FormatError(f"operators of the domain {opset.text(1)!r} are imported; only ONNX's own are supported")
    notes = [_Message(note, "a note", {1: BYTES, 2: BYTES}) for note in file.many(14)]
    graph = _Message(
        file.many(7)[0], "the graph", {2: BYTES, 10: BYTES}, {1: BYTES, 5: BYTES, 11: BYTES, 12: BYTES, 13: BYTES}
    )
    weights = [_read_tensor(tensor) for tensor in graph.many(5)]
    if len(dict(weights)) < len(weights):
        raise FormatError("two weights have the same name")
    return Graph(
        [_read_node(node) for node in graph.many(1)],
        [_read_value(value) for value in graph.many(11)],
        [_read_value(value) for value in graph.many(12)],
        dict(weights),
        {note.text(1): note.text(2) for note in notes},
        opset.number(2),
    )
