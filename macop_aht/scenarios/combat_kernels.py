"""The rules of combat as compiled kernels over B battles. The docstring of `Combat` describes the rules."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from macop_aht.compiling import njit

LOOPS_PER_SECOND: Final = 22.4
LOOPS_PER_STEP: Final = 8
SIZE: Final = 32.0  # the world is a square of this side
NOTHING, STOP, NORTH, SOUTH, EAST, WEST, ATTACK = range(7)  # action ATTACK + i attacks enemy i
MOVES = np.array([[0, 0], [0, 0], [0, 1], [0, -1], [1, 0], [-1, 0]], dtype=np.float64)
LOOK_AHEAD: Final = 1.0  # a move is possible if the point this far ahead is inside the world
EPSILON: Final = 1e-6  # slack of a weapon's reach, so that a unit that has walked exactly into range can shoot
TIE: Final = 1e-9  # squared distances that differ by less than this are equal, so that rounding does not choose targets
LEAST_DAMAGE: Final = 0.5  # the damage that armour cannot stop
SOFTNESS: Final = 0.5  # the share of an overlap that is undone per game loop
BLOCK: Final = 128  # battles that are stepped together; so few stay in the processor's cache
COOLDOWN_SCALE: Final = 15.0  # loops, in the global state
MOVE_LENGTH: Final = 2.0  # the longest way of a move order
MOVE_FLAGS: Final = 4  # entries of the observation before those of the units
FLAG, DISTANCE, DX, DY, HEALTH, SHIELD = range(
    6
)  # entries of a unit: FLAG is attackable or visible; SHIELD only where the unit has one


class Params(NamedTuple):
    """The figures that the kernels read. The U units are the N allies and then the M enemies."""

    health: np.ndarray  # (U,)
    shield: np.ndarray  # (U,)
    armour: np.ndarray  # (U,)
    damage: np.ndarray  # (U,) per strike
    strikes: np.ndarray  # (U,)
    cooldown: np.ndarray  # (U,) loops
    reach: np.ndarray  # (U,U) centre to centre: the weapon's range and both radii
    speed: np.ndarray  # (U,) per loop
    order_speed: np.ndarray  # (U,) per loop of a move order, which is at most MOVE_LENGTH long
    radius: np.ndarray  # (U,)
    shield_rate: np.ndarray  # (U,) per loop
    shield_delay: np.ndarray  # (U,) loops
    spawn: np.ndarray  # (U,2)
    group: np.ndarray  # (M,) the group of each enemy
    jitter: float
    sight: float
    shoot: float
    acquire: float
    leash: float
    alarm: float
    kill_reward: float
    win_reward: float
    penalty: float  # share of damage and deaths that allies pay for
    scale: float  # of the reward


class State(NamedTuple):
    """The arrays that the kernels change."""

    pos: np.ndarray  # (B,U,2)
    health: np.ndarray  # (B,U) 0 where dead
    shield: np.ndarray  # (B,U)
    cooldown: np.ndarray  # (B,U) loops until the weapon is ready
    calm: np.ndarray  # (B,U) loops since the last damage
    post: np.ndarray  # (B,M,2)
    awake: np.ndarray  # (B,M) bool
    last_action: np.ndarray  # (B,N) -1 at first


@njit(cache=True, error_model="numpy")
def reset(params, state, rows, draws):
    """Place all units with jitter, enemies asleep at their posts: `rows` (B,) bool, `draws` (B,2U)."""
    n_units = state.pos.shape[1]
    n_allies = n_units - state.post.shape[1]
    for b in range(rows.shape[0]):
        if not rows[b]:
            continue
        for u in range(n_units):
            for x in range(2):
                state.pos[b, u, x] = params.spawn[u, x] + (2 * draws[b, 2 * u + x] - 1) * params.jitter
                if u >= n_allies:
                    state.post[b, u - n_allies, x] = state.pos[b, u, x]
            state.health[b, u] = params.health[u]
            state.shield[b, u] = params.shield[u]
            state.cooldown[b, u] = 0.0
            state.calm[b, u] = params.shield_delay[u]
        state.awake[b, :] = False
        state.last_action[b, :] = -1


# A game loop is a chain of phases, each over a block of battles. The phases index the full arrays, and inlined helpers take only
# numbers. An array view, or an array as an argument of an inlined helper, would cost a reference count in the innermost loop.


@njit(inline="always")
def _square(x, y, other_x, other_y):
    return (x - other_x) * (x - other_x) + (y - other_y) * (y - other_y)


@njit(inline="always")
def _can_move(x, y, a):
    """Return whether a move is available: the one rule for the mask, the observation and the step."""
    return 0.0 <= x + LOOK_AHEAD * MOVES[a, 0] <= SIZE and 0.0 <= y + LOOK_AHEAD * MOVES[a, 1] <= SIZE


@njit(inline="always")
def _can_attack(x, y, enemy_x, enemy_y, enemy_health, shoot):
    """Return whether an attack is available: the one rule for the mask and the step."""
    return enemy_health > 0 and _square(x, y, enemy_x, enemy_y) <= shoot * shoot


@njit(inline="always")
def _share(square, stop_at, speed):
    """Return which part of the way to a point one loop covers; the unit stops at `stop_at` from it."""
    if square <= stop_at * stop_at:
        return 0.0
    distance = np.sqrt(square)
    return min(speed, distance - stop_at) / distance


@njit(error_model="numpy")
def _accept_orders(pos, health, action, shoot, last_action):
    """Replace unavailable actions by stop, and all actions of the dead by no-op."""
    n_allies = action.shape[1]
    for b in range(action.shape[0]):
        for i in range(n_allies):
            a = action[b, i]
            x, y = pos[b, i, 0], pos[b, i, 1]
            allowed = a == STOP
            if NORTH <= a < ATTACK:
                allowed = _can_move(x, y, a)
            elif a >= ATTACK:
                v = n_allies + a - ATTACK
                allowed = _can_attack(x, y, pos[b, v, 0], pos[b, v, 1], health[b, v], shoot)
            if health[b, i] <= 0:
                a = NOTHING
            last_action[b, i] = a if allowed or (a == NOTHING and health[b, i] <= 0) else STOP


@njit(error_model="numpy")
def _order_allies(block, pos, health, order, over, reach, speed, order_speed, target, move):
    """Turn the allies' orders into targets and moves for this loop."""
    n_allies, n_units = order.shape[1], pos.shape[1]
    for b in range(block[0], block[1]):
        if over[b]:
            continue
        k = b - block[0]
        for u in range(n_allies):
            a, x, y = order[b, u], pos[b, u, 0], pos[b, u, 1]
            target[k, u] = -1
            move[k, u, 0] = move[k, u, 1] = 0.0
            if health[b, u] <= 0:
                continue
            if NORTH <= a < ATTACK:
                move[k, u, 0], move[k, u, 1] = MOVES[a, 0] * order_speed[u], MOVES[a, 1] * order_speed[u]
                continue
            v = n_allies + a - ATTACK
            if a >= ATTACK and health[b, v] > 0:
                dx, dy = pos[b, v, 0] - x, pos[b, v, 1] - y
                share = _share(dx * dx + dy * dy, reach[u, v], speed[u])
                move[k, u, 0], move[k, u, 1] = dx * share, dy * share
                target[k, u] = v
                continue
            least = np.inf
            for v in range(n_allies, n_units):  # idle units return fire
                square = _square(x, y, pos[b, v, 0], pos[b, v, 1])
                in_reach = square <= (reach[u, v] + EPSILON) ** 2
                if in_reach and square < least - TIE and health[b, v] > 0:
                    target[k, u], least = v, square


