"""What several test files need."""

import hashlib
from dataclasses import replace

import numpy as np
import torch

from macop_aht.episodes.runner import Hook
from macop_aht.learner.networks import Shape, Stack, member
from macop_aht.learner.replay import Replay
from macop_aht.scenarios import build
from macop_aht.zoo import graphs
from macop_aht.zoo.cards import INDEX, Card, read_index, write_index


class Watch(Hook):
    """Notes what `look(state)` (B,…) sees at first and after every step; an episode that is over stays as it ended."""

    def __init__(self, look):
        self.look, self.seen = look, []

    def chosen(self, play, counted):
        if not self.seen:
            self.seen.append(np.copy(self.look(play.batch.state)))

    def stepped(self, play, counted):
        now = np.copy(self.look(play.batch.state))
        now[~play.running] = self.seen[-1][~play.running]
        self.seen.append(now)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def filled_replay(world, population=4, episodes=12, seed=0, equal=False):
    """Return a replay of random episodes of random lengths, some of them truncated."""
    rng = np.random.default_rng(seed)
    replay = Replay(world, population, episodes, state=world.state_dim)
    for p in range(population):
        members = np.full(episodes, p)
        slots = replay.begin(members)
        lengths = np.full(episodes, world.limit) if equal else rng.integers(1, world.limit + 1, episodes)
        replay.obs[p] = rng.normal(size=replay.obs[p].shape)
        replay.state[p] = rng.normal(size=replay.state[p].shape)
        replay.mask[p] = rng.random(replay.mask[p].shape) < 0.6
        replay.mask[p, ..., 0] = True
        replay.action[p] = rng.integers(0, replay.mask.shape[-1], replay.action[p].shape)
        replay.reward[p] = rng.normal(size=replay.reward[p].shape)
        replay.end(members, slots, lengths, lengths == world.limit)
    return replay


def network(scenario="LBF4", seed=0):
    world = build(scenario)
    return world, Stack(Shape.of(world), 1, torch.Generator().manual_seed(seed))


def graph_of(scenario="LBF4", seed=0, half=False):
    world, net = network(scenario, seed)
    weights = {name: value.numpy() for name, value in member(net, 0).items()}
    return graphs.group_graph(weights, len(world.actions), world.n_agents, half)


def put(folder, scenario, name, content, **changes):
    """A group in a zoo, with an honest card unless told otherwise."""
    file = name.replace("/", "-") + ".onnx"
    (folder / scenario).mkdir(parents=True, exist_ok=True)
    (folder / scenario / file).write_bytes(content)
    card = Card(
        name,
        scenario,
        name.split("/")[0],
        0,
        "0/0",
        "0" * 64,
        file,
        hashlib.sha256(content).hexdigest(),
        "single",
        1.0,
        1.0,
        name,
    )
    card = replace(card, **changes)
    own = folder / scenario / INDEX
    cards = read_index(folder / scenario) if own.exists() else {}
    write_index(folder / scenario, {**cards, card.name: card}, "for tests")
    return card


def save_teammate(path, obs_dim, n_actions, hidden=3, rows="N", favourite=1, nan=False):
    """A network that counts its steps in memory, likes `favourite` + its agent's index, and dislikes its last action."""
    from onnx import TensorProto, checker, helper, save

    like = np.zeros(n_actions, np.float32)
    like[favourite] = np.nan if nan else 1.0
    one_hot = helper.make_node("OneHot", ["last_action", "depth", "off_on"], ["repeated"], axis=-1)
    nodes = [
        one_hot,
        helper.make_node("ReduceSum", ["obs", "axis"], ["total"], keepdims=1),
        helper.make_node("Mul", ["total", "zero"], ["nothing"]),
        helper.make_node("Add", ["nothing", "like"], ["liked"]),
        helper.make_node("Add", ["liked", "repeated"], ["q"]),
        helper.make_node("Cast", ["agent"], ["who"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["who", "axis"], ["who_column"]),
        helper.make_node("Add", ["memory", "who_column"], ["next_memory"]),
    ]
    constants = [
        helper.make_tensor("depth", TensorProto.INT64, [], [n_actions]),
        helper.make_tensor("off_on", TensorProto.FLOAT, [2], [0.0, -2.0]),
        helper.make_tensor("axis", TensorProto.INT64, [1], [1]),
        helper.make_tensor("zero", TensorProto.FLOAT, [], [0.0]),
        helper.make_tensor("like", TensorProto.FLOAT, [n_actions], like),
    ]
    inputs = [
        helper.make_tensor_value_info("obs", TensorProto.FLOAT, [rows, obs_dim]),
        helper.make_tensor_value_info("last_action", TensorProto.INT64, [rows]),
        helper.make_tensor_value_info("agent", TensorProto.INT64, [rows]),
        helper.make_tensor_value_info("memory", TensorProto.FLOAT, [rows, hidden]),
    ]
    outputs = [
        helper.make_tensor_value_info("q", TensorProto.FLOAT, [rows, n_actions]),
        helper.make_tensor_value_info("next_memory", TensorProto.FLOAT, [rows, hidden]),
    ]
    graph = helper.make_graph(nodes, "teammate", inputs, outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    checker.check_model(model)
    save(model, path)
    return str(path)
