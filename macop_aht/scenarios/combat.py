"""Combat with StarCraft II's unit figures and SMAC's interface, without the game."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from numba import njit

from macop_aht.scenarios import combat_scripts
from macop_aht.scenarios.spec import Kernels, Point, World, circle, require, require_positive, require_teammate

if TYPE_CHECKING:
    from macop_aht.scenarios.drawing import Canvas

LOOPS_PER_SECOND: Final = 22.4
LOOPS_PER_STEP: Final = 8
SIZE: Final = 32.0  # the world is a square of this side
NOTHING, STOP, NORTH, SOUTH, EAST, WEST, ATTACK = range(7)  # action ATTACK + i attacks enemy i
MOVES = np.array([[0, 0], [0, 0], [0, 1], [0, -1], [1, 0], [-1, 0]], dtype=np.float64)
LOOK_AHEAD: Final = 1.0  # a move is possible if the point this far ahead is inside the world
EPSILON: Final = 1e-6  # slack of a weapon's reach, so that whoever has walked exactly into range may shoot
LEAST_DAMAGE: Final = 0.5  # what armour always lets through
SOFTNESS: Final = 0.5  # the share of an overlap that is undone per game loop
COOLDOWN_SCALE: Final = 15.0  # loops, in the global state


@dataclass(frozen=True)
class Unit:
    """A kind of unit. Times are in seconds, lengths in the game's units, ranges from edge to edge."""

    name: str
    health: float
    damage: float
    cooldown: float
    reach: float
    radius: float
    strikes: int = 1  # per attack; armour counts for each
    speed: float = 3.15
    armour: float = 0.0
    shield: float = 0.0
    shield_rate: float = 0.0  # per second
    shield_delay: float = 0.0  # without damage, until it regenerates

    def __post_init__(self) -> None:
        require_positive(self, "health", "damage", "cooldown", "radius", "strikes", "speed")
        for name in ("reach", "armour", "shield", "shield_rate", "shield_delay"):
            require(getattr(self, name) >= 0, f"{name} is {getattr(self, name)}; it must not be negative")


MARINE = Unit("marine", health=45, damage=6, cooldown=0.61, reach=5, radius=0.375)
ZEALOT = Unit(
    "zealot", health=100, damage=8, strikes=2, cooldown=0.86, reach=0.1, radius=0.5,
    armour=1, shield=50, shield_rate=2.8, shield_delay=7.14,
)  # fmt: skip


class Params(NamedTuple):
    """What the kernels read. Units are the N allies and then the M enemies: U of them."""

    health: np.ndarray  # (U,)
    shield: np.ndarray  # (U,)
    armour: np.ndarray  # (U,)
    damage: np.ndarray  # (U,) per strike
    strikes: np.ndarray  # (U,)
    cooldown: np.ndarray  # (U,) loops
    reach: np.ndarray  # (U,)
    speed: np.ndarray  # (U,) per loop
    radius: np.ndarray  # (U,)
    shield_rate: np.ndarray  # (U,) per loop
    shield_delay: np.ndarray  # (U,) loops
    spawn: np.ndarray  # (U,2)
    group: np.ndarray  # (M,) which enemies stand together
    jitter: float
    sight: float
    shoot: float
    acquire: float
    leash: float
    alarm: float
    kill_reward: float
    win_reward: float
    scale: float  # of the reward


class State(NamedTuple):
    """What the kernels change."""

    pos: np.ndarray  # (B,U,2)
    health: np.ndarray  # (B,U) 0 where dead
    shield: np.ndarray  # (B,U)
    cooldown: np.ndarray  # (B,U) loops until the weapon is ready
    calm: np.ndarray  # (B,U) loops since the last damage
    post: np.ndarray  # (B,M,2)
    awake: np.ndarray  # (B,M) bool
    last_action: np.ndarray  # (B,N) -1 at first


@njit(cache=True)
def reset(params, state, rows, draws):
    """Spawn all units, each coordinate jittered, enemies asleep at their posts: `rows` (B,) bool, `draws` (B,2U)."""
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


@njit(inline="always")
def _square(pos, u, v):
    return (pos[u, 0] - pos[v, 0]) ** 2 + (pos[u, 1] - pos[v, 1]) ** 2


