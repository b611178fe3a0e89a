"""Metrics of a training, as JSON lines and for TensorBoard."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

LOG_EVERY = 4_000  # steps of all teams together between two lines of metrics


class Metrics:
    """One JSON object per line, and the same for TensorBoard where it is installed."""

    def __init__(self, path: Path, board: Path, kept: int) -> None:
        """`kept` bytes of an earlier part of the run stand; what came after the last checkpoint is written again."""
        self._path = path
        self._path.touch()
        self._before = path.read_bytes()
        os.truncate(self._path, min(kept, self._path.stat().st_size))
        self._file = open(self._path, "a", encoding="utf-8")  # noqa: SIM115 - closed by close()
        try:
            from torch.utils.tensorboard import SummaryWriter

            self._board: Any = SummaryWriter(str(board))
        except ImportError:
            self._board = None

    def keep(self, end: int) -> None:
        """Have the lines of an earlier part of the run stand too, up to the byte `end`."""
        self._file.write(self._before[self.size : end].decode(errors="replace"))
        self._file.flush()

    def write(self, step: int, values: dict[str, float], phase: str = "") -> None:
        """Write a line; `step` is of that phase, where a run has several."""
        self._file.write(json.dumps(({"phase": phase} if phase else {}) | {"step": step, **values}) + "\n")
        self._file.flush()
        if self._board:
            for name, value in values.items():
                self._board.add_scalar(f"{phase}/{name}".lstrip("/"), value, step)

    @property
    def size(self) -> int:
        """Bytes written so far."""
        return self._path.stat().st_size

    def close(self) -> None:
        self._file.close()
        if self._board:
            self._board.close()
