"""The Gymnasium, vector and PettingZoo forms: their official checkers, and each form against the others."""

import copy
import pickle
import subprocess
import sys
import warnings

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from pettingzoo.test import parallel_api_test, parallel_seed_test
from stable_baselines3.common.env_checker import check_env as sb3_check_env

import macop_aht
from macop_aht.envs.registration import BUILTIN, env_id
from macop_aht.scenarios import SCENARIOS, LevelBasedForaging, PredatorPrey, circle

TABLE = {  # N, m, A, limit, observation: the figures of the scenarios' table
    "LBF1": (2, 1, 5, 25, 6),
    "LBF4": (2, 1, 5, 25, 12),
    "PP1": (2, 1, 5, 25, 18),
    "PP2": (2, 1, 5, 25, 26),
    "CN2": (2, 1, 5, 25, 10),
    "CN3": (3, 2, 5, 25, 14),
    "SMAC1": (2, 1, 10, 60, 30),
    "SMAC2": (2, 1, 12, 150, 46),
}


def make(name, **kwargs):
    return gym.make(env_id(name), **kwargs)


def test_the_registered_ids_are_the_scenarios():
    assert tuple(SCENARIOS) == BUILTIN == tuple(TABLE)


@pytest.mark.parametrize("name", BUILTIN)
def test_sizes(name):
    agents, controllable, actions, limit, entries = TABLE[name]
    env = make(name).unwrapped
    world = env.world
    assert (world.n_agents, world.controllable, len(world.actions), world.limit) == (
        agents,
        controllable,
        actions,
        limit,
    )
    assert len(world.observations) == entries == len(set(world.observations))
    assert env.observation_space.shape == (controllable * entries,)
    if controllable == 1:
        assert env.action_space == gym.spaces.Discrete(actions)
    else:
        assert env.action_space == gym.spaces.MultiDiscrete([actions] * controllable)


@pytest.mark.parametrize("name", BUILTIN)
def test_gymnasium_checker(name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message=".*A Box observation space m.* value is.*infinity.*")
        check_env(make(name, render_mode="rgb_array").unwrapped)


@pytest.mark.parametrize("name", BUILTIN)
def test_stable_baselines_checker(name):
    sb3_check_env(make(name))


@pytest.mark.parametrize("name", BUILTIN)
def test_pettingzoo_checkers(name):
    parallel_api_test(macop_aht.parallel_env(name), num_cycles=200)
    parallel_seed_test(lambda: macop_aht.parallel_env(name))


def assert_same(got, expected, where):
    """Assert equality of nested infos, but only for the environments that the `_key` arrays mark."""
    assert set(got) == set(expected), where
    for key, value in expected.items():
        if isinstance(value, dict):
            assert_same(got[key], value, (*where, key))
        elif not key.startswith("_"):
            at = expected[f"_{key}"]
            np.testing.assert_array_equal(got[f"_{key}"], at, err_msg=str((*where, key)))
            for b in np.flatnonzero(at):
                np.testing.assert_array_equal(np.array(got[key][b]), np.array(value[b]), err_msg=str((*where, key, b)))


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
@pytest.mark.parametrize("name", BUILTIN)
def test_vector_environment_plays_as_eight_single_ones(name, mode):
    teammates = {"teammate": ["scripted", "random", "scripted+noisy=0.2"], "episodes_per_teammate": 2}
    native = gym.make_vec(env_id(name), num_envs=8, autoreset_mode=mode, **teammates)
    singles = SyncVectorEnv([lambda: make(name, **teammates)] * 8, autoreset_mode=mode)
    assert native.metadata["autoreset_mode"] == mode
    assert native.observation_space == singles.observation_space
    assert native.action_space == singles.action_space
    native.action_space.seed(1)
    (obs, infos), (expected_obs, expected_infos) = native.reset(seed=5), singles.reset(seed=5)
    ends = 0
    for t in range(400 if name.startswith("SMAC") else 120):
        np.testing.assert_array_equal(obs, expected_obs)
        assert_same(infos, expected_infos, (name, t))
        action = native.action_space.sample()
        (obs, *outcome, infos), (expected_obs, *expected, expected_infos) = native.step(action), singles.step(action)
        for got, right in zip(outcome, expected, strict=True):
            np.testing.assert_array_equal(got, right)
        ends += int(np.sum(outcome[1] | outcome[2]))
    assert ends > 8  # episodes have ended and begun again on the way


