"""Properties that hold for the kernels of all scenarios, in any state."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from macop_aht.scenarios import (
    SCENARIOS,
    Combat,
    CooperativeNavigation,
    LevelBasedForaging,
    PredatorPrey,
    World,
    build,
)
from macop_aht.scenarios.batch import Batch

SEEDS = st.integers(min_value=0, max_value=2**63)
HISTORIES = settings(max_examples=25, deadline=None)
SITUATIONS = settings(max_examples=60, deadline=None)
STEPS = 30
COMBAT = [name for name, scenario in SCENARIOS.items() if isinstance(scenario.family, Combat)]
FORAGING = [name for name, scenario in SCENARIOS.items() if isinstance(scenario.family, LevelBasedForaging)]
PARTICLES = [name for name in SCENARIOS if name not in COMBAT + FORAGING]
NOTHING, STOP, NORTH, WEST, ATTACK = 0, 1, 2, 5, 6  # of combat
WAYS = {2: (0, 1), 3: (0, -1), 4: (1, 0), 5: (-1, 0)}  # of combat: north, south, east, west
WALK = 8 * 3.15 / 22.4  # of combat: a step has 8 loops, a second 22.4

Arrays = dict[str, np.ndarray]  # (B,...) by name
State = dict[str, np.ndarray]  # of one environment, by the names of the kernel's state

every_scenario = pytest.mark.parametrize("name", SCENARIOS)


def snapshot(batch: Batch) -> Arrays:
    """Return a copy of everything visible of a batch; the leading axis is always the environments."""
    seen = {f"state.{key}": value.copy() for key, value in batch.state._asdict().items()}
    for key in ("obs", "mask", "reward", "terminated", "truncated", "clock", "episode"):
        seen[key] = getattr(batch, key).copy()
    return seen | {"global_state": batch.global_state()}


def assert_same(left: Arrays, right: Arrays, rows: object = slice(None)) -> None:
    """`left[rows]` is `right`, to the last bit."""
    assert left.keys() == right.keys()
    for key, value in left.items():
        assert np.array_equal(value[rows], right[key]), f"{key}: {value[rows]} is not {right[key]}"


def headings(world: World, size: int, rng: np.random.Generator) -> np.ndarray:
    """Return actions (T,B,N) that lead somewhere: every agent has an action that it takes two times out of three."""
    shape = (STEPS, size, world.n_agents)
    favourite = rng.integers(0, len(world.actions), shape[1:])
    return np.where(rng.random(shape) < 2 / 3, favourite, rng.integers(0, len(world.actions), shape))


def history(batch: Batch, actions: np.ndarray, restart: np.ndarray) -> list[Arrays]:
    """Begin, take all `actions` (T,B,N), and reset what has ended or what `restart` (T,B) says after a step."""
    batch.reset()
    seen = [snapshot(batch)]
    for action, again in zip(actions, restart, strict=True):
        batch.step(action)
        seen.append(snapshot(batch))
        batch.reset(again | batch.terminated | batch.truncated)
        seen.append(snapshot(batch))
    return seen


def seeded(world: World, seeds: list[int]) -> Batch:
    batch = Batch(world, len(seeds))
    batch.seed(seeds)
    return batch


@every_scenario
@HISTORIES
@given(seed=SEEDS, size=st.integers(1, 5), choice=SEEDS)
def test_a_batch_equals_singles(name: str, seed: int, size: int, choice: int) -> None:
    """Environment i of a batch seeded s + i plays as a single one seeded s + i, whenever the others are reset."""
    world, rng = build(name), np.random.default_rng(choice)
    actions, restart = headings(world, size, rng), rng.random((STEPS, size)) < 0.1
    together = history(seeded(world, list(range(seed, seed + size))), actions, restart)
    for i in range(size):
        alone = history(seeded(world, [seed + i]), actions[:, i : i + 1], restart[:, i : i + 1])
        for left, right in zip(together, alone, strict=True):
            assert_same(left, right, rows=slice(i, i + 1))


@every_scenario
@HISTORIES
@given(seed=SEEDS, other=SEEDS, choice=SEEDS)
def test_the_same_seed_gives_the_same_sequence(name: str, seed: int, other: int, choice: int) -> None:
    """This also holds in a batch that was used with another seed before."""
    world, rng = build(name), np.random.default_rng(choice)
    actions, restart = headings(world, 2, rng), rng.random((STEPS, 2)) < 0.1
    fresh = history(seeded(world, [seed, seed + 1]), actions, restart)
    used = seeded(world, [other, other + 7])
    history(used, headings(world, 2, rng), restart)
    used.seed([seed, seed + 1])
    used.reward[:], used.terminated[:], used.truncated[:] = 0.0, False, False  # a reset does not touch these
    for left, right in zip(fresh, history(used, actions, restart), strict=True):
        assert_same(left, right)


@every_scenario
def test_other_seeds_and_episodes_begin_differently(name: str) -> None:
    batch = seeded(build(name), list(range(64)))
    batch.reset()
    first = np.concatenate([batch.state.pos.reshape(64, -1), batch.obs.reshape(64, -1)], axis=1)
    assert len(np.unique(first, axis=0)) > 8
    batch.reset()
    second = np.concatenate([batch.state.pos.reshape(64, -1), batch.obs.reshape(64, -1)], axis=1)
    assert (first != second).any(1).mean() > 0.5


@every_scenario
@HISTORIES
@given(seed=SEEDS, chosen=st.lists(st.booleans(), min_size=1, max_size=5), choice=SEEDS)
def test_a_reset_touches_only_its_rows(name: str, seed: int, chosen: list[bool], choice: int) -> None:
    world, rows = build(name), np.array(chosen)
    batch = seeded(world, list(range(seed, seed + len(rows))))
    batch.reset()
    for action in headings(world, len(rows), np.random.default_rng(choice))[:5]:
        batch.step(action)
    before = snapshot(batch)
    batch.reset(rows)
    after = snapshot(batch)
    assert_same(after, {key: value[~rows] for key, value in before.items()}, rows=~rows)
    assert (after["clock"] == np.where(rows, 0, 5)).all()
    assert (after["episode"] == rows).all()


@every_scenario
@HISTORIES
@given(seed=SEEDS, order=st.permutations(range(5)), choice=SEEDS)
def test_permuting_environments_permutes_results(name: str, seed: int, order: list[int], choice: int) -> None:
    world, rng = build(name), np.random.default_rng(choice)
    actions, restart = headings(world, 5, rng), rng.random((STEPS, 5)) < 0.1
    straight = history(seeded(world, [seed + i for i in range(5)]), actions, restart)
    permuted = history(seeded(world, [seed + i for i in order]), actions[:, order], restart[:, order])
    for left, right in zip(straight, permuted, strict=True):
        assert_same(left, right, rows=order)


# Masks: what they forbid, a step ignores whatever the others do; what they allow makes a difference.


def foraging_state(family: LevelBasedForaging, rng: np.random.Generator) -> State:
    """Agents are in different free cells, and some foods are collected."""
    foods = list(family.foods)
    level = rng.integers(1, 4, family.n_agents)
    food = np.where(rng.random(len(foods)) < 0.8, level.sum(), 0)
    standing = [cell for cell, strength in zip(foods, food, strict=True) if strength > 0]
    free = [cell for cell in np.ndindex(*family.shape) if cell not in standing]
    pos = np.array(free)[rng.choice(len(free), family.n_agents, replace=False)]
    if rng.random() < 0.5:  # side by side
        beside = [cell for cell in free if abs(cell[0] - pos[0, 0]) + abs(cell[1] - pos[0, 1]) == 1]
        pos[1] = beside[rng.integers(len(beside))]
    return {"pos": pos, "level": level, "food": food, "met": rng.integers(0, 3)}


def particle_state(family: PredatorPrey | CooperativeNavigation, rng: np.random.Generator) -> State:
    """A crowd or a loose state, slow enough that no speed is clipped but by contact."""
    empty = family.build().allocate(1)
    scale, speed = rng.choice([0.15, 1.0]), rng.uniform(0, 0.3)
    return {
        "pos": rng.uniform(-scale, scale, empty.pos.shape[1:]),
        "vel": rng.uniform(-speed, speed, empty.vel.shape[1:]),
        "landmark": rng.uniform(-1, 1, empty.landmark.shape[1:]),
    }


def combat_state(family: Combat, rng: np.random.Generator) -> State:
    """A battle anywhere on the field, often at the border, with dead and wounded, ready weapons and empty ones."""
    n, units = len(family.allies), family.allies + family.enemies
    count = len(units)
    centre, width = rng.choice([0.0, 2.0, 16.0, 16.0, 32.0], 2), rng.choice([1.0, 5.0, 10.0])
    pos = np.clip(centre + rng.uniform(-width, width, (count, 2)), 0, 32)
    alive = rng.random(count) < 0.8
    alive[rng.integers(n)] = alive[rng.integers(n, count)] = True
    return {
        "pos": pos,
        "health": alive * np.ceil([unit.health * rng.uniform(0.01, 1) for unit in units]),
        "shield": alive * np.array([unit.shield * rng.choice([0, 0.3, 1.0]) for unit in units]),
        "cooldown": rng.choice([0.0, 0.0, 3.0, 12.0], count),
        "calm": rng.choice([0.0, 100.0, 200.0], count),
        "post": np.clip(pos[n:] + rng.uniform(-3, 3, (count - n, 2)), 0, 32),
        "awake": rng.random(count - n) < 0.5,
        "last_action": np.full(n, -1),
    }


def situation(name: str, choice: int) -> tuple[World, State]:
    """Return a world and a state of it, from a number."""
    make = {
        LevelBasedForaging: foraging_state,
        PredatorPrey: particle_state,
        CooperativeNavigation: particle_state,
        Combat: combat_state,
    }
    family = SCENARIOS[name].family
    return build(name), make[type(family)](family, np.random.default_rng(choice))


def put(batch: Batch, state: State) -> None:
    for key, value in state.items():
        getattr(batch.state, key)[:] = value
    batch.look()


def all_outcomes(world: World, state: State) -> tuple[np.ndarray, np.ndarray, Arrays]:
    """Return the results of every joint action: mask (N,A) before, joint actions (J,N), and everything after, (J,...)."""
    joint = np.array(list(product(range(len(world.actions)), repeat=world.n_agents)))
    batch = seeded(world, [0] * len(joint))  # the same draws for all
    batch.reset()
    put(batch, state)
    mask = batch.mask[0].copy()
    batch.step(joint)
    return mask, joint, snapshot(batch)


def instead(joint: np.ndarray, i: int, action: int, n_actions: int) -> np.ndarray:
    """Where, for every joint action (J,N), the one stands in which agent i does `action` and the others the same."""
    other = joint.copy()
    other[:, i] = action
    return other @ n_actions ** np.arange(joint.shape[1])[::-1]


def idle(name: str, state: State, i: int) -> int:
    """Return the action that does nothing."""
    if name not in COMBAT:
        return 0
    return STOP if state["health"][i] > 0 else NOTHING


@every_scenario
@SITUATIONS
@given(choice=SEEDS)
def test_what_the_mask_forbids_is_ignored(name: str, choice: int) -> None:
    """The executed order is part of combat's state, so a forbidden one must have become a stop there, too."""
    world, state = situation(name, choice)
    mask, joint, after = all_outcomes(world, state)
    assert mask.any(1).all()
    for i in range(world.n_agents):
        default = idle(name, state, i)
        assert mask[i, default]
        still = instead(joint, i, default, len(world.actions))
        ignored = mask[i][joint[:, i]] == 0
        expected = {key: value[still][ignored] for key, value in after.items()}
        assert_same(after, expected, rows=ignored)


