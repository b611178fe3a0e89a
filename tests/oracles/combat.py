"""The rules of combat, one unit at a time: the slow twin of `macop_aht.scenarios.combat`.

Written from the manual (the docstring of `Combat`) and not from the kernel; of that module it uses only the figures,
the frozen dataclasses `Combat` and `Unit`. It reads top to bottom in the order of a step: orders, then in each loop
targets, movement, hits, clocks. `Battle.log` counts what has happened, so that a test can tell whether a sample of
battles has met every rule.

On two points the manual is silent, and this follows the kernel: the clocks of the dead run on, and everyone begins calm
for its shield's delay.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field

from macop_aht.scenarios.combat import Combat, Unit

SIDE = 32.0  # of the field
LOOPS_PER_SECOND = 22.4
LOOPS_PER_STEP = 8
MOVE_ORDER = 2.0  # units, at most
SLACK = 1e-6  # of a weapon's range: whoever has walked exactly into it may shoot
ROUNDING = 1e-9  # distances that differ by less are equal
NOTHING, STOP = 0, 1
HEADINGS = {2: (0.0, 1.0), 3: (0.0, -1.0), 4: (1.0, 0.0), 5: (-1.0, 0.0)}  # north, south, east, west
FIRST_ATTACK = 6
EVENTS = (  # what `Battle.log` counts
    "early ends",
    "wins",
    "unavailable actions",
    "targets gone",
    "shots past the nearest",
    "equally near",
    "woken by sight",
    "fallen asleep",
    "walks to the post",
    "pushes",
    "stops at the border",
    "pushes from the same place",
    "hits by the dying",
    "lost hits",
    "hits on enemies",
    "enemies killed",
    "hits on allies",
    "allies killed",
    "strikes through a shield",
    "woken by a hit",
    "woken by a mate",
    "regenerations",
)


@dataclass(eq=False)
class Fighter:
    """A unit on the field. It is dead without health."""

    kind: Unit
    x: float
    y: float
    health: float
    shield: float
    cooldown: float = 0.0  # loops until the weapon is ready
    calm: float = 0.0  # loops since the last damage
    hurt: bool = False  # in this loop
    post: tuple[float, float] = (0.0, 0.0)  # the enemies' only, as are the next two
    group: int = -1
    awake: bool = False

    @property
    def alive(self) -> bool:
        return self.health > 0


@dataclass
class Battle:
    allies: list[Fighter]
    enemies: list[Fighter]
    last_action: list[int]
    log: Counter[str] = field(default_factory=Counter)

    @property
    def living(self) -> list[Fighter]:
        """Return all living units, allies first, by index."""
        return [unit for unit in self.allies + self.enemies if unit.alive]

    @property
    def over(self) -> bool:
        return not any(unit.alive for unit in self.allies) or not any(unit.alive for unit in self.enemies)


@dataclass
class Intent:
    """The plan of a unit in a game loop: walk (dx, dy), and hit its target if it can then."""

    dx: float = 0.0
    dy: float = 0.0
    target: Fighter | None = None


def distance(one: Fighter, other: Fighter) -> float:
    """Return the distance from centre to centre."""
    return math.hypot(one.x - other.x, one.y - other.y)


def weapon_range(shooter: Fighter, target: Fighter) -> float:
    """Return the weapon's range from centre to centre; it is given from edge to edge."""
    return shooter.kind.radius + shooter.kind.reach + target.kind.radius


def in_range(shooter: Fighter, target: Fighter) -> bool:
    return distance(shooter, target) <= weapon_range(shooter, target) + SLACK


def nearest(battle: Battle, unit: Fighter, others: list[Fighter]) -> Fighter | None:
    """Return the nearest unit; of equally near ones, the lower index. Rounding must not decide between them."""
    if not others:
        return None
    least = min(distance(unit, other) for other in others)
    first, *rest = (other for other in others if distance(unit, other) < least + ROUNDING)
    battle.log["equally near"] += any((other.x, other.y) != (first.x, first.y) for other in rest)
    return first


# --- Reset


