"""The contract of a policy: whoever plays an agent, batched over rows, without hidden state."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np

Array = np.ndarray
Decision = tuple[Array, Array]  # the actions (R,), and the memory for the next step (R,H)


@runtime_checkable
class Policy(Protocol):
    """A whole-team policy: it can play any agent, since it is told the agent's index.

    A row is one agent of one environment. Everything that a policy remembers is in `memory`, which the caller keeps for it:
    zeros when an episode begins, then what `act` returned. `draws` are its random numbers, uniform in [0, 1).
    An action that is not available acts as stop.
    """

    name: str
    memory_size: int  # columns of the memory, 0 where it needs none
    draws: int  # random draws per row and step

    def act(self, obs: Array, mask: Array, agent: Array, last_action: Array, memory: Array, draws: Array) -> Decision:
        """Choose an action for every row, and return the actions and the next memory.

        obs (R,D) float32, mask (R,A) int8, agent (R,) int64, last_action (R,) int64 (-1 at first), memory (R,H) float32,
        draws (R,K) -> action (R,) int64, memory (R,H) float32. What is passed in must not be changed.
        """
        ...


def checked_actions(action: object, rows: int, n_actions: int, who: str) -> np.ndarray:
    """Return the actions that a policy from outside has given as (R,) int64; an error names the policy and the fix."""
    given = np.asarray(action)
    if given.shape != (rows,) and given.size == rows:
        given = given.reshape(rows)
    if given.shape != (rows,):
        raise ValueError(f"teammate {who!r} gave actions of shape {given.shape}; give one per row of obs: ({rows},)")
    if given.dtype.kind not in "iub":
        whole = given.dtype.kind == "f" and bool(np.all(given == np.floor(given)))  # NaN is not equal to itself
        if not whole:
            raise ValueError(f"teammate {who!r} gave actions {given}; give whole numbers in 0..{n_actions - 1}")
    if given.size and not (given.min() >= 0 and given.max() < n_actions):
        raise ValueError(
            f"teammate {who!r} gave actions {given}; allowed are 0..{n_actions - 1}, see the mask it is called with"
        )
    return given.astype(np.int64)
