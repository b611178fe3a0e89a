"""Whatever is killed, and however often, ends in what an undisturbed one ends in, to the bit."""

import json
import shutil
import time
from pathlib import Path

import pytest

from macop_aht.config import to_toml
from tests.campaign.test_campaigns import TINY
from tests.hostile import report
from tests.hostile.kills import KILLS, Command, Trial, of_campaign, of_files, of_teams, of_training

LEARNING = ("--envs", "4", "--batch", "8", "--capacity", "60", "--target-every", "15", "--ratio", "4")
PPO = ("--learner=ppo", "--envs=8", "--parts=2", "--epochs=1")
TEAMS = ("selfplay", "CN2", "--out={out}", "--seed=3", "--threads=1", "--device=cpu", "--teams=2")
SMALL = ("--seed=1", "--device=cpu", "--test-episodes=4", "--out={out}", *LEARNING)
MACOP = (
    *SMALL, "--population=2", "--min-iterations=3", "--max-iterations=3", "--stop-threshold=2", "--teammate-steps=6000",
    "--ego-steps=3000", "--expansion-threshold=-9",
)  # fmt: skip
OF_TEAMS = {"result": of_teams, "lasting": "checkpoints/checkpoint-*.npz"}
OF_TRAINING = {"result": of_training, "lasting": "phases/*.npz"}


def added(folder):
    """Whether the groups are in the zoo already."""
    index = folder / "CN2" / "index.json"
    return index.is_file() and len(json.loads(index.read_text())["groups"]) > 0


COMMANDS = {
    "self-play, Q-learning, always saving": Command(
        (*TEAMS, *LEARNING, "--mixer=qmix", "--steps=1600", "--checkpoint-every=0"), **OF_TEAMS
    ),
    "self-play, Q-learning, saving now and then": Command(
        (*TEAMS, *LEARNING, "--mixer=qmix", "--steps=10000", "--checkpoint-every=0.3"), **OF_TEAMS
    ),
    "self-play, PPO": Command((*TEAMS, *PPO, "--steps=30000", "--checkpoint-every=0"), **OF_TEAMS),
    "macop": Command(("train", "LBF4", "--method=macop", "--preset=demo", "--threads=1", *MACOP), **OF_TRAINING),
    "macop in two threads": Command(
        ("train", "PP1", "--method=macop", "--preset=demo", "--threads=2", *MACOP), **OF_TRAINING
    ),
    "lipo": Command(
        ("train", "LBF4", "--method=lipo", "--preset=demo", "--threads=1", *SMALL, "--population=3", "--steps=9000"),
        **OF_TRAINING,
    ),
    "macop+ with PPO": Command(
        ("train", "LBF4", "--method=macop+", "--preset=strong", "--threads=1", "--seed=1", "--device=cpu", "--out={out}",
         "--test-episodes=4", "--population=2", "--min-iterations=2", "--max-iterations=2", "--stop-threshold=2",
         "--teammate-steps=6000", "--ego-steps=3000", "--envs=8", "--parts=2", "--epochs=1",
         "--discovery=2000", "--kept-episodes=30"),
        **OF_TRAINING,
    ),
    "export": Command(
        ("export", "{other}", "--out={out}", "--test-episodes=8", "--tier-episodes=2", "--steps=20000", "--rounds=10"),
        of_files, resumes=False, whole=Path.exists,
    ),
    "zoo add": Command(
        ("zoo", "add", "{other}", "--split=train", "--zoo={out}", "--least=0"), of_files, resumes=False, whole=added
    ),
    "campaign": Command(
        ("campaign", "{other}/tiny.toml", "--out={out}"), of_campaign, "*/*/*/phases/*.npz", resumes=False, begins_others=True
    ),
}  # fmt: skip
OTHER = {"export": "macop", "zoo add": "self-play, Q-learning, always saving"}


def trial(name, place, **others):
    """Return the trial of a command; others are the trials that it may need."""
    other = others[OTHER[name]].undisturbed if name in OTHER else place
    return Trial(COMMANDS[name], place / name.replace(" ", "-").replace(",", ""), other)


def test_a_run_that_is_killed_three_times_ends_the_same(tmp_path):
    found = Trial(
        Command((*TEAMS, *LEARNING, "--mixer=qmix", "--steps=500", "--checkpoint-every=0"), **OF_TEAMS),
        tmp_path / "run",
    )
    found.measure()
    found.disturb(3)
    assert found.kills == 3


@pytest.mark.slow
def test_a_hundred_kills(tmp_path):
    (tmp_path / "tiny.toml").write_text(to_toml(TINY))
    trials, began, lines = {}, time.monotonic(), []
    for name in COMMANDS:
        own = trials[name] = trial(name, tmp_path, **trials)
        own.warm()
        own.measure()
        own.disturb()
        lines.append((name, own.kills, own.finished, f"{own.course.seconds:.1f}"))
        print(*lines[-1], sep=" | ", flush=True)
        for folder in tmp_path.glob("*/killed-*"):
            shutil.rmtree(folder)
    assert sum(own.kills for own in trials.values()) == KILLS * len(COMMANDS) >= 100
    report.write("kills", report.kills_table(lines, time.monotonic() - began))
