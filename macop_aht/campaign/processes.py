"""Tasks as processes of this machine, so many at a time.

A task's output goes to NAME.log in the campaign's folder. Its process holds a lock on that file as long as it lives: where a
campaign was killed and its processes were not, the next one waits for them instead of writing into the same runs.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import macop_aht
from macop_aht import paths
from macop_aht.runs.lock import try_lock
from macop_aht.runs.records import holds_run


class Processes:
    """An executor."""

    def __init__(self, folder: Path, places: int = 2, threads: int = 1) -> None:
        self.places = places
        self._folder, self._threads = folder, threads
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._waiting: dict[str, list[str]] = {}  # for a process of an earlier campaign

    def begin(self, name: str, command: list[str]) -> None:
        process = start(self._folder, name, command, self._threads)
        if process is None:
            self._waiting[name] = command
        else:
            self._running[name] = process

    def ended(self) -> dict[str, int]:
        for name in list(self._waiting):
            self.begin(name, self._waiting.pop(name))
        codes = {name: process.poll() for name, process in self._running.items()}
        found = {name: code for name, code in codes.items() if code is not None}
        for name in found:
            del self._running[name]
        return found

    def close(self) -> None:
        for process in self._running.values():
            process.terminate()
        for process in self._running.values():
            process.wait()
        self._running.clear()


def start(
    folder: Path, name: str, command: list[str], threads: int, beforehand: Callable[[], None] | None = None
) -> subprocess.Popen[bytes] | None:
    """A task as a process of this machine; None where another process is at it. `beforehand` is called in the new process."""
    log = folder / f"{name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "ab") as file:
        if not try_lock(file):
            return None
        command = going_on(folder / name, command)
        file.write(f"$ macop {shlex.join(command)}\n".encode())
        file.flush()
        return subprocess.Popen(
            [sys.executable, "-m", "macop_aht", *command],
            cwd=folder,
            env=environment(threads),
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            preexec_fn=beforehand,
        )


def environment(threads: int) -> dict[str, str]:
    """In which the package is the one that runs here."""
    code = [str(Path(macop_aht.__file__).parent.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    code += [os.getcwd()] if paths.imported else []  # where these were found
    own = {paths.IMPORTS: ",".join(paths.imported)} if paths.imported else {}
    return {**os.environ, **own, "PYTHONPATH": os.pathsep.join(code), "OMP_NUM_THREADS": str(threads)}


def going_on(run: Path, command: list[str]) -> list[str]:
    """Return a command that resumes what the run's folder holds; what was killed before it began leaves nothing.

    A sequence takes no time and is made again.
    """
    if command[0] == "sequence":
        shutil.rmtree(run, ignore_errors=True)
    if command[0] != "train":
        return command
    if holds_run(run):
        return [*command, "--resume"]
    shutil.rmtree(run, ignore_errors=True)
    return command
