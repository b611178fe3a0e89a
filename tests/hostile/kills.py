"""Commands that are killed again and again, evenly over their work, and must end in what an undisturbed one ends in.

How far a command is, is known from the files that it leaves for good: an undisturbed one tells when each of them appears. Kill k
of ten falls where k/11 of the work is done, what was lost by the kills before included. A command that was faster than the
undisturbed one and has ended before its kill is compared, and another one is begun for the kills that are left.
"""

from __future__ import annotations

import bisect
import json
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import connection
from pathlib import Path
from typing import Any

from macop_aht.cli import main
from macop_aht.runs import checkpoints
from macop_aht.runs.records import holds_run
from tests.hostile.samples import hurry

KILLS = 10
LONGEST = 900.0  # seconds of a command; it hangs where it takes longer
LEFT_BEHIND = ("*.unfinished", ".*.lock", "change.json")


@dataclass(frozen=True)
class Command:
    """A command that writes into a folder."""

    words: Sequence[str]  # behind `macop`; {out} is the folder, {other} that of the undisturbed other command
    result: Callable[[Path], Any]  # what it has come to, from the folder
    lasting: str = ""  # pattern of the files that a kill leaves
    resumes: bool = True  # whether it has --resume
    whole: Callable[[Path], bool] | None = None  # of one that cannot be given twice: whether it is done
    begins_others: bool = False  # every other kill leaves the processes alive that it has begun


def of_teams(folder: Path) -> Any:
    """Return the weights, the metrics and the returns of a run of self-play."""
    arrays, _, complaints = checkpoints.load(folder / "checkpoints") or ({}, {}, ["there is none"])
    found = {name: array.tobytes() for name, array in checkpoints.flatten(arrays["learner"]).items()}
    result = json.loads((folder / "result.json").read_text())
    return complaints, found, (folder / "metrics.jsonl").read_text(), result["returns"]


def of_training(folder: Path) -> Any:
    """Return everything in a run but how long it took, and the code's commit."""
    phases = {
        str(path.relative_to(folder)): {
            name: array.tobytes() for name, array in checkpoints.flatten(checkpoints.read(path)[0]).items()
        }
        for path in sorted(folder.glob("phases/*.npz"))
    }
    texts = [(folder / name).read_text() for name in ("decisions.jsonl", "metrics.jsonl", "crossplay.csv")]
    summary = json.loads((folder / "summary.json").read_text())
    return phases, texts, {name: value for name, value in summary.items() if name not in ("minutes", "commits")}


def of_files(folder: Path) -> Any:
    """Return all files of a folder; a picture's content is matplotlib's business."""
    return {
        str(path.relative_to(folder)): path.suffix == ".png" or path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def of_campaign(folder: Path) -> Any:
    runs = sorted(path.parent for path in folder.glob("*/*/*/run.toml"))
    rows = {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.glob("*/rows.csv"))}
    return rows, {str(run.relative_to(folder)): of_training(run) for run in runs}


def work(words: Sequence[str], log: Path, ready: Any) -> None:
    """Be a command, in a session of its own, so that all its processes can be killed."""
    os.setsid()
    with open(log, "ab") as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
    ready.send(True)
    with hurry():
        code = main(words)
    os._exit(code)


class Running:
    """A command at work."""

    def __init__(self, words: Sequence[str], log: Path) -> None:
        multiprocessing.set_forkserver_preload(["tests.hostile.warm"])
        context = multiprocessing.get_context("forkserver")
        ours, theirs = context.Pipe()
        self.process = context.Process(target=work, args=(list(words), log, theirs))
        self.process.start()
        ours.recv()  # it is about to begin
        self.since = time.monotonic()

    def wait(self, seconds: float) -> bool:
        """Return whether it has ended within so many seconds since it began."""
        left = max(self.since + seconds - time.monotonic(), 0.0)
        return bool(connection.wait([self.process.sentinel], left))

    def kill(self, alone: bool = False) -> bool:
        """Kill it, and unless it is to die alone all processes that it has begun; return whether it was alive."""
        with suppress(ProcessLookupError):
            (os.kill if alone else os.killpg)(self.process.pid or 0, signal.SIGKILL)
        self.process.join()
        return self.process.exitcode == -signal.SIGKILL


