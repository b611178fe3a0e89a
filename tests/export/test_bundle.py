"""From a run to a bundle: parity, cards, export, and other runtimes."""

import hashlib
import json
import shutil
import subprocess
from pathlib import Path
from zlib import crc32

import gymnasium as gym
import numpy as np
import onnx
import onnxruntime
import pytest
import torch

from macop_aht import paths, zoo
from macop_aht.cli import main
from macop_aht.deploy.files import read_manifest
from macop_aht.deploy.manifest import text_of
from macop_aht.deploy.runtime import EgoAgent
from macop_aht.episodes.matches import play, sessions
from macop_aht.evaluation.bundles import AgentSeats
from macop_aht.export.bundle import RunInfo, group_policies, write_bundle
from macop_aht.export.card import calibration
from macop_aht.export.ego_graph import ego_graph, run_weights
from macop_aht.export.parity import check_parity
from macop_aht.learner.networks import weights
from macop_aht.onnx import read, write
from macop_aht.policies import OnnxPolicy, resolve
from macop_aht.scenarios import SCENARIOS
from macop_aht.zoo.graphs import group_graph
from tests.bundles import make_ego


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_goldens_and_parity(scenario, tmp_path):
    world, ego = make_ego(scenario, heads=4)
    folder = tmp_path / "bundle"
    manifest = write_bundle(folder, weights(ego), world, RunInfo(scenario, "macop", 0))
    content = (folder / "agent.onnx").read_bytes()
    onnx.checker.check_model(onnx.load_from_string(content), full_check=True)
    with torch.no_grad():
        check_parity(ego, content, world)
    golden = read_manifest(folder).golden
    q, memory = onnxruntime.InferenceSession(content).run(["q", "next_memory"], vars(golden.inputs))
    np.testing.assert_allclose(q, golden.outputs.q, atol=1e-6)
    np.testing.assert_allclose(memory, golden.outputs.next_memory, atol=1e-6)
    assert text_of(manifest) == (folder / "manifest.json").read_text()


def test_a_graph_that_differs_is_not_exported():
    world, ego = make_ego("LBF4")
    other = make_ego("LBF4", seed=1)[1]
    with torch.no_grad(), pytest.raises(ValueError, match="differs from torch"):
        check_parity(ego, write(ego_graph(weights(other), len(world.actions), world.n_agents)), world)


def test_sessions_are_matches(bundle):
    """The first episodes of a head that stays the same return what matches of its network return."""
    world, ego = make_ego("LBF4")
    mates = resolve("scripted", world)[:3]
    parts = {name: array[1 if name.startswith("heads.") else 0] for name, array in weights(ego).items()}
    alone = OnnxPolicy("head.onnx", world, write(group_graph(parts, len(world.actions), world.n_agents)))
    expected = play(world, alone, mates, episodes=8, seed=5)
    seeds = [(crc32(f"5 {mate.name}".encode()) << 20) + k for mate in mates for k in range(8)]
    agent = EgoAgent.load(bundle, selector=None, teams=24)
    agent.head = 1
    returns = sessions(world, AgentSeats(agent), mates, np.repeat(np.arange(3), 8), 2, seeds)
    np.testing.assert_array_equal(returns[:, 0], expected.returns.ravel())


def test_calibration_by_hand():
    found = calibration(np.array([0.95, 0.95, 0.52, 0.58, 0.1]), np.array([True, True, True, False, False]))
    assert found.error == pytest.approx((2 * 0.05 + 2 * 0.05 + 0.1) / 5)
    assert found.accuracy == pytest.approx(0.6)
    assert [part.steps for part in found.bins] == [1, 2, 2]


