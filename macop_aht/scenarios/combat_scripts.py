"""Scripted fighters: who walks where, and whom they shoot.

The observation holds no position of one's own, so a script reckons it: from its place of spawn, one stride
per move order. It walks a route of enemy posts until an enemy is in sight, fights it, and walks on. Clockwise and
counter-clockwise routes come to their first post from different sides, and avoid enemies of shorter reach while an
ally is in sight: the one that is chased runs around the middle, in the sense of the route, while the other shoots. Scripts that
go with the ego lead by the left-first route where they themselves play agent 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from macop_aht.compiling import njit
from macop_aht.scenarios.combat_kernels import (
    ATTACK,
    DISTANCE,
    DX,
    DY,
    EAST,
    FLAG,
    HEALTH,
    LOOPS_PER_SECOND,
    LOOPS_PER_STEP,
    MOVE_FLAGS,
    MOVE_LENGTH,
    MOVES,
    NORTH,
    NOTHING,
    SHIELD,
    SOUTH,
    STOP,
    WEST,
)
from macop_aht.scenarios.spec import Script

if TYPE_CHECKING:
    from macop_aht.scenarios.combat import Combat

ROUTE, WEAKEST, NEAREST, KITE, HOLD, FOLLOW, BAIT = range(7)
X, Y, LEG, LAST = range(4)  # the memory's columns
MEMORY: Final = 4
ALLY_WIDTH: Final = SHIELD  # an ally's entries are an enemy's without the shield
NOWHERE: Final = -1  # the group of a place where no enemies stand
ARRIVED: Final = 2.5  # this near to a post with nobody in sight: on to the next
PASSED: Final = 1.0  # this near to a place on the way: on to the next
APPROACH: Final = 25 / 360  # turns: how far beside the straight way a walker around comes to its first post
MARGIN: Final = 1.0  # how far from waking an enemy it does so
COMPANY: Final = 2.0  # how near to the ego a follower stays
KITE_WITHIN: Final = 4.0  # a kiter backs off from enemies nearer than this
BAIT_NEAR: Final = 4.0  # a bait keeps the enemy that chases it between these distances
BAIT_FAR: Final = 6.5
RUN_WITHIN: Final = 3.0  # whoever runs around does so while an enemy that chases it is nearer than this
LOOP: Final = 3.0  # half the side of the square on which it runs
OUTSIDE: Final = 3.0  # what a unit of way outside that square costs, in units of way around it
ACROSS: Final = 0.1  # up to this cosine, a move counts as across the way to the chaser
TOWARDS: Final = 10.0  # what a move straight at the chaser costs


class Facts(NamedTuple):
    """What a script must know of the world."""

    n_agents: int
    enemy_at: np.ndarray  # (M,) where each enemy's entries begin in the observation
    ally_at: int
    spawn: np.ndarray  # (N,2)
    start: np.ndarray  # (2,) the middle of it
    group: np.ndarray  # (M,) which enemies stand together, counted from 0
    outranged: np.ndarray  # (M,) bool: whose weapon reaches less far than the allies'
    places: np.ndarray  # (R,L,2) where each route leads
    visits: np.ndarray  # (R,L) the group that stands there, or NOWHERE
    sense: np.ndarray  # (R,) in which sense one that is chased runs: 1 counter-clockwise, -1 clockwise, 0 it does not
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
    from_ego = code == FOLLOW and agent != 0 and row[facts.ally_at + FLAG] > 0
    origin_x = row[facts.ally_at + DX] if from_ego else 0.0
    origin_y = row[facts.ally_at + DY] if from_ego else 0.0
    best, least = -1, np.inf
    for e in range(facts.enemy_at.shape[0]):
        at = facts.enemy_at[e]
        if row[at + HEALTH] <= 0:  # dead or out of sight
            continue
        asleep = row[at + DISTANCE] * facts.sight > facts.acquire
        if code in (ROUTE, KITE, BAIT) and facts.group[e] != visiting and asleep:
            continue
        score = (row[at + DX] - origin_x) ** 2 + (row[at + DY] - origin_y) ** 2
        if code == WEAKEST:
            score += 100 * row[at + HEALTH] - 1000 * row[at + FLAG]  # those it can attack first, of them the weakest
        if score < least:
            best, least = e, score
    return best


@njit(cache=True)
def _chased(facts, row, at):
    """Whether the enemy whose entries begin at `at` is nearer to this agent than to every ally in sight."""
    own = row[at + DX] ** 2 + row[at + DY] ** 2
    for j in range(facts.n_agents - 1):
        ally = facts.ally_at + ALLY_WIDTH * j
        if row[ally] > 0 and (row[at + DX] - row[ally + DX]) ** 2 + (row[at + DY] - row[ally + DY]) ** 2 < own:
            return False
    return True


@njit(cache=True)
def _sees_ally(facts, row):
    """Whether another ally is in sight."""
    others = 0.0
    for j in range(facts.n_agents - 1):
        others += row[facts.ally_at + ALLY_WIDTH * j + FLAG]
    return others > 0


@njit(cache=True)
def _run(facts, sense, row, row_mask, at, memory):
    """The move order of one that is chased: on a square around the spawn, in one sense, but not towards the chaser.

    A chaser of the same speed stops short of where its prey was a moment ago, so it hits nobody who keeps running across
    or away from its way.
    """
    x, y = memory[X] - facts.start[0], memory[Y] - facts.start[1]
    best, most = STOP, -np.inf
    for a in range(NORTH, ATTACK):
        if not row_mask[a]:
            continue
        next_x, next_y = x + MOVES[a, 0] * facts.stride, y + MOVES[a, 1] * facts.stride
        around = sense * (x * next_y - y * next_x) / max(abs(x) + abs(y), 1.0)
        outside = max(abs(next_x), abs(next_y), LOOP) - LOOP
        towards = (MOVES[a, 0] * row[at + DX] + MOVES[a, 1] * row[at + DY]) / max(row[at + DISTANCE], 1e-6)
        score = around - OUTSIDE * outside - TOWARDS * max(towards - ACROSS, 0.0)
        if score > most:
            best, most = a, score
    return best


@njit(cache=True)
def _fight(facts, code, argument, row, row_mask, enemy, memory):
    at = facts.enemy_at[enemy]
    dx, dy, distance = row[at + DX], row[at + DY], row[at + DISTANCE] * facts.sight
    if code == KITE and memory[LAST] >= ATTACK and distance < KITE_WITHIN:
        return _move(-dx, -dy, row_mask)
    if code == BAIT and _chased(facts, row, at):
        if distance < BAIT_NEAR:
            return _move(-dx, -dy, row_mask)
        return STOP if distance < BAIT_FAR else _move(dx, dy, row_mask)
    sense = facts.sense[argument] if code == ROUTE and facts.outranged[enemy] else 0
    if sense != 0 and distance < RUN_WITHIN and _sees_ally(facts, row) and _chased(facts, row, at):
        return _run(facts, sense, row, row_mask, at, memory)
    if row_mask[ATTACK + enemy]:
        return ATTACK + enemy
    return STOP if code == HOLD else _move(dx, dy, row_mask)


@njit(cache=True)
def _travel(facts, code, argument, row, row_mask, agent, memory):
    """Nobody in sight: hold, stay with the ego, or walk the route."""
    if code == HOLD:
        return STOP
    follows = code in (WEAKEST, NEAREST, FOLLOW)
    if follows and agent != 0 and row[facts.ally_at + FLAG] > 0:
        if row[facts.ally_at + DISTANCE] * facts.sight <= COMPANY:
            return STOP
        return _move(row[facts.ally_at + DX], row[facts.ally_at + DY], row_mask)
    n_legs = facts.visits.shape[1]
    for _ in range(n_legs):
        leg = int(memory[LEG]) % n_legs
        dx, dy = facts.places[argument, leg, 0] - memory[X], facts.places[argument, leg, 1] - memory[Y]
        near = PASSED if facts.visits[argument, leg] == NOWHERE else ARRIVED
        if dx * dx + dy * dy > near**2:
            return _move(dx, dy, row_mask)
        memory[LEG] += 1
    return STOP


@njit(cache=True)
def act(facts, code, argument, obs, mask, agent, memory, draws, action):
    """One step of a script for R agents: `obs` (R,D), `mask` (R,A), `agent` (R,), `memory` (R,H) -> `action` (R,)."""
    for r in range(obs.shape[0]):
        row, own = obs[r], memory[r]
        last = int(own[LAST])
        if last == NOTHING:
            own[X], own[Y] = facts.spawn[agent[r], 0], facts.spawn[agent[r], 1]
        elif last < ATTACK:
            own[X] += MOVES[last, 0] * facts.stride
            own[Y] += MOVES[last, 1] * facts.stride
        if not mask[r, STOP]:
            action[r] = NOTHING  # dead
            continue
        visiting = facts.visits[argument, int(own[LEG]) % facts.visits.shape[1]]
        enemy = _pick(facts, code, row, agent[r], visiting)
        if enemy >= 0:
            choice = _fight(facts, code, argument, row, mask[r], enemy, own)
        else:
            choice = _travel(facts, code, argument, row, mask[r], agent[r], own)
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


def _sense(name: str) -> int:
    """The sense of a route around the start, by its name: 1, -1, or 0 for one that does not lead around."""
    return {"counter-clockwise": 1, "clockwise": -1}.get(name.rsplit("-", 1)[0], 0)


def _approach(sense: int, place: np.ndarray, posts: np.ndarray, start: np.ndarray, acquire: float) -> np.ndarray:
    """Where a route first leads: beside the way to its first place, as far out as no enemy wakes."""
    angle = -2 * np.pi * APPROACH * sense
    (east, north), cos, sin = place - start, np.cos(angle), np.sin(angle)
    far = np.linspace(0, abs(sense), 101)[:, None] * [east * cos - north * sin, east * sin + north * cos]  # (101,2)
    gap = np.hypot(*(start + far[:, None] - posts[None]).transpose(2, 0, 1)).min(axis=1)
    quiet = np.logical_and.accumulate(gap > acquire + MARGIN)
    return start + far[max(int(quiet.sum()) - 1, 0)]


def scripts(world: Combat) -> dict[str, Script]:
    """The scripts of a combat world by name."""
    _, group = np.unique(world.groups, return_inverse=True)
    posts, start = np.array(world.posts, dtype=float), np.mean(world.spawn, axis=0)
    places = np.array([posts[group == g].mean(axis=0) for g in range(group.max() + 1)])
    routes = _routes(places, start)
    firsts = [_approach(_sense(name), places[route[0]], posts, start, world.acquire) for name, route in routes.items()]
    widths = [SHIELD + (unit.shield > 0) for unit in world.enemies]
    ally = world.allies[-1]
    facts = Facts(
        n_agents=len(world.allies),
        enemy_at=MOVE_FLAGS + np.cumsum([0, *widths[:-1]]),
        ally_at=MOVE_FLAGS + sum(widths),
        start=start,
        spawn=np.array(world.spawn, dtype=float),
        group=group,
        outranged=np.array([unit.reach < ally.reach for unit in world.enemies]),
        places=np.array([[first, *places[route]] for first, route in zip(firsts, routes.values(), strict=True)]),
        visits=np.array([[NOWHERE, *route] for route in routes.values()]),
        sense=np.array([_sense(name) for name in routes]),
        acquire=float(world.acquire),
        sight=float(world.sight),
        stride=min(ally.speed * LOOPS_PER_STEP / LOOPS_PER_SECOND, MOVE_LENGTH),
    )

    def script(about: str, code: int, argument: int = 0) -> Script:
        return Script(about, act, facts, code, argument, MEMORY)

    named = {}
    for r, name in enumerate(routes):
        way = "from left to right" if r == 0 else "from right to left" if r == 1 else name.rsplit("-", 1)[0]
        more = f", beginning with group {name.rsplit('-', 1)[1]}, runs around, away from melee fighters that chase it,"
        named[name] = script(f"visits the enemies {way}{'' if r < 2 else more} and shoots the nearest", ROUTE, r)
    named["focus-weakest"] = script("goes with the ego and shoots the weakest enemy it can", WEAKEST)
    named["focus-nearest"] = script("goes with the ego and shoots the enemy nearest to itself", NEAREST)
    named["follow-ego"] = script("goes with the ego and shoots the enemy nearest to the ego", FOLLOW)
    named["kite"] = script("visits the enemies from left to right and backs off after every shot", KITE)
    named["bait"] = script(
        "visits the enemies from left to right, runs from enemies that chase it and shoots the others", BAIT
    )
    named["hold"] = script("stays where it is and shoots what comes within range", HOLD)
    return named
