"""From a finished run to an ego bundle: the agent with all its heads as one ONNX graph, its selectors, and a manifest.

agent.onnx       obs (N,D), last_action (N,), agent (N,), memory (N,H) -> q (N,K,A) of all heads, next_memory (N,H)
selectors/*.onnx which head to play: see `selectors`
manifest.json    sizes, names of every observation entry and action, versions, hashes, golden inputs and outputs
run.toml         as trained
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from macop_aht import __version__
from macop_aht.deploy.selectors import SELECTORS
from macop_aht.onnx_format import OPSET, Builder, Graph, Tensor, write
from macop_aht.scenarios.batch import Batch
from macop_aht.scenarios.spec import World
from macop_aht.zoo.graphs import gru, one_hot

FORMAT = 1
PARITY = 1e-5  # the largest difference of a Q value from torch's
DECISIONS = 10_000  # recorded observations on which no action may differ
GOLDEN_ROWS = 8


def ego_graph(weights: Mapping[str, np.ndarray], actions: int, agents: int) -> Graph:
    """The graph of an ego from its weights by name, as `learner.networks.weights` gives them."""
    add = Builder()
    backbone = {name: array[0] for name, array in weights.items() if name.startswith("backbone.")}
    heads = {name: array for name, array in weights.items() if name.startswith("heads.")}
    wide = backbone["backbone.encoder1.weight"].shape
    hidden, obs, count = wide[1], wide[0] - actions - agents, len(heads["heads.head1.weight"])

    def layer(name: str, rows: str) -> str:
        return add("Add", add("MatMul", rows, f"{name}.weight"), f"{name}.bias")

    rows = add("Concat", "obs", one_hot(add, "last_action", "actions"), one_hot(add, "agent", "agents"), axis=-1)
    rows = add("Relu", layer("backbone.encoder2", add("Relu", layer("backbone.encoder1", rows))))
    memory = gru(
        add, layer("backbone.gru_input", rows), layer("backbone.gru_hidden", "memory"), "memory", "next_memory"
    )
    each = add("Unsqueeze", memory, "head_axes")  # (N,1,1,H) meets (K,H,H)
    each = layer("heads.head2", add("Relu", layer("heads.head1", each)))
    add("Squeeze", each, "row_axis", output="q")
    constants = {
        "actions": np.arange(actions, dtype=np.int64),
        "agents": np.arange(agents, dtype=np.int64),
        "thirds": np.full(3, hidden, dtype=np.int64),
        "last_axis": np.array([-1], dtype=np.int64),
        "head_axes": np.array([1, 2], dtype=np.int64),
        "row_axis": np.array([2], dtype=np.int64),
    }
    biases = {name: array[:, None] for name, array in heads.items() if name.endswith("bias")}  # (K,1,…)
    inputs = [
        Tensor("obs", np.float32, ("N", obs)),
        Tensor("last_action", np.int64, ("N",)),
        Tensor("agent", np.int64, ("N",)),
        Tensor("memory", np.float32, ("N", hidden)),
    ]
    outputs = [Tensor("q", np.float32, ("N", count, actions)), Tensor("next_memory", np.float32, ("N", hidden))]
    return Graph(add.nodes, inputs, outputs, {**backbone, **heads, **biases, **constants})


def write_bundle(
    folder: Path,
    weights: Mapping[str, np.ndarray],
    world: World,
    about: Mapping[str, Any],
    settings: Path | None = None,
) -> None:
    """Write a bundle into a folder that does not exist yet, whole or not at all. `about`: scenario, method, seed."""
    if folder.exists() and any(folder.iterdir()):
        raise FileExistsError(f"{folder} is not empty; choose another, or remove it")
    unfinished = folder.with_name(f"{folder.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    (unfinished / "selectors").mkdir(parents=True)
    heads = len(weights["heads.head1.weight"])
    files = {"agent.onnx": write(ego_graph(weights, len(world.actions), world.n_agents))}
    files |= {f"selectors/{name}.onnx": write(make(heads)) for name, make in SELECTORS.items()}
    for name, content in files.items():
        (unfinished / name).write_bytes(content)
    if settings:
        shutil.copy(settings, unfinished / "run.toml")
    manifest = {
        "format": FORMAT,
        **about,
        "heads": heads,
        "agents": world.n_agents,
        "controllable": world.controllable,
        "hidden": weights["backbone.encoder2.weight"].shape[-1],
        "observations": list(world.observations),
        "actions": list(world.actions),
        "versions": {"macop-aht": __version__, "opset": OPSET},
        "sha256": {name: hashlib.sha256(content).hexdigest() for name, content in files.items()},
        "golden": golden(files["agent.onnx"], world),
    }
    (unfinished / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
    if folder.exists():
        folder.rmdir()
    unfinished.replace(folder)


def recorded_feed(world: World, hidden: int, rows: int, seed: int = 0) -> dict[str, np.ndarray]:
    """Inputs as they come, from episodes of random actions, with random memories: for goldens and parity."""
    rng, seen = np.random.default_rng(seed), [np.zeros((0, len(world.observations)), np.float32)]
    batch = Batch(world, 64)
    batch.seed(range(seed, seed + 64))
    batch.reset()
    while sum(map(len, seen)) < rows:
        seen.append(batch.obs.reshape(-1, len(world.observations)).copy())
        weight = rng.random(batch.mask.shape) * batch.mask
        batch.step(weight.argmax(axis=2))
        over = batch.terminated | batch.truncated
        if over.any():
            batch.reset(over)
    return {
        "obs": np.concatenate(seen)[:rows],
        "last_action": rng.integers(-1, len(world.actions), rows),
        "agent": rng.integers(0, world.n_agents, rows),
        "memory": rng.uniform(-1, 1, (rows, hidden)).astype(np.float32),
    }


def golden(content: bytes, world: World) -> dict[str, Any]:
    """Inputs and outputs that every runtime should reproduce."""
    import onnxruntime

    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    hidden = session.get_inputs()[3].shape[1]
    feed = recorded_feed(world, hidden, GOLDEN_ROWS)
    q, next_memory = session.run(["q", "next_memory"], feed)
    return {
        "inputs": {name: array.tolist() for name, array in feed.items()},
        "outputs": {"q": q.tolist(), "next_memory": next_memory.tolist()},
    }


def export(run_folder: Path, folder: Path) -> None:
    """The bundle of a finished run's ego; refuses where onnxruntime does not give what torch gives."""
    import torch

    from macop_aht.learner.networks import weights
    from macop_aht.methods.runs import ego_of, read_run, setup_of

    run = read_run(run_folder)
    setup = setup_of(run, "cpu")
    ego = ego_of(run_folder, setup)
    with torch.no_grad():
        check_parity(ego, write(ego_graph(weights(ego), len(setup.world.actions), setup.world.n_agents)), setup.world)
    about = {"scenario": run.scenario, "method": run.method, "seed": run.seed}
    write_bundle(folder, weights(ego), setup.world, about, run_folder / "run.toml")


def check_parity(ego: Any, content: bytes, world: World) -> None:
    """Raise where a Q value differs by more than PARITY from torch's, or an action on DECISIONS observations."""
    import onnxruntime
    import torch

    from macop_aht.learner.networks import encode

    feed = recorded_feed(world, ego.shape.hidden, DECISIONS, seed=1)
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    q, next_memory = session.run(["q", "next_memory"], feed)
    given = {name: torch.from_numpy(array) for name, array in feed.items()}
    inputs = encode(ego.shape, given["obs"], given["last_action"], given["agent"])
    ours, memory = ego.step(inputs.unsqueeze(0), given["memory"].unsqueeze(0))
    expected = ours.transpose(0, 1).numpy()  # (N,K,A)
    worst = max(float(np.abs(q - expected).max()), float(np.abs(next_memory - memory[0].numpy()).max()))
    differ = int((q.argmax(axis=-1) != expected.argmax(axis=-1)).sum())
    if worst > PARITY or differ:
        raise ValueError(
            f"the exported graph differs from torch by {worst:.1e} (allowed {PARITY:.0e}), and in {differ} of {q[..., 0].size} "
            "actions; nothing was written"
        )
