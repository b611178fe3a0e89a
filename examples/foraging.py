"""lbforaging's own environment as a scenario by name, and a script that loads the foods in their order.

python examples/foraging.py                      macop check foraging:environment, in this folder
"""

import gymnasium as gym
import lbforaging  # noqa: F401 - registers its environments
import numpy as np

import macop_aht

NORTH, SOUTH, WEST, EAST, LOAD = range(1, 6)


def in_order(obs, mask):
    """Goes to the first food that is left, around the teammate, and loads it."""
    foods, own, other = obs[:, :6].reshape(-1, 2, 3), obs[:, 6:8], obs[:, 9:11]
    way = np.where(foods[:, 0, 2:] > 0, foods[:, 0, :2], foods[:, 1, :2]) - own
    down, right = way.T
    blocked_down, blocked_right = ((own + np.sign(way) * axis == other).all(axis=1) for axis in ([1, 0], [0, 1]))
    go_down = ((abs(down) > abs(right)) & ~blocked_down) | (blocked_right & (down != 0))
    vertical, horizontal = np.where(down < 0, NORTH, SOUTH), np.where(right < 0, WEST, EAST)
    return np.select([abs(down) + abs(right) == 1, go_down], [LOAD, vertical], horizontal)


def make_env():
    return gym.make("Foraging-8x8-2p-2f-coop-v3").unwrapped


environment = macop_aht.External(make=make_env, ego=1, scripts={"in-order": in_order})

if __name__ == "__main__":
    macop_aht.register("Forage", environment)
    for teammate in ("scripted:in-order", "random"):
        rows = macop_aht.evaluate(in_order, "Forage", [teammate], episodes=32)
        print(f"return with {teammate}: {np.mean([row.return_ for row in rows]):.2f}")