def reset(rules: Combat, draws: list[float]) -> Battle:
    """Place all units at full strength around their spawns; draws are from 0..1, two (x, y) per unit, allies first."""

    def place(number: int, spawn: tuple[float, float]) -> tuple[float, float]:
        x, y = ((2 * draws[2 * number + axis] - 1) * rules.jitter for axis in (0, 1))
        return spawn[0] + x, spawn[1] + y

    allies = []
    for i, kind in enumerate(rules.allies):
        x, y = place(i, rules.spawn[i])
        allies.append(fresh(kind, x, y))
    enemies = []
    for j, kind in enumerate(rules.enemies):
        x, y = place(len(allies) + j, rules.posts[j])
        enemies.append(fresh(kind, x, y))
        enemies[j].post, enemies[j].group = (x, y), rules.groups[j]
    return Battle(allies, enemies, last_action=[-1] * len(allies))


def fresh(kind: Unit, x: float, y: float) -> Fighter:
    """Return a unit at full strength, with a ready weapon, and without recent damage."""
    return Fighter(kind, x, y, kind.health, kind.shield, calm=kind.shield_delay * LOOPS_PER_SECOND)


# --- What an ally may do


def available(rules: Combat, battle: Battle, ally: Fighter, action: int) -> bool:
    if not ally.alive:
        return action == NOTHING
    if action == STOP:
        return True
    if action in HEADINGS:
        x, y = HEADINGS[action]
        return 0 <= ally.x + x <= SIDE and 0 <= ally.y + y <= SIDE
    if action >= FIRST_ATTACK:
        enemy = battle.enemies[action - FIRST_ATTACK]
        return enemy.alive and distance(ally, enemy) <= rules.shoot
    return False  # the no-op is for the dead


def mask(rules: Combat, battle: Battle) -> list[list[int]]:
    actions = range(FIRST_ATTACK + len(battle.enemies))
    return [[int(available(rules, battle, ally, action)) for action in actions] for ally in battle.allies]


# --- A step


def step(rules: Combat, battle: Battle, actions: list[int]) -> tuple[float, bool]:
    """Step the battle in place, and return the reward and whether the episode has ended."""
    orders = [carried_out(rules, battle, ally, action) for ally, action in zip(battle.allies, actions, strict=True)]
    battle.last_action = list(orders)
    points = 0.0
    for loop in range(LOOPS_PER_STEP):
        points += game_loop(rules, battle, orders)
        if battle.over:
            battle.log["early ends"] += loop + 1 < LOOPS_PER_STEP
            break
    won = battle.over and any(ally.alive for ally in battle.allies)
    if won:
        points += rules.win_reward
        battle.log["wins"] += 1
    full = rules.win_reward + sum(rules.kill_reward + kind.health + kind.shield for kind in rules.enemies)
    return points * rules.full_reward / full, battle.over


def carried_out(rules: Combat, battle: Battle, ally: Fighter, action: int) -> int:
    """Return the action that is carried out: stop for an unavailable one, no-op for the dead."""
    if available(rules, battle, ally, action):
        return action
    battle.log["unavailable actions"] += 1
    return STOP if ally.alive else NOTHING


def game_loop(rules: Combat, battle: Battle, orders: list[int]) -> float:
    """Run a game loop, and return the points that the allies make in it."""
    fighting = battle.living  # whoever dies in this loop still does what it was about to do
    intents = []
    for ally, order in zip(battle.allies, orders, strict=True):
        if ally.alive:
            intents.append(ally_intent(battle, ally, order))
    for enemy in battle.enemies:
        if enemy.alive:
            intents.append(enemy_intent(rules, battle, enemy))
    move(battle, fighting, intents)
    points = hits(rules, battle, fighting, intents)
    for unit in battle.allies + battle.enemies:
        run_clocks(battle, unit)
    return points


# 1. Orders and targets


def ally_intent(battle: Battle, ally: Fighter, order: int) -> Intent:
    if order in HEADINGS:
        x, y = HEADINGS[order]
        speed = min(ally.kind.speed / LOOPS_PER_SECOND, MOVE_ORDER / LOOPS_PER_STEP)
        return Intent(x * speed, y * speed)
    if order >= FIRST_ATTACK:
        ordered = battle.enemies[order - FIRST_ATTACK]
        if ordered.alive:
            return pursuit(ally, ordered)
        battle.log["targets gone"] += 1
    living = [enemy for enemy in battle.enemies if enemy.alive]
    target = nearest(battle, ally, [enemy for enemy in living if in_range(ally, enemy)])
    battle.log["shots past the nearest"] += target is not nearest(battle, ally, living) and target is not None
    return Intent(target=target)


