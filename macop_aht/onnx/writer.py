"""Writes a graph as an ONNX file."""

from __future__ import annotations

import struct

import numpy as np

from macop_aht.onnx.format import CODES, IR_VERSION, Attribute, Graph, Node, Tensor


def varint(value: int) -> bytes:
    """Return an integer as protobuf writes it."""
    value &= (1 << 64) - 1  # negative numbers as two's complement
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)


def number_field(place: int, value: int) -> bytes:
    """Return a field that holds an integer."""
    return varint(place << 3) + varint(value)


def bytes_field(place: int, value: bytes | str) -> bytes:
    """Return a field that holds bytes, a text or a message."""
    content = value.encode() if isinstance(value, str) else value
    return varint(place << 3 | 2) + varint(len(content)) + content


def _write_tensor(name: str, array: np.ndarray) -> bytes:
    dims = b"".join(number_field(1, size) for size in array.shape)
    content = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
    return dims + number_field(2, CODES[array.dtype]) + bytes_field(8, name) + bytes_field(9, content)


def _write_value(tensor: Tensor) -> bytes:
    sizes = [number_field(1, size) if isinstance(size, int) else bytes_field(2, size) for size in tensor.shape or ()]
    shape = b"".join(bytes_field(1, size) for size in sizes)
    kind = number_field(1, CODES[np.dtype(tensor.kind)]) + bytes_field(2, shape)
    return bytes_field(1, tensor.name) + bytes_field(2, bytes_field(1, kind))


def _write_attribute(name: str, value: Attribute) -> bytes:
    if isinstance(value, int):
        return bytes_field(1, name) + number_field(3, value) + number_field(20, 2)
    if isinstance(value, float):
        return bytes_field(1, name) + varint(2 << 3 | 5) + struct.pack("<f", value) + number_field(20, 1)
    if isinstance(value, list) and all(isinstance(entry, int) for entry in value):
        return bytes_field(1, name) + b"".join(number_field(8, int(entry)) for entry in value) + number_field(20, 7)
    raise TypeError(f"attribute {name!r} is {value!r}; our graphs have integers, floats and lists of integers")


def _write_node(node: Node, index: int) -> bytes:
    parts = [bytes_field(1, name) for name in node.inputs] + [bytes_field(2, name) for name in node.outputs]
    parts += [bytes_field(3, f"{node.op}_{index}"), bytes_field(4, node.op)]
    parts += [bytes_field(5, _write_attribute(name, value)) for name, value in node.attributes.items()]
    return b"".join(parts)


def write(graph: Graph) -> bytes:
    """Return the content of the file of a graph."""
    parts = [bytes_field(1, _write_node(node, index)) for index, node in enumerate(graph.nodes)]
    parts += [bytes_field(2, "graph")]
    parts += [bytes_field(5, _write_tensor(name, array)) for name, array in graph.weights.items()]
    parts += [bytes_field(11, _write_value(tensor)) for tensor in graph.inputs]
    parts += [bytes_field(12, _write_value(tensor)) for tensor in graph.outputs]
    notes = [bytes_field(14, bytes_field(1, key) + bytes_field(2, value)) for key, value in graph.notes.items()]
    header = number_field(1, IR_VERSION) + bytes_field(2, "macop-aht")
    return header + bytes_field(7, b"".join(parts)) + bytes_field(8, number_field(2, graph.opset)) + b"".join(notes)
