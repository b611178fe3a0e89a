"""`EgoAgent`: shapes, states, mistakes, and what it needs to run."""

import copy
import json
import pickle
import subprocess
import sys
import threading

import numpy as np
import pytest
import torch

from macop_aht.deploy.runtime import EgoAgent
from macop_aht.export.bundle import RunInfo, write_bundle
from macop_aht.export.generalist import with_generalist
from macop_aht.learner.networks import Ego, encode, weights
from macop_aht.scenarios.batch import Batch
from tests.bundles import make_ego, rewritten


@pytest.mark.parametrize("scenario", ["LBF4", "CN3", "SMAC2"])
def test_the_agent_plays_as_torch_does(scenario, tmp_path):
    """Five teams over several episodes, each with its own head, one of them with the generalist head."""
    world, ego = make_ego(scenario, heads=2)
    net = Ego(ego.shape, 1, torch.Generator().manual_seed(1))
    write_bundle(tmp_path / "b", weights(ego), world, RunInfo(scenario, "macop", 0), generalist=weights(net))
    ego = with_generalist(ego, net)
    agent = EgoAgent.load(tmp_path / "b", selector=None, teams=5)
    agent.head = [0, 1, 2, 0, 1]
    batch, own = Batch(world, 5), world.controllable
    batch.reset()
    agent.episode_begin()
    memory, last = torch.zeros(1, 5 * own, ego.shape.hidden), torch.full((5 * own,), -1)
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


def test_zero_shot_states_and_mistakes(told):
    folder = told[3]
    views = np.random.default_rng(0).uniform(-1, 1, (30, 10))

    def go(agent, first, last):
        return [(int(agent.act(view, np.ones(5))), int(agent.head[0]), *agent.belief[0]) for view in views[first:last]]

    here, there = (EgoAgent.load(folder, selector="zero-shot") for _ in range(2))
    go(here, 0, 7)
    saved = json.dumps(here.state)
    there.restore(json.loads(saved))
    assert go(here, 7, 30) == go(there, 7, 30)
    before = there.state
    for obs, mask in ((np.full(10, np.nan), np.ones(5)), (np.zeros(10), np.zeros(5)), (np.zeros(12), np.ones(5))):
        with pytest.raises(ValueError, match=r"NaN or infinity|leaves no action|has the shape"):
            there.act(obs, mask)
    other = EgoAgent.load(folder, selector="meta-test")
    for agent, state, message in (
        (there, other.state, "of another bundle, selector or budget"),
        (other, json.loads(saved), "of another bundle, selector or budget"),
        (there, {**json.loads(saved), "belief": [[float("nan")] * len(before["belief"][0])]}, "NaN or infinity"),
    ):
        with pytest.raises(ValueError, match=message):
            agent.restore(state)
    assert there.state == before
    with pytest.raises(ValueError, match="only a zero-shot selector"):
        _ = other.belief
    with pytest.raises(ValueError, match="a selector chooses the heads"):
        other.head = 1
    free = EgoAgent.load(folder, selector=None, teams=2)
    free.head = [1, 0]
    assert free.head.tolist() == [1, 0]
    for wrong in (2, -1, [0, 1, 0], 0.5):
        with pytest.raises(ValueError, match="head"):
            free.head = wrong


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
        EgoAgent.load(bundle, selector="thompson", teams=2).restore(json.loads(saved))
    for options in ({"selector": "halving"}, {"selector": "thompson", "budget": 5}):
        with pytest.raises(ValueError, match="of another bundle, selector or budget"):
            EgoAgent.load(bundle, **options).restore(json.loads(saved))
    there.restore(json.loads(saved))
    again, twin = pickle.loads(pickle.dumps(there)), copy.deepcopy(there)
    assert go(again, 17, 40) == go(twin, 17, 40) == rest
    assert there.state == json.loads(saved)  # which these two have not touched
    for change, message in (
        ({"head": [7]}, "head in this state is"),
        ({"draws": None}, "no state of a random generator"),
    ):
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


def test_returns_of_some_teams_in_either_form(bundle):
    done = np.array([True, False, True])
    few, all_of_them = (EgoAgent.load(bundle, "meta-test", teams=3) for _ in range(2))
    few.episode_end([1.0, 3.0], done)
    all_of_them.episode_end([1.0, np.nan, 3.0], done)  # what is not asked for does not matter
    assert few.state == all_of_them.state
    assert few.state["mean_return"][2][0] == 3.0


def test_mistakes_are_answered(bundle, tmp_path):
    agent = EgoAgent.load(bundle)
    for obs, mask, message in (
        (np.zeros(18), np.ones(5), "needs .*Is it of another scenario"),
        (np.zeros(12), np.ones(9), "mask has the shape"),
        (np.full(12, np.nan), np.ones(5), "obs contains NaN or infinity"),
        (np.zeros(12), np.zeros(5), "leaves no action"),
    ):
        with pytest.raises(ValueError, match=message):
            agent.act(obs, mask)
    for returns, teams, message in (
        (float("nan"), None, "they must be finite numbers"),
        ([1.0, 0.0], None, "give one number for all, or 1, one for each team"),
        (1.0, [0], "give 1 truth values, one for each team"),  # a number of a team is none of them
        (1.0, np.array([True, False]), "give 1 truth values, one for each team"),
    ):
        with pytest.raises(ValueError, match=message):
            agent.episode_end(returns, teams)
    with pytest.raises(ValueError, match="give 1 truth values"):
        agent.episode_begin(np.array([0]))
    for budget in (0, -3, 1.5):
        with pytest.raises(ValueError, match="give a whole number of episodes"):
            EgoAgent.load(bundle, budget=budget)
    with pytest.raises(ValueError, match="this bundle has halving, meta-test, thompson, zero-shot"):
        EgoAgent.load(bundle, selector="best")
    with pytest.raises(FileNotFoundError, match="there is no bundle"):
        EgoAgent.load(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="at least 1"):
        EgoAgent.load(bundle, teams=0)


def test_the_default_selector_is_zero_shot_where_there_is_one(bundle):
    assert EgoAgent.load(bundle).belief.shape == (1, 5)
    (bundle / "selectors" / "zero-shot.onnx").unlink()
    rewritten(bundle, lambda told: (told.pop("zero_shot"), told["sha256"].pop("selectors/zero-shot.onnx")))
    agent = EgoAgent.load(bundle)
    assert agent.budget == 4 * agent.manifest.run_heads
    with pytest.raises(ValueError, match="unknown selector 'zero-shot'"):
        EgoAgent.load(bundle, "zero-shot")


def test_a_shipped_bundle_is_loaded_by_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    agent = EgoAgent.load("macop-plus/LBF4")
    assert agent.manifest.scenario == "LBF4"
    assert agent.belief.shape == (1, len(agent.manifest.zero_shot.groups))
    with pytest.raises(FileNotFoundError, match="there is no bundle"):
        EgoAgent.load("macop-plus/LBF5")


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