def enemy_intent(rules: Combat, battle: Battle, enemy: Fighter) -> Intent:
    prey = nearest(battle, enemy, [ally for ally in battle.allies if ally.alive])
    assert prey is not None, "a step ends when one side is gone"
    at_the_post = [
        ally for ally in battle.allies if ally.alive and math.dist(enemy.post, (ally.x, ally.y)) <= rules.leash
    ]
    if not at_the_post:
        battle.log["fallen asleep"] += enemy.awake
        enemy.awake = False
    elif distance(enemy, prey) <= rules.acquire:
        battle.log["woken by sight"] += not enemy.awake
        enemy.awake = True
    if enemy.awake:
        return pursuit(enemy, prey)
    intent = walk(enemy, *enemy.post, stop_at=0.0)
    battle.log["walks to the post"] += (intent.dx, intent.dy) != (0.0, 0.0)
    return intent


def pursuit(unit: Fighter, target: Fighter) -> Intent:
    """Return the walk of a unit out of its weapon's range: towards its target, at most into range."""
    intent = walk(unit, target.x, target.y, stop_at=weapon_range(unit, target))
    intent.target = target
    return intent


def walk(unit: Fighter, x: float, y: float, stop_at: float) -> Intent:
    """Return the way straight to (x, y), ending at `stop_at` from it."""
    way = math.hypot(x - unit.x, y - unit.y)
    length = min(unit.kind.speed / LOOPS_PER_SECOND, way - stop_at)
    if length <= 0:
        return Intent()
    return Intent((x - unit.x) / way * length, (y - unit.y) / way * length)


# 2. Movement


def move(battle: Battle, fighting: list[Fighter], intents: list[Intent]) -> None:
    for unit, intent in zip(fighting, intents, strict=True):
        unit.x += intent.dx
        unit.y += intent.dy
    pushes = [push_on(battle, unit, fighting) for unit in fighting]  # all at once: nobody has been pushed yet
    for unit, (x, y) in zip(fighting, pushes, strict=True):
        unit.x += x
        unit.y += y
        battle.log["stops at the border"] += not (0 <= unit.x <= SIDE and 0 <= unit.y <= SIDE)
        unit.x = min(max(unit.x, 0.0), SIDE)
        unit.y = min(max(unit.y, 0.0), SIDE)


def push_on(battle: Battle, unit: Fighter, fighting: list[Fighter]) -> tuple[float, float]:
    """Return the push away from all units that it overlaps, by a quarter of each overlap."""
    x = y = 0.0
    for other in fighting:
        overlap = unit.kind.radius + other.kind.radius - distance(unit, other)
        if other is not unit and overlap > 0:
            battle.log["pushes"] += 1
            away_x, away_y = away(battle, unit, other, fighting)
            x += away_x * overlap / 4
            y += away_y * overlap / 4
    return x, y


def away(battle: Battle, unit: Fighter, other: Fighter, fighting: list[Fighter]) -> tuple[float, float]:
    """Return the direction away from the other; at the same point, the lower index goes east and the higher west."""
    gap = distance(unit, other)
    if gap > 0:
        return (unit.x - other.x) / gap, (unit.y - other.y) / gap
    battle.log["pushes from the same place"] += 1
    return (1.0, 0.0) if fighting.index(unit) < fighting.index(other) else (-1.0, 0.0)


# 3. Hits


def hits(rules: Combat, battle: Battle, fighting: list[Fighter], intents: list[Intent]) -> float:
    points = 0.0
    for shooter, intent in zip(fighting, intents, strict=True):
        target = intent.target
        if target is None or shooter.cooldown > 0 or not in_range(shooter, target):
            continue
        shooter.cooldown = shooter.kind.cooldown * LOOPS_PER_SECOND
        if not shooter.alive:
            battle.log["hits by the dying"] += 1
        if not target.alive:  # an earlier index has just killed it
            battle.log["lost hits"] += 1
            continue
        damage = hit(battle, shooter, target)
        if target in battle.enemies:
            battle.log["hits on enemies"] += 1
            points += damage
            if not target.alive:
                battle.log["enemies killed"] += 1
                points += rules.kill_reward
            raise_alarm(rules, battle, target)
        else:
            battle.log["hits on allies"] += 1
            battle.log["allies killed"] += not target.alive
            points -= rules.penalty * (damage + (0.0 if target.alive else rules.kill_reward))
    return points


