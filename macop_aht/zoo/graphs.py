"""Teammate groups as ONNX graphs: from a network's weights to a graph, back again, and what a file may contain.

The graph is the agent network of `learner.networks`, written out: two layers, a GRU, two layers. Weights are stored under the
network's own names, such as `backbone.encoder1.weight`, in single or half precision; the graph casts half to single first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from macop_aht.onnx import Builder, FormatError, Graph, Tensor, check_weights
from macop_aht.scenarios.spec import World

LAYERS = (
    "backbone.encoder1", "backbone.encoder2", "backbone.gru_input", "backbone.gru_hidden", "heads.head1", "heads.head2",
)  # fmt: skip
OPERATORS = frozenset(
    ["Add", "Cast", "Concat", "Equal", "MatMul", "Mul", "Relu", "Sigmoid", "Split", "Sub", "Tanh", "Unsqueeze"]
)
CONSTANTS = ("actions", "agents", "thirds", "last_axis")
LIMIT = 4 * 2**20  # bytes of a file
HIDDEN_LIMIT = 1_024  # of a network's memory


def one_hot(add: Builder, index: str, numbers: str) -> str:
    """Add one-hot rows; a row of zeros where the index is -1."""
    return add("Cast", add("Equal", add("Unsqueeze", index, "last_axis"), numbers), to=1)


def gru(add: Builder, gates: str, recurrent: str, memory: str, output: str) -> str:
    """Add a step of the GRU from both halves of its gates (reset, update, new), like `learner.recurrence.cell`."""
    reset_in, update_in, new_in = add.split(gates, "thirds", 3)
    reset_own, update_own, new_own = add.split(recurrent, "thirds", 3)
    reset = add("Sigmoid", add("Add", reset_in, reset_own))
    update = add("Sigmoid", add("Add", update_in, update_own))
    new = add("Tanh", add("Add", new_in, add("Mul", reset, new_own)))
    return add("Add", new, add("Mul", update, add("Sub", memory, new)), output=output)


def backbone(add: Builder, layer: Callable[[str, str], str], memory: str, output: str = "") -> str:
    """Add a backbone, from the inputs of a step to the next memory; `layer` applies the layer of a name to rows."""
    rows = add("Concat", "obs", one_hot(add, "last_action", "actions"), one_hot(add, "agent", "agents"), axis=-1)
    return _remember(add, layer, layer("backbone.encoder1", rows), memory, output)


def _remember(add: Builder, layer: Callable[[str, str], str], rows: str, memory: str, output: str) -> str:
    """Add all of a backbone but its first layer."""
    rows = add("Relu", layer("backbone.encoder2", add("Relu", rows)))
    return gru(add, layer("backbone.gru_input", rows), layer("backbone.gru_hidden", memory), memory, output)


def lean_backbone(add: Builder, layer: Callable[[str, str], str], memory: str, output: str = "") -> str:
    """Add a backbone in fewer nodes: one-hot inputs are looked up in tables. It needs the weights of `lean_weights`.

    Where those are of P backbones, memories are (P,N,H).
    """
    acted = add("Gather", "by_last_action", "last_action", axis=-2)
    number = add("Gather", "by_agent_number", "agent", axis=-2)
    rows = add("Add", add("MatMul", "obs", "by_obs"), add("Add", acted, number))
    return _remember(add, layer, rows, memory, output)


def lean_weights(weights: Mapping[str, np.ndarray], actions: int, agents: int) -> dict[str, np.ndarray]:
    """Return the weights of a backbone, or of P of them, (P,in,out), with the first layer in three parts: see `lean_backbone`."""
    stored = dict(weights)
    first, bias = stored.pop("backbone.encoder1.weight"), stored.pop("backbone.encoder1.bias")
    by_obs, by_action, by_agent = np.split(first, [-actions - agents, -agents], axis=-2)
    hidden = np.full(3, first.shape[-1], dtype=np.int64)
    no_action = np.zeros_like(by_action[..., :1, :])  # the last row, which an index of -1 means
    acted = np.concatenate([by_action, no_action], axis=-2)
    looked_up = {"by_last_action": acted, "by_agent_number": by_agent + bias[..., None, :]}
    if first.ndim > 2:
        stored = {name: array[:, None] if name.endswith(".bias") else array for name, array in stored.items()}
    return {**stored, "by_obs": by_obs, **looked_up, "thirds": hidden}


def backbone_constants(actions: int, agents: int, hidden: int) -> dict[str, np.ndarray]:
    """Return the constants of `backbone`."""
    return {
        "actions": np.arange(actions, dtype=np.int64),
        "agents": np.arange(agents, dtype=np.int64),
        "thirds": np.full(3, hidden, dtype=np.int64),
        "last_axis": np.array([-1], dtype=np.int64),
    }


def group_graph(weights: Mapping[str, np.ndarray], actions: int, agents: int, half: bool = False) -> Graph:
    """Return the graph of a network with these weights, by name: `LAYER.weight` (in, out) and `LAYER.bias` (out,)."""
    add, stored = Builder(), dict(weights)
    if half:
        stored = {name: array.astype(np.float16) for name, array in stored.items()}
    wide = {name: add("Cast", name, to=1) if half else name for name in stored}
    width = weights["backbone.encoder1.weight"].shape
    hidden, obs = width[1], width[0] - actions - agents

    def layer(name: str, rows: str, output: str = "") -> str:
        return add("Add", add("MatMul", rows, wide[f"{name}.weight"]), wide[f"{name}.bias"], output=output)

    memory = backbone(add, layer, "memory", "next_memory")
    layer("heads.head2", add("Relu", layer("heads.head1", memory)), output="q")
    constants = backbone_constants(actions, agents, hidden)
    inputs = [
        Tensor("obs", np.float32, ("N", obs)),
        Tensor("last_action", np.int64, ("N",)),
        Tensor("agent", np.int64, ("N",)),
        Tensor("memory", np.float32, ("N", hidden)),
    ]
    outputs = [Tensor("q", np.float32, ("N", actions)), Tensor("next_memory", np.float32, ("N", hidden))]
    return Graph(add.nodes, inputs, outputs, {**stored, **constants})


def network_weights(graph: Graph) -> dict[str, np.ndarray]:
    """Return the weights of a graph that `group_graph` made, in single precision; raise `FormatError` where some are missing."""
    names = [f"{layer}.{part}" for layer in LAYERS for part in ("weight", "bias")]
    missing = [name for name in names if name not in graph.weights]
    if missing:
        raise FormatError(f"the file is no network of ours: {', '.join(missing)} are missing")
    return {name: graph.weights[name].astype(np.float32) for name in names}


def check(graph: Graph, world: World) -> None:
    """Raise `FormatError` unless the graph is, node by node, what `group_graph` makes of its weights for this world."""
    strangers = sorted({node.op for node in graph.nodes} - OPERATORS)
    if strangers:
        raise FormatError(
            f"the operators {', '.join(strangers)} are not allowed; allowed are {', '.join(sorted(OPERATORS))}"
        )
    found, obs, actions = network_weights(graph), len(world.observations), len(world.actions)
    shapes = {name: array.shape for name, array in found.items()}
    hidden = shapes["backbone.encoder2.weight"][-1] if shapes["backbone.encoder2.weight"] else 0
    if shapes != _shapes(obs + actions + world.n_agents, hidden, actions) or not 0 < hidden <= HIDDEN_LIMIT:
        raise FormatError(
            f"the tensors are {_show(graph.inputs)} -> {_show(graph.outputs)}, the weights {shapes}; this scenario needs obs "
            f"(N,{obs}) and {actions} actions. Was it made for another scenario?"
        )
    check_weights(graph)
    half = graph.weights["backbone.encoder1.weight"].dtype == np.float16
    wanted = group_graph(found, actions, world.n_agents, half)
    same = (
        not graph.told
        and list(graph.nodes) == list(wanted.nodes)
        and list(graph.inputs) == list(wanted.inputs)
        and list(graph.outputs) == list(wanted.outputs)
        and {name: (array.dtype, array.shape) for name, array in graph.weights.items()}
        == {name: (array.dtype, array.shape) for name, array in wanted.weights.items()}
        and all(np.array_equal(graph.weights[name], wanted.weights[name]) for name in CONSTANTS)
    )
    if not same:
        raise FormatError("the graph is not that of an agent network of ours")


def _shapes(inputs: int, hidden: int, actions: int) -> dict[str, tuple[int, ...]]:
    sizes = (
        (inputs, hidden),
        (hidden, hidden),
        (hidden, 3 * hidden),
        (hidden, 3 * hidden),
        (hidden, hidden),
        (hidden, actions),
    )
    found: dict[str, tuple[int, ...]] = {}
    for layer, (fan_in, fan_out) in zip(LAYERS, sizes, strict=True):
        found |= {f"{layer}.weight": (fan_in, fan_out), f"{layer}.bias": (fan_out,)}
    return found


def _show(tensors: Sequence[Tensor]) -> str:
    return ", ".join(f"{tensor.name} {tensor.shape}" for tensor in tensors)
