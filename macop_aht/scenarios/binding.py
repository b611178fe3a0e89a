"""Kernels bound to their arrays: for small batches, looking at the arguments' types costs more than the kernel itself."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from numba import typeof


def bind(kernel: Any, *arguments: Any) -> Callable[[], None]:
    """The compiled kernel as a call without arguments. The arrays are changed in place, never exchanged."""
    return partial(kernel.compile(tuple(typeof(argument) for argument in arguments)), *arguments)