def test_vector_seeds_and_partial_resets():
    envs = gym.make_vec("MacopLBF4-v0", num_envs=4)
    first, _ = envs.reset(seed=[3, 3, 4, 4])
    np.testing.assert_array_equal(first[0], first[1])
    np.testing.assert_array_equal(first[2], first[3])
    before, *_ = envs.step(np.zeros(4, dtype=np.int64))
    after, infos = envs.reset(seed=3, options={"reset_mask": np.array([True, False, False, False])})
    np.testing.assert_array_equal(after[0], first[0])
    np.testing.assert_array_equal(after[1:], before[1:])
    np.testing.assert_array_equal(infos["_action_mask"], [True, False, False, False])


def test_unseeded_environments_differ_and_go_on():
    firsts = {make("PP1").reset()[0].tobytes() for _ in range(5)}
    assert len(firsts) == 5
    env = make("PP1")
    episodes = {env.reset(seed=0)[0].tobytes()} | {env.reset()[0].tobytes() for _ in range(5)}
    assert len(episodes) == 6


def test_the_world_does_not_depend_on_the_teammate():
    starts = [make("LBF4", teammate=mate).reset(seed=9)[0] for mate in ("random", "scripted:nearest", "scripted")]
    np.testing.assert_array_equal(starts[0], starts[1])
    np.testing.assert_array_equal(starts[0], starts[2])


def test_population_is_drawn_and_stays():
    env = make("LBF4", episodes_per_teammate=3)
    names = []
    for episode in range(300):
        _, info = env.reset(seed=0 if episode == 0 else None)
        names.append(info["teammate"])
    assert all(len(set(names[i : i + 3])) == 1 for i in range(0, 300, 3))
    assert set(names) == {f"scripted:{script}" for script in env.unwrapped.world.scripts}


def test_options_choose_the_teammate_and_the_environment_obeys():
    env = make("LBF4")
    for choice in ("scripted:farthest", "farthest"):
        assert env.reset(seed=1, options={"teammate": choice})[1]["teammate"] == "scripted:farthest"
    assert env.reset(options={"teammate": 0})[1]["teammate"] == "scripted:corner-nw"
    envs = gym.make_vec("MacopLBF4-v0", num_envs=3)
    assert list(envs.reset(seed=1, options={"teammate": "nearest"})[1]["teammate"]) == ["scripted:nearest"] * 3


def test_time_limit_truncates_and_success_terminates():
    env = make("LBF4", teammate="scripted:corner-ne")
    env.reset(seed=0)
    for _ in range(24):
        assert env.step(0)[2:4] == (False, False)
    assert env.step(0)[2:4] == (False, True)
    with pytest.raises(RuntimeError, match="reset"):
        env.step(0)
    env.reset(seed=0)
    for action in [1, 1, 4, 4, 4] * 3:  # walk by hand to the same corner
        _, reward, terminated, truncated, _ = env.step(action)
        if terminated:
            break
    assert (reward, terminated, truncated) == (1.0, True, False)


def test_masked_actions_are_stops_and_masks_come_three_ways():
    env = make("LBF4", teammate="scripted:corner-sw").unwrapped
    obs, info = env.reset(seed=1)
    for _ in range(10):
        obs, *_, info = env.step(1)  # to the northern edge
    np.testing.assert_array_equal(info["action_mask"], env.action_masks())
    assert info["action_mask"].dtype == np.int8
    assert info["action_mask"][1] == 0
    same, *_ = env.step(1)
    np.testing.assert_array_equal(same, obs)
    masks = make("CN3").reset(seed=0)[1]["action_mask"]
    assert isinstance(masks, tuple)
    assert [mask.shape for mask in masks] == [(5,), (5,)]


