"""Scripts, perturbations, populations and files: what the teammates do."""

import copy
import pickle
from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest

import macop_aht  # noqa: F401 - registers the environments
from macop_aht.episodes.matches import team_play
from macop_aht.policies import Delayed, Idle, Noisy, Policy, Random, Sticky, Switching, resolve
from macop_aht.scenarios import MARINE, SCENARIOS, build
from tests.helpers import Watch, save_teammate

EPISODES = 400
TITAN = replace(MARINE, health=10_000, damage=30)


def followed(world, names, episodes, look):
    """The return of each episode, and what `look(state)` saw at first and after every step: (B,) (T+1,B,…)."""
    watch = Watch(look)
    score = team_play(world, team(world, *names), episodes, hooks=[watch])
    return score, np.stack(watch.seen)


def team(world, *names):
    return [resolve(f"scripted:{name}", world)[0] for name in names]


@pytest.mark.parametrize("scenario", ["LBF4", "CN2", "CN3", "PP1"])
def test_matching_teams_succeed(scenario):
    world = build(scenario)
    conventions = [name for name in world.scripts if name.startswith(("corner-", "landmark-", "prey-"))]
    assert len(conventions) >= 2
    for name in conventions:
        assert team_play(world, team(world, *[name] * world.n_agents), EPISODES).mean() >= 0.95, name


def test_two_corners_never_meet():
    world = build("LBF4")
    corners = ("corner-nw", "corner-ne", "corner-sw", "corner-se")
    for one in corners:
        for other in corners:
            if one != other:
                assert team_play(world, team(world, one, other), EPISODES).mean() <= 0.05, (one, other)


def test_adaptive_foragers_join_any_corner():
    world = build("LBF4")
    for corner in ("corner-nw", "corner-ne", "corner-sw", "corner-se"):
        for joiner in ("follow-ego", "wait-then-join"):
            assert team_play(world, team(world, corner, joiner), EPISODES).mean() >= 0.95, (corner, joiner)


def test_the_three_paths_of_lbf1_are_different_and_pay():
    world = build("LBF1")
    south, east = {(3, 0), (4, 0), (4, 1)}, {(0, 3), (0, 4), (1, 4)}
    for name, through, never in (
        ("path-south", south, east),
        ("path-east", east, south),
        ("path-diagonal", {(1, 2), (2, 1), (2, 2)}, {(0, 4), (4, 0)}),
    ):
        score, seen = followed(world, [name, name], 200, lambda state: state.pos[:, 1])
        assert score.mean() >= 0.95, name
        cells = [set(map(tuple, episode.tolist())) for episode in seen.transpose(1, 0, 2)]
        assert all(visited & through for visited in cells), name
        # Whoever is stuck tries another way: about one episode in 4,000 strays onto the other path.
        assert sum(bool(visited & never) for visited in cells) <= 1, name


def test_navigators_fill_the_gap():
    world = build("CN2")
    for landmark in ("landmark-0", "landmark-1"):
        assert team_play(world, team(world, landmark, "left-free"), EPISODES).mean() >= 0.95


def test_fighters_go_where_they_say():
    world = build("SMAC1")
    for name, side in (("left-first", -1), ("right-first", 1)):
        _, east = followed(world, [name, name], 50, lambda state: state.pos[:, :2, 0])
        assert (side * (east[6] - 16) > 4).all(), name
    world = build("SMAC2")
    for g in range(6):
        direction = [np.cos(2 * np.pi * g / 6), np.sin(2 * np.pi * g / 6)]
        for name in (f"clockwise-{g}", f"counter-clockwise-{g}"):
            _, places = followed(world, [name, name], 20, lambda state: state.pos[:, 0])
            assert ((places[5] - 16) @ direction > 2.5).all(), name


def test_clockwise_and_counter_clockwise_part_after_the_first():
    world = build("SMAC2", allies=(TITAN, TITAN))  # marines strong enough to get around
    for name, second in (("clockwise-0", 5), ("counter-clockwise-0", 1)):
        _, health = followed(world, [name, name], 20, lambda state: state.health[:, 2:])
        killed = [np.argmax(health[:, :, e] <= 0, axis=0) for e in (0, second)]
        assert (killed[0] > 0).all(), name
        assert (killed[1] > killed[0]).all(), name
        others = [e for e in range(1, 6) if e != second]
        alive = health[killed[1], np.arange(20)][:, others] > 0
        assert alive.all(), name


def test_holding_and_baiting():
    world = build("SMAC1")
    _, places = followed(world, ["hold", "hold"], 20, lambda state: state.pos[:, :2])
    np.testing.assert_allclose(places[0], places[-1])
    world = build("SMAC2")
    lengths = {
        name: len(followed(world, [name, name], 50, lambda state: state.awake)[1])
        for name in ("bait", "kite", "left-first")
    }
    assert lengths["bait"] > 2 * lengths["left-first"]
    assert lengths["kite"] > lengths["left-first"]


