"""From a finished run, or another bundle, to an ego bundle: the agent with all its heads as one graph, its selectors, a manifest.

agent.onnx       obs (N,D), last_action (N,), agent (N,), memory (N,H) -> q (N,K,A) of all heads, next_memory (N,H)
selectors/*.onnx which head to play: see `selectors`
manifest.json    sizes, names of every observation entry and action, versions, hashes, golden inputs and outputs
card.md          what it was trained on, and how it does; heads.png, the returns of heads and groups
run.toml         as trained
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from macop_aht import plots
from macop_aht.deploy.runtime import ZERO_SHOT
from macop_aht.deploy.selectors import SELECTORS, zero_shot
from macop_aht.export import card
from macop_aht.export.ego_graph import ego_graph
from macop_aht.onnx_format import OPSET, Graph, write
from macop_aht.policies.onnx import OnnxPolicy
from macop_aht.scenarios import build
from macop_aht.scenarios.batch import Batch
from macop_aht.scenarios.spec import World
from macop_aht.version import __version__
from macop_aht.zoo import graphs

if TYPE_CHECKING:
    from macop_aht.export.recogniser import Recogniser, RecogniserConfig
    from macop_aht.learner.networks import Ego, Stack
    from macop_aht.methods.phases import Setup

FORMAT = 1
PARITY = 1e-5  # the largest difference of a Q value from torch's
DECISIONS = 10_000  # recorded observations on which no action may differ,
TIE = 1e-6  # but for actions whose values differ by no more than rounding does
GOLDEN_ROWS = 8


@dataclass(frozen=True)
class Recognition:
    """What the zero-shot selector is made of."""

    groups: list[str]  # their names in the run; then the heads, which are groups to it as well
    weights: Mapping[str, np.ndarray]  # the recogniser's

    def graph(self, world: World) -> Graph:
        return zero_shot(self.weights, len(world.actions), world.n_agents, world.controllable)

    def about(self, world: World, content: bytes) -> dict[str, Any]:
        """For the manifest."""
        (members, hidden, groups), heads = self.weights["namer.weight"].shape, self.weights["returns"].shape[1]
        memory = world.controllable * members * hidden
        parts = {"prior": groups, "evidence": groups, "memory": memory, "held": heads, "spent": heads}
        return {
            "groups": self.groups,
            "belief": parts,  # how many numbers of each, one after the other
            "leak": float(self.weights["leak"]),
            "returns": self.weights["returns"].T.tolist(),  # of every head with every group
            "golden": golden(content, belief_feed(world, sum(parts.values()), GOLDEN_ROWS)),
        }


@contextmanager
def whole(folder: Path) -> Iterator[Path]:
    """A place to write a folder in that does not exist yet: it is there in the end whole or not at all."""
    if folder.exists() and any(folder.iterdir()):
        raise FileExistsError(f"{folder} is not empty; choose another, or remove it")
    unfinished = folder.with_name(f"{folder.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    try:
        yield unfinished
        if folder.exists():
            folder.rmdir()
        unfinished.replace(folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def write_bundle(
    folder: Path,
    weights: Mapping[str, np.ndarray],
    world: World,
    about: Mapping[str, Any],
    settings: Path | None = None,
    recognition: Recognition | None = None,
    common: Mapping[str, np.ndarray] | None = None,
) -> dict[str, Any]:
    """Write all but the card into a folder; gives the manifest. `about`: scenario, method, seed; `common`: see `ego_graph`."""
    run_heads, inner = weights["heads.head1.weight"].shape[:2]
    heads, hidden = (run_heads + 1, 2 * inner) if common else (run_heads, inner)
    files = {"agent.onnx": write(ego_graph(weights, len(world.actions), world.n_agents, common))}
    measured = recognition.weights["returns"].T[:run_heads] if recognition else np.zeros((run_heads, 0))
    files |= {f"selectors/{name}.onnx": write(make(measured)) for name, make in SELECTORS.items()}
    if recognition:
        files[f"selectors/{ZERO_SHOT}.onnx"] = write(recognition.graph(world))
    (folder / "selectors").mkdir(parents=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    if settings:
        shutil.copy(settings, folder / "run.toml")
    manifest = {
        "format": FORMAT,
        **about,
        "heads": heads,
        "run_heads": run_heads,  # the first; one more is common
        "agents": world.n_agents,
        "controllable": world.controllable,
        "hidden": hidden,
        "observations": list(world.observations),
        "actions": list(world.actions),
        "versions": {"macop-aht": __version__, "opset": OPSET},
        "sha256": {name: hashlib.sha256(content).hexdigest() for name, content in files.items()},
        "golden": golden(files["agent.onnx"], recorded_feed(world, hidden, GOLDEN_ROWS)),
    }
    if recognition:
        manifest["zero_shot"] = recognition.about(world, files[f"selectors/{ZERO_SHOT}.onnx"])
    write_manifest(folder, manifest)
    return manifest


def write_manifest(folder: Path, manifest: Mapping[str, Any]) -> None:
    (folder / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")


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


def belief_feed(world: World, size: int, teams: int, seed: int = 0) -> dict[str, np.ndarray]:
    """The same for the zero-shot selector, with random beliefs of that size."""
    own = world.controllable
    feed = recorded_feed(world, size, teams * own, seed)
    return {
        "obs": feed["obs"].reshape(teams, own, -1),
        "last_action": feed["last_action"].reshape(teams, own),
        "agent": np.tile(np.arange(own), (teams, 1)),
        "belief": feed["memory"][:teams],
    }


def golden(content: bytes, feed: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Inputs and outputs that every runtime should reproduce."""
    return {
        "inputs": {name: array.tolist() for name, array in feed.items()},
        "outputs": {name: array.tolist() for name, array in _run(content, feed).items()},
    }


