"""Combat with StarCraft II's unit figures and SMAC's interface, without the game."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from macop_aht.scenarios import combat_kernels, combat_scripts
from macop_aht.scenarios.combat_kernels import LOOPS_PER_SECOND, LOOPS_PER_STEP, MOVE_LENGTH, SIZE, Params, State
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

if TYPE_CHECKING:
    from macop_aht.scenarios.drawing import Canvas


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
        require(isinstance(self.name, str) and self.name != "", f"name is {self.name!r}; give a word")
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
    """Allied units against groups of enemies that sleep at their posts, on an open field of 32 by 32.

    Actions: 0 no-op (the dead only), 1 stop, 2 north, 3 south, 4 east, 5 west, 6+i attack enemy i. A move leads as
    far as the unit's speed allows, at most 2 units, which a faster one walks evenly over the step; it is masked where the
    point one unit ahead is outside the field. An attack is available on a living enemy within `shoot`, centre to
    centre; whoever is ordered to attack walks into the weapon's range, and shoots when the weapon is ready. A stopped
    unit, or one whose target has died, shoots at the nearest enemy in its weapon's range. An unavailable action is a stop.

    Observation, per agent, in SMAC's order: 4 move flags; per enemy (attackable, distance/sight, dx/sight, dy/sight,
    health, and shield where the enemy has one), zeros where it is dead or out of sight; per other ally (visible,
    distance/sight, dx/sight, dy/sight, health); own health. The dead see zeros. Health and shield are over their maxima.

    A step is 8 game loops at 22.4 per second; it ends early when one side is gone. In each game loop:

    1. Orders and targets. An enemy wakes when a living ally is within `acquire` of it, and sleeps whenever none is within
       `leash` of its post. Awake, it is after the nearest ally (the lower index, where two are equally near). Asleep, it walks
       to its post.
    2. Movement, all at once: a unit out of its weapon's range walks towards its target, at most into range. Units that
       overlap are then pushed apart: each by a quarter of the overlap, all at once (from the very same place, the lower
       index goes east). The border holds the units' centres inside.
    3. Hits, all at once: whoever has a target in range and a ready weapon hits it, and its cooldown starts. Each
       strike spends the shield first; what is left over, less armour (but at least 0.5), goes to the health. Hits on a
       unit that an earlier index has just killed are lost. An enemy that is hit wakes, and so do the living members
       of its group within `alarm` of it.
    4. Cooldowns run down by a loop, to zero at the least. A unit that took no damage for its shield's delay regenerates.

    All distances are from centre to centre, but for a weapon's range, which is from edge to edge.

    Reward and end: (damage dealt to health and shield + 10 per kill + 200 for the win) * 20 / (10 per enemy + 200 + the
    enemies' full health and shields). All enemies dead, with an ally left, is the win; one side dead terminates. With a
    `penalty`, damage taken and allies lost cost that share of what the same pays when dealt, as in SMAC where its negative
    rewards are on (0.5 there).

    Info, as in SMAC: `battle_won`, `dead_allies`, `dead_enemies`.

    Global state, in SMAC's order: allies (health, cooldown/15 loops, x, y from the centre over the field's size), enemies
    (health, x, y, and shield where it has one), the agents' last actions, as carried out, one-hot. The dead are zeros.

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
    full_reward: float = 20.0  # what a win without regenerated shields adds up to, where there is no penalty
    penalty: float = 0.0
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
            f"shoot {self.shoot} is larger than sight {self.sight}: nobody could see whom it may attack; give at most that",
        )
        require(
            self.acquire <= self.leash,
            f"acquire {self.acquire} is larger than leash {self.leash}: enemies would wake and sleep at once",
        )

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
            draw=self._draw,
            outcome=self._outcome,
            info=self._info,
        )

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
        """SMAC's `battle_won`, `dead_allies` and `dead_enemies`: (B,) each. Where all die at once, nobody has won."""
        dead, many = state.health <= 0, len(self.allies)
        allies, enemies = dead[:, :many].sum(axis=1), dead[:, many:].sum(axis=1)
        won = (enemies == len(self.enemies)) & (allies < many)
        return {"battle_won": won, "dead_allies": allies, "dead_enemies": enemies}

    def _outcome(self, state: State, b: int) -> str:
        """Which groups of enemies lost somebody."""
        dead = state.health[b, len(self.allies) :] <= 0
        groups = sorted({group for group, gone in zip(self.groups, dead, strict=True) if gone})
        return "beat " + " ".join(map(str, groups)) if groups else ""

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
            glyph = str(u) if u < n else "m" if unit.name == "marine" else unit.name[0].upper()
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
