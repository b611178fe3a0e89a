"""Campaigns: what is done in which order, what a failure stops, what a kill costs, and the evaluation at the end."""

import io
import os
import random
import shutil
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console

from macop_aht.campaign import conduct as conducting
from macop_aht.campaign.board import table
from macop_aht.campaign.estimate import Cost, Costs, core_hours
from macop_aht.campaign.plan import Campaign, outside, read, tasks
from macop_aht.campaign.processes import Processes, going_on
from macop_aht.campaign.runner import Ledger, run
from macop_aht.cli import main
from macop_aht.config import changed, from_toml, parse, to_toml
from macop_aht.evaluation.pool import Entrant, Pool, rows_of
from macop_aht.evaluation.rows import read_rows
from macop_aht.learner.networks import Ego, Shape, Stack
from macop_aht.methods.training import METHODS, MethodRun, preset, read_run
from macop_aht.paths import commit
from macop_aht.runs import checkpoints
from macop_aht.runs.folder import RunFolder
from macop_aht.runs.lock import LockedError, folder_lock, try_lock
from macop_aht.runs.records import Summary
from macop_aht.scenarios import build

CAMPAIGNS = Path(__file__).parent.parent.parent / "benchmarks" / "campaigns"
TRAINING = {"envs": 2, "batch": 4, "capacity": 20, "ratio": 1.0}
STAGES = {
    "test_episodes": 2,
    "teammates": {"population": 2, "steps": 600, "training": TRAINING},
    "ego": {"steps": 400, "training": TRAINING},
}
TINY = Campaign(
    ["SMAC1"], ["fcp", "trajedi", "ewc"], [2], preset="demo", device="cpu", episodes=8,
    settings={"fcp": STAGES, "trajedi": STAGES, "ewc": {"test_episodes": 2, "ego": STAGES["ego"]}},
)  # fmt: skip


# --- The plan


def test_order_and_dependencies():
    campaign = Campaign(["LBF4", "PP1"], ["fcp", "finetune", "ewc", "trajedi", "macop"], [3, 4])
    found = tasks(campaign)
    lbf = [task.name.removeprefix("LBF4/") for task in found[:11]]
    assert lbf == [
        "trajedi/3", "macop/3", "trajedi/4", "macop/4",  # others need them
        "fcp/3", "finetune/3", "ewc/3", "fcp/4", "finetune/4", "ewc/4", "evaluation",
    ]  # fmt: skip
    needs = {task.name: task.needs for task in found}
    assert needs["PP1/finetune/4"] == ("PP1/macop/4",)
    assert needs["LBF4/ewc/3"] == ("LBF4/trajedi/3",)
    assert needs["LBF4/fcp/3"] == ()
    assert found[6].settings["config"]["groups"] == "LBF4/trajedi/3"
    assert set(found[10].gathers) == {f"LBF4/{name}" for name in lbf[:10]}


def test_learners_go_through_a_sequence_of_all_groups():
    campaign = Campaign(["PP1"], ["macop", "fcp", "finetune"], [3], learners=["multi-head", "finetune"], sequence=6)
    found = {task.name: task for task in tasks(campaign)}
    assert list(found)[-4:] == [
        "PP1/sequence/3", "PP1/multi-head-on-sequence/3", "PP1/finetune-on-sequence/3", "PP1/fresh-on-sequence/3"
    ]  # fmt: skip
    assert found["PP1/sequence/3"].needs == ("PP1/macop/3", "PP1/fcp/3")
    assert found["PP1/sequence/3"].words == (
        "sequence", "PP1/macop/3", "PP1/fcp/3", "--length=6", "--seed=3", "--out=PP1/sequence/3"
    )  # fmt: skip
    learner = found["PP1/finetune-on-sequence/3"]
    assert learner.needs == ("PP1/sequence/3",)
    assert learner.settings["method"] == "finetune"
    assert learner.settings["config"]["groups"] == "PP1/sequence/3"
    assert {"--config=PP1/finetune-on-sequence/3.toml", "--out=PP1/finetune-on-sequence/3"} <= set(learner.words)
    assert set(found["PP1/evaluation"].gathers) == {"PP1/macop/3", "PP1/fcp/3", "PP1/finetune/3"}


