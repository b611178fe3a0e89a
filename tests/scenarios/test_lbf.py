"""The grid kernel against its slow twin (lbforaging), against cases worked out by hand, and its spawns."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from macop_aht.scenarios import World, build
from macop_aht.scenarios.batch import Batch
from tests.oracles.foraging import Foraging

STAY, NORTH, SOUTH, WEST, EAST = range(5)
MOVES = np.array([(0, 0), (-1, 0), (1, 0), (0, -1), (0, 1)])
ENDS = ((1, "reward"), (2, "terminated"), (3, "truncated"))  # where they stand in what a twin's step gives
CORNERS = ((0, 0), (0, 5), (5, 0), (5, 5))

# A game that is nobody's: three agents, not square, foods inside, two of them so close that one stands next to both.
ODD_FOODS = ((6, 2), (3, 2), (4, 3), (0, 4))
ODD_SPAWN = ((1, 1), (2, 2), (1, 4), (6, 4), (5, 1))
WORLDS = {
    "LBF1": build("LBF1"),
    "LBF4": build("LBF4"),
    "odd": build("LBF4", shape=(7, 5), foods=ODD_FOODS, n_agents=3, spawn=ODD_SPAWN, meetings=1, limit=18),
}
SPAWN = {"LBF1": ((0, 0), (0, 1), (1, 0), (1, 1)), "LBF4": ((2, 2), (2, 3), (3, 2), (3, 3)), "odd": ODD_SPAWN}


def make_twin(name: str) -> Foraging:
    if name == "LBF1":
        return Foraging(shape=(5, 5), foods=((4, 4),), meetings=2)
    if name == "LBF4":
        return Foraging(shape=(6, 6), foods=CORNERS)
    return Foraging(shape=(7, 5), foods=ODD_FOODS, n_agents=3, meetings=1, limit=18)


def put(batch: Batch, **values: object) -> None:
    """Overwrite entries of the state."""
    for name, value in values.items():
        getattr(batch.state, name)[:] = value
    batch.look()


def twin_arrays(twins: list[Foraging]) -> dict[str, np.ndarray]:
    """Return state, observation and mask of all twins, in the form of the batch."""
    states = [twin.state() for twin in twins]
    arrays = {name: np.array([state[name] for state in states]) for name in states[0]}
    arrays["obs"] = np.array([twin.observation() for twin in twins])
    arrays["mask"] = np.array([twin.mask() for twin in twins])
    arrays["global_state"] = arrays["obs"].reshape(len(twins), -1)
    return arrays


def assert_equal(batch: Batch, expected: dict[str, np.ndarray], inputs: dict[str, np.ndarray]) -> None:
    """Assert that the batch equals the twins; the message names the first environment that differs."""
    for name, wanted in expected.items():
        source = batch.state if name in batch.state._fields else batch
        value = getattr(source, name)
        value = value() if callable(value) else value
        assert value.shape == wanted.shape, f"{name}: {value.shape} is not {wanted.shape}"
        wrong = np.flatnonzero((value != wanted).reshape(len(wanted), -1).any(1))
        if wrong.size:
            b = wrong[0]
            given = {key: array[b].tolist() for key, array in inputs.items()}
            pytest.fail(
                f"{name} differs in {wrong.size} environments; in {b} it is {value[b]}, not {wanted[b]}, after {given}"
            )


def step_twins(twins: list[Foraging], action: np.ndarray) -> dict[str, np.ndarray]:
    outcomes = [twin.step(row) for twin, row in zip(twins, action.tolist(), strict=True)]
    ends = {name: np.array([outcome[k] for outcome in outcomes]) for k, name in ENDS}
    return twin_arrays(twins) | ends


def random_states(twin: Foraging, count: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Return random states, also unreachable ones; in half of them the agents crowd around a food."""
    n, foods = len(twin.players), twin.foods
    states: dict[str, list] = {"pos": [], "level": [], "food": [], "met": []}
    for _ in range(count):
        level = rng.integers(1, 4, n)
        usual = rng.random(len(foods)) < 0.6
        food = np.where(usual, level.sum(), rng.integers(0, level.sum() + 1, len(foods)))  # 0: gone
        standing = {cell for cell, strength in zip(foods, food, strict=True) if strength > 0}
        free = [cell for cell in np.ndindex(*twin.field_size) if cell not in standing]
        row, col = foods[rng.integers(len(foods))]
        if rng.random() < 0.5:
            free = [cell for cell in free if abs(cell[0] - row) + abs(cell[1] - col) <= 2]
        shared = n > 2 and rng.random() < 0.1  # two in one cell happens with three agents, see below
        chosen = rng.choice(len(free), size=n, replace=shared)
        states["pos"].append([free[k] for k in chosen])
        states["level"].append(level)
        states["food"].append(food)
        states["met"].append(rng.integers(0, 4))
    return {name: np.array(values) for name, values in states.items()}