@pytest.mark.parametrize("name", FORAGING + COMBAT)
def test_the_situations_are_not_vacuous(name: str) -> None:
    """Among a hundred of them, every action is forbidden and allowed, and combat's orders have every effect."""
    masks, effects = [], set()
    for choice in range(100):
        world, state = situation(name, choice)
        batch = Batch(world, 1)
        put(batch, state)
        masks.append(batch.mask[0].copy())
        if name in COMBAT:
            effects |= {(a >= ATTACK, effect(name, state, i, a)) for i, a in np.argwhere(masks[-1])}
    share = np.mean(masks, axis=(0, 1))[FORAGING.count(name) :]  # staying is never forbidden in foraging
    assert ((share > 0.05) & (share < 0.95)).all(), share
    if name in COMBAT:
        assert effects >= {(False, "walks"), (False, "walks freely"), (True, "walks"), (True, "hits another")}


@pytest.mark.parametrize("name", FORAGING)
@SITUATIONS
@given(choice=SEEDS)
def test_what_foraging_allows_moves(name: str, choice: int) -> None:
    """Only another agent can be in the way, and it can always make way: at the worst, the two swap."""
    world, state = situation(name, choice)
    mask, joint, after = all_outcomes(world, state)
    for i in range(world.n_agents):
        moved = (after["state.pos"][:, i] != state["pos"][i]).any(1)
        for action in range(1, len(world.actions)):
            assert moved[joint[:, i] == action].any() == bool(mask[i, action])