def test_variations_are_runs_of_their_own():
    campaign = Campaign(
        ["LBF4", "PP2"], ["macop"], [0], settings={"macop": {"ego_steps": 70, "ego": {"ratio": 2.0, "envs": 8}}},
        variations={
            "no-reg": {"settings": {"alpha_reg": 0.0}},
            "few": {"scenarios": ["PP2"], "settings": {"population": 2, "ego": {"envs": 4}}},
        },
    )  # fmt: skip
    found = {task.name: task for task in tasks(campaign)}
    assert list(found) == [
        "LBF4/macop/0", "LBF4/no-reg/0", "LBF4/evaluation", "PP2/macop/0", "PP2/no-reg/0", "PP2/few/0", "PP2/evaluation"
    ]  # fmt: skip
    few = found["PP2/few/0"]
    assert few.words == ("train", "--config=PP2/few/0.toml", "--device=auto", "--out=PP2/few/0")
    assert {few.settings[name] for name in ("scenario", "method", "seed", "threads")} == {"PP2", "macop", 0, 1}
    changes = {"ego_steps": 70, "population": 2, "ego": {"ratio": 2.0, "envs": 4}}
    expected = MethodRun("PP2", "macop", config=changed(preset("macop", "fast", "PP2"), changes))
    assert few.settings == parse(to_toml(expected))
    assert found["PP2/evaluation"].gathers == ("PP2/macop/0", "PP2/no-reg/0", "PP2/few/0")
    assert "--by-folder" in found["PP2/evaluation"].words
    assert from_toml(Campaign, to_toml(campaign)) == campaign


def test_what_is_outside_a_part_of_a_campaign():
    campaign = Campaign(
        ["LBF4", "PP2"], ["macop"], [0, 1], learners=["finetune"], variations={"few": {"scenarios": ["PP2"]}}
    )
    every = {task.name for task in tasks(campaign)}
    assert outside(campaign, None, None) == set()
    assert every - outside(campaign, ["LBF4"], [1]) == {
        "LBF4/macop/1", "LBF4/evaluation", "LBF4/sequence/1", "LBF4/finetune-on-sequence/1", "LBF4/fresh-on-sequence/1",
    }  # fmt: skip
    assert every - outside(campaign, ["PP2"], None) == {name for name in every if name.startswith("PP2/")}
    with pytest.raises(ValueError, match="scenarios has 'CN2'; the campaign's are LBF4, PP2"):
        outside(campaign, ["CN2"], None)
    with pytest.raises(ValueError, match="seeds has 5; the campaign's are 0, 1"):
        outside(campaign, None, [5])


def test_every_method_that_borrows_groups_has_a_lender():
    for name, method in METHODS.items():
        assert bool(method.lender) == bool(method.groups_from), name
        assert not method.groups_from or method.lender in method.groups_from


def test_the_campaigns_of_the_benchmarks_are_valid():
    for path in CAMPAIGNS.glob("*.toml"):
        assert set(read(path).methods) <= set(METHODS)
        if path.name == "lbf4.toml":
            assert {*read(path).methods, "ppo"} == {name for name, method in METHODS.items() if method.compared}


def test_core_hours_by_hand(monkeypatch):
    costs = Costs(Cost(20.0, 3.0), Cost(12.0, 2.0), ppo=5.0, factors={"macop": 1.5, "ewc": 2.0})
    monkeypatch.setattr(Costs, "of", lambda scenario: costs)
    training = {"ratio": 2.0}
    macop = {"population": 3, "teammate_steps": 600_000, "ego_steps": 100_000, "min_iterations": 2, "max_iterations": 4}
    macop |= {"teammates": training, "mutation": {"ratio": 4.0}, "ego": training}
    trajedi = {"teammates": {"steps": 1_200_000, "training": training}, "ego": {"steps": 500_000, "training": training}}
    ewc = {"ego": {"steps": 100_000, "training": training}}
    made = Campaign(
        ["LBF4"], ["macop", "finetune", "trajedi", "ewc"], [0],
        settings={"macop": macop, "trajedi": trajedi, "ewc": ewc, "finetune": ewc},
    )  # fmt: skip
    # First population 0.6 * 20 / 2 = 6 minutes, a mutation 1.5 * 0.6 * 20 / 4 = 4.5, a lesson 0.1 * 12 / 2 = 0.6.
    assert 60 * core_hours(made, "LBF4", "macop") == pytest.approx([6 + 4.5 + 3 * 0.6, 6 + 3 * 4.5 + 12 * 0.6])
    assert 60 * core_hours(made, "LBF4", "finetune") == pytest.approx([3 * 0.6, 12 * 0.6])
    assert 60 * core_hours(made, "LBF4", "trajedi") == pytest.approx([12 + 3] * 2)
    assert 60 * core_hours(made, "LBF4", "ewc") == pytest.approx([6 * 2 * 0.6] * 2)
    # With PPO, a million steps of a population cost 3 minutes, and of lessons 2, whatever the ratio.
    by_ppo = {"training": {"learner": "ppo"}}
    strong = {"teammates": {"steps": 1_200_000, **by_ppo}, "ego": {"steps": 500_000, **by_ppo}}
    on_ppo = replace(made, settings={"trajedi": strong, "ewc": {"ego": {"steps": 100_000, **by_ppo}}})
    assert 60 * core_hours(on_ppo, "LBF4", "trajedi") == pytest.approx([1.2 * 3 + 0.5 * 2] * 2)
    # Through a sequence of ten, or of all: 3 to 4 iterations of three groups, and TrajeDi's six.
    for length, lessons in ((10, (10, 10)), (0, (2 * 3 + 6, 4 * 3 + 6))):
        learning = replace(made, learners=["ewc"], sequence=length)
        expected = [2 * 0.6 * count for count in lessons]
        assert 60 * core_hours(learning, "LBF4", "ewc-on-sequence") == pytest.approx(expected)
    # A run of one iteration learns with all its groups; none stops in the first.
    for least, most, lessons in ((1, 1, 3), (1, 4, 3), (3, 4, 6)):
        short = replace(
            made, settings=made.settings | {"macop": macop | {"min_iterations": least, "max_iterations": most}}
        )
        assert 60 * core_hours(short, "LBF4", "finetune")[0] == pytest.approx(lessons * 0.6)


