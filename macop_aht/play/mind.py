"""What the agent believes, as it is shown beside a game: the head that it plays, and a bar for every group or head."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from macop_aht.deploy.runtime import EgoAgent
from macop_aht.policies.protocol import Policy


@dataclass(frozen=True)
class Bar:
    """A group that the teammates may be, or a head; `value` is its probability, or the head's mean return."""

    label: str
    value: float
    head: str  # the head that suits the group best, or this head
    tried: int = 0  # episodes in which this head was played


@dataclass(frozen=True)
class Mind:
    """What is known of an agent at one moment."""

    kind: Literal["belief", "returns", "none"]  # by group, by head, or nothing to know
    head: str = ""  # that it plays; "" where it is no bundle
    bars: tuple[Bar, ...] = ()

    def leading(self, count: int) -> list[Bar]:
        """Return so many of the largest bars, the largest first."""
        return sorted(self.bars, key=lambda bar: -bar.value)[:count]


class MindReader:
    """Reads the mind of one agent that plays in one team."""

    def __init__(self, ego: EgoAgent | Policy) -> None:
        self._agent = ego if isinstance(ego, EgoAgent) else None
        described = self._agent.manifest.zero_shot if self._agent else None
        self._names = self._agent.manifest.head_names if self._agent else []
        groups = described.groups if described else ()
        self._groups = [f"own {name}" if name.startswith("head ") else f"group {name}" for name in groups]
        best = np.array(described.returns).argmax(axis=0).tolist() if described else []
        self._best = [self._names[head] for head in best]
        self._by_head: tuple[Bar, ...] = ()
        self._has_belief = True

    def episode_begins(self) -> None:
        """Look at what a selector by episode has learnt; between episodes it does not change."""
        if self._agent is None:
            return
        try:
            _ = self._agent.belief
        except ValueError:
            self._has_belief = False
            state = self._agent.state
            known = zip(self._names, state["mean_return"][0], state["tried"][0], strict=False)
            self._by_head = tuple(Bar(f"head {name}", value, name, int(tried)) for name, value, tried in known)

    def read(self) -> Mind:
        """Return what the agent believes now."""
        if self._agent is None:
            return Mind("none")
        head = self._names[int(self._agent.head[0])]
        if not self._has_belief:
            return Mind("returns", head, self._by_head)
        probabilities = self._agent.belief[0].tolist()
        bars = zip(self._groups, probabilities, self._best, strict=True)
        return Mind("belief", head, tuple(Bar(*bar) for bar in bars))