@pytest.mark.parametrize("name", PARTICLES)
@SITUATIONS
@given(choice=SEEDS)
def test_what_particles_allow_pushes(name: str, choice: int) -> None:
    """Everything is allowed, and every force is felt, whatever the others do."""
    world, state = situation(name, choice)
    mask, joint, after = all_outcomes(world, state)
    assert mask.all()
    for i in range(world.n_agents):
        coasting = instead(joint, i, 0, len(world.actions))
        felt = (after["state.vel"][:, i] != after["state.vel"][coasting, i]).any(1)
        assert (felt == (joint[:, i] != 0)).all()


@pytest.mark.parametrize("name", COMBAT)
@SITUATIONS
@given(choice=SEEDS)
def test_what_combat_allows_is_done(name: str, choice: int) -> None:
    """An allowed order is recorded, and makes a difference to stopping wherever it can.

    Moves: the unit ends elsewhere, and exactly 8 loops further if it meets nobody and lives. Attacks: out of range, the
    unit walks; in range with a ready weapon, it hits its target instead of the nearest enemy. Left out are units that a
    crowd can hold at the border, and attacks that an idle unit would make by itself or that wait for the weapon.
    """
    world, state = situation(name, choice)
    mask, joint, after = all_outcomes(world, state)
    for i in np.flatnonzero(state["health"][: world.n_agents] > 0):
        stopped = instead(joint, i, STOP, len(world.actions))
        elsewhere = (after["state.pos"][:, i] != after["state.pos"][stopped, i]).any(1)
        for action in np.flatnonzero(mask[i]):
            rows = joint[:, i] == action
            assert (after["state.last_action"][rows, i] == action).all()
            kind = effect(name, state, i, action)
            if kind == "walks freely":
                assert_walked(state, after, i, action, rows)
            if kind in ("walks", "walks freely"):
                assert elsewhere[rows].all()
            if kind == "hits another":
                assert_hit(
                    state, after, world.n_agents + action - ATTACK, rows & others_only_walk(state, joint, mask, i)
                )


