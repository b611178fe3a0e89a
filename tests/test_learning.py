"""An ordinary single-agent learner learns to play with a teammate. Slow."""

import gymnasium as gym
import pytest

import macop_aht  # noqa: F401 - registers the environments


@pytest.mark.slow
def test_ppo_learns_to_meet_a_scripted_teammate():
    from stable_baselines3 import PPO
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.evaluation import evaluate_policy

    env_kwargs = {"teammate": "scripted:corner-ne"}
    envs = make_vec_env("MacopLBF4-v0", n_envs=8, seed=0, env_kwargs=env_kwargs)
    model = PPO("MlpPolicy", envs, n_steps=128, batch_size=256, ent_coef=0.02, learning_rate=1e-3, seed=0, device="cpu")
    test = gym.make("MacopLBF4-v0", **env_kwargs)
    before, _ = evaluate_policy(model, test, n_eval_episodes=100, warn=False)
    model.learn(150_000)
    after, _ = evaluate_policy(model, test, n_eval_episodes=100, deterministic=True, warn=False)
    assert before < 0.5
    assert after > 0.9