def _run(content: bytes, feed: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    import onnxruntime

    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    names = [tensor.name for tensor in session.get_outputs()]
    return dict(zip(names, session.run(names, dict(feed)), strict=True))


def export(
    source: Path, folder: Path, config: RecogniserConfig | None = None, say: Callable[[str], None] = print
) -> None:
    """The bundle of a finished run's ego, or of one in a bundle; refuses where onnxruntime does not give what torch gives."""
    import torch

    from macop_aht.export import generalist as common_head
    from macop_aht.export import recogniser
    from macop_aht.export.subject import read_subject
    from macop_aht.export.synthetic import company as everybody
    from macop_aht.learner.networks import Stack, weights
    from macop_aht.methods.phases import cross_returns

    config = config or recogniser.RecogniserConfig()
    if config.plot:
        plots.pyplot()  # where it is missing, that is told before the work
    subject = read_subject(source)
    setup, named = subject.setup, subject.groups
    setup = setup._replace(config=replace(setup.config, test_episodes=config.test_episodes))
    world, own = setup.world, subject.ego.n_heads
    company = everybody(subject.ego, Stack.gather([(group, 0) for group in named.values()]))
    with whole(folder) as place:
        common = _common_head(setup, subject.ego, company, config, say)
        ego = common_head.beside(subject.ego, common) if common else subject.ego
        own_weights, common_weights = weights(subject.ego), weights(common) if common else None
        with torch.no_grad():
            graph = ego_graph(own_weights, len(world.actions), world.n_agents, common_weights)
            check_parity(ego, write(graph), world, common=common is not None)
        say(f"{own} heads, {len(named)} groups; the recogniser learns from {config.steps:,} steps")
        names = [*named, *(f"head {k}" for k in range(own))]
        returns = cross_returns(setup, ego, company, setup.phase_seed(3_000))
        trained = recogniser.train(world, ego, company, returns, config, setup.phase_seed(3_001), own)
        recognition = Recognition(names, weights(trained))
        with torch.no_grad():
            check_recogniser(trained, write(recognition.graph(world)), world)
        manifest = write_bundle(place, own_weights, world, subject.about, subject.settings, recognition, common_weights)
        mates = [policy(f"group {name}", group, world) for name, group in named.items()]
        known, seed = returns[:, : len(named)], setup.phase_seed(3_002)
        manifest["figures"] = card.measure(place, world, mates, known, own, config.test_episodes, seed)
        tiers = card.tiers(place, manifest, config.tier_episodes) if config.tier_episodes else {}
        write_manifest(place, manifest)
        if config.plot:
            card.plot(manifest, place / card.PLOT)
        (place / "card.md").write_text(card.card(manifest, tiers, config.plot), encoding="utf-8")


def _common_head(
    setup: Setup[Any], ego: Ego, company: Stack, config: RecogniserConfig, say: Callable[[str], None]
) -> Ego | None:
    """A head for anyone; none for an ego of one head, which has nothing to choose from."""
    from macop_aht.export import generalist as common_head
    from macop_aht.methods.phases import cross_returns

    if ego.n_heads == 1 or not config.common.rounds:
        return None
    say(f"the common head learns from {config.common.rounds:,} rounds of episodes")
    returns, seed = cross_returns(setup, ego, company, setup.phase_seed(3_003)), setup.phase_seed(3_004)
    return common_head.learn(setup.world, ego, company, returns, config.common, seed)


def group_policies(run_folder: Path) -> list[OnnxPolicy]:
    """The groups of a run as teammates."""
    from macop_aht.runs.folder import RunFolder

    run = RunFolder(run_folder)
    world = build(run.scenario)
    return [policy(f"group {name}", group, world) for name, group in run.groups().items()]


def policy(name: str, group: Stack, world: World) -> OnnxPolicy:
    """A group of a run as a teammate."""
    from macop_aht.learner.networks import member_weights

    content = write(graphs.group_graph(member_weights(group, 0), len(world.actions), world.n_agents))
    return OnnxPolicy(name, world, content, name)


def check_parity(ego: Ego, content: bytes, world: World, common: bool = False) -> None:
    """Raise where a Q value differs by more than PARITY from torch's, or an action on DECISIONS observations.

    Which of two actions of the same value, within TIE, comes first is nobody's error. What a common head, the last, gives is no
    return and may be large: there both are in proportion.
    """
    import torch

    from macop_aht.learner.networks import encode

    feed = recorded_feed(world, ego.shape.hidden, DECISIONS, seed=1)
    q, next_memory = _run(content, feed).values()
    given = {name: torch.from_numpy(array) for name, array in feed.items()}
    inputs = encode(ego.shape, given["obs"], given["last_action"], given["agent"])
    ours, memory = ego.step(inputs.unsqueeze(0), given["memory"].unsqueeze(0))
    expected = ours.transpose(0, 1).numpy()  # (N,K,A)
    size = np.ones(expected.shape[:2], dtype=np.float32)  # (N,K)
    if common:
        size[:, -1] = np.maximum(np.abs(expected[:, -1]).max(axis=-1), 1.0)
    off = (np.abs(q - expected) / size[..., None]).max()
    worst = max(float(off), float(np.abs(next_memory - memory[0].numpy()).max()))
    chosen = np.take_along_axis(expected, q.argmax(axis=-1)[..., None], axis=-1)[..., 0]
    differ = int((expected.max(axis=-1) - chosen > TIE * size).sum())
    if worst > PARITY or differ:
        raise ValueError(
            f"the exported graph differs from torch by {worst:.1e} (allowed {PARITY:.0e}), and in {differ} of {q[..., 0].size} "
            "actions; nothing was written"
        )


def check_recogniser(trained: Recogniser, content: bytes, world: World) -> None:
    """Raise where a belief differs by more than PARITY from torch's, or the head is not one of the highest value."""
    import torch

    feed = belief_feed(world, trained.belief_size(world.controllable), DECISIONS // world.controllable, seed=2)
    found = _run(content, feed)
    values, *expected = trained.step(**{name: torch.from_numpy(array) for name, array in feed.items()})
    alike = found["head"] == values.argmax(dim=1).numpy()  # where two are as good, either may be held from then on
    for name, array in zip(("probability", "next_belief"), expected, strict=True):
        if not np.allclose(found[name][alike], array.numpy()[alike], rtol=PARITY, atol=PARITY):
            worst = float(np.abs(found[name] - array.numpy())[alike].max())
            raise ValueError(f"{name} of {ZERO_SHOT} differs from torch by {worst:.1e}; nothing was written")
    chosen = values.gather(1, torch.from_numpy(found["head"]).unsqueeze(1))[:, 0]
    short = float((values.amax(dim=1) - chosen).max() / trained.scale)
    if short > PARITY:
        raise ValueError(
            f"heads of {ZERO_SHOT} have less than torch's highest value, by {short:.1e}; nothing was written"
        )
