"""From a finished run, or from another bundle, to an ego bundle.

agent.onnx       the ego with all its heads: obs (N,D), last_action (N,), agent (N,), memory (N,H) -> q (N,K,A), next_memory (N,H)
selectors/*.onnx which head to play: see `deploy.selectors`
manifest.json    names, sizes, versions, hashes, golden inputs and outputs: see `deploy.manifest`
card.md          what the ego was trained on, and how it does; heads.png shows the returns of heads and groups
run.toml         the settings of the run
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from macop_aht import plots
from macop_aht.deploy.files import write_manifest
from macop_aht.deploy.manifest import AGENT, ZERO_SHOT, BeliefParts, Manifest, RunGroups, Versions, ZeroShot
from macop_aht.deploy.selectors import SELECTORS, belief_parts, zero_shot
from macop_aht.export import card
from macop_aht.export.ego_graph import ego_graph
from macop_aht.export.parity import agent_golden, check_parity, check_recogniser, zero_shot_golden
from macop_aht.onnx import OPSET, Graph, write
from macop_aht.policies.onnx import OnnxPolicy
from macop_aht.runs.lock import folder_lock
from macop_aht.scenarios import build
from macop_aht.scenarios.spec import World
from macop_aht.util import show, whole_folder, write_whole
from macop_aht.version import __version__
from macop_aht.zoo import graphs

if TYPE_CHECKING:
    from macop_aht.export.config import ExportConfig
    from macop_aht.export.generalist import GeneralistConfig
    from macop_aht.learner.networks import Ego, Stack
    from macop_aht.methods.phases import Setup

Weights = Mapping[str, np.ndarray]
Say = Callable[[str], None]


@dataclass(frozen=True)
class RunInfo:
    """The run that an ego is from."""

    scenario: str
    method: str
    seed: int
    groups: RunGroups | None = None


@dataclass(frozen=True)
class ZeroShotSelector:
    """The parts of a zero-shot selector."""

    groups: list[str]  # the names of the run's groups, then those of the ego's heads, which it recognises as well
    weights: Weights  # of the recogniser

    def graph(self, world: World) -> Graph:
        """Return the selector as a graph."""
        return zero_shot(self.weights, len(world.actions), world.n_agents, world.controllable)

    def belief(self, world: World) -> BeliefParts:
        """Return the sizes of a belief."""
        (members, hidden, groups), heads = self.weights["namer.weight"].shape, self.weights["returns"].shape[1]
        return belief_parts(groups, world.controllable, members * hidden, heads)

    def described(self, world: World, content: bytes) -> ZeroShot:
        """Return what the manifest says of the selector, whose file has this content."""
        parts = self.belief(world)
        returns = tuple(tuple(row) for row in self.weights["returns"].T.tolist())
        golden = zero_shot_golden(content, world, parts.size)
        return ZeroShot(tuple(self.groups), parts, float(self.weights["leak"]), returns, golden)


def write_bundle(
    folder: Path,
    weights: Weights,
    world: World,
    run: RunInfo,
    settings: Path | None = None,
    selector: ZeroShotSelector | None = None,
    generalist: Weights | None = None,
) -> Manifest:
    """Write all files of a bundle but the card; return the manifest.

    `weights` are those of the run's ego, `generalist` those of the network with the generalist head; `settings` is the
    run's file.
    """
    run_heads, inner = weights["heads.head1.weight"].shape[:2]
    heads, hidden = (run_heads + 1, 2 * inner) if generalist else (run_heads, inner)
    files = {AGENT: write(ego_graph(weights, len(world.actions), world.n_agents, generalist))}
    measured = selector.weights["returns"].T[:run_heads] if selector else np.zeros((run_heads, 0))
    files |= {f"selectors/{name}.onnx": write(make(measured)) for name, make in SELECTORS.items()}
    if selector:
        files[f"selectors/{ZERO_SHOT}.onnx"] = write(selector.graph(world))
    for name, content in files.items():
        write_whole(folder / name, content)
    if settings:
        shutil.copy(settings, folder / "run.toml")
    manifest = Manifest(
        scenario=run.scenario,
        method=run.method,
        seed=run.seed,
        groups=run.groups,
        heads=heads,
        run_heads=run_heads,
        agents=world.n_agents,
        controllable=world.controllable,
        hidden=hidden,
        observations=tuple(world.observations),
        actions=tuple(world.actions),
        versions=Versions(__version__, OPSET),
        sha256={name: hashlib.sha256(content).hexdigest() for name, content in files.items()},
        golden=agent_golden(files[AGENT], world, hidden),
        zero_shot=selector.described(world, files[f"selectors/{ZERO_SHOT}.onnx"]) if selector else None,
    )
    write_manifest(folder, manifest)
    return manifest


def export(source: Path, folder: Path, config: ExportConfig | None = None, say: Say = show) -> None:
    """Write the bundle of the ego of a finished run, or of another bundle, into a new folder.

    Raise `FileExistsError` where the folder is not empty, and `ValueError` where onnxruntime does not compute what torch
    computes.
    """
    from macop_aht.export.config import ExportConfig
    from macop_aht.export.source import read_source
    from macop_aht.export.synthetic import with_synthetic
    from macop_aht.learner.networks import Stack, weights

    config = config or ExportConfig()
    if config.plot:
        plots.pyplot()  # where matplotlib is missing, the error comes before the work
    found = read_source(source)
    setup, groups = found.setup, found.groups
    setup = setup._replace(config=replace(setup.config, test_episodes=config.test_episodes))
    everyone = with_synthetic(found.ego, Stack.gather([(group, 0) for group in groups.values()]))
    with folder_lock(folder, "exporting"), whole_folder(folder) as place:
        net = _generalist(setup, found.ego, everyone, config.generalist, say)
        ego = _checked_ego(found.ego, net, setup.world)
        say(
            f"{found.ego.n_heads} heads, {len(groups)} groups; the recogniser learns from {config.recogniser.steps:,} steps"
        )
        selector, returns = _zero_shot(setup, ego, found.ego.n_heads, everyone, [*groups], config)
        own, extra = weights(found.ego), weights(net) if net else None
        manifest = write_bundle(place, own, setup.world, found.run, found.settings, selector, extra)
        policies = [policy(f"group {name}", group, setup.world) for name, group in groups.items()]
        figures = card.measure(
            place, setup.world, policies, returns[:, : len(groups)], manifest.run_heads, config.test_episodes,
            setup.phase_seed(3_002),
        )  # fmt: skip
        _write_card(place, replace(manifest, figures=figures), config)


def _checked_ego(ego: Ego, net: Ego | None, world: World) -> Ego:
    """Return the ego with all its heads; raise `ValueError` where its graph does not compute the same."""
    import torch

    from macop_aht.export.generalist import with_generalist
    from macop_aht.learner.networks import weights

    joined = with_generalist(ego, net) if net else ego
    graph = ego_graph(weights(ego), len(world.actions), world.n_agents, weights(net) if net else None)
    with torch.no_grad():
        check_parity(joined, write(graph), world, generalist=net is not None)
    return joined


def _generalist(setup: Setup[Any], ego: Ego, groups: Stack, config: GeneralistConfig, say: Say) -> Ego | None:
    """Return the network with the generalist head; None for an ego of one head, which has nothing to choose from."""
    from macop_aht.export import generalist
    from macop_aht.methods.phases import cross_returns

    if ego.n_heads == 1 or not config.rounds:
        return None
    say(f"the generalist head learns from {config.rounds:,} rounds of episodes")
    returns, seed = cross_returns(setup, ego, groups, setup.phase_seed(3_003)), setup.phase_seed(3_004)
    return generalist.train(setup.world, ego, groups, returns, config, seed, say)


def _zero_shot(
    setup: Setup[Any], ego: Ego, run_heads: int, groups: Stack, names: list[str], config: ExportConfig
) -> tuple[ZeroShotSelector, np.ndarray]:
    """Return a trained zero-shot selector, and the returns of every head with every group, (K,G)."""
    import torch

    from macop_aht.export import recogniser
    from macop_aht.learner.networks import weights
    from macop_aht.methods.phases import cross_returns

    returns = cross_returns(setup, ego, groups, setup.phase_seed(3_000))
    trained = recogniser.train(
        setup.world, ego, groups, returns, config.recogniser, setup.phase_seed(3_001), synthetic=run_heads
    )
    selector = ZeroShotSelector([*names, *(f"head {k}" for k in range(run_heads))], weights(trained))
    with torch.no_grad():
        check_recogniser(trained, write(selector.graph(setup.world)), setup.world)
    return selector, returns


def _write_card(folder: Path, manifest: Manifest, config: ExportConfig) -> None:
    """Write the card and its figure, and the manifest with the figures."""
    tiers = card.tiers(folder, manifest, config.tier_episodes) if config.tier_episodes else {}
    write_manifest(folder, manifest)
    if config.plot:
        card.plot(manifest, folder / card.PLOT)
    write_whole(folder / "card.md", card.card(manifest, tiers, config.plot))


def group_policies(run_folder: Path) -> list[OnnxPolicy]:
    """Return the groups of a run as teammates."""
    from macop_aht.runs.folder import RunFolder

    run = RunFolder(run_folder)
    world = build(run.scenario)
    return [policy(f"group {name}", group, world) for name, group in run.groups().items()]


def policy(name: str, group: Stack, world: World) -> OnnxPolicy:
    """Return a group of a run as a teammate."""
    from macop_aht.learner.networks import member_weights

    content = write(graphs.group_graph(member_weights(group, 0), len(world.actions), world.n_agents))
    return OnnxPolicy(name, world, content, name)