@njit(error_model="numpy")
def _order_enemies(block, pos, health, post, awake, over, acquire, leash, reach, speed, target, move):
    """Wake enemies; those awake chase the nearest ally while one is near the post, the others go back to it."""
    n_units = pos.shape[1]
    n_allies = n_units - post.shape[1]
    for b in range(block[0], block[1]):
        if over[b]:
            continue
        k = b - block[0]
        for u in range(n_allies, n_units):
            target[k, u] = -1
            move[k, u, 0] = move[k, u, 1] = 0.0
            if health[b, u] <= 0:
                continue
            x, y, m = pos[b, u, 0], pos[b, u, 1], u - n_allies
            nearest, least = 0, np.inf
            for v in range(n_allies):
                square = _square(x, y, pos[b, v, 0], pos[b, v, 1]) if health[b, v] > 0 else np.inf
                nearest = v if square < least - TIE else nearest
                least = min(least, square)
            chases = awake[b, m] or least <= acquire * acquire
            if chases:  # but only while an ally is near the post
                chases = False
                for v in range(n_allies):
                    near = _square(post[b, m, 0], post[b, m, 1], pos[b, v, 0], pos[b, v, 1]) <= leash * leash
                    chases |= near and health[b, v] > 0
            awake[b, m] = chases
            target[k, u] = nearest if chases else -1
            dx = (pos[b, nearest, 0] if chases else post[b, m, 0]) - x
            dy = (pos[b, nearest, 1] if chases else post[b, m, 1]) - y
            share = _share(dx * dx + dy * dy, reach[u, nearest] if chases else 0.0, speed[u])
            move[k, u, 0], move[k, u, 1] = dx * share, dy * share


