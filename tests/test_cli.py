"""The command line, as a user runs it."""

import pytest
from PIL import Image

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
    assert main(["--import", "lanes", "teammates", "Alley"]) == 0
    assert "goes to the food at (0, 8)" in capsys.readouterr().out
    assert main(["--import", "roads", "scenarios"]) == 2
    assert "No module named 'roads'" in capsys.readouterr().err


def test_help(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["--help"])
    assert stop.value.code == 0
    assert "scenarios" in capsys.readouterr().out
