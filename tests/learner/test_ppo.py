"""Recurrent PPO against numbers worked out by hand, and against plain loops over steps and members."""

from dataclasses import replace
from math import exp, log

import numpy as np
import pytest
import torch

from macop_aht.config import ConfigError
from macop_aht.learner.experience import Experience, environments, self_play
from macop_aht.learner.networks import Shape, Stack, member, set_member
from macop_aht.learner.phase import begin
from macop_aht.learner.ppo import (
    PpoLearner,
    ProximalConfig,
    Schedule,
    clipped,
    entropy,
    log_policy,
    normalised,
    stickiness,
    taken,
)
from macop_aht.learner.replay import Replay
from macop_aht.learner.rounds import PpoTraining, Rounds
from macop_aht.learner.seats import Seating, greedy_returns
from macop_aht.learner.selfplay import SelfPlayConfig, self_play_training
from macop_aht.learner.threads import use_threads
from macop_aht.learner.training import TrainingConfig
from macop_aht.learner.update import q_values
from macop_aht.scenarios import build
from tests.helpers import filled_replay, generator

CPU = torch.device("cpu")
PPO = TrainingConfig(learner="ppo", ppo=ProximalConfig(envs=8, parts=2))
STILL = Schedule(learning_rate=1e-3, entropy=0.0, sticky=0.0, together=0.0)


@pytest.fixture(autouse=True)
def one_thread():
    use_threads(1)


# --- Parts of the loss


def one_episode(rewards):
    """One episode of one member, with these rewards."""
    world = build("LBF4", limit=len(rewards))
    replay, ring = Replay(world, 1, 1, state=3), np.zeros(1, dtype=np.int64)
    slot = replay.begin(ring)
    replay.mask[:] = True
    replay.action[:] = 1
    replay.reward[0, 0, : len(rewards)] = rewards
    replay.end(ring, slot, np.array([len(rewards)]), np.array([False]))
    return world, replay.pack(slot[None], CPU)


def test_advantages_by_hand(monkeypatch):
    """Discount 0.5 and lambda 0.5; values 0.2, 0.4, 0.6; rewards 0, 1, 2."""
    world, batch = one_episode([0.0, 1.0, 2.0])
    learner = PpoLearner(Stack(Shape.of(world), 1, generator()), [3], ProximalConfig(trace=0.5), gamma=0.5)
    monkeypatch.setattr(learner.critics[0], "forward", lambda state, counts: torch.tensor([[0.2, 0.4, 0.6]]))
    # last: 2 - 0.6 = 1.4; then 1 + 0.3 - 0.4 + 0.25 * 1.4 = 1.25; first 0 + 0.2 - 0.2 + 0.25 * 1.25 = 0.3125
    by_hand = np.array([0.3125, 1.25, 1.4])
    (part,) = learner.prepare(0, [batch], np.ones(1), 0.0)
    np.testing.assert_allclose(part.target[0], by_hand + np.array([0.2, 0.4, 0.6]), rtol=1e-6)
    np.testing.assert_allclose(part.advantage[0], (by_hand - by_hand.mean()) / by_hand.std(), rtol=1e-5)


def test_small_advantages_stay_small():
    """The deviation is 0.01 and the floor 0.1; and where no return has come yet, nothing is known."""
    advantage, real = torch.tensor([[0.01, -0.01, 7.0]]), torch.tensor([[1.0, 1.0, 0.0]])
    (found,) = normalised([advantage], [real], torch.tensor([0.1]))
    torch.testing.assert_close(found[0, :2], torch.tensor([0.1, -0.1]))
    (found,) = normalised([advantage], [real], torch.tensor([0.001]))
    torch.testing.assert_close(found[0, :2], torch.tensor([1.0, -1.0]))
    (found,) = normalised([advantage], [real], torch.tensor([0.0]))
    assert found[0, :2].tolist() == [0.0, 0.0]


def test_parts_of_a_round_share_their_scale():
    first, second = normalised(
        [torch.tensor([[1.0]]), torch.tensor([[3.0]])], [torch.ones(1, 1)] * 2, torch.ones(1) * 0.1
    )
    assert (first.item(), second.item()) == (-1.0, 1.0)


