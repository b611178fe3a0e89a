"""Combat with StarCraft II's unit figures and SMAC's interface, without the game."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from macop_aht.scenarios import combat_kernels, combat_scripts
from macop_aht.scenarios.combat_kernels import (
    COOLDOWN_SCALE,
    LOOPS_PER_SECOND,
    LOOPS_PER_STEP,
    MOVE_LENGTH,
    SIZE,
    Params,
    State,
)
from macop_aht.scenarios.scene import Area, Body, Gauge, Ring, Scene, seat_role
from macop_aht.scenarios.spec import (
    Kernels,
    Point,
    World,
    circle,
    entries,
    make_whole,
    points,
    require,
    require_not_negative,
    require_positive,
    require_teammate,
    whole,
)


@dataclass(frozen=True)
class Unit:
    """A kind of unit. Times are in seconds, lengths in the game's units. The reach is measured from edge to edge."""

    name: str
    health: float
    damage: float
    cooldown: float
    reach: float  # the weapon's range
    radius: float
    strikes: int = 1  # per attack; armour reduces each strike
    speed: float = 3.15
    armour: float = 0.0
    shield: float = 0.0
    shield_rate: float = 0.0  # per second
    shield_delay: float = 0.0  # time without damage until the shield regenerates

    def __post_init__(self) -> None:
        require(isinstance(self.name, str) and self.name != "", f"name is {self.name!r}; give a word, such as 'marine'")
        make_whole(self, strikes=1)
        require_positive(self, "health", "damage", "cooldown", "radius", "speed")
        require_not_negative(self, "reach", "armour", "shield", "shield_rate", "shield_delay")


MARINE = Unit("marine", health=45, damage=6, cooldown=0.61, reach=5, radius=0.375)
ZEALOT = Unit(
    "zealot", health=100, damage=8, strikes=2, cooldown=0.86, reach=0.1, radius=0.5,
    armour=1, shield=50, shield_rate=2.8, shield_delay=7.14,
)  # fmt: skip


def _units(name: str, value: object) -> tuple[Unit, ...]:
    units = entries(name, value, "units, such as (MARINE, MARINE)")  # type: ignore[arg-type]
    strangers = [unit for unit in units if not isinstance(unit, Unit)]
    require(not strangers, f"{name} holds {strangers}; give units, such as MARINE or Unit(…)")
    return units


