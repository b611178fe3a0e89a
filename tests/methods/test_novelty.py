"""Novel behaviour (Macop+): what is known, what is paid for, and which groups are new."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from macop_aht.learner.experience import self_play
from macop_aht.learner.networks import Ego, Shape, Stack
from macop_aht.learner.phase import source
from macop_aht.learner.ppo import ProximalConfig, Schedule
from macop_aht.learner.rounds import Rounds
from macop_aht.learner.seats import Seating, greedy_returns
from macop_aht.learner.threads import use_threads
from macop_aht.learner.training import TrainingConfig
from macop_aht.methods import macop, macop_plus
from macop_aht.methods.macop import MacopConfig, select
from macop_aht.methods.macop_plus import spare
from macop_aht.methods.novelty import NEW, Classifier, Moments, choose_new, moments_of, pay_by, random_steps
from macop_aht.methods.phases import Learned, Population, Setup, Teams
from macop_aht.runs.records import Decision
from macop_aht.scenarios import build
from tests.helpers import generator

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def one_thread():
    use_threads(1)


def around(*centre, count=100, seed=0):
    """Rewarded steps in which the first entries are near the centre, and the others mean nothing."""
    rng = np.random.default_rng(seed)
    seen = np.concatenate([rng.normal(centre, 0.1, (count, len(centre))), rng.normal(size=(count, 6))], axis=1)
    return Moments(seen.astype(np.float32), np.ones(count), np.arange(count))


NOTHING = Moments(np.zeros((0, 8), dtype=np.float32), np.zeros(0), np.zeros(0, dtype=np.int64))
OTHERS = np.random.default_rng(7).normal(size=(4_000, 8), scale=2.0).astype(np.float32)  # as of random teams


def test_rewarded_steps_are_those_of_self_play():
    """All rewards of every group's episodes, with what both agents saw before: in combat, an enemy within range."""
    world = build("SMAC1", limit=30)
    net = Stack(Shape.of(world), 3, generator(4))
    with torch.no_grad():
        net.heads.head2.bias[:2, 4] += 50.0  # two that go east
        net.heads.head2.bias[0, 6:] += 100.0  # the first attacks whatever it can
        net.heads.head2.bias[2, 1] += 50.0  # one that stays where it is
    found = moments_of(world, net, 4, seed=7, device=CPU)
    returns = greedy_returns(world, Seating.self_play(net, 4), 1, 7, CPU).reshape(3, 4)
    assert [own.reward.sum() for own in found] == pytest.approx(returns.sum(axis=1))
    assert returns[0].sum() > 0
    assert len(found[2].seen) == 0
    attackable = [name.endswith("attackable") for name in world.observations] * world.n_agents
    assert sum(attackable) == 8
    assert found[0].seen.shape[1] == len(attackable)
    assert (found[0].seen[:, attackable].max(axis=1) == 1).mean() > 0.9


def test_what_is_known_is_recognised_and_nothing_else():
    """Known are two places. Other places are new, also those that hardly any random step comes near."""
    classifier = Classifier([around(0, 0), around(3, 0, seed=1)], OTHERS, 0, CPU)
    novelty = [classifier.novelty_of(around(*place, seed=9)) for place in ((0, 0), (3, 0), (0, 3), (3, 3), (-3, 1))]
    assert max(novelty[:2]) < 0.1
    assert min(novelty[2:]) > 0.9
    assert classifier.novelty_of(NOTHING) == 0.0


def test_random_steps_are_unrewarded_and_explore_as_told():
    world = build("CN2", limit=6)
    steps = random_steps(world, 0.0, 0.0, 0, CPU)
    assert steps.shape[1] == world.n_agents * len(world.observations)
    assert len(steps) == pytest.approx(6 * 2_000 * 0.25, rel=0.1)
    own = [k + n * len(world.observations) for n in range(2) for k in (2, 3)]  # velocities
    together = random_steps(world, 0.0, 1.0, 0, CPU)
    apart, alike = (np.corrcoef(found[:, own[0]], found[:, own[2]])[0, 1] for found in (steps, together))
    assert apart < 0.1 < 0.9 < alike


def test_episodes_are_described_by_what_is_seen_when_they_are_rewarded():
    """By hand: the first episode has rewards 3 and 1, the second one of 2; a third one has none."""
    seen = np.array([[1.0, 0.0], [5.0, 4.0], [7.0, 7.0]], dtype=np.float32)
    own = Moments(seen, np.array([3.0, 1.0, 2.0]), np.array([0, 0, 1]))
    np.testing.assert_allclose(own.described(), [[2.0, 1.0], [7.0, 7.0]])
    assert NOTHING.described().shape == (0, 8)


def test_groups_are_drawn_alike_and_steps_by_their_rewards():
    own = Moments(np.array([[1.0], [2.0]], dtype=np.float32), np.array([3.0, 1.0]), np.array([0, 0]))
    drawn = own.draw(4_000, np.random.default_rng(0))
    assert (drawn == 1.0).mean() == pytest.approx(0.75, abs=0.03)


