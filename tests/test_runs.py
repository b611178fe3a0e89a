"""Runs that are killed, that meet a full disk or a damaged file, end in the same weights as undisturbed ones."""

import errno
import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from importlib.metadata import version

import numpy as np
import pytest

from macop_aht import paths
from macop_aht.cli import main
from macop_aht.config import ConfigError, from_toml, to_toml
from macop_aht.learner.selfplay import SelfPlayConfig
from macop_aht.learner.training import TrainingConfig
from macop_aht.runs import checkpoints
from macop_aht.runs.selfplay import SelfPlayRun, read_run, self_play

TRAINING = TrainingConfig(ratio=2, envs=4, batch=8, capacity=60, target_every=15, mixer="qmix")
RUN = SelfPlayRun(
    "CN2", seed=3, training=SelfPlayConfig(teams=2, steps=4_000, training=TRAINING)
)  # not over when killed
COMMAND = """
import sys
from pathlib import Path
from tests.test_runs import RUN
from macop_aht.runs.selfplay import self_play
self_play(RUN, Path(sys.argv[1]), resume=sys.argv[2] == "resume", device="cpu", checkpoint_every=float(sys.argv[3]))
"""


def weights(folder):
    arrays, _, _ = checkpoints.load(folder / "checkpoints")
    return checkpoints.flatten(arrays["learner"])


def assert_same_run(folder, reference):
    ours, theirs = weights(folder), weights(reference)
    assert set(ours) == set(theirs)
    for name, value in theirs.items():
        np.testing.assert_array_equal(ours[name], value, err_msg=name)
    lines = [(place / "metrics.jsonl").read_text().splitlines() for place in (folder, reference)]
    assert lines[0] == lines[1]
    returns = [json.loads((place / "result.json").read_text())["returns"] for place in (folder, reference)]
    assert returns[0] == returns[1]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed") / "run"
    self_play(RUN, folder, device="cpu", say=lambda line: None)
    return folder


def newest(folder):
    return max((path.name for path in (folder / "checkpoints").glob("checkpoint-*.npz")), default="")


@pytest.mark.parametrize("every", [0.0, 0.2], ids=["always saving", "saving now and then"])
def test_a_killed_run_ends_in_the_same_weights(undisturbed, tmp_path, every):
    """SIGKILL at random moments; with a checkpoint after every step, most of them fall into the writing of one."""
    folder, rng = tmp_path / "run", random.Random(5)
    for how in ("start", "resume", "resume"):
        before = newest(folder)
        process = subprocess.Popen(
            [sys.executable, "-c", COMMAND, str(folder), how, str(every)], stdout=subprocess.DEVNULL
        )
        while newest(folder) == before and process.poll() is None:
            time.sleep(0.01)
        time.sleep(rng.uniform(0, 0.15))
        process.kill()
        assert process.wait() == -signal.SIGKILL  # and had not ended before
    self_play(RUN, folder, resume=True, device="cpu", say=lambda line: None)
    assert_same_run(folder, undisturbed)


