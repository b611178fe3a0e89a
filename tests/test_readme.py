"""The README's examples run as they are printed, in their order."""

import re
from pathlib import Path

import gymnasium as gym
import pytest

README = Path(__file__).parent.parent / "README.md"
BLOCKS = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
LEARNING = next(block for block in BLOCKS if "PPO" in block)


def test_examples_run():
    names: dict = {}
    for block in BLOCKS:
        if block != LEARNING:
            exec(block, names)
    assert names["env"].unwrapped.world.n_agents == 2
    assert names["envs"].num_envs == 256
    assert names["shorter"].unwrapped.world.limit == 15


@pytest.mark.slow
def test_the_learner_of_the_readme_learns():
    """An ordinary single-agent learner learns to meet a scripted teammate, from nothing to a return above 0.9."""
    from stable_baselines3.common.evaluation import evaluate_policy

    names: dict = {}
    exec("import macop_aht\n" + LEARNING, names)
    test = gym.make("MacopLBF4-v0", teammate="scripted:corner-ne")
    test.reset(seed=1_000)
    score, _ = evaluate_policy(names["model"], test, n_eval_episodes=200, warn=False)
    assert score > 0.9
    stranger = gym.make("MacopLBF4-v0", teammate="scripted:corner-sw")
    score, _ = evaluate_policy(names["model"], stranger, n_eval_episodes=200, warn=False)
    assert score < 0.2  # it has learnt this teammate, not teamwork: that is what the suite is for