@njit(error_model="numpy")
def _walk(block, pos, health, over, radius, move, push):
    """Move all units, then undo a share of every overlap, half by each of the two; units stay inside the field."""
    n_units, widest = pos.shape[1], 2 * radius.max()
    for b in range(block[0], block[1]):
        if over[b]:
            continue
        k = b - block[0]
        for u in range(n_units):
            pos[b, u, 0] += move[k, u, 0]
            pos[b, u, 1] += move[k, u, 1]
            push[u, 0] = push[u, 1] = 0.0
        for u in range(n_units):
            x, y = pos[b, u, 0], pos[b, u, 1]
            for v in range(u + 1, n_units):
                square = _square(x, y, pos[b, v, 0], pos[b, v, 1])
                if square >= widest * widest:
                    continue
                gap = radius[u] + radius[v]
                if square >= gap * gap or health[b, u] <= 0 or health[b, v] <= 0:
                    continue
                distance = np.sqrt(square)
                dx = (x - pos[b, v, 0]) / distance if distance > 0.0 else 1.0
                dy = (y - pos[b, v, 1]) / distance if distance > 0.0 else 0.0
                share = 0.5 * SOFTNESS * (gap - distance)
                push[u, 0] += share * dx
                push[u, 1] += share * dy
                push[v, 0] -= share * dx
                push[v, 1] -= share * dy
        for u in range(n_units):
            pos[b, u, 0] = min(max(pos[b, u, 0] + push[u, 0], 0.0), SIZE)
            pos[b, u, 1] = min(max(pos[b, u, 1] + push[u, 1], 0.0), SIZE)


@njit(error_model="numpy")
def _strike(health, shield, b, v, damage, strikes, armour):
    """Do all strikes of an attack on v: shield first, the rest minus armour from the health. Returns the damage dealt."""
    dealt = 0.0
    for _ in range(strikes):
        absorbed = min(shield[b, v], damage)
        shield[b, v] -= absorbed
        dealt += absorbed
        if damage > absorbed:
            wound = min(max(damage - absorbed - armour, LEAST_DAMAGE), health[b, v])
            health[b, v] -= wound
            dealt += wound
    return dealt


@njit(error_model="numpy")
def _alarm(pos, health, awake, group, b, v, alarm):
    """Wake an enemy that is hit, and the members of its group nearby."""
    n_units = pos.shape[1]
    n_allies = n_units - awake.shape[1]
    awake[b, v - n_allies] = True
    for w in range(n_allies, n_units):
        near = _square(pos[b, v, 0], pos[b, v, 1], pos[b, w, 0], pos[b, w, 1]) <= alarm * alarm
        if near and health[b, w] > 0 and group[w - n_allies] == group[v - n_allies]:
            awake[b, w - n_allies] = True


