"""The exported ego: what torch computes, wherever it runs."""

import hashlib
import json
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import gymnasium as gym
import numpy as np
import onnx
import onnxruntime
import pytest
import torch

from macop_aht.cli import main
from macop_aht.deploy.export import check_parity, ego_graph, recorded_feed, write_bundle
from macop_aht.deploy.runtime import BundleError, EgoAgent
from macop_aht.deploy.selectors import SELECTORS
from macop_aht.learner.networks import Ego, Shape, encode, weights
from macop_aht.methods.macop import choose_head
from macop_aht.onnx_format import read, write
from macop_aht.scenarios import SCENARIOS, build
from macop_aht.scenarios.batch import Batch


def make_ego(scenario, heads=3, seed=0):
    world = build(scenario)
    return world, Ego(Shape.of(world), heads, torch.Generator().manual_seed(seed))


@pytest.fixture
def bundle(tmp_path):
    world, ego = make_ego("LBF4")
    folder = tmp_path / "bundle"
    write_bundle(folder, weights(ego), world, {"scenario": "LBF4", "method": "macop", "seed": 0})
    return folder


# --- Parity


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_goldens_and_parity(scenario, tmp_path):
    world, ego = make_ego(scenario, heads=4)
    folder = tmp_path / "bundle"
    write_bundle(folder, weights(ego), world, {"scenario": scenario, "method": "macop", "seed": 0})
    content = (folder / "agent.onnx").read_bytes()
    onnx.checker.check_model(onnx.load_from_string(content), full_check=True)
    with torch.no_grad():
        check_parity(ego, content, world)
    golden = json.loads((folder / "manifest.json").read_text())["golden"]
    feed = {name: np.array(value, recorded_feed(world, 64, 1)[name].dtype) for name, value in golden["inputs"].items()}
    q, memory = onnxruntime.InferenceSession(content).run(["q", "next_memory"], feed)
    np.testing.assert_allclose(q, golden["outputs"]["q"], atol=1e-6)
    np.testing.assert_allclose(memory, golden["outputs"]["next_memory"], atol=1e-6)


def test_a_graph_that_differs_is_not_exported():
    world, ego = make_ego("LBF4")
    other = make_ego("LBF4", seed=1)[1]
    with torch.no_grad(), pytest.raises(ValueError, match="differs from torch"):
        check_parity(ego, write(ego_graph(weights(other), len(world.actions), world.n_agents)), world)


@pytest.mark.parametrize("scenario", ["LBF4", "CN3", "SMAC2"])
def test_the_agent_plays_as_torch_does(scenario, tmp_path):
    """Five teams over several episodes, each with its own head."""
    world, ego = make_ego(scenario)
    write_bundle(tmp_path / "b", weights(ego), world, {"scenario": scenario, "method": "macop", "seed": 0})
    agent = EgoAgent.load(tmp_path / "b", teams=5)
    for _ in range(2):
        for team in range(5):
            agent.episode_end([0.1 * team], teams=np.arange(5) == team)
    agent._head[:] = [0, 1, 2, 0, 1]
    batch, own = Batch(world, 5), world.controllable
    batch.reset()
    agent.episode_begin()
    memory, last = torch.zeros(1, 5 * own, 64), torch.full((5 * own,), -1)
    rng = np.random.default_rng(0)
    for _ in range(12):
        action = agent.act(batch.obs[:, :own], batch.mask[:, :own])
        obs = torch.from_numpy(batch.obs[:, :own].reshape(5 * own, -1).copy())
        with torch.no_grad():
            q, memory = ego.step(encode(ego.shape, obs, last, torch.arange(own).repeat(5))[None], memory)
        q = q[torch.from_numpy(np.repeat(agent.head, own)), torch.arange(5 * own)]
        mask = torch.from_numpy(batch.mask[:, :own].reshape(5 * own, -1).copy())
        last = q.masked_fill(mask == 0, -torch.inf).argmax(dim=-1)
        np.testing.assert_array_equal(action.ravel(), last.numpy())
        joint = rng.integers(0, len(world.actions), (5, world.n_agents))
        joint[:, :own] = action
        batch.step(joint)


# --- Selectors


def run_selector(name, heads, budget, returns, episodes, seed=0):
    """The heads that a selector plays, when head k's j-th episode returns `returns[k][j]`."""
    session = onnxruntime.InferenceSession(write(SELECTORS[name](heads)))
    rng, played = np.random.default_rng(seed), [0] * heads
    tried, mean = np.zeros(heads, np.float32), np.zeros(heads, np.float32)
    last, value, sequence = -1, 0.0, []
    for _ in range(episodes):
        feed = {"tried": tried, "mean_return": mean, "last_head": np.array(last), "budget": np.array(budget),
                "last_return": np.array(value, np.float32)}  # fmt: skip
        if name == "thompson":
            feed["draws"] = rng.standard_normal(heads).astype(np.float32)
        tried, mean, head, best = session.run(None, feed)
        last = int(head)
        value = returns[last][played[last] % len(returns[last])]
        played[last] += 1
        sequence.append(last)
    return sequence, int(best), mean


