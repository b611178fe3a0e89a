"""Groups that an ego learns with and that another run, the lender, has generated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from macop_aht.learner.networks import Shape, Stack, set_weights, weights
from macop_aht.methods.phases import Settings, Setup, self_play_returns
from macop_aht.runs.folder import RunFolder
from macop_aht.runs.records import Decision, PhaseNote


class Borrower(Protocol):
    """What is set in every method that learns with the groups of another run."""

    @property
    def test_episodes(self) -> int: ...
    @property
    def groups(self) -> str: ...


def check(groups: str, scenario: str, allowed: Sequence[str]) -> None:
    """Raise where that folder holds no finished run of this scenario by one of the methods `allowed`."""
    wanted = f"a finished run of {scenario} by {', '.join(allowed)}"
    if not groups:
        raise ValueError(f"this method learns with the groups of another run; name one with --groups RUN, {wanted}")
    lender = RunFolder(groups)
    if not lender.exists:
        raise FileNotFoundError(
            f"{groups} holds no run: there is no {lender.settings_file.name} in it; --groups takes {wanted}"
        )
    if lender.scenario != scenario or lender.method not in allowed:
        raise ValueError(f"the run in {groups} is of {lender.scenario} by {lender.method}; --groups takes {wanted}")
    lender.require_finished()


def lessons_of(groups: str) -> int:
    """Return how many lessons the lender's groups make; 1 where it is not there any more."""
    lender = RunFolder(groups)
    return len(lender.order) if lender.exists else 1


@dataclass
class Groups:
    """Borrowed groups, and the order of the lessons with them; a group may have several."""

    net: Stack
    names: list[str]
    order: list[str]
    decision: Decision

    def arrays(self) -> dict[str, Any]:
        return {"net": weights(self.net)}

    def note(self) -> PhaseNote:
        return PhaseNote(self.decision, names=self.names, order=self.order)

    @staticmethod
    def load(setup: Setup[Settings], arrays: dict[str, Any], note: PhaseNote) -> Groups:
        names = note.names or []
        net = Stack(Shape.of(setup.world), len(names)).to(setup.device)
        set_weights(net, arrays["net"])
        return Groups(net, names, note.order or [], note.decision)

    def __getitem__(self, name: str) -> Stack:
        return Stack.gather([(self.net, self.names.index(name))])


def borrow(setup: Setup[Borrower]) -> Groups:
    """Return the groups of the run that the settings name."""
    lender = RunFolder(setup.config.groups)
    found = lender.groups(setup.device)
    names, net = list(found), Stack.gather([(group, 0) for group in found.values()])
    returns = self_play_returns(setup, net, setup.phase_seed(0, 1))
    return Groups(net, names, lender.order, Decision(groups=names, order=lender.order, self_play=returns))