def test_export_from_a_run(tmp_path, capsys):
    run, out = tmp_path / "run", tmp_path / "bundle"
    small = ["--teammate-steps", "400", "--ego-steps", "200", "--max-iterations", "1", "--min-iterations", "1"]
    small += ["--expansion-rule", "reach"]  # a head for every group
    assert main(["train", "LBF4", "--preset", "demo", "--threads", "1", "--out", str(run), *small]) == 0
    brief = ["--steps", "5000", "--rounds", "2", "--test-episodes", "4", "--tier-episodes", "2"]
    assert main(["export", str(run), "--out", str(out), *brief]) == 0
    assert EgoAgent.load(out).act(np.zeros(12), np.ones(5)).shape == ()
    assert EgoAgent.load(out, selector="zero-shot").act(np.zeros(12), np.ones(5)).shape == ()
    manifest, card = read_manifest(out), (out / "card.md").read_text()
    own, figures = manifest.run_heads, manifest.figures
    assert manifest.heads == len(figures.returns) == own + 1 > 2
    for head, row in zip([*range(own), "generalist"], figures.returns, strict=True):
        assert f"| {head} | {' | '.join(f'{value:.2f}' for value in row)} |" in card
    assert f"calibration error: {figures.calibration.error:.3f}" in card
    assert (out / "heads.png").stat().st_size > 1_000
    assert "![returns](heads.png)" in card
    known, learnt = manifest.groups, json.loads((run / "summary.json").read_text())["joined"]
    assert (known.generator, [*known.learnt_with]) == ("macop", learnt)
    for group, files in zip(group_policies(run), known.sha256.values(), strict=True):
        assert hashlib.sha256(group.content).hexdigest() == files[0]
    strangers = [known for known in zoo.cards("LBF4").values() if known.split == "test" and known.generator != "macop"]
    for selector in ("zero-shot", "meta-test"):
        tables = card.split(f"## With teammates of every tier: {selector}")[1].split("##")[0]
        assert f"| unseen generator | {len(strangers)} | {2 * len(strangers)} |" in tables
        assert "| scripted | " in tables
    assert "population = 4" in (out / "run.toml").read_text()
    assert main(["export", str(run), "--out", str(out)]) == 2
    assert "is not empty" in capsys.readouterr().err
    assert main(["export", str(out), "--out", str(tmp_path / "again")]) == 2
    assert "the zoo lacks the groups" in capsys.readouterr().err
    assert main(["export", str(Path(tmp_path / "nothing")), "--out", str(tmp_path / "x")]) == 2


def test_a_bundle_is_exported_again(tmp_path):
    """With the zoo's groups, without its run: the run's heads and what is known of its groups stay, the rest is new."""
    before, after = paths.find("agents") / "macop" / "CN2", tmp_path / "again"
    brief = ["--steps", "2000", "--rounds", "0", "--test-episodes", "2", "--tier-episodes", "0", "--plot", "no"]
    assert main(["export", str(before), "--out", str(after), *brief]) == 0
    old, new = read_manifest(before), read_manifest(after)
    kept = [run_weights(read((folder / "agent.onnx").read_bytes())) for folder in (before, after)]
    for first, second in zip(*(found.values() for found in kept), strict=True):
        np.testing.assert_array_equal(first, second)
    assert new.heads == new.run_heads == 2
    assert old.groups == new.groups
    assert new.sha256["selectors/zero-shot.onnx"] != old.sha256["selectors/zero-shot.onnx"]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("npm") is None, reason="node is not installed")
@pytest.mark.parametrize("selector", ["meta-test", "zero-shot"])
def test_node_acts_as_python_does(bundle, tmp_path, selector):
    """Recorded LBF4 episodes, the heads chosen on the way: the same actions and the same heads."""
    source = Path(__file__).parent.parent.parent / "examples" / "node"
    shutil.copytree(source, tmp_path / "node", ignore=shutil.ignore_patterns("node_modules"))
    subprocess.run(["npm", "install", "--ignore-scripts", "--silent"], cwd=tmp_path / "node", check=True)
    env = gym.make("MacopLBF4-v0", teammate="scripted")
    agent, recording, expected = EgoAgent.load(bundle, selector=selector), [], []
    for episode in range(15):
        obs, info = env.reset(seed=episode)
        agent.episode_begin()
        steps, actions, total, over = [], [], 0.0, False
        while not over:
            mask = info["action_mask"]
            action = int(agent.act(obs, mask))
            steps.append({"obs": [obs.tolist()], "mask": [mask.tolist()]})
            actions.append([action])
            obs, reward, terminated, truncated, info = env.step(action)
            total, over = total + float(reward), terminated or truncated
        head = int(agent.head[0])
        total += episode % 3  # so that there is something to choose by
        agent.episode_end(total)
        recording.append({"steps": steps, "return": total})
        expected.append({"head": head, "actions": actions})
    (tmp_path / "recording.json").write_text(json.dumps(recording))
    command = ["node", "play.mjs", str(bundle), str(tmp_path / "recording.json"), selector]
    played = subprocess.run(command, cwd=tmp_path / "node", check=True, capture_output=True, text=True).stdout
    assert json.loads(played) == expected
