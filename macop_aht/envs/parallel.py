"""A scenario as a PettingZoo parallel environment: the user gives every agent's action."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from gymnasium import spaces

from macop_aht.envs.game import checked_action, checked_seed, warn_of_unknown
from macop_aht.scenarios import Family, Scenario, build_with
from macop_aht.scenarios.batch import make_batch
from macop_aht.scenarios.drawing import Screen
from macop_aht.util import hint

try:
    from pettingzoo import ParallelEnv
except ImportError as error:
    raise ImportError("the parallel form needs PettingZoo: pip install 'macop-aht[pettingzoo]'") from error


class MacopParallelEnv(ParallelEnv):
    """The whole team as a PettingZoo `ParallelEnv`: agents `agent_0`, `agent_1`, … each with its own observation.

    ```python
    team = macop_aht.parallel_env("LBF4")
    observations, infos = team.reset(seed=0)
    actions = {agent: team.action_space(agent).sample(infos[agent]["action_mask"]) for agent in team.agents}
    observations, rewards, terminations, truncations, infos = team.step(actions)
    ```

    ### Rewards
    The team's reward is split equally, so the agents' rewards add up to it.

    ### Infos
    `infos[agent]["action_mask"]` is int8 (A,): 1 for an available action.

    ### State
    `state()` returns the global state, for centralised training.

    ### Episode end
    All agents leave together when the episode ends. The same seed gives the same episodes as in the
    Gymnasium forms.

    ### Arguments
    | argument | default | meaning |
    |---|---|---|
    | `scenario` | | a name such as "LBF4", a `Scenario`, or a family with its parameters |
    | `render_mode` | `None` | "rgb_array", "human", "ansi" or None |
    | any parameter of the family | | changes the world |

    It takes no teammate: every agent of the team is yours.
    """

    metadata: ClassVar[dict[str, Any]] = {
        "render_modes": list(Screen.MODES),
        "name": "macop_v0",
        "is_parallelizable": True,
        "render_fps": 5,
    }

    def __init__(self, scenario: str | Scenario | Family, render_mode: str | None = None, **changes: Any) -> None:
        self._screen = Screen(render_mode, self.metadata["render_fps"])
        if "teammate" in changes:
            raise TypeError(
                "parallel_env takes no teammate: every agent of the team is yours. gym.make has teammates inside"
            )
        self.world, self.render_mode = build_with(scenario, changes, also=("render_mode",)), render_mode
        self._batch = make_batch(self.world, 1)
        self.possible_agents = [f"agent_{i}" for i in range(self.world.n_agents)]
        self.agents: list[str] = []
        low, high = self.world.bounds
        self.observation_spaces = {agent: spaces.Box(low, high, dtype=np.float32) for agent in self.possible_agents}
        self.action_spaces = {agent: spaces.Discrete(len(self.world.actions)) for agent in self.possible_agents}
        self.state_space = spaces.Box(*self.world.global_bounds, dtype=np.float32)
        self._action = np.zeros((1, self.world.n_agents), dtype=np.int64)
        self.np_random = np.random.default_rng(0)  # nothing here uses it; wrappers do, such as SuperSuit's frame_skip
        self._seeded = False

    @property
    def max_episode_steps(self) -> int:
        """Return after how many steps an episode is truncated."""
        return self.world.limit

    def observation_space(self, agent: str) -> spaces.Box:
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Discrete:
        return self.action_spaces[agent]

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, np.ndarray], dict[str, dict[str, Any]]]:
        warn_of_unknown(options or {}, known=())
        if seed is None and not self._seeded:
            seed = int(np.random.SeedSequence().generate_state(1, np.uint64)[0])
        if seed is not None:
            self._batch.seed([checked_seed(seed)])
            self.np_random, self._seeded = np.random.default_rng(seed), True
        self._batch.reset()
        self.agents = list(self.possible_agents)
        if self.render_mode == "human":
            self.render()
        return self._observations(), self._infos()

    def step(
        self, actions: dict[str, Any]
    ) -> tuple[dict[str, np.ndarray], dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]]:
        if not self.agents and self._seeded and not actions:  # as PettingZoo's wrappers do where all have left
            return {}, {}, {}, {}, {}
        if not self.agents:
            raise RuntimeError("the episode is over, or none has begun: call reset() before step()")
        for name in actions:
            if name not in self.agents:
                raise ValueError(f"unknown agent {name!r} in actions; {hint(str(name), self.agents)}")
        missing = [agent for agent in self.agents if agent not in actions]
        if missing:
            raise ValueError(f"no action for {', '.join(missing)}; give one for each of {', '.join(self.agents)}")
        for i, agent in enumerate(self.agents):
            self._action[0, i] = checked_action(actions[agent], (), len(self.world.actions))
        self._batch.step(self._action)
        reward = float(self._batch.shaped[0])
        terminated, truncated = bool(self._batch.terminated[0]), bool(self._batch.truncated[0])
        if self.render_mode == "human":
            self.render()
        observations, infos, team = self._observations(), self._infos(), self.agents
        if terminated or truncated:
            self.agents = []
        return (
            observations,
            dict.fromkeys(team, reward / len(team)),
            dict.fromkeys(team, terminated),
            dict.fromkeys(team, truncated),
            infos,
        )

    def state(self) -> np.ndarray:
        return self._batch.global_state()[0]

    def render(self) -> Any:
        if self.render_mode is None:
            return None
        return self._screen.show(self.world, self._batch.state, 0, self._batch.clock[0], self._batch.score[0])

    def close(self) -> None:
        self._screen.close()

    def _observations(self) -> dict[str, np.ndarray]:
        return {agent: self._batch.obs[0, i].copy() for i, agent in enumerate(self.possible_agents)}

    def _infos(self) -> dict[str, dict[str, Any]]:
        masks = self._batch.mask[0]
        extra = {name: values[0].item() for name, values in self.world.info(self._batch.state).items()}
        return {agent: {"action_mask": masks[i].copy(), **extra} for i, agent in enumerate(self.possible_agents)}


def parallel_env(scenario: str | Scenario | Family, render_mode: str | None = None, **changes: Any) -> MacopParallelEnv:
    """Return the whole team of a scenario as a PettingZoo parallel environment; see `MacopParallelEnv`."""
    return MacopParallelEnv(scenario, render_mode, **changes)
