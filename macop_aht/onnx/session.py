"""Sessions of onnxruntime: one thread, the CPU, no telemetry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from macop_aht.onnx.format import FormatError


class Session:
    """A graph that was checked, ready to run. It can be copied and pickled."""

    def __init__(self, content: bytes, name: str) -> None:
        """`content` is that of the file `name`. Raises `FormatError` where onnxruntime refuses it."""
        import onnxruntime  # only those who run a network pay for it

        onnxruntime.disable_telemetry_events()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 4
        self.content, self.name = content, name
        try:
            self.raw = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # onnxruntime's own exceptions have no common base
            raise FormatError(
                f"{name} cannot be run by this onnxruntime ({_first_line(error)}); is it older?"
            ) from error

    def __reduce__(self) -> tuple[Any, ...]:
        return Session, (self.content, self.name)

    def run(self, outputs: Sequence[str], feed: Mapping[str, np.ndarray]) -> list[Any]:
        """Return these outputs for the inputs in `feed`. Raises `FormatError` where onnxruntime fails."""
        try:
            return self.raw.run(outputs, feed)
        except Exception as error:
            raise self.failed(error) from error

    def failed(self, error: Exception) -> FormatError:
        """Return the error for one that onnxruntime has raised while it ran."""
        return FormatError(f"{self.name} cannot be computed ({_first_line(error)}); the file is damaged")


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0][:300]