@njit(error_model="numpy")
def _hit(block, params, state, over, target, fires, earned):
    """Do all shots of a loop at once: which units fire is decided before any unit is hit."""
    pos, health, shield, cooldown = state.pos, state.health, state.shield, state.cooldown
    reach, n_units = params.reach, state.pos.shape[1]
    n_allies = n_units - state.post.shape[1]
    for b in range(block[0], block[1]):
        if over[b]:
            continue
        k, anyone = b - block[0], False
        for u in range(n_units):
            v = target[k, u]
            fires[u] = False
            if v >= 0 and cooldown[b, u] <= 0.0:
                square = _square(pos[b, u, 0], pos[b, u, 1], pos[b, v, 0], pos[b, v, 1])
                fires[u] = square <= (reach[u, v] + EPSILON) ** 2
                anyone |= fires[u]
        if not anyone:
            continue
        for u in range(n_units):
            v = target[k, u]
            if not fires[u]:
                continue
            cooldown[b, u] = params.cooldown[u]
            if health[b, v] > 0:
                state.calm[b, v] = -1.0  # becomes 0 at the end of this loop
                dealt = _strike(health, shield, b, v, params.damage[u], params.strikes[u], params.armour[v])
                worth = dealt + (params.kill_reward if health[b, v] <= 0 else 0.0)
                earned[b] += worth if v >= n_allies else -params.penalty * worth
                if v >= n_allies:
                    _alarm(pos, health, state.awake, params.group, b, v, params.alarm)


@njit(error_model="numpy")
def _recover(block, health, shield, cooldown, calm, over, full_shield, shield_rate, shield_delay):
    """Shrink cooldowns, and regenerate the shields of units without recent damage."""
    for b in range(block[0], block[1]):
        if over[b]:
            continue
        for u in range(health.shape[1]):
            cooldown[b, u] = max(cooldown[b, u] - 1.0, 0.0)
            calm[b, u] += 1.0
            if shield[b, u] < full_shield[u] and health[b, u] > 0 and calm[b, u] >= shield_delay[u]:
                shield[b, u] = min(shield[b, u] + shield_rate[u], full_shield[u])


@njit(error_model="numpy")
def _judge(block, health, n_allies, win_reward, over, earned):
    """End the battles in which one side is dead; pay the win if an ally is alive."""
    for b in range(block[0], block[1]):
        if over[b]:
            continue
        allies = enemies = False
        for u in range(health.shape[1]):
            if health[b, u] > 0:
                allies |= u < n_allies
                enemies |= u >= n_allies
        over[b] = not (allies and enemies)
        if allies and not enemies:
            earned[b] += win_reward


@njit(cache=True, error_model="numpy")
def step(params, state, action, draws, reward, terminated):
    """Run eight game loops, fewer where one side is dead: `action` (B,N) -> `reward`, `terminated` (B,)."""
    size, n_allies, n_units = action.shape[0], action.shape[1], state.pos.shape[1]
    rows = min(BLOCK, size)
    target = np.empty((rows, n_units), dtype=np.int64)
    move = np.empty((rows, n_units, 2), dtype=np.float64)
    push = np.empty((n_units, 2), dtype=np.float64)
    fires = np.empty(n_units, dtype=np.bool_)
    pos, health, order, over = state.pos, state.health, state.last_action, terminated
    over[:] = False
    reward[:] = 0.0
    _accept_orders(pos, health, action, params.shoot, order)
    for first in range(0, size, BLOCK):
        block = (first, min(first + BLOCK, size))
        for _ in range(LOOPS_PER_STEP):
            _order_allies(block, pos, health, order, over, params.reach, params.speed, params.order_speed, target, move)
            _order_enemies(
                block, pos, health, state.post, state.awake, over, params.acquire, params.leash, params.reach,
                params.speed, target, move,
            )  # fmt: skip
            _walk(block, pos, health, over, params.radius, move, push)
            _hit(block, params, state, over, target, fires, reward)
            _recover(
                block, health, state.shield, state.cooldown, state.calm, over, params.shield, params.shield_rate,
                params.shield_delay,
            )  # fmt: skip
            _judge(block, health, n_allies, params.win_reward, over, reward)
    reward *= params.scale


