"""The learning engine against plain twins and numbers worked out by hand."""

import copy
import threading

import numpy as np
import pytest
import torch

from macop_aht.learner import recurrence, update
from macop_aht.learner.device import choose_device
from macop_aht.learner.mixers import Qmix, Vdn, make_mixer
from macop_aht.learner.networks import Ego, Heads, Shape, Stack, encode, member, set_member
from macop_aht.learner.replay import Packed, Replay
from macop_aht.learner.rollout import Collector, Rollout
from macop_aht.learner.seats import Exploration, Seating, greedy_returns
from macop_aht.learner.selfplay import SelfPlayConfig, self_play_training
from macop_aht.learner.threads import begin, use_threads
from macop_aht.learner.training import Source, Training, TrainingConfig, epsilon_at
from macop_aht.learner.update import Learner, UpdateConfig, clip_per_member, q_values, td_target
from macop_aht.scenarios import build
from tests.helpers import filled_replay, generator
from tests.oracles import learner as plain

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def one_thread():
    use_threads(1)


# --- The recurrence


def recurrence_case(counts, population=3, size=64):
    rows = sum(counts)
    rng = generator(1)
    gates = torch.randn(population, rows, 3 * size, generator=rng)
    weight = torch.randn(population, size, 3 * size, generator=rng) / 8
    bias = torch.randn(population, 3 * size, generator=rng)
    return [tensor.requires_grad_() for tensor in (gates, weight, bias)]


@pytest.mark.parametrize("counts", [[5], [4, 4, 4], [6, 5, 5, 2, 1]])
def test_packed_gru_and_its_gradient_are_torchs(counts):
    gates, weight, bias = recurrence_case(counts)
    hidden = recurrence.packed_gru(gates, weight, bias, counts)
    probe = torch.randn(hidden.shape, generator=generator(2))
    (hidden * probe).sum().backward()
    with torch.no_grad():
        torch.testing.assert_close(recurrence.packed_gru(gates, weight, bias, counts), hidden)
    for p in range(3):
        own = [tensor.detach()[p].clone().requires_grad_() for tensor in (gates, weight, bias)]
        at, last, total = 0, torch.zeros(counts[0], 64), 0.0
        for count in counts:  # torch's cell, fed with gates already computed
            cell = torch.nn.GRUCell(3 * 64, 64)
            cell_weights = {
                "weight_ih": torch.eye(192),
                "bias_ih": torch.zeros(192),
                "weight_hh": own[1].t(),
                "bias_hh": own[2],
            }
            last = torch.func.functional_call(cell, cell_weights, (own[0][at : at + count], last[:count]))
            torch.testing.assert_close(hidden[p, at : at + count], last, atol=1e-5, rtol=1e-5)
            total = total + (last * probe[p, at : at + count]).sum()
            at += count
        total.backward()
        for ours, theirs in zip((gates, weight, bias), own, strict=True):
            torch.testing.assert_close(ours.grad[p], theirs.grad, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("threads", [1, 2])
def test_compiled_and_plain_ways_agree(monkeypatch, threads):
    counts = [11, 11, 9, 3, 1]
    found = []
    for compiled in (True, False):
        monkeypatch.setattr(recurrence, "_compiled", lambda tensor, compiled=compiled: compiled)
        inputs = recurrence_case(counts)
        use_threads(threads)
        hidden = recurrence.packed_gru(*inputs, counts)
        hidden.square().sum().backward()
        found.append([hidden, *[tensor.grad for tensor in inputs]])
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, atol=2e-6, rtol=1e-5)


def test_what_no_helper_has_begun_is_done_where_it_is_wanted():
    use_threads(2)
    begun, wanted, here = threading.Event(), threading.Event(), threading.get_ident()

    def wait():
        begun.set()
        assert wanted.wait(60)
        return threading.get_ident()

    busy = begin(wait)
    assert begun.wait(60)  # the only helper waits
    assert begin(threading.get_ident)() == here
    wanted.set()
    assert busy() != here


