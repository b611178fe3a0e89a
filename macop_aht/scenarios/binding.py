"""Kernels bound to their arrays.

Numba looks up the types of all arguments at every call. For small batches this costs more than the kernel itself. A bound kernel
looks them up once.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from numba import typeof


class Bound(partial):
    """A compiled kernel with its arguments. A deep copy is bound to the copies of the arrays."""

    kernel: Any

    def __reduce__(self) -> tuple[Any, ...]:
        return bind, (self.kernel, *self.args)


def bind(kernel: Any, *arguments: Any) -> Bound:
    """Return the kernel as a call without arguments. It changes the arrays in place; do not replace them afterwards."""
    bound = Bound(kernel.compile(tuple(typeof(argument) for argument in arguments)), *arguments)
    bound.kernel = kernel
    return bound
