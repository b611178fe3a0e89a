"""MPE's simple_spread with a teammate inside: Stable-Baselines3's PPO learns to cover landmarks with two random teammates.

python examples/spread.py [--steps 50000]        macop train spread:environment --out runs/spread, in this folder
"""

import argparse

from mpe2 import simple_spread_v3
from stable_baselines3 import PPO
from stable_baselines3.common.evaluation import evaluate_policy

import macop_aht

environment = macop_aht.External(make=simple_spread_v3.parallel_env, ego=["agent_0"], limit=25)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=50_000)
    parser.add_argument("--episodes", type=int, default=20)
    arguments = parser.parse_args()
    env = macop_aht.embed(environment, teammate="random")
    model = PPO("MlpPolicy", env, n_steps=250, batch_size=250, seed=0, device="cpu")
    before, _ = evaluate_policy(model, env, arguments.episodes, warn=False)
    model.learn(arguments.steps)
    after, _ = evaluate_policy(model, env, arguments.episodes, warn=False)
    print(f"return with random teammates: {before:.1f} before, {after:.1f} after {arguments.steps} steps")
