"""A PettingZoo loop: a group of the zoo plays all agents but the first, which is yours to write.

python examples/pettingzoo_loop.py [--scenario LBF4] [--mate NAME] [--episodes 5]
"""

import argparse

import numpy as np

import macop_aht
from macop_aht import zoo
from macop_aht.scenarios import build

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--scenario", default="LBF4")
parser.add_argument("--mate", help="a group of the zoo (default: the first of its test split)")
parser.add_argument("--episodes", type=int, default=5)
arguments = parser.parse_args()

known = arguments.mate
mate = zoo.load(arguments.scenario, known) if known else zoo.split(arguments.scenario, "test")[0]
env, rng = macop_aht.parallel_env(arguments.scenario), np.random.default_rng(0)
mates = [f"agent_{k}" for k in range(1, build(arguments.scenario).n_agents)]
for episode in range(arguments.episodes):
    obs, infos = env.reset(seed=episode)
    memory, total = np.zeros((len(mates), mate.memory_size), dtype=np.float32), 0.0
    number, theirs = np.arange(1, 1 + len(mates)), np.full(len(mates), -1)
    while env.agents:
        masks = {agent: info["action_mask"] for agent, info in infos.items()}
        theirs, memory = mate.act(
            np.stack([obs[agent] for agent in mates]), np.stack([masks[agent] for agent in mates]),
            number, theirs, memory, np.zeros((len(mates), mate.draws)),
        )  # fmt: skip
        actions = {"agent_0": rng.choice(np.flatnonzero(masks["agent_0"]))}  # write something better here
        obs, rewards, _, _, infos = env.step(actions | dict(zip(mates, theirs.tolist(), strict=True)))
        total += sum(rewards.values())
    print(f"episode {episode} with {mate.name}: return {total:.2f}")
