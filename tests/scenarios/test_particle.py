"""The particle kernels against their slow twin (mpe2), against cases worked out by hand, and their spawns."""

from __future__ import annotations

import numpy as np
import pytest

from macop_aht.scenarios import World, build
from macop_aht.scenarios.batch import Batch
from macop_aht.scenarios.particle import State
from tests.oracles.particles import Body, Hunt, Particles, Spread

NOTHING, LEFT, RIGHT, DOWN, UP = range(5)
ENDS = ((1, "reward"), (2, "terminated"), (3, "truncated"))  # where they stand in what a twin's step gives
CLOSE = 1e-6
PREY1 = ((1.0, 0.0), (-0.5, 0.87), (-0.5, -0.87))
PREY2 = ((1.0, 0.0), (0.31, 0.95), (-0.8, 0.6), (-0.8, -0.6), (0.31, -0.95))

# Two worlds that are nobody's: every figure differs, three predators; more agents than landmarks.
WORLDS: dict[str, World] = {name: build(name) for name in ("PP1", "PP2", "CN2", "CN3")} | {
    "odd PP": build(
        "PP2", n_agents=3, prey=((0.5, 0.1), (-0.4, 0.3)), prey_radius=0.11, radius=0.06, acceleration=4.0,
        max_speed=0.8, prey_acceleration=1.0, prey_max_speed=0.2, limit=17,
    ),
    "still PP": build("PP1", prey_policy="still", n_agents=3, prey=((0.3, 0.9),), prey_radius=0.2),
    "odd CN": build(
        "CN2", agents=((0.0, 0.0), (0.5, 0.5), (-0.5, 0.5), (0.5, -0.5)), landmarks=((0.3, 0.0), (0.0, -0.9)),
        near=1.2, acceleration=2.5, radius=0.15, limit=11,
    ),
}  # fmt: skip


def make_twin(name: str) -> Particles:
    """Build the twin from the figures of the scenarios, typed a second time."""
    predator = Body(radius=0.075, acceleration=3.0, max_speed=1.0)
    if name == "PP1":
        bodies = [predator] * 2 + [Body(radius=0.05, acceleration=2.4, max_speed=0.4)] * 3
        return Particles(2, bodies, 0, Hunt(2, "random", near=0.25))
    if name == "PP2":
        bodies = [predator] * 2 + [Body(radius=0.05, acceleration=1.5, max_speed=0.3)] * 5
        return Particles(2, bodies, 0, Hunt(2, "flee", near=0.25))
    if name == "CN2":
        return Particles(2, [Body(radius=0.2)] * 2, 2, Spread(near=0.56))
    if name == "CN3":
        return Particles(3, [Body(radius=0.2)] * 3, 3, Spread(near=0.68))
    if name == "odd PP":
        bodies = [Body(0.06, 4.0, 0.8)] * 3 + [Body(0.11, 1.0, 0.2)] * 2
        return Particles(3, bodies, 0, Hunt(3, "flee", near=0.34), limit=17)
    if name == "still PP":
        return Particles(3, [predator] * 3 + [Body(0.2, 2.4, 0.4)], 0, Hunt(3, "still", near=0.55))
    return Particles(4, [Body(0.15, 2.5)] * 4, 2, Spread(near=0.36), limit=11)


def put(batch: Batch, **values: object) -> None:
    """Overwrite entries of the state."""
    for name, value in values.items():
        getattr(batch.state, name)[:] = value
    batch.look()


def twin_arrays(twins: list[Particles]) -> dict[str, np.ndarray]:
    """Return state, observation and mask of all twins, in the form of the batch."""
    states = [twin.state() for twin in twins]
    arrays = {name: np.array([state[name] for state in states]) for name in states[0]}
    arrays["obs"] = np.array([twin.observation() for twin in twins])
    arrays["mask"] = np.ones((*arrays["obs"].shape[:2], 5))
    arrays["global_state"] = arrays["obs"].reshape(len(twins), -1)
    return arrays


def step_twins(twins: list[Particles], action: np.ndarray, draws: np.ndarray) -> dict[str, np.ndarray]:
    outcomes = [twin.step(*row) for twin, *row in zip(twins, action.tolist(), draws.tolist(), strict=True)]
    return twin_arrays(twins) | {name: np.array([outcome[k] for outcome in outcomes]) for k, name in ENDS}