@pytest.mark.parametrize(
    ("now", "advantage", "loss"),
    [
        (0.5, 1.0, -1.0),  # as before: the ratio is 1
        (0.55, 1.0, -1.1),  # within the clip
        (0.75, 1.0, -1.2),  # 1.5 counts as 1.2, and has no gradient
        (0.75, -1.0, 1.5),  # a bad action that became more probable counts in full
        (0.25, -1.0, 0.8),  # 0.5 counts as 0.8
        (0.25, 1.0, -0.5),
    ],
)
def test_clipping_by_hand(now, advantage, loss):
    given = torch.tensor(log(now), requires_grad=True)
    found = clipped(given, torch.tensor(log(0.5)), torch.tensor(advantage), 0.2)
    assert found.item() == pytest.approx(loss)
    found.backward()
    assert (given.grad == 0) == (abs(loss) in (1.2, 0.8))


def test_unavailable_actions_have_no_probability_and_the_last_action_has_a_bonus():
    world, batch = one_episode([0.0, 0.0])
    net = Stack(Shape.of(world), 1, generator())
    batch = replace(batch, mask=batch.mask.clone())
    batch.mask[..., 4] = False
    policy = log_policy(net, batch, torch.zeros(1, 2, 2, 5), sticky=log(3)).exp()
    torch.testing.assert_close(policy[0, 0, 0], torch.tensor([0.25, 0.25, 0.25, 0.25, 0.0]))  # no last action yet
    torch.testing.assert_close(policy[0, 1, 0], torch.tensor([1 / 6, 3 / 6, 1 / 6, 1 / 6, 0.0]))
    assert entropy(policy[0, 0, 0].log().clamp(min=-1e9)).item() == pytest.approx(log(4))


def test_stickiness_is_persistence():
    """Of five equal actions, the last one is repeated with 0.9 + 0.1 / 5."""
    bonus = exp(stickiness(0.9, 5))
    assert bonus / (bonus + 4) == pytest.approx(0.92)
    assert stickiness(0.0, 5) == 0.0


def test_the_schedule_goes_by_the_share_of_the_steps():
    config = ProximalConfig(learning_rate=1e-3, entropy=0.02, exploring=0.4)
    start, middle, end = (Schedule.at(done, config, 0.5, 0.8, 5) for done in (0.0, 0.2, 1.0))
    assert (start.learning_rate, start.entropy, start.together) == (1e-3, 0.02, 0.8)
    assert (middle.sticky, middle.together) == pytest.approx((start.sticky / 2, 0.4))
    assert (end.learning_rate, end.entropy, end.sticky, end.together) == pytest.approx((5e-5, 0.0, 0.0, 0.0))


# --- Stacks


def test_a_stack_of_four_is_four_singles():
    """Losses, advantages and weights after two updates, with episodes of different lengths, so that rows are padded."""
    world, schedule = build("LBF4", limit=6), replace(STILL, entropy=0.01, sticky=0.7)
    replay = filled_replay(world, population=4)
    slots = np.tile(np.arange(12), (4, 1))
    together = PpoLearner(Stack(Shape.of(world), 4, generator()), [world.state_dim], ProximalConfig(), 0.9)
    alone = [PpoLearner(Stack(Shape.of(world), 1), [world.state_dim], ProximalConfig(), 0.9) for _ in range(4)]
    for p, learner in enumerate(alone):
        for own, all_of_them in ((learner.net, together.net), (learner.critics[0], together.critics[0])):
            set_member(own, 0, member(all_of_them, p))
    whole = replay.pack(slots, CPU)
    singles = [replay.pack(slots[p : p + 1], CPU, ring=np.full((1, 12), p)) for p in range(4)]
    for _ in range(2):
        (part,) = together.prepare(0, [whole], np.ones(4), schedule.sticky)
        losses = together.losses({0: (1.0, part)}, schedule)
        for p, learner in enumerate(alone):
            (own,) = learner.prepare(0, [singles[p]], np.ones(1), schedule.sticky)
            for name, loss in learner.losses({0: (1.0, own)}, schedule).items():
                torch.testing.assert_close(loss[0], losses[name][p], rtol=1e-4, atol=1e-5)
            learner.descend(learner.losses({0: (1.0, own)}, schedule), 1e-3)
        together.descend(losses, 1e-3)
    for p, learner in enumerate(alone):
        for name, value in member(together.net, p).items():
            torch.testing.assert_close(value, member(learner.net, 0)[name], rtol=1e-3, atol=2e-5)


