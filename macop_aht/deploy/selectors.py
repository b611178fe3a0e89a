"""Head selectors as ONNX graphs: which head to play next.

Three selectors choose a head for every episode, from what the heads have returned so far:

    meta-test   the paper's: every head in turn
    halving     successive halving: after every round of the budget, the better half of the heads is left
    thompson    Thompson sampling: the head whose return is highest in a random draw

Their inputs are `tried` (K,), the number of episodes of every head, and `mean_return` (K,), zeros at first; `last_head` (),
-1 at first, and `last_return` (), of the last episode; `budget` (), the number of episodes for choosing; thompson has
`draws` (K,), standard normal, too. Their outputs are `next_tried`, `next_mean_return`, `next_head` (), which to play next,
and `best_head` (), the best so far. Once the budget is spent, the next head is the best one.

Halving uses more than the mean returns, since the returns of all heads with all groups of the run have been measured. Its
model: a teammate is like one of these groups, or like none of them. The returns so far give a posterior over that, and the
posterior gives an expected return for every head, whether it has been tried or not. This prior is worth about as many
episodes again at first, and after many episodes the mean returns decide.

The fourth, zero-shot, is asked at every step and needs neither returns nor a budget: see `export.recogniser`, which trains it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict

import numpy as np

from macop_aht.deploy.manifest import ZERO_SHOT, BeliefParts
from macop_aht.onnx import Builder, Graph, Tensor
from macop_aht.zoo import graphs

NEVER = -1e30  # the return of a head that was not tried
THOMPSON_SPREAD = 0.5  # standard deviation of an episode's return, as a multiple of the best mean return
UNKNOWN = 0.5  # the prior probability that a teammate is like none of the groups
LIKE = 0.4  # how far returns with a teammate like a group are from those with the group, in standard deviations of all returns


def _graph(
    heads: int,
    name: str,
    choose: Callable[[Builder, str], str],
    expect: Callable[[Builder], str] | None = None,
    own: Mapping[str, np.ndarray] | None = None,
    draws: bool = False,
) -> Graph:
    """Return a selector by episode: it updates the means, chooses while there is budget, and then plays the best head.

    `expect` adds nodes for the expected return of every head (default: its mean return, and NEVER for an untried one).
    `choose` adds nodes for the head to play while there is budget; it is given the name of these values. `own` are a
    selector's own constants.
    """
    add = Builder()
    played = add("Cast", add("Equal", "numbers", "last_head"), to=1)  # all zero at first
    tried = add("Add", "tried", played, output="next_tried")
    step = add("Div", add("Sub", "last_return", "mean_return"), add("Max", tried, "one"))
    mean = add("Add", "mean_return", add("Mul", played, step), output="next_mean_return")
    known = expect(add) if expect else add("Where", add("Greater", tried, "zero"), mean, "never")
    add("ReduceSum", tried, "first_axis", output="total", keepdims=0)
    best = add("ArgMax", known, output="best_head", axis=0, keepdims=0)
    add("Cast", "budget", output="budget_real", to=1)
    searching = add("Less", "total", "budget_real")
    add("Where", searching, choose(add, known), best, output="next_head")
    inputs = [
        Tensor("tried", np.float32, (heads,)),
        Tensor("mean_return", np.float32, (heads,)),
        Tensor("last_head", np.int64, ()),
        Tensor("last_return", np.float32, ()),
        Tensor("budget", np.int64, ()),
    ]
    if draws:
        inputs.append(Tensor("draws", np.float32, (heads,)))
    outputs = [
        Tensor("next_tried", np.float32, (heads,)),
        Tensor("next_mean_return", np.float32, (heads,)),
        Tensor("next_head", np.int64, ()),
        Tensor("best_head", np.int64, ()),
    ]
    rounds = max(math.ceil(math.log2(heads)), 1)
    constants = {
        "numbers": np.arange(heads, dtype=np.int64),
        "zero": np.float32(0),
        "one": np.float32(1),
        "never": np.float32(NEVER),
        "first_axis": np.array([0], dtype=np.int64),
        "second_axis": np.array([1], dtype=np.int64),
        "heads": np.float32(heads),
        "rounds": np.float32(rounds),
        "last_round": np.float32(rounds - 1),
        "two": np.float32(2),
        "much": np.float32(1e9),
        "spread": np.float32(THOMPSON_SPREAD),
        "earlier": np.tri(heads, k=-1, dtype=np.float32),  # row i: the heads before i
        **(own or {}),
    }
    used = {name for node in add.nodes for name in node.inputs}
    weights = {key: np.asarray(value) for key, value in constants.items() if key in used}
    return Graph(add.nodes, inputs, outputs, weights, {"selector": name})


def meta_test(returns: np.ndarray) -> Graph:
    """Return the selector that plays every head in turn; `returns` (K,G) tells it the number of heads."""

    def choose(add: Builder, known: str) -> str:
        return add("Cast", add("Mod", "total", "heads", fmod=1), to=7)

    return _graph(len(returns), "meta-test", choose)


def halving(returns: np.ndarray) -> Graph:
    """Return the selector by successive halving: the budget has as many equal rounds as it takes to get down to one head."""
    informed = returns.size > 0

    def choose(add: Builder, known: str) -> str:
        done = add("Floor", add("Div", add("Mul", "total", "rounds"), add("Max", "budget_real", "one")))
        left = add("Ceil", add("Div", "heads", add("Pow", "two", add("Min", done, "last_round"))))
        # The rank of a head: how many are better, or equal and before it. An untried head may be the best.
        hoped = known if informed else add("Where", add("Greater", "next_tried", "zero"), known, "much")
        column, row = add("Unsqueeze", hoped, "second_axis"), add("Unsqueeze", hoped, "first_axis")
        better = add("Cast", add("Greater", row, column), to=1)
        equal = add("Mul", add("Cast", add("Equal", row, column), to=1), "earlier")
        rank = add("ReduceSum", add("Add", better, equal), "second_axis", keepdims=0)
        out = add("Cast", add("Not", add("Less", rank, left)), to=1)
        turn = add("Add", add("Mul", "next_tried", "heads"), rank)  # the least tried; of these, the best
        return add("ArgMin", add("Add", turn, add("Mul", out, "much")), axis=0, keepdims=0)

    if not informed:
        return _graph(len(returns), "halving", choose)
    return _graph(len(returns), "halving", choose, _expected, _prior(returns))


def _prior(returns: np.ndarray) -> dict[str, np.ndarray]:
    """Return the prior of `_expected` in G+1 rows: a teammate like each of the groups of `returns` (K,G), or like none."""
    (heads, groups), scale = returns.shape, float(returns.std()) or 1.0
    likely = [*[(1 - UNKNOWN) / groups] * groups, UNKNOWN]
    return {
        "usual": np.vstack([returns.T, np.full((1, heads), returns.mean())]).astype(np.float32),
        "likely": np.log(likely).astype(np.float32)[:, None],
        # variances: of a head's mean return around its usual one, and of an episode's return around the mean
        "around": np.array([*[(LIKE * scale) ** 2] * groups, scale**2], dtype=np.float32)[:, None],
        "luck": np.array(scale**2, dtype=np.float32),
        # the first variance, but so large for the unknown teammate that the head's own returns outweigh the usual one
        "leave": np.array([*[(LIKE * scale) ** 2] * groups, 1e9 * scale**2], dtype=np.float32)[:, None],
        "half": np.array(0.5, dtype=np.float32),
    }


def _expected(add: Builder) -> str:
    """Add the posterior mean of every head's return in a mixture of normal distributions, given all returns so far."""
    seen = add("Min", "next_tried", "one")
    off, error = add("Sub", "next_mean_return", "usual"), add("Div", "luck", add("Max", "next_tried", "one"))
    variance = add("Add", "around", error)  # (G+1,K)
    unlikely = add("Mul", seen, add("Add", add("Div", add("Mul", off, off), variance), add("Log", variance)))
    unlikely = add("Mul", "half", add("ReduceSum", unlikely, "second_axis", keepdims=1))
    belief = add("Softmax", add("Sub", "likely", unlikely), axis=0)  # (G+1,1)
    share = add("Mul", seen, add("Div", "leave", add("Add", "leave", error)))
    of_each = add("Add", "usual", add("Mul", share, off))
    return add("ReduceSum", add("Mul", belief, of_each), "first_axis", keepdims=0)