def test_compiled_tanh_is_tanh_everywhere():
    """The test looks through the new gate of a cell that resets everything: with update at 0, memory is tanh of the gate."""
    values = torch.cat([torch.linspace(-12, 12, 40_001), torch.tensor([0.0, 1e-6, -1e-6, 1e30, -1e30])])
    gates = torch.full((1, len(values), 12), -30.0)
    gates[0, :, 8:] = values[:, None]
    hidden = recurrence.packed_gru(gates, torch.zeros(1, 4, 12), torch.zeros(1, 12), [len(values)])
    torch.testing.assert_close(hidden[0], values.tanh()[:, None].expand(-1, 4), atol=3e-7, rtol=1e-6)


# --- Replay in packed form


def padded(replay, p, slots, through_limit):
    """Return the same episodes of one member, padded to equal length, read from the arrays."""
    length = replay.length[p, slots]
    steps = int(length.max()) + through_limit
    at = np.minimum(np.arange(steps), replay.limit)
    clock = np.arange(steps)[None]
    seen = length + (replay.truncated[p, slots] if through_limit else 0)
    action = replay.action[p][slots][:, at]
    before = np.concatenate([np.full_like(action[:, :1], -1), action[:, :-1]], axis=1)
    arrays = {
        "obs": replay.obs[p][slots][:, at],
        "mask": replay.mask[p][slots][:, at],
        "state": replay.state[p][slots][:, at],
        "action": action,
        "last_action": before,
        "reward": replay.reward[p][slots][:, at],
        "real": (clock < length[:, None]).astype(np.float32),
        "continues": (clock + 1 < seen[:, None]).astype(np.float32),
    }
    return {name: torch.from_numpy(array) for name, array in arrays.items()}


@pytest.mark.parametrize("through_limit", [False, True])
@pytest.mark.parametrize("mixer", ["vdn", "qmix"])
@pytest.mark.parametrize("equal", [False, True], ids=["padding", "no padding"])
def test_a_stacked_update_is_four_plain_updates(mixer, equal, through_limit):
    world = build("LBF4", limit=9)
    replay = filled_replay(world, equal=equal)
    rng = generator(3)
    net = Stack(Shape.of(world), 4, rng)
    learner = Learner(
        net, make_mixer(mixer, 4, 2, world.state_dim, rng), UpdateConfig(max_grad_norm=0.5, td_lambda=0.0)
    )
    with torch.no_grad():  # targets of their own
        for parameter in [*learner.target_net.parameters(), *learner.target_mixers.parameters()]:
            parameter.add_(torch.randn(parameter.shape, generator=rng) / 10)
    make = plain.PlainQmix if mixer == "qmix" else lambda _: plain.PlainSum()
    slots = np.stack([np.random.default_rng(p).permutation(12)[:8] for p in range(4)])
    expected = []
    for p in range(4):
        own = plain.PlainNet(member(net, p)), make(member(learner.mixers["self"], p))
        targets = plain.PlainNet(member(learner.target_net, p)), make(member(learner.target_mixers["self"], p))
        episodes = padded(replay, p, slots[p], through_limit)
        loss = plain.plain_update(*own, *targets, episodes, gamma=0.99, limit=0.5, rate=5e-4)
        expected.append((loss, own[0].stack_weights(), own[1].stack_weights()))
    losses = learner.update(replay.pack(slots, CPU, through_limit))
    assert (losses["grad_norm"] > 0.5).any()  # clipping has happened
    for p, (loss, net_weights, mixer_weights) in enumerate(expected):
        assert float(losses["td"][p]) == pytest.approx(loss, rel=1e-4)
        for weights, module in ((net_weights, net), (mixer_weights, learner.mixers["self"])):
            for name, value in member(module, p).items():
                torch.testing.assert_close(value, weights[name], atol=1e-5, rtol=1e-4)


