"""Anything a user may hand over as a teammate, made into a policy; what it gives back is checked in every step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from macop_aht.teammates.protocol import checked_actions


class FromCallable:
    """A function `(obs (R,D), mask (R,A)) -> action (R,)`."""

    memory_size = 1
    draws = 0

    def __init__(self, function: Callable[[np.ndarray, np.ndarray], Any], name: str | None = None) -> None:
        self.function = function
        self.name = name or str(getattr(function, "__name__", type(function).__name__))

    def act(
        self, obs: np.ndarray, mask: np.ndarray, memory: np.ndarray, draws: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        return checked_actions(self.function(obs, mask), len(obs), mask.shape[1], self.name), memory


class FromObject:
    """An object with the policy's `act`; `name`, `memory_size` and `draws` may be missing."""

    def __init__(self, policy: Any) -> None:
        self.policy = policy
        self.name = str(getattr(policy, "name", type(policy).__name__))
        self.memory_size = int(getattr(policy, "memory_size", 1))
        self.draws = int(getattr(policy, "draws", 0))
        if self.memory_size < 1:
            raise ValueError(
                f"teammate {self.name!r} has memory_size {self.memory_size}; it is at least 1, for the agent's index"
            )

    def act(
        self, obs: np.ndarray, mask: np.ndarray, memory: np.ndarray, draws: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        try:
            action, next_memory = self.policy.act(obs, mask, memory, draws[:, : self.draws])
        except (TypeError, ValueError) as error:
            error.add_note(f"teammate {self.name!r}: act(obs, mask, memory, draws) must return (action, memory)")
            raise
        next_memory = np.asarray(next_memory, dtype=np.float32)
        if next_memory.shape != memory.shape:
            raise ValueError(
                f"teammate {self.name!r} gave a memory of shape {next_memory.shape}; it was called with {memory.shape}. "
                "Set memory_size, and give back what was passed in"
            )
        return checked_actions(action, len(obs), mask.shape[1], self.name), next_memory


def from_predictor(model: Any) -> FromCallable:
    """A model with Stable-Baselines3's `predict`, playing deterministically."""
    return FromCallable(lambda obs, mask: model.predict(obs, deterministic=True)[0], type(model).__name__)
