"""Runs that meet a full disk or a damaged file end in the same weights as undisturbed ones; locks, formats, commands."""

import errno
import json
import os
import shutil
import subprocess
import sys
import warnings
import zipfile
from dataclasses import replace
from importlib.metadata import version
from itertools import count

import numpy as np
import pytest

from macop_aht import paths
from macop_aht.cli import main
from macop_aht.config import ConfigError, from_toml, to_toml
from macop_aht.learner.ppo import ProximalConfig
from macop_aht.learner.selfplay import SelfPlayConfig
from macop_aht.learner.training import TrainingConfig
from macop_aht.runs import checkpoints
from macop_aht.runs.folder import RunFolder
from macop_aht.runs.lock import LockedError, folder_lock
from macop_aht.runs.records import DamagedError, FormatError, Part, PhaseNote, Summary
from macop_aht.runs.selfplay import SelfPlayRun, read_run, self_play

TRAINING = TrainingConfig(ratio=2, envs=4, batch=8, capacity=60, target_every=15, mixer="qmix")
ROUNDS = TrainingConfig(learner="ppo", ppo=ProximalConfig(envs=8, parts=2))
RUN = SelfPlayRun("CN2", seed=3, training=SelfPlayConfig(teams=2, steps=4_000, training=TRAINING))


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
    returns = [RunFolder(place).result().returns for place in (folder, reference)]
    assert returns[0] == returns[1]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed") / "run"
    self_play(RUN, folder, device="cpu", say=lambda line: None)
    return folder


class Stop(Exception):
    pass


@pytest.mark.parametrize(
    ("environment", "training"),
    [("make_walk", TRAINING), ("make_walk", ROUNDS), ("make_forgetful", TRAINING)],
    ids=["q", "ppo", "not deterministic"],
)
def test_a_run_in_a_users_environment_is_resumed(tmp_path, environment, training):
    """To the same weights where the environment is deterministic; where it is not, the run says so and goes on."""
    run = replace(RUN, scenario=f"tests.environments:{environment}", training=SelfPlayConfig(2, 2_000, training))
    quiet = {"device": "cpu", "say": lambda line: None, "checkpoint_every": 0.1}
    steps = []

    def stop(progress):
        steps.append(progress.steps)
        if progress.steps > 1_000:
            raise Stop

    self_play(run, tmp_path / "whole", **quiet)
    with pytest.raises(Stop):
        self_play(run, tmp_path / "killed", watch=stop, **quiet)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        self_play(run, tmp_path / "killed", resume=True, **quiet)
    told = [str(warning.message) for warning in told if "not deterministic" in str(warning.message)]
    if environment == "make_walk":
        assert not told
        assert_same_run(tmp_path / "killed", tmp_path / "whole")
    else:
        assert told
    assert RunFolder(tmp_path / "killed").finished


