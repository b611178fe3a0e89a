"""The files of an ego bundle: where they are, and whether they are what the manifest says.

Before onnxruntime gets a graph, its sha-256 and its sizes are compared with the manifest, and what it may compute is checked: see
`onnx.check`.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np

from macop_aht import paths
from macop_aht.deploy.documents import LARGEST, BundleError, require
from macop_aht.deploy.manifest import AGENT, ZERO_SHOT, Manifest, parse, text_of
from macop_aht.onnx import FormatError, Graph, Shape, check, read
from macop_aht.util import write_whole

MANIFEST = "manifest.json"
GRAPH_LIMIT = 64 * 2**20  # bytes of a graph
GENERALIST = "common.head1.weight"  # a weight that agent.onnx has where there is a generalist head
Signature = dict[str, tuple[type[np.generic], Shape]]
NETWORK = frozenset(  # the operators of agent.onnx
    ["Add", "Concat", "Gather", "MatMul", "Mul", "Relu", "Reshape", "Sigmoid", "Split", "Sub", "Tanh", "Transpose"]
)
BY_STEP = frozenset(  # of a selector that is asked at every step
    [
        "Add", "ArgMax", "Cast", "Concat", "Gather", "Less", "Log", "LogSoftmax", "MatMul", "Mul", "ReduceMax",
        "ReduceMean", "Relu", "Reshape", "Sigmoid", "Softmax", "Split", "Sub", "Tanh", "Unsqueeze", "Where",
    ]
)  # fmt: skip
BY_EPISODE = frozenset(  # of one that is asked after every episode
    [
        "Add", "ArgMax", "ArgMin", "Cast", "Ceil", "Div", "Equal", "Floor", "Greater", "Less", "Log", "Max",
        "Min", "Mod", "Mul", "Not", "Pow", "ReduceMax", "ReduceSum", "Softmax", "Sqrt", "Sub", "Unsqueeze",
        "Where",
    ]
)  # fmt: skip


def bundle_folder(name: str | Path) -> Path:
    """Return the path itself where it exists, else the shipped bundle of that name, such as `macop/LBF4`."""
    path = Path(name)
    if path.exists() or path.is_absolute():
        return path
    try:
        packaged = paths.find("agents") / path
    except FileNotFoundError:
        return path
    return packaged if packaged.exists() else path


def bundle_manifest(name: str | Path) -> Manifest | None:
    """Return the manifest of a bundle, by folder or shipped name; None where there is none."""
    folder = bundle_folder(name)
    return read_manifest(folder) if (folder / MANIFEST).is_file() else None


def read_manifest(folder: Path) -> Manifest:
    """Return the manifest of the bundle in a folder; raise `FileNotFoundError` or `BundleError`."""
    path = folder / MANIFEST
    if not path.is_file():
        raise FileNotFoundError(
            f"there is no bundle in {folder}: {MANIFEST} is missing; export one with `macop export`"
        )
    try:
        return parse(read_limited(path, LARGEST))
    except BundleError as error:
        raise BundleError(f"{path} cannot be read: {error}") from error


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write the manifest of the bundle in a folder, whole or not at all."""
    write_whole(folder / MANIFEST, text_of(manifest))


def read_limited(path: Path, limit: int) -> bytes:
    """Return a file's content, and no more than one byte more than `limit`."""
    with open(path, "rb") as file:
        return file.read(limit + 1)


def bundle_content(folder: Path, manifest: Manifest, name: str) -> bytes:
    """Return the content of a graph of a bundle; raise where it is missing or not what the manifest says."""
    path = folder / name
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing from the bundle; export it again")
    content = read_limited(path, GRAPH_LIMIT)
    require(len(content) <= GRAPH_LIMIT, f"{path} has more than {GRAPH_LIMIT} bytes; export the bundle again")
    require(
        hashlib.sha256(content).hexdigest() == manifest.sha256[name],
        f"{path} is not the file that the manifest describes: its sha-256 differs; export the bundle again",
    )
    try:
        check_graph(manifest, name, content)
    except BundleError as error:
        raise BundleError(f"in {folder}, {error}") from error
    return content


