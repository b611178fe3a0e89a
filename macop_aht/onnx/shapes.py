"""The shapes that operators of ONNX give, and the entries of small tensors that shapes are computed with."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from macop_aht.onnx.format import FormatError, Node, Raw

FOLDED = 1_024  # entries of the largest tensor whose values are followed, since shapes may depend on them
Size = tuple[int, ...]

SAME = frozenset(
    [
        "Abs", "Cast", "Ceil", "Clip", "Cos", "Dropout", "Elu", "Erf", "Exp", "Floor", "Gelu", "HardSigmoid",
        "HardSwish", "Identity", "LayerNormalization", "LeakyRelu", "Log", "LogSoftmax", "Neg", "Not",
        "Reciprocal", "Relu", "Round", "Selu", "Sigmoid", "Sign", "Sin", "Softmax", "Softplus", "Softsign",
        "Sqrt", "Tanh",
    ]
)  # fmt: skip
BROADCAST = frozenset(
    [
        "Add", "And", "Div", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Max", "Mean", "Min",
        "Mod", "Mul", "Or", "Pow", "PRelu", "Sub", "Sum", "Where", "Xor",
    ]
)  # fmt: skip
REDUCING = frozenset(
    [
        "ArgMax", "ArgMin", "ReduceL1", "ReduceL2", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin",
        "ReduceProd", "ReduceSum", "ReduceSumSquare",
    ]
)  # fmt: skip
RECURRENT = {"RNN": 1, "GRU": 3, "LSTM": 4}  # the number of gates


@dataclass(frozen=True)
class Value:
    """What is known of a tensor: its shape, and its entries where they depend on nothing but the number of rows."""

    shape: Size
    array: np.ndarray | None = None

    @property
    def cells(self) -> int:
        return math.prod(self.shape)


@dataclass(frozen=True)
class Call:
    """A node with its inputs; None stands for an optional input that is left out."""

    node: Node
    values: Sequence[Value | None]

    def value(self, k: int) -> Value:
        """Return an input. Raises `FormatError` where it is missing."""
        found = self.values[k] if k < len(self.values) else None
        if found is None:
            raise FormatError(f"{self.node.op} has no input {k}")
        return found

    def number(self, name: str, otherwise: int) -> int:
        """Return an integer attribute."""
        found = self.node.attributes.get(name, otherwise)
        if not isinstance(found, int):
            raise FormatError(f"attribute {name!r} of {self.node.op} is {found!r}; it must be an integer")
        return found

    def numbers(self, name: str, k: int) -> list[int] | None:
        """Return integers that are an attribute or, in newer operator sets, input `k`; None where they are left out."""
        found = self.node.attributes.get(name)
        if found is None and (k >= len(self.values) or self.values[k] is None):
            return None
        if found is None:
            array = self.value(k).array
            if array is None or array.dtype.kind not in "iu":
                raise FormatError(f"a shape depends on data: input {k} of {self.node.op} is not constant")
            return [int(number) for number in array.ravel()]
        numbers = [number for number in found if isinstance(number, int)] if isinstance(found, list) else []
        if not isinstance(found, list) or len(numbers) < len(found):
            raise FormatError(f"attribute {name!r} of {self.node.op} is {found!r}; it must be a list of integers")
        return numbers

    def required(self, name: str, k: int) -> list[int]:
        """Return such integers. Raises `FormatError` where they are left out."""
        found = self.numbers(name, k)
        if found is None:
            raise FormatError(f"{self.node.op} has no {name}")
        return found

    def axis(self, axis: int, rank: int) -> int:
        """Return an axis as a number from 0."""
        if not -rank <= axis < rank:
            raise FormatError(f"axis {axis} of {self.node.op} is outside of {rank} axes")
        return axis % rank


def outputs(call: Call) -> list[Value]:
    """Return what a node gives; entries too, where they are known and few."""
    op = call.node.op
    if op not in KNOWN:
        raise FormatError(f"the operator {op!r} is not known")
    shapes = KNOWN[op](call)
    for shape in shapes:
        if any(size < 0 for size in shape) or len(shape) > 8:
            raise FormatError(f"{op} gives the shape {shape}")
    if op in FOLDS and math.prod(shapes[0]) <= FOLDED:
        return [Value(shapes[0], FOLDS[op](call, shapes[0])), *map(Value, shapes[1:])]
    return [Value(shape) for shape in shapes]


def work(call: Call) -> int:
    """Return the number of multiplications of a product of matrices; 0 for other operations."""
    op = call.node.op
    if op in ("MatMul", "Gemm"):
        inner = call.value(0).shape[0 if op == "Gemm" and call.number("transA", 0) else -1]
        return math.prod(KNOWN[op](call)[0]) * inner
    if op in RECURRENT:
        steps, batch, _ = call.value(0).shape
        return steps * batch * (call.value(1).cells + call.value(2).cells)
    return 0


# --- Shapes, by operator


def _same(call: Call) -> list[Size]:
    shape = call.value(0).shape
    return [shape] * (2 if call.node.op == "Dropout" else 1)


def _broadcast(call: Call) -> list[Size]:
    return [_together(call, [call.value(k).shape for k in range(len(call.values))])]


def _together(call: Call, shapes: Sequence[Size]) -> Size:
    """Return the shape to which these are broadcast."""
    rank, found = max((len(shape) for shape in shapes), default=0), []
    for sizes in zip(*((1,) * (rank - len(shape)) + shape for shape in shapes), strict=True):
        wide = {size for size in sizes if size != 1}
        if len(wide) > 1:
            raise FormatError(f"{call.node.op} cannot combine the shapes {', '.join(map(str, shapes))}")
        found.append(wide.pop() if wide else 1)
    return tuple(found)


def _matmul(call: Call) -> list[Size]:
    first, second = call.value(0).shape, call.value(1).shape
    if min(len(first), len(second)) < 1:
        raise FormatError("MatMul needs matrices")
    left, right = (1, *first) if len(first) == 1 else first, (*second, 1) if len(second) == 1 else second
    if left[-1] != right[-2]:
        raise FormatError(f"MatMul cannot multiply the shapes {first} and {second}")
    found = (*_together(call, [left[:-2], right[:-2]]), left[-2], right[-1])
    kept = found[:-2] + (found[-2:-1] if len(first) > 1 else ()) + (found[-1:] if len(second) > 1 else ())
    return [kept]


def _gemm(call: Call) -> list[Size]:
    first, second = call.value(0).shape, call.value(1).shape
    if len(first) != 2 or len(second) != 2:
        raise FormatError(f"Gemm needs two matrices; these are {first} and {second}")
    rows, inner = first[::-1] if call.number("transA", 0) else first
    other, columns = second[::-1] if call.number("transB", 0) else second
    if inner != other:
        raise FormatError(f"Gemm cannot multiply the shapes {first} and {second}")
    return [(rows, columns)]


def _concat(call: Call) -> list[Size]:
    shapes = [call.value(k).shape for k in range(len(call.values))]
    axis = call.axis(call.number("axis", 0), len(call.value(0).shape))
    if len({shape[:axis] + shape[axis + 1 :] for shape in shapes}) > 1 or len({*map(len, shapes)}) > 1:
        raise FormatError(f"Concat cannot join the shapes {', '.join(map(str, shapes))}")
    return [(*shapes[0][:axis], sum(shape[axis] for shape in shapes), *shapes[0][axis + 1 :])]


def _split(call: Call) -> list[Size]:
    shape, parts = call.value(0).shape, len(call.node.outputs)
    axis, sizes = call.axis(call.number("axis", 0), len(call.value(0).shape)), call.numbers("split", 1)
    if sizes is None:
        each = -(-shape[axis] // parts)
        sizes = [min(each, max(shape[axis] - k * each, 0)) for k in range(parts)]
    if sum(sizes) != shape[axis] or len(sizes) != parts or min(sizes, default=0) < 0:
        raise FormatError(f"Split cannot make {parts} parts of the sizes {sizes} from the shape {shape}")
    return [(*shape[:axis], size, *shape[axis + 1 :]) for size in sizes]


def _gather(call: Call) -> list[Size]:
    shape, index = call.value(0).shape, call.value(1).shape
    axis = call.axis(call.number("axis", 0), len(shape))
    return [(*shape[:axis], *index, *shape[axis + 1 :])]


def _reshape(call: Call) -> list[Size]:
    shape, wanted = call.value(0).shape, call.required("shape", 1)
    if not call.number("allowzero", 0):
        if any(size == 0 and k >= len(shape) for k, size in enumerate(wanted)):
            raise FormatError(f"Reshape cannot make {wanted} of the shape {shape}")
        wanted = [size or shape[k] for k, size in enumerate(wanted)]
    known = math.prod(size for size in wanted if size != -1)
    if wanted.count(-1) == 1 and known > 0:
        wanted = [call.value(0).cells // known if size == -1 else size for size in wanted]
    if min(wanted, default=1) < 0 or math.prod(wanted) != call.value(0).cells:
        raise FormatError(f"Reshape cannot make {wanted} of the shape {shape}")
    return [tuple(wanted)]


def _transpose(call: Call) -> list[Size]:
    shape = call.value(0).shape
    order = call.numbers("perm", len(call.values))
    order = list(range(len(shape)))[::-1] if order is None else order
    if sorted(order) != list(range(len(shape))):
        raise FormatError(f"Transpose cannot order the axes of {shape} by {order}")
    return [tuple(shape[k] for k in order)]


def _unsqueeze(call: Call) -> list[Size]:
    shape, axes = call.value(0).shape, call.required("axes", 1)
    rank = len(shape) + len(axes)
    new = {call.axis(axis, rank) for axis in axes}
    if len(new) < len(axes):
        raise FormatError(f"Unsqueeze has an axis twice: {axes}")
    left = iter(shape)
    return [tuple(1 if k in new else next(left) for k in range(rank))]


def _squeeze(call: Call) -> list[Size]:
    shape, axes = call.value(0).shape, call.numbers("axes", 1)
    gone = {k for k, size in enumerate(shape) if size == 1}
    gone = gone if axes is None else {call.axis(axis, len(shape)) for axis in axes}
    if any(shape[k] != 1 for k in gone):
        raise FormatError(f"Squeeze cannot remove the axes {axes} of {shape}")
    return [tuple(size for k, size in enumerate(shape) if k not in gone)]


def _flatten(call: Call) -> list[Size]:
    shape, axis = call.value(0).shape, call.number("axis", 1)
    axis = axis if axis == len(shape) else call.axis(axis, len(shape))
    return [(math.prod(shape[:axis]), math.prod(shape[axis:]))]


def _slices(call: Call) -> tuple[slice, ...]:
    """Return what `Slice` takes of each axis."""
    shape = call.value(0).shape
    starts, ends = call.required("starts", 1), call.required("ends", 2)
    axes, steps = call.numbers("axes", 3) or list(range(len(starts))), call.numbers("steps", 4) or [1] * len(starts)
    if not len(starts) == len(ends) == len(axes) == len(steps) or 0 in steps:
        raise FormatError(f"Slice cannot take {starts} to {ends} by {steps} along {axes}")
    found = [slice(None)] * len(shape)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        place = call.axis(axis, len(shape))
        before = step < 0 and end < -shape[place]  # to the very beginning
        found[place] = slice(start, None if before else end, step)
    return tuple(found)


def _slice(call: Call) -> list[Size]:
    shape = call.value(0).shape
    taken = zip(_slices(call), shape, strict=True)
    return [tuple(len(range(*one.indices(size))) for one, size in taken)]


def _expand(call: Call) -> list[Size]:
    return [_together(call, [call.value(0).shape, tuple(call.required("shape", 1))])]


def _tile(call: Call) -> list[Size]:
    shape, times = call.value(0).shape, call.required("repeats", 1)
    if len(times) != len(shape) or min(times, default=0) < 0:
        raise FormatError(f"Tile cannot repeat {shape} by {times}")
    return [tuple(size * count for size, count in zip(shape, times, strict=True))]


def _reduce(call: Call) -> list[Size]:
    shape = call.value(0).shape
    if call.node.op.startswith("Arg"):
        axes: list[int] | None = [call.number("axis", 0)]
    else:
        axes = call.numbers("axes", 1)
    if not axes and call.number("noop_with_empty_axes", 0):
        return [shape]
    gone = {call.axis(axis, len(shape)) for axis in axes} if axes else {*range(len(shape))}
    if call.number("keepdims", 1):
        return [tuple(1 if k in gone else size for k, size in enumerate(shape))]
    return [tuple(size for k, size in enumerate(shape) if k not in gone)]


def _one_hot(call: Call) -> list[Size]:
    shape, depth = call.value(0).shape, call.required("depth", 1)
    axis = call.axis(call.number("axis", -1), len(shape) + 1)
    return [(*shape[:axis], *depth[:1], *shape[axis:])]


def _recurrent(call: Call) -> list[Size]:
    first, weight, recurrent = (call.value(k).shape for k in range(3))
    gates = RECURRENT[call.node.op]
    if len(first) != 3 or len(weight) != 3 or len(recurrent) != 3 or call.number("layout", 0):
        raise FormatError(f"{call.node.op} has the shapes {first}, {weight}, {recurrent}, or a layout other than 0")
    (steps, batch, _), (directions, _, hidden) = first, recurrent
    if weight != (directions, gates * hidden, first[2]) or recurrent != (directions, gates * hidden, hidden):
        raise FormatError(f"{call.node.op} cannot combine the shapes {first}, {weight} and {recurrent}")
    last = (directions, batch, hidden)
    return [(steps, directions, batch, hidden), last, last][: 3 if call.node.op == "LSTM" else 2]


def _range(call: Call) -> list[Size]:
    start, stop, step = (call.required(f"input {k}", k)[0] for k in range(3))
    if step == 0:
        raise FormatError("Range has a step of 0")
    return [(len(range(start, stop, step)),)]


def _constant_of_shape(call: Call) -> list[Size]:
    return [tuple(call.required("shape", 0))]


KNOWN: dict[str, Callable[[Call], list[Size]]] = {
    **dict.fromkeys(sorted(SAME), _same),
    **dict.fromkeys(sorted(BROADCAST), _broadcast),
    **dict.fromkeys(sorted(REDUCING), _reduce),
    **dict.fromkeys(RECURRENT, _recurrent),
    "Concat": _concat,
    "ConstantOfShape": _constant_of_shape,
    "Expand": _expand,
    "Flatten": _flatten,
    "Gather": _gather,
    "Gemm": _gemm,
    "MatMul": _matmul,
    "OneHot": _one_hot,
    "Range": _range,
    "Reshape": _reshape,
    "Shape": lambda call: [(len(_shape_part(call)),)],
    "Slice": _slice,
    "Split": _split,
    "Squeeze": _squeeze,
    "Tile": _tile,
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
}


def _shape_part(call: Call) -> Size:
    """Return what `Shape` gives."""
    shape = call.value(0).shape
    return shape[slice(call.number("start", 0), call.number("end", len(shape)))]


# --- Entries, of the operators that shapes are computed with


def _folded(function: Callable[..., Any]) -> Callable[[Call, Size], np.ndarray | None]:
    """Return what computes the entries of a node's output from those of its inputs; None where some are unknown."""

    def fold(call: Call, shape: Size) -> np.ndarray | None:
        arrays = [value.array if value else None for value in call.values]
        if any(array is None or array.dtype.kind not in "iub" for array in arrays):
            return None
        with np.errstate(all="ignore"):
            try:
                return np.broadcast_to(function(call, *arrays), shape)
            except (ValueError, IndexError, OverflowError, ZeroDivisionError) as error:
                raise FormatError(f"{call.node.op} cannot compute a shape ({error})") from error

    return fold


