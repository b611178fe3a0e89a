"""Mutants of the suite's files, by kind and seed, in processes with limits of time and memory.

python -m tests.hostile.mutants KIND SEED        one mutant in this process, with its traceback
python -m tests.hostile.mutants COUNT [FIRST]    so many mutants of all kinds, with seeds from FIRST
"""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import random
import resource
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing import connection
from pathlib import Path
from typing import Any

import macop_aht
from tests.hostile import samples
from tests.hostile.kinds import KINDS

SECONDS = 5.0  # of CPU time
WALL = 120.0  # seconds, for a process that waits; a busy machine may take long over 5 of CPU time
MEMORY = 1 << 30  # bytes more than the process had
FINE, FAILURES = ("equal", "refused", "plays"), ("unnoticed", "unexpected", "crash", "hang", "memory")
OURS = Path(macop_aht.__file__).parent
Task = tuple[str, int | None]  # a kind and a seed; None: the file as it was made


def sealed(seed: int) -> bool:
    """Return whether the checksum of a mutant fits, where its kind has one."""
    return seed % 2 == 0


def file_of(kind: str, source: Path) -> str:
    """Return the path of a kind's file among the samples."""
    return str(sorted(source.glob(KINDS[kind].file))[-1].relative_to(source))


def mutate(kind: str, seed: int | None, source: Path, place: Path) -> Path:
    """Copy a sample's folder to a place and damage its file; return the folder."""
    own = KINDS[kind]
    top, _, file = file_of(kind, source).partition("/")
    folder = place / top
    shutil.copytree(source / top, folder)
    if seed is not None:
        rng = random.Random(f"{kind} {seed}")
        content, damage = (folder / file).read_bytes(), rng.choice(own.damages)
        (folder / file).write_bytes(damage(content, rng))
        if own.seal and sealed(seed):
            own.seal(folder, file)
    return folder


def use(kind: str, seed: int | None, source: Path, place: Path) -> str:
    """Use a mutant; return a hash of all that it gave."""
    folder, digest = mutate(kind, seed, source, place), hashlib.sha256()
    for found in KINDS[kind].use(folder):
        digest.update(repr(found).replace(str(place), "").encode(errors="replace"))
    return digest.hexdigest()


def judge(error: BaseException, file: str) -> str:
    """Return whether an error is a clear one: of a type of ours, or a ValueError or FileNotFoundError, that names the file."""
    if isinstance(error, MemoryError) or "bad_alloc" in str(error) or "Failed to allocate" in str(error):
        return "memory"
    frames = traceback.extract_tb(error.__traceback__)
    raised_here = bool(frames) and Path(frames[-1].filename).is_relative_to(OURS)
    clear = type(error) in (ValueError, FileNotFoundError) or type(error).__module__.startswith("macop_aht")
    named = Path(file).name in str(error) or (file.endswith("state.json") and "this state" in str(error))
    return "refused" if clear and raised_here and named else "unexpected"


def work(pipe: Any, source: Path) -> None:
    """Use one mutant after the other, and say what has become of each; this is what a process does."""
    for stream in (1, 2):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    while True:
        kind, seed = pipe.recv()
        place = Path(tempfile.mkdtemp(prefix="mutant-", dir=source.parent))
        try:
            pipe.send(("used", use(kind, seed, source, place)))
        except BaseException as error:  # whatever it is, it is what this is about
            pipe.send((judge(error, file_of(kind, source)), "".join(traceback.format_exception(error))[-3_000:]))
        finally:
            shutil.rmtree(place, ignore_errors=True)


class Worker:
    """A process at work, and what it may use."""

    def __init__(self, source: Path) -> None:
        context = multiprocessing.get_context("forkserver")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=work, args=(theirs, source), daemon=True)
        self.process.start()
        theirs.close()
        self.task: Task | None = None
        self._since, self._before = 0.0, (0.0, 0)

    def begin(self, task: Task) -> None:
        self.task, self._since, self._before = task, time.monotonic(), self._usage()
        self.pipe.send(task)

    def _usage(self) -> tuple[float, int]:
        """CPU seconds and bytes of memory of the process."""
        try:
            fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:  # it is gone
            return self._before
        ticks = int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK"), int(fields[21]) * os.sysconf("SC_PAGE_SIZE")

    def _passed(self) -> str:
        """Return the limit that the process has passed; "" where there is none."""
        spent, memory = (now - then for now, then in zip(self._usage(), self._before, strict=True))
        if memory > MEMORY:
            return "memory"
        return "hang" if spent > SECONDS or time.monotonic() - self._since > WALL else ""

    def ended(self) -> tuple[str, str] | None:
        """Return what has become of the task, None while it lasts. After a crash or a limit, the process is gone."""
        if self.pipe.poll():
            try:
                return self.pipe.recv()
            except EOFError:
                self.process.join()
                return "crash", f"exit code {self.process.exitcode}\n"
        limit = self._passed()
        if limit:
            self.close()
            return limit, f"after {time.monotonic() - self._since:.1f} s\n"
        return None

    def close(self) -> None:
        self.process.kill()
        self.process.join()


