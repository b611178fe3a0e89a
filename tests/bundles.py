"""Bundles, egos and stubborn teammates for the tests of deploy and export."""

import json

import torch

from macop_aht.deploy.documents import DEEPEST, LONGEST
from macop_aht.export.recogniser import Recogniser, RecogniserConfig
from macop_aht.learner.networks import Ego, Shape, Stack, weights
from macop_aht.onnx import write
from macop_aht.policies import OnnxPolicy
from macop_aht.scenarios import build
from macop_aht.zoo.graphs import group_graph


def make_ego(scenario, heads=3, seed=0):
    world = build(scenario)
    return world, Ego(Shape.of(world), heads, torch.Generator().manual_seed(seed))


def make_recogniser(world, ego, returns, seed=1, generalist=False, **settings):
    generator = torch.Generator().manual_seed(seed)
    return Recogniser(Shape.of(world), returns, RecogniserConfig(**settings), world.limit, generator, generalist)


SOUTH, NORTH, LEAK = 3, 4, 0.02  # actions in CN2, and what is forgotten in a step


def stubborn(world, actions):
    """A team for each of the actions that does nothing else."""
    net = Stack(Shape.of(world), len(actions), torch.Generator().manual_seed(0))
    with torch.no_grad():
        net.heads.head2.weight.zero_()
        for p, action in enumerate(actions):
            net.heads.head2.bias[p] = 10.0 * torch.eye(len(world.actions))[action]
    return net


def policy(net, p, world):
    own = {name: array[p] for name, array in weights(net).items()}
    return OnnxPolicy(f"{p}.onnx", world, write(group_graph(own, len(world.actions), world.n_agents)), f"team {p}")


MISTAKES = {
    "of format 3": lambda told: told.update(format=3),
    "`macop convert`": lambda told: told.update(format=1),
    "unknown key 'colour'": lambda told: told.update(colour="red"),
    "unknown key 'golden.inputs.obz'; did you mean 'obs'": lambda told: told["golden"]["inputs"].update(obz=[]),
    "keys heads, actions are missing": lambda told: (told.pop("heads"), told.pop("actions")),
    "heads is '3'; it must be of type int": lambda told: told.update(heads="3"),
    "seed is True; it must be of type int": lambda told: told.update(seed=True),
    "versions is 7; it must be a table": lambda told: told.update(versions=7),
    "actions is 5; it must be a list": lambda told: told.update(actions=5),
    "it holds NaN": lambda told: told["zero_shot"].update(leak=float("nan")),
    "must be finite": lambda told: told["zero_shot"].update(leak=10**300),
    "leak is 2.0; it must be in 0..1": lambda told: told["zero_shot"].update(leak=2),
    "lists of different lengths": lambda told: told["golden"]["inputs"]["obs"][1].pop(),
    "must hold integers": lambda told: told["golden"]["inputs"].update(agent=[0.5] * 8),
    "agent has numbers outside of 0..1": lambda told: told["golden"]["inputs"].update(agent=[2] * 8),
    "at least 0": lambda told: told.update(seed=-1),
    "heads is 9 and run_heads 3": lambda told: told.update(heads=9),
    "controllable is 3; it must be at most agents, 2": lambda told: told.update(controllable=3),
    "q has the shape": lambda told: told["actions"].append("jump"),
    "names the file '../agent.onnx'": lambda told: told["sha256"].update({"../agent.onnx": "0" * 64}),
    "which is no sha-256": lambda told: told["sha256"].update({"agent.onnx": "0"}),
    "learnt_with names": lambda told: told["groups"]["learnt_with"].append("9/9"),
    "belong together": lambda told: told.pop("zero_shot"),
    "belief.margin is 1": lambda told: told["zero_shot"]["belief"].update(margin=1),
    "evidence is 4; the manifest says 5": lambda told: told["zero_shot"]["belief"].update(evidence=4),
    "returns has 3 rows": lambda told: told["zero_shot"]["returns"].pop(),
    "nested more than": lambda told: told.update(scenario=json.loads("[" * DEEPEST + "]" * DEEPEST)),
    "allowed are 16384": lambda told: told.update(actions=["go"] * (LONGEST + 1)),
    "more than 16384 characters": lambda told: told.update(method="m" * (LONGEST + 1)),
}


def rewritten(folder, change):
    """Change what the manifest of a bundle says, as a dictionary."""
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    change(manifest)
    path.write_text(json.dumps(manifest))


def in_format_1(manifest):
    """Take a manifest back to what earlier versions wrote: the inverse of a conversion."""
    manifest["format"] = 1
    if "groups" in manifest:
        manifest["company"] = manifest.pop("groups")
    manifest["versions"]["macop-aht"] = manifest["versions"].pop("macop_aht")
    belief = manifest["zero_shot"]["belief"]
    belief["held"], belief["spent"] = belief.pop("margin"), belief.pop("penalty")
    if "figures" in manifest:
        figures = manifest["figures"]
        figures["heads"] = figures.pop("returns")
        for part in (figures["calibration"], *figures["calibration"]["bins"]):
            part["right"] = part.pop("accuracy")
        for part in figures["calibration"]["bins"]:
            part["believed"] = part.pop("confidence")