def _cast(call: Call, array: np.ndarray) -> Any:
    kinds: dict[int, Any] = {6: np.int32, 7: np.int64, 9: np.bool_}
    to = call.number("to", 0)
    return array.astype(kinds[to]) if to in kinds else array.astype(np.float32)


def _filled(call: Call, shape: np.ndarray) -> Any:
    value = call.node.attributes.get("value")
    return value.array.ravel()[:1] if isinstance(value, Raw) else np.zeros(1, dtype=np.float32)


FOLDS: dict[str, Callable[[Call, Size], np.ndarray | None]] = {
    "Add": _folded(lambda call, one, other: one + other),
    "Cast": _folded(_cast),
    "Concat": _folded(lambda call, *all_: np.concatenate(all_, axis=call.number("axis", 0))),
    "ConstantOfShape": _folded(_filled),
    "Div": _folded(lambda call, one, other: np.trunc(one / other).astype(one.dtype)),
    "Equal": _folded(lambda call, one, other: one == other),
    "Gather": _folded(lambda call, one, index: np.take(one, index, axis=call.number("axis", 0))),
    "Identity": _folded(lambda call, one: one),
    "Max": _folded(lambda call, *all_: np.stack(np.broadcast_arrays(*all_)).max(axis=0)),
    "Min": _folded(lambda call, *all_: np.stack(np.broadcast_arrays(*all_)).min(axis=0)),
    "Mul": _folded(lambda call, one, other: one * other),
    "Range": _folded(lambda call, *ends: np.arange(*(int(end.ravel()[0]) for end in ends), dtype=ends[0].dtype)),
    "Reshape": _folded(lambda call, one, wanted: one.reshape(_reshape(call)[0])),
    "Shape": lambda call, shape: np.array(_shape_part(call), dtype=np.int64),
    "Slice": _folded(lambda call, one, *rest: one[_slices(call)]),
    "Squeeze": _folded(lambda call, one, *rest: one.reshape(_squeeze(call)[0])),
    "Sub": _folded(lambda call, one, other: one - other),
    "Unsqueeze": _folded(lambda call, one, *rest: one.reshape(_unsqueeze(call)[0])),
    "Where": _folded(lambda call, which, one, other: np.where(which, one, other)),
}
