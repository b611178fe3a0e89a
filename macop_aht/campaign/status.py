"""How every task of a campaign stands, in `status.json`, so that a later campaign in the same folder knows it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from macop_aht.campaign.plan import Task
from macop_aht.runs.folder import RunFolder
from macop_aht.runs.records import FORMAT, as_values, check_format, from_values, read_text, table
from macop_aht.util import write_whole

State = Literal["to come", "running", "done", "failed", "blocked", "left out"]
STATUS = "status.json"
REMEDY = "it is made again from the runs that are there, and evaluations are repeated"


@dataclass(frozen=True)
class TaskStatus:
    """A task that has begun or ended."""

    state: State = "running"
    settings: dict[str, Any] = field(default_factory=dict)  # what its result depends on, beside its inputs
    inputs: dict[str, float | None] = field(default_factory=dict)  # tasks whose results it uses, and when they ended
    command: list[str] = field(default_factory=list)  # the words behind `macop`, for whoever reads the file
    exit_code: int | None = None
    minutes: float | None = None  # that it took
    ended: float | None = None  # seconds since 1970


@dataclass(frozen=True)
class Statuses:
    """What `status.json` holds."""

    tasks: dict[str, TaskStatus]  # by name


def read_statuses(folder: Path) -> dict[str, TaskStatus]:
    """Return the statuses by the tasks' names; none where no campaign has been at work in the folder.

    Raises `FormatError` where the file is of another format, and `DamagedError` where it cannot be read.
    """
    path = folder / STATUS
    if not path.exists():
        return {}
    values = check_format(table(read_text(path), str(path), REMEDY), str(path), folder)
    return from_values(Statuses, values, str(path)).tasks


def recovered(folder: Path, tasks: Sequence[Task]) -> dict[str, TaskStatus]:
    """Return the statuses of the runs and sequences that are there, without those that were made of them."""
    found: dict[str, TaskStatus] = {}
    for task in tasks:
        run = RunFolder(folder / task.name)
        if run.exists:
            settings = {name: run.settings.get(name) for name in task.settings}
            state: State = "done" if run.finished else "running"
            found[task.name] = TaskStatus(state, settings, dict.fromkeys(task.needs))
    return found


def write_statuses(folder: Path, statuses: Mapping[str, TaskStatus]) -> None:
    """Write all statuses, whole or not at all."""
    tasks = {name: as_values(status) for name, status in statuses.items()}
    write_whole(folder / STATUS, json.dumps({"format": FORMAT, "tasks": tasks}, indent=1) + "\n")
