"""Overcooked's cramped room by cogrid: Stable-Baselines3's PPO learns to cook beside a random cook.

python examples/overcooked.py [--steps 100000]   macop train overcooked:environment --out runs/kitchen, in this folder
"""

import argparse

from cogrid.envs import registry
from stable_baselines3 import PPO
from stable_baselines3.common.evaluation import evaluate_policy

import macop_aht


def make_env(render_mode=None):
    return registry.make("Overcooked-CrampedRoom-V0", render_mode=render_mode)


environment = macop_aht.External(make=make_env, ego=[0], limit=200, reward="mean")  # the agents are called 0 and 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--episodes", type=int, default=5)
    arguments = parser.parse_args()
    env = macop_aht.embed(environment, teammate="random")
    model = PPO("MlpPolicy", env, n_steps=200, batch_size=200, seed=0, device="cpu")
    before, _ = evaluate_policy(model, env, arguments.episodes, warn=False)
    model.learn(arguments.steps)
    after, _ = evaluate_policy(model, env, arguments.episodes, warn=False)
    print(f"return with a random cook: {before:.1f} before, {after:.1f} after {arguments.steps} steps")
