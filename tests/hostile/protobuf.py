"""Damage to ONNX files: to the fields of their messages, and by what an attacker would put into a graph."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from macop_aht.onnx.writer import varint
from tests.hostile.trees import bytes_damaged

MESSAGES: Mapping[str, Mapping[int, str]] = {  # by message, the fields that hold messages
    "file": {7: "graph", 8: "opset", 14: "note"},
    "graph": {1: "node", 5: "tensor", 11: "value", 12: "value", 13: "value"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph"},
    "value": {2: "type"},
    "type": {1: "tensor type"},
    "tensor type": {2: "shape"},
    "shape": {1: "axis"},
}
EXTREME = (0, 1, 2, 7, 127, 128, 1_001, 2**31 - 1, 2**31, 2**32, 2**40, 2**62, 2**63 - 1, 2**63, 2**64 - 1)
Field = list[Any]  # number, wire type, value: a number, bytes, or a message as a list of fields


def parsed(content: bytes, kind: str = "file") -> list[Field]:
    """Return a message that is in good order as a list of fields."""
    fields, at = [], 0
    while at < len(content):
        key, at = _number(content, at)
        place, wire = key >> 3, key & 7
        value: Any
        if wire == 0:
            value, at = _number(content, at)
        else:
            size, at = _number(content, at) if wire == 2 else ({1: 8, 5: 4}[wire], at)
            value, at = content[at : at + size], at + size
        inner = MESSAGES.get(kind, {}).get(place)
        fields.append([place, wire, parsed(value, inner) if inner and wire == 2 else value])
    return fields


def _number(content: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value, shift, at = value | (content[at] & 0x7F) << shift, shift + 7, at + 1
        if content[at - 1] < 0x80:
            return value, at


def written(fields: list[Field]) -> bytes:
    """Return the inverse of `parsed`, whatever the fields have become."""
    parts = []
    for place, wire, value in fields:
        content = written(value) if isinstance(value, list) else value
        if isinstance(content, int):
            content = varint(content) if wire == 0 else content.to_bytes(16, "little")[: {1: 8, 5: 4}.get(wire, 1)]
            parts.append(varint(place << 3 | wire) + content)
        else:
            parts.append(varint(place << 3 | wire) + (varint(len(content)) if wire == 2 else b"") + content)
    return b"".join(parts)


def fields_damaged(content: bytes, rng: random.Random) -> bytes:
    """Return an ONNX file with one to three fields changed, dropped, doubled, moved or inserted, in any of its messages."""
    root = parsed(content)
    for _ in range(rng.choice((1, 1, 2, 3))):
        message = root
        while rng.random() < 0.85:  # go down, into any of the messages in this one
            inner = [value for _, _, value in message if isinstance(value, list) and value]
            if not inner:
                break
            message = rng.choice(inner)
        _damage(message, rng)
    return written(root)


def _damage(message: list[Field], rng: random.Random) -> None:
    at, kind = rng.randrange(len(message) or 1), rng.randrange(6)
    if kind == 0 or not message:
        message.insert(at, [rng.randrange(1, 30), rng.choice((0, 1, 2, 5)), rng.choice((rng.randbytes(4), *EXTREME))])
        if message[at][1] in (0,) and isinstance(message[at][2], bytes):
            message[at][2] = rng.choice(EXTREME)
    elif kind == 1:
        del message[at]
    elif kind == 2:
        message.insert(rng.randrange(len(message)), message[at])
    elif kind == 3:
        message[at] = [rng.randrange(1, 30), *message[at][1:]]
    else:
        message[at] = [*message[at][:2], _other(message[at][2], rng)]


def _other(value: Any, rng: random.Random) -> Any:
    if isinstance(value, int):
        return rng.choice((*EXTREME, value + 1, value ^ 1 << rng.randrange(64)))
    if isinstance(value, list):
        return rng.choice((value * 2, value[: len(value) // 2], value * 400, []))
    if len(value) % 4 == 0 and value and rng.random() < 0.5:  # perhaps numbers
        numbers = bytearray(value)
        at = rng.randrange(0, len(value), 4)
        numbers[at : at + 4] = struct.pack("<f", rng.choice((float("nan"), float("inf"), 3e38, -1.0)))
        return bytes(numbers)
    return rng.choice((b"", value + b"x", value * 50, bytes_damaged(value, rng)))


# --- What an attacker would put into a graph

OPERATORS = (
    "Add",
    "Mul",
    "MatMul",
    "Concat",
    "Relu",
    "Tanh",
    "Identity",
    "Expand",
    "Tile",
    "NonZero",
    "Loop",
    "Einsum",
)


def _operator(model: Any, rng: random.Random) -> None:
    rng.choice(model.graph.node).op_type = rng.choice(OPERATORS)


def _rewired(model: Any, rng: random.Random) -> None:
    names = [name for node in model.graph.node for name in (*node.input, *node.output)]
    node = rng.choice([node for node in model.graph.node if node.input])
    node.input[rng.randrange(len(node.input))] = rng.choice([*names, "", "nothing"])


def _shape(model: Any, rng: random.Random) -> None:
    axes = rng.choice([*model.graph.input, *model.graph.output]).type.tensor_type.shape.dim
    if len(axes):
        rng.choice(axes).dim_value = rng.choice((0, 1, 3, 2**31, -1))


def _type(model: Any, rng: random.Random) -> None:
    rng.choice([*model.graph.input, *model.graph.output]).type.tensor_type.elem_type = rng.randrange(17)


def _attribute(model: Any, rng: random.Random) -> None:
    node = rng.choice(model.graph.node)
    if node.attribute and rng.random() < 0.7:
        rng.choice(node.attribute).i = rng.choice((-1, 0, 1, 2, 7, 99, 2**62, -(2**62)))
    else:
        node.attribute.append(
            helper.make_attribute(rng.choice(("axis", "to", "keepdims", "x")), rng.choice((-9, 0, 1, 2**40)))
        )


def _weights(model: Any, rng: random.Random) -> None:
    """Weights that are NaN or huge, or of another shape or type, or there twice."""
    tensor = rng.choice(model.graph.initializer)
    array = numpy_helper.to_array(tensor).copy()
    kind = rng.randrange(6)
    if kind < 3 and array.size:
        array.flat[rng.randrange(array.size)] = rng.choice((np.nan, np.inf, 3e38)) if array.dtype.kind == "f" else 2**40
    elif kind == 3:
        array = array.T if array.ndim > 1 else array[:-1] if array.ndim else array[None]
    elif kind == 4:
        array = array.astype(rng.choice((np.float16, np.float64, np.int64, np.int32)))
    else:
        model.graph.initializer.append(tensor)
    tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))


def _external(model: Any, rng: random.Random) -> None:
    tensor = rng.choice(model.graph.initializer)
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    place = rng.choice(("/etc/passwd", "../../../../../etc/passwd", "/dev/zero", "index.json"))
    for key, value in (("location", place), ("offset", rng.choice(("0", "-1", str(2**62)))), ("length", str(2**40))):
        tensor.external_data.add(key=key, value=value)


def _output_of(model: Any, rng: random.Random) -> tuple[str, str]:
    """Rename an output in the node that computes it, so that something can be put between; return the old and the new name."""
    name = rng.choice([output.name for output in model.graph.output])
    for node in model.graph.node:
        for k, own in enumerate(node.output):
            if own == name:
                node.output[k] = f"{name}_before"
    return f"{name}_before", name


def _constant(model: Any, name: str, value: Any) -> str:
    model.graph.initializer.append(numpy_helper.from_array(np.array(value), name))
    return name


def _huge(model: Any, rng: random.Random) -> None:
    """Something that takes gigabytes, and is then reduced to nothing much."""
    before, after = _output_of(model, rng)
    size = _constant(model, "huge", rng.choice(([2**31], [2**40], [50_000, 50_000], [2**62, 4], [-1])))
    op, inputs = rng.choice((("ConstantOfShape", [size]), ("Expand", [_constant(model, "unit", np.float32(1)), size])))
    nodes = [
        helper.make_node(op, inputs, ["much"]),
        helper.make_node("ReduceSum", ["much"], ["sum"], keepdims=0),
        helper.make_node("Add", [before, "sum"], [after]),
    ]
    model.graph.node.extend(nodes)


def _doubling(model: Any, rng: random.Random) -> None:
    """Every step doubles what the one before has made."""
    before, after = _output_of(model, rng)
    names = [before, *(f"twice{k}" for k in range(rng.choice((8, 30, 60))))]
    for one, two in pairwise(names):
        model.graph.node.append(helper.make_node("Concat", [one, one], [two], axis=0))
    model.graph.node.append(helper.make_node("Identity", [names[-1]], [after]))


def _loop(model: Any, rng: random.Random) -> None:
    """A loop that does not end."""
    before, after = _output_of(model, rng)
    value = helper.make_tensor_value_info
    names = [value("k", TensorProto.INT64, []), value("go", TensorProto.BOOL, []), value("x", TensorProto.FLOAT, None)]
    outputs = [value("on", TensorProto.BOOL, []), value("y", TensorProto.FLOAT, None)]
    body = [helper.make_node("Identity", ["go"], ["on"]), helper.make_node("Identity", ["x"], ["y"])]
    graph = helper.make_graph(body, "body", names, outputs)
    count, go = _constant(model, "count", np.int64(2**62)), _constant(model, "always", True)
    model.graph.node.append(helper.make_node("Loop", [count, go, before], [after], body=graph))


def _scan(model: Any, rng: random.Random) -> None:
    before, after = _output_of(model, rng)
    value = helper.make_tensor_value_info
    body = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["y"])],
        "body",
        [value("x", TensorProto.FLOAT, None)],
        [value("y", TensorProto.FLOAT, None)],
    )
    model.graph.node.append(helper.make_node("Scan", [before], [after], body=body, num_scan_inputs=1))


def _branch(model: Any, rng: random.Random) -> None:
    """Branches within branches, to any depth."""
    before, after = _output_of(model, rng)
    value, go = helper.make_tensor_value_info, _constant(model, "always", True)
    graph = helper.make_graph(
        [helper.make_node("Identity", [before], ["r0"])], "g0", [], [value("r0", TensorProto.FLOAT, None)]
    )
    for k in range(1, rng.choice((1, 3, 25))):
        node = helper.make_node("If", [go], [f"r{k}"], then_branch=graph, else_branch=graph)
        if len(node.SerializeToString()) > 1_000_000:
            break
        graph = helper.make_graph([node], f"g{k}", [], [value(f"r{k}", TensorProto.FLOAT, None)])
    model.graph.node.append(helper.make_node("If", [go], [after], then_branch=graph, else_branch=graph))


def _function(model: Any, rng: random.Random) -> None:
    """A function that calls itself, or that goes by the name of an operator."""
    domain, name = rng.choice((("mine", "F"), ("", "Relu"), ("mine", "Add")))
    inner = helper.make_node(rng.choice((name, "Identity")), ["x"], ["y"], domain=domain)
    made = helper.make_function(domain, name, ["x"], ["y"], [inner], [helper.make_opsetid(domain, 1)])
    model.functions.append(made)
    model.opset_import.append(helper.make_opsetid(domain, 1))
    before, after = _output_of(model, rng)
    model.graph.node.append(helper.make_node(name, [before], [after], domain=domain))


def _training(model: Any, rng: random.Random) -> None:
    information = model.training_info.add()
    information.algorithm.CopyFrom(model.graph)
    information.initialization.node.extend(model.graph.node)


def _domain(model: Any, rng: random.Random) -> None:
    rng.choice(model.graph.node).domain = rng.choice(("com.microsoft", "ai.onnx.ml", "x"))


def _version(model: Any, rng: random.Random) -> None:
    model.opset_import[0].version = rng.choice((0, 1, 7, 13, 21, 99, 2**40, -1))
    model.ir_version = rng.choice((9, 0, 3, 99, 2**40))


def _many(model: Any, rng: random.Random) -> None:
    """A chain of very many operations."""
    before, after = _output_of(model, rng)
    names = [before, *(f"same{k}" for k in range(rng.choice((500, 20_000)))), after]
    model.graph.node.extend(helper.make_node("Tanh", [one], [two]) for one, two in pairwise(names))


def _cycle(model: Any, rng: random.Random) -> None:
    first, last = model.graph.node[0], model.graph.node[-1]
    first.input[0] = last.output[0]


ATTACKS: tuple[Callable[[Any, random.Random], None], ...] = (
    _operator, _rewired, _shape, _type, _attribute, _weights, _weights, _external, _huge, _huge, _doubling, _loop, _scan, _branch,
    _function, _training, _domain, _version, _many, _cycle,
)  # fmt: skip


def attacked(content: bytes, rng: random.Random) -> bytes:
    """Return an ONNX file with something hostile in its graph."""
    model = onnx.load_from_string(content)
    rng.choice(ATTACKS)(model, rng)
    return model.SerializeToString()
