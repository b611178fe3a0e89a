"""What is exported: an ego and the groups of its run, out of the run's folder, or out of a bundle and the zoo."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from macop_aht import zoo
from macop_aht.deploy.runtime import BundleError, bundle_content, bundle_folder, read_manifest
from macop_aht.export.ego_graph import run_weights
from macop_aht.learner.networks import Ego, Shape, Stack, member_weights, set_member, set_weights
from macop_aht.methods.phases import Setup
from macop_aht.methods.training import read_run, setup_of
from macop_aht.onnx_format import read, write
from macop_aht.runs.folder import RunFolder
from macop_aht.scenarios.spec import World
from macop_aht.zoo import graphs
from macop_aht.zoo.cards import generator_of


class Subject(NamedTuple):
    """An ego to be exported."""

    setup: Setup[Any]  # of its run
    about: dict[str, Any]  # for the manifest: scenario, method, seed, company
    settings: Path  # of its run
    ego: Ego
    groups: dict[str, Stack]  # of its run, by name


def read_subject(folder: Path) -> Subject:
    """What a run's folder holds, or a bundle's with the zoo's groups."""
    bundle = bundle_folder(folder)
    return of_bundle(bundle) if (bundle / "manifest.json").is_file() else of_run(folder)


def of_run(folder: Path) -> Subject:
    """The ego of a finished run."""
    run = read_run(folder)
    setup = setup_of(run, "cpu")
    own = RunFolder(folder)
    ego, groups = own.ego(), own.groups()
    company = company_of(groups, setup.world, own.maker, own.met)
    about = {"scenario": run.scenario, "method": run.method, "seed": run.seed, "company": company}
    return Subject(setup, about, own.settings_file, ego, groups)


def of_bundle(folder: Path) -> Subject:
    """The ego in a bundle: its run's heads alone, the selectors and a common head are learnt anew."""
    manifest, setup = read_manifest(folder), setup_of(read_run(folder), "cpu")
    told = ("scenario", "method", "seed", "company")
    if not {*told} <= {*manifest}:
        raise BundleError(f"the manifest in {folder} does not say which groups its run had; export the run itself")
    ego = Ego(Shape.of(setup.world), manifest["run_heads"])
    set_weights(ego, run_weights(read(bundle_content(folder, manifest, "agent.onnx"))))
    about = {name: manifest[name] for name in told}
    cards = {card.sha256: card for card in zoo.cards(manifest["scenario"]).values()}
    groups, missing = {}, []
    for name, files in manifest["company"]["sha256"].items():
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
    return Subject(setup, about, folder / "run.toml", ego, groups)


def _network(weights: Mapping[str, Any], world: World) -> Stack:
    stack = Stack(Shape.of(world), 1)
    set_member(stack, 0, {name: torch.from_numpy(array) for name, array in weights.items()})
    return stack


def company_of(groups: Mapping[str, Stack], world: World, maker: str, joined: Sequence[str]) -> dict[str, Any]:
    """For the manifest: who made the groups of the run, which of them the ego has learnt with, and which files of a zoo they are.

    The recogniser has met them all. A zoo has a group in single or half precision, hence two hashes of each.
    """
    sizes = len(world.actions), world.n_agents
    files = {
        name: [
            hashlib.sha256(write(graphs.group_graph(member_weights(group, 0), *sizes, half))).hexdigest()
            for half in (False, True)
        ]
        for name, group in groups.items()
    }
    return {"generator": generator_of(maker), "learnt_with": [*joined], "sha256": files}
