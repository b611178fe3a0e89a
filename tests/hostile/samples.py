"""One folder with a file of every kind that the suite reads, made in a few seconds."""

from __future__ import annotations

import contextlib
import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from macop_aht.campaign.plan import CAMPAIGN, Campaign, tasks
from macop_aht.campaign.runner import Ledger
from macop_aht.config import to_toml
from macop_aht.deploy.manifest import RunGroups
from macop_aht.deploy.runtime import EgoAgent
from macop_aht.evaluation import pool
from macop_aht.evaluation.rows import read_rows, write_rows
from macop_aht.export.bundle import RunInfo, ZeroShotSelector, write_bundle
from macop_aht.export.generalist import with_generalist
from macop_aht.learner.networks import Ego, weights
from macop_aht.learner.ppo import ProximalConfig
from macop_aht.learner.selfplay import SelfPlayConfig
from macop_aht.learner.threads import use_threads
from macop_aht.learner.training import TrainingConfig
from macop_aht.methods import summary
from macop_aht.methods.macop import MacopConfig
from macop_aht.methods.training import MethodRun, train
from macop_aht.onnx.writer import write
from macop_aht.runs import checkpoints
from macop_aht.runs import selfplay as selfplay_runs
from macop_aht.runs.selfplay import SelfPlayRun, self_play
from macop_aht.zoo.cards import INDEX
from macop_aht.zoo.store import NOTE
from tests.bundles import in_format_1, make_ego, make_recogniser, rewritten
from tests.helpers import graph_of, put, save_teammate

SMALL = TrainingConfig(envs=4, batch=4, capacity=20, target_every=15, ratio=4, mixer="qmix")
RUN = MethodRun(
    "SMAC1", "macop", seed=1,
    config=MacopConfig(
        population=2, min_iterations=1, max_iterations=1, teammate_steps=100, ego_steps=100, test_episodes=2,
        expansion_threshold=-9.0, teammates=SMALL, mutation=SMALL, ego=SMALL,
    ),
)  # fmt: skip
ROUNDS = TrainingConfig(learner="ppo", ppo=ProximalConfig(envs=8, parts=2, epochs=1))
TEAMS = {
    "selfplay": SelfPlayRun("LBF4", seed=3, training=SelfPlayConfig(teams=2, steps=600, training=SMALL)),
    "selfplay-ppo": SelfPlayRun("SMAC1", seed=3, training=SelfPlayConfig(teams=2, steps=2_400, training=ROUNDS)),
}
PLAN = Campaign(["SMAC1"], ["macop"], [1], preset="demo", device="cpu", episodes=2)


class Stopped(Exception):
    """A training stops here."""


def silent(line: str) -> None:
    """Say nothing."""


@contextlib.contextmanager
def hurry():
    """Figures, TensorBoard and summaries of many episodes are looked at elsewhere."""
    use_threads(1)
    before = summary.EPISODES, summary.draw, selfplay_runs.self_play_returns
    summary.EPISODES, summary.draw = 2, lambda *given: None
    selfplay_runs.self_play_returns = lambda world, net, episodes, seed, device: before[2](world, net, 4, seed, device)
    try:
        yield
    finally:
        summary.EPISODES, summary.draw, selfplay_runs.self_play_returns = before


def make(folder: Path) -> None:
    """Make all samples in a folder."""
    with hurry():
        make_zoo(folder / "zoo")
        make_bundle(folder / "bundle")
        (folder / "teammate").mkdir()
        save_teammate(folder / "teammate" / "other.onnx", 12, 5)
        train(RUN, folder / "run", device="cpu", say=silent)
        for name in TEAMS:
            make_teams(folder / name)
        make_rows(folder)
        make_campaign(folder / "campaign", folder)
    make_old(folder)
    (folder / "config").mkdir()
    (folder / "config" / "config.toml").write_text(to_toml(RUN))


def make_zoo(folder: Path) -> None:
    for k, split in enumerate(("train", "test")):
        put(folder, "LBF4", f"macop/{k}", write(graph_of(seed=k, half=k == 1)), split=split)
    (folder / "LBF4" / NOTE).write_text(json.dumps(["macop-7-12345678.onnx"]))


