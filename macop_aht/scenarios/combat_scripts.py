"""Scripted fighters: who walks where, and whom they shoot.

The observation holds no position of one's own, so a script reckons it: from the middle of the allies' spawn, one stride
per move order. It walks a route of enemy posts until an enemy is in sight, fights it, and walks on. Scripts that go with
the ego lead by the left-first route where they themselves play agent 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from numba import njit

from macop_aht.scenarios.spec import Script

if TYPE_CHECKING:
    from macop_aht.scenarios.combat import Combat

ROUTE, WEAKEST, NEAREST, KITE, HOLD, FOLLOW, BAIT = range(7)
AGENT, X, Y, LEG, LAST = range(5)  # the memory's columns
MEMORY: Final = 5
STOP, NORTH, SOUTH, EAST, WEST, ATTACK = range(1, 7)
STRIDE: Final = 8 / 22.4  # seconds per step
ARRIVED: Final = 2.5  # this near to a post with nobody in sight: on to the next
COMPANY: Final = 2.0  # how near to the ego a follower stays
KITE_WITHIN: Final = 4.0  # a kiter backs off from enemies nearer than this
BAIT_NEAR: Final = 4.0  # a bait keeps the enemy that chases it between these distances
BAIT_FAR: Final = 6.5


class Facts(NamedTuple):
    """What a script must know of the world."""

    n_agents: int
    enemy_at: np.ndarray  # (M,) where each enemy's entries begin in the observation
    ally_at: int
    start: np.ndarray  # (2,) the middle of the allies' spawn
    group: np.ndarray  # (M,) which enemies stand together, counted from 0
    places: np.ndarray  # (G,2) the middle of each group's posts
    routes: np.ndarray  # (R,G) the groups in the order of visit
    acquire: float
    sight: float
    stride: float  # the length of one move order


@njit(cache=True)
def _move(dx, dy, row_mask):
    """The move order along the larger part of the offset, the other axis where that is masked, stop where both are."""
    across = EAST if dx > 0 else WEST
    along = NORTH if dy > 0 else SOUTH
    first, second = (across, along) if abs(dx) >= abs(dy) else (along, across)
    if row_mask[first]:
        return first
    return second if row_mask[second] else STOP


@njit(cache=True)
def _pick(facts, code, row, agent, visiting):
    """The enemy in sight to deal with, or -1: the weakest, the one nearest to the ego, or the nearest.

    On a route, that is an enemy of the group to visit, or one so near that it is awake.
    """
    from_ego = code == FOLLOW and agent != 0 and row[facts.ally_at] > 0
    origin_x = row[facts.ally_at + 2] if from_ego else 0.0
    origin_y = row[facts.ally_at + 3] if from_ego else 0.0
    best, least = -1, np.inf
    for e in range(facts.enemy_at.shape[0]):
        at = facts.enemy_at[e]
        if row[at + 4] <= 0:  # dead or out of sight
            continue
        if code in (ROUTE, KITE, BAIT) and facts.group[e] != visiting and row[at + 1] * facts.sight > facts.acquire:
            continue
        score = (row[at + 2] - origin_x) ** 2 + (row[at + 3] - origin_y) ** 2
        if code == WEAKEST:
            score += 100 * row[at + 4] - 1000 * row[at]  # those it can attack first, among them the weakest
        if score < least:
            best, least = e, score
    return best


@njit(cache=True)
def _chased(facts, row, at):
    """Whether the enemy whose entries begin at `at` is nearer to this agent than to every ally in sight."""
    own = row[at + 2] ** 2 + row[at + 3] ** 2
    for j in range(facts.n_agents - 1):
        ally = facts.ally_at + 5 * j
        if row[ally] > 0 and (row[at + 2] - row[ally + 2]) ** 2 + (row[at + 3] - row[ally + 3]) ** 2 < own:
            return False
    return True


@njit(cache=True)
def _fight(facts, code, row, row_mask, enemy, last):
    at = facts.enemy_at[enemy]
    dx, dy, distance = row[at + 2], row[at + 3], row[at + 1] * facts.sight
    if code == KITE and last >= ATTACK and distance < KITE_WITHIN:
        return _move(-dx, -dy, row_mask)
    if code == BAIT and _chased(facts, row, at):
        if distance < BAIT_NEAR:
            return _move(-dx, -dy, row_mask)
        return STOP if distance < BAIT_FAR else _move(dx, dy, row_mask)
    if row_mask[ATTACK + enemy]:
        return ATTACK + enemy
    return STOP if code == HOLD else _move(dx, dy, row_mask)


@njit(cache=True)
def _travel(facts, code, argument, row, row_mask, memory):
    """Nobody in sight: hold, stay with the ego, or walk the route."""
    if code == HOLD:
        return STOP
    follows = code in (WEAKEST, NEAREST, FOLLOW)
    if follows and memory[AGENT] != 0 and row[facts.ally_at] > 0:
        if row[facts.ally_at + 1] * facts.sight <= COMPANY:
            return STOP
        return _move(row[facts.ally_at + 2], row[facts.ally_at + 3], row_mask)
    route = facts.routes[argument]
    for _ in range(route.shape[0]):
        goal = facts.places[route[int(memory[LEG]) % route.shape[0]]]
        dx, dy = goal[0] - memory[X], goal[1] - memory[Y]
        if dx * dx + dy * dy > ARRIVED**2:
            return _move(dx, dy, row_mask)
        memory[LEG] += 1
    return STOP


@njit(cache=True)
def act(facts, code, argument, obs, mask, memory, draws, action):
    """One step of a script for R agents: `obs` (R,D), `mask` (R,A), `memory` (R,H) -> `action` (R,)."""
    for r in range(obs.shape[0]):
        row, own = obs[r], memory[r]
        if own[LAST] == 0:
            own[X], own[Y] = facts.start[0], facts.start[1]
        elif own[LAST] == NORTH or own[LAST] == SOUTH:
            own[Y] += facts.stride if own[LAST] == NORTH else -facts.stride
        elif own[LAST] == EAST or own[LAST] == WEST:
            own[X] += facts.stride if own[LAST] == EAST else -facts.stride
        if not mask[r, STOP]:
            action[r] = 0  # dead
            continue
        route = facts.routes[argument]
        enemy = _pick(facts, code, row, int(own[AGENT]), route[int(own[LEG]) % route.shape[0]])
        if enemy >= 0:
            choice = _fight(facts, code, row, mask[r], enemy, int(own[LAST]))
        else:
            choice = _travel(facts, code, argument, row, mask[r], own)
        own[LAST] = choice
        action[r] = choice


def _routes(places: np.ndarray, start: np.ndarray) -> dict[str, np.ndarray]:
    """The groups in every order of visit that has a name: each (G,)."""
    routes = {
        "left-first": np.lexsort((places[:, 1], places[:, 0])),
        "right-first": np.lexsort((places[:, 1], -places[:, 0])),
    }
    if len(places) >= 3:
        around = np.argsort(np.arctan2(places[:, 1] - start[1], places[:, 0] - start[0]))  # counter-clockwise
        for g in range(len(places)):
            at = int(np.flatnonzero(around == g)[0])
            routes[f"counter-clockwise-{g}"] = np.roll(around, -at)
            routes[f"clockwise-{g}"] = np.roll(around[::-1], at + 1)
    return routes


def scripts(world: Combat) -> dict[str, Script]:
    """The scripts of a combat world by name."""
    _, group = np.unique(world.groups, return_inverse=True)
    posts, start = np.array(world.posts, dtype=float), np.mean(world.spawn, axis=0)
    places = np.array([posts[group == g].mean(axis=0) for g in range(group.max() + 1)])
    routes = _routes(places, start)
    widths = [6 if unit.shield else 5 for unit in world.enemies]
    facts = Facts(
        n_agents=len(world.allies),
        enemy_at=4 + np.cumsum([0, *widths[:-1]]),
        ally_at=4 + sum(widths),
        start=start,
        group=group,
        places=places,
        routes=np.array(list(routes.values())),
        acquire=float(world.acquire),
        sight=float(world.sight),
        stride=STRIDE * world.allies[-1].speed,
    )

    def script(about: str, code: int, argument: int = 0) -> Script:
        return Script(about, act, facts, code, argument, MEMORY)

    named = {}
    for r, name in enumerate(routes):
        way = "from left to right" if r == 0 else "from right to left" if r == 1 else name.rsplit("-", 1)[0]
        start = "" if r < 2 else f", beginning with group {name.rsplit('-', 1)[1]}"
        named[name] = script(f"visits the enemies {way}{start} and shoots the nearest", ROUTE, r)
    named["focus-weakest"] = script("goes with the ego and shoots the weakest enemy it can", WEAKEST)
    named["focus-nearest"] = script("goes with the ego and shoots the enemy nearest to itself", NEAREST)
    named["follow-ego"] = script("goes with the ego and shoots the enemy nearest to the ego", FOLLOW)
    named["kite"] = script("visits the enemies from left to right and backs off after every shot", KITE)
    named["bait"] = script(
        "visits the enemies from left to right, runs from whoever chases it and shoots who does not", BAIT
    )
    named["hold"] = script("stays where it is and shoots what comes within range", HOLD)
    return named