def thompson(returns: np.ndarray) -> Graph:
    """Return the selector by Thompson sampling: each head once, then the one with the highest drawn return."""

    def choose(add: Builder, known: str) -> str:
        scale = add("Mul", "spread", add("Max", add("ReduceMax", known, keepdims=0), "one"))
        error = add("Mul", "draws", add("Div", scale, add("Sqrt", add("Max", "next_tried", "one"))))
        drawn = add("Add", "next_mean_return", error)
        untried = add("Cast", add("Equal", "next_tried", "zero"), to=1)
        return add("ArgMax", add("Add", drawn, add("Mul", untried, "much")), axis=0, keepdims=0)

    return _graph(len(returns), "thompson", choose, draws=True)


# Each is made from the returns of K heads with G groups, (K,G); G may be 0.
SELECTORS = {"meta-test": meta_test, "halving": halving, "thompson": thompson}


def zero_shot(weights: Mapping[str, np.ndarray], actions: int, agents: int, own: int) -> Graph:
    """Return the zero-shot selector with these weights of a recogniser: see `export.recogniser` for what it computes.

    Inputs, for B teams with m agents of the ego: `obs` (B,m,D), `last_action` (B,m), -1 at the start of an episode, `agent`
    (B,m), `belief` (B,S), zeros at the start of the first episode. Outputs: `head` (B,), `probability` (B,G) of each group,
    `next_belief` (B,S). A belief has the parts of `BeliefParts`; H, the size of the memory, is that of all members
    together.
    """
    add = Builder()
    stored = _as_one(weights)
    hidden, groups = stored["namer.weight"].shape
    obs = stored["backbone.encoder1.weight"].shape[0] - actions - agents
    heads = weights["returns"].shape[1]
    parts = belief_parts(groups, own, hidden, heads)

    def layer(name: str, rows: str) -> str:
        return add("Add", add("MatMul", rows, f"{name}.weight"), f"{name}.bias")

    prior, evidence, memory, margin, penalty = add.split("belief", "parts", 5)
    first = add("Less", add("ReduceMax", add("Cast", "last_action", to=1), axes=[1], keepdims=1), "zero")  # (B,1)
    carried = add("Softmax", add("Where", first, add("Add", prior, evidence), prior), axis=-1)
    prior = add("Log", add("Add", add("Mul", carried, "kept"), "leaked"))
    memory = add("Reshape", add("Where", first, "zero", memory), "by_agent")  # (B,m,H)
    memory = graphs.lean_backbone(add, layer, memory)
    logits = add("ReduceMean", layer("namer", memory), axes=[1], keepdims=0)
    evidence = add("LogSoftmax", logits, axis=-1)
    probability = add("Softmax", add("Add", prior, evidence), output="probability", axis=-1)
    inner = add("Add", add("MatMul", probability, "valuer1.belief"), "valuer1.bias")
    inner = add("Relu", add("Add", add("MatMul", memory, "valuer1.memory"), add("Unsqueeze", inner, "second_axis")))
    correction = add("ReduceMean", layer("valuer2", inner), axes=[1], keepdims=0)
    value = add("Add", add("MatMul", probability, "returns"), correction)
    penalty = add("Where", first, "zero", penalty)
    value = add("Sub", add("Add", value, add("Where", first, "zero", margin)), penalty)
    head = add("ArgMax", value, output="head", axis=1, keepdims=0)
    margin, penalty = add("Gather", "margins", head), add("Add", penalty, add("Gather", "penalties", head))
    add("Concat", prior, evidence, add("Reshape", memory, "flat"), margin, penalty, output="next_belief", axis=-1)
    constants = {**graphs.lean_weights(stored, actions, agents), **_zero_shot_constants(weights, parts, own)}
    inputs = [
        Tensor("obs", np.float32, ("B", own, obs)),
        Tensor("last_action", np.int64, ("B", own)),
        Tensor("agent", np.int64, ("B", own)),
        Tensor("belief", np.float32, ("B", parts.size)),
    ]
    outputs = [
        Tensor("head", np.int64, ("B",)),
        Tensor("probability", np.float32, ("B", groups)),
        Tensor("next_belief", np.float32, ("B", parts.size)),
    ]
    return Graph(add.nodes, inputs, outputs, constants, {"selector": ZERO_SHOT})