def assert_close(batch: Batch, expected: dict[str, np.ndarray], inputs: dict[str, np.ndarray]) -> None:
    """Assert that the batch equals the twins up to 1e-6; the message names the environment that differs most."""
    for name, wanted in expected.items():
        source = batch.state if name in batch.state._fields else batch
        value = getattr(source, name)
        value = value() if callable(value) else value
        assert value.shape == wanted.shape, f"{name}: {value.shape} is not {wanted.shape}"
        exact = value.dtype == bool or name in ("reward", "mask")
        scale = np.maximum(1.0, np.abs(wanted)) if value.dtype == np.float32 else 1.0
        error = (np.abs(value.astype(float) - wanted) / scale).reshape(len(wanted), -1).max(1, initial=0.0)
        if not (error <= (0.0 if exact else CLOSE)).all():  # not: NaN counts as wrong
            b = np.argmax(np.nan_to_num(error, nan=np.inf))
            given = {key: array[b].tolist() for key, array in inputs.items()}
            pytest.fail(f"{name} is off by {error[b]} in {b}: {value[b]}, not {wanted[b]}, after {given}")


def random_states(twin: Particles, count: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Return crowds and loose states of bodies at all speeds; agents near landmarks; in a quarter, two bodies just touch."""
    bodies, marks, n = twin.world.agents, len(twin.world.landmarks), twin.n_agents
    spread = rng.choice([0.15, 0.4, 1.2], (count, 1, 1))
    pos = rng.uniform(-1, 1, (count, len(bodies), 2)) * spread + rng.uniform(-1, 1, (count, 1, 2))
    landmark = rng.uniform(-1, 1, (count, marks, 2))
    for b in range(count):
        if marks and rng.random() < 0.5:
            order = rng.permutation(n)[:marks]
            pos[b, order] = landmark[b] + rng.uniform(-0.4, 0.4, (marks, 2))
        if rng.random() < 0.25:
            e, other = rng.choice(len(bodies), 2, replace=False)
            distance = bodies[e].size + bodies[other].size + rng.uniform(-0.005, 0.02)
            pos[b, other] = pos[b, e] + distance * direction(rng)
    limits = [body.max_speed or 2.0 for body in bodies]
    speed = rng.uniform(0, 1, (count, len(bodies), 1)) * np.array(limits)[:, None]
    vel = speed * np.array([[direction(rng) for _ in bodies] for _ in range(count)])
    return {"pos": pos, "vel": vel, "landmark": landmark}


def direction(rng: np.random.Generator) -> np.ndarray:
    angle = rng.uniform(0, 2 * np.pi)
    return np.array([np.cos(angle), np.sin(angle)])


def contacts(twin: Particles, pos: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return which environments have overlapping bodies, and which a pair that almost touches: (B,) (B,)."""
    radius = np.array([body.size for body in twin.world.agents])
    first, second = np.triu_indices(len(radius), k=1)
    gap = np.linalg.norm(pos[:, first] - pos[:, second], axis=-1) - radius[first] - radius[second]
    return (gap < 0).any(1), (np.abs(gap) < 0.005).any(1)


@pytest.mark.parametrize("name", WORLDS)
def test_one_step_from_any_state_equals_the_twin(name: str) -> None:
    rng, count = np.random.default_rng(3), 2500
    twins = [make_twin(name) for _ in range(count)]
    before = random_states(twins[0], count, rng)
    action = rng.integers(0, 5, (count, twins[0].n_agents))
    for b, twin in enumerate(twins):
        twin.inject(**{key: values[b] for key, values in before.items()})
    batch = Batch(WORLDS[name], count)
    batch.seed(range(count))
    batch.reset()
    put(batch, **before)
    inputs = before | {"action": action}
    assert_close(batch, twin_arrays(twins), inputs)

    batch.step(action)
    assert_close(batch, step_twins(twins, action, batch._step_draws), inputs)

    # None of this is vacuous: enough of everything has happened.
    overlapping, touching = contacts(twins[0], before["pos"])
    assert 0.2 < overlapping.mean() < 0.95
    assert touching.mean() > 0.05
    assert 0.03 < batch.terminated.mean() < 0.95
    if name.endswith(("PP", "PP1", "PP2")):
        limits = np.array([body.max_speed for body in twins[0].world.agents])
        clipped = np.isclose(np.linalg.norm(batch.state.vel, axis=-1), limits)  # (B,E)
        assert (clipped.mean(0) > 0.05).all()
        assert (clipped.mean(0) < 0.95).all()


def goals(state: State, n: int) -> np.ndarray:
    """Return where the agents want to go: the first prey, or a landmark each; in every fourth environment, all to one place."""
    if state.landmark.shape[1]:
        goal = state.landmark[:, np.arange(n) % state.landmark.shape[1]]
    else:
        goal = np.repeat(state.pos[:, n : n + 1], n, axis=1)
    goal[::4] = state.pos[::4, :n].mean(1, keepdims=True)
    return goal


@pytest.mark.parametrize("name", WORLDS)
def test_whole_episodes_equal_the_twin(name: str) -> None:
    """The twins get only the first state of an episode, so errors would add up."""
    rng, count = np.random.default_rng(4), 16
    batch = Batch(WORLDS[name], count)
    batch.seed(range(500, 500 + count))
    batch.reset()
    twins = [make_twin(name) for _ in range(count)]
    n = twins[0].n_agents
    ended, touched, succeeded, truncated = np.ones(count, dtype=bool), 0, 0, 0
    for _ in range(75):
        for b in np.flatnonzero(ended):
            twins[b].inject(**{key: getattr(batch.state, key)[b] for key in batch.state._fields})
        goal = goals(batch.state, n) - batch.state.pos[:, :n]
        across = np.abs(goal[..., 0]) > np.abs(goal[..., 1])
        towards = np.where(across, 1 + (goal[..., 0] > 0), 3 + (goal[..., 1] > 0))
        wander = (rng.random(towards.shape) < 0.2) | (np.arange(count) % 4 == 1)[:, None]
        action = np.where(wander, rng.integers(0, 5, towards.shape), towards)
        inputs = {"pos": batch.state.pos.copy(), "vel": batch.state.vel.copy(), "action": action}
        touched += contacts(twins[0], batch.state.pos)[0].sum()
        batch.step(action)
        assert_close(batch, step_twins(twins, action, batch._step_draws), inputs)
        succeeded, truncated = succeeded + batch.terminated.sum(), truncated + batch.truncated.sum()
        ended = batch.terminated | batch.truncated
        batch.reset(ended)
    assert succeeded >= 5
    assert truncated >= 5
    assert touched >= 10


def at_rest(world: World, pos: list, **values: object) -> Batch:
    """Return one environment with everything at rest in these places."""
    batch = Batch(world, 1)
    batch.reset()
    put(batch, pos=pos, vel=0.0, **values)
    return batch


FAR = [(5.0, 5.0), (-5.0, 5.0), (5.0, -5.0)]  # prey out of everyone's way


def test_motion_by_hand() -> None:
    """Two steps to the right at acceleration 3: the velocity comes first, the place one step later."""
    batch = at_rest(WORLDS["PP1"], [(0.0, 0.0), (0.0, 2.0), *FAR])
    action = np.array([[RIGHT, DOWN]])
    batch.step(action)
    assert batch.state.pos[0, :2] == pytest.approx(np.array([(0, 0), (0, 2)]))
    assert batch.state.vel[0, :2] == pytest.approx(np.array([(0.3, 0), (0, -0.3)]))  # 3 * 0.1
    batch.step(action)
    assert batch.state.pos[0, :2] == pytest.approx(np.array([(0.03, 0), (0, 1.97)]))  # 0.3 * 0.1
    assert batch.state.vel[0, :2] == pytest.approx(np.array([(0.525, 0), (0, -0.525)]))  # 0.3 * 0.75 + 0.3
    put(batch, vel=np.array([(0.8, 0.6), (-0.6, 0.8), (0, 0), (0, 0), (0, 0)]))
    batch.step(np.array([[RIGHT, NOTHING]]))
    assert batch.state.vel[0, 0] == pytest.approx(np.array([0.9, 0.45]) / np.hypot(0.9, 0.45))  # 1.006 is clipped to 1
    assert batch.state.vel[0, 1] == pytest.approx((-0.45, 0.6))  # 0.75, below the limit


@pytest.mark.parametrize(("action", "way"), [(LEFT, (-1, 0)), (RIGHT, (1, 0)), (DOWN, (0, -1)), (UP, (0, 1))])
def test_ways_and_acceleration_of_navigation(action: int, way: tuple[int, int]) -> None:
    batch = at_rest(WORLDS["CN2"], [(-0.5, 0.0), (0.5, 0.0)])
    batch.step(np.array([[action, NOTHING]]))
    assert batch.state.vel[0] == pytest.approx(np.array([way, (0, 0)]) * 0.5)  # 5 * 0.1


def test_contact_by_hand() -> None:
    """Two bodies of radius 0.2 at a distance of 0.3 overlap by 0.1: force 100 * 0.1 apart, velocity 10 * 0.1."""
    batch = at_rest(WORLDS["CN2"], [(0.0, 0.0), (0.3, 0.0)], landmark=[(0.0, 0.1), (9.0, 9.0)])
    batch.step(np.array([[NOTHING, NOTHING]]))
    assert batch.state.vel[0] == pytest.approx(np.array([(-1.0, 0.0), (1.0, 0.0)]))
    put(batch, pos=[(0.0, 0.0), (0.0, 0.4)], vel=0.0)  # just touching: the soft contact gives ln 2 of the margin
    batch.step(np.array([[NOTHING, NOTHING]]))
    assert batch.state.vel[0, 1] == pytest.approx((0.0, 100 * np.log(2) * 1e-3 * 0.1))


@pytest.mark.parametrize(
    ("what", "predators", "action"),
    [
        ("from the left", [(-0.5, 0.1), (3.0, 0.0)], RIGHT),
        ("from the right", [(0.5, 0.1), (3.0, 0.0)], LEFT),
        ("from below", [(0.3, -0.4), (3.0, 0.0)], UP),
        ("from above", [(0.3, 0.4), (3.0, 0.0)], DOWN),
        ("from the second, which is nearer", [(0.9, 0.0), (0.0, 0.8)], DOWN),
    ],
)
def test_prey_flee_by_hand(what: str, predators: list, action: int) -> None:
    prey = [(0.0, 0.0), (9.0, 9.0), (-9.0, 9.0), (9.0, -9.0), (-9.0, -9.0)]
    batch = at_rest(WORLDS["PP2"], predators + prey)
    batch.step(np.array([[NOTHING, NOTHING]]))
    ways = {LEFT: (-1, 0), RIGHT: (1, 0), DOWN: (0, -1), UP: (0, 1)}
    assert batch.state.vel[0, 2] == pytest.approx(np.array(ways[action]) * 0.15), what  # 1.5 * 0.1


@pytest.mark.parametrize(
    ("what", "predators", "caught"),
    [
        ("both within 0.25", [(0.2, 0.0), (-0.2, 0.1)], True),
        ("exactly at it", [(0.25, 0.0), (0.0, -0.25)], True),
        ("one a little farther", [(0.25, 0.0), (0.0, -0.2501)], False),
        ("one alone", [(0.1, 0.1), (0.5, 0.5)], False),
        ("at two prey", [(0.2, 0.0), (4.9, 4.9)], False),
    ],
)
def test_catching_by_hand(what: str, predators: list, caught: bool) -> None:
    batch = at_rest(WORLDS["PP1"], [*predators, (0.0, 0.0), *FAR[:2]])
    batch.step(np.array([[NOTHING, NOTHING]]))
    assert (batch.terminated[0], batch.reward[0]) == (caught, float(caught)), what


def test_catching_takes_the_same_step() -> None:
    """The predators are near the prey one after the other, which does not catch it."""
    batch = at_rest(WORLDS["PP1"], [(0.2, 0.0), (-0.3, 0.0), (0.0, 0.0), *FAR[:2]])
    put(batch, vel=np.array([(1.0, 0.0), (1.0, 0.0), (0, 0), (0, 0), (0, 0)]))
    batch.step(np.array([[NOTHING, NOTHING]]))
    assert not batch.terminated[0]


@pytest.mark.parametrize(
    ("what", "agents", "done"),
    [
        ("one at each", [(0.0, 0.0), (2.0, 0.4)], True),
        ("the other way round", [(2.0, 0.4), (0.0, 0.0)], True),
        ("both at one", [(0.0, 0.0), (0.45, 0.0)], False),
        ("exactly at the distance is not near", [(0.0, 0.0), (2.0, 0.5)], False),
    ],
)
def test_covering_by_hand(what: str, agents: list, done: bool) -> None:
    world = build("CN2", radius=0.25, near=1.0)  # 1.0 * (0.25 + 0.25) is exact
    batch = at_rest(world, agents, landmark=[(0.0, 0.0), (2.0, 0.0)])
    batch.step(np.array([[NOTHING, NOTHING]]))
    assert (batch.terminated[0], batch.reward[0]) == (done, float(done)), what


@pytest.mark.parametrize(("name", "near"), [("CN2", 0.56), ("CN3", 0.68)])
def test_how_near_is_near(name: str, near: float) -> None:
    world = WORLDS[name]
    marks = np.array([(0.0, 0.0), (0.0, 3.0), (0.0, 6.0)])[: world.n_agents]
    for factor in (0.999, 1.001):
        places = marks + np.array((0.0, factor * near))
        batch = at_rest(world, places, landmark=marks)
        batch.step(np.zeros((1, world.n_agents), dtype=np.int64))
        assert batch.terminated[0] == (factor < 1)


def test_the_time_limit_truncates_after_25_steps() -> None:
    for name in ("PP1", "PP2", "CN2", "CN3"):
        batch = Batch(WORLDS[name], 1)
        batch.reset()
        for step in range(1, 26):
            put(batch, pos=100.0 * np.arange(batch.state.pos.shape[1])[:, None])  # nobody near anything
            batch.step(np.zeros((1, batch.world.n_agents), dtype=np.int64))
            assert (batch.truncated[0], batch.terminated[0]) == (step == 25, False)


@pytest.mark.parametrize(
    ("name", "centre", "landmarks", "reach"),
    [
        ("PP1", ((0, 0), (0, 0), *PREY1), (), [0.1, 0.1, 0, 0, 0]),
        ("PP2", ((0, 0), (0, 0), *PREY2), (), [0.1, 0.1, 0, 0, 0, 0, 0]),
        ("CN2", ((-0.5, 0), (0.5, 0)), ((0, 1), (0, -1)), [1e-3] * 4),
        ("CN3", PREY1, ((0.5, 0.87), (-1, 0), (0.5, -0.87)), [1e-3] * 6),
    ],
)
def test_spawns(name: str, centre: tuple, landmarks: tuple, reach: list[float]) -> None:
    count = 4000
    batch = Batch(WORLDS[name], count)
    batch.seed(range(count))
    put(batch, vel=3.0)  # left over from before
    batch.reset()
    assert (batch.state.vel == 0).all()
    places = np.concatenate([batch.state.pos, batch.state.landmark], axis=1)
    jitter = places - np.array([*centre, *landmarks])  # (B,E+L,2)
    width = np.array(reach)[:, None]
    assert (np.abs(jitter) <= width + 1e-12).all()
    loose = jitter[:, width[:, 0] > 0] / width[width[:, 0] > 0]  # uniform in -1..1, every coordinate for itself
    columns = loose.reshape(count, -1)
    assert (columns.min(0) < -0.99).all()
    assert (columns.max(0) > 0.99).all()
    for column in columns.T:
        assert_uniform(np.histogram(column, bins=10, range=(-1, 1))[0])
    correlation = np.corrcoef(columns.T) - np.eye(columns.shape[1])
    assert np.abs(correlation).max() < 0.1


def test_random_prey_actions_are_uniform() -> None:
    """At rest and far from everything, a prey's velocity after a step is its action times 2.4 * 0.1."""
    count = 8000
    batch = Batch(WORLDS["PP1"], count)
    batch.seed(range(count))
    batch.reset()
    history = []
    for _ in range(2):
        put(batch, pos=np.array([(3.0, 3.0), (-3.0, 3.0), *PREY1]), vel=0.0)
        batch.step(np.zeros((count, 2), dtype=np.int64))
        x, y = np.rint(batch.state.vel[:, 2:] / 0.24).astype(int).transpose(2, 0, 1)
        action = np.select([x < 0, x > 0, y < 0, y > 0], [LEFT, RIGHT, DOWN, UP], NOTHING)  # (B,3)
        history += list(action.T)
    for actions in history:
        assert_uniform(np.bincount(actions, minlength=5))
    for k, actions in enumerate(history):
        for others in history[:k]:  # the other prey, and the step before
            assert_uniform(np.bincount(5 * actions + others, minlength=25))


def assert_uniform(counts: np.ndarray) -> None:
    """Check uniformity by chi-square. Chance passes the bound once in a million times; the seeds are fixed."""
    expected, freedom = counts.sum() / len(counts), len(counts) - 1
    chi_square = ((counts - expected) ** 2 / expected).sum()
    assert chi_square < freedom + 7 * np.sqrt(2 * freedom), counts
