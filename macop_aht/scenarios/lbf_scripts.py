"""Scripted foragers: who goes to which food, by which way.

All of them share one way of walking: every agent next to the food claims the side it stands on, the others claim the
nearest free side in the order of their indices, and each walks the shortest way around the foods to the side it claimed.
Who wanted to move and could not, tries something else half of the time. Where the world asks for meetings, they
meet first: the agent of lower index waits for the other.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from macop_aht.compiling import njit
from macop_aht.scenarios.spec import Cell, Script

FOOD, NEAREST, FARTHEST, FOLLOW, WAIT, VIA = range(6)
CHOICE, MET, LAST_ROW, LAST_COL, WANTED, STEPS, PASSED = range(7)  # the memory's columns
MEMORY: Final = 7
DRAWS: Final = 2
FREE, WALL = -1, -2  # a cell of the map holds one of these, or the index of the food that stands on it
MOVES = np.array([[0, 0], [-1, 0], [1, 0], [0, -1], [0, 1]], dtype=np.int64)
FAR: Final = 10_000


class Map(NamedTuple):
    """What a script must know of the world."""

    foods: np.ndarray  # (F,2)
    way: np.ndarray  # (cells,cells) steps from one cell to another around the foods, FAR where there is no way
    via: np.ndarray  # (V,2) the cells that paths lead through
    cols: int
    rows: int
    meetings: int
    n_agents: int


def _ways(content: np.ndarray) -> np.ndarray:
    """Shortest ways between all pairs of cells that hold no food, by breadth-first search."""
    count = (content.shape[0] - 2) * (content.shape[1] - 2)
    way = np.full((count, count), FAR, dtype=np.int16)
    _search(content, way)
    return way


@njit(cache=True)
def _search(content, way):
    rows, cols = content.shape[0] - 2, content.shape[1] - 2  # the wall is not counted
    queue = np.empty(rows * cols, dtype=np.int64)
    for start in range(rows * cols):
        if content[start // cols + 1, start % cols + 1] != FREE:
            continue
        way[start, start] = 0
        queue[0] = start
        head, tail = 0, 1
        while head < tail:
            cell = queue[head]
            head += 1
            for a in range(1, 5):
                row, col = cell // cols + MOVES[a, 0], cell % cols + MOVES[a, 1]
                if content[row + 1, col + 1] == FREE and way[start, row * cols + col] == FAR:
                    way[start, row * cols + col] = way[start, cell] + 1
                    queue[tail] = row * cols + col
                    tail += 1


@njit(inline="always")
def _apart(row, col, other_row, other_col):
    return abs(row - other_row) + abs(col - other_col)


@njit(cache=True)
def _positions(world, row_obs, agent, pos):
    """All agents' cells, in the order of their indices, from one agent's observation."""
    at = 2 * world.foods.shape[0]
    pos[agent, 0], pos[agent, 1] = int(row_obs[at]), int(row_obs[at + 1])
    for i in range(world.n_agents):
        if i != agent:
            at += 2
            pos[i, 0], pos[i, 1] = int(row_obs[at]), int(row_obs[at + 1])


@njit(cache=True)
def _together(pos):
    """Whether any two agents stand side by side: `pos` (N,2)."""
    for i in range(pos.shape[0]):
        for j in range(i):
            if _apart(pos[i, 0], pos[i, 1], pos[j, 0], pos[j, 1]) == 1:
                return True
    return False


@njit(cache=True)
def _extreme_food(world, row, col, farthest):
    best, best_way = 0, -FAR * FAR
    for f in range(world.foods.shape[0]):
        away = _apart(row, col, world.foods[f, 0], world.foods[f, 1])
        score = away if farthest else -away
        if score > best_way:
            best, best_way = f, score
    return best


@njit(cache=True)
def _food_with_company(world, pos, agent):
    """The food that another agent already stands next to, or -1."""
    for f in range(world.foods.shape[0]):
        for i in range(world.n_agents):
            if i != agent and _apart(pos[i, 0], pos[i, 1], world.foods[f, 0], world.foods[f, 1]) == 1:
                return f
    return -1


@njit(cache=True)
def _side(world, pos, agent, food):
    """The cell next to the food that is this agent's: the ones there first, then by index the nearest free."""
    taken = np.zeros(5, dtype=np.bool_)
    mine = -1
    for settled in (True, False):
        for i in range(world.n_agents):
            best, best_way = -1, FAR
            here = _apart(pos[i, 0], pos[i, 1], world.foods[food, 0], world.foods[food, 1]) == 1
            if here != settled:
                continue
            for a in range(1, 5):
                row, col = world.foods[food, 0] + MOVES[a, 0], world.foods[food, 1] + MOVES[a, 1]
                if taken[a] or not (0 <= row < world.rows and 0 <= col < world.cols):
                    continue
                way = world.way[pos[i, 0] * world.cols + pos[i, 1], row * world.cols + col]
                if way < best_way:
                    best, best_way = a, way
            if best >= 0:
                taken[best] = True
                if i == agent:
                    mine = (world.foods[food, 0] + MOVES[best, 0]) * world.cols + world.foods[food, 1] + MOVES[best, 1]
    return mine