def test_the_first_update_is_the_policy_gradient():
    """While the ratio is 1, the gradient of the loss is that of -A log pi."""
    world = build("LBF4", limit=6)
    batch = filled_replay(world, population=1).pack(np.arange(12)[None], CPU)
    learner = PpoLearner(Stack(Shape.of(world), 1, generator()), [world.state_dim], ProximalConfig(), 0.9)
    (part,) = learner.prepare(0, [batch], np.ones(1), 0.0)
    bias = learner.net.heads.head2.bias
    (found,) = torch.autograd.grad(learner.losses({0: (2.0, part)}, STILL)["policy 0"].sum(), bias)
    scores = taken(log_policy(learner.net, batch, q_values(learner.net, batch)), batch).mean(dim=-1)
    expected = -2.0 * (scores * part.advantage * batch.real).sum() / batch.real.sum()
    torch.testing.assert_close(found, torch.autograd.grad(expected, bias)[0], rtol=1e-3, atol=1e-6)


def test_the_entropy_is_that_of_the_policy_without_its_bonus():
    """So a network without a reward stays uniform, and its agents persist. With the bonus in it, it would learn not to."""
    world, batch = one_episode([0.0, 0.0, 0.0])
    net = Stack(Shape.of(world), 1, generator())
    with torch.no_grad():
        net.heads.head2.weight.zero_()
        net.heads.head2.bias.zero_()
    learner = PpoLearner(net, [3], ProximalConfig(), 0.9)
    exploring = replace(STILL, entropy=0.1, sticky=2.0)
    (part,) = learner.prepare(0, [batch], np.zeros(1), exploring.sticky)
    loss = learner.losses({0: (1.0, part)}, exploring)["policy 0"]
    assert loss.item() == pytest.approx(-0.1 * log(5))
    (slope,) = torch.autograd.grad(loss.sum(), net.heads.head2.bias)
    torch.testing.assert_close(slope, torch.zeros_like(slope), atol=1e-7, rtol=0.0)


# --- Rounds


def rounds(scenario="LBF4", population=2, envs=30, seed=0, **changes):
    world = build(scenario)
    net = Stack(Shape.of(world), population, generator())
    training = replace(PPO, ppo=replace(PPO.ppo, envs=envs))
    return world, net, Rounds(world, replace(self_play(net, training, seed), **changes), population, CPU)