@pytest.mark.parametrize("name", WORLDS)
def test_one_step_from_any_state_equals_the_twin(name: str) -> None:
    rng, count = np.random.default_rng(1), 4000
    twins = [make_twin(name) for _ in range(count)]
    before = random_states(twins[0], count, rng)
    action = rng.integers(0, 5, (count, len(twins[0].players)))
    for b, twin in enumerate(twins):
        twin.inject(**{key: values[b] for key, values in before.items()})
    batch = Batch(WORLDS[name], count)
    put(batch, **before)
    inputs = before | {"action": action}
    assert_equal(batch, twin_arrays(twins), inputs)
    mask = batch.mask.copy()

    batch.step(action)
    assert_equal(batch, step_twins(twins, action), inputs)

    allowed = np.take_along_axis(mask, action[..., None], -1)[..., 0] == 1
    still = (batch.state.pos == before["pos"]).all(-1)
    first, second = before["pos"][:, 0], before["pos"][:, 1]
    apart = (first != second).any(-1)
    swapped = (batch.state.pos[:, 0] == second).all(-1) & (batch.state.pos[:, 1] == first).all(-1) & apart
    lost = (before["food"] > 0).sum(1) - (batch.state.food > 0).sum(1)
    assert lost.max() == 1
    # None of this is vacuous: enough of everything has happened.
    assert (~allowed).mean() > 0.05
    assert (still & allowed & (action > 0)).mean() > 0.02, "nobody bumped into another"
    assert swapped.sum() >= 10
    assert 0.05 < (batch.state.met > before["met"]).mean() < 0.95
    assert 0.03 < batch.terminated.mean() < 0.9
    assert (batch.reward == 1).sum() >= 50
    if name != "LBF4":
        assert (batch.terminated & (batch.reward == 0)).sum() >= 50, "no food was collected too early"


@pytest.mark.parametrize("name", WORLDS)
def test_whole_episodes_equal_the_twin(name: str) -> None:
    rng, count = np.random.default_rng(2), 40
    batch = Batch(WORLDS[name], count)
    batch.seed(range(100, 100 + count))
    batch.reset()
    twins = [make_twin(name) for _ in range(count)]
    foods = np.array(twins[0].foods)
    ended = np.ones(count, dtype=bool)
    finished = {"paid": 0, "unpaid": 0, "truncated": 0}
    for _ in range(120):
        for b in np.flatnonzero(ended):
            twins[b].inject(**{key: getattr(batch.state, key)[b] for key in batch.state._fields})
        goal = foods[batch.episode % len(foods)][:, None] - batch.state.pos
        towards = np.where(
            np.abs(goal[..., 0]) > np.abs(goal[..., 1]),
            np.where(goal[..., 0] < 0, NORTH, SOUTH),
            np.where(goal[..., 1] < 0, WEST, EAST),
        )
        action = np.where(rng.random(towards.shape) < 0.5, towards, rng.integers(0, 5, towards.shape))
        inputs = {"pos": batch.state.pos.copy(), "action": action}
        batch.step(action)
        assert_equal(batch, step_twins(twins, action), inputs)
        finished["paid"] += int((batch.reward == 1).sum())
        finished["unpaid"] += int((batch.terminated & (batch.reward == 0)).sum())
        finished["truncated"] += int(batch.truncated.sum())
        ended = batch.terminated | batch.truncated
        batch.reset(ended)
    assert finished["paid"] >= 20
    assert finished["truncated"] >= 5
    assert (finished["unpaid"] == 0) == (name == "LBF4")


def play(world: World, pos: list, action: list[int], **state: object) -> Batch:
    """Return one environment after one step from this state."""
    batch = Batch(world, 1)
    batch.reset()
    put(batch, pos=pos, **state)
    batch.step(np.array([action]))
    return batch


