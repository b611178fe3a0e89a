"""lbforaging's own environment as a scenario by name, and a script that loads the foods in their order.

python examples/foraging.py [--episodes 32]      macop check foraging:environment, in this folder
"""

import argparse

import gymnasium as gym
import lbforaging  # noqa: F401 - registers its environments
import numpy as np

import macop_aht

NORTH, SOUTH, WEST, EAST, LOAD = range(1, 6)


def in_order(obs, mask):
    """Goes to the first food that is left, and loads it."""
    foods, own = obs[:, :6].reshape(-1, 2, 3), obs[:, 6:8]
    first = np.where(foods[:, 0, 2:] > 0, foods[:, 0, :2], foods[:, 1, :2])
    down, right = (first - own).T
    vertical, horizontal = np.where(down < 0, NORTH, SOUTH), np.where(right < 0, WEST, EAST)
    return np.select([abs(down) + abs(right) == 1, abs(down) > abs(right)], [LOAD, vertical], horizontal)


def make_env():
    return gym.make("Foraging-8x8-2p-2f-coop-v3").unwrapped


environment = macop_aht.External(make=make_env, ego=1, scripts={"in-order": in_order})

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=32)
    episodes = parser.parse_args().episodes
    macop_aht.register("Forage", environment)
    for teammate in ("scripted:in-order", "random"):
        rows = macop_aht.evaluate(in_order, "Forage", [teammate], episodes)
        print(f"return with {teammate}: {np.mean([row.return_ for row in rows]):.2f}")