@njit(cache=True, error_model="numpy")
def mask(params, state, rows, out):
    """Write the actions that each ally has available: `out` (B,N,A)."""
    n_allies, n_units, shoot = out.shape[1], state.pos.shape[1], params.shoot
    pos, health = state.pos, state.health
    for b in range(out.shape[0]):
        if not rows[b]:
            continue
        for i in range(n_allies):
            x, y, alive = pos[b, i, 0], pos[b, i, 1], health[b, i] > 0
            out[b, i, NOTHING] = not alive
            out[b, i, STOP] = alive
            for a in range(NORTH, ATTACK):
                out[b, i, a] = alive and _can_move(x, y, a)
            for u in range(n_allies, n_units):
                out[b, i, ATTACK + u - n_allies] = alive and _can_attack(
                    x, y, pos[b, u, 0], pos[b, u, 1], health[b, u], shoot
                )


@njit(cache=True, error_model="numpy")
def observe(params, state, rows, obs):
    """Write move flags, enemies, other allies and own health, in SMAC's order; the dead observe zeros: `obs` (B,N,D)."""
    n_allies, n_units = obs.shape[1], state.pos.shape[1]
    pos, health, shield = state.pos, state.health, state.shield
    full_health, full_shield, sight, shoot = params.health, params.shield, params.sight, params.shoot
    for b in range(obs.shape[0]):
        if not rows[b]:
            continue
        obs[b] = 0.0
        for i in range(n_allies):
            if health[b, i] <= 0:
                continue
            x, y = pos[b, i, 0], pos[b, i, 1]
            for a in range(NORTH, ATTACK):
                obs[b, i, a - NORTH] = _can_move(x, y, a)
            at = MOVE_FLAGS
            for k in range(n_units - 1):  # the enemies, then the other allies
                u = n_allies + k if k < n_units - n_allies else k - (n_units - n_allies)
                u += u < n_allies and u >= i
                square = _square(x, y, pos[b, u, 0], pos[b, u, 1])
                shielded = u >= n_allies and full_shield[u] > 0
                if health[b, u] > 0 and square <= sight * sight:
                    obs[b, i, at + FLAG] = u < n_allies or square <= shoot * shoot
                    obs[b, i, at + DISTANCE] = np.sqrt(square) / sight
                    obs[b, i, at + DX] = (pos[b, u, 0] - x) / sight
                    obs[b, i, at + DY] = (pos[b, u, 1] - y) / sight
                    obs[b, i, at + HEALTH] = health[b, u] / full_health[u]
                    if shielded:
                        obs[b, i, at + SHIELD] = shield[b, u] / full_shield[u]
                at += SHIELD + 1 if shielded else SHIELD
            obs[b, i, at] = health[b, i] / full_health[i]


@njit(cache=True, error_model="numpy")
def global_state(params, state, out):
    """Write allies, enemies and last actions, in SMAC's order; the dead are zeros: `out` (B,S)."""
    n_units = state.pos.shape[1]
    n_allies = n_units - state.post.shape[1]
    n_actions = ATTACK + n_units - n_allies
    full_health, full_shield = params.health, params.shield
    out[:] = 0.0
    for b in range(out.shape[0]):
        at = 0
        for u in range(n_units):
            shielded = u >= n_allies and full_shield[u] > 0
            if state.health[b, u] > 0:
                out[b, at] = state.health[b, u] / full_health[u]
                here = at + 1
                if u < n_allies:
                    out[b, here] = state.cooldown[b, u] / COOLDOWN_SCALE
                    here += 1
                out[b, here] = (state.pos[b, u, 0] - SIZE / 2) / SIZE
                out[b, here + 1] = (state.pos[b, u, 1] - SIZE / 2) / SIZE
                if shielded:
                    out[b, here + 2] = state.shield[b, u] / full_shield[u]
            at += 4 if u < n_allies or shielded else 3
        for i in range(n_allies):
            if state.last_action[b, i] >= 0:
                out[b, at + state.last_action[b, i]] = 1.0
            at += n_actions


@njit(cache=True, error_model="numpy")
def advance(params, state, action, draws, reward, terminated, rows, obs, out):
    """Step, observe and mask in one call."""
    step(params, state, action, draws, reward, terminated)
    observe(params, state, rows, obs)
    mask(params, state, rows, out)