@dataclass
class Report:
    """What has become of mutants, by kind."""

    counts: dict[str, Counter[str]] = field(default_factory=lambda: {kind: Counter() for kind in KINDS})
    failures: list[str] = field(default_factory=list)

    def note(self, kind: str, seed: int, found: tuple[str, str], original: str) -> None:
        what, text = found
        if what == "used":
            unsealed = KINDS[kind].seal is not None and not sealed(seed)
            what = "equal" if text == original else "unnoticed" if unsealed else "plays"
        self.counts[kind][what] += 1
        if what in FAILURES:
            self.failures.append(f"{what}: python -m tests.hostile.mutants {kind} {seed}\n{text}")

    def table(self) -> str:
        """Return the counts as a table in Markdown."""
        heads = ("kind", "mutants", *FINE, *FAILURES)
        lines = [[kind, own.total(), *(own[what] for what in heads[2:])] for kind, own in self.counts.items()]
        every = sum(self.counts.values(), Counter())
        lines.append(["**all**", every.total(), *(every[what] for what in heads[2:])])
        return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in [heads, ["---"] * len(heads), *lines])


def mutants(count: int, first: int = 0) -> Iterator[tuple[str, int]]:
    """Yield so many mutants, of all kinds in turn, with seeds from `first`."""
    names = list(KINDS)
    for k in range(count):
        yield names[k % len(names)], first + k // len(names)


def run(wanted: Iterable[tuple[str, int]], processes: int = 2) -> Report:
    """Use all these mutants; return what has become of them."""
    multiprocessing.set_forkserver_preload(["tests.hostile.warm"])
    every, report, originals = list(wanted), Report(), dict[str, tuple[str, str]]()
    with tempfile.TemporaryDirectory() as place:
        source = Path(place) / "samples"
        source.mkdir()
        maker = multiprocessing.get_context("forkserver").Process(target=samples.make, args=(source,))
        maker.start()
        maker.join()
        if maker.exitcode:
            raise RuntimeError("the samples cannot be made; see the error above")
        wholes = [(kind, None) for kind in dict.fromkeys(kind for kind, _ in every)]
        _each(wholes, source, processes, lambda task, found: originals.update({task[0]: found}))
        broken = {kind: text for kind, (what, text) in originals.items() if what != "used"}
        if broken:
            raise RuntimeError(f"these files cannot be used as they were made: {broken}")
        _each(every, source, processes, lambda task, found: report.note(*task, found, originals[task[0]][1]))
    return report


def _each(queue: Sequence[Any], source: Path, processes: int, tell: Callable[[Any, tuple[str, str]], None]) -> None:
    """Have every task done by one of the processes; a process that is gone is made anew."""
    waiting, workers = iter(queue), [Worker(source) for _ in range(min(processes, len(queue)))]
    try:
        for worker in workers:
            worker.begin(next(waiting))
        while busy := [worker for worker in workers if worker.task]:
            connection.wait([worker.pipe for worker in busy], timeout=0.02)
            for worker in busy:
                found = worker.ended()
                if found is None:
                    continue
                tell(worker.task, found)
                following, worker.task = next(waiting, None), None
                if following and found[0] in ("crash", "hang", "memory"):
                    worker.close()
                    workers[workers.index(worker)] = worker = Worker(source)
                if following:
                    worker.begin(following)
    finally:
        for worker in workers:
            worker.close()


def main(words: Sequence[str]) -> int:
    if words[0] in KINDS:
        with tempfile.TemporaryDirectory() as place:
            source = Path(place) / "samples"
            source.mkdir()
            samples.make(source)
            print("sealed" if sealed(int(words[1])) else "not sealed")
            print(use(words[0], int(words[1]), source, Path(place) / "mutant"))
        return 0
    report = run(mutants(*map(int, words)))
    print(*report.failures, report.table(), sep="\n")
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