def test_packing_keeps_only_what_exists():
    world = build("LBF4", limit=9)
    replay = filled_replay(world, population=2, episodes=5)
    slots = np.tile(np.arange(5), (2, 1))
    batch = replay.pack(slots, CPU)
    lengths = -np.sort(-replay.length, axis=1)
    assert batch.counts == tuple(int((lengths > t).sum(axis=1).max()) for t in range(lengths.max()))
    assert batch.real.sum(dim=1).tolist() == replay.length.sum(axis=1).tolist()
    starts = np.cumsum([0, *batch.counts])
    for t, count in enumerate(batch.counts[:-1]):
        for r in range(min(count, batch.counts[t + 1])):
            assert batch.following[starts[t] + r] == starts[t + 1] + r


def test_replay_is_a_ring_and_hides_unfinished_episodes():
    world = build("LBF4")
    replay = Replay(world, 2, capacity=3, state=0)
    rng = np.random.default_rng(0)
    assert len(replay) == 0
    first = replay.begin(np.array([0, 0, 1, 1]))
    np.testing.assert_array_equal(first, [0, 1, 0, 1])
    replay.end(np.array([0, 1]), np.array([1, 0]), np.array([4, 5]), np.array([False, False]))
    assert len(replay) == 1
    batch = replay.sample(1, rng, CPU)
    assert batch.real.sum(dim=1).tolist() == [4, 5]
    replay.begin(np.array([0, 0, 0]))  # goes around: the finished one in slot 1 is given up
    assert replay.length[0].tolist() == [0, 0, 0]
    replay.clear()
    assert len(replay) == 0


# --- Targets and gradients by hand


def tiny_batch():
    """Return a batch of one team, two agents, two actions; one episode has three steps, and one has one step."""
    counts, following = (2, 1, 1), torch.tensor([2, 0, 3, 0])
    mask = torch.ones(1, 4, 2, 2, dtype=torch.bool)
    mask[0, 2, 0, 1] = False  # at the second step the first agent may not take its best action
    return Packed(
        counts, torch.arange(2), following, torch.zeros(1, 4, 2, 1), mask,
        torch.zeros(1, 4, 2).long(),
        reward=torch.tensor([[0.0, 5.0, 2.0, 1.0]]), real=torch.ones(1, 4), continues=torch.tensor([[1.0, 0.0, 1.0, 0.0]]),
        state=torch.zeros(1, 4, 0),
    )  # fmt: skip


def test_targets_by_hand():
    q = torch.tensor(
        [[[[0.0, 9.0], [1.0, 0.0]], [[0.0, 0.0], [0.0, 0.0]], [[3.0, 7.0], [2.0, 4.0]], [[1.0, 2.0], [6.0, 5.0]]]]
    )
    target_q = 10 * q + 1
    # Step 0: next is row 2, where agent 0 may only take action 0 (31) and agent 1 prefers action 1 (41): 0 + 0.5 * 72.
    # The short episode ends with 5. Step 1: next is row 3, agent 0 takes action 1 (21), agent 1 action 0 (61): 2 + 0.5 * 82.
    # Step 2 is the last: 1.
    target = td_target(q, target_q, Vdn(), tiny_batch(), gamma=0.5)
    torch.testing.assert_close(target, torch.tensor([[36.0, 5.0, 43.0, 1.0]]))


def test_lambda_targets_by_hand():
    q = torch.zeros(1, 4, 2, 2)
    target_q = torch.tensor(
        [[[[0.0, 0]] * 2, [[0.0, 0]] * 2, [[4.0, 0]] * 2, [[2.0, 0]] * 2]]
    )  # team values 0, 0, 8, 4
    # The long episode: its last step is worth 1, with nothing behind it. Step 1: 2 + 0.5 * (4 + 0.25 * (1 - 4)) = 3.625.
    # Step 0: 0 + 0.5 * (8 + 0.25 * (3.625 - 8)) = 3.453125. The short episode ends with its 5.
    target = td_target(q, target_q, Vdn(), tiny_batch(), gamma=0.5, td_lambda=0.25)
    torch.testing.assert_close(target, torch.tensor([[3.453125, 5.0, 3.625, 1.0]]))
    everything = td_target(q, target_q, Vdn(), tiny_batch(), gamma=0.5, td_lambda=1.0)  # the discounted return
    torch.testing.assert_close(everything, torch.tensor([[0.0 + 0.5 * 2.5, 5.0, 2.5, 1.0]]))


