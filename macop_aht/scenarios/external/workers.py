"""Worker processes that step the environments of a batch, in memory that they share with it."""

from __future__ import annotations

import contextlib
import io
import multiprocessing
import os
import pickle
import sys
import tempfile
import traceback
from collections.abc import Sequence
from importlib import import_module
from itertools import count
from multiprocessing.connection import Connection
from pathlib import Path
from types import FunctionType
from typing import Any, NoReturn

import numpy as np

from macop_aht import paths
from macop_aht.scenarios.external.crew import Arrays, Crew, allocate, bytes_needed
from macop_aht.scenarios.external.errors import ExternalError, require
from macop_aht.scenarios.external.team import Recipe, Team


def use_workers(number: int) -> None:
    """Step external environments in so many processes from now on; 1: in this one. Results do not depend on it."""
    os.environ[paths.WORKERS] = str(number)


def workers_wanted() -> int:
    """Return the number of worker processes that a large batch is stepped in; 0 for none."""
    told = os.environ.get(paths.WORKERS, "") or "1"
    require(told.isdigit() and int(told) >= 1, f"{paths.WORKERS} is {told!r}; give a number of processes, at least 1")
    return int(told) if int(told) > 1 else 0


def sendable(recipe: Recipe) -> bytes:
    """Return a recipe for other processes. Raises `ExternalError` where they could not import its functions."""
    content = io.BytesIO()
    try:
        _Pickler(content).dump(recipe)
        return content.getvalue()
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise ExternalError(
            f"worker processes cannot import make, shaping or outcome ({error}); define them by def at the top level of a "
            "module, not as a lambda or inside a function, or leave out --workers"
        ) from error


class _Pickler(pickle.Pickler):
    """Knows functions that were made inside others by the module in which they are found, as PettingZoo's `parallel_env`."""

    def reducer_override(self, thing: Any) -> Any:
        if isinstance(thing, FunctionType) and "<" in thing.__qualname__:
            for where, module in list(sys.modules.items()):
                for name, value in list(getattr(module, "__dict__", {}).items()):
                    if value is thing:
                        return _imported, (where, name)
        return NotImplemented


def _imported(module: str, name: str) -> Any:
    return getattr(import_module(module), name)


class Workers:
    """Processes that keep the environments of one world, for all of its batches."""

    def __init__(self, recipe: Recipe, number: int) -> None:
        content, context = sendable(recipe), multiprocessing.get_context("spawn")
        self._pipes: list[Connection] = []
        self._processes = []
        for _ in range(number):
            ours, theirs = context.Pipe()
            process = context.Process(target=serve, args=(theirs, content), daemon=True)
            process.start()
            theirs.close()
            self._pipes.append(ours)
            self._processes.append(process)
        self._names, self.closed = count(), False
        self.pids = [process.pid for process in self._processes]

    def __len__(self) -> int:
        return len(self._pipes)

    def __deepcopy__(self, memo: dict[int, Any]) -> Workers:
        return self

    def ask_all(self, order: str, batch: int, *more: Any) -> None:
        """Give all workers an order, and wait until it is carried out. Raises what they raise."""
        for k in range(len(self._pipes)):
            self._send(k, (order, batch, *more))
        found = [self._answer(k) for k in range(len(self._pipes))]
        for answer in found:
            self._raise(answer)

    def ask(self, k: int, order: str, batch: int, *more: Any) -> Any:
        """Give one worker an order, and return its answer."""
        self._send(k, (order, batch, *more))
        answer = self._answer(k)
        self._raise(answer)
        return answer[1]

    def new_batch(self) -> int:
        """Return a number for a batch."""
        return next(self._names)

    def _send(self, k: int, order: tuple[Any, ...]) -> None:
        try:
            self._pipes[k].send(order)
        except (BrokenPipeError, OSError):
            self._died(k)

    def _answer(self, k: int) -> tuple[bool, Any]:
        try:
            return self._pipes[k].recv()
        except (EOFError, OSError):  # the system closes the other end when a process dies
            self._died(k)

    def _died(self, k: int) -> NoReturn:
        process = self._processes[k]
        process.join(5)
        self.close()
        raise ExternalError(
            f"worker {k} of {len(self)} (process {process.pid}) died with exit code {process.exitcode}: perhaps the environment "
            "crashed, or the memory ran out. Use fewer --workers, or none, to see the environment's own error; a run is resumed "
            "with --resume"
        )

    @staticmethod
    def _raise(answer: tuple[bool, Any]) -> None:
        well, told = answer
        if not well:
            message, where = told
            error = ExternalError(message)
            error.add_note(where)
            raise error

    def close(self) -> None:
        """End the processes."""
        self.closed = True
        for pipe in self._pipes:
            pipe.close()  # which they notice
        for process in self._processes:
            process.join(5)
            if process.is_alive():
                process.terminate()


