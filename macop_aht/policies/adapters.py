"""Anything a user may hand over as a teammate, made into a policy; what it is given is a copy, what it gives back is checked."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from macop_aht.policies.protocol import Policy, checked_actions


class FromCallable:
    """A function `(obs (R,D), mask (R,A)) -> action (R,)`."""

    memory_size = 1
    draws = 0
    checked = True

    def __init__(self, function: Callable[[np.ndarray, np.ndarray], Any], name: str | None = None) -> None:
        self.function = function
        self.name = name or str(getattr(function, "__name__", type(function).__name__))

    def act(
        self, obs: np.ndarray, mask: np.ndarray, memory: np.ndarray, draws: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        action = self.function(obs.copy(), mask.copy())
        return checked_actions(action, len(obs), mask.shape[1], self.name), memory


class FromObject:
    """An object with the policy's `act`; `name`, `memory_size` and `draws` may be missing."""

    checked = True

    def __init__(self, policy: Any) -> None:
        try:
            inspect.signature(policy.act).bind(*range(4))
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"teammate is {policy!r}, whose act cannot be called as act(obs, mask, memory, draws) ({error})"
            ) from error
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
            action, next_memory = self.policy.act(obs.copy(), mask.copy(), memory.copy(), draws[:, : self.draws].copy())
        except (TypeError, ValueError, IndexError) as error:
            error.add_note(
                f"teammate {self.name!r}: act(obs, mask, memory, draws) must return (action, memory); its memory has "
                f"{self.memory_size} columns and it has {self.draws} draws per row. More are had by attributes of the "
                "policy: memory_size = …, draws = …"
            )
            raise
        next_memory = np.asarray(next_memory, dtype=np.float32)
        if next_memory.shape != memory.shape:
            raise ValueError(
                f"teammate {self.name!r} gave a memory of shape {next_memory.shape}; it was called with {memory.shape}. "
                "Set memory_size, and give back what was passed in"
            )
        return checked_actions(action, len(obs), mask.shape[1], self.name), next_memory


class FromPredictor:
    """A model with Stable-Baselines3's `predict`, playing deterministically."""

    memory_size = 1
    draws = 0
    checked = True

    def __init__(self, model: Any) -> None:
        self.model, self.name = model, type(model).__name__

    def act(
        self, obs: np.ndarray, mask: np.ndarray, memory: np.ndarray, draws: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        action, *state = self.model.predict(obs.copy(), deterministic=True)
        if any(part is not None for part in state):
            raise ValueError(
                f"teammate {self.name!r} has a memory of its own, since predict gives back a state, and it would be lost from "
                "step to step; wrap the model in a policy with act(obs, mask, memory, draws) that keeps it in memory"
            )
        return checked_actions(action, len(obs), mask.shape[1], self.name), memory


def as_policy(thing: Any) -> Policy:
    """A policy that can be relied on: our own as they are, anything else behind checks."""
    if getattr(thing, "checked", False) is True:
        return thing
    if isinstance(thing, type):
        raise TypeError(f"teammate is the class {thing.__name__}; give one of its objects, as {thing.__name__}(…)")
    if callable(getattr(thing, "act", None)):
        return FromObject(thing)
    if callable(getattr(thing, "predict", None)):
        return FromPredictor(thing)
    if callable(thing):
        return FromCallable(thing)
    raise TypeError(
        f"teammate is {thing!r} of type {type(thing).__name__}; allowed are a policy with act(obs, mask, memory, draws), "
        "a callable (obs, mask) -> action, a path to an .onnx file, a string such as 'scripted' or 'random', or a list of these"
    )
