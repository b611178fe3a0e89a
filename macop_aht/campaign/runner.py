"""The loop of a campaign: what can be begun is begun, what has ended is noted, and what stands already is not done again."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from macop_aht.campaign.plan import Task

State = Literal["to come", "running", "done", "failed", "blocked", "left out"]
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
    command: list[str] = field(default_factory=list)
    inputs: dict[str, float | None] = field(
        default_factory=dict
    )  # the tasks whose results it uses, and when they ended

    @property
    def ended(self) -> bool:
        return self.state in ("done", "failed", "blocked", "left out")


class Ledger:
    """Where every task stands. What has begun or ended is in `status.json`, so that a later campaign knows it.

    What was made of results that have been made again since is made again too. Tasks that are left out count where they were
    done before.
    """

    def __init__(self, folder: Path, tasks: Sequence[Task], left_out: Collection[str] = ()) -> None:
        self.folder, self.tasks, self._left_out = folder, tasks, left_out
        self.standing = {task.name: Standing() for task in tasks}
        self._path = folder / "status.json"
        self._before = json.loads(self._path.read_text(encoding="utf-8")) if self._path.exists() else {}

    def check_runs(self) -> None:
        """Raise where a run that is there was begun with other settings: no command could go on with it."""
        for task in self.tasks:
            before = self._before.get(task.name, {}).get("command", [])
            if task.trains and before and (self.folder / task.name / "run.toml").exists():
                then, now = (
                    {word for word in words if not word.startswith("--device=")} for words in (before, task.words)
                )
                if then != now:
                    raise ValueError(
                        f"{task.name} was begun with {_listed(then - now)}, and the campaign says {_listed(now - then)}; choose "
                        f"another folder, or remove {self.folder / task.name} to have it made again"
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
                own.state, own.minutes = "done", self._before[task.name]["minutes"]
            elif task.name in self._left_out:
                own.state = "left out"
            elif self._is_blocked(task):
                own.state = "blocked"
            elif self._may_begin(task):
                found.append(task)
        return found

    def begin(self, task: Task) -> list[str]:
        """Note that a task is running; gives its command. What is left of it from other inputs goes, and tables made of it."""
        command, inputs = task.command(self.named("done")), self._inputs(task)
        if self._before.get(task.name, {}).get("inputs", inputs) != inputs:
            shutil.rmtree(self.folder / task.name, ignore_errors=True)
        for other in self.tasks:
            if other.gathers and (other is task or task.name in self._before.get(other.name, {}).get("inputs", ())):
                (self.folder / other.result).unlink(missing_ok=True)
        self.standing[task.name] = Standing("running", since=time.monotonic(), command=command, inputs=inputs)
        self._note(task.name, {"state": "running", "inputs": inputs, "command": command})
        return command

    def end(self, name: str, code: int) -> None:
        """Note that a task has ended."""
        own = self.standing[name]
        own.state, own.minutes = "failed" if code else "done", (time.monotonic() - own.since) / 60
        note = {"state": own.state, "exit_code": code, "minutes": round(own.minutes, 2), "ended": round(time.time(), 3)}
        self._note(name, {**note, "inputs": own.inputs, "command": own.command})

    def _note(self, name: str, note: dict[str, Any]) -> None:
        self._before[name] = note
        unfinished = self._path.with_suffix(".unfinished")
        unfinished.write_text(json.dumps(self._before, indent=1) + "\n", encoding="utf-8")
        unfinished.replace(self._path)

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
        """Whether it was done before, by the same command with the same inputs, and its result is still there."""
        before, inputs = self._before.get(task.name, {}), self._inputs(task)
        same = before.get("state") == "done" and before.get("command") == task.command(self.named("done"))
        return same and before.get("inputs", inputs) == inputs and (self.folder / task.result).exists()

    def _inputs(self, task: Task) -> dict[str, float | None]:
        """The tasks whose results it uses, and when they ended."""
        used = [name for name in (*task.needs, *task.gathers) if self.standing[name].state == "done"]
        return {name: self._before[name].get("ended") for name in used}


def _listed(words: Collection[str]) -> str:
    return " ".join(sorted(words)) or "nothing of that kind"


def run(ledger: Ledger, executor: Executor, watch: Callable[[Ledger], None]) -> bool:
    """Do all that can be done; gives whether that is everything. `watch` is shown the ledger again and again."""
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
