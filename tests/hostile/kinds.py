"""The table of the files that the suite reads: how each is damaged, sealed and used. A new file format joins it."""

from __future__ import annotations

import hashlib
import io
import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from macop_aht import zoo
from macop_aht.campaign import plan
from macop_aht.campaign.runner import Ledger
from macop_aht.cli.converting import convert
from macop_aht.config import of_file, parse
from macop_aht.deploy.files import read_manifest
from macop_aht.deploy.runtime import EgoAgent
from macop_aht.episodes.matches import play
from macop_aht.evaluation import pool
from macop_aht.evaluation.evaluate import compare, table
from macop_aht.evaluation.rows import read_rows
from macop_aht.learner.networks import weights
from macop_aht.methods.registry import MethodRun, RunFile, read_run, settings_by_file, setup_of
from macop_aht.methods.training import train
from macop_aht.policies import resolve
from macop_aht.reproduction.material import Material
from macop_aht.runs import checkpoints, selfplay
from macop_aht.runs.folder import RunFolder
from macop_aht.runs.records import iterations
from macop_aht.scenarios import build
from macop_aht.zoo import store
from tests.hostile import arrays, protobuf, samples, trees

Damage = Callable[[bytes, random.Random], bytes]


@dataclass(frozen=True)
class Kind:
    """A kind of file."""

    file: str  # the sample, or a pattern whose last match it is; the first part of its path is copied for every mutant
    damages: tuple[Damage, ...]  # one is drawn for every mutant
    use: Callable[[Path], Any]  # of the folder, as a user would; what it yields tells mutants from the original
    seal: Callable[[Path, str], None] | None = None  # makes the checksum fit the damaged file; None: there is none


# --- Damage


def structure(read: Callable[[bytes], Any], write: Callable[[Any], bytes]) -> tuple[Damage, ...]:
    """Return the damages of a text that is a tree."""

    def damaged(content: bytes, rng: random.Random) -> bytes:
        return write(trees.tree_damaged(read(content), rng))

    return trees.bytes_damaged, damaged, damaged, damaged


JSON = structure(json.loads, trees.as_json)
LINES = structure(lambda content: [json.loads(line) for line in content.splitlines()], trees.as_lines)
TOML = structure(lambda content: parse(content.decode()), trees.as_toml)
ONNX = (trees.bytes_damaged, protobuf.fields_damaged, protobuf.attacked)
ARCHIVE = (trees.bytes_damaged, arrays.archive_damaged, arrays.archive_damaged, arrays.archive_damaged)
TABLE = (trees.bytes_damaged, arrays.table_damaged, arrays.table_damaged)


# --- Seals


def seal_card(folder: Path, file: str) -> None:
    """Write the file's SHA-256 onto its card."""
    index = folder / "LBF4" / "index.json"
    content = json.loads(index.read_text())
    card = next(card for card in content["groups"] if card["file"] == Path(file).name)
    card["sha256"] = hashlib.sha256((folder / file).read_bytes()).hexdigest()
    index.write_text(json.dumps(content))


def seal_bundle(folder: Path, file: str) -> None:
    """Write the file's SHA-256 into the manifest."""
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["sha256"][file] = hashlib.sha256((folder / file).read_bytes()).hexdigest()
    (folder / "manifest.json").write_text(json.dumps(manifest))


def seal_archive(folder: Path, file: str) -> None:
    """Write the SHA-256 of the archive behind it, in the place of the one that it has."""
    content = (folder / file).read_bytes()
    if content[-checkpoints._TRAILER :].startswith(checkpoints._MAGIC):
        content = content[: -checkpoints._TRAILER]
    made = io.BytesIO(content)
    if len(content) >= 2:
        checkpoints._seal(made)
    (folder / file).write_bytes(made.getvalue())


# --- Uses


def use_zoo(folder: Path) -> Iterator[Any]:
    world = build("LBF4")
    for name, card in zoo.cards("LBF4", folder).items():
        policy = zoo.load("LBF4", name, folder)
        played = play(world, policy, [policy], 1, 0)
        yield card, played.returns.tolist(), played.lengths.tolist(), answers(policy, world)
        yield [one.name for one in zoo.split("LBF4", card.split, folder)]


def answers(policy: Any, world: Any) -> Any:
    """Return what a policy does at something that it sees, and its memory of it."""
    rows = 3
    obs = np.random.default_rng(0).normal(size=(rows, len(world.observations))).astype(np.float32)
    mask, agent = np.ones((rows, len(world.actions)), np.int8), np.zeros(rows, np.int64)
    memory = np.zeros((rows, policy.memory_size), np.float32)
    action, memory = policy.act(obs, mask, agent, agent - 1, memory, np.zeros((rows, 0)))
    return np.asarray(action).tolist(), np.asarray(memory).tolist()


