"""The common part of the single and the vector environment: a batch with teammates inside, spaces, seeds, checks."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from macop_aht.compiling import njit
from macop_aht.policies import resolve
from macop_aht.policies.population import Population
from macop_aht.scenarios import Family, Scenario, build_with
from macop_aht.scenarios.batch import make_batch
from macop_aht.scenarios.spec import World
from macop_aht.util import hint

ARGUMENTS = ("teammate", "episodes_per_teammate", "render_mode")
OPTIONS = ("teammate",)


class Game:
    """B environments in which a population of teammates plays all agents but the ego's."""

    def __init__(
        self,
        scenario: str | Scenario | Family | World,
        teammate: Any,
        size: int,
        episodes_per_teammate: int,
        changes: dict[str, Any],
    ) -> None:
        self.world: World = build_with(scenario, changes, also=ARGUMENTS)
        self.batch = make_batch(self.world, size)
        name = scenario if isinstance(scenario, str) else getattr(scenario, "name", "")
        self.population = Population(resolve(teammate, self.world, name), self.batch, episodes_per_teammate)
        self.action = np.zeros((size, self.world.n_agents), dtype=np.int64)
        self.observation_space, self.action_space = spaces_of(self.world)

    def seed(self, seeds: Sequence[int], rows: np.ndarray) -> None:
        """Seed the environments in `rows`, (B,) bool: one seed for each of them."""
        self.batch.seed(seeds, rows)
        self.population.seed(seeds, rows)

    def chosen(self, options: dict[str, Any] | None) -> int | None:
        """Return the number of the teammate that the options of `reset` ask for, or None.

        This call comes first, so that a mistake in the options changes nothing.
        """
        given = checked_options(options)
        warn_of_unknown(given, OPTIONS)
        wanted = given.get("teammate")
        return None if wanted is None else self.population.index(wanted)

    def reset(self, rows: np.ndarray, chosen: int | None = None) -> None:
        """Begin an episode in the environments in `rows`, (B,) bool."""
        self.batch.reset(rows)
        self.population.begin(rows, chosen)

    def step(self, playing: np.ndarray | None = None) -> None:
        """Step all environments. The ego's actions are in `action[:, :m]`; the teammates add theirs.

        `playing` (B,) bool is false where the episode is over. No agent acts there, and the results there are meaningless.
        """
        self.population.act(self.action, playing)
        self.batch.step(self.action)


def checked_options(options: Any) -> Mapping[str, Any]:
    """Return the options of `reset`, none for None. Raises `TypeError` unless they are a dictionary."""
    if options is not None and not isinstance(options, Mapping):
        raise TypeError(f"options is {options!r}; give a dictionary, such as {{'teammate': 'nearest'}}")
    return options or {}


def warn_of_unknown(options: Mapping[str, Any], known: tuple[str, ...]) -> None:
    """Warn of every reset option that is not known."""
    for name in set(options) - set(known):
        told = hint(name, known) if known else "none are known here"
        warnings.warn(f"unknown reset option {name!r}; {told}", stacklevel=4)


def checked_seed(seed: Any) -> int:
    """Return a seed as an int. Raises `ValueError` unless it is a whole number, 0 or more."""
    if not isinstance(seed, (int, np.integer)) or seed < 0:
        raise ValueError(f"seed is {seed!r}; give a whole number, 0 or more")
    return int(seed)


def with_limit(spec: Any, world: World) -> Any:
    """Return a Gymnasium spec that says after how many steps the world truncates an episode."""
    if spec is None:
        return None
    changed = copy.copy(spec)
    changed.max_episode_steps = world.limit
    return changed


def spaces_of(world: World) -> tuple[spaces.Box, spaces.Discrete | spaces.MultiDiscrete]:
    """Return the observation space and the action space of the ego.

    One controllable agent has its own spaces. Of several, the observations are concatenated, and each has an action.
    """
    low, high = (np.tile(bound, world.controllable) for bound in world.bounds)
    observation = spaces.Box(low, high, dtype=np.float32)
    if world.controllable == 1:
        return observation, spaces.Discrete(len(world.actions))
    return observation, spaces.MultiDiscrete([len(world.actions)] * world.controllable)


@njit(cache=True)
def _within(actions, n_actions):
    for k in range(actions.shape[0]):  # noqa: SIM110 - compiled
        if not 0 <= actions[k] < n_actions:
            return False
    return True


def checked_action(action: Any, shape: tuple[int, ...], n_actions: int) -> np.ndarray:
    """Return the ego's actions as int64 of the given shape. Raises `ValueError` for other shapes, types and values."""
    given = np.asarray(action)
    if given.shape != shape:
        raise ValueError(
            f"action has the shape {given.shape}, expected {shape}; action_space.sample() gives a valid one"
        )
    if given.dtype.kind not in "iu":
        raise ValueError(f"action {action!r} is not made of whole numbers; allowed are 0..{n_actions - 1}, as integers")
    given = given.astype(np.int64, copy=False)
    if not _within(given.reshape(-1), n_actions):
        raise ValueError(f"action {action!r} is not in 0..{n_actions - 1}; see info['action_mask']")
    return given