@dataclass(frozen=True)
class Combat:
    """Allied units fight groups of enemies that sleep at their posts, on an open field of 32 by 32.

    ### Description
    The units' figures are StarCraft II's. Actions and observations are SMAC's. The game is not needed.
    The allies must agree on which group to fight first.

    ### Action space
    | action | name | effect |
    |---|---|---|
    | 0 | no-op | nothing; only the dead may, and they may nothing else |
    | 1 | stop | stands, and shoots at the nearest enemy within its weapon's range |
    | 2 to 5 | north, south, east, west | moves as far as the unit's speed allows, but at most 2 units |
    | 6+i | attack i | walks into its weapon's range of enemy i, and shoots when its weapon is ready |

    - A move is available if the point one unit ahead is inside the field. A faster unit walks the 2
      units evenly over the step.
    - An attack is available on a living enemy within `shoot`.
    - A unit whose target has died shoots at the nearest enemy within its weapon's range.
    - An unavailable action acts as stop.

    ### Observation space
    The entries of one agent, in SMAC's order:

    | entries | meaning |
    |---|---|
    | 4 | whether it can move north, south, east, west |
    | 5 per enemy | attackable, distance/sight, dx/sight, dy/sight, health |
    | 1 more | shield, for an enemy that has one |
    | 5 per other ally | visible, distance/sight, dx/sight, dy/sight, health |
    | 1 | its own health |

    Units that are dead or farther than `sight` are zeros. A dead agent observes zeros. Health and shield
    are divided by their maxima.

    ### Global state
    In SMAC's order:

    - allies: health, cooldown/15 loops, and x, y from the centre, divided by the field's size;
    - enemies: health, x, y, and shield for those that have one;
    - the agents' last actions as carried out, one-hot.

    The dead are zeros.

    ### Rewards
    (damage to the enemies' health and shields + 10 per kill + 200 for the win) * 20 / (10 per enemy +
    200 + the enemies' full health and shields).

    The battle is won when all enemies are dead and an ally is alive. With a `penalty`, damage to allies
    and their deaths cost that share of what they would pay on the other side, as SMAC's negative rewards
    do (there 0.5).

    ### Starting state
    Allies spawn at `spawn`, enemies at `posts`, each coordinate moved by up to `jitter`. All have full
    health, and enemies are asleep.

    ### Episode end
    The episode terminates when one side is dead. It is truncated after `limit` steps.

    ### A step
    A step is 8 game loops of 1/22.4 seconds. It ends early when one side is dead. Each game loop has
    four parts:

    1. **Orders and targets.** An enemy wakes when a living ally is within `acquire` of it. It falls
       asleep when no living ally is within `leash` of its post. Awake, it follows the nearest ally (of
       equally near ones, the lower index). Asleep, it walks to its post.
    2. **Movement,** of all units at once. A unit out of its weapon's range walks towards its target, and
       stops in range. Overlapping units are then pushed apart, each by a quarter of the overlap. If they
       are at the same point, the lower index goes east. The centres of the units stay inside the field.
    3. **Hits,** of all units at once. A unit hits if its target is in range and its weapon is ready;
       then its cooldown starts. Each strike takes from the shield first. The remaining damage, minus
       armour but at least 0.5, takes from the health. If a lower index has killed the target in this
       loop, the hit is lost. An enemy that is hit wakes, and so do the living members of its group
       within `alarm` of it.
    4. **Recovery.** Cooldowns shrink by a loop, down to zero. A shield regenerates after its delay
       without damage.

    Distances are from centre to centre; only a weapon's range is from edge to edge. "Within" includes
    the distance itself.

    ### Info
    `battle_won`, `dead_allies` and `dead_enemies`, as in SMAC.

    ### Arguments
    | argument | default | meaning |
    |---|---|---|
    | `allies` | `(MARINE, MARINE)` | units |
    | `spawn` | `((16.0, 15.125), (16.0, 16.875))` | spawn points of the allies |
    | `enemies` | `(MARINE, MARINE, MARINE, MARINE)` | units |
    | `posts` | `((5.0, 15.125), (5.0, 16.875), (27.0, 15.125), (27.0, 16.875))` | posts of the enemies |
    | `groups` | `(0, 0, 1, 1)` | group of each enemy; a group wakes together |
    | `controllable` | `1` | number of agents of the ego |
    | `jitter` | `0.5` | of every spawn coordinate, either way |
    | `sight` | `9.0` | units within this are observed |
    | `shoot` | `6.0` | enemies within this can be attacked |
    | `acquire` | `7.0` | an ally within this wakes an enemy |
    | `leash` | `9.0` | without an ally within this of its post, an enemy goes back |
    | `alarm` | `3.0` | a hit wakes group members within this |
    | `kill_reward` | `10.0` | per kill |
    | `win_reward` | `200.0` | for the win |
    | `full_reward` | `20.0` | return of a win, without regenerated shields and penalty |
    | `penalty` | `0.0` | share of damage and deaths that allies pay for |
    | `limit` | `60` | steps |

    ### Version history
    - v0: first version
    """

    allies: tuple[Unit, ...] = (MARINE, MARINE)
    spawn: tuple[Point, ...] = ((16.0, 15.125), (16.0, 16.875))
    enemies: tuple[Unit, ...] = (MARINE, MARINE, MARINE, MARINE)
    posts: tuple[Point, ...] = ((5.0, 15.125), (5.0, 16.875), (27.0, 15.125), (27.0, 16.875))
    groups: tuple[int, ...] = (0, 0, 1, 1)  # the group of each enemy, which wakes together
    controllable: int = 1
    jitter: float = 0.5  # of every spawn coordinate, either way
    sight: float = 9.0  # units within this are observed
    shoot: float = 6.0  # enemies within this can be attacked
    acquire: float = 7.0  # an ally within this wakes an enemy
    leash: float = 9.0  # from the post: without an ally within this, the enemy goes back
    alarm: float = 3.0  # a hit wakes group members within this
    kill_reward: float = 10.0
    win_reward: float = 200.0
    full_reward: float = 20.0  # the return of a win, without regenerated shields and penalty
    penalty: float = 0.0  # share of damage and deaths that allies pay for
    limit: int = 60  # steps

    def __post_init__(self) -> None:
        for name in ("allies", "enemies"):
            object.__setattr__(self, name, _units(name, getattr(self, name)))
        for name in ("spawn", "posts"):
            object.__setattr__(self, name, points(name, getattr(self, name), least=1))
        groups = entries("groups", self.groups, "whole numbers, one for each enemy")
        object.__setattr__(self, "groups", tuple(whole(f"groups[{k}]", group, 0) for k, group in enumerate(groups)))
        make_whole(self, controllable=1, limit=1)
        require_positive(self, "sight", "shoot", "acquire", "leash", "full_reward")
        require_not_negative(self, "jitter", "alarm", "kill_reward", "win_reward", "penalty")
        for units, places, names in (
            (self.allies, self.spawn, ("allies", "spawn")),
            (self.enemies, self.posts, ("enemies", "posts")),
            (self.enemies, self.groups, ("enemies", "groups")),
        ):
            require(
                len(units) == len(places),
                f"{len(units)} {names[0]} but {len(places)} {names[1]}; give one for each",
            )
        spots = np.array(self.spawn + self.posts, dtype=float)
        require(
            bool(((spots >= self.jitter) & (spots <= SIZE - self.jitter)).all()),
            f"spawn and posts must lie in {self.jitter}..{SIZE - self.jitter} on both axes, the jitter away from the border",
        )
        require_teammate(self.controllable, len(self.allies))
        require(
            not any(unit.shield for unit in self.allies),
            "allies with shields are not supported: the observation has no entry for it; give units with shield=0",
        )
        require(
            self.shoot <= self.sight,
            f"shoot {self.shoot} is larger than sight {self.sight}: agents could attack what they cannot see; give at most that",
        )
        require(
            self.acquire <= self.leash,
            f"acquire {self.acquire} is larger than leash {self.leash}: enemies would wake and sleep at once; give at most that",
        )

    def build(self) -> World:
        """Return the world with these parameters."""
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
            kernels=Kernels(
                combat_kernels.reset,
                combat_kernels.step,
                combat_kernels.observe,
                combat_kernels.mask,
                combat_kernels.advance,
                combat_kernels.global_state,
            ),
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
            scene=self._scene,
            outcome=self._outcome,
            info=self._info,
            state_bounds=self._state_bounds(n * len(actions)),
        )

    def _state_bounds(self, last_actions: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the bounds of the global state, whose last entries are the last actions."""
        low, high = [], []
        for unit in self.allies:
            low += [0.0, 0.0, -0.5, -0.5]
            high += [1.0, unit.cooldown * LOOPS_PER_SECOND / COOLDOWN_SCALE, 0.5, 0.5]
        for unit in self.enemies:
            low += [0.0, -0.5, -0.5, *([0.0] if unit.shield else [])]
            high += [1.0, 0.5, 0.5, *([1.0] if unit.shield else [])]
        bounds = low + [0.0] * last_actions, high + [1.0] * last_actions
        return np.array(bounds[0], dtype=np.float32), np.array(bounds[1], dtype=np.float32)

    def _params(self) -> Params:
        units = self.allies + self.enemies

        def column(name: str, scale: float = 1.0) -> np.ndarray:
            return np.array([getattr(unit, name) * scale for unit in units], dtype=np.float64)

        radius, speed = column("radius"), column("speed", 1 / LOOPS_PER_SECOND)
        toughness = sum(unit.health + unit.shield for unit in self.enemies)
        return Params(
            health=column("health"),
            shield=column("shield"),
            armour=column("armour"),
            damage=column("damage"),
            strikes=np.array([unit.strikes for unit in units]),
            cooldown=column("cooldown", LOOPS_PER_SECOND),
            reach=column("reach")[:, None] + radius[:, None] + radius[None, :],
            speed=speed,
            order_speed=np.minimum(speed, MOVE_LENGTH / LOOPS_PER_STEP),
            radius=radius,
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
            penalty=float(self.penalty),
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

    def _info(self, state: State) -> dict[str, np.ndarray]:
        """Return SMAC's `battle_won`, `dead_allies` and `dead_enemies`, (B,) each. Where all units die at once, nobody wins."""
        dead, many = state.health <= 0, len(self.allies)
        allies, enemies = dead[:, :many].sum(axis=1), dead[:, many:].sum(axis=1)
        won = (enemies == len(self.enemies)) & (allies < many)
        return {"battle_won": won, "dead_allies": allies, "dead_enemies": enemies}

    def _outcome(self, state: State, b: int) -> str:
        """Return which groups of enemies lost a unit; "" where none did."""
        dead = state.health[b, len(self.allies) :] <= 0
        groups = sorted({group for group, gone in zip(self.groups, dead, strict=True) if gone})
        return "beat " + " ".join(map(str, groups)) if groups else ""

    def _scene(self, state: State, b: int) -> Scene:
        n, alive = len(self.allies), state.health[b] > 0
        posts = enumerate(state.post[b].tolist())
        rings = [Ring(x, y, self.acquire, "enemy") for e, (x, y) in posts if alive[n + e]]
        bodies = [self._body(state, b, u) for u in np.flatnonzero(alive).tolist()]
        return Scene(Area(0.0, 0.0, SIZE, SIZE), tuple(bodies), tuple(rings))

    def _body(self, state: State, b: int, u: int) -> Body:
        n, unit, (x, y) = len(self.allies), (self.allies + self.enemies)[u], state.pos[b, u].tolist()
        gauges = [Gauge(float(state.health[b, u]) / unit.health, "health")]
        if unit.shield:
            gauges.append(Gauge(float(state.shield[b, u]) / unit.shield, "shield"))
        if u < n:
            role, name = seat_role(u, self.controllable), str(u)
            return Body(f"agent{u}", x, y, unit.radius, role, name, name, agent=u, gauges=tuple(gauges))
        own, glyph = u - n, "m" if unit.name == "marine" else unit.name[0].upper()
        looks: dict[str, Any] = {"label": str(own), "glyph": glyph, "gauges": tuple(gauges)}
        return Body(f"enemy{own}", x, y, unit.radius, "enemy", action=combat_kernels.ATTACK + own, **looks)


def zealot_circle(count: int = 6, radius: float = 11.0) -> Combat:
    """Return parameters for two marines in the middle of a circle of `count` zealots, each a group of its own."""
    return Combat(
        enemies=(ZEALOT,) * count,
        posts=circle(count, radius, centre=(SIZE / 2, SIZE / 2)),
        groups=tuple(range(count)),
        limit=150,
    )
