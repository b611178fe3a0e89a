"""The ego as an ONNX graph with all its heads, and the weights of the run's ego read back from such a graph.

The weights of a generalist head are called `common` in the files, as they were in the first bundles.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from macop_aht.onnx import Builder, FormatError, Graph, Tensor
from macop_aht.zoo import graphs

LATER_LAYERS = ("encoder2", "gru_input", "gru_hidden")  # of a backbone; the first is in three parts


def ego_graph(
    weights: Mapping[str, np.ndarray], actions: int, agents: int, generalist: Mapping[str, np.ndarray] | None = None
) -> Graph:
    """Return the graph of an ego with these weights, by name as `learner.networks.weights` gives them.

    `generalist` are the weights of another ego with one head: that head becomes the last one, and its memory follows the first
    ego's in `memory`. The two backbones stay independent; as a stack, (P,…), they are computed together.
    """
    add, egos = Builder(), [weights, generalist] if generalist else [weights]
    inputs, inner = weights["backbone.encoder1.weight"].shape[1:]
    stored = _stored(egos, actions, agents)
    heads, hidden = len(stored["heads.head2.weight"]), len(egos) * inner

    def layer(name: str, rows: str) -> str:
        return add("Add", add("MatMul", rows, f"{name}.weight"), f"{name}.bias")

    memory = add("Transpose", add("Reshape", "memory", "apart"), perm=[1, 0, 2])  # (P,N,H)
    memory = add("Transpose", graphs.lean_backbone(add, layer, memory), perm=[1, 0, 2])
    memory = add("Reshape", memory, "together", output="next_memory")
    if generalist:
        own, other = add.split(memory, "halves", 2)
        rows = add("Concat", layer("heads.head1", own), layer("common.head1", other), axis=-1)
    else:
        rows = layer("heads.head1", memory)  # (N,K*H): the first layers of all heads are one
    each = add("Transpose", add("Reshape", add("Relu", rows), "by_head"), perm=[1, 0, 2])  # (K,N,H)
    add("Transpose", layer("heads.head2", each), output="q", perm=[1, 0, 2])
    shapes = {"apart": [0, len(egos), inner], "together": [0, hidden], "by_head": [0, heads, inner]}
    shapes |= {"halves": [inner, inner]} if generalist else {}
    stored |= {name: np.array(shape, dtype=np.int64) for name, shape in shapes.items()}
    asked = [
        Tensor("obs", np.float32, ("N", inputs - actions - agents)),
        Tensor("last_action", np.int64, ("N",)),
        Tensor("agent", np.int64, ("N",)),
        Tensor("memory", np.float32, ("N", hidden)),
    ]
    given = [Tensor("q", np.float32, ("N", heads, actions)), Tensor("next_memory", np.float32, ("N", hidden))]
    return Graph(add.nodes, asked, given, stored)


def _stored(egos: Sequence[Mapping[str, np.ndarray]], actions: int, agents: int) -> dict[str, np.ndarray]:
    """Return the weights as the graph has them: backbones and second head layers as stacks, first head layers side by side."""
    names = [name for name in egos[0] if name.startswith("backbone.")]
    stored = graphs.lean_weights({name: np.concatenate([ego[name] for ego in egos]) for name in names}, actions, agents)
    for place, ego in zip(("heads", "common"), egos, strict=False):
        weight = ego["heads.head1.weight"]  # (K,H,H)
        stored[f"{place}.head1.weight"] = weight.transpose(1, 0, 2).reshape(weight.shape[1], -1)
        stored[f"{place}.head1.bias"] = ego["heads.head1.bias"].reshape(-1)
    stored["heads.head2.weight"] = np.concatenate([ego["heads.head2.weight"] for ego in egos])
    stored["heads.head2.bias"] = np.concatenate([ego["heads.head2.bias"] for ego in egos])[:, None]  # (K,1,A)
    return stored


def run_weights(graph: Graph) -> dict[str, np.ndarray]:
    """Return the weights of the run's ego, without a generalist head, by name as `learner.networks.weights` gives them.

    Raise `FormatError` where an earlier version wrote the graph with another layout.
    """
    stored = graph.weights
    if "apart" not in stored:
        raise FormatError("the agent's graph is laid out as an earlier version wrote it; export the run itself")
    parts = stored["by_obs"][:1], stored["by_last_action"][:1, :-1], stored["by_agent_number"][:1]
    found = {"backbone.encoder1.weight": np.concatenate(parts, axis=1)}
    found["backbone.encoder1.bias"] = np.zeros_like(parts[0][:, 0])  # it is in the agents' rows
    for name in LATER_LAYERS:
        found[f"backbone.{name}.weight"] = stored[f"backbone.{name}.weight"][:1]
        found[f"backbone.{name}.bias"] = stored[f"backbone.{name}.bias"][:1, 0]
    inner = len(stored["heads.head1.weight"])
    found["heads.head1.weight"] = stored["heads.head1.weight"].reshape(inner, -1, inner).transpose(1, 0, 2)
    found["heads.head1.bias"] = stored["heads.head1.bias"].reshape(-1, inner)
    heads = len(found["heads.head1.bias"])
    found["heads.head2.weight"] = stored["heads.head2.weight"][:heads]
    found["heads.head2.bias"] = stored["heads.head2.bias"][:heads, 0]
    return {name: array.copy() for name, array in found.items()}
