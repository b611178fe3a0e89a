"""The best episodes of each network so far, which PPO imitates: self-imitation.

Where success is rare, a round has one or none, and the rounds after it undo what it taught. So the best episodes are kept. Their
actions become more probable, by how much their return exceeds what the critic expects. A network that succeeds as often as it can
expects it, and has nothing left to imitate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from macop_aht.learner.ppo import Demonstration
from macop_aht.learner.replay import Packed, Replay
from macop_aht.learner.update import lambda_target

KEPT = 32  # episodes of every ring


@dataclass(frozen=True)
class Seeds:
    """Episodes that networks begin with, as if they were the best that each has played."""

    episodes: Mapping[str, np.ndarray]  # (E,…), as `Replay.episodes` returns them
    numbers: Sequence[np.ndarray]  # of each network: which of them


class Best:
    """The episodes with the highest discounted returns in every ring of a replay buffer."""

    def __init__(self, source: Replay, gamma: float, seeds: Seeds | None = None) -> None:
        """Begin with the seeds, or with none."""
        self.replay, self.returns = source.like(KEPT), np.full((len(source.length), KEPT), -np.inf)
        self._source, self._gamma = source, gamma
        if seeds:
            for own, numbers in enumerate(seeds.numbers):
                self._keep(own, {name: array[numbers] for name, array in seeds.episodes.items()})

    def keep(self, ring: np.ndarray, slot: np.ndarray) -> None:
        """Keep those of a round's episodes, (R,) (R,), that are above its average and better than what is kept."""
        for own in np.unique(ring).tolist():
            slots = slot[ring == own]
            returns = discounted(self._source.reward[own, slots], self._source.length[own, slots], self._gamma)
            self._keep(own, self._source.episodes(own, slots[returns > returns.mean()]))

    def _keep(self, ring: int, episodes: Mapping[str, np.ndarray]) -> None:
        returns = discounted(episodes["reward"], episodes["length"], self._gamma)
        best = np.argsort(-returns, kind="stable")[:KEPT]
        worst = np.argsort(self.returns[ring], kind="stable")[: len(best)]
        better = returns[best] >= self.returns[ring, worst]  # of equals, the newer one stays
        best, worst = best[better], worst[better]
        self.replay.put(ring, worst, {name: array[best] for name, array in episodes.items()})
        self.returns[ring, worst] = returns[best]

    def parts(
        self,
        count: int,
        size: int,
        value: Callable[[Packed], Tensor],
        largest: np.ndarray,
        device: torch.device,
        rng: np.random.Generator,
    ) -> list[Demonstration]:
        """Return so many random parts of the kept episodes, with `size` of every ring in each; [] where there are none.

        The weight of a step is by how much its return exceeds its `value`, relative to the best return that is kept, or to the
        network's largest reward so far, `largest` (P,), if that is larger.
        """
        members, kept = len(largest), np.isfinite(self.returns)
        if not kept.any():
            return []
        ring = np.arange(len(kept)).reshape(members, -1).repeat(size, axis=1)
        best = np.where(kept, np.abs(self.returns), 0.0).reshape(members, -1).max(axis=1)
        scale = torch.from_numpy(1 / np.maximum(np.maximum(best, largest), 1e-8)).float().to(device).unsqueeze(1)
        found = []
        for _ in range(count):
            slots = rng.integers(0, np.maximum(kept.sum(axis=1), 1)[ring])  # kept ones come before free slots
            batch = self.replay.pack(slots, device, ring=ring)
            returns = lambda_target(batch, torch.zeros_like(batch.reward), self._gamma, 1.0)
            found.append(Demonstration(batch, (returns - value(batch)).clamp(min=0.0) * scale))
        return found

    def state_arrays(self) -> dict[str, Any]:
        """Return what is kept, for a checkpoint."""
        return {"replay": self.replay.state_arrays(), "returns": self.returns}

    def load_arrays(self, arrays: Mapping[str, Any]) -> None:
        """Restore what `state_arrays` returned."""
        self.replay.load_arrays(arrays["replay"])
        self.returns[:] = arrays["returns"]


def discounted(reward: np.ndarray, length: np.ndarray, gamma: float) -> np.ndarray:
    """Return the discounted returns of episodes: (E,T) (E,) -> (E,)."""
    steps = np.arange(reward.shape[1])
    return (reward * (steps < length[:, None]) * gamma**steps).sum(axis=1)
