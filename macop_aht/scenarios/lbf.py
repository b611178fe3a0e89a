"""Level-based foraging: agents on a grid must agree on a food, and collect it together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from macop_aht.compiling import njit
from macop_aht.scenarios import lbf_scripts
from macop_aht.scenarios.lbf_scripts import FREE, MOVES, WALL
from macop_aht.scenarios.scene import Area, Body, Scene, seat_role
from macop_aht.scenarios.spec import Cell, Kernels, World, cell, cells, make_whole, require, require_teammate


class Params(NamedTuple):
    """The figures that the kernels read."""

    cells: np.ndarray  # (rows+2, cols+2) the map with a wall around it: FREE, WALL or the food's number
    open_moves: np.ndarray  # (rows, cols, 5) which moves are possible while no food is collected
    beside: np.ndarray  # (rows, cols) 1 where a food is next to the cell
    foods: np.ndarray  # (F,2)
    spawn: np.ndarray  # (S,2)
    max_level: int
    meetings: int


class State(NamedTuple):
    """The arrays that the kernels change."""

    pos: np.ndarray  # (B,N,2) row, column
    level: np.ndarray  # (B,N)
    food: np.ndarray  # (B,F) level; 0 where collected
    met: np.ndarray  # (B,) steps of this episode in which two agents stood side by side


@njit(cache=True)
def reset(params, state, rows, draws):
    """Begin an episode in the environments in `rows` (B,) bool: spawn cells and levels from `draws` (B,2N)."""
    n_agents, n_cells = state.pos.shape[1], params.spawn.shape[0]
    taken = np.empty(n_cells, dtype=np.bool_)
    for b in range(rows.shape[0]):
        if not rows[b]:
            continue
        taken[:] = False
        total = 0
        for i in range(n_agents):
            skip = int(draws[b, i] * (n_cells - i))  # the skip-th of the cells still free
            cell = 0
            while taken[cell] or skip > 0:
                if not taken[cell]:
                    skip -= 1
                cell += 1
            taken[cell] = True
            state.pos[b, i, 0] = params.spawn[cell, 0]
            state.pos[b, i, 1] = params.spawn[cell, 1]
            state.level[b, i] = 1 + int(draws[b, n_agents + i] * params.max_level)
            total += state.level[b, i]
        state.food[b, :] = total
        state.met[b] = 0


@njit(inline="always")
def _side_by_side(row, col, other_row, other_col):
    return abs(row - other_row) + abs(col - other_col) == 1


@njit(cache=True)
def _open_now(cells, food, b, row, col, a):
    """Whether a move leads to a free cell or a collected food. Other agents do not count."""
    content = cells[row + MOVES[a, 0] + 1, col + MOVES[a, 1] + 1]
    return content == FREE or (content >= 0 and food[b, content] == 0)


@njit(cache=True)
def step(params, state, action, draws, reward, terminated):
    """Move all agents, count meetings, and collect foods: `action` (B,N) -> `reward`, `terminated` (B,)."""
    pos, level, food, met = state.pos, state.level, state.food, state.met
    cells, foods, meetings, open_moves, beside = (
        params.cells, params.foods, params.meetings, params.open_moves, params.beside,
    )  # fmt: skip
    n_agents, n_foods = pos.shape[1], food.shape[1]
    target = np.empty((n_agents, 2), dtype=np.int64)
    for b in range(action.shape[0]):
        weakest = food[b, 0]
        for f in range(1, n_foods):
            weakest = min(weakest, food[b, f])
        for i in range(n_agents):
            row, col, a = pos[b, i, 0], pos[b, i, 1], action[b, i]
            # A collected food ends the episode, so moves can usually be looked up.
            moves = open_moves[row, col, a] if weakest > 0 else _open_now(cells, food, b, row, col, a)
            target[i, 0], target[i, 1] = row + moves * MOVES[a, 0], col + moves * MOVES[a, 1]
        for i in range(n_agents):
            alone = True
            for j in range(n_agents):
                if j != i and target[i, 0] == target[j, 0] and target[i, 1] == target[j, 1]:
                    alone = False
            if alone:
                pos[b, i, 0], pos[b, i, 1] = target[i, 0], target[i, 1]

        together, strength = False, 0
        for i in range(n_agents):
            strength += level[b, i] * beside[pos[b, i, 0], pos[b, i, 1]]
            for j in range(i):
                together |= _side_by_side(pos[b, i, 0], pos[b, i, 1], pos[b, j, 0], pos[b, j, 1])
        met[b] += together

        reward[b] = 0.0
        terminated[b] = False
        if strength < weakest:
            continue  # even all agents next to foods, taken together, are too weak for the weakest food
        for f in range(n_foods):
            strength = 0
            for i in range(n_agents):
                if _side_by_side(pos[b, i, 0], pos[b, i, 1], foods[f, 0], foods[f, 1]):
                    strength += level[b, i]
            if 0 < food[b, f] <= strength and not terminated[b]:
                food[b, f] = 0
                terminated[b] = True
                reward[b] = met[b] >= meetings


@njit(cache=True)
def observe(params, state, rows, obs):
    """Write foods, the agent itself and the other agents: `obs` (B,N,D)."""
    pos, food, foods = state.pos, state.food, params.foods
    n_agents, n_foods = pos.shape[1], food.shape[1]
    for b in range(obs.shape[0]):
        if not rows[b]:
            continue
        for i in range(n_agents):
            for f in range(n_foods):
                gone = food[b, f] == 0
                obs[b, i, 2 * f] = -1 if gone else foods[f, 0]
                obs[b, i, 2 * f + 1] = -1 if gone else foods[f, 1]
            at = 2 * n_foods
            obs[b, i, at] = pos[b, i, 0]
            obs[b, i, at + 1] = pos[b, i, 1]
            for j in range(n_agents):
                if j != i:
                    at += 2
                    obs[b, i, at] = pos[b, j, 0]
                    obs[b, i, at + 1] = pos[b, j, 1]


@njit(cache=True)
def mask(params, state, rows, out):
    """Write which actions are available: stay always, a move where its cell is free or its food is collected: `out` (B,N,5)."""
    pos, food, cells, open_moves = state.pos, state.food, params.cells, params.open_moves
    for b in range(out.shape[0]):
        if not rows[b]:
            continue
        usual = True
        for f in range(food.shape[1]):
            usual &= food[b, f] != 0
        for i in range(out.shape[1]):
            row, col = pos[b, i, 0], pos[b, i, 1]
            for a in range(5):
                out[b, i, a] = open_moves[row, col, a] if usual else _open_now(cells, food, b, row, col, a)


@njit(cache=True)
def advance(params, state, action, draws, reward, terminated, rows, obs, out):
    """Step, observe and mask in one call."""
    step(params, state, action, draws, reward, terminated)
    observe(params, state, rows, obs)
    mask(params, state, rows, out)


@dataclass(frozen=True)
class LevelBasedForaging:
    """Agents on a grid collect a food by standing next to it together.

    ### Description
    Every agent has a level, drawn from 1 to `max_level` at every reset. A food's level is the sum of all
    agents' levels. A food is collected when the levels of the agents next to it (4-neighbourhood) add up
    to its level. So all agents must go to the same food, and there are several. There is no load action.

    ### Action space
    | action | name | effect |
    |---|---|---|
    | 0 | stay | stays |
    | 1 | north | row - 1 |
    | 2 | south | row + 1 |
    | 3 | west | column - 1 |
    | 4 | east | column + 1 |

    - A move off the grid or into a food acts as stay. The mask leaves it out.
    - Where two agents want the same cell, neither of them moves there. An agent that stays wants its own
      cell.
    - Two agents may swap cells. As in `lbforaging`, a third agent may enter the cell of an agent that
      was blocked.

    ### Observation space
    The entries of one agent, with F foods and N agents:

    | entries | meaning | range |
    |---|---|---|
    | 0 to 2F-1 | row and column of each food in row-major order | -1, -1 once collected |
    | 2F, 2F+1 | row and column of the agent itself | inside the grid |
    | then 2 each | row and column of the other agents, by index | inside the grid |

    Levels are not observed.

    ### Rewards
    The team's reward is 1 when a food is collected, else 0. It is 0 for the food, too, if the agents
    stood side by side in fewer than `meetings` steps. A step's meeting is counted after the moves and
    before the collection.

    ### Starting state
    Every agent spawns on a cell of its own, drawn from `spawn`.

    ### Episode end
    The episode terminates when a food is collected. It is truncated after `limit` steps.

    ### Arguments
    | argument | default | meaning |
    |---|---|---|
    | `shape` | `(6, 6)` | rows and columns |
    | `foods` | `((0, 0), (0, 5), (5, 0), (5, 5))` | cells of the foods |
    | `spawn` | `((2, 2), (2, 3), (3, 2), (3, 3))` | cells that agents spawn on |
    | `meetings` | `0` | steps side by side that are needed before a food pays |
    | `n_agents` | `2` | number of agents |
    | `controllable` | `1` | number of agents of the ego |
    | `max_level` | `3` | highest level of an agent |
    | `limit` | `25` | steps |

    ### Version history
    - v0: first version
    """

    shape: Cell = (6, 6)  # rows, columns
    foods: tuple[Cell, ...] = ((0, 0), (0, 5), (5, 0), (5, 5))
    spawn: tuple[Cell, ...] = ((2, 2), (2, 3), (3, 2), (3, 3))
    meetings: int = 0  # steps side by side that are needed before a food pays
    n_agents: int = 2
    controllable: int = 1
    max_level: int = 3
    limit: int = 25  # steps

    def __post_init__(self) -> None:
        make_whole(self, meetings=0, n_agents=2, controllable=1, max_level=1, limit=1)
        object.__setattr__(self, "shape", cell("shape", self.shape))
        object.__setattr__(self, "foods", tuple(sorted(cells("foods", self.foods, least=1))))
        object.__setattr__(self, "spawn", cells("spawn", self.spawn, least=2))
        rows, cols = self.shape
        require(rows >= 1 and cols >= 1, f"shape {self.shape} has no cells; give (rows, columns), each at least 1")
        for what, places in (("foods", self.foods), ("spawn", self.spawn)):
            outside = [place for place in places if not (0 <= place[0] < rows and 0 <= place[1] < cols)]
            require(not outside, f"{what} {outside} lie outside the {rows}x{cols} grid; rows and columns count from 0")
            require(len(set(places)) == len(places), f"{what} names a cell twice: {places}")
        require(not set(self.foods) & set(self.spawn), f"spawn cells {set(self.foods) & set(self.spawn)} hold foods")
        require_teammate(self.controllable, self.n_agents)
        require(
            len(self.spawn) >= self.n_agents, f"{len(self.spawn)} spawn cells are too few for {self.n_agents} agents"
        )
        room = max(self._room(food) for food in self.foods)
        require(
            room >= self.n_agents,
            f"no food has room for more than {room} agents next to it, but it takes all {self.n_agents} to collect one",
        )

    def _room(self, food: Cell) -> int:
        """Return how many agents can stand next to the food."""
        row, col = food
        sides = {(row - 1, col), (row + 1, col), (row, col - 1), (row, col + 1)} - set(self.foods)
        return sum(0 <= r < self.shape[0] and 0 <= c < self.shape[1] for r, c in sides)

    def build(self) -> World:
        """Return the world with these parameters."""
        rows, cols = self.shape
        content = np.full((rows + 2, cols + 2), WALL, dtype=np.int64)
        content[1:-1, 1:-1] = FREE
        for f, (row, col) in enumerate(self.foods):
            content[row + 1, col + 1] = f
        open_moves = np.zeros((rows, cols, 5), dtype=np.int8)
        beside = np.zeros((rows, cols), dtype=np.int8)
        for row, col in np.ndindex(rows, cols):
            around = content[row + 1 + MOVES[:, 0], col + 1 + MOVES[:, 1]]  # what the five moves lead to
            open_moves[row, col] = around == FREE
            beside[row, col] = (around[1:] >= 0).any()
        open_moves[:, :, 0] = 1
        things = [f"food{f}" for f in range(len(self.foods))] + ["self"]
        things += [f"other{i}" for i in range(self.n_agents - 1)]
        high = np.array(self.shape * len(things), dtype=np.float32) - 1
        low = np.zeros_like(high)
        low[: 2 * len(self.foods)] = -1
        return World(
            kernels=Kernels(reset, step, observe, mask, advance),
            params=Params(
                content, open_moves, beside, np.array(self.foods), np.array(self.spawn), self.max_level, self.meetings
            ),
            allocate=self._allocate,
            n_agents=self.n_agents,
            controllable=self.controllable,
            limit=self.limit,
            actions=("stay", "north", "south", "west", "east"),
            observations=tuple(f"{thing}_{axis}" for thing in things for axis in ("row", "col")),
            bounds=(low, high),
            state_dim=self.n_agents * 2 * len(things),
            reset_draws=2 * self.n_agents,
            step_draws=0,
            scripts=lbf_scripts.scripts(content, self.foods, self.meetings, self.n_agents),
            scene=self._scene,
            outcome=self._outcome,
        )

    def _allocate(self, size: int) -> State:
        return State(
            pos=np.zeros((size, self.n_agents, 2), dtype=np.int32),
            level=np.ones((size, self.n_agents), dtype=np.int32),
            food=np.ones((size, len(self.foods)), dtype=np.int32),
            met=np.zeros(size, dtype=np.int64),
        )

    def _outcome(self, state: State, b: int) -> str:
        """Return which food was collected. With one food only: from which cells."""
        collected = [food for food, level in zip(self.foods, state.food[b], strict=True) if level == 0]
        if not collected:
            return ""
        if len(self.foods) == 1:
            return "from " + " ".join(f"{row},{col}" for row, col in state.pos[b])
        return "food " + " ".join(f"{row},{col}" for row, col in collected)

    def _scene(self, state: State, b: int) -> Scene:
        rows, cols = self.shape

        def body(key: str, row: int, col: int, **looks: Any) -> Body:
            return Body(key, col + 0.5, rows - row - 0.5, **looks)

        levels, places = state.food[b].tolist(), state.pos[b].tolist()
        things = [
            body(f"food{f}", *self.foods[f], radius=0.3, role="food", label=str(level), glyph="F")
            for f, level in enumerate(levels)
            if level > 0
        ]
        for i, level in enumerate(state.level[b].tolist()):
            role = seat_role(i, self.controllable)
            things.append(
                body(f"agent{i}", *places[i], radius=0.36, role=role, label=str(level), glyph=str(i), agent=i)
            )
        return Scene(Area(0, 0, cols, rows), tuple(things), grid=self.shape)
