"""Scripted predators and navigators: who goes where, and one way of steering there.

Steering looks ahead: of the five actions, the one is taken that would leave the body nearest to its goal after a
short coast. Goals come from the observation alone.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numba import njit

from macop_aht.scenarios.spec import Script

PREY, NEAREST_PREY, EGOS_PREY, FLANKER = range(4)
LANDMARK, NEAREST, FARTHEST, LEFT_FREE = range(4)
AGENT, CHOICE = range(2)  # the memory's columns
MEMORY: Final = 2
MOVES = np.array([[0, 0], [-1, 0], [1, 0], [0, -1], [0, 1]], dtype=np.float64)
COAST: Final = 4.0  # steps: how far ahead steering looks
DT: Final = 0.1
DAMPING: Final = 0.25


class Facts(NamedTuple):
    """What a script must know of the world."""

    n_agents: int
    n_goals: int  # prey or landmarks
    acceleration: float


@njit(cache=True)
def _steer(x, y, vx, vy, acceleration):
    """The action that brings a body with velocity (vx, vy) nearest to the goal at the offset (x, y)."""
    # With damping, a velocity carries on for (1 - 0.75^n) / 0.25 steps' worth of distance.
    reach = DT * (1 - (1 - DAMPING) ** COAST) / DAMPING
    best, least = 0, np.inf
    for a in range(5):
        ahead_x = x - DT * vx - reach * (vx * (1 - DAMPING) + MOVES[a, 0] * acceleration * DT)
        ahead_y = y - DT * vy - reach * (vy * (1 - DAMPING) + MOVES[a, 1] * acceleration * DT)
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
def act_prey(facts, code, argument, obs, mask, memory, draws, action):
    """Chase a prey: `obs` (R,D) -> `action` (R,)."""
    others = 4
    prey = others + 2 * (facts.n_agents - 1)
    for r in range(obs.shape[0]):
        row = obs[r]
        ego_x, ego_y = row[others], row[others + 1]
        if code == PREY:
            k = argument
        elif code == NEAREST_PREY:
            if memory[r, CHOICE] == 0:
                memory[r, CHOICE] = 1 + _extreme(row, prey, facts.n_goals, 0.0, 0.0, False)
            k = int(memory[r, CHOICE]) - 1
        else:
            k = _extreme(row, prey, facts.n_goals, ego_x, ego_y, False)
        x, y = row[prey + 2 * k], row[prey + 2 * k + 1]
        if code == FLANKER:
            away_x, away_y = x - ego_x, y - ego_y
            length = max(np.sqrt(away_x * away_x + away_y * away_y), 1e-6)
            x, y = x + 0.15 * away_x / length, y + 0.15 * away_y / length
        velocity = prey + 2 * (facts.n_goals + k)
        x, y = x + 2 * DT * row[velocity], y + 2 * DT * row[velocity + 1]
        action[r] = _steer(x, y, row[2], row[3], facts.acceleration)


@njit(cache=True)
def _left_free(row, facts):
    """The landmark whose nearest other agent is farthest away."""
    others = 4 + 2 * facts.n_goals
    best, best_gap = 0, -1.0
    for k in range(facts.n_goals):
        gap = np.inf
        for j in range(facts.n_agents - 1):
            dx = row[4 + 2 * k] - row[others + 2 * j]
            dy = row[4 + 2 * k + 1] - row[others + 2 * j + 1]
            gap = min(gap, dx * dx + dy * dy)
        if gap > best_gap:
            best, best_gap = k, gap
    return best


@njit(cache=True)
def act_landmark(facts, code, argument, obs, mask, memory, draws, action):
    """Go to a landmark and stay there: `obs` (R,D) -> `action` (R,)."""
    for r in range(obs.shape[0]):
        row = obs[r]
        if code == LANDMARK:
            k = (argument + int(memory[r, AGENT]) + 1) % facts.n_goals
        elif code == LEFT_FREE:
            k = _left_free(row, facts)
        else:
            if memory[r, CHOICE] == 0:
                memory[r, CHOICE] = 1 + _extreme(row, 4, facts.n_goals, 0.0, 0.0, code == FARTHEST)
            k = int(memory[r, CHOICE]) - 1
        action[r] = _steer(row[4 + 2 * k], row[4 + 2 * k + 1], row[2], row[3], facts.acceleration)


def prey_scripts(n_agents: int, n_prey: int, acceleration: float) -> dict[str, Script]:
    """The scripts of a predator-prey world by name."""
    facts = Facts(n_agents, n_prey, acceleration)

    def script(about: str, code: int, argument: int = 0) -> Script:
        return Script(about, act_prey, facts, code, argument, MEMORY)

    named = {f"prey-{k}": script(f"hunts prey {k}", PREY, k) for k in range(n_prey)}
    named["nearest"] = script("hunts the prey that is nearest to it at the start", NEAREST_PREY)
    named["egos-prey"] = script("hunts the prey that is nearest to the ego now", EGOS_PREY)
    named["flanker"] = script("gets behind the prey that is nearest to the ego now, as seen from the ego", FLANKER)
    return named


def landmark_scripts(n_agents: int, n_landmarks: int, acceleration: float) -> dict[str, Script]:
    """The scripts of a navigation world by name. In self-play, `landmark-k` sends each agent to a landmark of its own."""
    facts = Facts(n_agents, n_landmarks, acceleration)

    def script(about: str, code: int, argument: int = 0) -> Script:
        return Script(about, act_landmark, facts, code, argument, MEMORY)

    named = {}
    for k in range(n_landmarks):
        # The teammate is the last agent; agent i of the group goes to landmark (k' + i + 1) modulo their number.
        first = (k - n_agents) % n_landmarks
        named[f"landmark-{k}"] = script(f"goes to landmark {k}", LANDMARK, first)
    named["nearest"] = script("goes to the landmark that is nearest to it at the start", NEAREST)
    named["farthest"] = script("goes to the landmark that is farthest from it at the start", FARTHEST)
    named["left-free"] = script("goes to the landmark that the others are leaving free", LEFT_FREE)
    return named