def check_graph(manifest: Manifest, name: str, content: bytes) -> None:
    """Raise a `BundleError` where a graph holds what is not allowed, or has other tensors or heads than the manifest says."""
    by_step = name == f"selectors/{ZERO_SHOT}.onnx"
    operators = NETWORK if name == AGENT else BY_STEP if by_step else BY_EPISODE
    try:
        graph = read(content)
        _compare(name, graph, _signature(manifest, name, graph))
        check(graph, operators)
    except FormatError as error:
        raise BundleError(f"{name} cannot be read ({error}); export the bundle again") from error
    found = GENERALIST in graph.weights
    require(
        name != AGENT or found == manifest.generalist,
        f"{name} has {'a' if found else 'no'} generalist head; the manifest says {manifest.heads} heads, "
        f"{manifest.run_heads} of the run; export the bundle again",
    )


def _signature(manifest: Manifest, name: str, graph: Graph) -> Signature:
    """Return the inputs and outputs that a graph must have."""
    if name == AGENT:
        return _agent_signature(manifest)
    if name == f"selectors/{ZERO_SHOT}.onnx":
        return _zero_shot_signature(manifest)
    wanted = _selector_signature(manifest)
    if all(tensor.name != "draws" for tensor in graph.inputs):
        del wanted["draws"]  # only a selector that draws random numbers has it
    return wanted


def _compare(name: str, graph: Graph, wanted: Signature) -> None:
    found = {
        tensor.name: (np.dtype(tensor.kind), _fixed(tensor.shape or ())) for tensor in (*graph.inputs, *graph.outputs)
    }
    expected = {tensor: (np.dtype(kind), shape) for tensor, (kind, shape) in wanted.items()}
    for tensor in {**expected, **found}:
        require(
            found.get(tensor) == expected.get(tensor),
            f"{name} has {_described(found, tensor)}, the manifest says {_described(expected, tensor)}; export the bundle again",
        )


def _fixed(shape: Shape) -> Shape:
    """Return a shape with -1 for its free axes, whatever they are called."""
    return tuple(-1 if isinstance(size, str) else size for size in shape)


def _described(tensors: dict[str, tuple[np.dtype, Shape]], name: str) -> str:
    if name not in tensors:
        return f"no tensor {name!r}"
    kind, shape = tensors[name]
    return f"{name!r} of type {kind} and shape {shape}"


def _agent_signature(manifest: Manifest) -> Signature:
    width, actions, memory = len(manifest.observations), len(manifest.actions), (-1, manifest.hidden)
    return {
        "obs": (np.float32, (-1, width)),
        "last_action": (np.int64, (-1,)),
        "agent": (np.int64, (-1,)),
        "memory": (np.float32, memory),
        "q": (np.float32, (-1, manifest.heads, actions)),
        "next_memory": (np.float32, memory),
    }


def _zero_shot_signature(manifest: Manifest) -> Signature:
    described, own = manifest.zero_shot, manifest.controllable
    if described is None:
        raise BundleError(f"the manifest does not describe {ZERO_SHOT}; export the bundle again")
    belief, groups = (-1, described.belief.size), len(described.groups)
    return {
        "obs": (np.float32, (-1, own, len(manifest.observations))),
        "last_action": (np.int64, (-1, own)),
        "agent": (np.int64, (-1, own)),
        "belief": (np.float32, belief),
        "head": (np.int64, (-1,)),
        "probability": (np.float32, (-1, groups)),
        "next_belief": (np.float32, belief),
    }


def _selector_signature(manifest: Manifest) -> Signature:
    """Return the tensors of a selector that chooses a head for every episode."""
    heads = (manifest.run_heads,)
    of_heads: Signature = dict.fromkeys(
        ("tried", "mean_return", "draws", "next_tried", "next_mean_return"), (np.float32, heads)
    )
    numbers: Signature = dict.fromkeys(("last_head", "budget", "next_head", "best_head"), (np.int64, ()))
    return {**of_heads, **numbers, "last_return": (np.float32, ())}