@njit(inline="always")
def _available(params, pos, health, n_allies, i, a):
    """Whether ally i may take action a; the one rule behind the mask, the observation and the step."""
    if health[i] <= 0:
        return a == NOTHING
    if a == STOP:
        return True
    if a == NOTHING:
        return False
    if a < ATTACK:
        ahead_x = pos[i, 0] + LOOK_AHEAD * MOVES[a, 0]
        ahead_y = pos[i, 1] + LOOK_AHEAD * MOVES[a, 1]
        return 0.0 <= ahead_x <= SIZE and 0.0 <= ahead_y <= SIZE
    enemy = n_allies + a - ATTACK
    return health[enemy] > 0 and _square(pos, i, enemy) <= params.shoot**2


@njit(inline="always")
def _nearest(pos, health, u, first, stop):
    """The nearest living unit of first..stop-1 to unit u, or -1, and the squared distance."""
    best, least = -1, np.inf
    for v in range(first, stop):
        if health[v] > 0:
            square = _square(pos, u, v)
            if square < least:
                best, least = v, square
    return best, least


@njit(inline="always")
def _in_reach(params, pos, u, v):
    reach = params.reach[u] + params.radius[u] + params.radius[v] + EPSILON
    return _square(pos, u, v) <= reach * reach


@njit(inline="always")
def _walk(pos, u, x, y, stop_at, speed, move):
    """Write the loop's move of unit u towards (x, y), ending `stop_at` from it at the nearest."""
    dx, dy = x - pos[u, 0], y - pos[u, 1]
    distance = np.sqrt(dx * dx + dy * dy)
    length = min(speed, distance - stop_at)
    if length > 0.0:
        move[u, 0] = dx / distance * length
        move[u, 1] = dy / distance * length


@njit(inline="always")
def _order_ally(params, pos, health, order, u, n_allies, target, move):
    """Turn ally u's standing order into a target and a move for this loop."""
    if NORTH <= order <= WEST:
        move[u, 0] = MOVES[order, 0] * params.speed[u]
        move[u, 1] = MOVES[order, 1] * params.speed[u]
        return
    if order >= ATTACK and health[n_allies + order - ATTACK] > 0:
        v = n_allies + order - ATTACK
        target[u] = v
        if not _in_reach(params, pos, u, v):
            stop_at = params.reach[u] + params.radius[u] + params.radius[v]
            _walk(pos, u, pos[v, 0], pos[v, 1], stop_at, params.speed[u], move)
        return
    nearest, _ = _nearest(pos, health, u, n_allies, pos.shape[0])
    if nearest >= 0 and _in_reach(params, pos, u, nearest):
        target[u] = nearest  # idle units return fire


@njit(inline="always")
def _order_enemy(params, pos, health, post, awake, u, n_allies, target, move):
    """Wake up, chase the nearest ally, or go back to the post."""
    m = u - n_allies
    v, square = _nearest(pos, health, u, 0, n_allies)
    if not awake[m] and v >= 0 and square <= params.acquire**2:
        awake[m] = True
    if awake[m] and (v < 0 or square > params.leash**2):
        awake[m] = False
    if awake[m]:
        target[u] = v
        if not _in_reach(params, pos, u, v):
            stop_at = params.reach[u] + params.radius[u] + params.radius[v]
            _walk(pos, u, pos[v, 0], pos[v, 1], stop_at, params.speed[u], move)
    else:
        _walk(pos, u, post[m, 0], post[m, 1], 0.0, params.speed[u], move)


@njit(inline="always")
def _push_apart(params, pos, health, push):
    """Undo a share of every overlap, half by each of the two, all at once."""
    n_units = pos.shape[0]
    touched = False
    for u in range(n_units):
        for v in range(u + 1, n_units):
            gap = params.radius[u] + params.radius[v]
            dx, dy = pos[u, 0] - pos[v, 0], pos[u, 1] - pos[v, 1]
            square = dx * dx + dy * dy
            if square >= gap * gap or health[u] <= 0 or health[v] <= 0:
                continue
            if not touched:
                push[:] = 0.0
                touched = True
            distance = np.sqrt(square)
            if distance > 0.0:
                dx, dy = dx / distance, dy / distance
            else:
                dx, dy = 1.0, 0.0
            share = 0.5 * SOFTNESS * (gap - distance)
            push[u, 0] += share * dx
            push[u, 1] += share * dy
            push[v, 0] -= share * dx
            push[v, 1] -= share * dy
    if touched:
        pos += push


