"""The best episodes of a network, which PPO imitates."""

import copy

import numpy as np
import pytest
import torch

from macop_aht.learner.best import KEPT, Best, Seeds, discounted
from macop_aht.learner.networks import Shape, Stack
from macop_aht.learner.ppo import Demonstration, PpoLearner, ProximalConfig, Schedule
from macop_aht.learner.replay import Replay
from macop_aht.learner.selfplay import SelfPlayConfig, self_play_training
from macop_aht.learner.threads import use_threads
from macop_aht.learner.training import TrainingConfig
from macop_aht.scenarios import build
from tests.helpers import generator

CPU = torch.device("cpu")
STILL = Schedule(learning_rate=1e-3, entropy=0.0, sticky=0.0, together=0.0)


@pytest.fixture(autouse=True)
def one_thread():
    use_threads(1)


def replay_of(rewards, rings=1, capacity=40):
    """Return a replay of episodes with these rewards at their ends, as long as the reward's number is; the same in every ring."""
    replay = Replay(build("LBF4", limit=6), rings, capacity, state=3)
    for ring in range(rings):
        at = np.full(len(rewards), ring)
        slots = replay.begin(at)
        lengths = 1 + slots % 6
        replay.mask[ring] = True
        replay.reward[ring, slots, lengths - 1] = rewards
        replay.obs[ring, slots, 0, 0, 0] = rewards
        replay.end(at, slots, lengths, np.zeros(len(rewards), dtype=np.bool_))
    return replay


def kept(best, ring=0):
    """Return the rewards of the episodes that are kept, in ascending order."""
    return sorted(best.replay.reward[ring].sum(axis=1)[np.isfinite(best.returns[ring])].tolist())


def test_returns_are_discounted_and_end_with_the_episode():
    reward = np.array([[1.0, 2.0, 4.0, 9.0], [0.0, 2.0, 0.0, 0.0]])
    np.testing.assert_allclose(discounted(reward, np.array([3, 2]), 0.5), [1 + 1 + 1, 1])


def test_episodes_above_the_average_are_kept_until_better_ones_come():
    replay = replay_of([0.0, 1.0, 0.0, 3.0])
    best = Best(replay, gamma=1.0)
    assert best.parts(1, 4, None, np.zeros(1), CPU, np.random.default_rng(0)) == []
    ring = np.zeros(4, dtype=np.int64)
    best.keep(ring, np.arange(4))
    assert kept(best) == [3.0]  # the average is 1
    best.keep(ring[:2], np.arange(2))
    assert kept(best) == [1.0, 3.0]  # the average is 0.5
    many = replay_of(np.linspace(0.1, 4.0, 40))
    full = Best(many, gamma=1.0)
    for slots in np.arange(40).reshape(20, 2):
        full.keep(np.zeros(2, dtype=np.int64), slots)
    assert len(kept(full)) == 20  # of each two, the better one
    for slots in np.arange(40).reshape(2, 20).T:
        full.keep(np.zeros(2, dtype=np.int64), slots)
    assert len(kept(full)) == KEPT
    assert min(kept(full)) > 1.0


def test_every_ring_has_its_own():
    replay = replay_of([0.0, 1.0, 2.0, 3.0], rings=2)
    best = Best(replay, gamma=1.0)
    best.keep(np.array([0, 0, 1, 1]), np.array([0, 3, 0, 1]))
    assert (kept(best, 0), kept(best, 1)) == ([3.0], [1.0])


def test_seeds_are_kept_as_if_they_had_been_played():
    source = replay_of([5.0, 6.0, 7.0])
    seeds = Seeds(source.episodes(0, np.arange(3)), [np.array([0, 2]), np.array([1])])
    best = Best(replay_of([1.0], rings=2), 1.0, seeds)
    assert (kept(best, 0), kept(best, 1)) == ([5.0, 7.0], [6.0])
    assert best.replay.obs[1, 0, 0, 0, 0] == 6.0


def test_weights_by_hand():
    """An episode of two steps with a reward of 4 at its end, discounted by a half: its returns are 2 and 4."""
    replay = replay_of([0.0, 4.0])
    best = Best(replay, gamma=0.5)
    best.keep(np.zeros(2, dtype=np.int64), np.arange(2))

    def value(batch):
        return torch.tensor([[1.5, 5.0]])  # of the step before the reward too much is expected

    (part,) = best.parts(1, 1, value, np.array([0.5]), CPU, np.random.default_rng(0))
    torch.testing.assert_close(part.worth, torch.tensor([[0.5 / 2.0, 0.0]]))  # 2 is the best return
    (part,) = best.parts(1, 1, value, np.array([8.0]), CPU, np.random.default_rng(0))
    torch.testing.assert_close(part.worth, torch.tensor([[0.5 / 8.0, 0.0]]))  # once it had a reward of 8


def test_actions_become_more_probable_by_their_weights():
    """The loss is the mean of minus the log-probabilities times the weights: uniform at first, log 5 each."""
    world = build("LBF4", limit=6)
    replay = replay_of([0.0, 4.0])
    net = Stack(Shape.of(world), 1, generator())
    with torch.no_grad():
        net.heads.head2.weight.zero_()
        net.heads.head2.bias.zero_()
    batch = replay.pack(np.array([[1]]), CPU)
    learner = PpoLearner(net, [3], ProximalConfig(), 0.9)
    loss = learner.losses({1: (0.5, Demonstration(batch, torch.tensor([[0.25, 0.0]])))}, STILL)["policy 1"]
    assert loss.item() == pytest.approx(0.5 * 0.25 / 2 * np.log(5))


def test_a_training_imitates_its_seeds_and_resumes_with_what_it_keeps():
    """Both networks learn to go where their seeds went, without ever being rewarded for it."""
    world = build("LBF4", limit=6)
    ppo = ProximalConfig(envs=8, parts=2, imitation=1.0, learning_rate=1e-2)
    config = SelfPlayConfig(2, 6_000, TrainingConfig(learner="ppo", ppo=ppo, persistence=0.0))
    phase, source = (self_play_training(world, config, seed, CPU) for seed in (0, 1))
    source.step()
    episodes = source.replay.episodes(0, np.arange(8))
    episodes["action"][:4], episodes["action"][4:] = 1, 3
    episodes["reward"][:] = 0.0
    episodes["reward"][np.arange(8), episodes["length"] - 1] = 1.0
    phase.best = Best(phase.replay, 0.99, Seeds(episodes, [np.arange(4), np.arange(4, 8)]))
    for _ in range(10):
        phase.step()
    action = phase.replay.action[:, :, :2]
    assert [(action[p] == own).mean() > 0.5 for p, own in enumerate((1, 3))] == [True, True]
    arrays, note = copy.deepcopy(phase.state())
    resumed = self_play_training(world, config, 0, CPU)
    resumed.load_state(arrays, note)
    for other in (phase, resumed):
        other.step()
    for name, part in phase.learner.net.state_dict().items():
        assert torch.equal(part, resumed.learner.net.state_dict()[name]), name
