"""ONNX files, written and read without the onnx package: the part of the format that our graphs need.

A file is a message of fields, each a number, a wire type and a value; messages nest. Whatever is not understood is refused, so
that what was read here is all that a runtime will see.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

IR_VERSION, OPSET = 9, 17
TYPES: dict[int, Any] = {1: np.float32, 6: np.int32, 7: np.int64, 9: np.bool_, 10: np.float16}
CODES = {np.dtype(kind): code for code, kind in TYPES.items()}
Shape = tuple[int | str, ...]  # a name stands for a free axis


class FormatError(ValueError):
    """Not an ONNX file, a damaged one, or one with parts that we do not read."""


@dataclass(frozen=True)
class Tensor:
    """An input or an output of a graph."""

    name: str
    kind: Any  # numpy's type
    shape: Shape


@dataclass(frozen=True)
class Node:
    """One operation; attributes are whole numbers, real numbers or lists of whole numbers."""

    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, int | float | list[int]] = field(default_factory=dict)


@dataclass(frozen=True)
class Graph:
    """What a file holds."""

    nodes: Sequence[Node]
    inputs: Sequence[Tensor]
    outputs: Sequence[Tensor]
    weights: Mapping[str, np.ndarray]
    notes: Mapping[str, str] = field(default_factory=dict)
    opset: int = OPSET


class Builder:
    """Nodes one after the other, with names as they come."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []

    def __call__(self, op: str, *inputs: str, output: str = "", **attributes: int | float | list[int]) -> str:
        """Add an operation with one output; gives its name."""
        name = output or f"{op.lower()}{len(self.nodes)}"
        self.nodes.append(Node(op, inputs, (name,), attributes))
        return name

    def split(self, value: str, sizes: str, count: int) -> list[str]:
        """Parts along the last axis."""
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
    """The file of a graph."""
    parts = [_bytes(1, _write_node(node, index)) for index, node in enumerate(graph.nodes)]
    parts += [_bytes(2, "graph")]
    parts += [_bytes(5, _write_tensor(name, array)) for name, array in graph.weights.items()]
    parts += [_bytes(11, _write_value(tensor)) for tensor in graph.inputs]
    parts += [_bytes(12, _write_value(tensor)) for tensor in graph.outputs]
    notes = [_bytes(14, _bytes(1, key) + _bytes(2, value)) for key, value in graph.notes.items()]
    header = _number(1, IR_VERSION) + _bytes(2, "macop-aht")
    return header + _bytes(7, b"".join(parts)) + _bytes(8, _number(2, graph.opset)) + b"".join(notes)


# --- Reading