def _zero_shot_constants(weights: Mapping[str, np.ndarray], parts: BeliefParts, own: int) -> dict[str, np.ndarray]:
    """Return what `zero_shot` refers to, beside the layers."""
    one_hot = np.eye(parts.margin, dtype=np.float32)
    return {
        "margins": weights["margin"] * one_hot,
        "penalties": weights["penalty"] * one_hot,
        "parts": np.array([*asdict(parts).values()], dtype=np.int64),
        "by_agent": np.array([0, own, parts.memory // own], dtype=np.int64),
        "flat": np.array([0, parts.memory], dtype=np.int64),
        "zero": np.array(0, dtype=np.float32),
        "kept": 1 - weights["leak"],
        "leaked": weights["leak"] / np.float32(parts.prior),
        "second_axis": np.array([1], dtype=np.int64),
        "returns": weights["returns"],
    }


def _as_one(weights: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the layers of N member networks as one network, N times as wide, whose outputs are the means of theirs."""
    layers = {name: array for name, array in weights.items() if "." in name}  # (N,in,out), (N,out)
    members, hidden = layers["namer.weight"].shape[:2]
    layers["valuer1.memory"], layers["valuer1.belief"] = np.split(layers.pop("valuer1.weight"), [hidden], axis=1)
    for part in ("weight", "bias"):
        layers[f"namer.{part}"] = layers[f"namer.{part}"] / members
        layers[f"valuer2.{part}"] = layers[f"valuer2.{part}"] * weights["scale"] / members
    joined = {}
    for name, array in layers.items():
        gates = 3 if ".gru_" in name else 1  # gates are outermost, members within
        if array.ndim == 2:  # a bias
            output = name in ("namer.bias", "valuer2.bias")
            joined[name] = array.sum(axis=0) if output else array.reshape(members, gates, -1).swapaxes(0, 1).ravel()
        elif name in ("backbone.encoder1.weight", "valuer1.belief"):  # from inputs that all members share
            joined[name] = np.concatenate([*array], axis=1)
        elif name in ("namer.weight", "valuer2.weight"):  # to outputs, which are summed
            joined[name] = np.concatenate([*array])
        else:  # block-diagonal: from each member to itself
            blocks = np.zeros((members, array.shape[1], gates, members, array.shape[2] // gates), dtype=array.dtype)
            for n in range(members):
                blocks[n, :, :, n] = array[n].reshape(array.shape[1], gates, -1)
            joined[name] = blocks.reshape(members * array.shape[1], -1)
    return joined


def belief_parts(groups: int, own: int, hidden: int, heads: int) -> BeliefParts:
    """Return the sizes of a belief: `own` agents of the ego with `hidden` numbers of memory each."""
    return BeliefParts(groups, groups, own * hidden, heads, heads)
