"""Teammates from an `.onnx` file.

Inputs: `obs` (N, dim) float32, `last_action` (N,) int64, -1 at first, `agent` (N,) int64, `memory` (N, H) float32, zeros at
first. Outputs: `q` (N, A), `next_memory` (N, H). N is a free axis. The action is the best available by `q`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from macop_aht.policies.protocol import Array, Decision
from macop_aht.scenarios.spec import World

INPUTS = {"obs": "tensor(float)", "last_action": "tensor(int64)", "agent": "tensor(int64)", "memory": "tensor(float)"}
OUTPUTS = ("q", "next_memory")
CONTRACT = (
    "a teammate takes obs (N,dim) float32, last_action (N,) int64, agent (N,) int64 and memory (N,H) float32, "
    "and gives q (N,A) and next_memory (N,H), with N a free axis"
)


def _open(path: Path, content: bytes | None) -> Any:
    import onnxruntime  # only those who load a file pay for it

    if content is None and not path.is_file():
        raise FileNotFoundError(f"no teammate at {path}; give the path of an .onnx file")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    try:
        return onnxruntime.InferenceSession(content or path, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's own exceptions have no common base
        raise ValueError(f"{path} is not a readable .onnx file ({error}); {CONTRACT}") from error


class OnnxPolicy:
    """A network in a file as a policy."""

    draws = 0

    def __init__(self, path: str | Path, world: World, content: bytes | None = None, name: str = "") -> None:
        """`content` is what the file is known to hold, where somebody has read and checked it already."""
        self.path, self._content = Path(path).absolute(), content
        self.name = name or self.path.name
        self._session = _open(self.path, content)
        self._check(Path(path), world)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_session"}

    def __setstate__(self, kept: dict[str, Any]) -> None:
        vars(self).update(kept)
        self._session = _open(self.path, self._content)  # a session cannot be copied; it is made again

    def _check(self, path: Path, world: World) -> None:
        inputs = {tensor.name: tensor for tensor in self._session.get_inputs()}
        outputs = {tensor.name: tensor for tensor in self._session.get_outputs()}
        if {name: tensor.type for name, tensor in inputs.items()} != INPUTS or not set(OUTPUTS) <= set(outputs):
            found = [f"{tensor.name} {tensor.type}" for tensor in (*inputs.values(), *outputs.values())]
            raise ValueError(f"{path} has the tensors {found}; {CONTRACT}")
        ranks = {"obs": 2, "last_action": 1, "agent": 1, "memory": 2}
        if any(len(inputs[name].shape) != rank for name, rank in ranks.items()):
            raise ValueError(
                f"{path} has inputs of the shapes { {name: inputs[name].shape for name in ranks} }; {CONTRACT}"
            )
        hidden = inputs["memory"].shape[-1]
        if not isinstance(hidden, int):
            raise ValueError(f"{path}: the width of memory is {hidden!r}; export it with a fixed number. {CONTRACT}")
        sizes = {"obs": len(world.observations), "memory": hidden, "q": len(world.actions), "next_memory": hidden}
        for name, size in sizes.items():
            shape = (inputs | outputs)[name].shape
            if len(shape) != 2 or shape[1] != size:
                raise ValueError(
                    f"{path}: {name} has the shape {shape}, this scenario needs (N,{size}); {CONTRACT}. "
                    "Was it made for another scenario?"
                )
        if any(isinstance(tensor.shape[0], int) for tensor in inputs.values()):
            raise ValueError(f"{path} has a fixed number of rows; export it with a dynamic first axis. {CONTRACT}")
        self.memory_size = hidden

    def act(self, obs: Array, mask: Array, agent: Array, last_action: Array, memory: Array, draws: Array) -> Decision:
        feed = {"obs": obs, "last_action": last_action, "agent": agent, "memory": np.ascontiguousarray(memory)}
        q, next_memory = self._session.run(OUTPUTS, feed)
        if np.isnan(q).any():
            raise ValueError(f"teammate {self.name!r} gave NaN among its q values; the network in the file is damaged")
        return np.where(mask == 1, q, -np.inf).argmax(axis=1), next_memory
