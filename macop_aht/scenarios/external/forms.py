"""Whatever a user's function returns, in PettingZoo's parallel form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from macop_aht.scenarios.external.errors import ExternalError
from macop_aht.scenarios.external.smac import from_smac, is_smac

ACCEPTED = "allowed are PettingZoo's parallel and AEC environments, Gymnasium environments with Tuple spaces, and from_smac(...)"
LIMITS = ("episode_limit", "max_cycles", "max_steps", "max_episode_steps", "_max_episode_steps")


def parallel_form(env: Any) -> Any:
    """Return an environment in PettingZoo's parallel form. Raises `ExternalError` for what is no team's environment."""
    if isinstance(env, type):
        raise ExternalError(f"make returned the class {env.__name__}; return one of its objects, as {env.__name__}()")
    if not hasattr(env, "possible_agents") and is_smac(env):
        return from_smac(env)
    if callable(getattr(env, "agent_iter", None)) and callable(getattr(env, "last", None)):
        return _from_turns(env)
    if isinstance(env, gymnasium.Env) and isinstance(env.action_space, spaces.Tuple):
        return TupleTeam(env)
    if isinstance(env, gymnasium.Env):
        raise ExternalError(
            f"make returned {env}, an environment of one agent with the action space {env.action_space}; {ACCEPTED}"
        )
    missing = [name for name in ("possible_agents", "reset", "step") if not hasattr(env, name)]
    if missing:
        raise ExternalError(f"make returned {env!r}, which lacks {', '.join(missing)}; {ACCEPTED}")
    return env


def _from_turns(env: Any) -> Any:
    """Return an AEC environment in parallel form, by PettingZoo's own converter."""
    try:
        from pettingzoo.utils.conversions import aec_to_parallel
    except ImportError as error:
        raise ExternalError(
            "an AEC environment is converted by PettingZoo: pip install 'macop-aht[pettingzoo]'"
        ) from error
    try:
        return aec_to_parallel(env)
    except AssertionError as error:
        raise ExternalError(
            f"{env} is an AEC environment that PettingZoo cannot convert, since its agents take turns; only environments in "
            "which all agents act at once can be used"
        ) from error


class TupleTeam:
    """A Gymnasium environment whose spaces are tuples, with an entry per agent, in PettingZoo's parallel form."""

    def __init__(self, env: gymnasium.Env) -> None:
        self.env, actions, seen = env, env.action_space, env.observation_space
        if not (isinstance(actions, spaces.Tuple) and isinstance(seen, spaces.Tuple) and len(actions) == len(seen)):
            raise ExternalError(
                f"{env} has the action space {actions} and the observation space {seen}; both must be Tuples, with an entry "
                "for each agent"
            )
        self._actions, self._seen = actions, seen
        self.possible_agents = [f"agent_{i}" for i in range(len(actions))]
        self.agents: list[str] = []

    @property
    def unwrapped(self) -> Any:
        """Return the environment without wrappers."""
        return self.env.unwrapped

    def observation_space(self, agent: str) -> spaces.Space:
        return self._seen[self.possible_agents.index(agent)]

    def action_space(self, agent: str) -> spaces.Space:
        return self._actions[self.possible_agents.index(agent)]

    def render(self) -> Any:
        return self.env.render()

    def close(self) -> None:
        self.env.close()

    def reset(self, seed: int | None = None, options: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:
        seen, info = self.env.reset(seed=seed)
        self.agents = list(self.possible_agents)
        return self._by_agent(seen), self._infos(info)

    def step(self, actions: Mapping[str, int]) -> tuple[Any, ...]:
        team = self.possible_agents
        seen, rewards, over, cut, info = self._step(tuple(actions[agent] for agent in team))
        over, cut = bool(np.all(over)), bool(np.all(cut))
        if over or cut:
            self.agents = []
        paid = rewards if np.ndim(rewards) == 0 else dict(zip(team, rewards, strict=True))
        return self._by_agent(seen), paid, dict.fromkeys(team, over), dict.fromkeys(team, cut), self._infos(info)

    def _step(self, actions: tuple[int, ...]) -> tuple[Any, Any, Any, Any, Any]:
        return self.env.step(actions)  # many return lists of rewards

    def _by_agent(self, seen: Sequence[Any]) -> dict[str, Any]:
        return dict(zip(self.possible_agents, seen, strict=True))

    def _infos(self, info: Mapping[str, Any]) -> dict[str, Any]:
        """Return every agent's info; `action_mask` in the environment's has an entry for each."""
        masks = info.get("action_mask")
        if masks is None:
            return dict.fromkeys(self.possible_agents, info)
        return {agent: {**info, "action_mask": masks[i]} for i, agent in enumerate(self.possible_agents)}


def own_limit(env: Any) -> int | None:
    """Return after how many steps an environment says that it cuts its episodes; None where it does not say."""
    for thing in (env, getattr(env, "env", None), getattr(env, "unwrapped", None)):
        found = [getattr(getattr(thing, "spec", None), "max_episode_steps", None)]
        found += [getattr(thing, name, None) for name in LIMITS]
        for steps in found:
            if isinstance(steps, (int, np.integer)) and not isinstance(steps, bool) and steps > 0:
                return int(steps)
    return None