def test_a_dry_run_lists_the_runs_and_begins_nothing(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = "scenarios = ['LBF4', 'PP1']\nmethods = ['fcp', 'trajedi', 'ewc']\nseeds = [0, 1]\npreset = 'paper'\n"
    (tmp_path / "c.toml").write_text(text)
    assert main(["campaign", "c.toml", "--dry-run"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:3] for line in lines[1:9]] == [
        [scenario, method, str(runs)]
        for scenario in ("LBF4", "PP1")
        for method, runs in (("fcp", 2), ("trajedi", 2), ("ewc", 2), ("all", 6))
    ]
    hours = {tuple(line.split()[:2]): float(line.split()[3]) for line in lines[1:9]}
    assert hours["PP1", "all"] == pytest.approx(sum(hours["PP1", name] for name in ("fcp", "trajedi", "ewc")), abs=0.02)
    assert main(["campaign", "c.toml", "--dry-run", "--scenarios", "LBF4", "--seeds", "1"]) == 0
    assert "PP1" not in capsys.readouterr().out
    for path in sorted(CAMPAIGNS.glob("*.toml")):  # with variations and learners
        assert main(["campaign", str(path), "--dry-run", "--scenarios", read(path).scenarios[0]]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert all(0 <= float(line.split()[3]) < 100 for line in lines[1 : lines.index("")])
    assert [path.name for path in tmp_path.iterdir()] == ["c.toml"]
    assert main(["campaign", "c.toml"]) == 2
    assert "--out FOLDER" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("scenario = ['LBF4']", "unknown key 'scenario'; did you mean 'scenarios'"),
        ("", "scenarios is empty; name at least one"),
        ("scenarios = 'LBF4'", "it must be a list"),
        ("scenarios = ['LBF5']", "did you mean"),
        ("scenarios = ['LBF4']\nmethods = ['lippo']", "unknown method 'lippo'; did you mean 'lipo'"),
        ("scenarios = ['LBF4']\nmethods = ['fcp', 'fcp']", "methods has 'fcp' twice"),
        ("scenarios = ['LBF4']\nmethods = ['ewc']", "ewc learns with the groups of trajedi; add 'trajedi'"),
        ("scenarios = ['LBF4']\nlearners = ['random-head']", "'random-head' goes through no sequence of groups"),
        ("scenarios = ['LBF4']\nvariations.fcp = {}", "a variation is called 'fcp', which is taken"),
        ("scenarios = ['LBF4']\nvariations.x.method = 'maccop'", "unknown method 'maccop'; did you mean 'macop'"),
        ("scenarios = ['LBF4']\nvariations.x.scenarios = ['PP1']", "variations.x.scenarios has 'PP1'"),
        ("scenarios = ['LBF4']\nvariations.x.setings = {}", "unknown key 'variations.x.setings'"),
        ("scenarios = ['LBF4']\nvariations.x.settings.alpha = 1", "unknown key 'variations.x.settings.alpha'"),
        ("scenarios = ['LBF4']\nprocesses = 0", "processes is 0; it must be at least 1"),
        ("scenarios = ['LBF4']\nseeds = [0.5]", r"seeds\[0\] is 0.5; it must be of type int"),
        ("scenarios = ['LBF4']\npreset = 'papr'\nsettings.fcp = {}", "did you mean 'paper'"),
        ("scenarios = ['LBF4']\npreset = 'papr'", "did you mean 'paper'"),
        ("scenarios = ['LBF4']\nsettings.lippo = {}", "unknown key 'settings.lippo'; did you mean 'lipo'"),
        ("scenarios = ['LBF4']\nsettings.macop.ego.rato = 2", "unknown key 'settings.macop.ego.rato'; did you mean"),
        ("scenarios = ['LBF4']\nsettings.ewc.groups = 'there'", "groups is the campaign's to set"),
        ("scenarios = ['LBF4']\nsettings.macop.incompatibility = 'novelty'", "choose the other --method"),
    ],
)
def test_campaign_files_are_read_strictly(text, message, tmp_path):
    (tmp_path / "campaign.toml").write_text(text)
    with pytest.raises((ValueError, KeyError), match=message):
        read(tmp_path / "campaign.toml")


