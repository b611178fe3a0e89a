"""One environment of the user's, which writes what its agents see and get into arrays."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np

from macop_aht.scenarios.external.errors import ExternalError, require
from macop_aht.scenarios.external.layout import MASK, Layout
from macop_aht.scenarios.external.opening import Infos, begun, opened, reseeds, takes
from macop_aht.scenarios.external.smac import SmacTeam

SEEDS = 2**31  # environments differ in what they accept; all accept less than this


@dataclass(frozen=True)
class Recipe:
    """How an environment is made and read: all that a worker process needs to know."""

    make: Callable[..., Any]
    layout: Layout
    reward: str  # "sum", "mean" or "ego"
    shaping: Callable[[Any, Infos], float] | None
    outcome: Callable[[Any, Infos], str] | None


class Team:
    """An environment that plays one episode after the other."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        layout = recipe.layout
        self._number = {agent: i for i, agent in enumerate(layout.agents)}
        self._usual = np.arange(len(layout.actions)) < np.array(layout.counts)[:, None]  # masks without masks
        self._uneven, self._masked = not self._usual.all(), any(layout.masks)
        self._egos = layout.agents[: layout.controllable]
        self._env: Any = None  # made when it is needed
        self._form: Any = None  # in parallel form
        self._live: list[Hashable] = []  # agents in the game
        self._painter: _Painter | None = None
        self.infos: Infos = {}

    def begin(self, seed: int, first: bool, obs: np.ndarray, mask: np.ndarray, **more: Any) -> None:
        """Begin an episode, and write `obs` (N,D) and `mask` (N,A). `first`: it is the first one of its seed."""
        make = self.recipe.make
        if self._form is None or (first and takes(make, "seed") and not reseeds(self._form)):
            self.close()
            self._env, self._form = opened(make, seed, **more)
        seen, self.infos = begun(self._form, seed)
        self._live = list(self._form.agents)
        self._check_agents([])
        obs[:] = 0.0
        mask[:] = self._usual
        self._look(seen, False, obs, mask)

    def step(self, action: np.ndarray, obs: np.ndarray, mask: np.ndarray) -> tuple[float, float, bool, bool]:
        """Act, and write what is seen then. Returns the team's reward, the shaped one, `terminated` and `truncated`."""
        form, recipe = self._form, self.recipe
        found = form.step(self._given(action, mask))
        if not (isinstance(found, tuple) and len(found) == 5):
            raise ExternalError(
                "step returned something else than (observations, rewards, terminations, truncations, infos); an older "
                "environment needs a wrapper that returns these five"
            )
        seen, rewards, over, cut, self.infos = found
        reward = self._paid(rewards)
        shaped = reward if recipe.shaping is None else reward + self._shaped()
        ended = not form.agents
        if not ended and (True in over.values() or True in cut.values()):
            ended = all(over.get(agent) or cut.get(agent) for agent in self._live)
        self._look(seen, ended, obs, mask)
        if not ended:
            return reward, shaped, False, False
        truncated = any(cut[agent] and not over.get(agent) for agent in cut)
        return reward, shaped, not truncated, truncated

    def _given(self, action: np.ndarray, mask: np.ndarray) -> dict[Hashable, int]:
        """Return the actions of the agents in the game; one that is not available acts as the first one that is."""
        layout, chosen = self.recipe.layout, action.tolist()
        if self._masked or self._uneven:
            for i, a in enumerate(chosen):
                if not mask[i, a]:
                    chosen[i] = int(mask[i].argmax())
        if any(layout.starts):
            chosen = [a + start for a, start in zip(chosen, layout.starts, strict=True)]
        if len(self._live) == len(chosen):
            return dict(zip(layout.agents, chosen, strict=True))
        return {agent: chosen[self._number[agent]] for agent in self._live}

    def _paid(self, rewards: Any) -> float:
        """Return the team's reward."""
        try:
            if not isinstance(rewards, Mapping):
                total = float(rewards)
            elif self.recipe.reward == "ego":
                total = float(sum(rewards.get(agent, 0.0) for agent in self._egos))
            else:
                total = float(sum(rewards.values()))
                total = total / len(self._number) if self.recipe.reward == "mean" else total
        except (TypeError, ValueError) as error:
            raise ExternalError(f"the rewards are {rewards!r}; give a number for each agent") from error
        require(
            isfinite(total),
            f"the rewards are {rewards!r}; they must be finite numbers. Correct the environment's reward",
        )
        return total

    def _shaped(self) -> float:
        assert self.recipe.shaping is not None
        more = self.recipe.shaping(self._env, self.infos)
        if not isinstance(more, (int, float, np.number)) or not isfinite(more):
            raise ExternalError(
                f"shaping returned {more!r}; it returns a finite number that is added to the team's reward"
            )
        return float(more)

    def _look(self, seen: Mapping[Hashable, Any], ended: bool, obs: np.ndarray, mask: np.ndarray) -> None:
        layout, live = self.recipe.layout, self._form.agents
        if live != self._live and not ended:
            before, self._live = self._live, list(live)
            self._check_agents(before)
        in_game = self._live
        for i, agent in enumerate(layout.agents):
            if agent in seen and agent in in_game:
                layout.readers[i].read(seen[agent], obs[i])
            elif agent not in in_game:
                obs[i], mask[i] = 0.0, 0
                mask[i, 0] = 1  # whoever has left can do nothing
            elif not ended:
                raise ExternalError(
                    f"there is no observation of agent {agent!r}, which is in the game; return one for each"
                )
        if self._masked:
            self._read_masks(seen, ended, mask)
        if not isfinite(obs.sum()):
            raise ExternalError(
                f"an observation holds NaN or infinity: {seen!r}; correct the environment's observations"
            )

    def _check_agents(self, before: list[Hashable]) -> None:
        strangers = [agent for agent in self._live if agent not in self._number]
        require(
            not strangers,
            f"the agents {strangers} are in the game and not in possible_agents, {list(self._number)}; possible_agents has all "
            "that can ever appear",
        )
        back = [agent for agent in self._live if before and agent not in before]
        require(not back, f"the agents {back} came back during an episode; agents may leave, but not join")

    def _read_masks(self, seen: Mapping[Hashable, Any], ended: bool, mask: np.ndarray) -> None:
        layout = self.recipe.layout
        for agent in self._live:
            i = self._number[agent]
            if not layout.masks[i]:
                continue
            told = (self.infos if layout.masks[i] == "info" else seen).get(agent)
            found = told.get(MASK) if isinstance(told, Mapping) else None
            if found is None:
                require(ended, f"there is no action_mask for agent {agent!r}; give one in every step, or never")
                continue
            count = layout.counts[i]
            require(
                len(found) == count, f"the action_mask of agent {agent!r} has {len(found)} entries, for {count} actions"
            )
            mask[i, :count] = found
            require(
                ended or mask[i].any(),
                f"the action_mask of agent {agent!r} is all zeros; leave at least one action, such as doing nothing",
            )
            if ended and not mask[i].any():
                mask[i, 0] = 1

    # --- Beside the game

    @property
    def lost(self) -> bool:
        """Return whether the connection to the game was lost, so that the episode is void."""
        return bool(getattr(self._form, "lost", False))

    @property
    def won(self) -> bool:
        """Return whether the battle is won; false where there are no battles."""
        return bool(getattr(self._form, "battle_won", False))

    def state(self) -> np.ndarray:
        """Return the environment's own state: (S,) float32."""
        found = np.asarray(self._form.state(), dtype=np.float32).reshape(-1)
        size = self.recipe.layout.state_dim
        require(
            len(found) == size, f"state() has {len(found)} entries now, and had {size} at first; it must not change"
        )
        return found

    def outcome(self) -> str:
        """Return the user's label of how the episode ended."""
        if self.recipe.outcome is None:
            return ""
        found = self.recipe.outcome(self._env, self.infos)
        require(isinstance(found, str), f"outcome returned {found!r}; it returns a label, or '' where nothing was done")
        return found

    def picture(self, seed: int, actions: np.ndarray) -> np.ndarray:
        """Return the environment's own picture of an episode after these actions: (height, width, 3) uint8.

        Without pictures of its own, another environment is made with them, and the episode is played again in it.
        """
        if isinstance(self._form, SmacTeam) or getattr(self._form, "render_mode", None) == "rgb_array":
            return self.rendered()
        painter = self._painter = self._painter or _Painter(self.recipe)
        return painter.picture(seed, actions)

    def rendered(self) -> np.ndarray:
        """Return what `render` returns."""
        found = self._form.render()
        require(
            isinstance(found, np.ndarray) and found.ndim == 3,
            f"render() returned a {type(found).__name__}; with render_mode='rgb_array' it returns a picture (height, width, 3)",
        )
        return np.asarray(found[..., :3], dtype=np.uint8)

    def close(self) -> None:
        """Close the environments."""
        if self._painter is not None:
            self._painter.team.close()
            self._painter = None
        if self._form is not None:
            self._form.close() if callable(getattr(self._form, "close", None)) else None
            self._form = self._env = None


class _Painter:
    """Another environment, with pictures, in which an episode is played again."""

    def __init__(self, recipe: Recipe) -> None:
        require(
            takes(recipe.make, "render_mode", keywords=True),
            "this environment draws nothing: let make take render_mode, or return one with render_mode='rgb_array'",
        )
        self.team, layout = Team(recipe), recipe.layout
        self._obs = np.zeros((len(layout.agents), layout.entries), dtype=np.float32)
        self._mask = np.zeros((len(layout.agents), len(layout.actions)), dtype=np.int8)
        self._seed, self._done = -1, 0  # of the episode that it plays, and its steps

    def picture(self, seed: int, actions: np.ndarray) -> np.ndarray:
        """Return the picture of an episode after these actions."""
        if self._seed != seed or self._done > len(actions):
            self.team.begin(seed, True, self._obs, self._mask, render_mode="rgb_array")
            self._seed, self._done = seed, 0
        for action in actions[self._done :]:
            self.team.step(action, self._obs, self._mask)
        self._done = len(actions)
        return self.team.rendered()
