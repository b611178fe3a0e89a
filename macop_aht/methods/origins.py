"""What a finished run holds for others: its groups, the order in which its ego has met them, its ego."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol

from macop_aht.config import read_toml
from macop_aht.learner.networks import Ego, Shape, Stack, set_weights, weights
from macop_aht.methods.phases import Learned, Settings, Setup, self_play_returns
from macop_aht.runs import checkpoints


class Borrower(Protocol):
    """What is set in every method that learns with the groups of another run."""

    @property
    def test_episodes(self) -> int: ...
    @property
    def groups(self) -> str: ...


def check(folder: str, scenario: str, allowed: Sequence[str]) -> None:
    """Raise where that is no finished run of this scenario by one of the methods `allowed`."""
    wanted = f"a finished run of {scenario} by {', '.join(allowed)}"
    if not folder:
        raise ValueError(f"this method learns with the groups of another run; name one with --groups RUN, {wanted}")
    stored = Path(folder) / "run.toml"
    if not stored.exists():
        raise FileNotFoundError(f"{folder} holds no run: there is no {stored.name} in it; --groups takes {wanted}")
    found, method = read_toml(stored), method_of(Path(folder))
    if found["scenario"] != scenario or method not in allowed:
        raise ValueError(f"the run in {folder} is of {found['scenario']} by {method}; --groups takes {wanted}")
    require_end(Path(folder))


def method_of(folder: Path) -> str:
    """The method of a run, by its settings; that of a sequence of groups is `sequence`."""
    stored = folder / "run.toml"
    if not stored.exists():
        raise FileNotFoundError(f"{folder} holds no run: there is no {stored.name} in it")
    return read_toml(stored).get("method", "selfplay")


def require_end(folder: Path) -> None:
    """Raise where a run has not come to its end, or files of its phases are gone."""
    if method_of(folder) == "selfplay":
        raise ValueError(f"the run in {folder} is one of macop selfplay, and has no ego; give one of macop train")
    if not (folder / "summary.json").exists():
        raise ValueError(f"the run in {folder} is not finished; go on with --resume first")
    phases = [decision["phase"] for decision in _decisions(folder)]
    missing = [f"{name}.npz" for name in phases if not (folder / "phases" / f"{name}.npz").exists()]
    if missing:
        raise FileNotFoundError(f"{folder / 'phases'} lacks {', '.join(missing)}; --resume makes the run whole again")


def lender_of(folder: Path, groups: str) -> Path:
    """The run whose groups the one in a folder has learnt with, as its settings name it.

    A relative path is looked for from the folders above, since the run was made in one of these, and from here.
    """
    places = [above / groups for above in folder.resolve().parents]
    return next((place for place in places if (place / "run.toml").exists()), Path(groups))


def groups_of(folder: Path, setup: Setup[Settings]) -> dict[str, Stack]:
    """Every group that a run has generated and kept so far, by name."""
    found: dict[str, Stack] = {}
    for path in sorted((folder / "phases").glob("population-*.npz")):
        arrays, note = checkpoints.read(path)
        net = _stack(setup, arrays["net"], len(note["names"]))
        found |= {name: Stack.gather([(net, k)]) for k, name in enumerate(note["names"])}
    return found


def groups_held(folder: Path, setup: Setup[Settings]) -> dict[str, Stack]:
    """The groups of a run by name, its own or borrowed ones; those too that its ego had no lesson with."""
    borrowed = folder / "phases" / "groups.npz"
    if not borrowed.exists():
        return groups_of(folder, setup)
    groups = Groups.load(setup, *checkpoints.read(borrowed))
    return {name: groups[name] for name in groups.names}


def ego_of(folder: Path, setup: Setup[Settings]) -> Ego:
    """The ego of a finished run."""
    require_end(folder)
    phases = sorted((folder / "phases").glob("ego-*.npz"))
    return Learned.load(setup, *checkpoints.read(phases[-1])).ego


def lessons(folder: Path) -> list[str]:
    """The groups in the order in which a run's ego has learnt with them; where it met all at once, as they are numbered."""
    decisions = _decisions(folder)
    return [decision["group"] for decision in decisions if "group" in decision] or decisions[0]["groups"]


def joined(folder: Path) -> list[str]:
    """Those of its groups that the ego of a finished run has met in a lesson."""
    return json.loads((folder / "summary.json").read_text(encoding="utf-8"))["joined"]


def maker_of(folder: Path) -> str:
    """The method that has made a run's groups: its own, or that of the run that it has borrowed them from."""
    groups = read_toml(folder / "run.toml").get("config", {}).get("groups")
    return method_of(lender_of(folder, groups) if groups else folder)


def _decisions(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "decisions.jsonl").read_text(encoding="utf-8").splitlines()]


@dataclass
class Groups:
    """Groups of another run, kept in this one, and the order in which they are to be learnt, some perhaps more than once."""

    net: Stack
    names: list[str]
    order: list[str]
    decision: dict[str, Any]

    def arrays(self) -> dict[str, Any]:
        return {"net": weights(self.net)}

    def note(self) -> dict[str, Any]:
        return {"names": self.names, "order": self.order, "decision": self.decision}

    @staticmethod
    def load(setup: Setup[Settings], arrays: dict[str, Any], note: dict[str, Any]) -> Groups:
        net = _stack(setup, arrays["net"], len(note["names"]))
        return Groups(net, note["names"], note["order"], note["decision"])

    def __getitem__(self, name: str) -> Stack:
        return Stack.gather([(self.net, self.names.index(name))])


def borrow(setup: Setup[Borrower]) -> Groups:
    """The groups of the run that the settings name."""
    folder = Path(setup.config.groups)
    found = groups_held(folder, setup)
    names, net = list(found), Stack.gather([(group, 0) for group in found.values()])
    order = lessons(folder)
    returns = self_play_returns(setup, net, setup.phase_seed(0, 1))
    return Groups(net, names, order, {"groups": names, "order": order, "self_play": returns})


def fingerprint(group: Stack) -> bytes:
    """The same for the same weights."""
    return sha256(b"".join(part.tobytes() for _, part in sorted(weights(group).items()))).digest()


def _stack(setup: Setup[Settings], arrays: dict[str, Any], count: int) -> Stack:
    net = Stack(Shape.of(setup.world), count).to(setup.device)
    set_weights(net, arrays)
    return net