def test_a_damaged_checkpoint_falls_back_to_the_one_before(undisturbed, tmp_path):
    folder, said = tmp_path / "run", []
    with pytest.raises(KeyboardInterrupt):
        self_play(RUN, folder, device="cpu", checkpoint_every=0.0, watch=_interrupt_at(500), say=said.append)
    *_, older, newest = sorted((folder / "checkpoints").glob("*.npz"))
    content = bytearray(newest.read_bytes())
    content[len(content) // 2] ^= 0xFF
    newest.write_bytes(content)
    self_play(RUN, folder, resume=True, device="cpu", say=said.append)
    assert any(f"{newest.name} is damaged" in line and "going back" in line for line in said)
    assert any(f"going on at step {int(older.stem.split('-')[1])}" in line for line in said)
    assert_same_run(folder, undisturbed)


def test_when_all_are_damaged_it_says_so(tmp_path):
    checkpoints.save(tmp_path, 1, {"a": np.zeros(3)}, {})
    (path,) = tmp_path.glob("*.npz")
    path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(checkpoints.CheckpointError, match=r"can be read.*Start again"):
        checkpoints.load(tmp_path)
    assert checkpoints.load(tmp_path / "elsewhere") is None


def test_a_full_disk_leaves_the_last_good_checkpoint(undisturbed, tmp_path, monkeypatch):
    folder, real = tmp_path / "run", os.fsync
    calls = []

    def full(descriptor):
        calls.append(descriptor)
        if len(calls) > 3:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(checkpoints.CheckpointError, match=r"disk is full.*before still stands.*--resume"):
        self_play(RUN, folder, device="cpu", checkpoint_every=0.0, say=lambda line: None)
    monkeypatch.undo()
    assert not list((folder / "checkpoints").glob("*.unfinished"))
    self_play(RUN, folder, resume=True, device="cpu", say=lambda line: None)
    assert_same_run(folder, undisturbed)


def _interrupt_at(steps):
    def watch(progress):
        if progress.steps >= steps:
            raise KeyboardInterrupt

    return watch


def test_folders_are_not_mixed_up(undisturbed, tmp_path):
    assert read_run(undisturbed) == RUN
    with pytest.raises(FileExistsError, match="--resume"):
        self_play(RUN, undisturbed)
    with pytest.raises(ValueError, match="describes another run: seed is 3 there and 4 here"):
        self_play(replace(RUN, seed=4), undisturbed, resume=True)
    with pytest.raises(FileNotFoundError, match="leave out --resume"):
        self_play(RUN, tmp_path / "none", resume=True)
    (tmp_path / "letter.txt").write_text("dear diary")
    with pytest.raises(FileExistsError, match="holds no run"):
        self_play(RUN, tmp_path)


def test_command_line(tmp_path, capsys):
    folder = str(tmp_path / "run")
    command = ["selfplay", "CN2", "--teams", "2", "--steps", "400", "--ratio", "4", "--threads", "1", "--out", folder]
    assert main(command) == 0
    assert capsys.readouterr().out.count("greedy self-play return") == 2
    assert main(command) == 2
    assert "--resume" in capsys.readouterr().err
    assert main([*command, "--resume"]) == 0
    assert main(["selfplay", "CN9", "--out", str(tmp_path / "other")]) == 2
    for words, message in (
        (["export", folder, "--out", str(tmp_path / "b")], "is it one of macop selfplay?"),
        (["pool", folder, "--out", str(tmp_path / "rows.csv")], "is one of macop selfplay, and has no ego"),
        (
            [*command[:-1], str(tmp_path / "fourth"), "--batch", "2", "--steps", "2000", "--learning-rate", "1e30"],
            "set a smaller learning rate",
        ),
    ):
        capsys.readouterr()
        assert main(words) == 2
        assert message in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main([*command[:-1], str(tmp_path / "fifth"), "--seed", "-1"])
    assert "is not a whole number of at least 0" in capsys.readouterr().err
    assert not (tmp_path / "fifth").exists()
    assert main([*command[:-1], str(tmp_path / "third"), "--device", "tpu"]) == 2
    assert "allowed are auto, cpu, cuda" in capsys.readouterr().err
    assert any((tmp_path / "run" / "tensorboard").iterdir())


def test_configurations_are_strict():
    assert from_toml(SelfPlayRun, to_toml(RUN)) == RUN
    for text, message in {
        'scenario = "LBF4"\n[training.training]\ngama = 1': "unknown key 'training.training.gama'",
        'scenario = "LBF4"\nsed = 1': "did you mean 'seed'",
        'scenario = "LBF4"\nseed = 1.5': "must be of type int",
        'scenario = "LBF4"\n[training.training]\nmixer = "qmx"': "did you mean 'qmix'",
        'scenario = "LBF4"\n[training.training]\nratio = inf': "ratio is inf; it must be a finite number",
        "scenario = ": "not TOML",
    }.items():
        with pytest.raises(ConfigError, match=message):
            from_toml(SelfPlayRun, text)
    assert from_toml(SelfPlayRun, 'scenario = "LBF4"\n[training.training]\nratio = 2').training.training.ratio == 2.0


def test_the_commit_is_that_of_the_code(tmp_path, monkeypatch):
    """Of a checkout, with a + where the code has changed; without one, the version."""

    def git(*words):
        command = ["git", "-C", str(tmp_path), "-c", "user.name=n", "-c", "user.email=e", *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    monkeypatch.setattr(paths, "PACKAGE", tmp_path / "package")
    (tmp_path / "package").mkdir()
    assert paths.commit.__wrapped__() == f"v{version('macop-aht')}"
    git("init")
    (tmp_path / "package" / "code.py").write_text("1")
    git("add", ".")
    git("commit", "-m", "first")
    known = git("rev-parse", "--short=12", "HEAD")
    (tmp_path / "notes.txt").write_text("no code")
    assert paths.commit.__wrapped__() == known
    (tmp_path / "package" / "more.py").write_text("2")
    assert paths.commit.__wrapped__() == f"{known}+"
