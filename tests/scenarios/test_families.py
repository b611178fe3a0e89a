"""Bad parameters are refused with the fix, good ones of any type are accepted, and scripts do what they say."""

import pickle
from dataclasses import replace

import numpy as np
import pytest

from macop_aht.episodes.matches import team_play
from macop_aht.policies import resolve
from macop_aht.scenarios import (
    MARINE,
    SCENARIOS,
    ZEALOT,
    Combat,
    CooperativeNavigation,
    LevelBasedForaging,
    PredatorPrey,
    Unit,
    build,
)
from macop_aht.scenarios.batch import Batch
from macop_aht.scenarios.lbf_scripts import MET
from tests.helpers import Watch

NAN, INF = float("nan"), float("inf")
GHOST = {"health": 1, "damage": 1, "cooldown": 1, "reach": 1, "radius": 1}
BAD = {
    "shape": (lambda: LevelBasedForaging(shape=6), r"shape is 6; give a sequence of two numbers"),
    "long shape": (lambda: LevelBasedForaging(shape=(6, 6, 6)), r"shape is \(6, 6, 6\); it must be two finite numbers"),
    "foods": (lambda: LevelBasedForaging(foods=(0, 0)), r"foods\[0\] is 0; give a sequence of two numbers"),
    "one food": (lambda: LevelBasedForaging(foods=5), "foods is 5; give a sequence of pairs"),
    "no foods": (lambda: LevelBasedForaging(foods=()), "foods holds 0 pairs; give at least 1"),
    "NaN food": (
        lambda: LevelBasedForaging(foods=((NAN, 0),)),
        r"foods\[0\] is \(nan, 0\);.*must be two finite numbers",
    ),
    "half a cell": (lambda: LevelBasedForaging(spawn=((0.5, 0), (1, 1))), "rows and columns must be integers"),
    "text as limit": (lambda: LevelBasedForaging(limit="15"), "limit is '15'; it must be a positive whole number"),
    "half a step": (lambda: PredatorPrey(limit=15.5), "limit is 15.5; it must be a positive whole number"),
    "half a level": (lambda: LevelBasedForaging(max_level=0.5), "max_level is 0.5; it must be a positive whole"),
    "half a meeting": (
        lambda: LevelBasedForaging(meetings=1.5),
        "meetings is 1.5; it must be a whole number, at least 0",
    ),
    "negative meetings": (
        lambda: LevelBasedForaging(meetings=-1),
        "meetings is -1; it must be a whole number, at least 0",
    ),
    "half an agent": (lambda: PredatorPrey(n_agents=2.5), "n_agents is 2.5; it must be a whole number, at least 2"),
    "half controlled": (lambda: CooperativeNavigation(controllable=1.5), "controllable is 1.5"),
    "endless spawn": (lambda: PredatorPrey(spawn=INF), "spawn is inf; it must be a positive finite number"),
    "text as speed": (lambda: PredatorPrey(max_speed="1"), "max_speed is '1'; it must be a positive finite number"),
    "NaN jitter": (lambda: CooperativeNavigation(jitter=NAN), "jitter is nan; it must be a finite number, at least 0"),
    "NaN near": (lambda: CooperativeNavigation(near=NAN), "near is nan"),
    "NaN agent": (lambda: CooperativeNavigation(agents=((NAN, 0), (1, 1))), r"agents\[0\] is \(nan, 0\)"),
    "immortal": (lambda: Unit("god", **GHOST | {"health": INF}), "health is inf; it must be a positive finite number"),
    "NaN shield": (lambda: Unit("ghost", **GHOST, shield=NAN), "shield is nan; it must be a finite number, at least 0"),
    "half a strike": (lambda: Unit("ghost", **GHOST, strikes=1.5), "strikes is 1.5; it must be a positive whole"),
    "nameless": (lambda: Unit("", **GHOST), "name is ''; give a word"),
    "NaN sight": (lambda: Combat(sight=NAN), "sight is nan"),
    "NaN combat jitter": (lambda: Combat(jitter=NAN), "jitter is nan"),
    "NaN post": (lambda: Combat(posts=((NAN, 5.0),) * 4), r"posts\[0\] is \(nan, 5.0\);.*must be two finite numbers"),
    "half a group": (
        lambda: Combat(groups=(0, 0, 1, 1.5)),
        r"groups\[3\] is 1.5; it must be a whole number, at least 0",
    ),
    "no unit": (lambda: Combat(allies=("marine", MARINE)), r"allies holds \['marine'\]; give units"),
    "one unit": (lambda: Combat(allies=MARINE), "allies is .*; give a sequence of units"),
    "shoots unseen": (lambda: Combat(shoot=10.0), "shoot 10.0 is larger than sight 9.0"),
    "shielded ally": (lambda: Combat(allies=(MARINE, ZEALOT)), "allies with shields are not supported.*shield=0"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_parameters_name_the_fix(case):
    make, message = BAD[case]
    with pytest.raises((ValueError, TypeError), match=message):
        make()


def test_sequences_and_integers_of_any_kind():
    three = np.int64(3)
    pairs = {
        LevelBasedForaging(shape=[6, 6], foods=[[0, 0], [5, 5]], spawn=np.array([[2, 2], [3, 3]]), limit=three):
            LevelBasedForaging(shape=(6, 6), foods=((0, 0), (5, 5)), spawn=((2, 2), (3, 3)), limit=3),
        LevelBasedForaging(n_agents=np.int32(2), max_level=three, meetings=np.uint8(1)):
            LevelBasedForaging(meetings=1),
        PredatorPrey(prey=np.eye(2), limit=three): PredatorPrey(prey=((1.0, 0.0), (0.0, 1.0)), limit=3),
        CooperativeNavigation(agents=[[0, 0], [1, 1]], landmarks=np.ones((1, 2)), controllable=np.int64(1)):
            CooperativeNavigation(agents=((0.0, 0.0), (1.0, 1.0)), landmarks=((1.0, 1.0),)),
        Combat(
            allies=[MARINE] * 2, spawn=[[16, 15], [16, 17]], enemies=[ZEALOT] * 2, posts=np.array([[5, 16], [27, 16]]),
            groups=[0, np.int64(1)], limit=three,
        ):
            Combat(
                allies=(MARINE, MARINE), spawn=((16.0, 15.0), (16.0, 17.0)), enemies=(ZEALOT, ZEALOT),
                posts=((5.0, 16.0), (27.0, 16.0)), groups=(0, 1), limit=3,
            ),
    }  # fmt: skip
    for given, plain in pairs.items():
        assert given == plain
        assert repr(given) == repr(plain)  # nothing of numpy's is left
        assert build(given) is build(plain)
        batch = Batch(build(given), 2)
        batch.reset()
        batch.step(np.zeros((2, 2), dtype=np.int64))


@pytest.mark.parametrize("name", list(SCENARIOS)[:8])
def test_worlds_can_be_pickled(name):
    world = build(name)
    batches = [Batch(world, 3), Batch(pickle.loads(pickle.dumps(world)), 3)]
    for batch in batches:
        batch.reset()
        batch.step(np.ones((3, world.n_agents), dtype=np.int64))
    np.testing.assert_array_equal(batches[0].obs, batches[1].obs)
    assert batches[1].world.scripts.keys() == world.scripts.keys()


def test_foragers_count_the_meetings_of_any_two():
    spawn = ((3, 3), (0, 2), (0, 3), (6, 6))
    world = build("LBF4", shape=(7, 7), foods=((3, 5),), n_agents=3, spawn=spawn, meetings=4)
    batch, script = Batch(world, 64), world.scripts["nearest"]
    batch.seed(range(64))
    batch.reset()
    memory, agents = np.zeros((3, 64, script.memory), dtype=np.float32), np.arange(3).repeat(64).reshape(3, 64)
    action, running, rng = np.zeros((64, 3), dtype=np.int64), np.ones(64, dtype=bool), np.random.default_rng(0)
    without_first = 0
    for _ in range(12):
        for i in range(3):
            draws = rng.random((64, script.draws))
            told = batch.obs[:, i], batch.mask[:, i], agents[i], memory[i], draws
            script.act(script.params, script.code, 0, *told, action[:, i])
            np.testing.assert_array_equal(memory[i][running, MET], batch.state.met[running])
        apart = np.abs(batch.state.pos[:, [0, 0, 1]] - batch.state.pos[:, [1, 2, 2]]).sum(-1)  # (B, pairs)
        without_first += ((apart[:, 2] == 1) & (apart[:, :2] != 1).all(1) & running).sum()
        batch.step(action)
        running &= ~batch.terminated
    assert without_first > 20  # it has happened that only agents 1 and 2 met


def test_a_move_order_leads_two_units_at_most():
    runner = replace(MARINE, speed=9.0)  # 9 * 8 / 22.4 = 3.2 in a step, were it not for the order
    batch = Batch(build(Combat(allies=(runner, MARINE), spawn=((10.0, 16.0), (10.0, 14.0)), jitter=0.0)), 1)
    batch.reset()
    batch.step(np.array([[2, 2]]))
    np.testing.assert_allclose(batch.state.pos[0, :2], [(10, 18), (10, 15.125)])


def paths(world, name, episodes=50):
    """The return and, at first and after every step, where the allies are and the enemies' health: (B,) (T,B,2,2) (T,B,M)."""
    watch = Watch(lambda state: np.concatenate([state.pos[:, :2].reshape(episodes, -1), state.health[:, 2:]], axis=1))
    score = team_play(world, resolve(f"scripted:{name}", world) * 2, episodes, hooks=[watch])
    seen = np.stack(watch.seen)
    return score, seen[..., :4].reshape(*seen.shape[:2], 2, 2), seen[..., 4:]


@pytest.mark.parametrize("g", range(6))
def test_clockwise_and_counter_clockwise_differ_with_real_marines(g):
    # Before the first fight, the one comes from the left of the straight way to the post and the other from the right;
    # and who is chased runs around the middle in the script's own sense.
    world, angle = build("SMAC2"), 2 * np.pi * g / 6
    left, turned = {}, {}
    for name in ("clockwise", "counter-clockwise"):
        _, places, _ = paths(world, f"{name}-{g}")
        left[name] = (places[4] - 16) @ [-np.sin(angle), np.cos(angle)]
        x, y = (places[12:60] - 16).transpose(3, 0, 1, 2)
        turned[name] = (x[:-1] * y[1:] - y[:-1] * x[1:]).sum()
    assert left["clockwise"].mean() - left["counter-clockwise"].mean() > 1.0
    assert turned["clockwise"] < 0 < turned["counter-clockwise"]


def test_routes_around_of_real_marines_kill_zealots():
    world = build("SMAC2")
    for name in world.scripts:
        if name.startswith(("clockwise", "counter-clockwise")):  # left-first and right-first stand their ground
            score, _, health = paths(world, name, episodes=200)
            assert score.mean() > 2.5, name
            assert (health <= 0).any(axis=0).sum(axis=1).mean() > 0.4, name


def test_defaults_that_returns_depend_on():
    """Figures of the eight scenarios that nothing else would miss if they changed."""
    small, circle_of_six = SCENARIOS["SMAC1"].family, SCENARIOS["SMAC2"].family
    assert (small.jitter, circle_of_six.jitter) == (0.5, 0.5)
    assert small.posts == ((5.0, 15.125), (5.0, 16.875), (27.0, 15.125), (27.0, 16.875))
    places = np.array(circle_of_six.posts) - 16.0
    np.testing.assert_allclose(np.hypot(*places.T), 11.0)  # the radius
    np.testing.assert_allclose(np.degrees(np.arctan2(places[:, 1], places[:, 0])) % 360, 60.0 * np.arange(6), atol=1e-9)
    assert circle_of_six.spawn == small.spawn == ((16.0, 15.125), (16.0, 16.875))