def test_meta_test_is_the_papers():
    returns = [[0.0, 1.0], [1.0, 1.0, 0.0], [0.9, 0.0]]
    sequence, best, mean = run_selector("meta-test", 3, 8, returns, 12)
    assert sequence == [0, 1, 2, 0, 1, 2, 0, 1, 1, 1, 1, 1]
    counts = [0, 0, 0]

    def play(head):
        counts[head] += 1
        return returns[head][(counts[head] - 1) % len(returns[head])]

    chosen, means = choose_head(play, 3, 8)
    assert sequence[8] == chosen == best == 1
    assert mean[0] == pytest.approx(means[0])


def test_halving_drops_the_worse_half():
    sequence, best, _ = run_selector("halving", 4, 16, [[0.1], [0.9], [0.5], [0.2]], 20)
    assert sorted(sequence[:8]) == [0, 0, 1, 1, 2, 2, 3, 3]
    assert set(sequence[8:16]) == {1, 2}
    assert sequence[16:] == [1] * 4
    assert best == 1


def test_thompson_tries_all_and_settles():
    for seed in range(5):
        sequence, best, _ = run_selector("thompson", 5, 20, [[0.0], [0.2], [1.0], [0.1], [0.3]], 25, seed)
        assert set(sequence[:5]) == set(range(5))
        assert best == 2
        assert sequence[20:] == [2] * 5


@pytest.mark.parametrize("name", SELECTORS)
@pytest.mark.parametrize("heads", [1, 2, 7])
def test_selectors_are_sound_files(name, heads):
    content = write(SELECTORS[name](heads))
    onnx.checker.check_model(onnx.load_from_string(content), full_check=True)
    assert read(content).notes["selector"] == name
    sequence, _, _ = run_selector(name, heads, 0, [[0.0]] * heads, 3)  # no budget: a head is played all the same
    assert all(0 <= head < heads for head in sequence)


# --- The runtime


def test_shapes_for_one_team_and_for_many(bundle):
    obs, mask = np.zeros(12), np.ones(5)
    one = EgoAgent.load(bundle)
    assert one.act(obs, mask).shape == ()
    assert one.act(obs[None], mask[None]).shape == (1,)
    assert one.act(obs[None, None], mask[None, None]).shape == (1, 1)
    many = EgoAgent.load(bundle, teams=256)
    assert many.act(np.zeros((256, 12)), np.ones((256, 5))).shape == (256,)


def test_a_state_in_json_goes_on_elsewhere(bundle):
    rng = np.random.default_rng(0)
    views = rng.uniform(0, 5, (40, 12))
    here = EgoAgent.load(bundle, selector="thompson", seed=3)

    def go(agent, first, last):
        taken = []
        for t in range(first, last):
            if t % 5 == 0:
                agent.episode_begin()
            taken.append((int(agent.act(views[t], np.ones(5))), int(agent.head[0])))
            if t % 5 == 4:
                agent.episode_end(float(t % 3))
        return taken

    go(here, 0, 17)
    saved = json.dumps(here.state)
    rest = go(here, 17, 40)
    there = EgoAgent.load(bundle, selector="thompson", seed=99)
    there.restore(json.loads(saved))
    assert go(there, 17, 40) == rest
    with pytest.raises(ValueError, match="this agent needs"):
        EgoAgent.load(bundle, teams=2).restore(json.loads(saved))
    for change, message in (({"head": [7]}, "heads to play are"), ({"draws": None}, None)):
        before = there.state
        with pytest.raises((ValueError, TypeError), match=message):
            there.restore({**json.loads(saved), **change})
        assert there.state == before
    with pytest.raises(ValueError, match="is of 'PP1'"):
        there.restore({**json.loads(saved), "scenario": "PP1"})