def test_log_probabilities_of_whole_episodes_are_those_of_every_step():
    """Recomputed from packed sequences, and step by step from the observations, with the memory handed on."""
    world, net, played = rounds(envs=4)
    played.play(replace(STILL, sticky=0.5))
    (batch,) = played.parts(1, np.random.default_rng(0))
    found = taken(log_policy(net, batch, q_values(net, batch), 0.5), batch)
    at = np.concatenate([[start] * count for start, count in zip(range(len(batch.counts)), batch.counts, strict=True)])
    rows = np.concatenate([np.arange(count) for count in batch.counts])
    for p in range(2):
        lengths = sorted(played.replay.length[p].tolist(), reverse=True)
        for episode, length in enumerate(lengths):
            memory = torch.zeros(2, world.n_agents, net.shape.hidden)
            for step in range(length):
                row = int(np.flatnonzero((at == step) & (rows == episode))[0])
                q, memory = net.step(batch.inputs[:, row], memory)
                logits = q[p] + 0.5 * batch.inputs[p, row, :, net.shape.obs : net.shape.obs + net.shape.actions]
                policy = logits.masked_fill(~batch.mask[p, row], -1e9).log_softmax(dim=-1)
                expected = policy.gather(-1, batch.action[p, row].unsqueeze(-1)).squeeze(-1)
                torch.testing.assert_close(found[p, row], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("together", [0.0, 1.0])
def test_agents_play_the_policy_that_learns(together):
    """Actions come as often as the policy says, bonus included; agents with shared draws too."""
    _, net, played = rounds(envs=600)
    played.play(Schedule(1e-3, 0.0, sticky=1.0, together=together))
    (batch,) = played.parts(1, np.random.default_rng(0))
    policy = log_policy(net, batch, q_values(net, batch), 1.0).exp()[batch.real > 0]
    action = torch.nn.functional.one_hot(batch.action, 5)[batch.real > 0].float()
    assert len(policy) > 10_000
    torch.testing.assert_close(action.mean(dim=0), policy.mean(dim=0), rtol=0.0, atol=0.015)
    last = batch.inputs[..., net.shape.obs : net.shape.obs + 5][batch.real > 0]
    again = last.sum(dim=-1) > 0
    repeated, expected = ((part * last).sum(dim=-1)[again].mean().item() for part in (action, policy))
    assert repeated == pytest.approx(expected, abs=0.01)
    assert repeated > 0.3
    shares = (action[:, 0] * action[:, 1]).sum(dim=-1).mean().item()
    assert (shares > 0.5) == (together == 1.0)


def test_a_round_is_an_episode_in_every_environment():
    world, _, played = rounds("CN2", envs=5)
    found, replay = played.play(STILL), played.replay
    assert (found.lengths[:, 0] == replay.length.ravel()).all()
    assert (replay.length > 0).all()
    assert found.returns.reshape(2, 5) == pytest.approx(
        np.array([[replay.reward[p, k, : replay.length[p, k]].sum() for k in range(5)] for p in range(2)])
    )
    batches = played.parts(2, np.random.default_rng(0))
    assert [batch.counts[0] for batch in batches] == [3, 2]
    assert sum(int(batch.real.sum()) for batch in batches) == found.lengths.sum()
    # what the critic is told: the state, and everybody's last action
    assert played.told == world.state_dim + world.n_agents * len(world.actions)
    told = replay.state[0, 0, 1, world.state_dim :].reshape(world.n_agents, -1)
    assert told.argmax(axis=1).tolist() == replay.action[0, 0, 0].tolist()
    assert (replay.state[0, 0, 0, world.state_dim :] == 0).all()


def test_the_largest_reward_is_that_before_anything_multiplies_it():
    """Else a group that is paid a little for what is known would learn it as fast as what is paid in full."""
    world = build("LBF4", shape=(1, 7), foods=((0, 3),), spawn=((0, 0), (0, 6)), limit=20)
    net = Stack(Shape.of(world), 1, generator())

    def attach(recorder):
        recorder.when_over.append(lambda over, ring, slot: recorder.replay.reward.__imul__(0.01))

    played = Rounds(world, replace(self_play(net, PPO, 0), attach=attach), 1, CPU)
    while not played.replay.reward.any():
        played.play(STILL)
    assert played.replay.reward.max() == pytest.approx(0.01)
    assert played.largest.tolist() == [1.0]


def test_a_negated_experience_has_the_rewards_negated():
    _, _, played = rounds("SMAC1", envs=4, sign=-1.0)
    played.play(STILL)
    (batch,) = played.parts(1, np.random.default_rng(0))
    assert batch.reward.sum().item() == pytest.approx(-played.replay.reward.sum())
    assert batch.reward.min() < 0


def test_the_critic_is_told_which_group_it_is():
    world = build("LBF4")
    net, groups = Stack(Shape.of(world), 1, generator()), Stack(Shape.of(world), 3, generator(1))
    group = np.repeat(np.arange(3), 2)
    pairs = np.stack([np.zeros(3, dtype=np.int64), np.arange(3)], axis=1)
    seating = Seating.cross_play(net, groups, pairs, 2, world.controllable)
    played = Rounds(world, Experience(seating, np.zeros(6, np.int64), 0, [0], group, 3, keep=5), 1, CPU)
    played.play(STILL)
    assert played.replay.state[:, 0, 0, -3:].tolist() == np.eye(3).tolist()
    assert played.replay.length.shape == (3, 6)  # room for five episodes, in whole rounds of two
    for _ in range(2):
        played.play(STILL)
    assert (played.replay.length > 0).all()
    assert environments(replace(PPO, ppo=ProximalConfig(envs=10)), groups=3) == 4


# --- Measures for what methods add


def test_difference_is_the_divergence_from_before():
    learner = PpoLearner(Stack(Shape.of(build("LBF4")), 1, generator()), [3], ProximalConfig(), 0.9)
    then, now = torch.tensor([0.5, 0.5, 0.0]).log().clamp(min=-50), torch.tensor([0.25, 0.75, 0.0]).log().clamp(min=-50)
    mask = torch.tensor([True, True, False]).view(1, 1, 1, 3)
    found = learner.difference(then.view(1, 1, 1, 3), now.view(1, 1, 1, 3), mask)
    assert found.item() == pytest.approx(0.5 * log(0.5 / 0.25) + 0.5 * log(0.5 / 0.75))


def test_information_by_hand():
    """A uniform policy over five actions: the Fisher information of a logit is p (1 - p) = 0.16 for each agent and step."""
    net = Stack(Shape.of(build("LBF4")), 1, generator())
    with torch.no_grad():
        for part in (net.heads.head2.weight, net.heads.head2.bias):
            part.zero_()
    _, batch = one_episode([0.0] * 3)
    learner, rng = PpoLearner(net, [3], ProximalConfig(), 0.9), np.random.default_rng(0)
    draws = [torch.autograd.grad(learner.score(batch, rng), net.heads.head2.bias)[0][0] ** 2 for _ in range(2_000)]
    np.testing.assert_allclose(torch.stack(draws).mean(dim=0) / 6, [0.16] * 5, atol=0.02)


# --- Phases


def test_demonstrations_are_imitated_at_first():
    """The network learns what its teacher does in its seat, without a reward; once nobody explores, nothing is shown."""
    world = build("LBF4")
    net, teacher = Stack(Shape.of(world), 1, generator()), Stack(Shape.of(world), 1, generator(1))
    still = Experience(Seating.self_play(net, 4), np.zeros(4, np.int64), 0, play="cross")
    shown = Experience(Seating.self_play(teacher, 8), np.zeros(8, np.int64), 1, demonstration=True)
    training = begin(world, net, [still, shown], replace(PPO, ppo=replace(PPO.ppo, learning_rate=3e-3)), 6_000, seed=0)

    def agreement():
        training.rounds[1].play(STILL)
        (batch,) = training.rounds[1].parts(1, np.random.default_rng(0))
        best = q_values(net, batch).masked_fill(~batch.mask, -torch.inf).argmax(dim=-1)
        return (best == batch.action)[batch.real > 0].float().mean().item()

    before = agreement()
    while training.progress.steps < 0.4 * training.steps:
        training.step()
    assert agreement() > max(before + 0.3, 0.8)
    played = training.rounds[1].rollout.batch.episode.max()
    training.step()
    assert training.rounds[1].rollout.batch.episode.max() == played


def test_training_is_reproducible_and_goes_on_where_it_stood():
    world, config = build("CN2", limit=8), SelfPlayConfig(2, 1_500, PPO)
    whole, again, other = (self_play_training(world, config, seed, CPU) for seed in (0, 0, 1))
    for training in (whole, again, other):
        training.step()
    arrays, note = again.state()
    resumed = self_play_training(world, config, 0, CPU)
    resumed.load_state(arrays, note)
    for training in (whole, resumed, other):
        training.run()
    assert isinstance(whole, PpoTraining)
    assert whole.progress.steps == resumed.progress.steps >= 3_000
    assert whole.progress.updates == resumed.progress.updates
    ours, theirs, others = (training.learner.net.state_dict() for training in (whole, resumed, other))
    assert all(torch.equal(ours[name], value) for name, value in theirs.items())
    assert not all(torch.equal(ours[name], value) for name, value in others.items())


def test_a_trivial_team_is_learnt():
    """In a corridor, both agents must walk to the food in the middle. The team learns it in seconds."""
    world = build("LBF4", shape=(1, 7), foods=((0, 3),), spawn=((0, 0), (0, 6)), limit=6)
    config = SelfPlayConfig(2, 6_000, replace(PPO, ppo=replace(PPO.ppo, envs=32, learning_rate=3e-3)))
    training = self_play_training(world, config, 0, CPU)
    training.run()
    assert greedy_returns(world, Seating.self_play(training.learner.net, 20), 1, 1, CPU).mean() == 1.0


@pytest.mark.parametrize("whose", ["policy", "critic"])
def test_a_loss_that_is_no_number_is_told(whose):
    world = build("LBF4", limit=4)
    training = self_play_training(world, SelfPlayConfig(1, 1_000, PPO), 0, CPU)
    learner = training.learner
    with torch.no_grad():
        (learner.net.heads.head2 if whose == "policy" else learner.critics[0].output).bias.fill_(torch.nan)
    with pytest.raises(RuntimeError, match="smaller learning rate"):
        training.step()


def test_settings_out_of_range_are_refused():
    for change in ({"envs": 0}, {"clip": 0.0}, {"trace": 1.1}, {"entropy": -1.0}, {"floor": 0.0}):
        with pytest.raises(ConfigError, match=next(iter(change))):
            ProximalConfig(**change)
