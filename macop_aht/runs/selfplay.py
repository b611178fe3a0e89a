"""Runs of self-play: teams that are trained side by side, in a loop that can be killed at any moment."""

from __future__ import annotations

import operator
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

from macop_aht.config import LARGEST, at_least, from_mapping, of_file, within
from macop_aht.learner.device import choose_device
from macop_aht.learner.phase import AnyTraining
from macop_aht.learner.selfplay import SelfPlayConfig, self_play_returns, self_play_training
from macop_aht.learner.threads import use_threads
from macop_aht.learner.training import Progress
from macop_aht.runs import checkpoints
from macop_aht.runs.folder import SELF_PLAY, RunFolder
from macop_aht.runs.lock import folder_lock
from macop_aht.runs.metrics import LOG_EVERY, Metrics
from macop_aht.runs.records import SelfPlayResult
from macop_aht.scenarios import build
from macop_aht.util import show

CHECKPOINT_SHARE = 0.05  # of the time that checkpoints may take


@dataclass(frozen=True)
class SelfPlayRun:
    """What a self-play run is: the same run gives the same weights."""

    scenario: str
    seed: int = 0
    threads: int = 1
    training: SelfPlayConfig = field(default_factory=SelfPlayConfig)

    def __post_init__(self) -> None:
        within(self, 0, LARGEST, "seed")
        at_least(self, 1, "threads")


def self_play(
    run: SelfPlayRun,
    folder: Path,
    resume: bool = False,
    device: str = "auto",
    checkpoint_every: float = 60.0,  # seconds; 0: after every step
    watch: Callable[[Progress], None] | None = None,
    say: Callable[[str], None] = show,
) -> SelfPlayResult:
    """Train, or go on training, to the end; return every team's greedy self-play return. The folder is then finished.

    Raises `LockedError` where another process is at work in the folder, and what `RunFolder.begin` raises.
    """
    world, place = build(run.scenario), choose_device(device)
    with folder_lock(folder, "selfplay"):
        own = RunFolder(folder)
        own.begin(run, resume)
        use_threads(run.threads)
        training = self_play_training(world, run.training, run.seed, place)
        kept = _restore(training, own, say)
        say(f"device {place}, {run.threads} thread{'s' if run.threads > 1 else ''}")
        metrics = own.metrics(kept)
        try:
            _loop(training, metrics, own.checkpoints, checkpoint_every, watch)
        finally:
            metrics.close()
        training.learner.settle()
        returns: np.ndarray = self_play_returns(world, training.learner.net, 100, run.seed + 10_000, place)
        result = SelfPlayResult(returns.tolist(), asdict(training.progress))
        own.write_result(result)
        return result


def _restore(training: AnyTraining, folder: RunFolder, say: Callable[[str], None]) -> int:
    """Go on where the newest checkpoint stands; return how many bytes of the metrics stand with it."""
    found = checkpoints.load(folder.checkpoints)
    if not found:
        return 0
    arrays, note, complaints = found
    for complaint in complaints:
        say(complaint)
    with checkpoints.fitting(checkpoints.newest(folder.checkpoints)):
        training.load_state(arrays, note)
        kept = operator.index(note["metrics"])
    say(f"resuming at step {training.progress.steps} of {training.steps}")
    return kept


def _loop(
    training: AnyTraining, metrics: Metrics, folder: Path, every: float, watch: Callable[[Progress], None] | None
) -> None:
    """Step, log and save until the training is done; saving takes a small share of the time, however large the replay is."""
    progress, saved = training.progress, time.perf_counter()
    while not training.done:
        before = progress.steps // LOG_EVERY
        training.step()
        if progress.steps // LOG_EVERY > before or training.done:
            metrics.write(progress.steps, {"return": progress.mean_return, "td_loss": progress.td_loss})
            if watch:
                watch(progress)
        now = time.perf_counter()
        if now - saved >= every or training.done:
            _save(training, metrics, folder)
            saved = time.perf_counter()
            every = max(every, (saved - now) / CHECKPOINT_SHARE) if every > 0 else 0.0


def _save(training: AnyTraining, metrics: Metrics, folder: Path) -> None:
    arrays, note = training.state()
    checkpoints.save(folder, training.progress.steps, arrays, {**note, "metrics": metrics.size})


def read_run(folder: Path) -> SelfPlayRun:
    """Return the run that a folder holds; raise `ValueError` where it is none of self-play."""
    own = RunFolder(folder)
    if own.method != SELF_PLAY:
        raise ValueError(f"the run in {folder} is one of macop train, not of macop selfplay")
    with of_file(own.settings_file):
        return from_mapping(SelfPlayRun, own.settings)
