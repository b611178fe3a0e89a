"""A pool of helper threads, which sleep when they have no work.

torch itself uses one thread. Its own workers spin between two operations. If another process needs their core, the training then
almost stops. The helpers get large pieces of work: the whole pass of a network, or all steps of a GRU. Results do not depend on
the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache, partial
from typing import Any, TypeVar

import torch

Result = TypeVar("Result")
_count = 1


def use_threads(count: int) -> None:
    """Set the number of threads, including the calling one."""
    global _count
    _count = count
    torch.set_num_threads(1)


def thread_count() -> int:
    """Return the number of threads, including the calling one."""
    return _count


@cache
def _helpers(count: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(count, thread_name_prefix="helper", initializer=torch.set_num_threads, initargs=(1,))


def begin(work: Callable[..., Result], *arguments: Any) -> Callable[[], Result]:
    """Give work to a helper thread, and return a function that returns its result.

    If no helper has begun the work when the result is wanted, the caller does it.
    """
    if _count == 1:
        return partial(work, *arguments)
    return partial(_end, _helpers(_count - 1).submit(work, *arguments), work, *arguments)


def _end(promise: Future[Result], work: Callable[..., Result], *arguments: Any) -> Result:
    return work(*arguments) if promise.cancel() else promise.result()