def effect(name: str, state: State, i: int, action: int) -> str:
    """Return what an allowed order must do that stopping would not; empty where this is open."""
    if NORTH <= action <= WEST:
        return "walks freely" if is_free(state, i) else "walks" if is_inside(state, i) else ""
    if action >= ATTACK and gap(name, state, i, action - ATTACK) > 1e-3:
        return "walks" if is_inside(state, i) else ""
    if action >= ATTACK and overrides_the_nearest(name, state, i, action - ATTACK):
        return "hits another"
    return ""


def others_only_walk(state: State, joint: np.ndarray, mask: np.ndarray, i: int) -> np.ndarray:
    """Return the joint actions in which only ally i can shoot: (J,)."""
    quiet = np.ones(len(joint), dtype=bool)
    for j in range(joint.shape[1]):
        walks = (joint[:, j] >= NORTH) & (joint[:, j] <= WEST) & (mask[j][joint[:, j]] == 1)
        quiet &= walks | (state["health"][j] <= 0) | (j == i)
    return quiet


def assert_hit(state: State, after: Arrays, target: int, rows: np.ndarray) -> None:
    """Assert that only the target was hurt, of all enemies; a shield regenerates less in a step than a hit takes."""
    hurt = after["state.health"][rows] + after["state.shield"][rows] < state["health"] + state["shield"]
    n_allies = len(state["health"]) - len(state["awake"])
    assert rows.any()
    assert (hurt[:, n_allies:] == (np.arange(n_allies, len(state["health"])) == target)).all()


def distances(state: State, i: int) -> np.ndarray:
    """Return the distances from ally i to all units, infinite to itself and to the dead: (U,)."""
    distance = np.linalg.norm(state["pos"] - state["pos"][i], axis=1)
    distance[state["health"] <= 0] = np.inf
    distance[i] = np.inf
    return distance


def is_free(state: State, i: int) -> bool:
    """Return whether nobody can touch ally i in this step: both walk, radii sum to 1 at most, a crowd bursts by less than 3."""
    return bool(distances(state, i).min() > 2 * WALK + 1.0 + 3.0)


def is_inside(state: State, i: int) -> bool:
    """Return whether ally i cannot be pushed against the border in this step."""
    return bool((np.abs(state["pos"][i] - 16) < 16 - 3).all())


def assert_walked(state: State, after: Arrays, i: int, action: int, rows: np.ndarray) -> None:
    survived = rows & (after["state.health"][:, i] > 0) & ~after["terminated"]
    goal = np.clip(state["pos"][i] + WALK * np.array(WAYS[action]), 0, 32)
    assert after["state.pos"][survived, i] == pytest.approx(np.broadcast_to(goal, (survived.sum(), 2)), abs=1e-9)


def gap(name: str, state: State, i: int, enemy: int) -> float:
    """Return how far the enemy is outside the weapon's range of ally i (edge to edge); negative in range."""
    family: Combat = SCENARIOS[name].family
    unit, target = family.allies[i], family.enemies[enemy]
    distance = distances(state, i)[len(family.allies) + enemy]
    return float(distance - unit.reach - unit.radius - target.radius)


def overrides_the_nearest(name: str, state: State, i: int, enemy: int) -> bool:
    """A ready weapon, and the enemy safely in range for a loop (two moves and pushes), but another one is nearer."""
    nearest = distances(state, i)[len(SCENARIOS[name].family.allies) :].argmin()
    return bool(state["cooldown"][i] == 0 and gap(name, state, i, enemy) < -1.5 and nearest != enemy)
