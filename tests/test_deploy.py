"""The exported ego: what torch computes, wherever it runs."""

import copy
import hashlib
import json
import pickle
import re
import shutil
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from zlib import crc32

import gymnasium as gym
import numpy as np
import onnx
import onnxruntime
import pytest
import torch

from macop_aht import paths, zoo
from macop_aht.cli import main
from macop_aht.deploy.convert import convert_bundle
from macop_aht.deploy.documents import DEEPEST, LARGEST, LONGEST, BundleError
from macop_aht.deploy.files import read_manifest
from macop_aht.deploy.manifest import RunGroups, parse, text_of
from macop_aht.deploy.runtime import EgoAgent
from macop_aht.deploy.selectors import SELECTORS, zero_shot
from macop_aht.episodes.heads import choose_head
from macop_aht.episodes.matches import play, sessions
from macop_aht.episodes.runner import Hook
from macop_aht.evaluation.bundles import AgentSeats
from macop_aht.export import generalist
from macop_aht.export.bundle import RunInfo, ZeroShotSelector, group_policies, whole, write_bundle
from macop_aht.export.card import calibration
from macop_aht.export.ego_graph import ego_graph, run_weights
from macop_aht.export.generalist import TRACE, GeneralistConfig, GeneralistTrainer, advantages, with_generalist
from macop_aht.export.parity import check_parity, check_recogniser, recorded_feed
from macop_aht.export.recogniser import Collector, Recogniser, RecogniserConfig, train
from macop_aht.export.synthetic import RATIO, Swaps, with_synthetic
from macop_aht.learner.networks import Ego, Shape, Stack, encode, set_weights, weights
from macop_aht.learner.rollout import Seating, greedy_returns
from macop_aht.learner.threads import use_threads
from macop_aht.onnx_format import FormatError, read, write
from macop_aht.policies import OnnxPolicy, Switching, resolve
from macop_aht.scenarios import SCENARIOS, build
from macop_aht.scenarios.batch import Batch
from macop_aht.zoo.graphs import group_graph


def make_ego(scenario, heads=3, seed=0):
    world = build(scenario)
    return world, Ego(Shape.of(world), heads, torch.Generator().manual_seed(seed))


def make_recogniser(world, ego, returns, seed=1, generalist=False, **settings):
    generator = torch.Generator().manual_seed(seed)
    return Recogniser(Shape.of(world), returns, RecogniserConfig(**settings), world.limit, generator, generalist)


@pytest.fixture
def bundle(tmp_path):
    """Three heads of a run and a generalist head, none of them trained."""
    world, ego = make_ego("LBF4")
    folder, rng = tmp_path / "bundle", np.random.default_rng(0)
    net = Ego(ego.shape, 1, torch.Generator().manual_seed(1))
    joined = with_generalist(ego, net)
    untrained = make_recogniser(world, joined, rng.random((4, 5)), seed=0, generalist=True)
    selector = ZeroShotSelector([f"0/{k}" for k in range(5)], weights(untrained))
    known = RunGroups("macop", ("0/0",), {f"0/{k}": (f"{k}" * 64,) for k in range(5)})
    run = RunInfo("LBF4", "macop", 0, known)
    write_bundle(folder, weights(ego), world, run, selector=selector, generalist=weights(net))
    return folder


# --- Parity


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


# --- The generalist head


def test_a_generalist_head_joins_an_ego():
    """Over several steps, the heads give what they gave, and the last one what the network gives that it was made of."""
    world, ego = make_ego("CN3", heads=3)
    net = Ego(ego.shape, 1, torch.Generator().manual_seed(1))
    joined, feed = with_generalist(ego, net), recorded_feed(world, ego.shape.hidden, 24)
    given = (torch.from_numpy(feed[name]) for name in ("obs", "last_action", "agent"))
    rows = encode(ego.shape, *given).view(4, 1, 6, -1)
    memories = [torch.zeros(1, 6, part.shape.hidden) for part in (ego, net, joined)]
    with torch.no_grad():
        for inputs in rows:
            (own, memories[0]), (other, memories[1]), (both, memories[2]) = (
                part.step(inputs, memory) for part, memory in zip((ego, net, joined), memories, strict=True)
            )
            torch.testing.assert_close(both, torch.cat([own, other]))
        graph = ego_graph(weights(ego), len(world.actions), world.n_agents, weights(net))
        check_parity(joined, write(graph), world, generalist=True)
        again = Ego(ego.shape, 3)
        set_weights(again, run_weights(read(write(graph))))
        torch.testing.assert_close(again.step(rows[0], memories[0])[0], ego.step(rows[0], memories[0])[0])
    earlier = replace(graph, weights={name: array for name, array in graph.weights.items() if name != "apart"})
    with pytest.raises(FormatError, match="an earlier version wrote it"):
        run_weights(earlier)


