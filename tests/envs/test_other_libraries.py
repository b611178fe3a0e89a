"""What other libraries expect of our environments, and what they make of a user's environment with teammates inside."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

import macop_aht
from macop_aht.envs.registration import BUILTIN, env_id
from macop_aht.scenarios import SCENARIOS, build
from tests.environments import Masked, make_combat


def test_unknown_arguments_are_told_in_pythons_words():
    """TorchRL asks for `frameskip`, and tries again without it only where the error has these words."""
    for made in (lambda: gym.make("MacopLBF4-v0", frameskip=1), lambda: macop_aht.parallel_env("LBF4", frameskip=1)):
        with pytest.raises(TypeError, match="unexpected keyword argument 'frameskip'"):
            made()


@pytest.mark.parametrize("name", ["LBF4", "CN3"])
def test_the_spec_has_the_limit(name):
    single, vector = gym.make(env_id(name), limit=7), gym.make_vec(env_id(name), num_envs=2, limit=7)
    assert single.spec.max_episode_steps == vector.spec.max_episode_steps == 7
    assert gym.make(env_id(name)).spec.max_episode_steps == SCENARIOS[name].family.limit
    again = gym.make(single.spec)  # with a wrapper that truncates there too
    again.reset(seed=0)
    stop = 0 if name == "LBF4" else [0, 0]
    steps = [again.step(stop)[3] for _ in range(7)]
    assert steps == [False] * 6 + [True]
    assert gym.make(env_id(name), limit=50).spec.max_episode_steps == 50


@pytest.mark.parametrize("name", BUILTIN)
def test_states_are_in_their_space(name):
    env, rng = macop_aht.parallel_env(name), np.random.default_rng(0)
    finite = np.isfinite(env.state_space.low).all() and np.isfinite(env.state_space.high).all()
    assert finite == all(np.isfinite(bound).all() for bound in build(name).bounds)
    for seed in range(3):
        _, infos = env.reset(seed=seed)
        while env.agents:
            assert env.state().dtype == np.float32
            assert env.state_space.contains(env.state())
            masks = {agent: np.flatnonzero(info["action_mask"]) for agent, info in infos.items()}
            _, _, _, _, infos = env.step({agent: int(rng.choice(own)) for agent, own in masks.items()})


def test_nobody_has_to_act_when_all_have_left():
    """As SuperSuit's black_death calls it; frame_skip draws from `np_random`."""
    env = macop_aht.parallel_env("LBF4", limit=1)
    with pytest.raises(RuntimeError, match="call reset"):
        env.step({})
    env.reset(seed=0)
    env.step(dict.fromkeys(env.agents, 0))
    assert env.step({}) == ({}, {}, {}, {}, {})
    with pytest.raises(RuntimeError, match="call reset"):
        env.step({"agent_0": 0, "agent_1": 0})
    env.reset(seed=3)
    assert env.np_random.random() == np.random.default_rng(3).random()


def test_the_caller_may_reset_environments():
    envs = gym.make_vec("MacopLBF4-v0", num_envs=3, autoreset_mode="Disabled", teammate="random", limit=2)
    assert envs.metadata["autoreset_mode"] == AutoresetMode.DISABLED
    envs.reset(seed=0)
    envs.step([0, 0, 0])
    last, _, _, cut, _ = envs.step([0, 0, 0])
    assert cut.all()
    with pytest.raises(RuntimeError, match=r"environments \[0, 1, 2\] are over"):
        envs.step([0, 0, 0])
    now, infos = envs.reset(options={"reset_mask": np.array([True, False, True])})
    np.testing.assert_array_equal(now[1], last[1])
    assert infos["_action_mask"].tolist() == [True, False, True]
    with pytest.raises(RuntimeError, match=r"environments \[1\] are over"):
        envs.step([0, 0, 0])


@pytest.mark.parametrize("mode", [None, "sync", "async"])
def test_masks_of_several_agents_have_one_form(mode):
    envs = gym.make_vec("MacopCN3-v0", num_envs=2, **({"vectorization_mode": mode} if mode else {}))
    _, infos = envs.reset(seed=0)
    for masks in infos["action_mask"]:
        assert isinstance(masks, tuple)
        assert [mask.shape for mask in masks] == [(5,), (5,)]
        envs.single_action_space.sample(masks)
    envs.close()


@pytest.mark.slow
def test_stable_baselines_learns_with_teammates_inside():
    """A random ego returns about 2; one that has learnt to go on, 3 or more."""
    ppo = pytest.importorskip("stable_baselines3").PPO
    from stable_baselines3.common.env_checker import check_env
    from stable_baselines3.common.evaluation import evaluate_policy

    env = macop_aht.embed(Masked, teammate=lambda obs, mask: mask.argmax(axis=1), reward="ego", limit=8)
    check_env(env)
    model = ppo("MlpPolicy", env, n_steps=128, batch_size=128, learning_rate=0.01, seed=0, device="cpu")
    before, _ = evaluate_policy(model, env, 10, warn=False)
    model.learn(2_000)
    after, _ = evaluate_policy(model, env, 10, warn=False)
    assert after > max(before, 4.0)


def test_maskable_ppo_keeps_to_the_masks():
    contrib = pytest.importorskip("sb3_contrib")
    env = macop_aht.embed(make_combat, teammate="random", limit=12)
    model = contrib.MaskablePPO("MlpPolicy", env, n_steps=64, batch_size=64, seed=0, device="cpu")
    model.learn(128)
    seen, _ = env.reset(seed=0)
    for _ in range(8):
        action, _ = model.predict(seen, action_masks=env.action_masks())
        assert env.action_masks()[action]
        seen, *_ = env.step(int(action))
