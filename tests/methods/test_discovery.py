"""What random play discovers, and what new groups make of it."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from macop_aht.learner.best import Seeds
from macop_aht.learner.experience import self_play
from macop_aht.learner.networks import Shape, Stack
from macop_aht.learner.ppo import ProximalConfig
from macop_aht.learner.rounds import Rounds
from macop_aht.learner.threads import use_threads
from macop_aht.learner.training import TrainingConfig
from macop_aht.methods import macop_plus
from macop_aht.methods.discovery import IDLE, NEIGHBOURS, Discovered, apart, describe, discover
from macop_aht.methods.macop import MacopConfig
from macop_aht.methods.novelty import pay_by
from macop_aht.methods.phases import Setup
from macop_aht.scenarios import build
from tests.helpers import generator

CPU = torch.device("cpu")
TRAINING = TrainingConfig(learner="ppo", ppo=ProximalConfig(envs=20, imitation=1.0))
PLACES = np.array([[0.0, 0.0], [10.0, 0.0], [0.0, 7.0], [9.0, 9.0]])


@pytest.fixture(autouse=True)
def one_thread():
    use_threads(1)


def scattered(count=50):
    """Points near the places, the first of which has most of them; and which place each is near."""
    at = np.repeat(np.arange(4), [10 * count, count, count, count])
    return PLACES[at] + np.random.default_rng(0).normal(scale=0.2, size=(len(at), 2)), at


def test_an_episode_is_described_by_what_is_seen_when_it_is_rewarded():
    """By hand: rewards 3 and 1 at the first and third step; what comes after the end does not count."""
    obs = np.arange(8, dtype=np.float32).reshape(1, 4, 1, 2)
    found = describe(obs, np.array([[3.0, 0.0, 1.0, 9.0]]), np.array([3]))
    np.testing.assert_allclose(found, [[(3 * 0 + 4) / 4, (3 * 1 + 5) / 4]])


def test_what_is_chosen_is_far_from_what_is_known_and_from_each_other():
    points, at = scattered()
    chosen = apart(points, 3, PLACES[[0]], np.random.default_rng(0))
    assert [set(at[own]) for own in chosen] == [{3}, {1}, {2}]
    assert all(len(own) == NEIGHBOURS for own in chosen)
    for own in chosen:
        far = np.linalg.norm(points[own] - points[own[0]], axis=1)
        assert (np.diff(far) >= 0).all()
    unknown = apart(points, 4, np.zeros((0, 2)), np.random.default_rng(0))
    assert sorted(at[own[0]] for own in unknown) == [0, 1, 2, 3]


def test_only_what_is_clearly_new_is_chosen():
    """With all places known, nothing; an odd episode alone, however far, is not new; a few alike are."""
    points, _ = scattered()
    assert [len(own) for own in apart(points, 3, PLACES, np.random.default_rng(0))] == [0, 0, 0]
    for count, new in ((1, 0), (2, 2)):
        more = np.concatenate([points, np.full((count, 2), 15.0)])
        assert [len(own) for own in apart(more, 2, PLACES, np.random.default_rng(0))] == [new, 0]


def test_neighbours_are_nearer_than_half_way_to_anything_else():
    points = np.repeat(np.array([[20.0, 0.0], [18.0, 0.0], [0.0, 20.0], [0.0, 9.0]]), 4, axis=0)
    chosen = apart(points, 3, np.zeros((1, 2)), np.random.default_rng(0))
    assert [own.tolist() for own in chosen] == [[*range(8)], [*range(8, 12)], []]  # 9 is 11 from 20, which is 20 from 0


def test_groups_are_rewarded_for_their_own_alone():
    """Group 0 began at place 1, group 1 at place 2, and place 0 is known."""
    numbers = [np.array([1]), np.array([2])]
    found = Discovered(Seeds({}, numbers), PLACES, PLACES[[0]], np.ones(2))
    seen = np.array([[9.0, 0.0], [1.0, 1.0], [9.0, 0.0], [1.0, 6.0], [9.0, 8.0]])
    assert found.own(np.array([0, 0, 1, 1, 1]), seen).tolist() == [True, False, False, True, False]
    nearer = replace(found, scale=np.array([0.0, 1.0]))  # the first number means nothing
    assert nearer.own(np.array([1]), seen[-1:]).tolist() == [True]


def test_groups_that_began_with_nothing_are_paid_otherwise():
    numbers = [np.array([1]), np.zeros(0, dtype=np.int64)]
    found = Discovered(Seeds({}, numbers), PLACES, PLACES[[0]], np.ones(2))
    group, seen = np.array([0, 0, 1, 1]), PLACES[[1, 2, 1, 0]] * 1.0
    assert found.pay()(group, seen).tolist() == [1.0, 0.0, 1.0, 1.0]
    assert found.pay(lambda group, seen: seen[:, 0] / 100)(group, seen).tolist() == [1.0, 0.0, 0.1, 0.0]


def test_random_play_finds_every_convention():
    """All four corners at once; and where three are known, the fourth. Seeds are whole, successful episodes."""
    world = build("LBF4")
    found = discover(world, TRAINING, 100_000, 4, np.zeros((0, 24)), 0, CPU)
    corners = found.found[[own[0] for own in found.seeds.numbers]]
    assert len({tuple(np.round(row[8:10] / 5).tolist()) for row in corners}) == 4  # where agent 0 stands
    episodes = found.seeds.episodes
    assert (episodes["reward"].sum(axis=1) == 1.0).all()
    assert (episodes["reward"][np.arange(len(episodes["length"])), episodes["length"] - 1] == 1.0).all()
    again = discover(world, TRAINING, 100_000, 1, corners[:3], 1, CPU)
    fourth = again.found[again.seeds.numbers[0]]
    assert (np.round(fourth[:, 8:10] / 5) == np.round(corners[3, 8:10] / 5)).all()


def test_where_nothing_is_rewarded_nothing_is_discovered():
    assert discover(build("LBF4", limit=1), TRAINING, 5_000, 2, np.zeros((0, 24)), 0, CPU) is None


def test_rewards_of_others_conventions_are_taken_away():
    """The rewards of a round that are not nearest to what the network began with become 0; the others stay."""
    world = build("LBF4")
    net, found = Stack(Shape.of(world), 4, generator()), discover(world, TRAINING, 50_000, 4, np.zeros((0, 24)), 0, CPU)
    plain = self_play(net, replace(TRAINING, ppo=ProximalConfig(envs=300)), 3)
    whole, part = Rounds(world, plain, 4, CPU), Rounds(world, replace(plain, attach=pay_by(found.pay())), 4, CPU)
    for rounds in (whole, part):
        rounds.play(IDLE)
    paid, rest = part.replay.reward, whole.replay.reward
    assert paid.sum() > 0
    assert ((paid == rest) | (paid == 0)).all()
    assert (paid.sum(axis=(1, 2)) < 0.6 * rest.sum(axis=(1, 2))).all()
    assert (part.largest == 1.0).all()


def test_it_needs_ppo_that_imitates():
    world = build("LBF4")
    net = Stack(Shape.of(world), 2, generator())
    for training, discovers in (
        (TRAINING, True),
        (replace(TRAINING, ppo=ProximalConfig()), False),
        (TrainingConfig(), False),
    ):
        setup = Setup(world, MacopConfig(discovery=20_000), 0, CPU)
        alone = macop_plus.novel(setup, self_play(net, training, 0), training, 2, None)
        assert (alone.seeds is not None) == discovers