@njit(inline="always")
def _hit(params, health, shield, u, v):
    """All strikes of u's attack on v: shield first, what is left over less armour on the health. Gives the damage dealt."""
    dealt = 0.0
    for _ in range(params.strikes[u]):
        absorbed = min(shield[v], params.damage[u])
        shield[v] -= absorbed
        dealt += absorbed
        rest = params.damage[u] - absorbed
        if rest > 0.0:
            wound = min(max(rest - params.armour[v], LEAST_DAMAGE), health[v])
            health[v] -= wound
            dealt += wound
    return dealt


@njit(inline="always")
def _alarm(params, pos, health, awake, v, n_allies):
    """An enemy that is hit wakes, and so do its group-mates nearby."""
    awake[v - n_allies] = True
    for w in range(n_allies, pos.shape[0]):
        same_group = params.group[w - n_allies] == params.group[v - n_allies]
        if same_group and health[w] > 0 and _square(pos, v, w) <= params.alarm**2:
            awake[w - n_allies] = True


@njit(inline="always")
def _game_loop(params, pos, health, shield, cooldown, calm, post, awake, order, n_allies, target, move, fires):
    """One game loop of one battle. Gives the reward before scaling."""
    n_units = pos.shape[0]
    for u in range(n_units):
        target[u] = -1
        move[u, 0] = 0.0
        move[u, 1] = 0.0
        if health[u] <= 0:
            continue
        if u < n_allies:
            _order_ally(params, pos, health, order[u], u, n_allies, target, move)
        else:
            _order_enemy(params, pos, health, post, awake, u, n_allies, target, move)

    for u in range(n_units):
        pos[u, 0] += move[u, 0]
        pos[u, 1] += move[u, 1]
    _push_apart(params, pos, health, move)
    for u in range(n_units):
        pos[u, 0] = min(max(pos[u, 0], 0.0), SIZE)
        pos[u, 1] = min(max(pos[u, 1], 0.0), SIZE)

    for u in range(n_units):  # decided for all before anyone is hit
        fires[u] = target[u] >= 0 and cooldown[u] <= 0.0 and _in_reach(params, pos, u, target[u])
    reward = 0.0
    for u in range(n_units):
        if fires[u]:
            v = target[u]
            cooldown[u] = params.cooldown[u]
            if health[v] > 0:
                calm[v] = -1.0  # becomes 0 at the end of this loop
                dealt = _hit(params, health, shield, u, v)
                if v >= n_allies:
                    reward += dealt
                    _alarm(params, pos, health, awake, v, n_allies)
                    if health[v] <= 0:
                        reward += params.kill_reward

    for u in range(n_units):
        cooldown[u] = max(cooldown[u] - 1.0, 0.0)
        calm[u] += 1.0
        if health[u] > 0 and shield[u] < params.shield[u] and calm[u] >= params.shield_delay[u]:
            shield[u] = min(shield[u] + params.shield_rate[u], params.shield[u])
    return reward


@njit(inline="always")
def _any_alive(health, first, stop):
    for u in range(first, stop):
        if health[u] > 0:
            return True
    return False


@njit(cache=True)
def step(params, state, action, draws, reward, terminated):
    """Eight game loops, or fewer where one side is gone: `action` (B,N) -> `reward`, `terminated` (B,)."""
    n_allies, n_units = action.shape[1], state.pos.shape[1]
    order = np.empty(n_allies, dtype=np.int64)
    target = np.empty(n_units, dtype=np.int64)
    move = np.empty((n_units, 2), dtype=np.float64)
    fires = np.empty(n_units, dtype=np.bool_)
    for b in range(action.shape[0]):
        pos, health, shield, cooldown = state.pos[b], state.health[b], state.shield[b], state.cooldown[b]
        calm, post, awake = state.calm[b], state.post[b], state.awake[b]
        for i in range(n_allies):
            a = action[b, i]
            if not _available(params, pos, health, n_allies, i, a):
                a = STOP if health[i] > 0 else NOTHING
            order[i] = a
            state.last_action[b, i] = a
        earned = 0.0
        won = lost = False
        for _ in range(LOOPS_PER_STEP):
            earned += _game_loop(
                params, pos, health, shield, cooldown, calm, post, awake, order, n_allies, target, move, fires
            )
            won = not _any_alive(health, n_allies, n_units)
            lost = not _any_alive(health, 0, n_allies)
            if won or lost:
                break
        if won and not lost:
            earned += params.win_reward
        reward[b] = earned * params.scale
        terminated[b] = won or lost


