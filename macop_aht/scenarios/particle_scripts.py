"""Scripted predators and navigators: who goes where, and one way of steering there.

Steering looks ahead: of the five actions, the one is taken that would leave the body nearest to its goal after a
short coast. Goals come from the observation alone.
"""

from __future__ import annotations

from itertools import permutations
from typing import Final, NamedTuple

import numpy as np

from macop_aht.compiling import njit
from macop_aht.scenarios.spec import Point, Script

PREY, NEAREST_PREY, EGOS_PREY, FLANKER = range(4)
LANDMARK, NEAREST, FARTHEST, LEFT_FREE = range(4)
CHOICE = 0  # the memory's only column
MEMORY: Final = 1
DT: Final = 0.1  # seconds per step
DAMPING: Final = 0.25  # the part of its velocity that a body loses per step
MOVES = np.array([[0, 0], [-1, 0], [1, 0], [0, -1], [0, 1]], dtype=np.float64)
SELF, VELOCITY, OTHERS = 0, 2, 4  # where the observation holds the agent's own figures, and everybody else's
COAST: Final = 3.0  # steps: how far ahead steering looks
LEAD: Final = 0.2  # seconds: how far ahead of a moving prey to aim
BESIDE: Final = 0.15  # how far from the prey a predator wants to be


class Facts(NamedTuple):
    """What a script must know of the world."""

    n_agents: int
    n_goals: int  # prey or landmarks
    acceleration: float
    max_speed: float
    assignment: np.ndarray  # (L,N) for script `landmark-k`: which landmark is whose


@njit(cache=True)
def _steer(x, y, vx, vy, acceleration, max_speed):
    """The action that brings a body with velocity (vx, vy) nearest to the goal at the offset (x, y) after a coast."""
    # A velocity that is damped carries a body (1 - 0.75^n) / 0.25 steps' worth of way in n steps.
    reach = DT * (1 - (1 - DAMPING) ** COAST) / DAMPING
    best, least = 0, np.inf
    for a in range(5):
        next_vx = vx * (1 - DAMPING) + MOVES[a, 0] * acceleration * DT
        next_vy = vy * (1 - DAMPING) + MOVES[a, 1] * acceleration * DT
        scale = min(max_speed / max(np.sqrt(next_vx * next_vx + next_vy * next_vy), 1e-9), 1.0)
        ahead_x = x - DT * vx - reach * scale * next_vx
        ahead_y = y - DT * vy - reach * scale * next_vy
        square = ahead_x * ahead_x + ahead_y * ahead_y
        if square < least:
            best, least = a, square
    return best


@njit(cache=True)
def _extreme(row, first, count, origin_x, origin_y, farthest):
    """Which of `count` offsets from entry `first` on is nearest to (or farthest from) the origin."""
    best, best_score = 0, -np.inf
    for k in range(count):
        square = (row[first + 2 * k] - origin_x) ** 2 + (row[first + 2 * k + 1] - origin_y) ** 2
        score = square if farthest else -square
        if score > best_score:
            best, best_score = k, score
    return best


@njit(cache=True)
def act_prey(facts, code, argument, obs, mask, agent, memory, draws, action):
    """Chase a prey: `obs` (R,D) -> `action` (R,)."""
    prey = OTHERS + 2 * (facts.n_agents - 1)
    for r in range(obs.shape[0]):
        row = obs[r]
        ego_x, ego_y = row[OTHERS], row[OTHERS + 1]
        if code == PREY:
            k = argument
        elif code == NEAREST_PREY:
            if memory[r, CHOICE] == 0:
                memory[r, CHOICE] = 1 + _extreme(row, prey, facts.n_goals, 0.0, 0.0, False)
            k = int(memory[r, CHOICE]) - 1
        else:
            k = _extreme(row, prey, facts.n_goals, ego_x, ego_y, False)
        velocity = prey + 2 * (facts.n_goals + k)
        x, y = row[prey + 2 * k] + LEAD * row[velocity], row[prey + 2 * k + 1] + LEAD * row[velocity + 1]
        if code == FLANKER:  # beyond the prey, as seen from the ego
            side_x, side_y = x - ego_x, y - ego_y
        else:  # beside it, even agents to the left of the team's way and odd ones to the right: behind is out of reach
            side = 1.0 if agent[r] % 2 == 0 else -1.0
            side_x, side_y = side * (ego_y / 2 - y), side * (x - ego_x / 2)
        length = max(np.sqrt(side_x * side_x + side_y * side_y), 1e-6)
        x, y = x + BESIDE * side_x / length, y + BESIDE * side_y / length
        action[r] = _steer(x, y, row[VELOCITY], row[VELOCITY + 1], facts.acceleration, facts.max_speed)


