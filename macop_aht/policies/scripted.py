"""Teammates from a script, and the random one."""

from __future__ import annotations

import copy

import numpy as np

from macop_aht.compiling import njit
from macop_aht.policies.adapters import as_policy
from macop_aht.policies.protocol import Array, Decision, Policy
from macop_aht.scenarios.spec import OwnScript, Script, World


class Scripted:
    """One of a world's scripts as a policy."""

    def __init__(self, name: str, script: Script) -> None:
        self.name, self.script = f"scripted:{name}", script
        self.memory_size, self.draws = script.memory, script.draws

    def act(self, obs: Array, mask: Array, agent: Array, last_action: Array, memory: Array, draws: Array) -> Decision:
        script = self.script
        memory, action = memory.copy(), np.empty(len(obs), dtype=np.int64)
        script.act(script.params, script.code, script.argument, obs, mask, agent, memory, draws, action)
        return action, memory


@njit(cache=True)
def random_actions(mask, draws, action):
    """A uniformly random available action for every row: `mask` (R,A), `draws` (R,K) of which column 0 is used."""
    for r in range(mask.shape[0]):
        available = 0
        for a in range(mask.shape[1]):
            available += mask[r, a]
        left = int(draws[r, 0] * available)
        for a in range(mask.shape[1]):
            if mask[r, a]:
                if left == 0:
                    action[r] = a
                    break
                left -= 1


class Random:
    """Any available action with equal chance."""

    name = "random"
    memory_size = 0
    draws = 1

    def act(self, obs: Array, mask: Array, agent: Array, last_action: Array, memory: Array, draws: Array) -> Decision:
        action = np.zeros(len(obs), dtype=np.int64)
        random_actions(mask, draws, action)
        return action, memory


def scripted(world: World) -> dict[str, Policy]:
    """Return all scripted teammates of a world, by their script's name."""
    return {
        name: Scripted(name, script) if isinstance(script, Script) else _own(name, script)
        for name, script in world.scripts.items()
    }


def _own(name: str, script: OwnScript) -> Policy:
    """Return a script of the user's as a policy of that name."""
    policy = copy.copy(as_policy(script.policy))
    policy.name = f"scripted:{name}"
    return policy
