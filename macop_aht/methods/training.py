"""Training by a method, from Python or the command line: `train` leaves a finished run folder."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from macop_aht.learner.threads import use_threads
from macop_aht.methods import borrowed, summary
from macop_aht.methods.registry import (
    METHODS,
    Method,
    MethodRun,
    configure,
    find,
    learner_of,
    preset,
    preset_of,
    read_run,
    register_method,
    setup_of,
)
from macop_aht.methods.summary import Finished
from macop_aht.paths import commit
from macop_aht.runs.folder import BORROWED, RunFolder
from macop_aht.runs.journal import Journal, Status
from macop_aht.runs.lock import folder_lock
from macop_aht.runs.records import Part
from macop_aht.util import show

__all__ = [
    "METHODS", "Finished", "Method", "MethodRun", "check_groups", "configure", "find", "learner_of", "preset", "preset_of",
    "read_run", "register_method", "setup_of", "train",
]  # fmt: skip


def check_groups(run: MethodRun, folder: Path) -> None:
    """Raise where a method lacks the groups that it learns with; once it has them, they are in its own folder."""
    method = find(run.method)
    if method.groups_from and not RunFolder(folder).has_phase(BORROWED):
        borrowed.check(run.config.groups, run.scenario, method.groups_from)


def train(
    run: MethodRun,
    folder: Path | str,
    resume: bool = False,
    device: str = "auto",
    say: Callable[[str], None] = show,
    show: Callable[[Status], None] | None = None,
) -> Finished:
    """Train, or go on training, to the end; the folder is then finished, with summary and figures.

    `say` is told every decision, `show` how far the run is. Returns the ego, the groups and the summary. Raises `LockedError`
    where another process is at work in the folder, and what `RunFolder.begin` raises.
    """
    folder = Path(folder)
    setup, own = setup_of(run, device), RunFolder(folder)
    check_groups(run, folder)
    with folder_lock(folder, "train"):
        own.begin(run, resume)
        use_threads(run.threads)
        say(f"device {setup.device}, {run.threads} thread{'s' if run.threads > 1 else ''}")
        journal = Journal(folder, say, show)
        began, code = time.perf_counter(), commit()
        try:
            result = find(run.method).train(setup._replace(watch=journal.watch), journal)
        finally:
            journal.close()
            own.add_part(Part(round((time.perf_counter() - began) / 60, 2), code))
        return summary.finish(Finished(run, own, setup, result, journal.decisions), say)
