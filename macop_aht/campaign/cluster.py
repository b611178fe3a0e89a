"""Tasks on the nodes of a Ray cluster, as many at a time as it has processors for.

The campaign's folder must be on a disk that all nodes share, under the same path, and the package installed on all. A task
whose node is lost is begun again on another, where it goes on with what its folder holds. Its process ends with the worker of
Ray that has begun it, so that nothing is left behind where a node or a campaign is lost.
"""

from __future__ import annotations

import ctypes
import signal
import time
from pathlib import Path
from typing import Any

from macop_aht.campaign.processes import environment, start
from macop_aht.paths import IMPORTS

RETRIES = 10  # times that a task is begun again, each after the loss of a node
WAIT = 1.0  # seconds between two looks at whether another process has ended that was at the same task


class RayNodes:
    """An executor."""

    def __init__(self, folder: Path, threads: int = 1, address: str = "auto") -> None:
        try:
            import ray
        except ImportError as error:
            raise ImportError("--executor ray needs Ray: pip install 'macop-aht[cluster]'") from error
        self._ray, self._folder, self._threads = ray, folder, threads
        variables = {name: value for name, value in environment(threads).items() if name in ("PYTHONPATH", IMPORTS)}
        ray.init(address=address, log_to_driver=False, runtime_env={"env_vars": variables})
        self._work = ray.remote(num_cpus=threads, max_retries=RETRIES)(work)
        self._running: dict[str, Any] = {}  # what Ray promises

    @property
    def places(self) -> int:
        """Nodes may come and go."""
        return max(int(self._ray.cluster_resources().get("CPU", 0)) // self._threads, 1)

    def begin(self, name: str, command: list[str]) -> None:
        self._running[name] = self._work.remote(str(self._folder), name, command, self._threads)

    def ended(self) -> dict[str, int]:
        promised = {promise: name for name, promise in self._running.items()}
        if not promised:
            return {}
        kept, _ = self._ray.wait(list(promised), num_returns=len(promised), timeout=0)
        codes = {promised[promise]: self._code(promised[promise], promise) for promise in kept}
        for name in codes:
            del self._running[name]
        return codes

    def _code(self, name: str, promise: Any) -> int:
        """Of the process; 1 where Ray has given up, with the reason in the log."""
        try:
            return self._ray.get(promise)
        except self._ray.exceptions.RayError as error:
            with open(self._folder / f"{name}.log", "a", encoding="utf-8") as log:
                log.write(f"{type(error).__name__}: {' '.join(str(error).split())}\n")
            return 1

    def close(self) -> None:
        for promise in self._running.values():
            self._ray.cancel(promise, force=True)
        self._running.clear()
        self._ray.shutdown()


def work(folder: str, name: str, command: list[str], threads: int) -> int:
    """Run a task on the node where this is called; return the exit code."""
    while True:
        process = start(Path(folder), name, command, threads, end_with_parent)
        if process is not None:
            return process.wait()
        time.sleep(WAIT)


def end_with_parent() -> None:
    """From now on this process is killed when the one that has begun it ends, however that may be. On Linux."""
    try:
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    except (OSError, AttributeError):
        return