def test_a_campaign_survives_being_written():
    campaign = Campaign(["LBF4"], ["macop+", "fcp"], [0], settings={"macop+": {"ego": {"ratio": 2.0}}})
    assert from_toml(Campaign, to_toml(campaign)) == campaign


# --- The loop, with tasks that only pretend


class Pretence:
    """An executor whose tasks take a random while, write their result, and fail where told so."""

    def __init__(self, folder, places=2, failing=(), die_after=None, rng=None):
        self.folder, self.places, self.failing, self.die_after = folder, places, failing, die_after
        self.rng = rng or random.Random(0)
        self.begun, self.running, self.most = {}, {}, 0

    def begin(self, name, command):
        if self.die_after is not None and len(self.begun) == self.die_after:
            raise KeyboardInterrupt
        self.begun[name] = command
        self.running[name] = self.rng.randrange(4)
        self.most = max(self.most, len(self.running))

    def ended(self):
        self.running = {name: left - 1 for name, left in self.running.items()}
        over = [name for name, left in self.running.items() if left < 0]
        for name in over:
            del self.running[name]
            if name not in self.failing:
                self.finish(name)
        return {name: int(name in self.failing) for name in over}

    def finish(self, name):
        if name.endswith("evaluation"):
            (self.folder / name).with_name("rows.csv").touch()
            return
        run = RunFolder(self.folder / name)
        if not run.exists:
            run.begin(MethodRun("LBF4"), resume=False)
        run.write_summary(Summary("LBF4", "macop", 0, []))

    def close(self):
        self.running = {}


@pytest.fixture
def hasty(monkeypatch):
    monkeypatch.setattr("macop_aht.campaign.runner.POLL", 0.0)


PLAN = Campaign(["LBF4"], ["macop", "trajedi", "fcp", "finetune", "ewc"], [0, 1])


def pretend(folder, campaign=PLAN, left_out=(), **options):
    ledger, executor = Ledger(folder, tasks(campaign), left_out), Pretence(folder, **options)
    return run(ledger, executor, lambda ledger: None), ledger, executor


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("seed", range(5))
def test_everything_is_done_once_after_what_it_needs(seed, tmp_path):
    complete, ledger, executor = pretend(tmp_path, places=3, rng=random.Random(seed))
    assert complete
    order = list(executor.begun)
    assert sorted(order) == sorted(task.name for task in ledger.tasks)
    for task in ledger.tasks:
        assert all(order.index(name) < order.index(task.name) for name in (*task.needs, *task.gathers))
    assert executor.most == 3
    assert [word for word in executor.begun["LBF4/evaluation"] if not word.startswith("--")][1:] == [
        name for task in ledger.tasks[-1:] for name in task.gathers
    ]


@pytest.mark.usefixtures("hasty")
def test_a_failure_blocks_its_dependants_alone_and_is_tried_again(tmp_path):
    complete, ledger, executor = pretend(tmp_path, failing=("LBF4/macop/1",))
    assert not complete
    assert ledger.named("failed") == ["LBF4/macop/1"]
    assert ledger.named("blocked") == ["LBF4/finetune/1"]
    assert len(ledger.named("done")) == 9  # the evaluation too, of what is there
    assert "LBF4/macop/1" not in executor.begun["LBF4/evaluation"]
    # The same again: only what failed is tried, and nothing changes for the evaluation.
    complete, ledger, executor = pretend(tmp_path, failing=("LBF4/macop/1",))
    assert list(executor.begun) == ["LBF4/macop/1"]
    assert "LBF4/evaluation" in ledger.named("done")
    # Mended: the rest is done, and the evaluation again, with all of it.
    complete, ledger, executor = pretend(tmp_path)
    assert complete
    assert list(executor.begun) == ["LBF4/macop/1", "LBF4/finetune/1", "LBF4/evaluation"]
    assert "LBF4/macop/1" in executor.begun["LBF4/evaluation"]