class RemoteCrew:
    """A batch's environments in worker processes. Those of worker k are the rows k, k + W, k + 2W, …"""

    def __init__(self, workers: Workers, recipe: Recipe, size: int, most: int) -> None:
        self._workers, self._number, self._states = workers, workers.new_batch(), False
        path, each = _new_memory(bytes_needed(recipe.layout, size)), -(-most // len(workers))
        try:
            self.arrays = allocate(recipe.layout, size, _memory(path))
            for k in range(len(workers)):
                workers.ask(k, "open", self._number, path, size, k, len(workers), each)
        finally:
            with contextlib.suppress(OSError):  # where an open file cannot be removed, the system does it later
                os.unlink(path)  # the memory lives as long as somebody has an array of it, even if all are killed

    def reset(self) -> None:
        """Begin an episode in the marked rows."""
        self._workers.ask_all("reset", self._number, self._states)

    def step(self) -> None:
        """Step the environments in the marked rows."""
        self._workers.ask_all("step", self._number, self._states)

    def finish(self) -> None:
        """Note the outcome in the marked rows, whose episodes are over."""
        self._workers.ask_all("finish", self._number)

    def look(self) -> None:
        """Write the environments' own states. Whoever wants them once gets them with every step from then on."""
        if not self._states:
            self._states = True
            self._workers.ask_all("look", self._number)

    def picture(self, b: int, seed: int, actions: np.ndarray) -> np.ndarray:
        """Return the picture of an episode after these actions."""
        worker, row = b % len(self._workers), b // len(self._workers)
        return self._workers.ask(worker, "picture", self._number, row, seed, actions)

    def release(self) -> None:
        """Give all environments back to the workers' pools."""
        with contextlib.suppress(ExternalError, OSError, ValueError):  # a worker has died, or all have been closed
            self._workers.ask_all("release", self._number)


def _new_memory(size: int) -> str:
    """Return the path of a new file of zeros that is kept in memory, where the system has a place for such files."""
    place = "/dev/shm" if Path("/dev/shm").is_dir() else None
    handle, path = tempfile.mkstemp(prefix="macop-", dir=place)
    os.ftruncate(handle, size)
    os.close(handle)
    return path


def _memory(path: str) -> np.memmap:
    return np.memmap(path, dtype=np.uint8, mode="r+")


def serve(pipe: Connection, content: bytes) -> None:
    """Carry out orders until the pipe is closed: what a worker process does."""
    idle: list[Team] = []
    crews: dict[int, Crew] = {}
    recipe = None
    while True:
        try:
            order, batch, *more = pipe.recv()
        except (EOFError, OSError, KeyboardInterrupt):
            break
        try:
            recipe = recipe or pickle.loads(content)
            pipe.send((True, _carry_out(order, batch, more, recipe, crews, idle)))
        except KeyboardInterrupt:
            break
        except Exception as error:
            message = str(error) if isinstance(error, ExternalError) else f"{type(error).__name__}: {error}"
            pipe.send((False, (message, traceback.format_exc())))
    for crew in crews.values():
        crew.release()
    for team in idle:
        team.close()


def _carry_out(
    order: str,
    batch: int,
    more: Sequence[Any],
    recipe: Recipe,
    crews: dict[int, Crew],
    idle: list[Team],
) -> Any:
    if order == "open":
        path, size, first, step, most = more
        arrays: Arrays = allocate(recipe.layout, size, _memory(path)).every(first, step)
        crews[batch] = Crew(recipe, arrays, idle, most)
        return None
    if order == "release":
        crews.pop(batch).release()
        return None
    return getattr(crews[batch], order)(*more)