def use_change(folder: Path) -> Iterator[Any]:
    store.clean(folder / "LBF4")
    yield from use_zoo(folder)


def use_agent(folder: Path, selectors: tuple[str | None, ...]) -> Iterator[Any]:
    """Load a bundle with each of the selectors; play two episodes of 20 steps."""
    for selector in selectors:
        agent, rng = EgoAgent.load(folder, selector), np.random.default_rng(0)
        own = agent.manifest
        for episode in range(2):
            if selector is None:
                agent.head = min(episode, agent.heads - 1)
            agent.episode_begin()
            for _ in range(20):
                obs = rng.normal(size=(1, own.controllable, len(own.observations)))
                yield agent.act(obs, np.ones((1, own.controllable, len(own.actions)))).tolist()
            agent.episode_end(float(episode))
            yield {name: value for name, value in agent.state.items() if name != "graphs"}
        if selector == "zero-shot":
            yield agent.belief.tolist()


def use_manifest(folder: Path) -> Iterator[Any]:
    manifest = read_manifest(folder)
    yield manifest.scenario, manifest.groups, manifest.figures, manifest.head_names
    yield from use_agent(folder, (None, *manifest.selectors))
    yield from use_bundle_as_teammate(folder)


def use_bundle_as_teammate(folder: Path) -> Iterator[Any]:
    world = build("LBF4")
    (policy,) = resolve(f"agent:{folder}", world, "LBF4")
    yield play(world, policy, [policy], 1, 0).returns.tolist()
    yield answers(policy, world)


def use_state(folder: Path) -> Iterator[Any]:
    agent = EgoAgent.load(folder, "thompson")
    try:
        state = json.loads((folder / "state.json").read_bytes())
    except (ValueError, RecursionError):  # it is the user who reads it
        return
    agent.restore(state)
    agent.episode_begin()
    for k in range(20):
        yield agent.act(np.full(12, k / 20), np.ones(5)).tolist()
    agent.episode_end(0.0)
    yield agent.state


def use_teammate(folder: Path) -> Iterator[Any]:
    world = build("LBF4")
    (policy,) = resolve(str(folder / "other.onnx"), world, "LBF4")
    yield play(world, policy, [policy], 1, 0).returns.tolist()
    yield answers(policy, world)


def read_records(folder: Path) -> Iterator[Any]:
    """What the reports read of a run that is finished."""
    run = RunFolder(folder)
    yield run.scenario, run.method, run.seed, run.maker
    run.require_ego()
    yield run.decisions(), iterations(run.decisions()), run.order
    yield run.summary(), run.met, run.commits, run.minutes, run.curve()


def read_networks(folder: Path) -> Iterator[Any]:
    """What an evaluation reads of a run."""
    rows = folder / "evaluated.csv"
    pool.evaluate([folder], 2, rows, device="cpu", say=samples.silent)
    yield [(row.teammate, row.return_, row.length) for row in read_rows(rows)]
    run = RunFolder(folder)
    for net in (run.ego(), *run.groups().values()):
        yield {name: array.tobytes() for name, array in weights(net).items()}


def resume_run(folder: Path) -> Iterator[Any]:
    with samples.hurry():
        done = train(samples.RUN, folder, resume=True, device="cpu", say=samples.silent)
    yield done.decisions, done.result.names, (folder / "metrics.jsonl").read_text()
    yield {name: array.tobytes() for name, array in weights(done.result.ego).items()}


def read_settings(folder: Path) -> Iterator[Any]:
    run = read_run(folder)
    yield run, RunFolder(folder).lender, setup_of(run, "cpu").world.limit


def resume_teams(folder: Path) -> Iterator[Any]:
    run = samples.TEAMS[folder.name]
    try:
        with samples.hurry():
            found = selfplay.self_play(run, folder, resume=True, device="cpu", say=samples.silent)
    except RuntimeError as error:
        if "the loss is" not in str(error):
            raise
        yield "it diverges"  # from weights that are far too large, say
        return
    yield found.returns, RunFolder(folder).result().returns
    for net in RunFolder(folder).generated().values():
        yield {name: array.tobytes() for name, array in weights(net).items()}


def use_campaign(folder: Path) -> Iterator[Any]:
    """Look at a campaign as `macop campaign` and `macop reproduce` do; no run is begun."""
    stored = plan.read(folder / plan.CAMPAIGN)
    ledger = Ledger(folder, plan.tasks(stored))
    ledger.check_runs()
    yield [task.name for task in ledger.ready()], {name: own.state for name, own in ledger.standing.items()}
    yield ledger.minutes_left(2)
    material = Material.load(folder)
    yield material.rows(), material.runs(["macop"])
    yield [ledger.begin(task) for task in ledger.ready()]


def use_rows(folder: Path, name: str) -> Iterator[Any]:
    rows = read_rows(folder / name)
    if any(row.stage == "test" for row in rows) and len({row.scenario for row in rows}) == 1:
        yield table(rows), compare(rows, rows)
    yield rows