def make_bundle(folder: Path) -> None:
    """Three heads of a run and a generalist head, none of them trained, and a state of its agent."""
    world, ego = make_ego("LBF4")
    net = Ego(ego.shape, 1, torch.Generator().manual_seed(1))
    rng = np.random.default_rng(0)
    untrained = make_recogniser(world, with_generalist(ego, net), rng.random((4, 5)), seed=0, generalist=True)
    selector = ZeroShotSelector([f"0/{k}" for k in range(5)], weights(untrained))
    known = RunGroups("macop", ("0/0",), {f"0/{k}": (f"{k}" * 64,) for k in range(5)})
    settings = folder.parent / "settings.toml"
    settings.write_text(f"format = 2\n{to_toml(replace(RUN, scenario='LBF4'))}")
    write_bundle(folder, weights(ego), world, RunInfo("LBF4", "macop", 0, known), settings, selector, weights(net))
    agent = EgoAgent.load(folder, "thompson")
    agent.episode_end(1.0)
    (folder / "state.json").write_text(json.dumps(agent.state))


def make_teams(folder: Path) -> None:
    """A run of self-play with two checkpoints, and half of its way to go."""
    real, run = checkpoints.save, TEAMS[folder.name]

    def stopping(place, number, arrays, note):
        real(place, number, arrays, note)
        if number >= run.training.steps / 2:
            raise Stopped

    checkpoints.save = stopping
    try:
        self_play(run, folder, device="cpu", checkpoint_every=0.0, say=silent)
    except Stopped:
        pass
    finally:
        checkpoints.save = real


def make_rows(folder: Path) -> None:
    rows = folder / "rows" / "rows.csv"
    pool.evaluate([folder / "run"], 2, rows, device="cpu", say=silent)
    write_rows(read_rows(rows), rows.with_suffix(".csv.gz"))


def make_campaign(folder: Path, samples: Path) -> None:
    """A campaign whose run is done, as its files have it."""
    folder.mkdir()
    (folder / CAMPAIGN).write_text(to_toml(PLAN))
    ledger = Ledger(folder, tasks(PLAN))
    for task in ledger.tasks:
        ledger.ready()
        ledger.begin(task)
        ledger.end(task.name, 0)
    (folder / "SMAC1" / "rows.csv").write_bytes((samples / "rows" / "rows.csv").read_bytes())


def make_old(samples: Path) -> None:
    """The same files as earlier versions wrote them, in folders of their own."""
    for name in ("run", "zoo", "bundle", "rows", "campaign"):
        shutil.copytree(samples / name, samples / f"old-{name}")
    run = samples / "old-run"
    (run / "run.toml").write_text((run / "run.toml").read_text().replace("format = 2\n", ""))
    lines = (run / "decisions.jsonl").read_text().replace('"format": 2, ', "").replace('"best_head"', '"chosen"')
    (run / "decisions.jsonl").write_text(lines)
    _aged(run / "summary.json", {"outcomes": "deeds"})
    (run / "parts.json").write_text(json.dumps(json.loads((run / "parts.json").read_text())["parts"]))
    for path in (run / "phases").glob("*.npz"):
        with np.load(path) as stored:
            np.savez(path, **{name: stored[name] for name in stored.files})
    index = samples / "old-zoo" / "LBF4" / INDEX
    _aged(index, {})
    index.write_text(index.read_text().replace('"group"', '"origin"').replace('"outcomes"', '"tags"'))
    rewritten(samples / "old-bundle", in_format_1)
    rows = samples / "old-rows" / "rows.csv"
    rows.write_text("\n".join(line.rpartition(",")[0] for line in rows.read_text().splitlines()) + "\n")
    status = samples / "old-campaign" / "status.json"
    status.write_text(json.dumps(json.loads(status.read_text())["tasks"]))


def _aged(path: Path, renamed: dict[str, str]) -> None:
    """Take the format out of a file, and give keys the names that they had."""
    values = json.loads(path.read_text())
    del values["format"]
    path.write_text(json.dumps({renamed.get(name, name): value for name, value in values.items()}))