@pytest.mark.usefixtures("hasty")
def test_what_is_done_stands_until_its_settings_change(tmp_path):
    for most in (3, 4):
        with pytest.raises(KeyboardInterrupt):
            pretend(tmp_path, places=1, die_after=most)
    complete, ledger, executor = pretend(tmp_path, places=1)
    assert complete
    assert len(executor.begun) == len(ledger.tasks) - 3 - 4
    assert pretend(tmp_path)[2].begun == {}
    more = replace(PLAN, seeds=[0, 1, 2], episodes=8, settings={"fcp": {"test_episodes": 8}})
    begun = pretend(tmp_path, more)[2].begun
    assert sorted(begun) == [
        "LBF4/evaluation", "LBF4/ewc/2", "LBF4/fcp/0", "LBF4/fcp/1", "LBF4/fcp/2", "LBF4/finetune/2", "LBF4/macop/2",
        "LBF4/trajedi/2",
    ]  # fmt: skip


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("damage", [b"", b"\0\xff" * 9, b"[" * 99_999, b'{"format": 2, "tasks": 3}', b"null"])
def test_a_damaged_status_is_made_again_from_the_runs(tmp_path, damage, capsys):
    pretend(tmp_path)
    for task in tasks(PLAN)[:-1]:
        shutil.copy(tmp_path / f"{task.name}.toml", tmp_path / task.name / "run.toml")
    (tmp_path / "LBF4/fcp/0/summary.json").unlink()
    (tmp_path / "status.json").write_bytes(damage)
    assert list(pretend(tmp_path)[2].begun) == ["LBF4/fcp/0", "LBF4/evaluation"]
    assert f"{tmp_path / 'status.json'} is damaged" in capsys.readouterr().out
    assert pretend(tmp_path)[2].begun == {}


@pytest.mark.usefixtures("hasty")
def test_other_settings_are_refused_where_runs_are_there(tmp_path):
    pretend(tmp_path)
    changed = replace(PLAN, device="cpu", episodes=4, settings={"fcp": {"test_episodes": 8}})
    shutil.rmtree(tmp_path / "LBF4/fcp/0")
    with pytest.raises(
        ValueError, match=r"LBF4/fcp/1 was begun .*: config.test_episodes is 32 there and 8 here. Choose"
    ):
        Ledger(tmp_path, tasks(changed)).check_runs()
    Ledger(tmp_path, tasks(replace(changed, settings={}))).check_runs()
    shutil.rmtree(tmp_path / "LBF4/fcp/1")
    Ledger(tmp_path, tasks(changed)).check_runs()  # no run of it is there


@pytest.mark.usefixtures("hasty")
def test_what_depends_on_something_made_again_is_made_again(tmp_path):
    pretend(tmp_path)
    shutil.rmtree(tmp_path / "LBF4/macop/0")
    begun = pretend(tmp_path)[2].begun
    assert list(begun) == ["LBF4/macop/0", "LBF4/finetune/0", "LBF4/evaluation"]
    assert pretend(tmp_path)[2].begun == {}
    # Killed between the two, the later one has still the old groups, and is not gone on with.
    shutil.rmtree(tmp_path / "LBF4/macop/0")
    (tmp_path / "LBF4/finetune/0/phases").mkdir()
    with pytest.raises(KeyboardInterrupt):
        pretend(tmp_path, places=1, die_after=1)
    assert list(pretend(tmp_path)[2].begun) == ["LBF4/finetune/0", "LBF4/evaluation"]
    assert not (tmp_path / "LBF4/finetune/0/phases").exists()


@pytest.mark.usefixtures("hasty")
def test_a_table_made_of_something_that_is_made_again_is_gone_at_once(tmp_path):
    pretend(tmp_path)
    shutil.rmtree(tmp_path / "LBF4/fcp/0")
    complete, ledger, _ = pretend(tmp_path, failing=("LBF4/evaluation",))
    assert not complete
    assert ledger.named("failed") == ["LBF4/evaluation"]
    assert not (tmp_path / "LBF4/rows.csv").exists()


@pytest.mark.usefixtures("hasty")
def test_a_campaign_in_parts_ends_as_a_whole_one(tmp_path):
    campaign = replace(PLAN, scenarios=["LBF4", "PP1"], methods=["macop", "finetune"])
    begun = []
    for scenarios, seeds in ((["LBF4"], [0]), (["PP1"], None), (["LBF4"], [1])):
        complete, ledger, executor = pretend(tmp_path, campaign, outside(campaign, scenarios, seeds))
        assert complete
        begun.append(sorted(executor.begun))
    own = ["evaluation", "finetune/{0}", "macop/{0}"]
    assert begun[0] == [f"LBF4/{name.format(0)}" for name in own]
    assert begun[1] == sorted(task.name for task in tasks(campaign) if task.name.startswith("PP1"))
    assert begun[2] == [f"LBF4/{name.format(1)}" for name in own]  # the evaluation again, of both seeds
    runs = [word for word in executor.begun["LBF4/evaluation"] if "/" in word and not word.startswith("--")]
    assert sorted(runs) == ["LBF4/finetune/0", "LBF4/finetune/1", "LBF4/macop/0", "LBF4/macop/1"]
    assert pretend(tmp_path, campaign)[2].begun == {}  # nothing is left
    assert ledger.named("left out") == []


