"""Anything that a user may hand over as a policy, made into one; it is given copies, and what it returns is checked."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from macop_aht.policies.protocol import Array, Decision, Policy, checked_actions

CALL = "act(obs, mask, agent, last_action, memory, draws)"


class FromCallable:
    """A function `(obs (R,D), mask (R,A)) -> action (R,)` as a policy."""

    memory_size = 0
    draws = 0

    def __init__(self, function: Callable[[np.ndarray, np.ndarray], Any], name: str | None = None) -> None:
        self.function = function
        self.name = name or str(getattr(function, "__name__", type(function).__name__))

    def act(self, obs: Array, mask: Array, agent: Array, last_action: Array, memory: Array, draws: Array) -> Decision:
        action = self.function(obs.copy(), mask.copy())
        return checked_actions(action, len(obs), mask.shape[1], self.name), memory


class FromObject:
    """An object with the policy's `act` as a policy; `name`, `memory_size` and `draws` may be missing."""

    def __init__(self, policy: Any) -> None:
        try:
            inspect.signature(policy.act).bind(*range(6))
        except (TypeError, ValueError) as error:
            raise TypeError(f"teammate is {policy!r}, whose act cannot be called as {CALL} ({error})") from error
        self.policy = policy
        self.name = str(getattr(policy, "name", type(policy).__name__))
        self.memory_size = int(getattr(policy, "memory_size", 0))
        self.draws = int(getattr(policy, "draws", 0))
        if self.memory_size < 0:
            raise ValueError(f"teammate {self.name!r} has memory_size {self.memory_size}; it is 0 or more columns")

    def act(self, obs: Array, mask: Array, agent: Array, last_action: Array, memory: Array, draws: Array) -> Decision:
        given = (array.copy() for array in (obs, mask, agent, last_action, memory, draws[:, : self.draws]))
        try:
            action, next_memory = self.policy.act(*given)
        except (TypeError, ValueError, IndexError) as error:
            error.add_note(
                f"teammate {self.name!r}: {CALL} must return (action, memory); its memory has {self.memory_size} columns and "
                f"it has {self.draws} draws per row. More are had by attributes of the policy: memory_size = …, draws = …"
            )
            raise
        next_memory = np.asarray(next_memory, dtype=np.float32)
        if next_memory.shape != memory.shape:
            raise ValueError(
                f"teammate {self.name!r} gave a memory of shape {next_memory.shape}; it was called with {memory.shape}. "
                "Set memory_size, and return what was passed in"
            )
        return checked_actions(action, len(obs), mask.shape[1], self.name), next_memory


class FromPredictor:
    """A model with Stable-Baselines3's `predict` as a policy; it plays deterministically."""

    memory_size = 0
    draws = 0

    def __init__(self, model: Any) -> None:
        self.model, self.name = model, type(model).__name__

    def act(self, obs: Array, mask: Array, agent: Array, last_action: Array, memory: Array, draws: Array) -> Decision:
        action, *state = self.model.predict(obs.copy(), deterministic=True)
        if any(part is not None for part in state):
            raise ValueError(
                f"teammate {self.name!r} has a memory of its own, since predict returns a state, and it would be lost from "
                f"step to step; wrap the model in a policy with {CALL} that keeps it in memory"
            )
        return checked_actions(action, len(obs), mask.shape[1], self.name), memory


def as_policy(thing: Any) -> Policy:
    """Return a policy that keeps the contract: those of this package as they are, anything else behind checks.

    Raises TypeError where it cannot be a policy.
    """
    if isinstance(thing, Policy) and type(thing).__module__.partition(".")[0] == __name__.partition(".")[0]:
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
        f"teammate is {thing!r} of type {type(thing).__name__}; allowed are a policy with {CALL}, a callable "
        "(obs, mask) -> action, a path to an .onnx file, a string such as 'scripted' or 'random', or a list of these"
    )