def _read_varint(content: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(content) or shift > 63:
            raise FormatError("a number does not end")
        byte = content[at]
        value, at, shift = value | (byte & 0x7F) << shift, at + 1, shift + 7
        if byte < 0x80:
            return value, at


def _fields(content: memoryview) -> Iterator[tuple[int, Any]]:
    """Every field of a message: a whole number, or the bytes of it."""
    at = 0
    while at < len(content):
        key, at = _read_varint(content, at)
        place, wire = key >> 3, key & 7
        if wire == 0:
            value, at = _read_varint(content, at)
            yield place, value
            continue
        if wire == 2:
            size, at = _read_varint(content, at)
        elif wire in (1, 5):
            size = 8 if wire == 1 else 4
        else:
            raise FormatError(f"field {place} has the unknown wire type {wire}")
        if at + size > len(content):
            raise FormatError(f"field {place} is cut off")
        yield place, content[at : at + size]
        at += size


def _text(value: Any) -> str:
    if isinstance(value, int):
        raise FormatError("a number stands where a text belongs")
    try:
        return bytes(value).decode()
    except UnicodeDecodeError as error:
        raise FormatError(f"a text is damaged ({error})") from error


def _signed(value: Any) -> int:
    if not isinstance(value, int):
        raise FormatError("a text stands where a number belongs")
    return value - (1 << 64) if value >= 1 << 63 else value


def _message(value: Any) -> memoryview:
    if isinstance(value, int):
        raise FormatError("a number stands where a message belongs")
    return value


def _whole_numbers(value: Any) -> list[int]:
    """One number, or many packed into one field."""
    if isinstance(value, int):
        return [_signed(value)]
    numbers, at = [], 0
    while at < len(value):
        number, at = _read_varint(value, at)
        numbers.append(_signed(number))
    return numbers


def _read_tensor(content: memoryview) -> tuple[str, np.ndarray]:
    dims: list[int] = []
    kind, name, raw = 0, "", None
    for place, value in _fields(content):
        if place == 1:
            dims += _whole_numbers(value)
        elif place == 2:
            kind = _signed(value)
        elif place == 8:
            name = _text(value)
        elif place == 9:
            raw = bytes(_message(value))
        elif place == 12:
            _text(value)
        else:
            raise FormatError(f"weights {name!r} are not stored in the file itself, as plain bytes (field {place})")
    if kind not in TYPES or raw is None or any(size < 0 for size in dims):
        raise FormatError(f"weights {name!r} have the type {kind} and the shape {dims}, or no content")
    count = int(np.prod(dims, dtype=object)) if dims else 1
    if len(raw) != count * np.dtype(TYPES[kind]).itemsize:
        raise FormatError(f"weights {name!r} have {len(raw)} bytes, which is not what the shape {dims} needs")
    return name, np.frombuffer(raw, dtype=np.dtype(TYPES[kind]).newbyteorder("<")).reshape(dims)


def _read_value(content: memoryview) -> Tensor:
    name, kind, shape = "", 0, []
    for place, value in _fields(content):
        if place == 1:
            name = _text(value)
        elif place == 2:
            for inner, described in _fields(_message(value)):
                if inner != 1:
                    raise FormatError(f"{name!r} is not a tensor")
                for part, entry in _fields(_message(described)):
                    if part == 1:
                        kind = _signed(entry)
                    elif part == 2:
                        shape = [_read_size(_message(size)) for _, size in _fields(_message(entry))]
    if kind not in TYPES:
        raise FormatError(f"{name!r} has the type {kind}; allowed are {sorted(TYPES)}")
    return Tensor(name, TYPES[kind], tuple(shape))


def _read_size(content: memoryview) -> int | str:
    for place, value in _fields(content):
        return _signed(value) if place == 1 else _text(value)
    return ""


def _read_attribute(content: memoryview) -> tuple[str, int | float | list[int]]:
    name, found, numbers = "", None, []
    for place, value in _fields(content):
        if place == 1:
            name = _text(value)
        elif place == 2:
            found = struct.unpack("<f", bytes(_message(value)))[0] if len(_message(value)) == 4 else None
        elif place == 3:
            found = _signed(value)
        elif place == 8:
            numbers += _whole_numbers(value)
        elif place not in (13, 20):
            raise FormatError(f"attribute {name!r} is of a kind that we do not read (field {place})")
    return name, numbers if found is None else found


def _read_node(content: memoryview) -> Node:
    inputs, outputs, attributes, op = [], [], {}, ""
    for place, value in _fields(content):
        if place == 1:
            inputs.append(_text(value))
        elif place == 2:
            outputs.append(_text(value))
        elif place == 4:
            op = _text(value)
        elif place == 5:
            name, attribute = _read_attribute(_message(value))
            attributes[name] = attribute
        elif place == 7 and _text(value) not in ("", "ai.onnx"):
            raise FormatError(f"operation {op!r} is of the domain {_text(value)!r}; only ONNX's own are read")
        elif place not in (3, 6, 7):
            raise FormatError(f"operation {op!r} has the unknown field {place}")
    return Node(op, tuple(inputs), tuple(outputs), attributes)


def read(content: bytes) -> Graph:
    """The graph in a file; a FormatError where it is damaged or holds what we do not read."""
    nodes: list[Node] = []
    inputs, outputs, weights, notes = [], [], {}, {}
    opset, graphs = 0, 0
    for place, value in _fields(memoryview(content)):
        if place == 7:
            graphs += 1
            for part, entry in _fields(_message(value)):
                if part == 1:
                    nodes.append(_read_node(_message(entry)))
                elif part == 5:
                    name, array = _read_tensor(_message(entry))
                    if name in weights:
                        raise FormatError(f"weights {name!r} are there twice")
                    weights[name] = array
                elif part == 11:
                    inputs.append(_read_value(_message(entry)))
                elif part == 12:
                    outputs.append(_read_value(_message(entry)))
                elif part not in (2, 10, 13):
                    raise FormatError(f"the graph has the unknown field {part}")
        elif place == 8:
            version = dict(_fields(_message(value)))
            if _text(version.get(1, b"")) not in ("", "ai.onnx"):
                raise FormatError(
                    f"operations of the domain {_text(version[1])!r} are imported; only ONNX's own are read"
                )
            opset = _signed(version.get(2, 0))
        elif place == 14:
            entry = dict(_fields(_message(value)))
            notes[_text(entry.get(1, b""))] = _text(entry.get(2, b""))
        elif place not in (1, 2, 3, 4, 5, 6):
            raise FormatError(f"the file has the unknown field {place}")
    if graphs != 1 or opset < 1:
        raise FormatError(f"the file holds {graphs} graphs for the operator set {opset}; it must hold one")
    return Graph(nodes, inputs, outputs, weights, notes, opset)