def use_config(folder: Path) -> Iterator[Any]:
    file = RunFile.read(folder / "config.toml")
    with of_file(folder / "config.toml"):
        config = settings_by_file(file, file.scenario or "SMAC1", file.method, "demo")
        run = MethodRun(file.scenario or "SMAC1", file.method, file.seed, file.threads or 1, config)
    yield run, setup_of(run, "cpu").world.limit


def converted(use: Callable[[Path], Any]) -> Callable[[Path], Iterator[Any]]:
    """Return the use of a folder of an earlier format, which is converted before."""

    def convert_and_use(folder: Path) -> Iterator[Any]:
        yield convert([folder], samples.silent)
        yield from use(folder)

    return convert_and_use


def selector(name: str) -> Kind:
    return Kind(f"bundle/selectors/{name}.onnx", ONNX, partial(use_agent, selectors=(name,)), seal_bundle)


def records(file: str) -> Kind:
    return Kind(f"run/{file}", LINES if file.endswith("l") else JSON, read_records)


POPULATION, EARLIER, EGO = (f"run/phases/{name}.npz" for name in ("population-00", "ego-01-00", "ego-01-01"))
KINDS = {
    "zoo-group": Kind("zoo/LBF4/macop-0.onnx", ONNX, use_zoo, seal_card),
    "zoo-index": Kind("zoo/LBF4/index.json", JSON, use_zoo),
    "zoo-change": Kind("zoo/LBF4/change.json", JSON, use_change),
    "bundle-agent": Kind("bundle/agent.onnx", ONNX, partial(use_agent, selectors=(None, "zero-shot")), seal_bundle),
    "bundle-zero-shot": selector("zero-shot"),
    "bundle-meta-test": selector("meta-test"),
    "bundle-halving": selector("halving"),
    "bundle-thompson": selector("thompson"),
    "bundle-teammate": Kind("bundle/agent.onnx", ONNX, use_bundle_as_teammate, seal_bundle),
    "bundle-manifest": Kind("bundle/manifest.json", JSON, use_manifest),
    "bundle-settings": Kind("bundle/run.toml", TOML, read_settings),
    "bundle-state": Kind("bundle/state.json", JSON, use_state),
    "teammate": Kind("teammate/other.onnx", ONNX, use_teammate),
    "run-settings": Kind("run/run.toml", TOML, read_settings),
    "run-settings-resumed": Kind("run/run.toml", TOML, resume_run),
    "run-population": Kind(POPULATION, ARCHIVE, read_networks, seal_archive),
    "run-population-resumed": Kind(POPULATION, ARCHIVE, resume_run, seal_archive),
    "run-ego": Kind(EGO, ARCHIVE, read_networks, seal_archive),
    "run-ego-resumed": Kind(EARLIER, ARCHIVE, resume_run, seal_archive),
    "run-decisions": records("decisions.jsonl"),
    "run-metrics": records("metrics.jsonl"),
    "run-summary": records("summary.json"),
    "run-parts": records("parts.json"),
    "selfplay-settings": Kind("selfplay/run.toml", TOML, resume_teams),
    "selfplay-checkpoint": Kind("selfplay/checkpoints/*.npz", ARCHIVE, resume_teams, seal_archive),
    "selfplay-ppo-checkpoint": Kind("selfplay-ppo/checkpoints/*.npz", ARCHIVE, resume_teams, seal_archive),
    "campaign": Kind("campaign/campaign.toml", TOML, use_campaign),
    "campaign-status": Kind("campaign/status.json", JSON, use_campaign),
    "rows": Kind("rows/rows.csv", TABLE, partial(use_rows, name="rows.csv")),
    "rows-compressed": Kind("rows/rows.csv.gz", (arrays.compressed_damaged,), partial(use_rows, name="rows.csv.gz")),
    "old-run-settings": Kind("old-run/run.toml", TOML, converted(read_records)),
    "old-run-decisions": Kind("old-run/decisions.jsonl", LINES, converted(read_records)),
    "old-run-summary": Kind("old-run/summary.json", JSON, converted(read_records)),
    "old-run-parts": Kind("old-run/parts.json", JSON, converted(read_records)),
    "old-run-ego": Kind("old-run/phases/ego-01-01.npz", ARCHIVE, converted(read_networks)),
    "old-zoo-index": Kind("old-zoo/LBF4/index.json", JSON, converted(use_zoo)),
    "old-bundle-manifest": Kind("old-bundle/manifest.json", JSON, converted(use_manifest)),
    "old-rows": Kind("old-rows/rows.csv", TABLE, converted(partial(use_rows, name="rows.csv"))),
    "old-campaign-status": Kind("old-campaign/status.json", JSON, converted(use_campaign)),
    "config": Kind("config/config.toml", TOML, use_config),
}
