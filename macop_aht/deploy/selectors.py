"""Head selectors as ONNX graphs: which head to play next, from what every head has returned so far.

Inputs: `tried` (K,) and `mean_return` (K,), zeros at first; `last_head` (), -1 at first, and `last_return` (): what was just
played; `budget` (): episodes that may be spent on choosing. Outputs: `next_tried`, `next_mean_return`, `next_head` () to play
now, `best_head` () so far. Once the budget is spent, the next head is the best. Thompson also takes `draws` (K,), standard
normal.

meta-test   the paper's: the heads in turn
halving     successive halving: after every share of the budget, half of the heads are left, the better ones
thompson    the head that is best in a draw of what it might return

Halving goes by more than the mean returns. An episode with one head tells something of the others as well: what every head gets
with every group of the run has been measured. A teammate may be like one of the groups, or like none of them; how likely each
is follows from the returns so far, and what a head is expected to return, from all of these. In a few episodes that is worth
about as many again; after many, the mean returns decide.

One is of another kind: zero-shot is asked at every step, needs no returns and no budget, and is made for a run's own groups.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from macop_aht.deploy.runtime import ZERO_SHOT
from macop_aht.onnx_format import Builder, Graph, Tensor
from macop_aht.zoo import graphs

NEVER = -1e30  # the return of a head that was not tried
THOMPSON_SPREAD = 0.5  # standard deviation of an episode's return, over what has been the best so far
STRANGER = 0.5  # the chance that a teammate is like none of the groups
LIKE = 0.4  # how far heads' returns with one that is like a group are from theirs with the group, in standard deviations of all


def _graph(
    heads: int,
    name: str,
    choose: Callable[[Builder, str], str],
    expect: Callable[[Builder], str] | None = None,
    own: Mapping[str, np.ndarray] | None = None,
    draws: bool = False,
) -> Graph:
    """What all have in common: count what was played, and go over to the best when the budget is spent.

    The best is the one of the highest mean return, or of what `expect` says; `choose` is told these values, in which one that was
    not tried has less than any. `own` are a selector's own constants.
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
    """The heads in turn."""

    def choose(add: Builder, known: str) -> str:
        return add("Cast", add("Mod", "total", "heads", fmod=1), to=7)

    return _graph(len(returns), "meta-test", choose)


def halving(returns: np.ndarray) -> Graph:
    """The budget in as many equal rounds as it takes to halve the heads down to one; a round goes over those that are left."""
    informed = returns.size > 0

    def choose(add: Builder, known: str) -> str:
        done = add("Floor", add("Div", add("Mul", "total", "rounds"), add("Max", "budget_real", "one")))
        left = add("Ceil", add("Div", "heads", add("Pow", "two", add("Min", done, "last_round"))))
        # A head's rank: how many are better, or as good and before it. One of which nothing is known may be the best.
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
    return _graph(len(returns), "halving", choose, _expected, _acquaintances(returns))


def _acquaintances(returns: np.ndarray) -> dict[str, np.ndarray]:
    """Whom a teammate may be like, in G+1 rows: each of the groups of which `returns` (K,G) were measured, or none of them."""
    (heads, groups), scale = returns.shape, float(returns.std()) or 1.0
    likely = [*[(1 - STRANGER) / groups] * groups, STRANGER]
    return {
        "usual": np.vstack([returns.T, np.full((1, heads), returns.mean())]).astype(np.float32),
        "likely": np.log(likely).astype(np.float32)[:, None],
        # variances: of a head's mean return around what is usual; and of an episode's around that
        "around": np.array([*[(LIKE * scale) ** 2] * groups, scale**2], dtype=np.float32)[:, None],
        "luck": np.array(scale**2, dtype=np.float32),
        # the first one again, but for a stranger so wide that what is usual does not count beside the head's own returns
        "leave": np.array([*[(LIKE * scale) ** 2] * groups, 1e9 * scale**2], dtype=np.float32)[:, None],
        "half": np.array(0.5, dtype=np.float32),
    }


def _expected(add: Builder) -> str:
    """What every head is expected to return, by all returns so far: the posterior mean in a mixture of normal distributions."""
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
    """Each head once; then the one whose mean return, plus what it may be off by, is the largest."""

    def choose(add: Builder, known: str) -> str:
        scale = add("Mul", "spread", add("Max", add("ReduceMax", known, keepdims=0), "one"))
        error = add("Mul", "draws", add("Div", scale, add("Sqrt", add("Max", "next_tried", "one"))))
        drawn = add("Add", "next_mean_return", error)
        untried = add("Cast", add("Equal", "next_tried", "zero"), to=1)
        return add("ArgMax", add("Add", drawn, add("Mul", untried, "much")), axis=0, keepdims=0)

    return _graph(len(returns), "thompson", choose, draws=True)


# Each is made of what K heads get with G groups, (K,G), as far as that is known: G may be 0.
SELECTORS = {"meta-test": meta_test, "halving": halving, "thompson": thompson}


