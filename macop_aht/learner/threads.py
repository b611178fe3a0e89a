"""Threads of our own: helpers that sleep when there is nothing to do.

torch keeps to one thread: its workers spin between two operations, and where another process wants the core that they spin on, a
training stands still. What is shared out is large enough to be worth waking somebody: a whole network's pass, all steps of
a GRU. Results do not depend on how many threads there are.
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
    """So many threads work from now on, this one among them."""
    global _count
    _count = count
    torch.set_num_threads(1)


def thread_count() -> int:
    """How many threads there are to share work out to, this one among them."""
    return _count


@cache
def _helpers(count: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(count, thread_name_prefix="helper", initializer=torch.set_num_threads, initargs=(1,))


def begin(work: Callable[..., Result], *arguments: Any) -> Callable[[], Result]:
    """Leave work to the helpers; gives what ends it. What no helper has begun by then is done where it is wanted."""
    if _count == 1:
        return partial(work, *arguments)
    return partial(_end, _helpers(_count - 1).submit(work, *arguments), work, *arguments)


def _end(promise: Future[Result], work: Callable[..., Result], *arguments: Any) -> Result:
    return work(*arguments) if promise.cancel() else promise.result()