def test_compiled_and_plain_targets_agree():
    batch = filled_replay(build("LBF4", limit=9), population=3).pack(np.tile(np.arange(12), (3, 1)), CPU)
    next_value = torch.randn(batch.reward.shape, generator=generator(3))
    found = update._compiled_lambda_target(batch, next_value, 0.9, 0.7)
    torch.testing.assert_close(found, update._lambda_target(batch, next_value, 0.9, 0.7))


def test_gradients_are_clipped_per_member():
    parameter = torch.nn.Parameter(torch.zeros(3, 2))
    other = torch.nn.Parameter(torch.zeros(3, 1))
    parameter.grad = torch.tensor([[3.0, 0.0], [30.0, 0.0], [0.0, 0.0]])
    other.grad = torch.tensor([[4.0], [40.0], [0.0]])
    norms = clip_per_member([parameter, other], 10.0)
    torch.testing.assert_close(norms, torch.tensor([5.0, 50.0, 0.0]))
    torch.testing.assert_close(parameter.grad, torch.tensor([[3.0, 0.0], [6.0, 0.0], [0.0, 0.0]]))
    torch.testing.assert_close(other.grad, torch.tensor([[4.0], [8.0], [0.0]]))


def test_qmix_is_monotone_and_reads_the_state():
    mixer = Qmix(3, 2, 7, generator())
    q = torch.randn(3, 50, 2, generator=generator(1)).requires_grad_()
    state = torch.randn(3, 50, 7, generator=generator(2))
    total = mixer(q, state)
    (gradient,) = torch.autograd.grad(total.sum(), q)
    assert (gradient >= 0).all()
    assert (gradient > 0).any()
    assert not torch.allclose(total, mixer(q, state + 1))


def test_terms_are_added_with_their_weights():
    world = build("LBF4", limit=5)
    replay = filled_replay(world, population=2)
    batch = replay.pack(np.tile(np.arange(6), (2, 1)), CPU)
    moved = []
    for weight in (0.0, 1.0):
        learner = Learner(Stack(Shape.of(world), 2, generator()), Vdn(), UpdateConfig())
        before = q_values(learner.net, batch).detach()
        losses = learner.update(
            batch,
            {"push": (weight * 1e3, lambda learner, batch, q: q()[1:].mean().repeat(2) * torch.tensor([0.0, 1.0]))},
        )
        assert set(losses) == {"td", "push", "grad_norm"}
        moved.append((q_values(learner.net, batch).detach() - before).mean(dim=(1, 2, 3)))
    assert moved[0][0] == moved[1][0]  # the term concerns the second team alone
    assert moved[1][1] < min(0, moved[0][1])


# --- Networks


def test_members_go_out_and_in():
    shape = Shape(4, 3, 2)
    one, two = Stack(shape, 3, generator(0)), Stack(shape, 2, generator(1))
    inputs, memory = torch.randn(1, 5, shape.input), torch.zeros(1, 5, 64)
    set_member(two, 1, member(one, 2))
    ours = one.step(inputs.expand(3, -1, -1), memory.expand(3, -1, -1))[0][2]
    theirs = two.step(inputs.expand(2, -1, -1), memory.expand(2, -1, -1))[0]
    torch.testing.assert_close(ours, theirs[1])
    assert not torch.allclose(ours, theirs[0])
    with pytest.raises(ValueError, match="another scenario"):
        set_member(Stack(Shape(5, 3, 2), 1), 0, member(one, 0))
    with pytest.raises(ValueError, match="this network has"):
        set_member(two, 0, {})