@njit(cache=True)
def _towards(world, row, col, goal, row_mask):
    """The available move that shortens the way to the goal cell, 0 where there is none."""
    best, best_way = 0, world.way[row * world.cols + col, goal]
    for a in range(1, 5):
        if row_mask[a]:
            way = world.way[(row + MOVES[a, 0]) * world.cols + col + MOVES[a, 1], goal]
            if way < best_way:
                best, best_way = a, way
    return best


@njit(cache=True)
def _destination(world, code, argument, pos, agent, memory):
    """The food to go to now, or -1 to stay."""
    row, col = pos[agent, 0], pos[agent, 1]
    ego = 0 if agent != 0 else 1
    if code == FOOD:
        return argument
    if code == VIA:
        return _extreme_food(world, row, col, False)
    if code == FOLLOW:
        return _extreme_food(world, pos[ego, 0], pos[ego, 1], False)
    if memory[CHOICE] == 0 and code == WAIT:
        memory[CHOICE] = 1 + _food_with_company(world, pos, agent)
    elif memory[CHOICE] == 0:
        memory[CHOICE] = 1 + _extreme_food(world, row, col, code == FARTHEST)
    return int(memory[CHOICE]) - 1


@njit(cache=True)
def act(world, code, argument, obs, mask, agents, memory, draws, action):
    """One step of a script: `obs` (R,D), `mask` (R,A), `agents` (R,), `memory` (R,H), `draws` (R,2) -> `action` (R,)."""
    pos = np.empty((world.n_agents, 2), dtype=np.int64)
    for r in range(obs.shape[0]):
        agent = agents[r]
        _positions(world, obs[r], agent, pos)
        row, col = pos[agent, 0], pos[agent, 1]
        other = 0 if agent != 0 else 1
        if memory[r, STEPS] > 0 and _together(pos):
            memory[r, MET] += 1

        food = _destination(world, code, argument, pos, agent, memory[r])
        choice = 0
        if code == VIA and memory[r, PASSED] == 0:
            goal = world.via[argument, 0] * world.cols + world.via[argument, 1]
            choice = _towards(world, row, col, goal, mask[r])
            memory[r, PASSED] = world.way[row * world.cols + col, goal] <= 1
        if food >= 0 and not (code == VIA and memory[r, PASSED] == 0):
            side = _side(world, pos, agent, food)
            if side >= 0 and memory[r, MET] < world.meetings and world.way[row * world.cols + col, side] <= 1:
                # About to load too early: meet first. The higher index walks, the lower waits.
                choice = 0
                if agent > other and _apart(row, col, pos[other, 0], pos[other, 1]) > 1:
                    choice = _towards(world, row, col, pos[other, 0] * world.cols + pos[other, 1], mask[r])
            elif side >= 0:
                choice = _towards(world, row, col, side, mask[r])

        stuck = memory[r, STEPS] > 0 and memory[r, WANTED] != 0
        stuck = stuck and row == memory[r, LAST_ROW] and col == memory[r, LAST_COL]
        if stuck and draws[r, 0] < 0.5:
            choice = int(draws[r, 1] * 5)
            if not mask[r, choice]:
                choice = 0
        memory[r, LAST_ROW], memory[r, LAST_COL], memory[r, WANTED] = row, col, choice
        memory[r, STEPS] += 1
        action[r] = choice


def scripts(content: np.ndarray, foods: tuple[Cell, ...], meetings: int, n_agents: int) -> dict[str, Script]:
    """The scripts of a foraging world by name: one per food, the general ones, and paths where there is one food only.

    `content` is the map with a wall around it.
    """
    rows, cols = content.shape[0] - 2, content.shape[1] - 2
    via = ((rows - 1, 0), (0, cols - 1), (rows // 2, cols // 2))
    world = Map(np.array(foods), _ways(content), np.array(via), cols, rows, meetings, n_agents)

    def script(about: str, code: int, argument: int = 0) -> Script:
        return Script(about, act, world, code, argument, MEMORY, DRAWS)

    corners = {(0, 0): "nw", (0, cols - 1): "ne", (rows - 1, 0): "sw", (rows - 1, cols - 1): "se"}
    named = {}
    for f, cell in enumerate(foods):
        name = f"corner-{corners[cell]}" if cell in corners else f"food-{f}"
        named[name] = script(f"goes to the food at {cell}", FOOD, f)
    named["nearest"] = script("goes to the food that is nearest to it at the start", NEAREST)
    named["farthest"] = script("goes to the food that is farthest from it at the start", FARTHEST)
    named["follow-ego"] = script("goes to the food that the ego is nearest to now", FOLLOW)
    named["wait-then-join"] = script("stays until the ego stands next to a food, then joins it", WAIT)
    paths = {"south": "the south-west corner", "east": "the north-east corner", "diagonal": "the centre"}
    for v, (name, place) in enumerate(paths.items()):
        if len(foods) == 1 and via[v] not in foods:
            named[f"path-{name}"] = script(f"walks by way of {place}, then to the food", VIA, v)
    return named
