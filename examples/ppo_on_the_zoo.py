"""Stable-Baselines3's PPO learns with the zoo's training groups and is tested with groups that it has not met.

python examples/ppo_on_the_zoo.py [--scenario LBF4] [--steps 200000]
"""

import argparse

from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env

import macop_aht  # registers the environments
from macop_aht.cli import main as macop

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--scenario", default="LBF4")
parser.add_argument("--steps", type=int, default=200_000)
parser.add_argument("--out", default="ppo.zip")
arguments = parser.parse_args()

print(f"macop-aht {macop_aht.__version__}: a teammate is drawn from zoo:train for every episode")
envs = make_vec_env(f"Macop{arguments.scenario}-v0", n_envs=8, seed=0, env_kwargs={"teammate": "zoo:train"})
model = PPO("MlpPolicy", envs, n_steps=128, batch_size=256, ent_coef=0.02, learning_rate=1e-3, seed=0, device="cpu")
model.learn(arguments.steps)
model.save(arguments.out)
teammates = ["--teammates", "zoo:train", "zoo:test", "scripted", "--seen", "zoo:train"]
macop(["evaluate", arguments.out, "--scenario", arguments.scenario, *teammates])