def test_ego_gives_all_heads_in_one_pass_and_grows():
    shape = Shape(4, 3, 2)
    ego = Ego(shape, 2, generator())
    inputs, counts = torch.randn(1, 6, shape.input), [3, 2, 1]
    before = ego(inputs, counts)
    assert before.shape == (2, 6, 3)
    memory = torch.zeros(1, 3, 64)
    q, _ = ego.step(inputs[:, :3], memory)
    torch.testing.assert_close(q, before[:, :3])
    ego.add_head(Heads(shape, 1, generator(5)))
    after = ego(inputs, counts)
    torch.testing.assert_close(after[:2], before)
    ego.drop_head(0)
    torch.testing.assert_close(ego(inputs, counts), after[1:])
    single = Heads(shape, 1)
    set_member(single, 0, member(ego.heads, 1))
    torch.testing.assert_close(single(ego.backbone(inputs, counts))[0], after[2])
    ego.drop_head(1)
    with pytest.raises(ValueError, match=r"cannot drop head 1 of 1; allowed are 0\.\.0"):
        ego.drop_head(1)


def test_encoding():
    shape = Shape(obs=2, actions=3, agents=2)
    rows = encode(shape, torch.tensor([[0.5, 0.6], [0.7, 0.8]]), torch.tensor([-1, 2]), torch.tensor([0, 1]))
    torch.testing.assert_close(rows, torch.tensor([[0.5, 0.6, 0, 0, 0, 1, 0], [0.7, 0.8, 0, 0, 1, 0, 1]]))


# --- Rollouts


def test_what_is_collected_is_what_was_played():
    """The replay's Q values, recomputed over whole episodes, choose the actions that were taken step by step."""
    world = build("LBF4")
    net = Stack(Shape.of(world), 3, generator())
    replay = Replay(world, 3, capacity=40, state=world.state_dim)
    collector = Collector(world, Seating.self_play(net, 4), np.repeat(np.arange(3), 4), replay, seed=0, device=CPU)
    finished = 0
    while len(replay) < 8:
        _, returns = collector.step()
        finished += len(returns)
    assert finished == (replay.length > 0).sum()
    batch = replay.sample(8, np.random.default_rng(0), CPU)
    q = q_values(net, batch).masked_fill(~batch.mask, -torch.inf)
    real = batch.real.bool()
    assert torch.equal(q.argmax(dim=-1)[real], batch.action[real])
    assert torch.equal(batch.state, batch.inputs[..., : net.shape.obs].flatten(2))


def test_exploration_is_uniform_over_available_actions():
    world = build("LBF4")
    rollout = Rollout(world, Seating.self_play(Stack(Shape.of(world), 1, generator()), 500), seed=0, device=CPU)
    rollout.act(Exploration(np.ones((1, 1))))
    taken = np.take_along_axis(rollout.batch.mask, rollout.action[..., None], axis=-1)
    assert taken.all()
    assert np.bincount(rollout.action.ravel(), minlength=5).min() > 120
    greedy = Rollout(world, Seating.self_play(Stack(Shape.of(world), 1, generator()), 500), seed=0, device=CPU)
    greedy.act()
    rollout.act(Exploration(np.full((1, 1), 0.3)))
    assert (greedy.action != rollout.action).mean() < 0.5


def test_actions_are_drawn_by_the_softmax_of_their_values():
    """Only for the agents that draw; unavailable actions are never drawn, and the other agents take the best."""
    world = build("LBF4")
    net = Stack(Shape.of(world), 1, torch.Generator().manual_seed(0))
    values = torch.tensor([1.0, 0.0, 0.5, -1.0, 2.0])
    with torch.no_grad():
        net.heads.head2.weight.zero_()
        net.heads.head2.bias[0] = values
    rollout = Rollout(world, Seating.self_play(net, 4_000), 0, torch.device("cpu"))
    rollout.batch.mask[:, :, 3] = 0
    rollout.act(Exploration(np.zeros((1, 2)), sampled=np.array([True, False])))
    chance = values.masked_fill(torch.arange(5) == 3, -torch.inf).softmax(dim=0)
    found = np.bincount(rollout.action[:, 0], minlength=5) / 4_000
    np.testing.assert_allclose(found, chance, atol=0.03)
    assert found[3] == 0
    assert (rollout.action[:, 1] == 4).all()


