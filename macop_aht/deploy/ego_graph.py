"""An ego as an ONNX graph, all its heads in one pass, and the run's ego out of such a graph again."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from macop_aht.onnx_format import Builder, Graph, Tensor
from macop_aht.zoo import graphs


def ego_graph(weights: Mapping[str, np.ndarray], actions: int, agents: int) -> Graph:
    """The graph of an ego from its weights by name, as `learner.networks.weights` gives them."""
    add = Builder()
    trunk = {name: array[0] for name, array in weights.items() if name.startswith("backbone.")}
    heads = {name: array for name, array in weights.items() if name.startswith("heads.")}
    wide = trunk["backbone.encoder1.weight"].shape
    hidden, obs = wide[1], wide[0] - actions - agents
    count, _, inner = heads["heads.head1.weight"].shape

    def layer(name: str, rows: str) -> str:
        return add("Add", add("MatMul", rows, f"{name}.weight"), f"{name}.bias")

    memory = graphs.lean_backbone(add, layer, "memory", "next_memory")
    rows = add("Relu", layer("heads.head1", memory))  # (N,K*H): the first layers of all heads are one
    each = add("Transpose", add("Reshape", rows, "by_head"), perm=[1, 0, 2])  # (K,N,H)
    add("Transpose", layer("heads.head2", each), output="q", perm=[1, 0, 2])
    heads["heads.head1.weight"] = heads["heads.head1.weight"].transpose(1, 0, 2).reshape(hidden, -1)
    heads["heads.head1.bias"] = heads["heads.head1.bias"].reshape(-1)
    heads["heads.head2.bias"] = heads["heads.head2.bias"][:, None]  # (K,1,A)
    inputs = [
        Tensor("obs", np.float32, ("N", obs)),
        Tensor("last_action", np.int64, ("N",)),
        Tensor("agent", np.int64, ("N",)),
        Tensor("memory", np.float32, ("N", hidden)),
    ]
    outputs = [Tensor("q", np.float32, ("N", count, actions)), Tensor("next_memory", np.float32, ("N", hidden))]
    stored = {**graphs.lean_weights(trunk, actions, agents), **heads}
    return Graph(add.nodes, inputs, outputs, {**stored, "by_head": np.array([0, count, inner], dtype=np.int64)})


def run_weights(graph: Graph, heads: int) -> dict[str, np.ndarray]:
    """The weights of the run's own ego, its first heads with their backbone, by name as `learner.networks.weights` gives them."""
    stored = graph.weights
    inner = stored["heads.head2.weight"].shape[1]  # as wide as the memory of the run's heads, which comes first
    first = np.concatenate([stored["by_obs"], stored["by_last_action"][:-1], stored["by_agent_number"]])[:, :inner]
    nothing = np.zeros_like(first[0])  # the bias is in the agents' rows
    found = {"backbone.encoder1.weight": first, "backbone.encoder1.bias": nothing}
    for layer, gates in (("encoder2", 1), ("gru_input", 3), ("gru_hidden", 3)):
        weight, bias = stored[f"backbone.{layer}.weight"], stored[f"backbone.{layer}.bias"]
        found[f"backbone.{layer}.weight"] = weight.reshape(len(weight), gates, -1)[:inner, :, :inner].reshape(inner, -1)
        found[f"backbone.{layer}.bias"] = bias.reshape(gates, -1)[:, :inner].ravel()
    alone = {name: array[None] for name, array in found.items()}
    weight = stored["heads.head1.weight"].reshape(len(stored["heads.head1.weight"]), -1, inner)  # (memory,K,H)
    alone["heads.head1.weight"] = weight.transpose(1, 0, 2)[:heads, :inner]
    alone["heads.head1.bias"] = stored["heads.head1.bias"].reshape(-1, inner)[:heads]
    alone["heads.head2.weight"] = stored["heads.head2.weight"][:heads]
    alone["heads.head2.bias"] = stored["heads.head2.bias"][:heads, 0]
    return {name: array.copy() for name, array in alone.items()}
