"""A run's phases: what the folder holds already is not done again, so a killed run goes on at its last phase.

A phase depends on nothing but its arguments, and so ends the same however often it is begun.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

from macop_aht.learner.training import Progress
from macop_aht.runs.checkpoints import CheckpointError, MisfitError, fitting
from macop_aht.runs.folder import RunFolder
from macop_aht.runs.metrics import LOG_EVERY, Metrics
from macop_aht.runs.records import Decision, PhaseNote
from macop_aht.util import show


class Kept(Protocol):
    """What a phase returns. It also has a static method `load(setup, arrays, note)`, the inverse of the two here."""

    @property
    def decision(self) -> Decision: ...

    def arrays(self) -> dict[str, Any]:
        """Networks and other arrays, for the phase's file."""
        ...

    def note(self) -> PhaseNote:
        """The rest, for the phase's file."""
        ...


T = TypeVar("T", bound=Kept)


class Status(NamedTuple):
    """How far a run is, for those who watch it."""

    phase: str
    progress: Progress  # of the phase
    steps: int  # of the phase, in all
    spent: int  # steps of the phases before
    heads: int | None  # so far
    compatibility: float | None  # the latest


class Journal:
    """The phases of one run, their decisions, and the metrics of their training."""

    def __init__(
        self,
        folder: Path,
        say: Callable[[str], None] = show,
        show: Callable[[Status], None] | None = None,
    ) -> None:
        """`say` is told what was decided, `show` how far the phase is that is being trained."""
        self.folder, self._say, self._show = RunFolder(folder), say, show
        self.decisions: list[Decision] = []
        self._spent, self._phase_steps, self._logged = 0, 0, 0  # steps of earlier phases; steps and lines of this one
        self._metrics: Metrics | None = None
        self._kept_metrics = 0

    def phase(self, name: str, kind: type[T], work: Callable[..., T], setup: Any, *arguments: Any) -> T:
        """Return what `work(setup, *arguments)` returns, or has returned in an earlier part of the run."""
        found = self._recall(name, kind, setup)
        if found is None:
            if self._metrics is None:
                self._metrics = self.folder.metrics(self._kept_metrics)
            self._phase_steps = self._logged = 0
            result = work(setup, *arguments)
            note = replace(result.note(), metrics=self._metrics.size, steps=self._phase_steps)
            self.folder.write_phase(name, result.arrays(), note)
            self._spent += self._phase_steps
        else:
            result, note = found
            self._kept_metrics, self._spent = note.metrics, self._spent + note.steps
            if self._metrics:  # a phase before was done again
                self._metrics.keep(note.metrics)
        self._decide(replace(result.decision, phase=name))
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
            heads = self._latest([decision.heads for decision in self.decisions])
            compatible = self._latest([decision.compatibility for decision in self.decisions])
            self._show(Status(phase, progress, steps, self._spent, heads, compatible))

    @staticmethod
    def _latest(values: Sequence[Any]) -> Any:
        return next((value for value in reversed(values) if value is not None), None)

    def close(self) -> None:
        if self._metrics:
            self._metrics.close()

    def _recall(self, name: str, kind: Any, setup: Any) -> tuple[Any, PhaseNote] | None:
        if not self.folder.has_phase(name):
            return None
        try:
            arrays, note = self.folder.read_phase(name)
            with fitting(self.folder.phase_file(name)):
                return kind.load(setup, arrays, note), note
        except MisfitError:
            raise
        except CheckpointError:
            self._say(f"{name}.npz is damaged (its checksum is wrong); doing this phase again")
            return None

    def _decide(self, decision: Decision) -> None:
        self.folder.add_decision(decision, first=not self.decisions)
        self.decisions.append(decision)
        self._say(sentence(decision))


def sentence(decision: Decision) -> str:
    """Return a decision in words."""
    if decision.old_heads is not None:
        return _lesson(decision, decision.old_heads)
    if decision.compatibility is not None:
        stay = ", ".join(decision.groups or ())
        novelty = "" if decision.novelty is None else f", novelty {_numbers(decision.novelty)}"
        return (
            f"{decision.phase}: self-play {_numbers(decision.self_play)}, with the ego {_numbers(decision.cross_play)}{novelty}; "
            f"{stay} stay, C = {decision.compatibility:.2f}"
        )
    if decision.returns is not None:
        after = f" after group {decision.group}" if decision.group is not None else ""
        return f"{decision.phase}: the ego{after} with every group {_numbers(decision.returns)}"
    return f"{decision.phase}: self-play {_numbers(decision.self_play)}"


def _lesson(decision: Decision, old_heads: Sequence[float]) -> str:
    told = [f"old heads {_numbers(old_heads)}"] if old_heads else []
    fate = "no lesson needed"
    if decision.new_head is not None:
        told.append(f"new head {decision.new_head:.2f}")
        fate = "kept" if decision.kept else "dropped"
    return f"{decision.phase}: with group {decision.group} {', '.join(told)}: {fate}, {decision.heads} heads"


def _numbers(values: Sequence[float] | None) -> str:
    return " ".join(f"{value:.2f}" for value in values or ())