def test_those_who_take_actions_for_others():
    """An agent with permuted actions plays what it takes for the best, but no unavailable action."""
    world = build("LBF4")
    net = Stack(Shape.of(world), 1, generator())
    with torch.no_grad():
        net.heads.head2.weight.zero_()
        net.heads.head2.bias[0] = torch.tensor([1.0, 0.0, 0.5, -1.0, 2.0])
    rollout = Rollout(world, Seating.self_play(net, 3), 0, CPU)
    taken_for = np.tile(np.arange(5), (3, 2, 1))
    # The second action has the value of the first, the third that of the last.
    taken_for[1, 1] = taken_for[2, 1] = [1, 0, 4, 3, 2]
    rollout.batch.mask[2, :, 2] = 0
    rollout.act(Exploration(np.zeros((1, 2)), permuted=taken_for))
    assert rollout.action.tolist() == [[4, 4], [4, 2], [4, 1]]


def test_persistent_explorers_repeat_themselves_and_teams_may_explore_as_one():
    world = build("PP1")  # every action is always available
    rollout = Rollout(world, Seating.self_play(Stack(Shape.of(world), 1, generator()), 500), seed=0, device=CPU)
    always = np.ones((1, 1))
    rollout.act(Exploration(always))
    first = rollout.action.copy()
    rollout.step()
    rollout.act(Exploration(always, persistence=0.75))
    assert (rollout.action == first).mean() == pytest.approx(0.75 + 0.25 / 5, abs=0.04)
    rollout.act(Exploration(always, together=0.5))
    assert (rollout.action[:, 0] == rollout.action[:, 1]).mean() == pytest.approx(0.5 + 0.5 / 5, abs=0.05)
    greedy, other = (
        Rollout(world, Seating.self_play(Stack(Shape.of(world), 1, generator()), 500), 0, CPU) for _ in "ab"
    )
    greedy.act()
    other.act(Exploration(np.array([[0.0, 1.0]])))  # the second agent only
    np.testing.assert_array_equal(other.action[:, 0], greedy.action[:, 0])
    assert (other.action[:, 1] != greedy.action[:, 1]).mean() > 0.6


def test_some_seats_alone_are_kept_and_learnt_from():
    """A replay of the ego's seats gives the network's own values of these agents, and no other agent's."""
    world = build("CN3")
    net = Stack(Shape.of(world), 2, generator())
    whole, part = (Replay(world, 2, 40, state=world.state_dim, seats=seats) for seats in (None, (0, 2)))
    for replay in (whole, part):
        collector = Collector(world, Seating.self_play(net, 4), np.repeat(np.arange(2), 4), replay, seed=0, device=CPU)
        while len(replay) < 8:
            collector.step(Exploration(np.full((1, 1), 0.5)))
    slots = np.tile(np.arange(8), (2, 1))
    all_agents, some = whole.pack(slots, CPU), part.pack(slots, CPU)
    assert some.inputs.shape[2] == 2
    torch.testing.assert_close(q_values(net, some), q_values(net, all_agents)[:, :, [0, 2]])
    mixer = Qmix(2, 3, world.state_dim, generator())
    mixed = mixer(torch.ones(2, some.inputs.shape[1], 2), some.state, some.agent)
    left_out = torch.ones(2, some.inputs.shape[1], 3) * torch.tensor([1.0, 0.0, 1.0])
    torch.testing.assert_close(mixed, mixer(left_out, some.state))