def zero_shot(weights: Mapping[str, np.ndarray], actions: int, agents: int, own: int) -> Graph:
    """The head of the highest value, by where things stand and by the belief who it is that we play with: see `recogniser`.

    Inputs, for B teams with m agents of ours: `obs` (B,m,D), `last_action` (B,m), -1 when an episode begins, `agent` (B,m),
    `belief` (B,S), zeros when the first one begins. Outputs: `head` (B,), `probability` (B,G) of each group, `next_belief` (B,S).
    A belief is the prior (G), the evidence (G), the recogniser's memory (m*H), H being that of all its networks together, what
    the head that is being played has ahead of the others (K), and what each has lost by having been played in this episode (K).
    """
    add = Builder()
    stored = _as_one(weights)
    hidden, groups = stored["namer.weight"].shape
    obs = stored["backbone.encoder1.weight"].shape[0] - actions - agents
    heads = weights["returns"].shape[1]
    size = belief_size(groups, own, hidden, heads)

    def layer(name: str, rows: str) -> str:
        return add("Add", add("MatMul", rows, f"{name}.weight"), f"{name}.bias")

    prior, evidence, memory, held, spent = add.split("belief", "parts", 5)
    first = add("Less", add("ReduceMax", add("Cast", "last_action", to=1), axes=[1], keepdims=1), "zero")  # (B,1)
    carried = add("Softmax", add("Where", first, add("Add", prior, evidence), prior), axis=-1)
    prior = add("Log", add("Add", add("Mul", carried, "kept"), "leaked"))
    memory = add("Reshape", add("Where", first, "zero", memory), "by_agent")  # (B,m,H)
    memory = graphs.lean_backbone(add, layer, memory)
    said = add("ReduceMean", layer("namer", memory), axes=[1], keepdims=0)
    evidence = add("LogSoftmax", said, axis=-1)
    probability = add("Softmax", add("Add", prior, evidence), output="probability", axis=-1)
    told = add("Add", add("MatMul", probability, "valuer1.belief"), "valuer1.bias")
    told = add("Relu", add("Add", add("MatMul", memory, "valuer1.memory"), add("Unsqueeze", told, "second_axis")))
    correction = add("ReduceMean", layer("valuer2", told), axes=[1], keepdims=0)
    value = add("Add", add("MatMul", probability, "returns"), correction)
    spent = add("Where", first, "zero", spent)
    value = add("Sub", add("Add", value, add("Where", first, "zero", held)), spent)
    head = add("ArgMax", value, output="head", axis=1, keepdims=0)
    held, spent = add("Gather", "holds", head), add("Add", spent, add("Gather", "tires", head))
    add("Concat", prior, evidence, add("Reshape", memory, "flat"), held, spent, output="next_belief", axis=-1)
    constants: dict[str, np.ndarray] = {
        "holds": weights["hold"] * np.eye(heads, dtype=np.float32),
        "tires": weights["tire"] * np.eye(heads, dtype=np.float32),
        "parts": np.array([groups, groups, own * hidden, heads, heads], dtype=np.int64),
        "by_agent": np.array([0, own, hidden], dtype=np.int64),
        "flat": np.array([0, own * hidden], dtype=np.int64),
        "zero": np.array(0, dtype=np.float32),
        "kept": 1 - weights["leak"],
        "leaked": weights["leak"] / np.float32(groups),
        "second_axis": np.array([1], dtype=np.int64),
        "returns": weights["returns"],
    }
    inputs = [
        Tensor("obs", np.float32, ("B", own, obs)),
        Tensor("last_action", np.int64, ("B", own)),
        Tensor("agent", np.int64, ("B", own)),
        Tensor("belief", np.float32, ("B", size)),
    ]
    outputs = [
        Tensor("head", np.int64, ("B",)),
        Tensor("probability", np.float32, ("B", groups)),
        Tensor("next_belief", np.float32, ("B", size)),
    ]
    return Graph(
        add.nodes,
        inputs,
        outputs,
        {**graphs.lean_weights(stored, actions, agents), **constants},
        {"selector": ZERO_SHOT},
    )


def _as_one(weights: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The layers of a recogniser's N networks as those of one, N times as wide, that says the mean of what they say."""
    layers = {name: array for name, array in weights.items() if "." in name}  # (N,in,out), (N,out)
    members, hidden = layers["namer.weight"].shape[:2]
    layers["valuer1.memory"], layers["valuer1.belief"] = np.split(layers.pop("valuer1.weight"), [hidden], axis=1)
    for part in ("weight", "bias"):
        layers[f"namer.{part}"] = layers[f"namer.{part}"] / members
        layers[f"valuer2.{part}"] = layers[f"valuer2.{part}"] * weights["scale"] / members
    joined = {}
    for name, array in layers.items():
        gates = 3 if ".gru_" in name else 1  # of each gate, that of all networks comes first
        if array.ndim == 2:  # a bias
            said = name in ("namer.bias", "valuer2.bias")
            joined[name] = array.sum(axis=0) if said else array.reshape(members, gates, -1).swapaxes(0, 1).ravel()
        elif name in ("backbone.encoder1.weight", "valuer1.belief"):  # from what all are given
            joined[name] = np.concatenate([*array], axis=1)
        elif name in ("namer.weight", "valuer2.weight"):  # to what all say
            joined[name] = np.concatenate([*array])
        else:  # from each to itself
            blocks = np.zeros((members, array.shape[1], gates, members, array.shape[2] // gates), dtype=array.dtype)
            for n in range(members):
                blocks[n, :, :, n] = array[n].reshape(array.shape[1], gates, -1)
            joined[name] = blocks.reshape(members * array.shape[1], -1)
    return joined


def belief_size(groups: int, own: int, hidden: int, heads: int) -> int:
    """The numbers in a belief."""
    return 2 * groups + own * hidden + 2 * heads
