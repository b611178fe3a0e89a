"""A run folder whose phases are kept as they end: what it holds is not done again, so a killed run goes on at its last phase.

A phase gives a thing with `arrays()`, `note()`, a `decision` and a static `load`; it is written to `phases/NAME.npz`. Phases must
depend on nothing but their arguments, and so end the same however often they are begun.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

from macop_aht.learner.training import Progress
from macop_aht.runs import checkpoints
from macop_aht.runs.selfplay import LOG_EVERY, Metrics


class Kept(Protocol):
    """What a phase gives."""

    decision: dict[str, Any]

    def arrays(self) -> dict[str, Any]: ...

    def note(self) -> dict[str, Any]: ...


T = TypeVar("T", bound=Kept)


class Status(NamedTuple):
    """Where a run is, for those who watch."""

    phase: str
    progress: Progress  # of the phase
    steps: int  # of the phase, in all
    spent: int  # steps of the phases before
    heads: int | None  # so far
    compatibility: float | None  # the latest


class Journal:
    """The phases of one run, their decisions as JSON lines, and the metrics of their training."""

    def __init__(
        self,
        folder: Path,
        say: Callable[[str], None] = print,
        show: Callable[[Status], None] | None = None,
    ) -> None:
        """`say` is told what was decided, `show` how far the phase is that is being trained."""
        self.folder, self._say, self._show = folder, say, show
        self.decisions: list[dict[str, Any]] = []
        self._spent, self._phase_steps, self._logged = 0, 0, 0  # steps of earlier phases; steps and lines of this one
        self._metrics: Metrics | None = None
        self._kept_metrics = 0

    def phase(self, name: str, kind: type[T], work: Callable[..., T], setup: Any, *arguments: Any) -> T:
        """What `work(setup, *arguments)` gives, or gave in an earlier part of the run."""
        path = self.folder / "phases" / f"{name}.npz"
        found = self._recall(path, kind, setup)
        if found is None:
            if self._metrics is None:
                self._metrics = Metrics(self.folder, self._kept_metrics)
            self._phase_steps = self._logged = 0
            result = work(setup, *arguments)
            book = {"metrics": self._metrics.size, "steps": self._phase_steps}
            checkpoints.write(path, result.arrays(), {**result.note(), **book})
            self._spent += self._phase_steps
        else:
            result, book = found
            self._kept_metrics, self._spent = book["metrics"], self._spent + book["steps"]
        self._decide({"phase": name, **result.decision})
        return result

    def watch(self, phase: str, progress: Progress, steps: int) -> None:
        """For a training's loop: log now and then, and show."""
        self._phase_steps = progress.steps
        if progress.steps // LOG_EVERY == self._logged and progress.steps < steps:
            return
        self._logged = progress.steps // LOG_EVERY
        values = {"return": progress.mean_return, "td_loss": progress.td_loss, "updates": progress.updates}
        if self._metrics:
            self._metrics.write(progress.steps, values, phase)
        if self._show:
            heads, compatible = self._latest("heads"), self._latest("compatibility")
            self._show(Status(phase, progress, steps, self._spent, heads, compatible))

    def _latest(self, figure: str) -> Any:
        return next((decision[figure] for decision in reversed(self.decisions) if figure in decision), None)

    def close(self) -> None:
        if self._metrics:
            self._metrics.close()

    def _recall(self, path: Path, kind: Any, setup: Any) -> tuple[Any, dict[str, Any]] | None:
        if not path.exists():
            return None
        try:
            arrays, note = checkpoints.read(path)
            return kind.load(setup, arrays, note), note
        except (checkpoints.CheckpointError, *checkpoints.DAMAGES) as error:
            self._say(f"{path.name} is damaged ({error.__cause__ or error}); doing this phase again")
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
    if "old_heads" in decision:
        told = [f"old heads {numbers(decision['old_heads'])}"] if decision["old_heads"] else []
        told += [f"new head {decision['new_head']:.2f}"] if "new_head" in decision else []
        fate = "kept" if decision["kept"] else "dropped" if "new_head" in decision else "no need to learn"
        return f"{phase}: with group {decision['group']} {', '.join(told)}: {fate}, {decision['heads']} heads"
    if "compatibility" in decision:
        return (
            f"{phase}: self-play {numbers(decision['self_play'])}, with the ego {numbers(decision['cross_play'])}; "
            f"{', '.join(decision['groups'])} stay, C = {decision['compatibility']:.2f}"
        )
    if "returns" in decision:
        after = f" after group {decision['group']}" if "group" in decision else ""
        return f"{phase}: the ego{after} with every group {numbers(decision['returns'])}"
    return f"{phase}: self-play {numbers(decision['self_play'])}"
