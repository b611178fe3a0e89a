"""The examples run as they stand, with fewer steps."""

import subprocess
import sys
from pathlib import Path

import pytest

from macop_aht.runs.folder import RunFolder

EXAMPLES = Path(__file__).parent.parent / "examples"


def run(*words, folder=None):
    done = subprocess.run([sys.executable, *map(str, words)], cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_ppo_on_the_zoo(tmp_path):
    told = run(EXAMPLES / "ppo_on_the_zoo.py", "--steps", 2_000, folder=tmp_path)
    assert (tmp_path / "ppo.zip").exists()
    for tier in ("seen", "unseen", "scripted"):
        assert f"\n| {tier} |" in told


def test_an_agent_of_ones_own():
    told = run("-m", "macop_aht", "evaluate", "own_agent:steady", "--scenario", "LBF4", folder=EXAMPLES)
    assert "| unseen generator |" in told


def test_a_pettingzoo_loop():
    for scenario in ("LBF4", "CN3"):
        told = run(EXAMPLES / "pettingzoo_loop.py", "--scenario", scenario, "--episodes", 2)
        assert told.count("return") == 2


@pytest.mark.parametrize(
    ("package", "name", "words", "told"),
    [
        ("mpe2", "spread", ["--steps=250", "--episodes=2"], "return with random teammates: -"),
        ("lbforaging", "foraging", [], "return with scripted:in-order: 0."),
        ("cogrid", "overcooked", ["--steps=200", "--episodes=1"], "return with a random cook: "),
    ],
)
def test_environments_of_other_authors(package, name, words, told):
    """Short ones: nobody should need more to put a teammate into an environment."""
    pytest.importorskip(package)
    assert len((EXAMPLES / f"{name}.py").read_text().splitlines()) <= 40
    assert told in run(EXAMPLES / f"{name}.py", *words)


def test_a_method_of_ones_own(tmp_path):
    """By `macop train`."""
    small = ["--preset=demo", "--population=2", "--test-episodes=2", "--ego.steps=400", "--threads=1"]
    command = ["-m", "macop_aht", "--import", "own_method"]
    run(*command, "train", "LBF4", "--method=untrained", *small, f"--out={tmp_path / 'run'}", folder=EXAMPLES)
    assert RunFolder(tmp_path / "run").summary().method == "untrained"


@pytest.mark.slow
def test_a_method_of_ones_own_in_a_campaign(tmp_path):
    """Its processes import it too."""
    command = ["-m", "macop_aht", "--import", "own_method"]
    settings = "[settings.untrained]\npopulation = 2\ntest_episodes = 2\n[settings.untrained.ego]\nsteps = 400\n"
    head = 'scenarios = ["LBF4"]\nmethods = ["untrained"]\nseeds = [0]\npreset = "demo"\nepisodes = 2\n'
    (tmp_path / "c.toml").write_text(head + settings)
    run(*command, "campaign", tmp_path / "c.toml", f"--out={tmp_path / 'c'}", folder=EXAMPLES)
    assert (tmp_path / "c" / "LBF4" / "rows.csv").exists()