@pytest.mark.parametrize(
    ("what", "before", "action", "after"),
    [
        ("a swap is allowed", [(2, 2), (2, 3)], [EAST, WEST], [(2, 3), (2, 2)]),
        ("both want (2,3): both stay", [(2, 2), (2, 4)], [EAST, WEST], [(2, 2), (2, 4)]),
        ("both want (3,3), from two sides", [(2, 3), (3, 2)], [SOUTH, EAST], [(2, 3), (3, 2)]),
        ("a staying agent wants its own cell", [(2, 2), (2, 3)], [EAST, STAY], [(2, 2), (2, 3)]),
        ("so does one that walks into the border", [(2, 4), (2, 5)], [EAST, EAST], [(2, 4), (2, 5)]),
        ("and one that walks into a food", [(1, 1), (1, 0)], [WEST, NORTH], [(1, 1), (1, 0)]),
        ("one follows the other", [(2, 2), (2, 3)], [EAST, EAST], [(2, 3), (2, 4)]),
        ("a cell left is free at once", [(2, 2), (2, 3)], [EAST, SOUTH], [(2, 3), (3, 3)]),
        ("north and west count down", [(3, 3), (2, 2)], [NORTH, WEST], [(2, 3), (2, 1)]),
        ("south and east count up", [(3, 3), (2, 2)], [SOUTH, EAST], [(4, 3), (2, 3)]),
    ],
)
def test_movement_by_hand(what: str, before: list, action: list[int], after: list) -> None:
    batch = play(WORLDS["LBF4"], before, action)
    assert batch.state.pos[0].tolist() == [list(cell) for cell in after], what


def test_an_agent_may_enter_the_cell_of_one_that_is_then_blocked() -> None:
    """lbforaging's rule, with three agents only: 1 and 2 want the same cell and stay, 0 walks into the cell of 1."""
    batch = play(WORLDS["odd"], [(2, 0), (2, 1), (2, 3)], [EAST, EAST, WEST])
    assert batch.state.pos[0].tolist() == [[2, 1], [2, 1], [2, 3]]


@pytest.mark.parametrize(
    ("what", "met", "before", "action", "reward", "terminated"),
    [
        # (3,4) and (4,3) are the two cells next to the food in the corner; they are not next to each other.
        ("the counter at 2 pays", 2, [(3, 3), (4, 3)], [EAST, STAY], 1, True),
        ("at 1 it pays nothing, and still ends", 1, [(3, 3), (4, 3)], [EAST, STAY], 0, True),
        ("side by side before the move does not count", 1, [(3, 3), (3, 4)], [SOUTH, STAY], 0, True),
        ("one next to the food is too few", 2, [(2, 2), (4, 3)], [STAY, STAY], 0, False),
        ("diagonal is not next to it", 2, [(3, 3), (4, 3)], [STAY, STAY], 0, False),
    ],
)
def test_meetings_of_lbf1_by_hand(
    what: str, met: int, before: list, action: list[int], reward: float, terminated: bool
) -> None:
    batch = play(WORLDS["LBF1"], before, action, met=met)
    assert (batch.reward[0], batch.terminated[0]) == (reward, terminated), what


@pytest.mark.parametrize(
    ("what", "before", "action", "met"),
    [
        ("side by side after the move", [(0, 0), (0, 2)], [EAST, STAY], 1),
        ("one above the other", [(0, 0), (1, 0)], [STAY, STAY], 1),
        ("no longer after the move", [(0, 0), (0, 1)], [STAY, EAST], 0),
        ("a swap", [(0, 0), (0, 1)], [EAST, WEST], 1),
        ("diagonal", [(0, 0), (1, 1)], [STAY, STAY], 0),
        ("two apart", [(0, 0), (0, 2)], [STAY, STAY], 0),
    ],
)
def test_the_counter_looks_after_the_move(what: str, before: list, action: list[int], met: int) -> None:
    assert play(WORLDS["LBF1"], before, action).state.met[0] == met, what


def test_the_counter_counts_before_the_loading() -> None:
    """Two agents are at the food, and a third comes to the side of one of them: this meeting already pays."""
    world = build("LBF1", foods=((2, 2),), n_agents=3)
    for met, reward in ((0, 0.0), (1, 1.0)):
        batch = play(world, [(1, 2), (2, 1), (1, 0)], [STAY, STAY, EAST], level=1, food=2, met=met)
        assert (batch.state.met[0], batch.reward[0], batch.terminated[0]) == (met + 1, reward, True)


