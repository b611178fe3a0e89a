"""What a teammate is: a policy without hidden state, batched over rows."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np


@runtime_checkable
class Policy(Protocol):
    """A whole-team policy: it can play any agent's place, since the agent's index stands in its memory.

    A row is one agent of one environment. `memory` is (R, memory_size) float32; when an episode begins, column 0 holds
    the agent's index and the others are zero. `draws` are uniform numbers from [0,1), as many per row as `draws` says.
    An action that is not available acts as stop.
    """

    name: str
    memory_size: int  # columns, at least 1
    draws: int  # random draws per row and step

    def act(
        self, obs: np.ndarray, mask: np.ndarray, memory: np.ndarray, draws: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """(R,D) (R,A) (R,H) (R,K) -> action (R,) int64, memory (R,H)."""
        ...


def fresh_memory(agent: np.ndarray, size: int) -> np.ndarray:
    """The memory with which an episode begins: (R,) -> (R,size)."""
    memory = np.zeros((len(agent), size), dtype=np.float32)
    memory[:, 0] = agent
    return memory


def checked_actions(action: object, rows: int, n_actions: int, who: str) -> np.ndarray:
    """The actions that a policy from outside has given, as (R,) int64, or an error that names the policy and the fix."""
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