@pytest.mark.parametrize("scenario", list(SCENARIOS)[:8])
def test_every_script_plays_every_place_and_only_what_is_available(scenario):
    world = build(scenario)
    for name in world.scripts:
        chosen = []

        class Watched:
            def __init__(self, inner: Policy, log: list) -> None:
                self.inner, self.log = inner, log
                self.name, self.memory_size, self.draws = inner.name, inner.memory_size, inner.draws

            def act(self, *given):
                before = [array.copy() for array in given]
                action, after = self.inner.act(*given)
                for array, kept in zip(given, before, strict=True):
                    np.testing.assert_array_equal(array, kept)  # no hidden changes
                self.log.append(given[1][np.arange(len(action)), action])
                return action, after

        seats = [Watched(policy, chosen) for policy in team(world, *[name] * world.n_agents)]
        team_play(world, seats, 20)
        assert np.concatenate(chosen).all(), name
        assert world.scripts[name].about


def rollout(policy, world, steps=12, rows=64, seed=0):
    """Actions (T,R) of a policy on one fixed view per step, with everything available."""
    rng = np.random.default_rng(seed)
    memory, last_action = np.zeros((rows, policy.memory_size), dtype=np.float32), np.full(rows, -1)
    mask, agent = np.ones((rows, len(world.actions)), dtype=np.int8), np.ones(rows, dtype=np.int64)
    views = rng.random((steps, rows, len(world.observations))).astype(np.float32)
    actions = []
    for t in range(steps):
        action, memory = policy.act(views[t], mask, agent, last_action, memory, rng.random((rows, policy.draws)))
        last_action = action
        actions.append(action)
    return np.array(actions)


class Counter:
    """Plays its own clock, so that perturbations show: 0, 1, 2, … modulo 5; its last action must be the one it chose."""

    name, memory_size, draws = "counter", 1, 0

    def act(self, obs, mask, agent, last_action, memory, draws):
        memory = memory.copy()
        memory[:, 0] += 1
        action = (memory[:, 0].astype(np.int64) - 1) % 5
        np.testing.assert_array_equal(last_action, np.where(memory[:, 0] == 1, -1, (action - 1) % 5))
        return action, memory


class Echo:
    """Plays what it sees: the first entry of the observation, in fifths."""

    name, memory_size, draws = "echo", 0, 0

    def act(self, obs, mask, agent, last_action, memory, draws):
        return (obs[:, 0] * 5).astype(np.int64), memory


def test_perturbations():
    world = build("LBF4")
    clock = np.arange(12)[:, None] % 5
    counted = np.broadcast_to(clock, (12, 64))
    np.testing.assert_array_equal(rollout(Counter(), world), counted)

    np.testing.assert_array_equal(rollout(Noisy(Counter(), 0.0), world), counted)
    np.testing.assert_array_equal(rollout(Sticky(Counter(), 0.0), world), counted)
    share = (rollout(Noisy(Counter(), 0.5), world, rows=4000) != clock).mean()
    assert share == pytest.approx(0.5 * 4 / 5, abs=0.02)  # one random action in five is the right one
    assert (rollout(Sticky(Counter(), 1.0), world) == 0).all()
    repeats = np.diff(rollout(Sticky(Counter(), 0.3), world, rows=4000), axis=0) == 0
    assert repeats.mean() == pytest.approx(0.3, abs=0.05)

    idle = rollout(Idle(Counter(), 4), world)
    assert (idle[:4] == 0).all()
    np.testing.assert_array_equal(idle[4:], counted[:8])

    seen = rollout(Echo(), world)
    late = rollout(Delayed(Echo(), 3, world), world)
    np.testing.assert_array_equal(late[3:], seen[:-3])
    np.testing.assert_array_equal(late[:3], np.broadcast_to(seen[0], (3, 64)))
    np.testing.assert_array_equal(rollout(Delayed(Echo(), 0, world), world), seen)

    switched = rollout(Switching(Counter(), Counter(), 7), world)
    np.testing.assert_array_equal(switched, np.concatenate([counted[:7], counted[:5]]))
    nested = rollout(Switching(Idle(Counter(), 2), Noisy(Delayed(Counter(), 2, world), 0.0), 6), world)
    np.testing.assert_array_equal(nested[:, 0], [0, 0, 0, 1, 2, 3, 0, 1, 2, 3, 4, 0])


def test_random_is_uniform_over_what_is_available():
    rng = np.random.default_rng(0)
    mask = np.tile(np.array([0, 1, 1, 0, 1], dtype=np.int8), (30_000, 1))
    obs, agent, memory = (
        np.zeros((30_000, 1), np.float32),
        np.zeros(30_000, np.int64),
        np.zeros((30_000, 0), np.float32),
    )
    action, _ = Random().act(obs, mask, agent, agent - 1, memory, rng.random((30_000, 1)))
    np.testing.assert_allclose(np.bincount(action, minlength=5) / 30_000, [0, 1 / 3, 1 / 3, 0, 1 / 3], atol=0.02)