@pytest.mark.parametrize(
    ("what", "pos", "level", "food", "left"),
    [
        ("both at the same corner", [(0, 1), (1, 0)], (1, 2), 3, [0, 3, 3, 3]),
        ("at the last corner", [(4, 5), (5, 4)], (3, 3), 6, [6, 6, 6, 0]),
        ("at two corners", [(0, 1), (0, 4)], (3, 3), 6, [6, 6, 6, 6]),
        ("one alone, however strong", [(0, 1), (2, 2)], (3, 1), 4, [4, 4, 4, 4]),
        ("one alone suffices where its level does", [(0, 1), (2, 2)], (3, 1), 3, [0, 3, 3, 3]),
        ("one level short", [(0, 1), (1, 0)], (1, 2), 4, [4, 4, 4, 4]),
    ],
)
def test_loading_by_hand(what: str, pos: list, level: tuple, food: int, left: list[int]) -> None:
    batch = play(WORLDS["LBF4"], pos, [STAY, STAY], level=level, food=food)
    assert batch.state.food[0].tolist() == left, what
    assert batch.terminated[0] == (0 in left)
    assert batch.reward[0] == (1.0 if 0 in left else 0.0)


def test_only_the_first_food_is_collected() -> None:
    batch = play(WORLDS["odd"], [(3, 3), (4, 2), (0, 0)], [STAY] * 3, level=1, food=2, met=1)
    assert batch.state.food[0].tolist() == [2, 0, 2, 2]  # (3,2) comes before (4,3)
    assert batch.reward[0] == 1.0


def test_observation_and_mask_by_hand() -> None:
    batch = Batch(WORLDS["LBF4"], 1)
    put(batch, pos=[(1, 0), (5, 3)], food=[5, 0, 5, 5])
    assert batch.obs[0].tolist() == [[0, 0, -1, -1, 5, 0, 5, 5, 1, 0, 5, 3], [0, 0, -1, -1, 5, 0, 5, 5, 5, 3, 1, 0]]
    assert batch.mask[0].tolist() == [[1, 0, 1, 0, 1], [1, 1, 0, 1, 1]]
    put(batch, pos=[(1, 0), (0, 4)], food=[0, 0, 5, 5])  # the cell of a food that is gone is open
    assert batch.mask[0].tolist() == [[1, 1, 1, 0, 1], [1, 0, 1, 1, 1]]


def test_the_time_limit_truncates_after_25_steps() -> None:
    batch = Batch(WORLDS["LBF4"], 2)
    batch.reset()
    for step in range(1, 26):
        if step == 25:
            batch.state.pos[1] = (0, 1), (1, 0)  # success in the last step terminates instead
        batch.step(np.zeros((2, 2), dtype=np.int64))
        assert batch.truncated.tolist() == [step == 25, False]
    assert batch.terminated.tolist() == [False, True]


@pytest.mark.parametrize("name", WORLDS)
def test_spawns_and_levels(name: str) -> None:
    count = 12_000
    batch = Batch(WORLDS[name], count)
    batch.seed(range(count))
    put(batch, met=7)  # a counter left over from before
    batch.reset()
    n = batch.world.n_agents

    seats = list(permutations(SPAWN[name], n))  # different cells, in order
    found = [tuple(map(tuple, row)) for row in batch.state.pos.tolist()]
    assert set(found) == set(seats)
    counts = np.array([found.count(seat) for seat in seats])
    assert_uniform(counts)

    levels = batch.state.level
    assert set(np.unique(levels)) == {1, 2, 3}
    for i in range(n):
        assert_uniform(np.bincount(levels[:, i], minlength=4)[1:])
    pairs = 3 * (levels[:, 0] - 1) + levels[:, 1] - 1
    assert_uniform(np.bincount(pairs, minlength=9))  # drawn independently
    cells = np.array([SPAWN[name].index(seat[0]) for seat in found])
    assert_uniform(np.bincount(3 * cells + levels[:, 0] - 1, minlength=3 * len(SPAWN[name])))  # and of the cells
    assert (batch.state.food == levels.sum(1, keepdims=True)).all()
    assert (batch.state.met == 0).all()


def assert_uniform(counts: np.ndarray) -> None:
    """Check uniformity by chi-square. Chance passes the bound once in a million times; the seeds are fixed."""
    expected, freedom = counts.sum() / len(counts), len(counts) - 1
    chi_square = ((counts - expected) ** 2 / expected).sum()
    assert chi_square < freedom + 7 * np.sqrt(2 * freedom), counts