def test_a_damaged_checkpoint_falls_back_to_the_one_before(undisturbed, tmp_path, monkeypatch):
    folder, said, save, saved = tmp_path / "run", [], checkpoints.save, count(1)

    def interrupted(*given):
        path = save(*given)
        if next(saved) == 60:
            raise KeyboardInterrupt
        return path

    monkeypatch.setattr(checkpoints, "save", interrupted)
    with pytest.raises(KeyboardInterrupt):
        self_play(RUN, folder, device="cpu", checkpoint_every=0.0, say=said.append)
    monkeypatch.undo()
    *_, older, newest = sorted((folder / "checkpoints").glob("*.npz"))
    content = bytearray(newest.read_bytes())
    content[len(content) // 2] ^= 0xFF
    newest.write_bytes(content)
    self_play(RUN, folder, resume=True, device="cpu", say=said.append)
    assert any(f"{newest.name} is damaged" in line and "going back" in line for line in said)
    assert any(f"resuming at step {int(older.stem.split('-')[1])}" in line for line in said)
    assert_same_run(folder, undisturbed)


def test_a_checkpoint_is_a_readable_archive(tmp_path):
    path = checkpoints.save(tmp_path, 1, {"w": np.arange(4)}, {})
    with np.load(path) as stored, zipfile.ZipFile(path) as archive:
        assert stored["w"].tolist() == [0, 1, 2, 3]
        assert archive.testzip() is None
        assert archive.comment.startswith(b"macop sha-256 ")


# --- Locks

HOLD = """
import sys, time
from pathlib import Path
from macop_aht.runs.lock import folder_lock
with folder_lock(Path(sys.argv[1]), "train"):
    print("held", flush=True)
    time.sleep(60)
"""
RACE = """
import sys, time
from pathlib import Path
from macop_aht.runs.lock import LockedError, folder_lock
folder, held = Path(sys.argv[1]), 0
while held < 30:
    try:
        with folder_lock(folder, "train"):
            mark = folder.with_name("mark")
            mark.touch(exist_ok=False)
            time.sleep(0.001)
            mark.unlink()
            held += 1
    except LockedError:
        time.sleep(0.001)
"""


def process(code, *words):
    return subprocess.Popen([sys.executable, "-c", code, *map(str, words)], stdout=subprocess.PIPE, text=True)


def test_a_second_process_is_told_the_first_ones_id_and_a_dead_ones_lock_is_free(tmp_path):
    folder = tmp_path / "run"
    with process(HOLD, folder) as first:
        assert first.stdout.readline() == "held\n"
        with pytest.raises(LockedError, match=f"process {first.pid} train is at work in {folder}"):
            self_play(RUN, folder, device="cpu")
        assert not folder.exists()
        first.kill()
    with folder_lock(folder, "train"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_three_processes_are_never_in_a_folder_together(tmp_path):
    three = [process(RACE, tmp_path / "run") for _ in range(3)]
    assert [one.wait() for one in three] == [0, 0, 0]  # each finds no mark of another, thirty times


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
    with pytest.raises(checkpoints.CheckpointError, match=r"disk is full.*before are intact.*--resume"):
        self_play(RUN, folder, device="cpu", checkpoint_every=0.0, say=lambda line: None)
    monkeypatch.undo()
    assert not list((folder / "checkpoints").glob("*.unfinished"))
    self_play(RUN, folder, resume=True, device="cpu", say=lambda line: None)
    assert_same_run(folder, undisturbed)


@pytest.mark.parametrize("damage", [b"", b'{"format": 2,', b"\xff\0", b"[" * 99_999, b"null"])
def test_a_damaged_mark_of_a_finished_run_is_made_again(undisturbed, tmp_path, damage):
    folder = shutil.copytree(undisturbed, tmp_path / "run")
    (folder / "result.json").write_bytes(damage)
    (folder / "checkpoints" / "checkpoint-000000007.npz.unfinished").write_text("left by a killed process")
    assert not RunFolder(folder).finished
    with pytest.raises(DamagedError, match=r"result\.json is damaged .* --resume makes the run whole again"):
        RunFolder(folder).require_finished()
    self_play(RUN, folder, resume=True, device="cpu", say=lambda line: None)
    assert_same_run(folder, undisturbed)
    assert not list(folder.rglob("*.unfinished"))


def test_a_damaged_record_is_named(tmp_path):
    run = RunFolder(tmp_path / "run")
    run.begin(RUN, resume=False)
    run.add_part(Part(1.0, "abc"))
    (run.path / "parts.json").write_text("{")
    with pytest.warns(UserWarning, match=r"parts\.json cannot be read .* minutes of earlier parts are lost"):
        assert run.add_part(Part(2.0, "def")) == [Part(2.0, "def")]
    assert run.minutes == 2.0
    (run.path / "decisions.jsonl").write_text('{"format": 2, "phase": "a"}\n{"format": 2, "pha')
    with pytest.raises(DamagedError, match=r"decisions\.jsonl is damaged"):
        run.decisions()


def test_what_a_killed_process_was_writing_does_not_stop_the_next(tmp_path):
    (tmp_path / "run.toml.unfinished").write_text("format = ")
    with pytest.raises(FileExistsError, match="not empty"):
        RunFolder(tmp_path.parent).begin(RUN, resume=False)
    RunFolder(tmp_path).begin(RUN, resume=False)
    assert [path.name for path in tmp_path.iterdir()] == ["run.toml"]


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


# --- Formats


def make_old(folder):
    """Take a self-play run's folder back to what earlier versions wrote."""
    run = folder / "run.toml"
    run.write_text(run.read_text().replace("format = 2\n", ""))
    result = json.loads((folder / "result.json").read_text())
    del result["format"]
    (folder / "result.json").write_text(json.dumps(result))
    for path in (folder / "checkpoints").glob("*.npz"):
        with np.load(path) as stored:
            np.savez(path, **{name: stored[name] for name in stored.files})


def test_a_folder_of_an_earlier_format_is_converted_by_the_command_that_the_error_names(undisturbed, tmp_path, capsys):
    folder = tmp_path / "run"
    shutil.copytree(undisturbed, folder)
    make_old(folder)
    with pytest.raises(FormatError, match=f"convert it first: macop convert {folder}"):
        read_run(folder)
    assert main(["convert", str(tmp_path)]) == 0
    assert f"run {folder}: converted" in capsys.readouterr().out
    assert_same_run(folder, undisturbed)
    assert read_run(folder) == RUN
    assert main(["convert", str(folder)]) == 0
    assert "nothing to convert" in capsys.readouterr().out


def test_old_records_get_their_new_names(tmp_path):
    (tmp_path / "run.toml").write_text(
        'scenario = "LBF4"\nmethod = "macop+"\nseed = 1\nthreads = 1\n[config]\nalpha_keep = 10.0\n'
    )
    lesson = {"phase": "ego-01-00", "group": "0/0", "old_heads": [0.5], "chosen": 0, "kept": False, "heads": 1}
    selection = {"phase": "population-02", "groups": ["0/0"], "chosen": [1, 0], "compatibility": 0.5}
    (tmp_path / "decisions.jsonl").write_text("".join(json.dumps(one) + "\n" for one in (lesson, selection)))
    summary = {"scenario": "LBF4", "method": "macop+", "seed": 1, "groups": ["0/0"], "deeds": ["food 0,0"], "note": 7}
    (tmp_path / "summary.json").write_text(json.dumps(summary))
    (tmp_path / "parts.json").write_text(json.dumps([{"minutes": 1.5, "commit": "abc"}]))
    old = {
        "net": np.zeros(2),
        "note.json": np.frombuffer(
            json.dumps({"names": ["0/0"], "decision": selection, "metrics": 1, "steps": 2}).encode(), np.uint8
        ),
    }
    (tmp_path / "phases").mkdir()
    np.savez(tmp_path / "phases" / "population-02.npz", **old)
    assert main(["convert", str(tmp_path)]) == 0
    run = RunFolder(tmp_path)
    assert run.settings["config"] == {"alpha_distil": 10.0}
    first, second = run.decisions()
    assert (first.best_head, first.candidate_heads, second.best_head, second.candidate_heads) == (0, None, None, [1, 0])
    assert run.summary() == Summary("LBF4", "macop+", 1, ["0/0"], outcomes=["food 0,0"])
    assert json.loads((tmp_path / "note.json").read_text()) == 7  # what others have added is kept beside it
    assert (run.minutes, run.commits) == (1.5, ["abc"])
    assert run.read_phase("population-02")[1] == PhaseNote(second, names=["0/0"], metrics=1, steps=2)


def test_records_are_read_strictly(tmp_path):
    run = RunFolder(tmp_path / "run")
    run.begin(RUN, resume=False)
    for values, message in (
        ({"format": 3}, "has format 3, and this version reads 2; update"),
        ({"format": 2, "returns": [], "progress": {}, "color": 1}, "unknown key 'color'"),
        ({"format": 2, "returns": []}, "lacks a key"),
    ):
        (run.path / "result.json").write_text(json.dumps(values))
        with pytest.raises(FormatError, match=message):
            run.result()