def test_the_board_shows_where_all_stand_and_time_left_by_tasks_of_the_same_kind(tmp_path):
    ledger = Ledger(tmp_path, tasks(replace(PLAN, methods=["macop", "fcp"])))
    assert ledger.minutes_left(places=2) is None
    for name, minutes in (("LBF4/macop/0", 8.0), ("LBF4/fcp/0", 2.0)):
        ledger.standing[name].state, ledger.standing[name].minutes = "done", minutes
    running = ledger.standing["LBF4/macop/1"]
    running.state, running.since = "running", time.monotonic() - 3 * 60
    # macop/1 has 8 - 3 left, fcp/1 has 2, and the evaluation, of which nothing is known, counts as the mean of all, 5.
    assert ledger.minutes_left(places=2) == pytest.approx((5 + 2 + 5) / 2, abs=0.01)
    ledger.standing["LBF4/fcp/1"].state = "failed"
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(table(ledger, places=2))
    assert [line.rstrip() for line in console.export_text().splitlines()] == [
        "2 done, 1 running, 1 to come, 1 failed; about 5 min left",
        "LBF4/macop       0: done 8.0 min  1: running 3.0 min",
        "LBF4/fcp         0: done 2.0 min  1: failed",
        "LBF4/evaluation  to come",
    ]


# --- Processes


def test_a_task_waits_for_the_process_that_a_killed_campaign_has_left(tmp_path):
    executor = Processes(tmp_path, places=1)
    with open(tmp_path / "task.log", "ab") as held:
        assert try_lock(held)
        executor.begin("task", ["--version"])
        assert executor.ended() == {}
        assert executor._running == {}
    codes: dict[str, int] = {}
    while not codes:
        codes = executor.ended()
        time.sleep(0.05)
    assert codes == {"task": 0}
    assert (tmp_path / "task.log").read_text().startswith("$ macop --version\nmacop-aht ")


def test_a_run_goes_on_with_what_its_folder_holds(tmp_path):
    command = ["train", "LBF4"]
    assert going_on(tmp_path / "run", command) == command
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.toml.unfinished").touch()  # killed before it had begun
    assert going_on(tmp_path / "run", command) == command
    assert not (tmp_path / "run").exists()
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.toml").touch()
    assert going_on(tmp_path / "run", command) == [*command, "--resume"]
    assert going_on(tmp_path / "run", ["pool"]) == ["pool"]


def test_one_campaign_at_a_time_in_a_folder(tmp_path):
    with (
        folder_lock(tmp_path, "campaign"),
        pytest.raises(LockedError, match=f"process {os.getpid()} campaign is at work in {tmp_path}"),
    ):
        conducting.conduct(TINY, tmp_path)


# --- Whole campaigns


class Here:
    """An executor that runs the commands in this process, one at a time."""

    places = 1

    def __init__(self, folder):
        self._folder, self._codes = folder, {}

    def begin(self, name, command):
        before = Path.cwd()
        os.chdir(self._folder)
        try:
            self._codes[name] = main(going_on(self._folder / name, command))
        finally:
            os.chdir(before)

    def ended(self):
        codes, self._codes = self._codes, {}
        return codes

    def close(self): ...


class Killed(BaseException):
    """Nothing in the package knows this, and nothing can be done about it."""


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    folder = tmp_path_factory.mktemp("campaign")
    assert run(Ledger(folder, tasks(TINY)), Here(folder), lambda ledger: None)
    return folder


def phases(folder):
    return sorted(folder.glob("SMAC1/*/2/phases/*.npz"))


def assert_alike(folder, other):
    """The same rows, and the same weights after every phase."""
    assert (folder / "SMAC1" / "rows.csv").read_bytes() == (other / "SMAC1" / "rows.csv").read_bytes()
    ours, theirs = phases(folder), phases(other)
    assert [path.relative_to(folder) for path in ours] == [path.relative_to(other) for path in theirs]
    for one, two in zip(ours, theirs, strict=True):
        arrays, expected = (checkpoints.flatten(checkpoints.read(path)[0]) for path in (one, two))
        assert arrays.keys() == expected.keys()
        assert all(np.array_equal(arrays[name], expected[name]) for name in arrays), one


