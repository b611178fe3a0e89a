"""A run folder whose phases are kept as they end: what it holds is not done again, so a killed run goes on at its last phase.

A phase gives a thing with `arrays()`, `note()`, a `decision` and a static `load`; it is written to `phases/NAME.npz`. Phases must
depend on nothing but their arguments, and so end the same however often they are begun.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, TypeVar

from macop_aht.learner import checkpoints
from macop_aht.learner.runs import LOG_EVERY, Metrics
from macop_aht.learner.training import Progress


class Kept(Protocol):
    """What a phase gives."""

    decision: dict[str, Any]

    def arrays(self) -> dict[str, Any]: ...

    def note(self) -> dict[str, Any]: ...


T = TypeVar("T", bound=Kept)


class Journal:
    """The phases of one run, their decisions as JSON lines, and the metrics of their training."""

    def __init__(
        self,
        folder: Path,
        say: Callable[[str], None] = print,
        show: Callable[[str, Progress, int], None] | None = None,
    ) -> None:
        """`say` is told what was decided, `show` how far the phase is that is being trained."""
        self.folder, self._say, self._show = folder, say, show
        self.decisions: list[dict[str, Any]] = []
        self._logged = 0
        self._metrics: Metrics | None = None
        self._kept_metrics = 0

    def phase(self, name: str, kind: type[T], work: Callable[..., T], setup: Any, *arguments: Any) -> T:
        """What `work(setup, *arguments)` gives, or gave in an earlier part of the run."""
        path = self.folder / "phases" / f"{name}.npz"
        found = self._recall(path, kind, setup)
        if found is None:
            if self._metrics is None:
                self._metrics = Metrics(self.folder, self._kept_metrics)
            result, self._logged = work(setup, *arguments), 0
            checkpoints.write(path, result.arrays(), {**result.note(), "metrics": self._metrics.size})
        else:
            result, self._kept_metrics = found
        self._decide({"phase": name, **result.decision})
        return result

    def watch(self, phase: str, progress: Progress, steps: int) -> None:
        """For a training's loop: log now and then, and show."""
        if progress.steps // LOG_EVERY > self._logged or progress.steps >= steps:
            self._logged = progress.steps // LOG_EVERY
            values = {"return": progress.mean_return, "td_loss": progress.td_loss, "updates": progress.updates}
            if self._metrics:
                self._metrics.write(progress.steps, values, phase)
            if self._show:
                self._show(phase, progress, steps)

    def close(self) -> None:
        if self._metrics:
            self._metrics.close()

    def _recall(self, path: Path, kind: Any, setup: Any) -> tuple[Any, int] | None:
        if not path.exists():
            return None
        try:
            arrays, note = checkpoints.read(path)
            return kind.load(setup, arrays, note), note["metrics"]
        except checkpoints.DAMAGES as error:
            self._say(f"{path.name} is damaged ({error}); doing this phase again")
            return None

    def _decide(self, decision: dict[str, Any]) -> None:
        """The file is written anew by the first, so that a resumed run has every decision once."""
        mode = "a" if self.decisions else "w"
        self.decisions.append(decision)
        with open(self.folder / "decisions.jsonl", mode, encoding="utf-8") as file:
            file.write(json.dumps(decision) + "\n")
        self._say(sentence(decision))


def sentence(decision: dict[str, Any]) -> str:
    """A decision in words."""

    def numbers(values: list[float]) -> str:
        return " ".join(f"{value:.2f}" for value in values)

    phase = decision["phase"]
    if "new_head" in decision:
        fate = "kept" if decision["kept"] else "dropped"
        old = f"old heads {numbers(decision['old_heads'])}, " if decision["old_heads"] else ""
        new = f"new head {decision['new_head']:.2f}: {fate}, {decision['heads']} heads"
        return f"{phase}: with group {decision['group']} {old}{new}"
    if "compatibility" in decision:
        return (
            f"{phase}: self-play {numbers(decision['self_play'])}, with the ego {numbers(decision['cross_play'])}; "
            f"{', '.join(decision['groups'])} stay, C = {decision['compatibility']:.2f}"
        )
    return f"{phase}: self-play {numbers(decision['self_play'])}"
