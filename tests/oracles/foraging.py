"""The slow twin of the grid kernel: lbforaging moves the agents and finds neighbours, plain Python does the rest."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from lbforaging.foraging.environment import Action, ForagingEnv

Cell = tuple[int, int]
MOVES = (Action.NONE, Action.NORTH, Action.SOUTH, Action.WEST, Action.EAST)  # our actions 0..4, in order


class Foraging(ForagingEnv):
    """One game of lbforaging without its LOAD action, in a state put in from outside.

    `ForagingEnv.step` moves, `adjacent_players` finds neighbours, `_is_valid_action` gives the mask. Not used are its
    spawns, its loading (`adjacent_food_location` overlooks a food in row or column 0) and its observation.
    """

    def __init__(
        self, shape: Cell, foods: Sequence[Cell], n_agents: int = 2, meetings: int = 0, limit: int = 25
    ) -> None:
        super().__init__(
            players=n_agents, min_player_level=1, max_player_level=3, min_food_level=1, max_food_level=None,
            field_size=shape, max_num_food=len(foods), sight=max(shape), max_episode_steps=limit, force_coop=True,
        )  # fmt: skip
        self.foods = sorted(foods)  # row-major order
        self.meetings, self.limit, self.met = meetings, limit, 0

    def inject(
        self, pos: Sequence[Cell], level: Sequence[int], food: Sequence[int], met: int = 0, clock: int = 0
    ) -> None:
        """Begin in this state: a cell and a level per agent, a level per food (0: collected), meetings and steps so far."""
        for player, (row, col), strength in zip(self.players, pos, level, strict=True):
            player.setup((int(row), int(col)), int(strength), self.field_size)
        self.field[:] = 0
        for cell, strength in zip(self.foods, food, strict=True):
            self.field[cell] = strength
        self.met, self.current_step = int(met), int(clock)
        self._gen_valid_moves()

    def step(self, actions: Sequence[int]) -> tuple[list[list[float]], float, bool, bool, dict]:
        """Move as lbforaging does, count the meeting, collect."""
        super().step([MOVES[a] for a in actions])
        self.met += any(self.adjacent_players(*player.position) for player in self.players)
        reward, terminated = self._load()
        truncated = self.current_step >= self.limit and not terminated
        return self.observation(), reward, terminated, truncated, {}

    def _load(self) -> tuple[float, bool]:
        """Collect the first food with enough strength next to it, and end the episode."""
        for cell in self.foods:
            strength = sum(player.level for player in self.adjacent_players(*cell))
            if self.field[cell] > 0 and strength >= self.field[cell]:
                self.field[cell] = 0
                return float(self.met >= self.meetings), True
        return 0.0, False

    def observation(self) -> list[list[float]]:
        """Return what each agent observes: foods, itself, the other agents."""
        foods = [x for cell in self.foods for x in (cell if self.field[cell] > 0 else (-1, -1))]
        rows = []
        for player in self.players:
            others = [x for other in self.players if other is not player for x in other.position]
            rows.append([*foods, *player.position, *others])
        return rows

    def mask(self) -> list[list[int]]:
        """Return 1 for possible actions: (N,5)."""
        return [[int(self._is_valid_action(player, move)) for move in MOVES] for player in self.players]

    def state(self) -> dict[str, np.ndarray]:
        """Return everything that changes, with the names of the kernel's state."""
        return {
            "pos": np.array([player.position for player in self.players]),
            "level": np.array([player.level for player in self.players]),
            "food": np.array([self.field[cell] for cell in self.foods]),
            "met": np.array(self.met),
        }

    def _make_gym_obs(self) -> tuple:
        return ()  # lbforaging's own observation does not fit: its bounds take rows for columns
