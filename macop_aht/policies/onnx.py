"""Teammates from an `.onnx` file.

Inputs: `obs` (N, dim) float32, `last_action` (N,) int64, -1 at first, `agent` (N,) int64, `memory` (N, H) float32, zeros at
first. Outputs: `q` (N, A), `next_memory` (N, H). N is a free axis. The action is the best available by `q`.

A file is checked before it runs: see `onnx.check`.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from macop_aht.onnx import FormatError, Graph, Session, check, check_weights, read
from macop_aht.policies.protocol import Array, Decision
from macop_aht.scenarios.spec import World

INPUTS = {"obs": (np.float32, 2), "last_action": (np.int64, 1), "agent": (np.int64, 1), "memory": (np.float32, 2)}
OUTPUTS = ("q", "next_memory")
LIMIT = 64 * 2**20  # bytes of a file
CONTRACT = (
    "a teammate takes obs (N,dim) float32, last_action (N,) int64, agent (N,) int64 and memory (N,H) float32, "
    "and gives q (N,A) and next_memory (N,H), with N a free axis"
)


class OnnxPolicy:
    """A network in a file as a policy."""

    draws = 0

    def __init__(
        self, path: str | Path, world: World, content: bytes | None = None, name: str = "", trust: bool = False
    ) -> None:
        """Load a file and check it. `trust` waives the list of operators and the limits of memory and time that come with it.

        `content` is what the file is known to hold, where somebody has read and checked it already.

        Raises FileNotFoundError, and ValueError where the file is not what the scenario needs.
        """
        self.path, self._actions = Path(path).absolute(), len(world.actions)
        self.name = name or self.path.name
        checked = content is not None
        content = _content(Path(path)) if content is None else content
        try:
            graph = read(content)
            if not checked:
                _check_safe(graph, trust)
            self.memory_size = _check(graph, str(path), world)
            self._session = Session(content, str(path))
        except FormatError as error:
            raise ValueError(
                f"{path} is not a usable .onnx file: {error}. {CONTRACT[0].upper()}{CONTRACT[1:]}"
            ) from error

    @property
    def content(self) -> bytes:
        """What the file holds."""
        return self._session.content

    def act(self, obs: Array, mask: Array, agent: Array, last_action: Array, memory: Array, draws: Array) -> Decision:
        feed = {"obs": obs, "last_action": last_action, "agent": agent, "memory": np.ascontiguousarray(memory)}
        q, next_memory = self._session.run(OUTPUTS, feed)
        if q.shape != (len(obs), self._actions) or next_memory.shape != memory.shape:
            raise ValueError(
                f"teammate {self.name!r} gave q of shape {q.shape} and next_memory of shape {next_memory.shape}, for memory of "
                f"shape {memory.shape}; {CONTRACT}"
            )
        if np.isnan(q).any():
            raise ValueError(f"teammate {self.name!r} gave NaN among its q values; the network in the file is damaged")
        return np.where(mask == 1, q, -np.inf).argmax(axis=1), next_memory


def _content(path: Path) -> bytes:
    if not path.is_file():
        raise FileNotFoundError(f"no agent or teammate at {path}; give the path of an .onnx file")
    with open(path, "rb") as file:
        content = file.read(LIMIT + 1)
    if len(content) > LIMIT:
        raise ValueError(f"{path} has more than {LIMIT} bytes, which is the limit of a teammate's file")
    return content


def _check_safe(graph: Graph, trust: bool) -> None:
    if trust:
        check_weights(graph)
        return
    try:
        check(graph)
    except FormatError as error:
        error.add_note(
            "If you know who made the file, load it as macop_aht.policies.OnnxPolicy(path, world, trust=True)"
        )
        raise


def _check(graph: Graph, path: str, world: World) -> int:
    """Return the width of the memory; raise `FormatError` where inputs or outputs are not those of a teammate."""
    inputs = {tensor.name: tensor for tensor in graph.inputs}
    tensors = {**inputs, **{tensor.name: tensor for tensor in graph.outputs}}
    found = {name: (tensor.kind, len(tensor.shape or ())) for name, tensor in inputs.items()}
    if found != INPUTS or not {*OUTPUTS} <= {*tensors}:
        told = [f"{tensor.name} {np.dtype(tensor.kind)} {tensor.shape}" for tensor in tensors.values()]
        raise FormatError(f"it has the tensors {', '.join(told)}")
    shapes = {name: tensor.shape or () for name, tensor in tensors.items()}
    hidden = shapes["memory"][1]
    if not isinstance(hidden, int):
        raise FormatError(f"the width of memory is {hidden!r}; export it with a fixed number")
    sizes = {"obs": len(world.observations), "memory": hidden, "q": len(world.actions), "next_memory": hidden}
    for name, size in sizes.items():
        if len(shapes[name]) != 2 or shapes[name][1] != size:
            raise FormatError(
                f"{name} has the shape {shapes[name]}, this scenario needs (N,{size}). Was it made for another scenario?"
            )
    if any(isinstance(shapes[name][0], int) for name in INPUTS):
        raise FormatError("it has a fixed number of rows; export it with a dynamic first axis")
    return hidden
