"""The examples run as they stand, with fewer steps."""

import subprocess
import sys
from pathlib import Path

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