def test_spec_strings():
    world = build("LBF4")
    names = {
        "random": ["random"],
        "scripted:nearest": ["scripted:nearest"],
        "scripted:nearest+noisy=0.1+idle=3": ["scripted:nearest+noisy=0.1+idle=3"],
        "random+switch=4,scripted:nearest+sticky=0.5": ["random+switch=4,scripted:nearest+sticky=0.5"],
        "scripted+delayed=2": [f"scripted:{name}+delayed=2" for name in world.scripts],
    }
    for spec, expected in names.items():
        policies = resolve(spec, world)
        assert [policy.name for policy in policies] == expected
        assert all(isinstance(policy, Policy) for policy in policies)
        assert [p.name for name in expected for p in resolve(name, world)] == expected  # a name is a spec again


def test_callables_objects_and_models_as_teammates():
    seen = []

    def north(obs, mask):
        seen.append((obs.shape, mask.shape))
        return [1] * len(obs)

    class Model:
        def predict(self, obs, deterministic=False):
            assert deterministic
            return np.full(len(obs), 2), None

    envs = gym.make_vec("MacopLBF4-v0", num_envs=6, teammate=[north, Model(), Counter(), north])
    _, infos = envs.reset(seed=0)
    for _ in range(5):
        *_, infos = envs.step(np.zeros(6, dtype=np.int64))
    assert set(infos["teammate"]) <= {"north", "Model", "counter", "north#2"}
    assert all(obs[1] == 12 and mask[1] == 5 for obs, mask in seen)
    env = gym.make("MacopLBF4-v0", teammate=north).unwrapped
    env.reset(seed=0)
    for _ in range(6):
        obs, *_ = env.step(2)
    assert obs[10] == 0  # the teammate's row: it went north


def test_what_cannot_play_is_refused_when_it_is_given():
    class Rememberer:
        def predict(self, obs, state=None, episode_start=None, deterministic=False):
            return np.zeros(len(obs), dtype=np.int64), (np.zeros(1),)

    class Ego:
        def act(self, obs, mask):
            return np.zeros(len(obs), dtype=np.int64)

    env = gym.make("MacopLBF4-v0", teammate=Rememberer())
    env.reset(seed=0)
    with pytest.raises(ValueError, match="'Rememberer' has a memory of its own"):
        env.step(0)
    with pytest.raises(TypeError, match=r"cannot be called as act\(obs, mask, agent, last_action, memory, draws\)"):
        gym.make("MacopLBF4-v0", teammate=Ego())
    with pytest.raises(TypeError, match="teammate is the class Counter; give one of its objects"):
        gym.make("MacopLBF4-v0", teammate=Counter)


def test_onnx_teammates_follow_the_contract(tmp_path):
    path = save_teammate(tmp_path / "mate.onnx", 12, 5)
    world = build("LBF4")
    (policy,) = resolve(path, world)
    agent, memory = np.array([1, 0]), np.zeros((2, policy.memory_size), np.float32)
    mask = np.array([[1, 1, 1, 1, 1], [1, 0, 1, 1, 1]], dtype=np.int8)
    obs = np.zeros((2, 12), np.float32)
    action, memory = policy.act(obs, mask, agent, np.array([-1, -1]), memory, np.zeros((2, 0)))
    np.testing.assert_array_equal(action, [1, 0])  # its favourite; where that is masked, the best of the rest
    again, memory = policy.act(obs, mask, agent, action, memory, np.zeros((2, 0)))
    np.testing.assert_array_equal(again, [0, 2])  # what it did last is worth less now
    np.testing.assert_array_equal(memory, [[2, 2, 2], [0, 0, 0]])  # the network's own, fed back; adds its index
    for teammate in (path, tmp_path / "mate.onnx", [path, "random"]):
        envs = gym.make_vec("MacopLBF4-v0", num_envs=5, teammate=teammate)
        envs.reset(seed=0)
        *_, infos = envs.step(np.zeros(5, dtype=np.int64))
        assert set(infos["teammate"]) <= {"mate.onnx", "random"}


def test_onnx_teammates_can_be_copied(tmp_path):
    (policy,) = resolve(save_teammate(tmp_path / "mate.onnx", 12, 5), build("LBF4"))
    view = (
        np.zeros((1, 12), np.float32),
        np.ones((1, 5), np.int8),
        np.array([1]),
        np.array([-1]),
        np.zeros((1, 3), np.float32),
    )
    for other in (copy.deepcopy(policy), pickle.loads(pickle.dumps(policy))):
        assert other.act(*view, np.zeros((1, 0)))[0] == policy.act(*view, np.zeros((1, 0)))[0]
