"""The built wheel: what it holds, the zoo without torch, the agents with numpy and onnxruntime alone."""

import subprocess
import sys
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest

from macop_aht import __version__, zoo
from macop_aht.envs.registration import BUILTIN

ROOT = Path(__file__).parent.parent
PLAY_WITH_ALL = """
import importlib.util
import gymnasium as gym
import macop_aht
from macop_aht import zoo
from macop_aht.envs.registration import BUILTIN, env_id

assert not any(importlib.util.find_spec(name) for name in ("torch", "onnx", "scipy"))
for scenario in BUILTIN:
    for name in zoo.list(scenario):
        env = gym.make(env_id(scenario), teammate=f"zoo:{name}")
        env.reset(seed=0)
        over, steps = False, 0
        while not over:
            _, _, terminated, truncated, info = env.step(env.action_space.sample())
            over, steps = terminated or truncated, steps + 1
        assert info["teammate"] == f"zoo:{name}" and steps > 0
        print(scenario, name)
"""
ACT_ALONE = """
import importlib.util
import numpy as np
from macop_aht import paths
from macop_aht.deploy.runtime import EgoAgent

assert not any(importlib.util.find_spec(name) for name in ("torch", "onnx", "numba", "gymnasium"))
for manifest in sorted(paths.find("agents").glob("*/*/manifest.json")):
    agent = EgoAgent.load(manifest.parent)
    agent.episode_begin()
    golden = agent.manifest.golden.inputs.obs
    obs = np.tile(golden[:1], (agent.controllable, 1))
    action = agent.act(obs, np.ones((agent.controllable, len(agent.manifest.actions))))
    agent.episode_end(1.0)
    print(agent.manifest.scenario, action)
"""


def clean_environment(folder, *packages):
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    pip = [folder / "bin" / "python", "-m", "pip", "install", "--quiet"]
    for words in packages:
        subprocess.run([*pip, *words], check=True)
    return folder / "bin" / "python"


def told(python, code, folder):
    done = subprocess.run([python, "-c", code], cwd=folder, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, ROOT]
    subprocess.run(build, check=True)
    (found,) = folder.glob("*.whl")
    return found


@pytest.mark.slow
def test_every_group_of_the_zoo_plays_from_the_wheel(wheel, tmp_path):
    python = clean_environment(tmp_path / "env", [wheel])
    played = told(python, PLAY_WITH_ALL, tmp_path)
    assert played == [f"{scenario} {name}" for scenario in BUILTIN for name in zoo.list(scenario)]


@pytest.mark.slow
def test_every_agent_acts_with_numpy_and_onnxruntime_alone(wheel, tmp_path):
    python = clean_environment(tmp_path / "env", ["numpy", "onnxruntime"], ["--no-deps", wheel])
    bundles = sorted(path.parent.name for path in (ROOT / "agents").glob("*/*/manifest.json"))
    assert bundles
    assert sorted(line.split()[0] for line in told(python, ACT_ALONE, tmp_path)) == bundles


@pytest.mark.slow
def test_the_wheel_has_types_licences_and_the_version_of_the_code(wheel):
    with zipfile.ZipFile(wheel) as content:
        names = content.namelist()
        (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        told = message_from_bytes(content.read(metadata))
    assert "macop_aht/py.typed" in names
    assert told["Version"] == __version__
    assert told["License-Expression"] == "MIT"
    assert told.get_all("License-File") == ["LICENSE", "NOTICE"]
    assert "Typing :: Typed" in told.get_all("Classifier")
