"""Threads of our own: helpers that sleep when there is nothing to do.

torch keeps to one thread: its workers spin between two operations, and where another process wants the core that they spin on, a
training stands still. What is shared out is large enough to be worth waking somebody: a whole network's pass, all steps of
a GRU. Results do not depend on how many threads there are.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache, partial
from threading import Lock
from typing import Any, TypeVar

import torch

Result = TypeVar("Result")
_count = 1
_busy, _counting = 0, Lock()  # helpers at work


def use_threads(count: int) -> None:
    """So many threads work from now on, this one among them."""
    global _count
    _count = count
    torch.set_num_threads(1)


def free_threads() -> int:
    """How many threads have nothing to do, this one among them."""
    return max(_count - _busy, 1)


@cache
def _helpers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(thread_name_prefix="helper", initializer=torch.set_num_threads, initargs=(1,))


def begin(work: Callable[..., Result], *arguments: Any) -> Callable[[], Result]:
    """Begin work in a helper, if one is free; gives what waits for its end, and must be called."""
    global _busy
    with _counting:
        if free_threads() == 1:
            return partial(work, *arguments)
        _busy += 1
    return partial(_end, _helpers().submit(work, *arguments))


def _end(promise: Future[Result]) -> Result:
    global _busy
    try:
        return promise.result()
    finally:
        with _counting:
            _busy -= 1