def test_the_new_ones_are_chosen_once_each():
    """Two candidates do something known, two the same new thing, one another new thing, and one is not good in itself."""
    known = [around(0, 0), around(3, 0, seed=1)]
    places = [(0, 0), (0, 3), (0, 3), (3, 3), (3, 0), (-3, 0)]
    candidates = [around(*place, seed=10 + k) for k, place in enumerate(places)]
    candidates.append(NOTHING)  # never rewarded
    good, alike = [True] * 5 + [False, False], np.zeros((7, 7), dtype=np.bool_)
    chosen, novelty = choose_new(known, candidates, good, alike, OTHERS, 0, CPU)
    assert len(chosen) == 2
    assert 3 in chosen
    assert len({1, 2} & {*chosen}) == 1
    assert [value >= NEW for value in novelty] == [False, True, True, True, False, True, False]
    alike[3, [1, 2]] = alike[[1, 2], 3] = True  # those that do different things play well together all the same
    assert len(choose_new(known, candidates, good, alike, OTHERS, 0, CPU)[0]) == 1
    alike[:] = False
    nothing_known, novelty = choose_new([], candidates, good, alike, OTHERS, 0, CPU)
    assert sorted(places[k] for k in nothing_known) == [(0, 0), (0, 3), (3, 0), (3, 3)]
    assert novelty == [1.0] * 6 + [0.0]


def test_new_groups_stay_before_all_others():
    """Candidates 4 and 7 are new; of the others the least compatible stay, as in Macop."""
    self_play = [1.0, 1.0, 1.0, 1.0, 0.6, 1.0, 1.0, 1.0]
    cross_play = [0.9, 0.8, 0.1, 0.7, 0.9, 0.2, 0.3, 1.0]
    assert macop_plus.select(self_play, cross_play, []) == [2, 3, 5, 6]
    assert macop_plus.select(self_play, cross_play, [4, 7]) == [2, 4, 5, 7]


def test_poor_offspring_do_not_stay_for_being_incompatible():
    """In Macop, 4 and 5 would. Where too few are good, the best of the others stay."""
    self_play, cross_play = [1.0, 0.9, 0.8, 0.9, 0.3, 0.3, 0.0, 0.0], [1.0, 0.9, 0.7, 0.8, 0.1, 0.2, 0.0, 0.0]
    assert select(self_play, cross_play) == [2, 3, 4, 5]
    assert macop_plus.select(self_play, cross_play, []) == [0, 1, 2, 3]
    assert macop_plus.select([1.0, 0.1, 0.0, 0.4], [1.0, 0.0, 0.0, 0.4], []) == [0, 3]
    assert macop_plus.select([0.0] * 4, [0.0] * 4, []) == [0, 1]


def test_known_groups_are_seen_with_noise_too():
    """Every second episode has random actions. The others are as without noise, and the seeds are the same."""
    world = build("SMAC1", limit=30)
    net = Stack(Shape.of(world), 1, generator(4))
    with torch.no_grad():
        net.heads.head2.bias[0, 4] += 50.0
        net.heads.head2.bias[0, 6:] += 100.0
    (greedy,), (noisy,) = (moments_of(world, net, 8, seed=7, device=CPU, noise=noise) for noise in (0.0, 0.9))
    also = np.array([(greedy.seen == step).all(axis=1).any() for step in noisy.seen])
    assert 0.3 < also.mean() < 1.0
    assert len(noisy.seen) != len(greedy.seen)


def test_poor_groups_are_not_known(monkeypatch):
    """Their few successes would blur what the others do."""
    setup = Setup(build("LBF4"), MacopConfig(), 0, CPU)
    found = [around(0, 0, count=250), around(0, 3, count=100), around(3, 0, count=140), around(3, 3, count=0)]
    monkeypatch.setattr(macop_plus, "moments_of", lambda *given, **more: found)
    monkeypatch.setattr(macop_plus, "random_steps", lambda *given: OTHERS)
    groups = Stack(Shape.of(setup.world), 4, generator())
    known = macop_plus.Known.of(setup, groups, setup.config.mutation, (1,))
    assert known.moments == [found[0], found[2]]
    monkeypatch.setattr(macop_plus, "moments_of", lambda *given, **more: [around(0, 0, count=0)] * 4)
    assert macop_plus.Known.of(setup, groups, setup.config.mutation, (1,)).classifier is None