def hit(battle: Battle, shooter: Fighter, target: Fighter) -> float:
    """Hit a unit, and return the damage to shield and health together."""
    before = target.shield + target.health
    for _ in range(shooter.kind.strikes):
        absorbed = min(target.shield, shooter.kind.damage)
        target.shield -= absorbed
        rest = shooter.kind.damage - absorbed
        if rest > 0:
            battle.log["strikes through a shield"] += absorbed > 0
            target.health -= min(target.health, max(rest - target.kind.armour, 0.5))
    target.hurt = True
    return before - target.shield - target.health


def raise_alarm(rules: Combat, battle: Battle, enemy: Fighter) -> None:
    battle.log["woken by a hit"] += enemy.alive and not enemy.awake
    enemy.awake = True
    for mate in battle.enemies:
        if mate.alive and mate.group == enemy.group and distance(enemy, mate) <= rules.alarm:
            battle.log["woken by a mate"] += not mate.awake
            mate.awake = True


# 4. Cooldowns and shields


def run_clocks(battle: Battle, unit: Fighter) -> None:
    unit.cooldown = max(unit.cooldown - 1, 0)
    unit.calm = 0 if unit.hurt else unit.calm + 1
    unit.hurt = False
    rested = unit.calm >= unit.kind.shield_delay * LOOPS_PER_SECOND
    if unit.alive and rested and unit.shield < unit.kind.shield:
        battle.log["regenerations"] += 1
        unit.shield = min(unit.shield + unit.kind.shield_rate / LOOPS_PER_SECOND, unit.kind.shield)


# --- What an ally sees


def observe(rules: Combat, battle: Battle) -> list[list[float]]:
    return [view(rules, battle, ally) for ally in battle.allies]


def view(rules: Combat, battle: Battle, ally: Fighter) -> list[float]:
    entries = [float(available(rules, battle, ally, heading)) for heading in HEADINGS]
    for number, enemy in enumerate(battle.enemies):
        block = [float(available(rules, battle, ally, FIRST_ATTACK + number)), *bearing(rules, ally, enemy)]
        if enemy.kind.shield > 0:
            block.append(enemy.shield / enemy.kind.shield)
        entries += block if visible(rules, ally, enemy) else [0.0] * len(block)
    for other in battle.allies:
        if other is not ally:
            block = [1.0, *bearing(rules, ally, other)]
            entries += block if visible(rules, ally, other) else [0.0] * len(block)
    entries.append(ally.health / ally.kind.health)
    return entries if ally.alive else [0.0] * len(entries)


def visible(rules: Combat, ally: Fighter, other: Fighter) -> bool:
    return other.alive and distance(ally, other) <= rules.sight


def bearing(rules: Combat, ally: Fighter, other: Fighter) -> list[float]:
    return [
        distance(ally, other) / rules.sight,
        (other.x - ally.x) / rules.sight,
        (other.y - ally.y) / rules.sight,
        other.health / other.kind.health,
    ]


def global_state(battle: Battle) -> list[float]:
    entries = []
    for ally in battle.allies:
        block = [ally.health / ally.kind.health, ally.cooldown / 15, *from_centre(ally)]
        entries += block if ally.alive else [0.0] * len(block)
    for enemy in battle.enemies:
        block = [enemy.health / enemy.kind.health, *from_centre(enemy)]
        if enemy.kind.shield > 0:
            block.append(enemy.shield / enemy.kind.shield)
        entries += block if enemy.alive else [0.0] * len(block)
    for action in battle.last_action:
        entries += [float(action == number) for number in range(FIRST_ATTACK + len(battle.enemies))]
    return entries


def from_centre(unit: Fighter) -> tuple[float, float]:
    return (unit.x - SIDE / 2) / SIDE, (unit.y - SIDE / 2) / SIDE