@njit(cache=True)
def _left_free(row, facts):
    """The landmark whose nearest other agent is farthest away."""
    landmarks, others = OTHERS, OTHERS + 2 * facts.n_goals
    best, best_gap = 0, -1.0
    for k in range(facts.n_goals):
        gap = np.inf
        for j in range(facts.n_agents - 1):
            dx = row[landmarks + 2 * k] - row[others + 2 * j]
            dy = row[landmarks + 2 * k + 1] - row[others + 2 * j + 1]
            gap = min(gap, dx * dx + dy * dy)
        if gap > best_gap:
            best, best_gap = k, gap
    return best


@njit(cache=True)
def act_landmark(facts, code, argument, obs, mask, agent, memory, draws, action):
    """Go to a landmark and stay there: `obs` (R,D) -> `action` (R,)."""
    landmarks = OTHERS
    for r in range(obs.shape[0]):
        row = obs[r]
        if code == LANDMARK:
            k = facts.assignment[argument, agent[r]]
        elif code == LEFT_FREE:
            k = _left_free(row, facts)
        else:
            if memory[r, CHOICE] == 0:
                memory[r, CHOICE] = 1 + _extreme(row, landmarks, facts.n_goals, 0.0, 0.0, code == FARTHEST)
            k = int(memory[r, CHOICE]) - 1
        x, y = row[landmarks + 2 * k], row[landmarks + 2 * k + 1]
        action[r] = _steer(x, y, row[VELOCITY], row[VELOCITY + 1], facts.acceleration, facts.max_speed)


def prey_scripts(n_agents: int, n_prey: int, acceleration: float, max_speed: float) -> dict[str, Script]:
    """The scripts of a predator-prey world by name."""
    facts = Facts(n_agents, n_prey, acceleration, max_speed, np.zeros((0, n_agents), dtype=np.int64))

    def script(about: str, code: int, argument: int = 0) -> Script:
        return Script(about, act_prey, facts, code, argument, MEMORY)

    named = {f"prey-{k}": script(f"hunts prey {k}", PREY, k) for k in range(n_prey)}
    named["nearest"] = script("hunts the prey that is nearest to it at the start", NEAREST_PREY)
    named["egos-prey"] = script("hunts the prey that is nearest to the ego now", EGOS_PREY)
    named["flanker"] = script(
        "goes to the far side, seen from the ego, of the prey that is nearest to the ego now", FLANKER
    )
    return named


def _assignment(agents: tuple[Point, ...], landmarks: tuple[Point, ...]) -> np.ndarray:
    """For each landmark k: the last agent goes to k, the others to the rest, with the shortest ways in total: (L,N)."""
    ways = np.hypot(*(np.array(agents)[:, None] - np.array(landmarks)[None]).transpose(2, 0, 1))  # (N,L)
    others, table = range(len(agents) - 1), []
    for k in range(len(landmarks)):
        rest = [goal for goal in range(len(landmarks)) if goal != k]
        spare = len(agents) - len(landmarks)  # agents without a landmark of their own go with the last one
        orders = permutations(rest + [k] * spare) if len(agents) <= 7 else [tuple(rest + [k] * spare)]
        table.append([*min(orders, key=lambda order: sum(ways[i, order[i]] for i in others)), k])
    return np.array(table)


def landmark_scripts(agents: tuple[Point, ...], landmarks: tuple[Point, ...], acceleration: float) -> dict[str, Script]:
    """The scripts of a navigation world by name. In self-play, `landmark-k` sends each agent to a landmark of its own."""
    facts = Facts(len(agents), len(landmarks), acceleration, np.inf, _assignment(agents, landmarks))

    def script(about: str, code: int, argument: int = 0) -> Script:
        return Script(about, act_landmark, facts, code, argument, MEMORY)

    named = {f"landmark-{k}": script(f"goes to landmark {k}", LANDMARK, k) for k in range(len(landmarks))}
    named["nearest"] = script("goes to the landmark that is nearest to it at the start", NEAREST)
    named["farthest"] = script("goes to the landmark that is farthest from it at the start", FARTHEST)
    named["left-free"] = script("goes to the landmark that the other agents leave free", LEFT_FREE)
    return named