@pytest.mark.parametrize("learner", ["q", "ppo"])
def test_rewards_are_multiplied_by_the_novelty_as_they_enter_the_replay(learner, monkeypatch):
    """A classifier that knows half of everything leaves half of every reward; lengths and other steps are untouched."""
    world = build("SMAC1", limit=20)
    net = Stack(Shape.of(world), 2, generator())
    training = TrainingConfig(learner=learner, envs=4, ppo=ProximalConfig(envs=20))
    width = world.n_agents * len(world.observations)
    known = [Moments(np.ones((5, width), dtype=np.float32), np.ones(5), np.arange(5))]
    classifier, rewards = Classifier(known, np.zeros((5, width), dtype=np.float32), 0, CPU), []
    for novelty in (None, 0.5):
        attach = None
        if novelty:
            monkeypatch.setattr(classifier, "novelty", lambda seen: np.full(len(seen), 0.5))
            attach = pay_by(classifier.pay)
        experience = replace(self_play(net, training, 3), attach=attach)
        if learner == "ppo":
            recorder = Rounds(world, experience, 2, CPU)
            recorder.play(Schedule(1e-3, 0.0, 0.0, 0.0))
        else:
            recorder = source(world, experience, training, 2, False, CPU).collector
            for _ in range(60):
                recorder.step()
        done = recorder.replay.length > 0
        rewards.append((recorder.replay.reward[done], recorder.replay.length[done]))
    (whole, length), (half, same) = rewards
    assert (length == same).all()
    inside = np.arange(world.limit + 1) < length[:, None]
    assert whole[inside].sum() > 0
    np.testing.assert_allclose(half[inside], whole[inside] / 2)


def test_a_run_goes_on_while_new_behaviour_appears():
    def decision(**known):
        return Decision(compatibility=0.9, **known)

    setup = Setup(build("LBF4"), MacopConfig(stop_threshold=0.5), 0, CPU)
    assert macop._nothing_new(setup, decision())  # Macop: C alone
    assert macop._nothing_new(setup, decision(new=[]))
    assert not macop._nothing_new(setup, decision(new=["2/1"]))
    assert not macop._nothing_new(setup, Decision(compatibility=0.4, new=[]))
    assert not macop._nothing_new(setup, Decision())


def test_a_selection_of_macop_plus_says_what_is_new(monkeypatch):
    """Offspring 2/0 does what nobody does, 2/1 what a parent does."""
    small = TrainingConfig(envs=4, batch=8, capacity=60)
    config = MacopConfig(
        population=2, incompatibility="novelty", test_episodes=4, teammates=small, mutation=small, ego=small
    )
    setup = Setup(build("LBF4"), config, 0, CPU)
    parents, offspring = (Teams.fresh(setup, 2, small, seed) for seed in (0, 1))
    seen = {
        id(parents.net): [around(0, 0), around(3, 0)],
        id(offspring.net): [around(0, 3, seed=5), around(0, 0, seed=6)],
    }
    given = []
    monkeypatch.setattr(macop_plus, "moments_of", lambda world, groups, *rest, **more: seen[id(groups)])
    monkeypatch.setattr(macop_plus, "random_steps", lambda *given: OTHERS)
    monkeypatch.setattr(macop, "mutate", lambda *arguments: (given.append(arguments[-1]), offspring)[1])
    monkeypatch.setattr(macop, "self_play_returns", lambda setup, net, seed: [1.0] * net.population)
    before = Population(parents, ["0/0", "0/1"], Decision())
    ego = Ego(Shape.of(setup.world), 1, generator())
    found = macop._next_population(setup, 2, Learned(ego), before, parents.net).decision
    assert found.new == ["2/0"]
    assert found.novelty[0] > 0.75 > 0.25 > found.novelty[1]
    assert "2/0" in found.groups
    assert given[0].classifier.novelty_of(seen[id(parents.net)][0]) < 0.2  # what the offspring are not paid for


def test_heads_that_no_group_needs_are_removed():
    """By hand: head 2 does all that head 0 does, head 3 nearly; head 1 alone serves the second group."""
    returns = np.array([[1.0, 0.0, 0.5], [0.0, 0.9, 0.0], [1.0, 0.1, 0.6], [0.99, 0.0, 0.59]])
    assert spare(returns, 0.0) == [1, 2]
    assert spare(returns, 0.02) == [1, 2]  # the least useful goes first
    assert spare(returns[[0, 1, 3]], 0.02) == [1, 2]  # 0.99 and 0.59 for 1 and 0.59: head 0 can go
    assert spare(returns[[0, 1, 3]], 0.0) == [0, 1, 2]
    assert spare(returns[:1], 0.5) == [0]
    assert spare(np.zeros((3, 2)), 0.0) == [0]  # nobody gets anything: one head does


def test_a_pruned_ego_plays_as_well(monkeypatch):
    """Three heads, of which two are the same: one goes, and the others keep their weights and places."""
    world = build("LBF4")
    ego, groups = Ego(Shape.of(world), 3, generator()), Stack(Shape.of(world), 2, generator(1))
    returns = np.array([[1.0, 0.2], [1.0, 0.2], [0.0, 0.8]])
    monkeypatch.setattr(macop_plus, "cross_returns", lambda *given: returns)
    setup = Setup(world, MacopConfig(), 0, CPU)
    found = macop_plus.prune(setup, Learned(ego), groups, 0.02)
    assert found.decision.returns == [1.0, 0.8]
    assert found.ego.n_heads == found.decision.heads == 2
    assert torch.equal(found.ego.heads.head2.weight, ego.heads.head2.weight[[0, 2]])
    assert ego.n_heads == 3