def test_rows_hold_every_ego_with_every_group(reference):
    rows = read_rows(reference / "SMAC1" / "rows.csv")
    assert len(rows) == 3 * 4 * 8  # egos, groups, episodes
    tiers = {(row.method, row.teammate.split("/")[0]): row.tier for row in rows}
    assert tiers == {
        ("fcp", "fcp"): "seen", ("trajedi", "trajedi"): "seen", ("ewc", "trajedi"): "seen",
        ("fcp", "trajedi"): "unseen generator", ("trajedi", "fcp"): "unseen generator",
        ("ewc", "fcp"): "unseen generator",
    }  # fmt: skip
    known = {
        "learner": {"q"},
        "preset": {""},
        "generator": {"fcp", "trajedi"},
        "won": {False},
        "commit": {commit()},
    }
    assert {name: {getattr(row, name) for row in rows} for name in known} == known
    assert len({(row.return_, row.length) for row in rows}) > 2  # else a comparison of rows would show nothing
    for method in TINY.methods:
        config = read_run(reference / "SMAC1" / method / "2").config
        wanted = changed(preset(method, "demo", "SMAC1"), TINY.settings[method])
        assert config == (replace(wanted, groups="SMAC1/trajedi/2") if method == "ewc" else wanted)


def test_a_campaign_stopped_at_any_phase_ends_in_the_same_rows(reference, tmp_path, monkeypatch):
    rng, write, left = random.Random(1), checkpoints.write, [0]

    def fragile(path, arrays, note):
        left[0] -= 1
        if left[0] < 0:
            raise Killed
        write(path, arrays, note)

    monkeypatch.setattr(checkpoints, "write", fragile)
    for _ in range(3):
        left[0] = rng.randrange(3)
        with pytest.raises(Killed):
            run(Ledger(tmp_path, tasks(TINY)), Here(tmp_path), lambda ledger: None)
    left[0] = 1_000
    assert run(Ledger(tmp_path, tasks(TINY)), Here(tmp_path), lambda ledger: None)
    assert_alike(tmp_path, reference)


