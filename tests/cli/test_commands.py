"""The command line, as a user runs it."""

import os

import pytest
from PIL import Image

from macop_aht.campaign.processes import environment
from macop_aht.cli import main
from macop_aht.envs.registration import BUILTIN
from macop_aht.scenarios import build


def test_lists(capsys):
    assert main(["scenarios"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[1:]][:8] == [f"Macop{name}-v0" for name in BUILTIN]
    for name in BUILTIN:
        assert main(["teammates", name]) == 0
        shown = capsys.readouterr().out
        for script in build(name).scripts:
            assert f"scripted:{script} " in shown


def test_demo(capsys, tmp_path):
    gif = tmp_path / "demo.gif"
    assert main(["demo", "--gif", str(gif), "--episodes", "64"]) == 0
    table = {line.split()[0]: line.split() for line in capsys.readouterr().out.splitlines()[1:9]}
    assert list(table) == list(BUILTIN)
    for name in ("LBF1", "LBF4", "PP1", "PP2", "CN2", "CN3"):
        matched, stranger = map(float, table[name][-2:])
        assert matched > 0.9 > 0.4 > stranger
    with Image.open(gif) as film:
        assert film.n_frames > 5


@pytest.mark.usefixtures("passing")
def test_scenarios_of_ones_own(tmp_path, monkeypatch, capsys):
    (tmp_path / "lanes.py").write_text(
        "import macop_aht\nfrom macop_aht.scenarios import LevelBasedForaging\n"
        "macop_aht.register('Alley', LevelBasedForaging(shape=(2, 9), foods=((0, 0), (0, 8)), spawn=((0, 4), (1, 4))))\n"
    )
    monkeypatch.chdir(tmp_path)
    assert main(["--import=lanes", "teammates", "Alley"]) == 0
    assert "goes to the food at (0, 8)" in capsys.readouterr().out
    own = environment(threads=1)  # of a campaign's processes, whose working folder is another
    assert own["MACOP_IMPORT"] == "lanes"
    assert str(tmp_path) in own["PYTHONPATH"].split(os.pathsep)
    assert main(["scenarios"]) == 0
    assert "MACOP_IMPORT" not in environment(threads=1)
    monkeypatch.setenv("MACOP_IMPORT", "rods")  # as such a process finds it
    assert main(["scenarios"]) == 2
    assert "No module named 'rods'" in capsys.readouterr().err
    monkeypatch.delenv("MACOP_IMPORT")
    assert main(["--import", "roads", "scenarios"]) == 2
    assert "No module named 'roads'" in capsys.readouterr().err


def test_an_error_in_code_of_the_users_says_where(tmp_path, monkeypatch, capsys):
    (tmp_path / "agents_of_mine.py").write_text("def best(world):\n    return {}['weights']\n")
    monkeypatch.chdir(tmp_path)
    command = ["evaluate", "agents_of_mine:best", "--scenario", "LBF4", "--teammates", "scripted"]
    assert main(command) == 2
    assert "macop: weights (KeyError, " in (told := capsys.readouterr().err)
    assert told.endswith("agents_of_mine.py, line 2)\n")


def test_nothing_is_begun_that_cannot_end(tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(["evaluate", "random", "--scenario", "LBF4", "--teammates", "scripted", "--csv", str(tmp_path)])
    assert "is a folder; name a file" in capsys.readouterr().err
    assert main(["zoo", "verify", "--zoo", str(tmp_path)]) == 2
    assert "there is nothing to verify" in capsys.readouterr().err
    (tmp_path / "LBF1x").mkdir()
    assert main(["zoo", "verify", "--zoo", str(tmp_path)]) == 2
    assert "LBF1x in " in capsys.readouterr().err
    (tmp_path / "c.toml").write_bytes(b"scenarios = ['\xe9']")
    assert main(["campaign", str(tmp_path / "c.toml"), "--out", str(tmp_path / "out")]) == 2
    assert f"macop: {tmp_path / 'c.toml'}: " in capsys.readouterr().err


def test_help(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["--help"])
    assert stop.value.code == 0
    assert "scenarios" in capsys.readouterr().out
