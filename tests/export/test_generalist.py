"""The generalist head: its training, and how it joins an ego."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from macop_aht.export import generalist
from macop_aht.export.ego_graph import ego_graph, run_weights
from macop_aht.export.generalist import PERTURBATIONS, GeneralistConfig, GeneralistTrainer, with_generalist
from macop_aht.export.parity import check_parity, recorded_feed
from macop_aht.export.synthetic import Swaps, with_synthetic
from macop_aht.learner.networks import Ego, encode, set_weights, weights
from macop_aht.learner.ppo import Schedule
from macop_aht.learner.seats import Seating, greedy_returns
from macop_aht.learner.update import q_values
from macop_aht.onnx import FormatError, read, write
from tests.bundles import NORTH, SOUTH, make_ego, stubborn


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


def played(trainer, swaps=0.0):
    """A round: what was recorded, (B,T,…), and what the critic knew in every step, (B,T,G+2)."""
    trainer.practice.swaps = swaps
    trainer.practice.play(Schedule(1e-3, 0.0, 0.0, 0.0))
    replay, slots = trainer.practice.replay, np.arange(len(trainer.practice.group))
    return replay.episodes(0, slots), replay.state[0, slots][..., -4 - PERTURBATIONS :]


def test_a_generalist_head_plays_on_when_its_teammates_are_swapped():
    """It goes on with its memory, and the critic is told who is there now."""
    trainer, world = trainer_in_cn2()
    practice = trainer.practice
    _, known = played(trainer, swaps=1.0)
    running = np.arange(world.limit)[None, 1:] < practice.replay.length[0][:, None]
    group = known[:, : world.limit, :4].argmax(axis=-1)
    changed = ((group[:, 1:] != group[:, :-1]) & running).any(axis=1)
    as_they_are = (practice.noise == 0) & ~practice.permuted
    assert changed[as_they_are].mean() > 0.5  # two groups have changed places
    assert not changed[~as_they_are].any()
    for member, rows in enumerate(practice.rollout.seats.stacks[1].rows):
        assert (practice.group[rows // world.n_agents] == member).all()
    np.testing.assert_allclose(known[:, 0, 4], practice.noise, rtol=1e-6)
    assert (known[:, 0, 5] == practice.permuted).all()
    assert trainer.learner.net.backbone is trainer.net.backbone  # what plays is what learns


def test_the_teammates_actions_are_permuted_and_ours_are_not(monkeypatch):
    monkeypatch.setattr("macop_aht.export.generalist.NOISY", 0.0)
    (trainer, _), taken = trainer_in_cn2(), []
    practice = trainer.practice
    act = practice.rollout.seats.act
    monkeypatch.setattr(practice.rollout.seats, "act", lambda play: (act(play), taken.append(play.action.copy())))
    with torch.no_grad():
        trainer.net.heads.head2.bias[0, NORTH] = 100.0
    played(trainer)
    ours, theirs = taken[0].T
    usual = np.where(practice.group == 0, SOUTH, NORTH)
    teams, permuted = practice.group < 2, practice.permuted
    assert (ours == NORTH).all()
    assert (theirs == usual)[teams & ~permuted].all()
    assert (theirs == usual)[teams & permuted].mean() < 0.5
    assert 0.1 < permuted.mean() < 0.4


def test_the_best_head_is_imitated_but_not_with_permuted_actions():
    """By hand, over the rows of a round; the best head is the first with every group."""
    trainer, _ = trainer_in_cn2()
    played(trainer)
    (batch,) = trainer.practice.parts(1, np.random.default_rng(0))
    net, known = trainer.learner.net, batch.state[0, :, -4 - PERTURBATIONS :]
    loss = trainer.imitation(trainer.learner, batch, lambda: q_values(net, batch))
    best = q_values(trainer._ego, batch)[:1].masked_fill(~batch.mask, -torch.inf).argmax(dim=-1, keepdim=True)
    policy = q_values(net, batch).masked_fill(~batch.mask, -1e9).log_softmax(dim=-1)
    each = -policy.gather(-1, best).view(-1)
    counted = (known[:, 5] == 0) & (batch.real[0] > 0)
    assert 0 < counted.sum() < batch.real.sum()
    torch.testing.assert_close(loss.squeeze(), each[counted].sum() / batch.real.sum())


def test_teammates_are_swapped_as_often_as_they_are_said_to_be():
    """Once in an episode, in its first half, where they may; in few environments as in many."""
    rng, seats = np.random.default_rng(0), SimpleNamespace(exchange=lambda play, to: None)
    for size, share in ((20, 0.5), (500, 0.3)):
        able, group, times, latest = np.arange(size) % 5 > 0, np.arange(size), np.zeros(size), 0
        swaps = Swaps(able, share, 25, rng)
        for step in range(1, 26):
            before = group.copy()
            swaps.make(None, seats, group, step)
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
