"""ONNX files without the onnx package, for the part of the format that networks like ours need: what a graph is made of.

A file is a protobuf message: a list of fields, each with a number, a wire type and a value. A value can be a message again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

IR_VERSION, OPSET = 9, 17
TYPES: dict[int, Any] = {1: np.float32, 6: np.int32, 7: np.int64, 9: np.bool_, 10: np.float16, 11: np.float64}
CODES = {np.dtype(kind): code for code, kind in TYPES.items()}
Shape = tuple[int | str, ...]  # a name means that the axis has any size


class FormatError(ValueError):
    """The content is not an ONNX file, is damaged, or has parts that the reader does not support."""


@dataclass(frozen=True)
class Tensor:
    """An input or an output of a graph."""

    name: str
    kind: Any  # type of numpy
    shape: Shape | None  # None: the file does not say


class Raw(NamedTuple):
    """An array that can be compared with `==`."""

    code: int
    shape: tuple[int, ...]
    content: bytes

    @property
    def array(self) -> np.ndarray:
        return np.frombuffer(self.content, dtype=np.dtype(TYPES[self.code]).newbyteorder("<")).reshape(self.shape)


Attribute = int | float | str | list[int] | list[float] | list[str] | Raw


@dataclass(frozen=True)
class Node:
    """One operation."""

    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Attribute] = field(default_factory=dict)


@dataclass(frozen=True)
class Graph:
    """The content of a file."""

    nodes: Sequence[Node]
    inputs: Sequence[Tensor]
    outputs: Sequence[Tensor]
    weights: Mapping[str, np.ndarray]
    notes: Mapping[str, str] = field(default_factory=dict)
    opset: int = OPSET
    told: Sequence[Tensor] = ()  # what the file says of tensors in between


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
