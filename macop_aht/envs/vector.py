"""A scenario as a native Gymnasium vector environment: the batched kernels themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from macop_aht.envs.game import Game, checked_action, checked_options, checked_seed, with_limit
from macop_aht.scenarios import Family, Scenario, World
from macop_aht.scenarios.drawing import Screen


class MacopVectorEnv(VectorEnv):
    r"""B environments of one scenario that step together, with batched teammates inside.

    ```python
    envs = gym.make_vec("MacopLBF4-v0", num_envs=256, teammate="scripted")
    obs, infos = envs.reset(seed=0)
    obs, rewards, terminations, truncations, infos = envs.step(envs.action_space.sample())
    ```

    Environment i of `reset(seed=s)` plays exactly as a single `MacopEnv` with seed s + i.

    ### Arguments
    Those of `MacopEnv`, and two more:

    | argument | default | meaning |
    |---|---|---|
    | `num_envs` | `1` | number of environments |
    | `autoreset_mode` | `'NextStep'` | when the next episode begins, see below |

    | `autoreset_mode` | the next episode begins |
    |---|---|
    | `"NextStep"` | in the step after the end, which ignores the action and returns the first observation |
    | `"SameStep"` | at once; `infos["final_obs"]` and `infos["final_info"]` have the end of the last one |
    | `"Disabled"` | when you reset it, by `options={"reset_mask": terminations \| truncations}` |

    ### Infos
    | key | type | meaning |
    |---|---|---|
    | `action_mask` | int8 (B,A) | 1 for an available action |
    | `teammate` | (B,) | names of the teammates that play |

    With m > 1 controllable agents, `action_mask` is an object array (B,) of tuples of m masks, as in
    Gymnasium's own vector environments. `action_masks()` returns int8 (B,m,A).

    ### Reset
    `reset(options={"teammate": NAME})` chooses the teammate of all environments. Each of them draws a
    new teammate after `episodes_per_teammate` episodes. `options={"reset_mask": (B,) bool}` resets only
    some of the environments.
    """

    def __init__(
        self,
        scenario: str | Scenario | Family | World,
        num_envs: int = 1,
        teammate: Any = "scripted",
        episodes_per_teammate: int = 1,
        autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
        render_mode: str | None = None,
        **changes: Any,
    ) -> None:
        if not (isinstance(num_envs, (int, np.integer)) and num_envs >= 1):
            raise ValueError(f"num_envs is {num_envs!r}; give a whole number, at least 1")
        num_envs = int(num_envs)
        self._screen = Screen(render_mode, fps=5, modes=("rgb_array", "ansi"))
        self.autoreset_mode = _autoreset_mode(autoreset_mode)
        self.metadata = {"autoreset_mode": self.autoreset_mode, "render_modes": ["rgb_array", "ansi"], "render_fps": 5}
        self._game = Game(scenario, teammate, num_envs, episodes_per_teammate, changes)
        self.world, self.num_envs, self.render_mode = self._game.world, num_envs, render_mode
        self.single_observation_space = self._game.observation_space
        self.single_action_space = self._game.action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._m, self._n_actions = self.world.controllable, len(self.world.actions)
        self._shape = (num_envs,) if self._m == 1 else (num_envs, self._m)
        self._all = np.ones(num_envs, dtype=np.bool_)
        self._over = np.ones(num_envs, dtype=np.bool_)
        self._spec: Any = None
        self._begun, self._next_step = False, self.autoreset_mode == AutoresetMode.NEXT_STEP

    @property
    def spec(self) -> Any:
        """What `gymnasium.make_vec` has made this of, with the scenario's limit as `max_episode_steps`."""
        return self._spec

    @spec.setter
    def spec(self, spec: Any) -> None:
        self._spec = with_limit(spec, self.world)

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        options = dict(checked_options(options))
        rows = self._reset_mask(options.pop("reset_mask", None))
        chosen = self._game.chosen(options)
        self._seed(seed, rows)
        self._game.reset(rows, chosen)
        self._over[rows] = False
        self._begun = True
        return self._observation(), self._infos(rows)

    def _reset_mask(self, mask: Any) -> np.ndarray:
        """Check Gymnasium's option to reset only some of the environments, and return it: (B,) bool."""
        if mask is None:
            return self._all.copy()
        mask = np.asarray(mask)
        if mask.shape != (self.num_envs,) or mask.dtype != np.bool_ or not mask.any():
            raise ValueError(
                f"options['reset_mask'] is {mask!r}; give a bool array of shape ({self.num_envs},) with a True in it"
            )
        if not self._begun and not mask.all():
            raise ValueError(
                "options['reset_mask'] leaves out environments that were never reset; reset all of them first"
            )
        return mask

    def _seed(self, seed: int | Sequence[int | None] | None, rows: np.ndarray) -> None:
        """Restart the streams of environments with a seed. The others continue; at first, they start from entropy."""
        seeds: list[int | None]
        if seed is None:
            seeds = [None] * self.num_envs
        elif isinstance(seed, (list, tuple, np.ndarray)):
            seeds = [None if own is None else checked_seed(own) for own in seed]
        else:
            super().reset(seed=checked_seed(seed))
            seeds = [checked_seed(seed) + i for i in range(self.num_envs)]
        if len(seeds) != self.num_envs:
            raise ValueError(f"{len(seeds)} seeds for {self.num_envs} environments; give one number, or one for each")
        if not self._begun:
            entropy = np.random.SeedSequence().generate_state(self.num_envs, np.uint64)
            seeds = [int(entropy[i]) if s is None else s for i, s in enumerate(seeds)]
        given = rows & np.array([s is not None for s in seeds])
        if given.any():
            self._game.seed([s for s, g in zip(seeds, given, strict=True) if g and s is not None], given)

    def step(self, actions: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        if not self._begun:
            raise RuntimeError("no episode has begun: call reset() before step()")
        game, batch = self._game, self._game.batch
        checked = checked_action(actions, self._shape, self._n_actions)
        game.action[:, : self._m] = checked.reshape(self.num_envs, self._m)
        infos: dict[str, Any] = {}
        if self.autoreset_mode == AutoresetMode.DISABLED and self._over.any():
            raise RuntimeError(
                f"the episodes in environments {np.flatnonzero(self._over).tolist()} are over; with autoreset_mode 'Disabled', "
                'reset them with reset(options={"reset_mask": …}) before step()'
            )
        if self._next_step and self._over.any():
            game.step(playing=~self._over)
            game.reset(self._over)
            for array in (batch.reward, batch.shaped, batch.terminated, batch.truncated):
                array[self._over] = 0
        else:
            game.step()
        rewards, terminations, truncations = batch.shaped.copy(), batch.terminated.copy(), batch.truncated.copy()
        self._over = terminations | truncations
        if self.autoreset_mode == AutoresetMode.SAME_STEP and self._over.any():
            infos = self._final_infos()
            game.reset(self._over)
        infos.update(self._infos(self._all))
        return self._observation(), rewards, terminations, truncations, infos

    def _final_infos(self) -> dict[str, Any]:
        """Return the last observation and info of the episodes that have just ended, before they are reset."""
        over, observation = self._over, self._observation()
        final_obs = np.full(self.num_envs, None, dtype=object)
        for b in np.flatnonzero(over):
            final_obs[b] = observation[b]
        final_info = self._infos(over)
        return {"final_obs": final_obs, "_final_obs": over.copy(), "final_info": final_info, "_final_info": over.copy()}

    def _observation(self) -> np.ndarray:
        return self._game.batch.obs[:, : self._m].reshape(self.num_envs, -1).copy()

    def _infos(self, rows: np.ndarray) -> dict[str, Any]:
        """Return masks, teammates and the world's infos, with Gymnasium's `_key` arrays that say where they are valid."""
        population = self._game.population
        masks = self.action_masks()
        if self._m > 1:
            masks = _tuples(masks)
        found = {"action_mask": masks, "teammate": population.names[population.who]}
        found |= self.world.info(self._game.batch.state)
        return found | {f"_{name}": rows.copy() for name in found}

    def action_masks(self) -> np.ndarray:
        """Return the masks of available actions: int8 (B,A), or (B,m,A) with m > 1 controllable agents."""
        mask = self._game.batch.mask
        return mask[:, 0].copy() if self._m == 1 else mask[:, : self._m].copy()

    def state(self) -> np.ndarray:
        """Return the global states, for centralised training: (B,S) float32."""
        return self._game.batch.global_state()

    def render(self) -> tuple[Any, ...] | None:
        """Return a picture or a text for each environment; None without a render mode."""
        if self.render_mode is None:
            return None
        batch, population = self._game.batch, self._game.population
        return tuple(
            self._screen.show(
                self.world, batch.state, b, batch.clock[b], batch.score[b], population.names[population.who[b]]
            )
            for b in range(self.num_envs)
        )


def _tuples(masks: np.ndarray) -> np.ndarray:
    """Return masks (B,m,A) as an object array (B,) of tuples, as Gymnasium gathers those of single environments."""
    found = np.full(len(masks), None, dtype=object)
    for b, own in enumerate(masks):
        found[b] = tuple(own)
    return found


def _autoreset_mode(mode: str | AutoresetMode) -> AutoresetMode:
    allowed = (AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP, AutoresetMode.DISABLED)
    for candidate in allowed:
        if mode in (candidate, candidate.value, candidate.name):
            return candidate
    raise ValueError(f"autoreset_mode is {mode!r}; allowed are {', '.join(repr(m.value) for m in allowed)}")
