"""Any team's environment as a world: PettingZoo's, Gymnasium's with Tuple spaces, and those with SMAC's interface."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, get_args

import numpy as np

from macop_aht.scenarios.batch import Batch
from macop_aht.scenarios.external.batch import ExternalBatch, Pool, State
from macop_aht.scenarios.external.errors import ExternalError
from macop_aht.scenarios.external.layout import Layout
from macop_aht.scenarios.external.opening import Infos, describe, opened
from macop_aht.scenarios.external.smac import SmacTeam, from_smac
from macop_aht.scenarios.external.team import Recipe
from macop_aht.scenarios.external.workers import use_workers
from macop_aht.scenarios.scene import Scene
from macop_aht.scenarios.spec import Kernels, OwnScript, World, no_info, whole
from macop_aht.util import hint

__all__ = ["External", "ExternalError", "SmacTeam", "from_smac", "use_workers"]

Rewards = Literal["sum", "mean", "ego"]


@dataclass(frozen=True)
class External:
    """An environment that is not the suite's own, as a family like the others.

    ```python
    macop_aht.register("Spread", External(make=simple_spread_v3.parallel_env, ego=1, limit=25))
    env = gym.make("MacopSpread-v0", teammate="random")
    ```

    `make` returns a new environment: PettingZoo's parallel form, its AEC form, a Gymnasium environment with Tuple spaces (as
    `lbforaging`), or `from_smac(...)`. It is called as `make(seed)` if it has a parameter `seed`.

    - Actions are discrete. Masks are read from `info["action_mask"]`, or from Dict observations. An action that is not
      available acts as the first one that is.
    - Observations of Box, Discrete, MultiDiscrete and MultiBinary spaces, and of Dicts and Tuples of these, become one vector
      with named entries. Agents with unlike spaces are padded.
    - Agents may leave before the others; they then observe zeros, and only their action 0 is available.
    - The global state is that of `state()`; without it, it is all observations.
    - Every episode is reset with a seed of its own. The first one's is the seed that `reset` is given.
    - Pictures are those of the environment's own `render`.
    """

    make: Callable[..., Any]  # returns a new environment
    ego: int | tuple[Hashable, ...] = 1  # the ego's agents: their names, or how many, from the first
    limit: int | None = None  # steps; None: what the environment says
    reward: Rewards = "sum"  # how the agents' rewards become the team's; ego: the sum of the ego's
    shaping: Callable[[Any, Infos], float] | None = (
        None  # (env, infos) -> what is added to the reward that is learnt from
    )
    scripts: Mapping[str, Any] = field(default_factory=dict, hash=False)  # scripted teammates: policies or callables
    outcome: Callable[[Any, Infos], str] | None = None  # (env, infos) -> label of how an episode ended
    most: int = 256  # environments that are alive at the same time, where more episodes are to be played

    def __post_init__(self) -> None:
        if not callable(self.make):
            raise TypeError(
                f"make is {self.make!r}, an environment; give the function that makes it, such as simple_spread_v3.parallel_env "
                "without ()"
            )
        if isinstance(self.ego, str):
            raise TypeError(f"ego is {self.ego!r}; give a list of names, such as [{self.ego!r}], or a number of agents")
        if isinstance(self.ego, (int, np.integer)):
            object.__setattr__(self, "ego", int(self.ego))
        else:
            object.__setattr__(self, "ego", tuple(self.ego))
        if self.limit is not None:
            object.__setattr__(self, "limit", whole("limit", self.limit, 1))
        object.__setattr__(self, "most", whole("most", self.most, 1))
        if self.reward not in get_args(Rewards):
            raise ValueError(f"reward is {self.reward!r}; {hint(str(self.reward), get_args(Rewards))}")
        for name in ("shaping", "outcome"):
            value = getattr(self, name)
            if value is not None and not callable(value):
                raise TypeError(f"{name} is {value!r}; give a function (env, infos), or leave it out")
        self._check_scripts()

    def _check_scripts(self) -> None:
        if not isinstance(self.scripts, Mapping):
            raise TypeError(f"scripts is {self.scripts!r}; give a dictionary of policies by name")
        for name, script in self.scripts.items():
            usable = callable(script) or callable(getattr(script, "act", None))
            if not isinstance(name, str) or not usable:
                raise TypeError(
                    f"scripts has {script!r} as {name!r}; give a name, and a policy or a callable (obs, mask) -> action"
                )

    def build(self) -> World:
        """Return the world of this environment. One environment is made to see what it is like."""
        _, form = opened(self.make, 0)
        layout = describe(self.make, form, self.ego, self.limit)
        recipe = Recipe(self.make, layout, self.reward, self.shaping, self.outcome)
        pool = Pool(recipe)
        if callable(getattr(form, "close", None)):
            form.close()
        low, high = layout.bounds
        size = layout.state_dim or len(layout.agents) * layout.entries
        unbounded = np.full(size, np.inf, dtype=np.float32)
        return World(
            kernels=Kernels(*[_no_kernel] * 5),
            params=None,
            allocate=_no_state,
            n_agents=len(layout.agents),
            controllable=layout.controllable,
            limit=layout.limit,
            actions=layout.actions,
            observations=layout.observations,
            bounds=(low, high),
            state_dim=size,
            reset_draws=0,
            step_draws=0,
            scripts={name: OwnScript(_about(script), script) for name, script in self.scripts.items()},
            scene=_scene,
            outcome=_outcome,
            info=_info_of(layout, self.shaping is not None),
            state_bounds=(-unbounded, unbounded) if layout.state_dim else None,
            make_batch=partial(_batch, pool, self.most),
        )


def _batch(pool: Pool, most: int, world: World, size: int) -> Batch:
    return ExternalBatch(world, size, pool, most)


def _no_kernel(*arguments: Any) -> None:
    raise TypeError("an external world has no kernels; macop_aht.scenarios.batch.make_batch returns its environments")


def _no_state(size: int) -> None:
    return None


def _scene(state: State, b: int) -> Scene:
    """Return the environment's own picture."""
    return Scene(picture=state.batch().picture(b))


def _outcome(state: State, b: int) -> str:
    """Return the user's label; where there is none, whether a battle was won."""
    return str(state.outcome[b]) or ("won" if state.won[b] else "")


def _info_of(layout: Layout, shaped: bool) -> Callable[[State], Mapping[str, np.ndarray]]:
    if not layout.battles and not shaped:
        return no_info

    def info(state: State) -> Mapping[str, np.ndarray]:
        won = {"battle_won": state.won, "connection_lost": state.void} if layout.battles else {}
        return {**won, "sparse_reward": state.sparse} if shaped else won

    return info


def _about(script: Any) -> str:
    return ((getattr(script, "__doc__", None) or "").strip().split("\n")[0]) or "a script of yours"
