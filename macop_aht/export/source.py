"""What is exported: an ego and the groups of its run, read from the run's folder, or from a bundle and the zoo."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from macop_aht import zoo
from macop_aht.deploy.documents import BundleError
from macop_aht.deploy.files import MANIFEST, bundle_content, bundle_folder, read_manifest
from macop_aht.deploy.manifest import AGENT, RunGroups
from macop_aht.export.bundle import RunInfo
from macop_aht.export.ego_graph import run_weights
from macop_aht.learner.networks import Ego, Shape, Stack, member_weights, set_member, set_weights
from macop_aht.methods.phases import Setup
from macop_aht.methods.training import read_run, setup_of
from macop_aht.onnx import read, write
from macop_aht.runs.folder import RunFolder
from macop_aht.scenarios.spec import World
from macop_aht.zoo import graphs
from macop_aht.zoo.cards import generator_of


class Source(NamedTuple):
    """An ego to be exported."""

    setup: Setup[Any]  # of its run
    run: RunInfo
    settings: Path  # of its run
    ego: Ego
    groups: dict[str, Stack]  # of its run, by name


def read_source(folder: Path) -> Source:
    """Return what a run's folder holds, or a bundle with the zoo's groups."""
    bundle = bundle_folder(folder)
    return of_bundle(bundle) if (bundle / MANIFEST).is_file() else of_run(folder)


def of_run(folder: Path) -> Source:
    """Return the ego of a finished run."""
    run = read_run(folder)
    setup = setup_of(run, "cpu")
    own = RunFolder(folder)
    ego, groups = own.ego(), own.groups()
    known = run_groups(groups, setup.world, own.maker, own.met)
    return Source(setup, RunInfo(run.scenario, run.method, run.seed, known), own.settings_file, ego, groups)


def of_bundle(folder: Path) -> Source:
    """Return the ego of a bundle with the heads of its run; the selectors and the generalist head will be trained anew.

    Raise `BundleError` where the bundle does not say which groups its run had, and `ValueError` where the zoo lacks one of them.
    """
    manifest, setup = read_manifest(folder), setup_of(read_run(folder), "cpu")
    if manifest.groups is None:
        raise BundleError(f"the manifest in {folder} does not say which groups its run had; export the run itself")
    ego = Ego(Shape.of(setup.world), manifest.run_heads)
    set_weights(ego, run_weights(read(bundle_content(folder, manifest, AGENT))))
    cards = {card.sha256: card for card in zoo.cards(manifest.scenario).values()}
    groups, missing = {}, []
    for name, files in manifest.groups.sha256.items():
        card = next((cards[file] for file in files if file in cards), None)
        if card:
            groups[name] = _network(graphs.network_weights(zoo.graph(card)), setup.world)
        else:
            missing.append(name)
    if missing:
        raise ValueError(
            f"the zoo lacks the groups {', '.join(missing)} of the run that {folder} is from; export the run itself, or name a "
            "zoo that has them in MACOP_ZOO"
        )
    run = RunInfo(manifest.scenario, manifest.method, manifest.seed, manifest.groups)
    return Source(setup, run, folder / "run.toml", ego, groups)


def _network(weights: Mapping[str, Any], world: World) -> Stack:
    stack = Stack(Shape.of(world), 1)
    set_member(stack, 0, {name: torch.from_numpy(array) for name, array in weights.items()})
    return stack


def run_groups(groups: Mapping[str, Stack], world: World, maker: str, joined: Sequence[str]) -> RunGroups:
    """Return what the manifest says of the groups of a run: who made them, and which of them the ego has learnt with.

    A zoo has a group in single or in half precision, hence two hashes of each.
    """
    sizes = len(world.actions), world.n_agents
    files = {
        name: tuple(
            hashlib.sha256(write(graphs.group_graph(member_weights(group, 0), *sizes, half))).hexdigest()
            for half in (False, True)
        )
        for name, group in groups.items()
    }
    return RunGroups(generator_of(maker), tuple(joined), files)
