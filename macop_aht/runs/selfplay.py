"""A run: a folder with its configuration, its metrics and its checkpoints, and a loop that can be killed at any moment."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from macop_aht.config import differences, from_toml, parse, read_toml, to_toml
from macop_aht.learner.device import choose_device
from macop_aht.learner.selfplay import SelfPlayConfig, self_play_returns, self_play_training
from macop_aht.learner.threads import use_threads
from macop_aht.learner.training import Progress, Training
from macop_aht.runs import checkpoints
from macop_aht.scenarios import build

LOG_EVERY = 4_000  # steps of all teams together between two lines of metrics
CHECKPOINT_SHARE = 0.05  # of the time that checkpoints may take


@dataclass(frozen=True)
class SelfPlayRun:
    """What a self-play run is: the same run gives the same weights."""

    scenario: str
    seed: int = 0
    threads: int = 1
    training: SelfPlayConfig = field(default_factory=SelfPlayConfig)


class Metrics:
    """One JSON object per line, and the same for TensorBoard where it is installed."""

    def __init__(self, folder: Path, kept: int) -> None:
        """`kept` bytes of an earlier part of the run stand; what came after the last checkpoint is written again."""
        self._path = folder / "metrics.jsonl"
        self._path.touch()
        os.truncate(self._path, min(kept, self._path.stat().st_size))
        self._file = open(self._path, "a", encoding="utf-8")  # noqa: SIM115 - closed by close()
        try:
            from torch.utils.tensorboard import SummaryWriter

            self._board: Any = SummaryWriter(str(folder / "tensorboard"))
        except ImportError:
            self._board = None

    def write(self, step: int, values: dict[str, float], phase: str = "") -> None:
        """`step` of that phase, where a run has several."""
        self._file.write(json.dumps(({"phase": phase} if phase else {}) | {"step": step, **values}) + "\n")
        self._file.flush()
        if self._board:
            for name, value in values.items():
                self._board.add_scalar(f"{phase}/{name}".lstrip("/"), value, step)

    @property
    def size(self) -> int:
        return self._path.stat().st_size

    def close(self) -> None:
        self._file.close()
        if self._board:
            self._board.close()


def open_folder(folder: Path, run: Any, resume: bool) -> None:
    """Make the folder of a new run, or see that the one to resume is of the same run."""
    stored = folder / "run.toml"
    if not stored.exists():
        if resume and not folder.exists():
            raise FileNotFoundError(f"there is no run in {folder} to resume; leave out --resume to start one")
        if folder.exists() and any(folder.iterdir()):
            raise FileExistsError(f"{folder} is not empty and holds no run; choose another folder")
        folder.mkdir(parents=True, exist_ok=True)
        unfinished = folder / "run.toml.unfinished"
        unfinished.write_text(to_toml(run))
        unfinished.replace(stored)
        return
    if not resume:
        raise FileExistsError(f"{folder} holds a run already; go on with --resume, or choose another folder")
    differing = differences(read_toml(stored), parse(to_toml(run)))
    if differing:
        raise ValueError(
            f"{stored} describes another run: {'; '.join(differing)}. Resume with the same settings, or start in another folder"
        )


def self_play(
    run: SelfPlayRun,
    folder: Path,
    resume: bool = False,
    device: str = "auto",
    checkpoint_every: float = 60.0,  # seconds; 0: after every step
    watch: Callable[[Progress], None] | None = None,
    say: Callable[[str], None] = print,
) -> np.ndarray:
    """Train, or go on training, and give every team's greedy self-play return. Writes `result.json` at the end."""
    world, place = build(run.scenario), choose_device(device)
    open_folder(folder, run, resume)
    use_threads(run.threads)
    training = self_play_training(world, run.training, run.seed, place)
    found = checkpoints.load(folder / "checkpoints")
    kept = 0
    if found:
        arrays, note, complaints = found
        for complaint in complaints:
            say(complaint)
        training.load_state(arrays, note)
        kept = note["metrics"]
        say(f"going on at step {training.progress.steps} of {training.steps}")
    say(f"device {place}, {run.threads} thread{'s' if run.threads > 1 else ''}")
    metrics = Metrics(folder, kept)
    try:
        _loop(training, metrics, folder / "checkpoints", checkpoint_every, watch)
    finally:
        metrics.close()
    training.learner.settle()
    returns = self_play_returns(world, training.learner.net, 100, run.seed + 10_000, place)
    result = {"returns": returns.tolist(), "progress": asdict(training.progress)}
    (folder / "result.json").write_text(json.dumps(result, indent=1) + "\n")
    return returns


def _loop(
    training: Training, metrics: Metrics, folder: Path, every: float, watch: Callable[[Progress], None] | None
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


def _save(training: Training, metrics: Metrics, folder: Path) -> None:
    arrays, note = training.state()
    checkpoints.save(folder, training.progress.steps, arrays, {**note, "metrics": metrics.size})


def read_run(folder: Path) -> SelfPlayRun:
    """The run that a folder holds."""
    stored = folder / "run.toml"
    if not stored.exists():
        raise FileNotFoundError(f"{folder} holds no run: there is no {stored.name} in it")
    return from_toml(SelfPlayRun, stored.read_text())
