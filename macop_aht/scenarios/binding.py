"""Kernels bound to their arrays: for small batches, looking at the arguments' types costs more than the kernel itself."""

from __future__ import annotations

from functools import partial
from typing import Any

from numba import typeof


class Bound(partial):
    """A compiled kernel and its arguments. A copy is bound to the copies of the arrays."""

    kernel: Any

    def __reduce__(self) -> tuple[Any, ...]:
        return bind, (self.kernel, *self.args)


def bind(kernel: Any, *arguments: Any) -> Bound:
    """The kernel as a call without arguments. The arrays are changed in place, never exchanged."""
    bound = Bound(kernel.compile(tuple(typeof(argument) for argument in arguments)), *arguments)
    bound.kernel = kernel
    return bound
