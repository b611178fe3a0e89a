"""A scenario as a Gymnasium environment."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from macop_aht.envs.game import Game, checked_action, with_limit
from macop_aht.scenarios import Family, Scenario, World
from macop_aht.scenarios.drawing import Screen


class MacopEnv(gymnasium.Env):
    """One environment: your agent controls the ego, and unknown teammates play the other agents.

    ```python
    import gymnasium as gym, macop_aht
    env = gym.make("MacopLBF4-v0", teammate="scripted:corner-ne")
    obs, info = env.reset(seed=0)
    obs, reward, terminated, truncated, info = env.step(env.action_space.sample(info["action_mask"]))
    ```

    The manual of the scenario's family has its rules, actions and observations: `LevelBasedForaging`,
    `PredatorPrey`, `CooperativeNavigation` and `Combat` in `macop_aht.scenarios`.

    ### Arguments
    | argument | default | meaning |
    |---|---|---|
    | `scenario` | | a name such as "LBF4" (`gym.make` fills it in), a `Scenario`, or a family with its parameters |
    | `teammate` | `'scripted'` | who plays the other agents, see below |
    | `episodes_per_teammate` | `1` | number of episodes before the next teammate is drawn |
    | `render_mode` | `None` | "rgb_array", "human", "ansi" or None |
    | any parameter of the family | | changes the world: `gym.make("MacopLBF4-v0", limit=50)` |

    `teammate` is "scripted" (all scripts of the scenario), "scripted:NAME", "random", "zoo:NAME",
    "agent:NAME", the path of an `.onnx` file, a policy, a callable
    `(obs (R,D), mask (R,A)) -> action (R,)`, or a list of these. Several teammates make a population:
    one is drawn at reset. Perturbations follow a `+`, as in "scripted:nearest+noisy=0.1".
    `macop teammates LBF4` lists the scripts.

    ### Spaces
    | controllable agents | action space | observation space |
    |---|---|---|
    | one | `Discrete(A)` | a `Box` of its observation |
    | several, as in CN3 | `MultiDiscrete` | a `Box` of their observations, concatenated |

    ### Info
    | key | type | meaning |
    |---|---|---|
    | `action_mask` | int8 (A,) | 1 for an available action; with several controllable agents, a tuple of masks |
    | `teammate` | str | name of the teammate that plays; it is never in the observation |
    | `battle_won` | bool | combat only, as in SMAC |
    | `dead_allies`, `dead_enemies` | int | combat only, as in SMAC |

    `action_masks()` returns the mask, for learners that use it. An unavailable action acts as stop.

    ### Reset
    - `seed`: the same seed gives the same spawns, the same teammates and the same draws.
    - `options={"teammate": NAME}` chooses from the population, by name or number.

    ### Episode end
    An episode terminates as the scenario says. It is truncated at the scenario's limit, which is
    `env.spec.max_episode_steps`. The environment counts the steps itself, without a wrapper.
    """

    metadata: dict[str, Any] = {  # noqa: RUF012 - declared so by the base
        "render_modes": list(Screen.MODES),
        "render_fps": 5,
    }

    def __init__(
        self,
        scenario: str | Scenario | Family | World,
        teammate: Any = "scripted",
        episodes_per_teammate: int = 1,
        render_mode: str | None = None,
        **changes: Any,
    ) -> None:
        self._screen = Screen(render_mode, self.metadata["render_fps"])
        self._game = Game(scenario, teammate, 1, episodes_per_teammate, changes)
        self.world, self.render_mode = self._game.world, render_mode
        self.observation_space, self.action_space = self._game.observation_space, self._game.action_space
        self._m, self._n_actions = self.world.controllable, len(self.world.actions)
        self._row = np.ones(1, dtype=np.bool_)
        self._seeded, self._over = False, True
        self._spec: Any = None

    @property
    def spec(self) -> Any:
        """What `gymnasium.make` has made this of, with the scenario's limit as `max_episode_steps`."""
        return self._spec

    @spec.setter
    def spec(self, spec: Any) -> None:
        self._spec = with_limit(spec, self.world)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        chosen = self._game.chosen(options)
        super().reset(seed=seed)
        if seed is not None or not self._seeded:
            self._game.seed([self.np_random_seed], self._row)
            self._seeded = True
        self._game.reset(self._row, chosen)
        self._over = False
        if self.render_mode == "human":
            self.render()
        return self._observation(), self._info()

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        if self._over:
            raise RuntimeError("the episode is over, or none has begun: call reset() before step()")
        game, batch = self._game, self._game.batch
        if self._m == 1:
            if not (isinstance(action, (int, np.integer)) and 0 <= action < self._n_actions):  # the usual case is fast
                action = checked_action(action, (), self._n_actions)
            game.action[0, 0] = action
        else:
            game.action[0, : self._m] = checked_action(action, (self._m,), self._n_actions)
        game.step()
        terminated, truncated = bool(batch.terminated[0]), bool(batch.truncated[0])
        self._over = terminated or truncated
        if self.render_mode == "human":
            self.render()
        return self._observation(), float(batch.shaped[0]), terminated, truncated, self._info()

    def action_masks(self) -> Any:
        """Return the mask of available actions: int8 (A,), or a tuple of masks with several controllable agents."""
        masks = self._game.batch.mask[0, : self._m].copy()
        return masks[0] if self._m == 1 else tuple(masks)

    def state(self) -> np.ndarray:
        """Return the global state, for centralised training: (S,) float32."""
        return self._game.batch.global_state()[0]

    def render(self) -> Any:
        """Return a picture (height, width, 3) uint8 or a text; None where a window shows it, and without a render mode."""
        if self.render_mode is None:
            gymnasium.logger.warn('render() does nothing without a render_mode: gym.make(…, render_mode="rgb_array")')
            return None
        game = self._game
        return self._screen.show(
            self.world, game.batch.state, 0, game.batch.clock[0], game.batch.score[0], self._teammate()
        )

    def close(self) -> None:
        self._screen.close()

    def _observation(self) -> np.ndarray:
        return self._game.batch.obs[0, : self._m].flatten()

    def _teammate(self) -> str:
        return self._game.population.names[self._game.population.who[0]]

    def _info(self) -> dict[str, Any]:
        extra = {name: values[0].item() for name, values in self.world.info(self._game.batch.state).items()}
        return {"action_mask": self.action_masks(), "teammate": self._teammate(), **extra}