def test_advantages_by_hand():
    """Two episodes, of three steps and of one; the values behind an end do not count."""
    reward = np.array([[0.0, 2.0], [1.0, 9.0], [3.0, 9.0]])
    value = np.array([[0.5, 1.0], [1.0, 7.0], [2.0, 7.0], [8.0, 7.0]])
    last = 3.0 - 2.0
    middle = 1.0 + 0.5 * 2.0 - 1.0 + 0.5 * TRACE * last
    first = 0.0 + 0.5 * 1.0 - 0.5 + 0.5 * TRACE * middle
    found = advantages(reward, value, np.array([3, 1]), gamma=0.5)
    np.testing.assert_allclose(found, [[first, 2.0 - 1.0], [middle, 0.0], [last, 0.0]])


def trained_generalist(rounds, monkeypatch):
    """The network, its two groups of opposite actions, and the world: each head of the ego is right with one of them."""
    monkeypatch.setattr("macop_aht.export.synthetic.STEPS", 1_600)
    world, ego = make_ego("CN2", heads=2)
    teams = stubborn(world, (SOUTH, NORTH))
    ego.heads.load_state_dict(stubborn(world, (NORTH, SOUTH)).heads.state_dict())
    returns = np.array([[1.0, 0.0, 0.0, 1.0], [0.0, 1.0, 1.0, 0.0]])
    config = GeneralistConfig(rounds=rounds)
    return generalist.train(world, ego, with_synthetic(ego, teams), returns, config, seed=0), teams, world


def test_the_same_seed_gives_the_same_generalist_head(monkeypatch):
    net, twin, other = (trained_generalist(rounds, monkeypatch)[0] for rounds in (2, 2, 3))
    assert all(torch.equal(a, b) for a, b in zip(net.parameters(), twin.parameters(), strict=True))
    assert not torch.equal(net.heads.head2.bias, other.heads.head2.bias)


def trainer_in_cn2():
    """The trainer of a generalist head with two groups of one action each and two untrained heads, and their world."""
    world, ego = make_ego("CN2", heads=2)
    groups = with_synthetic(ego, stubborn(world, (SOUTH, NORTH)))
    return GeneralistTrainer(world, ego, groups, np.ones((2, 4)), GeneralistConfig(), seed=0), world