def test_parallel_form_plays_the_same_world():
    single = make("LBF4", teammate="scripted:corner-se").unwrapped
    team = macop_aht.parallel_env("LBF4")
    obs, _ = single.reset(seed=7)
    observations, infos = team.reset(seed=7)
    np.testing.assert_array_equal(observations["agent_0"], obs)
    np.testing.assert_array_equal(team.state(), single.state())
    assert team.state().shape == team.state_space.shape
    total = 0.0
    while team.agents:
        mate = single._game.action
        obs, reward, *_ = single.step(2)
        actions = {"agent_0": int(mate[0, 0]), "agent_1": int(mate[0, 1])}
        observations, rewards, _, _, infos = team.step(actions)
        np.testing.assert_array_equal(observations["agent_0"], obs)
        assert sum(rewards.values()) == pytest.approx(reward)
        total += reward
    assert set(infos["agent_0"]) == {"action_mask"}


def test_scenarios_of_ones_own(passing):
    name = macop_aht.register(
        "Line9", LevelBasedForaging(shape=(1, 9), foods=((0, 4),), spawn=((0, 2), (0, 6)), limit=7)
    )
    assert name == "MacopLine9-v0"
    env = gym.make(name, teammate="scripted:food-0")
    obs, _ = env.reset(seed=0)
    towards = 4 if obs[3] < 4 else 3  # the ego stands two cells from the food, on one side or the other
    assert env.step(towards)[1:4] == (1.0, True, False)
    assert gym.make_vec(name, num_envs=2).reset(seed=0)[0].shape == (2, 6)
    macop_aht.register("PPcircle", PredatorPrey(prey=circle(4, 0.8), prey_policy="still"))
    assert gym.make("MacopPPcircle-v0").observation_space.shape == (22,)
    changed = gym.make("MacopCN3-v0", limit=3, controllable=1)
    assert changed.observation_space.shape == (14,)


def test_gym_make_imports_the_package_by_itself():
    code = "import gymnasium as gym; gym.make('macop_aht:MacopLBF4-v0').reset(seed=0)"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("name", BUILTIN)
def test_copies_play_on_like_the_original(name):
    """deepcopy and pickle mid-episode, single and vector, with a teammate that has memory and random draws."""
    teammate = ["scripted+noisy=0.3", "random+sticky=0.5"]
    for env in (make(name, teammate=teammate).unwrapped, gym.make_vec(env_id(name), num_envs=3, teammate=teammate)):
        env.reset(seed=0)
        env.action_space.seed(0)
        actions = [env.action_space.sample() for _ in range(200)]
        for action in actions[:3]:
            env.step(action)
        others = [copy.deepcopy(env), pickle.loads(pickle.dumps(env))]
        for action in actions[3:]:
            expected = env.step(action)
            for other in others:
                got = other.step(action)
                np.testing.assert_array_equal(got[0], expected[0])
                np.testing.assert_array_equal(got[1], expected[1])
            if not hasattr(env, "num_envs") and (expected[2] or expected[3]):  # a single one begins again by hand
                for each in (env, *others):
                    each.reset()


def test_teammates_act_in_running_episodes_only_and_on_copies():
    seen = []

    def towards_the_food(obs, mask):
        assert (obs[:, :2] == 4).all()  # the food is there: the episode is on
        seen.append(obs)
        return np.where(mask[:, 2] == 1, 2, 4)

    envs = gym.make_vec("MacopLBF1-v0", num_envs=32, teammate=towards_the_food)
    envs.reset(seed=0)
    envs.action_space.seed(0)
    for _ in range(80):
        envs.step(envs.action_space.sample())
    assert not np.array_equal(seen[0], seen[1])  # what it was shown is its to keep


def test_a_scenario_of_ones_own_in_other_processes(passing):
    name = macop_aht.register("Faraway", LevelBasedForaging(shape=(3, 3), foods=((1, 1),), spawn=((0, 0), (2, 2))))
    envs = gym.make_vec(name, num_envs=2, vectorization_mode="async", vector_kwargs={"context": "spawn"})
    obs, _ = envs.reset(seed=0)
    envs.close()
    np.testing.assert_array_equal(obs, gym.make_vec(name, num_envs=2).reset(seed=0)[0])