def test_every_second_episode_is_a_batch_of_its_own():
    replay = filled_replay(build("LBF4", limit=9), population=2)
    batch = replay.pack(np.tile(np.arange(12), (2, 1)), CPU)
    half, index = batch.every(2)
    assert half.counts == tuple((count + 1) // 2 for count in batch.counts)
    net = Stack(Shape.of(build("LBF4")), 2, generator())
    torch.testing.assert_close(q_values(net, half), q_values(net, batch)[:, index])
    at_end = half.following == 0
    torch.testing.assert_close(
        half.inputs[:, half.following][:, ~at_end], batch.inputs[:, batch.following[index]][:, ~at_end]
    )


def test_cross_play_seats_the_right_networks():
    world = build("CN3")
    one, two = Stack(Shape.of(world), 2, generator(0)), Stack(Shape.of(world), 3, generator(1))
    pairs = np.array([[0, 0], [1, 2], [1, 1]])
    mixed = greedy_returns(world, Seating.cross_play(one, two, pairs, envs=2, controllable=2), 1, seed=0, device=CPU)
    assert mixed.shape == (6, 1)
    rollout = Rollout(world, Seating.cross_play(one, two, pairs, 2, 2), seed=0, device=CPU)
    rollout.act()
    for k, (ego, mate) in enumerate(pairs):
        for i in range(3):
            net, p = (one, ego) if i < 2 else (two, mate)
            obs = torch.from_numpy(rollout.batch.obs[2 * k, i])
            inputs = encode(net.shape, obs, torch.tensor(-1), torch.tensor(i))
            q, _ = net.step(inputs.expand(net.population, 1, -1), torch.zeros(net.population, 1, 64))
            assert int(q[p, 0].argmax()) == rollout.action[2 * k, i]


def test_an_ego_plays_each_head():
    """Every head of an ego acts as the stack network that has the same backbone and that head."""
    world = build("LBF4")
    ego, mates = Ego(Shape.of(world), 3, generator(0)), Stack(Shape.of(world), 2, generator(1))
    twins = Stack(Shape.of(world), 3)
    for k in range(3):
        weights = {f"heads.{name}": value for name, value in member(ego.heads, k).items()}
        set_member(twins, k, weights | {f"backbone.{name}": value for name, value in member(ego.backbone, 0).items()})
    pairs = np.array([[0, 1], [2, 0], [1, 1], [2, 1]])
    ours, theirs = (Rollout(world, Seating.cross_play(net, mates, pairs, 3, 1), 0, CPU) for net in (ego, twins))
    for _ in range(30):
        for rollout in (ours, theirs):
            rollout.act()
        np.testing.assert_array_equal(ours.action, theirs.action)
        for rollout in (ours, theirs):
            over = rollout.step()
            if over.any():
                rollout.begin(over)


def train_teams(world, config, seed, device):
    training = self_play_training(world, config, seed, device)
    training.run()
    return training.learner


def test_teammates_change_in_mid_episode():
    """The teammates of two environments are swapped: each acts as the other did, from empty memory; the ego is unaffected."""
    world = build("CN2")
    ego, mates = Ego(Shape.of(world), 2, torch.Generator().manual_seed(0)), Stack(Shape.of(world), 3)
    pairs = np.array([(0, 0), (1, 1), (0, 2)])
    rollout = Rollout(world, Seating.cross_play(ego, mates, pairs, 2, 1), 0, torch.device("cpu"))
    for _ in range(4):
        rollout.act()
        rollout.step()
    own, theirs = (table.memory.clone() for table in rollout.seats.stacks)
    rollout.exchange(np.array([2, 1, 0, 3, 4, 5]))  # environments 0 and 2: teams 0 and 1
    assert rollout.seats.stacks[1].rows.tolist() == [[5, 3], [1, 7], [9, 11]]
    assert torch.equal(rollout.seats.stacks[0].memory, own)
    kept = torch.tensor([[0.0, 1.0], [0.0, 1.0], [1.0, 1.0]]).unsqueeze(-1)
    assert torch.equal(rollout.seats.stacks[1].memory, theirs * kept)
    assert (rollout.last_action[[0, 2], 1] == -1).all()
    assert (rollout.last_action[[1, 3, 4, 5]] >= 0).all()
    assert (rollout.last_action[:, 0] >= 0).all()
    alone = Rollout(world, Seating.self_play(mates, 2), 0, CPU)
    with pytest.raises(ValueError, match="nobody here is an ego"):
        alone.exchange(np.arange(6)[::-1])


def test_training_is_reproducible_and_depends_on_the_seed():
    world = build("CN2", limit=8)
    config = SelfPlayConfig(2, 800, TrainingConfig(envs=4, batch=8, target_every=20, mixer="qmix"))
    first, again, other = (train_teams(world, config, seed, CPU).net.state_dict() for seed in (0, 0, 1))
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not all(torch.equal(first[name], other[name]) for name in first)


def test_epsilon_falls_linearly():
    config = TrainingConfig(epsilon_steps=100)
    assert epsilon_at(config, np.array([0, 50, 100, 500])) == pytest.approx([1.0, 0.525, 0.05, 0.05])


def test_sources_take_turns_by_their_shares_and_exploration_waits_for_a_reward():
    world = build("PP2", limit=4)  # too short for a catch
    net = Stack(Shape.of(world), 2, generator())
    member, config = np.repeat(np.arange(2), 2), TrainingConfig(envs=2, epsilon_steps=1)
    replays = [Replay(world, 2, 50, state=0) for _ in range(2)]
    collectors = [Collector(world, Seating.self_play(net, 2), member, replay, 0, CPU) for replay in replays]
    sources = [Source(collectors[0]), Source(collectors[1], share=0.25, explorers=())]
    training = Training(config, Learner(net, Vdn(), config.update), sources, steps=1_000, seed=0)
    while not training.done:
        training.step()
    assert collectors[1].episodes == pytest.approx(collectors[0].episodes / 4, abs=2)
    assert replays[0].reward.sum() == 0
    first, second = (np.bincount(replay.action[replay.action >= 0], minlength=5) for replay in replays)
    assert first.min() > 0.1 * first.sum()  # still exploring, although epsilon would have fallen long ago
    assert second.max() > 0.3 * second.sum()  # nobody explores here


def test_the_average_follows_the_weights():
    world = build("LBF4", limit=5)
    batch = filled_replay(world, population=2).pack(np.tile(np.arange(6), (2, 1)), CPU)
    learner = Learner(Stack(Shape.of(world), 2, generator()), Vdn(), UpdateConfig(averaging=0.75))
    expected = learner.net.heads.head2.bias.detach().clone()
    for _ in range(3):
        learner.update(batch)
        expected = 0.75 * expected + 0.25 * learner.net.heads.head2.bias.detach()
    learner.settle()
    torch.testing.assert_close(learner.net.heads.head2.bias.detach(), expected)


def test_targets_are_copied_when_asked():
    world = build("LBF4", limit=5)
    learner = Learner(Stack(Shape.of(world), 2, generator()), Vdn(), UpdateConfig())
    before = copy.deepcopy(learner.target_net.state_dict())
    learner.update(filled_replay(world, population=2).pack(np.tile(np.arange(6), (2, 1)), CPU))
    assert all(torch.equal(before[name], value) for name, value in learner.target_net.state_dict().items())
    learner.copy_target()
    assert all(
        torch.equal(learner.net.state_dict()[name], value) for name, value in learner.target_net.state_dict().items()
    )


def test_a_trivial_team_is_learnt():
    """In a corridor, both agents must walk to the food in the middle. The team learns it in seconds."""
    world = build("LBF4", shape=(1, 7), foods=((0, 3),), spawn=((0, 0), (0, 6)), limit=6)
    config = SelfPlayConfig(2, 6_000, TrainingConfig(epsilon_steps=2_000, ratio=4, target_every=50))
    learner = train_teams(world, config, seed=0, device=CPU)
    returns = greedy_returns(world, Seating.self_play(learner.net, 20), 1, seed=1, device=CPU)
    assert returns.mean() == 1.0
    untrained = Stack(Shape.of(world), 2, generator())
    assert greedy_returns(world, Seating.self_play(untrained, 20), 1, seed=1, device=CPU).mean() < 0.5


def test_devices():
    assert choose_device("cpu") == CPU
    assert choose_device("auto").type in ("cpu", "cuda")
    with pytest.raises(ValueError, match="allowed are auto, cpu, cuda"):
        choose_device("tpu")
    if torch.cuda.device_count() < 8:
        with pytest.raises(ValueError, match="is not there"):
            choose_device("cuda:7")
    with pytest.raises(ValueError, match="allowed are 'vdn' and 'qmix'"):
        make_mixer("qtran", 1, 2, 3)
