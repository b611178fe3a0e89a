"""ONNX without the onnx package: graphs, files, what a file may hold, and sessions that run it."""

from macop_aht.onnx.check import check, check_weights
from macop_aht.onnx.format import OPSET, Builder, FormatError, Graph, Node, Shape, Tensor
from macop_aht.onnx.reader import read
from macop_aht.onnx.session import Session
from macop_aht.onnx.writer import write

__all__ = [
    "OPSET", "Builder", "FormatError", "Graph", "Node", "Session", "Shape", "Tensor", "check", "check_weights", "read", "write",
]  # fmt: skip
