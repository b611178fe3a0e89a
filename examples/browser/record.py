"""Records episodes of LBF4 that Python plays with a bundle, for the page to play again: recording.json.

python examples/browser/record.py [--bundle macop-plus/LBF4] [--selector zero-shot] [--teammate zoo:train] [--out FILE]
"""

import argparse
import json
from pathlib import Path

import gymnasium as gym

import macop_aht  # registers the environments

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--bundle", default="macop-plus/LBF4")
parser.add_argument("--selector", default="zero-shot")
parser.add_argument("--teammate", default="zoo:train")
parser.add_argument("--episodes", type=int, default=16)
parser.add_argument("--out", type=Path, default=Path(__file__).parent / "recording.json")
arguments = parser.parse_args()

agent = macop_aht.EgoAgent.load(arguments.bundle, selector=arguments.selector)
env = gym.make(f"Macop{agent.manifest.scenario}-v0", teammate=arguments.teammate)
recording = []
for episode in range(arguments.episodes):
    obs, info = env.reset(seed=episode)
    agent.episode_begin()
    steps, actions, total, over = [], [], 0.0, False
    while not over:
        mask = info["action_mask"]
        action = int(agent.act(obs, mask))
        steps.append({"obs": [obs.tolist()], "mask": [mask.tolist()]})
        actions.append([action])
        obs, reward, terminated, truncated, info = env.step(action)
        total, over = total + float(reward), terminated or truncated
    played = {"head": int(agent.head[0]), "actions": actions}
    agent.episode_end(total)
    recording.append({"steps": steps, "return": total, "played": played})
arguments.out.write_text(json.dumps(recording))
print(f"wrote {arguments.out}: {len(recording)} episodes")