def test_instances_do_not_disturb_each_other_across_threads(bundle):
    views = np.random.default_rng(0).uniform(0, 5, (200, 12))

    def decisions():
        agent = EgoAgent.load(bundle)
        return [int(agent.act(view, np.ones(5))) for view in views]

    expected, found = decisions(), {}
    threads = [threading.Thread(target=lambda k=k: found.__setitem__(k, decisions())) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(found[k] == expected for k in range(4))


def test_mistakes_are_answered(bundle, tmp_path):
    agent = EgoAgent.load(bundle)
    for obs, mask, message in (
        (np.zeros(18), np.ones(5), "needs .*Is it of another scenario"),
        (np.zeros(12), np.ones(9), "mask has the shape"),
        (np.full(12, np.nan), np.ones(5), "no numbers"),
        (np.zeros(12), np.zeros(5), "leaves no action"),
    ):
        with pytest.raises(ValueError, match=message):
            agent.act(obs, mask)
    with pytest.raises(ValueError, match="give numbers"):
        agent.episode_end(float("nan"))
    with pytest.raises(ValueError, match="this bundle has halving, meta-test, thompson"):
        EgoAgent.load(bundle, selector="best")
    with pytest.raises(FileNotFoundError, match="there is no bundle"):
        EgoAgent.load(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="at least 1"):
        EgoAgent.load(bundle, teams=0)


def test_damaged_bundles_are_refused(bundle):
    manifest = json.loads((bundle / "manifest.json").read_text())
    agent = (bundle / "agent.onnx").read_bytes()

    def attempt(message, kind=BundleError):
        with pytest.raises(kind, match=message):
            EgoAgent.load(bundle)

    (bundle / "agent.onnx").write_bytes(agent[:-1])
    attempt("sha-256 differs")
    foreign = onnx.load_from_string(agent)
    foreign.opset_import[0].version = 999
    content = foreign.SerializeToString()
    (bundle / "agent.onnx").write_bytes(content)
    digest = hashlib.sha256(content).hexdigest()
    (bundle / "manifest.json").write_text(
        json.dumps({**manifest, "sha256": {**manifest["sha256"], "agent.onnx": digest}})
    )
    attempt("cannot be run by this onnxruntime")
    (bundle / "agent.onnx").write_bytes(agent)
    (bundle / "manifest.json").write_text(json.dumps({**manifest, "hidden": 32}))
    attempt("the manifest says")
    (bundle / "manifest.json").write_text(json.dumps({**manifest, "heads": "3"}))
    attempt("look at heads")
    (bundle / "manifest.json").write_text(json.dumps(manifest))
    (bundle / "agent.onnx").unlink()
    attempt("is missing from the bundle", FileNotFoundError)
    (bundle / "manifest.json").write_text(json.dumps({**manifest, "format": 2}))
    attempt("is of format 2")
    (bundle / "manifest.json").write_text("{")
    attempt("is damaged")


def test_numpy_and_onnxruntime_are_all_it_needs(bundle):
    code = f"""
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch", "numba", "gymnasium", "scipy", "matplotlib", "onnx"):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Absent())
import importlib.util
real = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name == "gymnasium" else real(name, *rest)
import numpy as np
from macop_aht.deploy.runtime import EgoAgent
agent = EgoAgent.load({str(bundle)!r})
agent.episode_begin()
print(int(agent.act(np.zeros(12), np.ones(5))))
agent.episode_end(1.0)
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() in list("01234")


def test_export_from_a_run(tmp_path, capsys):
    run, out = tmp_path / "run", tmp_path / "bundle"
    small = ["--teammate-steps", "400", "--ego-steps", "200", "--max-iterations", "1", "--min-iterations", "1"]
    assert main(["train", "LBF4", "--preset", "demo", "--threads", "1", "--out", str(run), *small]) == 0
    assert main(["export", str(run), "--out", str(out), "--episodes", "600", "--test-episodes", "4"]) == 0
    assert EgoAgent.load(out).act(np.zeros(12), np.ones(5)).shape == ()
    assert "population = 4" in (out / "run.toml").read_text()
    assert main(["export", str(run), "--out", str(out)]) == 2
    assert "is not empty" in capsys.readouterr().err
    assert main(["export", str(Path(tmp_path / "nothing")), "--out", str(tmp_path / "x")]) == 2


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("npm") is None, reason="node is not installed")
def test_node_acts_as_python_does(bundle, tmp_path):
    """Recorded LBF4 episodes, the heads chosen on the way: the same actions and the same heads."""
    source = Path(__file__).parent.parent / "examples" / "node"
    shutil.copytree(source, tmp_path / "node", ignore=shutil.ignore_patterns("node_modules"))
    subprocess.run(["npm", "install", "--ignore-scripts", "--silent"], cwd=tmp_path / "node", check=True)
    env = gym.make("MacopLBF4-v0", teammate="scripted")
    agent, recording, expected = EgoAgent.load(bundle), [], []
    for episode in range(15):
        obs, info = env.reset(seed=episode)
        agent.episode_begin()
        steps, actions, total, over, head = [], [], 0.0, False, int(agent.head[0])
        while not over:
            mask = info["action_mask"]
            action = int(agent.act(obs, mask))
            steps.append({"obs": [obs.tolist()], "mask": [mask.tolist()]})
            actions.append([action])
            obs, reward, terminated, truncated, info = env.step(action)
            total, over = total + float(reward), terminated or truncated
        total += episode % 3  # so that there is something to choose by
        agent.episode_end(total)
        recording.append({"steps": steps, "return": total})
        expected.append({"head": head, "actions": actions})
    (tmp_path / "recording.json").write_text(json.dumps(recording))
    command = ["node", "play.mjs", str(bundle), str(tmp_path / "recording.json"), "meta-test"]
    played = subprocess.run(command, cwd=tmp_path / "node", check=True, capture_output=True, text=True).stdout
    assert json.loads(played) == expected