def test_learners_from_a_campaign_to_the_table(reference, tmp_path, capsys):
    """Its populations are done already: the sequence, the learners with it, and the second table of the paper."""
    alike = {"test_episodes": 2, "ego": STAGES["ego"]}
    ego = {"test_episodes": 2, "macop": {"test_episodes": 2, "ego_steps": 400, "ego": TRAINING}}
    campaign = replace(
        TINY, methods=["fcp", "trajedi"], learners=["multi-head", "finetune"], sequence=3,
        settings={"fcp": STAGES, "trajedi": STAGES, "multi-head": ego, "finetune": alike, "fresh": alike},
    )  # fmt: skip
    shutil.copytree(reference, tmp_path, dirs_exist_ok=True)
    (tmp_path / "campaign.toml").write_text(to_toml(campaign))
    assert run(Ledger(tmp_path, tasks(campaign)), Here(tmp_path), lambda ledger: None)
    orders = [RunFolder(folder).order for folder in tmp_path.glob("SMAC1/*-on-sequence/2")]
    assert len(orders) == 3  # fresh egos beside the two
    assert orders[0] == orders[1] == orders[2]
    assert len(set(orders[0])) == 3
    capsys.readouterr()
    assert main(["reproduce", "table2", "--campaign", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "missing" not in printed
    assert "| finetune | " in printed


def test_a_missing_ray_names_the_fix(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ImportError, match=r"--executor ray needs Ray: pip install 'macop-aht\[cluster\]'"):
        conducting.conduct(TINY, tmp_path, ray_address="auto")


@pytest.mark.slow
def test_a_campaign_on_a_ray_cluster_outlives_its_nodes(reference, tmp_path):
    """Of three nodes, two are killed while two are at work. The rows are those of one process after the other."""
    pytest.importorskip("ray", reason="needs Ray: pip install 'macop-aht[cluster]'")
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    nodes = [cluster.add_node(num_cpus=1) for _ in range(3)]

    def lose_nodes() -> None:
        """As soon as both populations are being trained, and one of these phases has ended."""
        while len(list(tmp_path.glob("SMAC1/*/2/run.toml"))) < 2 or not phases(tmp_path):
            time.sleep(0.02)
        for node in nodes[:2]:
            cluster.remove_node(node, allow_graceful=False)

    try:
        cluster.wait_for_nodes()
        accident = threading.Thread(target=lose_nodes, daemon=True)
        accident.start()
        assert conducting.conduct(TINY, tmp_path, ray_address=cluster.address)
        accident.join(timeout=60)
        assert not accident.is_alive()
    finally:
        cluster.shutdown()
    assert_alike(tmp_path, reference)
    logs = [log.read_text() for log in tmp_path.glob("SMAC1/*/2.log")]
    assert any(" --resume" in log for log in logs)  # one at least was at work on a lost node


# --- The evaluation


def test_a_variation_is_evaluated_by_its_own_name(reference, tmp_path):
    """The same runs, one of them called otherwise: its groups are another generator's to the others."""
    for name, method in (("fcp", "fcp"), ("wide", "trajedi")):
        shutil.copytree(reference / "SMAC1" / method / "2", tmp_path / name / "2")
    folders = [str(tmp_path / name / "2") for name in ("fcp", "wide")]
    assert main(["pool", *folders, "--by-folder", "--episodes", "2", "--out", str(tmp_path / "rows.csv")]) == 0
    rows = read_rows(tmp_path / "rows.csv")
    assert {(row.method, row.teammate.split("/")[0], row.tier) for row in rows} == {
        ("fcp", "fcp", "seen"), ("fcp", "wide", "unseen generator"),
        ("wide", "wide", "seen"), ("wide", "fcp", "unseen generator"),
    }  # fmt: skip


def entrant(method, seed, heads, groups=0):
    world = build("SMAC1")
    draws = torch.Generator().manual_seed(seed)
    teams = {f"0/{k}": Stack(Shape.of(world), 1, draws) for k in range(groups)}
    run = MethodRun("SMAC1", method, seed, config=preset(method, "demo", "SMAC1"))
    return Entrant(run, method, ("macop", seed), frozenset(teams), Ego(Shape.of(world), heads, draws), teams)


def test_a_group_is_in_the_pool_once_and_seen_by_those_who_have_learnt_with_it():
    one = entrant("macop", 0, 1, groups=3)
    later = Stack(Shape.of(build("SMAC1")), 1, torch.Generator().manual_seed(9))
    other = replace(
        one, name="macop+", origin=("macop+", 0), met=frozenset({"0/0"}), groups={**one.groups, "2/0": later}
    )
    pool = Pool(build("SMAC1"), [one, other], torch.device("cpu"))
    assert pool.names == ["macop/0/0/0", "macop/0/0/1", "macop/0/0/2", "macop+/0/2/0"]
    assert pool.owners[0] == [("macop", 0, "0/0"), ("macop+", 0, "0/0")]
    assert [one.tier(owners) for owners in pool.owners] == ["seen", "seen", "seen", "unseen generator"]
    assert [other.tier(owners) for owners in pool.owners] == ["seen", "unseen", "unseen", "unseen"]


def test_episodes_tell_how_they_ended():
    world = replace(build("SMAC1"), outcome=lambda state, b: f"end of {b}")
    one = entrant("macop", 0, 1, groups=1)
    played = Pool(world, [one], torch.device("cpu")).play(one.ego, np.zeros((1, 3), dtype=np.int64), 0)
    assert played.outcomes.tolist() == [["end of 0", "end of 1", "end of 2"]]
    assert played.won.tolist() == [[False] * 3]
    calm = replace(world, info=lambda state: {})
    assert Pool(calm, [one], torch.device("cpu")).play(one.ego, np.zeros((1, 1), dtype=np.int64), 0).won.tolist() == [
        [None]
    ]


def test_heads_are_chosen_by_episodes_of_their_own():
    entrants = [entrant("macop", 0, 3, groups=2), entrant("macop", 1, 1, groups=3), entrant("random-head", 0, 3)]
    pool = Pool(build("SMAC1"), entrants, torch.device("cpu"))
    assert pool.names == ["macop/0/0/0", "macop/0/0/1", "macop/1/0/0", "macop/1/0/1", "macop/1/0/2"]
    rows = rows_of(entrants[0], pool, episodes=6)
    choosing, test = ([row for row in rows if row.stage == stage] for stage in ("selection", "test"))
    assert (len(choosing), len(test)) == (5 * 4 * 3, 5 * 6)
    assert {row.tier for row in test[:12]} == {"seen"}
    assert {row.tier for row in test[12:]} == {"unseen"}
    every = [pool.play(entrants[0].ego, np.full((5, 6), head), 0).returns for head in range(3)]
    for g, name in enumerate(pool.names):
        tried = [row.return_ for row in choosing if row.teammate == name]
        best = int(np.argmax([np.mean(tried[head::3]) for head in range(3)]))  # in turn: 0 1 2 0 1 2 …
        assert [row.return_ for row in test if row.teammate == name] == every[best][g].tolist()
    assert len({tuple(one.ravel()) for one in every}) == 3
    assert {row.stage for row in rows_of(entrants[1], pool, 2)} == {"test"}  # one head: nothing to choose
    anyone = np.array([row.return_ for row in rows_of(entrants[2], pool, 6)]).reshape(5, 6)
    again = np.array([row.return_ for row in rows_of(entrants[2], pool, 6)]).reshape(5, 6)
    np.testing.assert_array_equal(anyone, again)
