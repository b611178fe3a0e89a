"""The loop of a campaign: what can be begun is begun, what has ended is noted, and what stands already is not done again."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from macop_aht.campaign.plan import Task, settings_file
from macop_aht.campaign.status import State, TaskStatus, read_statuses, recovered, write_statuses
from macop_aht.config import differences
from macop_aht.runs.folder import RunFolder
from macop_aht.runs.records import DamagedError, holds_run, settings_text
from macop_aht.util import show, write_whole

POLL = 0.2  # seconds between two looks


class Executor(Protocol):
    """Where tasks are run: in processes of this machine, or elsewhere."""

    @property
    def places(self) -> int:
        """Tasks at a time."""
        ...

    def begin(self, name: str, command: list[str]) -> None:
        """Begin a task; it has the words of its command behind `macop`, to be run in the campaign's folder."""
        ...

    def ended(self) -> dict[str, int]:
        """The tasks that have ended since it was last asked, and their exit codes."""
        ...

    def close(self) -> None:
        """End what is still running."""
        ...


@dataclass
class Standing:
    """Where a task stands."""

    state: State = "to come"
    minutes: float | None = None  # that it took
    since: float = 0.0  # when it was begun, while it is running
    begun: TaskStatus = field(default_factory=TaskStatus)  # how it was begun

    @property
    def ended(self) -> bool:
        return self.state in ("done", "failed", "blocked", "left out")


class Ledger:
    """Where every task stands. What has begun or ended is in `status.json`, so that a later campaign knows it.

    What was made of results that have been made again since is made again too. Tasks that are left out count where they were
    done before.
    """

    def __init__(
        self,
        folder: Path,
        tasks: Sequence[Task],
        left_out: Collection[str] = (),
        say: Callable[[str], None] = show,
    ) -> None:
        self.folder, self.tasks, self._left_out = folder, tasks, left_out
        self.standing = {task.name: Standing() for task in tasks}
        try:
            self._before = read_statuses(folder)
        except DamagedError as error:
            say(str(error))
            self._before = recovered(folder, tasks)

    def check_runs(self) -> None:
        """Raise where a run that is there was begun with other settings: no command could resume it."""
        for task in self.tasks:
            before = self._before.get(task.name)
            if task.trains and before and holds_run(self.folder / task.name):
                differing = differences(before.settings, task.settings)
                if differing:
                    raise ValueError(
                        f"{task.name} was begun with other settings than the campaign's: {'; '.join(differing)}. Choose another "
                        f"folder, or remove {self.folder / task.name} to have it made again"
                    )

    def named(self, *states: State) -> list[str]:
        """The tasks in one of these states."""
        return [name for name, own in self.standing.items() if own.state in states]

    def ready(self) -> list[Task]:
        """Tasks that can be begun. On the way, those that stand from before or can never be begun are set to what they are."""
        found: list[Task] = []
        for task in self.tasks:  # those that are needed are before those that need them
            own = self.standing[task.name]
            if own.state != "to come":
                continue
            if self._may_begin(task) and self._stands(task):
                own.state, own.minutes = "done", self._before[task.name].minutes
            elif task.name in self._left_out:
                own.state = "left out"
            elif self._is_blocked(task):
                own.state = "blocked"
            elif self._may_begin(task):
                found.append(task)
        return found

    def begin(self, task: Task) -> list[str]:
        """Note that a task is running; return its command. What is left of it from other inputs goes, and tables made of it."""
        command, inputs = task.command(self.named("done")), self._inputs(task)
        before = self._before.get(task.name)
        if before and before.inputs != inputs:
            shutil.rmtree(self.folder / task.name, ignore_errors=True)
        for other in self.tasks:
            used = self._before[other.name].inputs if other.name in self._before else {}
            if other.gathers and (other is task or task.name in used):
                (self.folder / other.result).unlink(missing_ok=True)
        if task.trains:
            write_whole(self.folder / settings_file(task.name), settings_text(task.settings))
        begun = TaskStatus("running", dict(task.settings), inputs, command)
        self.standing[task.name] = Standing("running", since=time.monotonic(), begun=begun)
        self._note(task.name, begun)
        return command

    def end(self, name: str, code: int) -> None:
        """Note that a task has ended."""
        own = self.standing[name]
        own.state, own.minutes = "failed" if code else "done", (time.monotonic() - own.since) / 60
        ended = round(time.time(), 3)
        status = replace(own.begun, state=own.state, exit_code=code, minutes=round(own.minutes, 2), ended=ended)
        self._note(name, status)

    def _note(self, name: str, status: TaskStatus) -> None:
        self._before[name] = status
        write_statuses(self.folder, self._before)

    def minutes_left(self, places: int) -> float | None:
        """By how long tasks of the same kind took, or else all; None while nothing is known."""
        took: dict[str, list[float]] = {}
        for task in self.tasks:
            own = self.standing[task.name]
            if own.state == "done" and own.minutes is not None:
                took.setdefault(task.kind, []).append(own.minutes)
        every = [minutes for kind in took.values() for minutes in kind]
        if not every:
            return None
        left = 0.0
        for task in self.tasks:
            own, alike = self.standing[task.name], took.get(task.kind, every)
            spent = (time.monotonic() - own.since) / 60 if own.state == "running" else 0.0
            left += 0.0 if own.ended else max(sum(alike) / len(alike) - spent, 0.0)
        return left / places

    def _is_blocked(self, task: Task) -> bool:
        lost = set(self.named("failed", "blocked", "left out"))
        return not lost.isdisjoint(task.needs) or (bool(task.gathers) and lost.issuperset(task.gathers))

    def _may_begin(self, task: Task) -> bool:
        needed = all(self.standing[name].state == "done" for name in task.needs)
        return needed and all(self.standing[name].ended for name in task.gathers)

    def _stands(self, task: Task) -> bool:
        """Whether it was done before, with the same settings and inputs, and its result is still there."""
        before = self._before.get(task.name)
        if before is None or before.state != "done":
            return False
        return before.settings == task.settings and before.inputs == self._inputs(task) and self._is_there(task)

    def _is_there(self, task: Task) -> bool:
        path = self.folder / task.result
        return path.is_file() or (holds_run(path) and RunFolder(path).finished)

    def _inputs(self, task: Task) -> dict[str, float | None]:
        """The tasks whose results it uses, and when they ended."""
        used = [name for name in (*task.needs, *task.gathers) if self.standing[name].state == "done"]
        return {name: self._before[name].ended for name in used}


def run(ledger: Ledger, executor: Executor, watch: Callable[[Ledger], None]) -> bool:
    """Do all that can be done; return whether that is everything. `watch` is shown the ledger again and again."""
    try:
        while True:
            ready, free = ledger.ready(), executor.places - len(ledger.named("running"))
            for task in ready[:free]:
                executor.begin(task.name, ledger.begin(task))
            watch(ledger)
            if not ledger.named("running"):
                return not ledger.named("failed", "blocked")
            time.sleep(POLL)
            for name, code in executor.ended().items():
                ledger.end(name, code)
    finally:
        executor.close()
