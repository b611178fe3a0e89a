"""Environments with the interface of SMAC, which PyMARL's environments share, in PettingZoo's parallel form.

The game is never imported here. An object is used as its methods are: `get_env_info`, `get_obs`, `get_state`,
`get_avail_actions`, `reset`, and `step` with a list of actions.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

import numpy as np
from gymnasium import spaces

from macop_aht.scenarios.external.errors import ExternalError, require

METHODS = ("get_env_info", "get_obs", "get_state", "get_avail_actions", "reset", "step")
SIZES = ("n_agents", "n_actions", "obs_shape", "state_shape", "episode_limit")
MOVES = ("no-op", "stop", "north", "south", "east", "west")  # of StarCraft's environments; attacks follow
LOST = 3  # episodes in a row without a connection, after which there is no point in going on


def is_smac(env: Any) -> bool:
    """Return whether an object has SMAC's interface."""
    return all(callable(getattr(env, name, None)) for name in METHODS)


class SmacTeam:
    """An environment of SMAC's interface in PettingZoo's parallel form.

    - The reward is the team's. `battle_won` says whether the last step won the battle; None where there are no battles.
    - The time limit is told as truncation. SMAC itself says `terminated` there.
    - `lost` is true after a step in which the connection to the game was lost. Such an episode must not be learnt from.
    - The seed goes into the environment's constructor. `reset` has one only where the environment's own has one.
    """

    def __init__(self, env: Any) -> None:
        missing = [name for name in METHODS if not callable(getattr(env, name, None))]
        require(not missing, f"from_smac got {type(env).__name__}, which lacks {', '.join(missing)}; SMAC's have these")
        told = env.get_env_info()
        missing = [name for name in SIZES if name not in told]
        require(not missing, f"get_env_info() of {type(env).__name__} lacks {', '.join(missing)}; add them to it")
        self.env, self.episode_limit, self.n_actions = env, int(told["episode_limit"]), int(told["n_actions"])
        self.possible_agents = [f"agent_{i}" for i in range(int(told["n_agents"]))]
        self.agents: list[str] = []
        self._seen = spaces.Box(-np.inf, np.inf, (int(np.prod(told["obs_shape"])),), dtype=np.float32)
        self._actions = spaces.Discrete(self.n_actions)
        self.reseeds = "seed" in inspect.signature(env.reset).parameters
        battles = hasattr(env, "continuing_episode")  # StarCraft's have it, their relatives have no battles
        attacks = (f"attack {k}" for k in range(self.n_actions - len(MOVES)))
        self.action_names = (*MOVES, *attacks)[: self.n_actions] if battles else None
        self.battle_won: bool | None = False if battles else None
        self.lost, self._losses, self._steps = False, 0, 0

    @property
    def unwrapped(self) -> Any:
        """Return the environment inside."""
        return self.env

    def observation_space(self, agent: str) -> spaces.Box:
        return self._seen

    def action_space(self, agent: str) -> spaces.Discrete:
        return self._actions

    def state(self) -> np.ndarray:
        return np.asarray(self.env.get_state(), dtype=np.float32).reshape(-1)

    def render(self) -> Any:
        return self.env.render(mode="rgb_array")

    def close(self) -> None:
        if callable(getattr(self.env, "close", None)):
            self.env.close()

    def reset(self, seed: int | None = None, options: Any = None) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        self.env.reset(**({"seed": seed} if self.reseeds and seed is not None else {}))
        self.agents, self.lost, self._steps = list(self.possible_agents), False, 0
        self.battle_won = None if self.battle_won is None else False
        return self._look({})

    def step(self, actions: Mapping[str, int]) -> tuple[dict[str, np.ndarray], float, dict, dict, dict[str, Any]]:
        reward, over, cut, info = _parts(self.env.step([int(actions[agent]) for agent in self.possible_agents]))
        self._steps += 1
        self.lost = over and not info and self.battle_won is not None  # SMAC then returns (0, True, {})
        self._losses = self._losses + 1 if self.lost else 0
        require(
            self._losses < LOST,
            f"the environment lost its connection to the game in {LOST} episodes in a row; look at the game's own log",
        )
        if "battle_won" in info:
            self.battle_won = bool(info["battle_won"])
        seen, infos = self._look(info)
        cut = cut or (over and self._at_limit(info, infos))
        if over or cut:
            self.agents = []
        team = self.possible_agents
        return seen, reward, dict.fromkeys(team, over and not cut), dict.fromkeys(team, cut), infos

    def _at_limit(self, info: Mapping[str, Any], infos: Mapping[str, Any]) -> bool:
        """Return whether an episode that is said to have terminated was cut by the time limit."""
        if "episode_limit" in info:  # SMAC tells it only with continuing_episode
            return bool(info["episode_limit"])
        all_dead = all(own["action_mask"][0] for own in infos.values())  # no-op is for the dead only
        decided = self.battle_won is not None and (self.battle_won or all_dead)
        return self._steps >= self.episode_limit and not decided

    def _look(self, info: Mapping[str, Any]) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        team, masks = self.possible_agents, self.env.get_avail_actions()
        seen = dict(zip(team, self.env.get_obs(), strict=True))
        return seen, {agent: {**info, "action_mask": masks[i]} for i, agent in enumerate(team)}


def _parts(found: Any) -> tuple[float, bool, bool, Mapping[str, Any]]:
    """Return reward, end, truncation and info of what SMAC's `step` returns, or that of its newer relatives."""
    if isinstance(found, tuple) and len(found) == 3:
        return float(np.sum(found[0])), bool(found[1]), False, found[2]
    if isinstance(found, tuple) and len(found) == 5:
        over, cut = bool(np.all(found[2])), bool(np.all(found[3]))
        return float(np.sum(found[1])), over or cut, cut, found[4]
    raise ExternalError(f"step returned {found!r}; SMAC's returns (reward, terminated, info)")


def from_smac(env: Any) -> SmacTeam:
    """Return an environment with SMAC's interface in the form that `External` takes.

    Raises `ExternalError` where a method or a size is missing.
    """
    require(
        not isinstance(env, type), f"from_smac got the class {getattr(env, '__name__', '')}; give one of its objects"
    )
    return SmacTeam(env)


def import_hint(error: ImportError) -> str:
    """Return what to do about a failed import of StarCraft's SMAC, since two packages are called smac; "" for other imports."""
    if str(error.name or "").partition(".")[0] != "smac":
        return ""
    if find_spec("smac") is None:
        return "; StarCraft's SMAC is not installed, see docs/environments.md"
    return (
        "; the installed package 'smac' is a hyper-parameter optimiser, which has no smac.env. Uninstall it, and install "
        "StarCraft's SMAC from its authors, see docs/environments.md"
    )
