"""What an ONNX graph may hold before a runtime sees it: known operators, finite weights, and tensors of bounded size.

`check` computes the shape of every tensor of a graph, for one row and for many. A shape may depend on the number of rows, never
on data. So a graph cannot ask for more memory or time than is allowed here, whatever its weights and inputs are.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from macop_aht.onnx.format import FormatError, Graph, Node
from macop_aht.onnx.shapes import FOLDED, KNOWN, Call, Size, Value, outputs, work

MANY = 256  # rows that are tried beside one and two
MOST_CELLS = (
    2**18
)  # numbers in all tensors of a graph together, per row; what does not depend on rows may be four times that
MOST_WORK = 2**26  # multiplications in products of matrices, per row
OPSETS = range(11, 27)  # the operator sets whose shapes are computed here


def check(graph: Graph, operators: Collection[str] | None = None) -> None:
    """Raise `FormatError` where a graph holds what is not allowed.

    `operators` are the allowed ones; None allows all that are known here.
    """
    allowed = KNOWN if operators is None else operators
    strangers = sorted({node.op for node in graph.nodes} - {*allowed})
    if strangers:
        raise FormatError(
            f"the operators {', '.join(map(repr, strangers))} are not allowed; allowed are {', '.join(sorted(allowed))}"
        )
    check_weights(graph)
    if graph.opset not in OPSETS:
        raise FormatError(f"it needs operator set {graph.opset}; allowed are {OPSETS[0]} to {OPSETS[-1]}")
    one, two, many = (_check_sizes(graph, rows) for rows in (1, 2, MANY))
    if many > one + (MANY - 1) * (two - one):
        raise FormatError("its tensors grow faster than the number of rows; rows must not know of each other")


def check_weights(graph: Graph) -> None:
    """Raise `FormatError` where weights contain NaN or infinity."""
    for name, array in graph.weights.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise FormatError(f"weights {name!r} contain NaN or infinity")


def _check_sizes(graph: Graph, rows: int) -> int:
    """Compute all shapes for so many rows, and compare them with what is allowed and with what the file says of them.

    Return the number of entries in all tensors.
    """
    values, spent = _begin(graph, rows), 0
    cells = sum(values[tensor.name].cells for tensor in graph.inputs)
    for node in graph.nodes:
        call = Call(node, [_looked_up(values, name, node) if name else None for name in node.inputs])
        found = outputs(call)
        cells, spent = cells + sum(value.cells for value in found), spent + work(call)
        if cells > MOST_CELLS * (rows + 3) or spent > MOST_WORK * (rows + 3):
            raise FormatError(
                f"it needs more memory or time than is allowed, at the operation {node.op}: at most {MOST_CELLS} numbers and "
                f"{MOST_WORK} multiplications for each row"
            )
        for name, value in zip(node.outputs, found, strict=False):
            if name in values:
                raise FormatError(f"the tensor {name!r} is computed twice")
            if name:
                values[name] = value
        if any(node.outputs[len(found) :]):
            raise FormatError(f"{node.op} has {len(node.outputs)} outputs; it gives {len(found)}")
    for tensor in graph.outputs:
        if tensor.name not in values:
            raise FormatError(f"the output {tensor.name!r} is computed nowhere")
    for tensor in (*graph.outputs, *graph.told):
        shape = tensor.shape
        if tensor.name in values and shape is not None and not _fits(shape, values[tensor.name].shape):
            raise FormatError(
                f"{tensor.name!r} has the shape {shape} in the file, and {values[tensor.name].shape} with {rows} rows"
            )
    return cells


def _begin(graph: Graph, rows: int) -> dict[str, Value]:
    """Return the inputs and weights by name."""
    values = {
        name: Value(array.shape, array if array.size <= FOLDED else None) for name, array in graph.weights.items()
    }
    for tensor in graph.inputs:
        if tensor.name in values or tensor.shape is None:
            raise FormatError(f"the input {tensor.name!r} is there twice, or has no shape")
        if any(isinstance(size, int) and size < 0 for size in tensor.shape):
            raise FormatError(f"the input {tensor.name!r} has the shape {tensor.shape}")
        values[tensor.name] = Value(tuple(rows if isinstance(size, str) else size for size in tensor.shape))
    names = [tensor.name for tensor in graph.outputs]
    if len({*names}) < len(names):
        raise FormatError(f"an output is there twice among {names}")
    return values


def _looked_up(values: Mapping[str, Value], name: str, node: Node) -> Value:
    if name not in values:
        raise FormatError(f"the operation {node.op} uses {name!r}, which is computed nowhere before it")
    return values[name]


def _fits(said: Sequence[int | str], found: Size) -> bool:
    return len(said) == len(found) and all(
        isinstance(one, str) or one == other for one, other in zip(said, found, strict=True)
    )