@njit(cache=True)
def mask(params, state, out):
    """What each ally may do: `out` (B,N,A)."""
    for b in range(out.shape[0]):
        for i in range(out.shape[1]):
            for a in range(out.shape[2]):
                out[b, i, a] = _available(params, state.pos[b], state.health[b], out.shape[1], i, a)


@njit(inline="always")
def _see(params, pos, health, i, u, out, at):
    """Distance, offset and health of unit u as ally i sees it; False, and nothing written, where it does not."""
    square = _square(pos, i, u)
    if health[u] <= 0 or square > params.sight**2:
        return False
    out[at] = np.sqrt(square) / params.sight
    out[at + 1] = (pos[u, 0] - pos[i, 0]) / params.sight
    out[at + 2] = (pos[u, 1] - pos[i, 1]) / params.sight
    out[at + 3] = health[u] / params.health[u]
    return True


@njit(cache=True)
def observe(params, state, obs):
    """Move flags, enemies, other allies, own health, in SMAC's order; the dead see zeros: `obs` (B,N,D)."""
    n_allies, n_units = obs.shape[1], state.pos.shape[1]
    obs[:] = 0.0
    for b in range(obs.shape[0]):
        pos, health = state.pos[b], state.health[b]
        for i in range(n_allies):
            if health[i] <= 0:
                continue
            for a in range(NORTH, ATTACK):
                obs[b, i, a - NORTH] = _available(params, pos, health, n_allies, i, a)
            at = 4
            for u in range(n_allies, n_units):
                if _see(params, pos, health, i, u, obs[b, i], at + 1):
                    obs[b, i, at] = _available(params, pos, health, n_allies, i, ATTACK + u - n_allies)
                    if params.shield[u] > 0:
                        obs[b, i, at + 5] = state.shield[b, u] / params.shield[u]
                at += 6 if params.shield[u] > 0 else 5
            for j in range(n_allies):
                if j != i:
                    obs[b, i, at] = _see(params, pos, health, i, j, obs[b, i], at + 1)
                    at += 5
            obs[b, i, at] = health[i] / params.health[i]


@njit(cache=True)
def global_state(params, state, out):
    """Allies, enemies, last actions, in SMAC's order; the dead are zeros: `out` (B,S)."""
    n_units = state.pos.shape[1]
    n_allies = n_units - state.post.shape[1]
    n_actions = ATTACK + n_units - n_allies
    out[:] = 0.0
    for b in range(out.shape[0]):
        at = 0
        for u in range(n_units):
            alive = state.health[b, u] > 0
            if alive:
                out[b, at] = state.health[b, u] / params.health[u]
            at += 1
            if u < n_allies:
                if alive:
                    out[b, at] = state.cooldown[b, u] / COOLDOWN_SCALE
                at += 1
            for x in range(2):
                if alive:
                    out[b, at + x] = (state.pos[b, u, x] - SIZE / 2) / SIZE
            at += 2
            if u >= n_allies and params.shield[u] > 0:
                if alive:
                    out[b, at] = state.shield[b, u] / params.shield[u]
                at += 1
        for i in range(n_allies):
            if state.last_action[b, i] >= 0:
                out[b, at + state.last_action[b, i]] = 1.0
            at += n_actions