def test_a_generalist_head_plays_on_when_its_teammates_are_swapped():
    """It knows its last action, and the critic is told who is there now."""
    trainer, world = trainer_in_cn2()
    episodes, shape = trainer._play(swaps=1.0), trainer.net.shape
    changed = (episodes.group[1:] != episodes.group[:-1]).any(dim=0)
    as_they_are = (episodes.noise == 0) & ~episodes.permuted
    assert changed[as_they_are].float().mean() > 0.5  # two groups have changed places
    assert not changed[~as_they_are].any()
    for group, rows in enumerate(trainer._rollout.seats.stacks[1].rows):
        assert (trainer._group[rows // world.n_agents] == group).all()
    last = episodes.inputs[..., shape.obs : shape.obs + shape.actions]
    assert (last[0] == 0).all()
    assert torch.equal(last[1:].argmax(dim=-1), episodes.action[:-1])
    assert (last[1:].sum(dim=-1) == 1).all()
    at = np.array([0, 1, 1]), np.array([0, 0, 3])
    told = episodes.teammates(at, 4)
    assert torch.equal(told[:, :4].argmax(dim=1), episodes.group[at])
    assert torch.equal(told[:, 4], episodes.noise[[0, 0, 3]])
    assert torch.equal(told[:, 5] == 1, episodes.permuted[[0, 0, 3]])


def test_the_teammates_actions_are_permuted_and_ours_are_not(monkeypatch):
    monkeypatch.setattr("macop_aht.export.generalist.NOISY", 0.0)
    (trainer, _), taken = trainer_in_cn2(), []
    act = trainer._rollout.seats.act
    monkeypatch.setattr(trainer._rollout.seats, "act", lambda play: (act(play), taken.append(play.action.copy())))
    with torch.no_grad():
        trainer.net.heads.head2.bias[0, NORTH] = 100.0
    episodes = trainer._play(swaps=0.0)
    ours, theirs = taken[0].T
    usual = np.where(trainer._group == 0, SOUTH, NORTH)
    teams, permuted = trainer._group < 2, episodes.permuted.numpy()
    assert (ours == NORTH).all()
    assert (theirs == usual)[teams & ~permuted].all()
    assert (theirs == usual)[teams & permuted].mean() < 0.5
    assert 0.1 < permuted.mean() < 0.4


def test_nothing_is_imitated_with_permuted_actions():
    trainer, _ = trainer_in_cn2()
    episodes = trainer._play(swaps=0.0)
    targets, everyone = trainer._targets(episodes, imitate=True), np.arange(len(episodes.length))
    another = (targets.best + 1) % trainer.net.shape.actions
    if_permuted, if_not = (
        torch.where(rows.view(1, -1, 1), another, targets.best) for rows in (episodes.permuted, ~episodes.permuted)
    )
    losses = [
        trainer._loss(episodes, targets._replace(best=best), everyone, 1.0, 0.0)
        for best in (targets.best, if_permuted, if_not)
    ]
    assert losses[0] == losses[1]
    assert losses[0] != losses[2]


def test_teammates_are_swapped_as_often_as_they_are_said_to_be():
    """Once in an episode, in its first half, where they may; in few environments as in many."""
    rng, rollout = np.random.default_rng(0), SimpleNamespace(exchange=lambda to: None)
    for size, share in ((20, 0.5), (500, 0.3)):
        able, group, times, latest = np.arange(size) % 5 > 0, np.arange(size), np.zeros(size), 0
        swaps = Swaps(able, share, 25, rng)
        for step in range(1, 26):
            before = group.copy()
            swaps.make(rollout, group, step)
            times += group != before
            latest = step if (group != before).any() else latest
        assert sorted(group) == [*range(size)]
        assert times[able].mean() == share
        assert times.max() == 1
        assert not times[~able].any()
        assert 6 < latest <= 12


@pytest.mark.slow
def test_a_generalist_head_learns_what_no_head_knows(monkeypatch):
    """It waits until it sees where the teammates go."""
    net, teams, world = trained_generalist(100, monkeypatch)
    seating = Seating.cross_play(net, teams, np.array([(0, 0), (0, 1)]), 32, world.controllable)
    assert greedy_returns(world, seating, 1, 5, torch.device("cpu")).mean() == 1.0


# --- Selectors


def run_selector(name, heads, budget, returns, episodes, seed=0, measured=None):
    """The heads that a selector plays, when head k's j-th episode returns `returns[k][j]`."""
    table = np.zeros((heads, 0)) if measured is None else np.array(measured)
    session = onnxruntime.InferenceSession(write(SELECTORS[name](table)))
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
    chosen = choose_head(np.array([0.0, 1.0, 0.9, 1.0, 1.0, 0.0, 0.0, 0.0]), 3)  # in the order in which they are played
    assert sequence[8] == chosen == best == 1
    assert mean[0] == pytest.approx(1 / 3)


def test_halving_drops_the_worse_half():
    sequence, best, _ = run_selector("halving", 4, 16, [[0.1], [0.9], [0.5], [0.2]], 20)
    assert sorted(sequence[:8]) == [0, 0, 1, 1, 2, 2, 3, 3]
    assert set(sequence[8:16]) == {1, 2}
    assert sequence[16:] == [1] * 4
    assert best == 1


def test_halving_leaves_no_head_untried():
    sequence, best, _ = run_selector("halving", 6, 9, [[0.1], [0.2], [0.3], [0.4], [0.5], [0.6]], 10)
    assert sorted(sequence[:6]) == list(range(6))
    assert set(sequence[6:9]) <= {3, 4, 5}
    assert sequence[9] == best == 5


def test_halving_knows_what_heads_get_with_groups():
    measured = np.eye(4)  # each head serves one group
    returns = [[0.0], [0.0], [0.0], [1.0]]
    sequence, best, _ = run_selector("halving", 4, 3, returns, 5, measured=measured)
    assert best == sequence[4] == 3  # it was neither of those that were played at first
    sequence, best, _ = run_selector("halving", 4, 32, [[0.3], [0.4], [0.9], [0.5]], 40, measured=measured)
    assert best == 2  # with a stranger, the returns themselves decide
    assert sequence[32:] == [2] * 8
    sequence, _, _ = run_selector("halving", 4, 4, returns, 1, measured=measured * [[1], [1], [2], [1]])
    assert sequence == [2]  # the most promising comes first


def test_thompson_tries_all_and_settles():
    for seed in range(5):
        sequence, best, _ = run_selector("thompson", 5, 20, [[0.0], [0.2], [1.0], [0.1], [0.3]], 25, seed)
        assert set(sequence[:5]) == set(range(5))
        assert best == 2
        assert sequence[20:] == [2] * 5


@pytest.mark.parametrize("name", SELECTORS)
@pytest.mark.parametrize(("heads", "groups"), [(1, 1), (2, 0), (7, 3)])
def test_selectors_are_sound_files(name, heads, groups):
    content = write(SELECTORS[name](np.random.default_rng(0).random((heads, groups))))
    onnx.checker.check_model(onnx.load_from_string(content), full_check=True)
    assert read(content).notes["selector"] == name
    sequence, _, _ = run_selector(name, heads, 0, [[0.0]] * heads, 3)  # no budget: a head is played all the same
    assert all(0 <= head < heads for head in sequence)


# --- Zero-shot


SOUTH, NORTH, LEAK = 3, 4, 0.02  # actions in CN2, and what is forgotten in a step


def stubborn(world, actions):
    """A team for each of the actions that does nothing else."""
    net = Stack(Shape.of(world), len(actions), torch.Generator().manual_seed(0))
    with torch.no_grad():
        net.heads.head2.weight.zero_()
        for p, action in enumerate(actions):
            net.heads.head2.bias[p] = 10.0 * torch.eye(len(world.actions))[action]
    return net


def policy(net, p, world):
    own = {name: array[p] for name, array in weights(net).items()}
    return OnnxPolicy(f"{p}.onnx", world, write(group_graph(own, len(world.actions), world.n_agents)), f"team {p}")


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """Two groups of opposite actions, an ego with a head that suits each, its recogniser, and the bundle.

    In CN2 two agents are paid where one goes south and the other north. The recogniser is told that all heads get nothing: what
    it knows of them it has learnt.
    """
    use_threads(1)  # how many there are changes the last bits
    world, ego = make_ego("CN2", heads=2)
    teams, suitable = stubborn(world, (SOUTH, NORTH)), stubborn(world, (NORTH, SOUTH))
    ego.heads.load_state_dict(suitable.heads.state_dict())
    config = RecogniserConfig(steps=80_000, batch=400, learning_rate=1e-2, swaps=1.0, noise=0.0)
    recogniser = train(world, ego, teams, np.zeros((2, 2)), config, seed=0)
    folder = tmp_path_factory.mktemp("told") / "bundle"
    selector = ZeroShotSelector(["one way", "the other"], weights(recogniser))
    write_bundle(folder, weights(ego), world, RunInfo("CN2", "macop", 0), selector=selector)
    return world, [policy(teams, p, world) for p in range(2)], recogniser, folder


class Believed(Hook):
    """Notes at every step how likely the group that plays is to the agent."""

    def __init__(self, agent, log, who):
        self.agent, self.log, self.who = agent, log, who

    def chosen(self, play, counted):
        self.log.append(self.agent.belief[np.arange(len(self.who)), self.who])


def test_zero_shot_knows_its_teams_and_notices_a_change(told):
    """It is sure before the first episode ends, plays the suitable head from the start of the next, and changes its mind."""
    world, mates, _, folder = told
    who = np.arange(16) % 2
    agent, believed = EgoAgent.load(folder, selector="zero-shot", teams=16), []
    returns = sessions(world, AgentSeats(agent), mates, who, 3, range(16), [Believed(agent, believed, who)])
    # In the first episode one of them is known too late: a head that went one way does not come back.
    assert returns[:, 0].mean() >= 0.5
    assert (returns[:, 1:] == 1.0).all()
    assert believed[5].min() > 0.9
    np.testing.assert_array_equal(agent.head, who)
    agent, believed = EgoAgent.load(folder, selector="zero-shot", teams=16), []
    turning = [Switching(mates[0], mates[1], 5), Switching(mates[1], mates[0], 5)]
    sessions(world, AgentSeats(agent), turning, who, 1, range(16), [Believed(agent, believed, who)])
    assert believed[4].min() > 0.8
    assert np.min(believed[5:], axis=0).max() < 0.2


def test_a_head_that_was_settled_on_is_played_to_the_end(told):
    """So what an episode returned is the value of that head; and every head and every first step comes up."""
    world, _, recogniser, _ = told
    ego, teams = make_ego("CN2", heads=2)[1], stubborn(world, (SOUTH, NORTH))
    episodes = Collector(world, ego, teams, RecogniserConfig(), seed=0).play(recogniser)
    for b, length in enumerate(episodes.length.tolist()):
        settled = episodes.settled[:length, b]
        assert (np.diff(settled.astype(int)) >= 0).all()
        assert len(np.unique(episodes.head[:length, b][settled])) <= 1
    assert 0.2 < episodes.settled[0].mean() < 0.4
    assert set(episodes.head[-1][episodes.settled[-1]]) == {0, 1}


def test_the_egos_heads_are_groups_too_but_met_less_often():
    world, ego = make_ego("LBF4", heads=3)
    everyone = with_synthetic(ego, Stack(ego.shape, 2, torch.Generator().manual_seed(1)))
    rows, memory = torch.rand(1, 6, ego.shape.input), torch.rand(1, 6, ego.shape.hidden)
    q, _ = everyone.step(rows.expand(5, -1, -1), memory.expand(5, -1, -1))
    torch.testing.assert_close(q[2:], ego.step(rows, memory)[0])
    counts = np.bincount(Collector(world, ego, everyone, RecogniserConfig(), seed=0, synthetic=3).group)
    np.testing.assert_array_equal(counts // counts[-1], [RATIO, RATIO, 1, 1, 1])


def test_the_belief_is_torchs(told):
    """Over the steps of several episodes, and not only on the inputs that export looks at."""
    world, _, recogniser, folder = told
    agent = EgoAgent.load(folder, selector="zero-shot", teams=4)
    batch, rng = Batch(world, 4), np.random.default_rng(0)
    batch.reset()
    agent.episode_begin()
    belief, last = torch.zeros(agent._belief.shape), torch.full((4, 1), -1)
    for t in range(40):
        if t % 15 == 14:
            agent.episode_begin()
            last[:] = -1
        action = agent.act(batch.obs[:, :1], batch.mask[:, :1])
        obs = torch.from_numpy(batch.obs[:, :1].copy())
        with torch.no_grad():
            _, probability, belief = recogniser.step(obs, last, torch.zeros(4, 1, dtype=torch.int64), belief)
        np.testing.assert_allclose(agent.belief, probability.numpy(), atol=1e-5)
        last = torch.from_numpy(action)
        batch.step(np.concatenate([action, rng.integers(0, 5, (4, 1))], axis=1))


def test_another_head_must_be_better_by_the_margin():
    """With a large one, the head of an episode's first step stays; with none, the best of the moment is played."""
    world, ego = make_ego("LBF4", heads=3)
    size, generator = len(world.observations), torch.Generator().manual_seed(0)
    returns, views = np.zeros((3, 5)), 20 * torch.randn(12, 64, 1, size, generator=generator)
    played = {}
    for margin in (0.0, 1000.0):
        recogniser = make_recogniser(world, ego, returns, margin=margin, penalty=0.0)
        torch.nn.init.zeros_(recogniser.valuer2.bias)
        belief, heads = torch.zeros(64, recogniser.belief(1).size), []
        for step, view in enumerate(views):
            last = torch.full((64, 1), 1 if step % 6 else -1)  # two episodes
            with torch.no_grad():
                values, _, belief = recogniser.step(view, last, torch.zeros_like(last), belief)
            heads.append(values.argmax(dim=1))
        played[margin] = torch.stack(heads).unflatten(0, (2, 6))
    assert (played[1000.0] == played[1000.0][:, :1]).all()
    assert (played[1000.0][0, 0] != played[1000.0][1, 0]).any()
    assert (played[0.0] != played[0.0][:, :1]).any(dim=1).float().mean() > 0.2


def test_an_active_head_pays_a_penalty():
    """All heads are worth the same, the margin is that of 2.5 steps: each is played for three, until an episode ends."""
    world, ego = make_ego("LBF4", heads=3)
    recogniser = make_recogniser(world, ego, np.zeros((3, 5)), margin=0.1, penalty=0.04 * world.limit)
    for layer in (recogniser.valuer2.weight, recogniser.valuer2.bias):
        torch.nn.init.zeros_(layer)
    belief, heads = torch.zeros(1, recogniser.belief(1).size), []
    for step in range(12):
        last = torch.full((1, 1), 1 if step % 9 else -1)
        with torch.no_grad():
            values, _, belief = recogniser.step(
                torch.rand(1, 1, len(world.observations)), last, torch.zeros_like(last), belief
            )
        heads.append(int(values.argmax()))
    assert heads == [0, 0, 0, 1, 1, 1, 2, 2, 2, 0, 0, 0]
    penalty = make_recogniser(world, ego, np.zeros((3, 5)), generalist=True).penalty
    assert (penalty[:2] > 0).all()
    assert penalty[2] == 0


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_zero_shot_graphs_are_sound_files(scenario):
    world, ego = make_ego(scenario, heads=3)
    recogniser = make_recogniser(world, ego, np.random.default_rng(0).random((3, 5)))
    content = write(zero_shot(weights(recogniser), len(world.actions), world.n_agents, world.controllable))
    onnx.checker.check_model(onnx.load_from_string(content), full_check=True)
    assert read(content).notes["selector"] == "zero-shot"
    with torch.no_grad():
        check_recogniser(recogniser, content, world)
        recogniser.leak *= 2
        with pytest.raises(ValueError, match="differs from torch"):
            check_recogniser(recogniser, content, world)


def test_the_same_seed_gives_the_same_recogniser():
    world, ego = make_ego("CN3", heads=2)
    first, second = (
        train(world, ego, stubborn(world, (SOUTH, NORTH)), np.eye(2), RecogniserConfig(steps=2_000), seed=3)
        for _ in range(2)
    )
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))


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


def test_a_folder_is_whole_or_not_there(tmp_path):
    with pytest.raises(FileNotFoundError), whole(tmp_path / "out") as place:
        (place / "missing" / "half").write_text("")
    assert list(tmp_path.iterdir()) == []


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
        EgoAgent.load(bundle, selector="thompson", teams=2).restore(json.loads(saved))
    for options in ({"selector": "halving"}, {"selector": "thompson", "budget": 5}):
        with pytest.raises(ValueError, match="of another bundle, selector or budget"):
            EgoAgent.load(bundle, **options).restore(json.loads(saved))
    there.restore(json.loads(saved))
    again, twin = pickle.loads(pickle.dumps(there)), copy.deepcopy(there)
    assert go(again, 17, 40) == go(twin, 17, 40) == rest
    assert there.state == json.loads(saved)  # which these two have not touched
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


def rewritten(folder, change):
    """Change what the manifest of a bundle says, as a dictionary."""
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    change(manifest)
    path.write_text(json.dumps(manifest))


def test_a_manifest_is_read_as_it_was_written(bundle):
    for folder in (bundle, *sorted(path.parent for path in paths.find("agents").glob("*/*/manifest.json"))):
        content = (folder / "manifest.json").read_bytes()
        manifest = read_manifest(folder)
        assert text_of(manifest).encode() == content
        assert manifest.selectors == ["halving", "meta-test", "thompson", "zero-shot"]
        assert (manifest.heads > manifest.run_heads) == manifest.generalist


MISTAKES = {
    "of format 3": lambda told: told.update(format=3),
    "`macop convert`": lambda told: told.update(format=1),
    "unknown key 'colour'": lambda told: told.update(colour="red"),
    "unknown key 'golden.inputs.obz'; did you mean 'obs'": lambda told: told["golden"]["inputs"].update(obz=[]),
    "keys heads, actions are missing": lambda told: (told.pop("heads"), told.pop("actions")),
    "heads is '3'; it must be of type int": lambda told: told.update(heads="3"),
    "seed is True; it must be of type int": lambda told: told.update(seed=True),
    "versions is 7; it must be a table": lambda told: told.update(versions=7),
    "actions is 5; it must be a list": lambda told: told.update(actions=5),
    "it holds NaN": lambda told: told["zero_shot"].update(leak=float("nan")),
    "must be finite": lambda told: told["zero_shot"].update(leak=10**300),
    "leak is 2.0; it must be in 0..1": lambda told: told["zero_shot"].update(leak=2),
    "lists of different lengths": lambda told: told["golden"]["inputs"]["obs"][1].pop(),
    "must hold integers": lambda told: told["golden"]["inputs"].update(agent=[0.5] * 8),
    "agent has numbers outside of 0..1": lambda told: told["golden"]["inputs"].update(agent=[2] * 8),
    "at least 0": lambda told: told.update(seed=-1),
    "heads is 9 and run_heads 3": lambda told: told.update(heads=9),
    "controllable is 3; it must be at most agents, 2": lambda told: told.update(controllable=3),
    "q has the shape": lambda told: told["actions"].append("jump"),
    "names the file '../agent.onnx'": lambda told: told["sha256"].update({"../agent.onnx": "0" * 64}),
    "which is no sha-256": lambda told: told["sha256"].update({"agent.onnx": "0"}),
    "learnt_with names": lambda told: told["groups"]["learnt_with"].append("9/9"),
    "belong together": lambda told: told.pop("zero_shot"),
    "belief.margin is 1": lambda told: told["zero_shot"]["belief"].update(margin=1),
    "evidence is 4; the manifest says 5": lambda told: told["zero_shot"]["belief"].update(evidence=4),
    "returns has 3 rows": lambda told: told["zero_shot"]["returns"].pop(),
    "nested more than": lambda told: told.update(scenario=json.loads("[" * DEEPEST + "]" * DEEPEST)),
    "allowed are 16384": lambda told: told.update(actions=["go"] * (LONGEST + 1)),
    "more than 16384 characters": lambda told: told.update(method="m" * (LONGEST + 1)),
}


@pytest.mark.parametrize("message", MISTAKES)
def test_a_manifest_is_read_strictly(bundle, message):
    rewritten(bundle, MISTAKES[message])
    with pytest.raises(BundleError, match=re.escape(message)):
        read_manifest(bundle)


def test_documents_that_are_no_manifests():
    for content, message in (
        (b"{", "it is no JSON"),
        (b"[]", "it must be a table"),
        (b"\xff", "it is no JSON"),
        (b" " * (LARGEST + 1), "allowed are"),
        (b"[" * 1_000_000, "nested more than"),
        (b'"' + b'\\"' * 1_000_000, "it is no JSON"),  # in linear time
        (b'{"format": 2, "format": 2}', "there twice"),
        (b'{"format": 2, "seed": ' + b"9" * 5_000 + b"}", "it is no JSON"),
    ):
        with pytest.raises(BundleError, match=message):
            parse(content)


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


def in_format_1(manifest):
    """The inverse of a conversion."""
    manifest["format"] = 1
    if "groups" in manifest:
        manifest["company"] = manifest.pop("groups")
    manifest["versions"]["macop-aht"] = manifest["versions"].pop("macop_aht")
    belief = manifest["zero_shot"]["belief"]
    belief["held"], belief["spent"] = belief.pop("margin"), belief.pop("penalty")
    if "figures" in manifest:
        figures = manifest["figures"]
        figures["heads"] = figures.pop("returns")
        for part in (figures["calibration"], *figures["calibration"]["bins"]):
            part["right"] = part.pop("accuracy")
        for part in figures["calibration"]["bins"]:
            part["believed"] = part.pop("confidence")


def test_a_bundle_of_format_1_is_converted(tmp_path):
    """Whole or not at all, and to what it was."""
    shutil.copytree(paths.find("agents") / "macop" / "CN3", tmp_path / "bundle")
    path = tmp_path / "bundle" / "manifest.json"
    manifest = path.read_bytes()
    assert not convert_bundle(path.parent)
    assert path.read_bytes() == manifest
    rewritten(path.parent, in_format_1)
    with pytest.raises(BundleError, match="of format 1; convert it with `macop convert`"):
        EgoAgent.load(path.parent)
    assert convert_bundle(path.parent)
    assert path.read_bytes() == manifest
    rewritten(path.parent, lambda told: (in_format_1(told), told.update(heads="6")))
    damaged = path.read_bytes()
    with pytest.raises(BundleError, match="cannot be converted: heads is '6'"):
        convert_bundle(path.parent)
    assert path.read_bytes() == damaged
    with pytest.raises(FileNotFoundError, match="there is no bundle"):
        convert_bundle(tmp_path)


def test_a_bundle_of_before_there_were_generalist_heads(told, tmp_path):
    shutil.copytree(told[3], tmp_path / "bundle")
    rewritten(tmp_path / "bundle", lambda told: (in_format_1(told), told.pop("run_heads")))
    assert convert_bundle(tmp_path / "bundle")
    assert EgoAgent.load(tmp_path / "bundle", "meta-test").budget == 8


def put(folder, name, content):
    """Another file in a bundle, with its right sha-256."""
    (folder / name).write_bytes(content)
    digest = hashlib.sha256(content).hexdigest()
    rewritten(folder, lambda told: told["sha256"].update({name: digest}))


def test_graphs_that_are_not_what_the_manifest_says_are_refused(bundle, monkeypatch):
    """Before onnxruntime gets them."""
    monkeypatch.setattr(onnxruntime, "InferenceSession", lambda *_, **__: pytest.fail("onnxruntime got a graph"))
    world, rng = build("LBF4"), np.random.default_rng(0)
    kept = {path: path.read_bytes() for path in bundle.rglob("*.*") if path.is_file()}

    def attempt(name, graph, selector, message):
        put(bundle, name, write(graph))
        with pytest.raises(BundleError, match=message):
            EgoAgent.load(bundle, selector)
        for path, content in kept.items():
            path.write_bytes(content)

    _, ego = make_ego("LBF4", heads=4)
    sizes = len(world.actions), world.n_agents
    attempt("agent.onnx", ego_graph(weights(ego), *sizes), None, "'memory' .*the manifest says")
    wider = Ego(replace(ego.shape, hidden=128), 4)
    attempt(
        "agent.onnx", ego_graph(weights(wider), *sizes), None, "no generalist head; the manifest says 4 heads, 3 of"
    )
    attempt("agent.onnx", ego_graph(weights(make_ego("CN3")[1]), 5, 3), None, "'obs' .*the manifest says")
    for heads, name in ((4, "meta-test"), (2, "halving"), (4, "thompson")):
        file = f"selectors/{name}.onnx"
        attempt(file, SELECTORS[name](np.zeros((heads, 0))), name, "'tried' .*the manifest says")
        attempt(file, ego_graph(weights(ego), *sizes), name, "no tensor 'tried'")
    file, zero = "selectors/zero-shot.onnx", "zero-shot"
    of_six = zero_shot(weights(make_recogniser(world, ego, rng.random((4, 6)))), *sizes, own=1)
    attempt(file, of_six, zero, "'belief' .*the manifest says")
    of_two_agents = zero_shot(weights(make_recogniser(world, ego, rng.random((4, 5)))), *sizes, own=2)
    attempt(file, of_two_agents, zero, "'obs' .*the manifest says")


def test_damaged_bundles_are_refused(bundle):
    agent = (bundle / "agent.onnx").read_bytes()
    (bundle / "agent.onnx").write_bytes(agent[:-1])
    with pytest.raises(BundleError, match="sha-256 differs"):
        EgoAgent.load(bundle)
    put(bundle, "agent.onnx", agent[:-1])
    with pytest.raises(BundleError, match=r"agent\.onnx cannot be read"):
        EgoAgent.load(bundle)
    foreign = onnx.load_from_string(agent)
    foreign.opset_import[0].version = 999
    put(bundle, "agent.onnx", foreign.SerializeToString())
    with pytest.raises(BundleError, match="cannot be run by this onnxruntime"):
        EgoAgent.load(bundle)
    (bundle / "agent.onnx").unlink()
    with pytest.raises(FileNotFoundError, match="is missing from the bundle"):
        EgoAgent.load(bundle)


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
        assert hashlib.sha256(group._content).hexdigest() == files[0]
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
    source = Path(__file__).parent.parent / "examples" / "node"
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
