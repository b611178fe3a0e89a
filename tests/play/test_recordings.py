"""Recordings: what is written is read, everything else is refused, and evaluations report without playing."""

import json
from dataclasses import replace

import numpy as np
import pytest

from macop_aht.cli import main
from macop_aht.deploy.files import bundle_manifest
from macop_aht.evaluation.agents import evaluate
from macop_aht.evaluation.recordings import Recording, append, bundle_hash, line_of, parse, person_rows, read
from macop_aht.evaluation.rows import Row
from macop_aht.play.choices import offer
from macop_aht.play.game import Game

BUNDLE = "macop-plus/CN2"


@pytest.fixture(scope="module")
def kept():
    """Two episodes with a person, and one with a script in the person's seat."""
    found, choice = [], offer("CN2").default()
    for own, episodes in ((choice, 2), (replace(choice, teammate="scripted:landmark-0", person=False), 1)):
        game = Game("CN2", own, 7, found.append)
        for _ in range(episodes):
            game.begin()
            while not game.over:
                game.step(2)
    return found


def test_what_is_written_is_read(kept, tmp_path):
    path = tmp_path / "games.jsonl"
    for own in kept:
        append(path, own)
    for own, again in zip(kept, read(path), strict=True):
        for name in ("obs", "actions", "rewards"):
            np.testing.assert_array_equal(getattr(own, name), getattr(again, name))
            assert getattr(again, name).dtype == getattr(own, name).dtype
        same = dict.fromkeys(("obs", "actions", "rewards"))
        assert {**vars(own), **same} == {**vars(again), **same}


def edited(recording: Recording, **entries):
    found = json.loads(line_of(recording)) | entries
    return json.dumps({name: entry for name, entry in found.items() if entry is not None}).encode() + b"\n"


@pytest.mark.parametrize(
    ("entries", "problem"),
    [
        ({"format": 2}, "format 2; this version reads 1"),
        ({"format": True}, "format True"),
        ({"agnet": "x"}, "unknown key 'agnet'; did you mean 'agent'"),
        ({"seed": None}, "keys seed are missing"),
        ({"stage": "training"}, "stage is 'training'"),
        ({"seat": 2}, "seat is 2; this team has 0..1"),
        ({"return_": 3.0}, "the rewards add up to"),
        ({"rewards": [0.0]}, "they must be"),
        ({"actions": [[0.5, 1]]}, "must hold integers"),
        ({"won": "yes"}, "it must be of type bool"),
    ],
)
def test_a_wrong_line_is_refused(kept, entries, problem):
    assert parse(edited(kept[0])).seed == 7
    with pytest.raises(ValueError, match=problem):
        parse(edited(kept[0], **entries))


@pytest.mark.parametrize("line", [b"\n", b"[]\n", b"{}\n", b"{" * 50 + b"\n", b'{"format": NaN}\n', b"\xff\n"])
def test_what_is_no_recording_is_refused(kept, tmp_path, line):
    path = tmp_path / "games.jsonl"
    path.write_bytes(line_of(kept[0]) + line)
    with pytest.raises(ValueError, match=r"line 2 of .* is no recorded episode"):
        list(read(path))


def test_a_line_that_is_cut_off_is_named(kept, tmp_path):
    path = tmp_path / "games.jsonl"
    path.write_bytes(line_of(kept[0]) + line_of(kept[1])[:-1])
    with pytest.raises(ValueError, match=r"line 2 .* cut off .* Remove that line"):
        list(read(path))


def test_only_persons_with_the_same_bundle_are_reported(kept, tmp_path):
    path, manifest = tmp_path / "games.jsonl", bundle_manifest(BUNDLE)
    other = replace(kept[0], sha256="0" * 64, agent="another")
    for own in (*kept, other):
        append(path, own)
    common = Row(method="macop+", scenario="CN2", teammate="", tier="", stage="")
    rows = person_rows(f"person:{path}", manifest, common)
    assert [row.return_ for row in rows] == [own.return_ for own in kept[:2]]
    assert {(row.tier, row.stage, row.teammate) for row in rows} == {
        ("person", "test", "person:games.jsonl with zero-shot")
    }
    with pytest.raises(ValueError, match=r"no episode of a person with this bundle .* another \(CN2, 000000000000\)"):
        person_rows(f"person:{path}", bundle_manifest("macop/CN2"), common)


def test_evaluate_reports_persons_and_never_plays_them(kept, tmp_path, capsys, monkeypatch):
    path = tmp_path / "games.jsonl"
    append(path, kept[0])
    monkeypatch.setattr("macop_aht.evaluation.evaluate.play", lambda *_: pytest.fail("played"))
    assert main(["evaluate", BUNDLE, "--teammates", f"person:{path}"]) == 0
    assert f"| person | 1 | 1 | {kept[0].return_:.2f} |" in capsys.readouterr().out
    assert main(["evaluate", "scripted:landmark-0", "--scenario=CN2", "--teammates", f"person:{path}"]) == 2
    assert "holds episodes of bundles" in capsys.readouterr().err


def test_persons_beside_other_teammates(kept, tmp_path):
    path = tmp_path / "games.jsonl"
    append(path, kept[0])
    rows = evaluate(BUNDLE, teammates=[f"person:{path}", "scripted:landmark-0"], episodes=2)
    assert [row.tier for row in rows if row.stage == "test"] == ["scripted", "scripted", "person"]


def test_a_recorded_person_is_no_teammate():
    import gymnasium as gym

    with pytest.raises(ValueError, match="reported and never replayed"):
        gym.make("MacopCN2-v0", teammate="person:games.jsonl")


def test_the_hash_is_of_all_files():
    manifest = bundle_manifest(BUNDLE)
    other = replace(manifest, sha256={**manifest.sha256, "agent.onnx": "0" * 64})
    assert len({bundle_hash(manifest), bundle_hash(other), bundle_hash(bundle_manifest("macop/CN2"))}) == 3