@dataclass(frozen=True)
class Combat:
    """Allied units against groups of enemies that sleep at their posts, on an open field of 32 by 32.

    Actions: 0 no-op (the dead only), 1 stop, 2 north, 3 south, 4 east, 5 west, 6+i attack enemy i. A move is masked where the
    point one unit ahead is outside the field. An attack is available on a living enemy within `shoot`, centre to
    centre; whoever is ordered to attack walks into the weapon's range, and shoots when the weapon is ready. A stopped
    unit, or one whose target has died, shoots at the nearest enemy in its weapon's range. An unavailable action is a stop.

    Observation, per agent, in SMAC's order: 4 move flags; per enemy (attackable, distance/sight, dx/sight, dy/sight,
    health, and shield where the enemy has one), zeros where it is dead or out of sight; per other ally (visible,
    distance/sight, dx/sight, dy/sight, health); own health. The dead see zeros. Health and shield are over their maxima.

    A step is 8 game loops at 22.4 per second; it ends early when one side is gone. In each game loop:

    1. Orders and targets. An enemy wakes when a living ally is within `acquire`; it falls asleep when none is within
       `leash`. Awake, it is after the nearest ally (the lower index, where two are equally near). Asleep, it walks to its post.
    2. Movement, all at once: a unit out of its weapon's range walks towards its target, at most into range. Units that overlap
       are then pushed apart: each by a quarter of the overlap, all at once. The border holds the units' centres inside.
    3. Hits, all at once: whoever has a target in range and a ready weapon hits it, and its cooldown starts. Each
       strike spends the shield first; what is left over, less armour (but at least 0.5), goes to the health. Hits on a
       unit that an earlier index has just killed are lost. An enemy that is hit wakes, and so do the living members
       of its group within `alarm` of it.
    4. Cooldowns run down by a loop, to zero at the least. A unit that took no damage for its shield's delay regenerates.

    All distances are from centre to centre, but for a weapon's range, which is from edge to edge.

    Reward and end: (damage dealt to health and shield + 10 per kill + 200 for the win) * 20 / (10 per enemy + 200 + the
    enemies' full health and shields). All enemies dead, with an ally left, is the win; one side dead terminates.

    Global state, in SMAC's order: allies (health, cooldown/15 loops, x, y from the centre over the field's size), enemies
    (health, x, y, and shield where it has one), the agents' last actions one-hot. The dead are zeros.

    Version history: v0, as above.
    """

    allies: tuple[Unit, ...] = (MARINE, MARINE)
    spawn: tuple[Point, ...] = ((16.0, 15.125), (16.0, 16.875))
    enemies: tuple[Unit, ...] = (MARINE, MARINE, MARINE, MARINE)
    posts: tuple[Point, ...] = ((5.0, 15.125), (5.0, 16.875), (27.0, 15.125), (27.0, 16.875))
    groups: tuple[int, ...] = (0, 0, 1, 1)  # which enemies stand together
    controllable: int = 1
    jitter: float = 0.5  # of every spawn coordinate, either way
    sight: float = 9.0
    shoot: float = 6.0  # an attack can be ordered within this
    acquire: float = 7.0
    leash: float = 9.0
    alarm: float = 3.0
    kill_reward: float = 10.0
    win_reward: float = 200.0
    full_reward: float = 20.0  # what a win without regenerated shields adds up to
    limit: int = 60  # steps

    def __post_init__(self) -> None:
        for units, places, names in (
            (self.allies, self.spawn, ("allies", "spawn")),
            (self.enemies, self.posts, ("enemies", "posts")),
            (self.enemies, self.groups, ("enemies", "groups")),
        ):
            require(
                len(units) == len(places),
                f"{len(units)} {names[0]} but {len(places)} {names[1]}; give one for each",
            )
        require(len(self.enemies) > 0, "enemies is empty; give at least one unit")
        places = np.array(self.spawn + self.posts, dtype=float)
        require(
            bool(((places >= self.jitter) & (places <= SIZE - self.jitter)).all()),
            f"spawn and posts must lie in {self.jitter}..{SIZE - self.jitter} on both axes, the jitter away from the border",
        )
        require_teammate(self.controllable, len(self.allies))
        require_positive(self, "sight", "shoot", "acquire", "leash", "full_reward", "limit")
        for name in ("jitter", "alarm", "kill_reward", "win_reward"):
            require(getattr(self, name) >= 0, f"{name} is {getattr(self, name)}; it must not be negative")

    def build(self) -> World:
        n, m = len(self.allies), len(self.enemies)
        names = [f"can_move_{way}" for way in ("north", "south", "east", "west")]
        seen = ("distance", "dx", "dy", "health")
        for e, unit in enumerate(self.enemies):
            names += [f"enemy{e}_{entry}" for entry in ("attackable", *seen, *(["shield"] if unit.shield else []))]
        for i in range(n - 1):
            names += [f"ally{i}_{entry}" for entry in ("visible", *seen)]
        names += ["own_health"]
        low = np.array([-1.0 if name.endswith(("_dx", "_dy")) else 0.0 for name in names], dtype=np.float32)
        actions = ("no-op", "stop", "north", "south", "east", "west", *(f"attack {e}" for e in range(m)))
        shielded = sum(unit.shield > 0 for unit in self.enemies)
        return World(
            kernels=Kernels(reset, step, observe, mask, global_state),
            params=self._params(),
            allocate=self._allocate,
            n_agents=n,
            controllable=self.controllable,
            limit=self.limit,
            actions=actions,
            observations=tuple(names),
            bounds=(low, np.ones_like(low)),
            state_dim=4 * n + 3 * m + shielded + n * len(actions),
            reset_draws=2 * (n + m),
            step_draws=0,
            scripts=combat_scripts.scripts(self),
            draw=self._draw,
        )

    def _params(self) -> Params:
        units = self.allies + self.enemies

        def column(name: str, scale: float = 1.0) -> np.ndarray:
            return np.array([getattr(unit, name) * scale for unit in units], dtype=np.float64)

        toughness = sum(unit.health + unit.shield for unit in self.enemies)
        return Params(
            health=column("health"),
            shield=column("shield"),
            armour=column("armour"),
            damage=column("damage"),
            strikes=np.array([unit.strikes for unit in units]),
            cooldown=column("cooldown", LOOPS_PER_SECOND),
            reach=column("reach"),
            speed=column("speed", 1 / LOOPS_PER_SECOND),
            radius=column("radius"),
            shield_rate=column("shield_rate", 1 / LOOPS_PER_SECOND),
            shield_delay=column("shield_delay", LOOPS_PER_SECOND),
            spawn=np.array(self.spawn + self.posts, dtype=np.float64),
            group=np.array(self.groups),
            jitter=float(self.jitter),
            sight=float(self.sight),
            shoot=float(self.shoot),
            acquire=float(self.acquire),
            leash=float(self.leash),
            alarm=float(self.alarm),
            kill_reward=float(self.kill_reward),
            win_reward=float(self.win_reward),
            scale=self.full_reward / (self.kill_reward * len(self.enemies) + self.win_reward + toughness),
        )

    def _allocate(self, size: int) -> State:
        n, m = len(self.allies), len(self.enemies)
        return State(
            pos=np.zeros((size, n + m, 2)),
            health=np.zeros((size, n + m)),
            shield=np.zeros((size, n + m)),
            cooldown=np.zeros((size, n + m)),
            calm=np.zeros((size, n + m)),
            post=np.zeros((size, m, 2)),
            awake=np.zeros((size, m), dtype=np.bool_),
            last_action=np.full((size, n), -1, dtype=np.int64),
        )

    def _draw(self, canvas: Canvas, state: State, b: int) -> None:
        canvas.area(0.0, 0.0, SIZE, SIZE)
        n = len(self.allies)
        for e, (x, y) in enumerate(state.post[b]):
            if state.health[b, n + e] > 0:
                canvas.ring(x, y, self.acquire, "enemy")
        for u, unit in enumerate(self.allies + self.enemies):
            if state.health[b, u] <= 0:
                continue
            x, y = state.pos[b, u]
            role = "enemy" if u >= n else "ego" if u < self.controllable else "mate"
            glyph = str(u) if u < n else "m" if unit.name == "marine" else "Z"
            canvas.disc(x, y, unit.radius, role, glyph=glyph)
            canvas.bar(x, y + unit.radius + 0.55, 1.6, state.health[b, u] / unit.health, "health")
            if unit.shield:
                canvas.bar(x, y + unit.radius + 0.95, 1.6, state.shield[b, u] / unit.shield, "shield")


def zealot_circle(count: int = 6, radius: float = 11.0) -> Combat:
    """Two marines in the middle of `count` zealots, each of them alone."""
    return Combat(
        enemies=(ZEALOT,) * count,
        posts=circle(count, radius, centre=(SIZE / 2, SIZE / 2)),
        groups=tuple(range(count)),
        limit=150,
    )
