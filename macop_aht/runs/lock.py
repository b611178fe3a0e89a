"""Locks, so that two processes never write into the same folder.

The lock of a folder is a small hidden file beside it, `.NAME.lock`, with the id of the process that holds it. The operating
system releases a lock when its process ends, however that may be, so nothing has to be removed by hand.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


class LockedError(RuntimeError):
    """Another process is at work in a folder; the message has its id."""


def try_lock(file: IO[bytes]) -> bool:
    """Lock an open file and return True, or return False where somebody else has locked it.

    The lock lasts until every process that has inherited the open file has closed it. On Windows nothing is locked.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def lock_path(folder: Path) -> Path:
    """Return the file that locks a folder."""
    folder = folder.absolute()
    return folder.with_name(f".{folder.name}.lock")


@contextmanager
def folder_lock(folder: Path, what: str) -> Iterator[None]:
    """Hold the lock of a folder, which need not exist yet; raise `LockedError` where another process holds it.

    `what` says who works there, as in "training". The lock of a process that has died is free.
    """
    path = lock_path(folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    file = _acquire(path, folder, what)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)  # before the lock is released: whoever opens it now makes a new one
        file.close()


def _acquire(path: Path, folder: Path, what: str) -> IO[bytes]:
    while True:
        file = open(path, "a+b")  # noqa: SIM115 - closed by folder_lock()
        try:
            if not try_lock(file):
                file.seek(0)
                holder = file.read().decode(errors="replace").strip() or "unknown"
                raise LockedError(
                    f"process {holder} is at work in {folder}; wait until it ends, or choose another folder"
                )
            if _is_still(path, file):
                file.truncate(0)
                file.write(f"{os.getpid()} {what}\n".encode())
                file.flush()
                return file
        except BaseException:
            file.close()
            raise
        file.close()  # its holder has removed it since it was opened


def _is_still(path: Path, file: IO[bytes]) -> bool:
    """Whether the path still leads to this open file."""
    try:
        there, here = os.stat(path), os.fstat(file.fileno())
    except FileNotFoundError:
        return False
    return (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino)