@dataclass
class Course:
    """How an undisturbed command went."""

    seconds: float = 0.0
    files: list[str] = field(default_factory=list)  # those that a kill leaves, in the order of their names
    shares: list[float] = field(default_factory=list)  # of the work done when each of them was there

    def share(self, files: Sequence[str]) -> float:
        """Return how far a command is that has left these files."""
        done = [self.shares[max(bisect.bisect_right(self.files, name) - 1, 0)] for name in files]
        return max(done, default=0.0)


class Trial:
    """A command in folders of its own, undisturbed and killed."""

    def __init__(self, command: Command, place: Path, other: Path | None = None) -> None:
        self._command, self._place, self._other = command, place, other
        self.course, self.kills, self.finished = Course(), 0, 0  # finished: those that were compared
        place.mkdir(parents=True)

    @property
    def undisturbed(self) -> Path:
        return self._place / "undisturbed"

    def _words(self, folder: Path) -> list[str]:
        words = [word.format(out=folder, other=self._other) for word in self._command.words]
        return [*words, "--resume"] if self._command.resumes and holds_run(folder) else words

    def _lasting(self, folder: Path) -> list[str]:
        if not self._command.lasting:
            return []
        return sorted(str(path.relative_to(folder)) for path in folder.glob(self._command.lasting))

    def _log(self) -> Path:
        return self._place / "log.txt"

    def warm(self) -> None:
        """Run the command once, as it may have to compile, which the next ones need not."""
        self._end(Running(self._words(self._place / "first"), self._log()), self._place / "first")

    def measure(self) -> None:
        """Run the command undisturbed, and note when it leaves its files."""
        running, seen = Running(self._words(self.undisturbed), self._log()), dict[str, float]()
        while not running.wait(min(time.monotonic() - running.since + 0.005, LONGEST)):
            for name in self._lasting(self.undisturbed):
                seen.setdefault(name, time.monotonic() - running.since)
        self._end(running, self.undisturbed)
        seconds = time.monotonic() - running.since
        names = sorted(seen)
        self.course = Course(seconds, names, [seen[name] / seconds for name in names])

    def _end(self, running: Running, folder: Path) -> None:
        """Wait for a command, which must end well."""
        if not running.wait(LONGEST):
            running.kill()
        running.process.join()
        code = running.process.exitcode
        told = self._log().read_text(errors="replace")[-2_000:]
        assert code == 0, f"{self._words(folder)} ended with {code}: {told}"

    def disturb(self, kills: int = KILLS) -> None:
        """Kill the command so many times, and compare what it ends in."""
        if (self._place / "first").exists():
            self._compare(self._place / "first")
        for number in range(1, 100):
            folder = self._place / f"killed-{number}"
            while self._goes_on(folder, kills):
                pass
            self._compare(folder)
            if self.kills == kills:
                return
        raise AssertionError(f"it ends before it can be killed: {self._command.words}")

    def _goes_on(self, folder: Path, kills: int) -> bool:
        """Begin the command or resume it, and kill it or let it end; return whether it was killed."""
        if self._command.whole and self._command.whole(folder):
            return False
        done = self.course.share(self._lasting(folder))
        running = Running(self._words(folder), self._log())
        if self.kills < kills:
            until = ((self.kills + 1) / (kills + 1) - done) * self.course.seconds
            alone = self._command.begins_others and self.kills % 2 == 1
            if not running.wait(max(until, 0.01)) and running.kill(alone):
                self.kills += 1
                return True
        self._end(running, folder)
        return False

    def _compare(self, folder: Path) -> None:
        result = self._command.result
        assert result(folder) == result(self.undisturbed), f"{folder} differs from {self.undisturbed}"
        left = [path for pattern in LEFT_BEHIND for path in self._place.rglob(pattern)]
        assert not left, f"these were left behind: {left}"
        self.finished += 1
