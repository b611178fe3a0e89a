"""The baselines' own terms against numbers worked out by hand, and a small whole run of every method."""

import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from macop_aht.cli import main
from macop_aht.config import changed, settings
from macop_aht.deploy.runtime import EgoAgent
from macop_aht.envs.vector import MacopVectorEnv
from macop_aht.evaluation.metrics import backward_transfer, forward_transfer, returns_over_time
from macop_aht.evaluation.pool import Entrant
from macop_aht.evaluation.rows import read_rows
from macop_aht.learner.mixers import Vdn
from macop_aht.learner.networks import Ego, Shape, Stack, encode, weights
from macop_aht.learner.phase import begin
from macop_aht.learner.replay import Replay
from macop_aht.learner.training import TrainingConfig
from macop_aht.learner.update import Learner, UpdateConfig
from macop_aht.methods import (
    borrowed,
    clear,
    continual,
    ewc,
    fcp,
    fresh,
    lipo,
    macop,
    multi_head,
    phases,
    ppo,
    ppo_learner,
    presets,
    registry,
    rehearsal,
    sequence,
    summary,
)
from macop_aht.methods.continual import Lesson
from macop_aht.methods.fcp import FcpConfig
from macop_aht.methods.macop import MacopConfig
from macop_aht.methods.phases import EgoConfig, Setup
from macop_aht.methods.training import METHODS, MethodRun, configure, preset, preset_of, read_run, setup_of, train
from macop_aht.policies import resolve
from macop_aht.runs import checkpoints
from macop_aht.runs.folder import RunFolder
from macop_aht.runs.records import Decision
from macop_aht.scenarios import SCENARIOS, build
from tests.helpers import filled_replay, generator

CPU = torch.device("cpu")
SMALL = TrainingConfig(envs=4, batch=8, capacity=60, target_every=15, ratio=4)
MACOP = MacopConfig(
    population=2, min_iterations=2, max_iterations=2, stop_threshold=2.0, teammate_steps=900, ego_steps=900,
    test_episodes=4, expansion_threshold=-9.0, teammates=SMALL, mutation=SMALL, ego=SMALL,
)  # fmt: skip
STAGES = {"teammates": {"population": 3, "steps": 1_200}, "ego": {"steps": 900}}
CHANGES = {  # for small runs, beside MACOP
    "fcp": STAGES, "trajedi": STAGES, "lipo": STAGES, "ewc": {"fisher_episodes": 4}, "clear": {"kept_episodes": 16},
    "ppo": {"steps": 200, "optimisation": {"envs": 4, "rollout": 32, "batch": 64, "epochs": 2}},
}  # fmt: skip
LENDERS = {name: method.lender for name, method in METHODS.items()} | {"multi-head": "sequence"}


# --- Transfer


def test_transfer_by_hand():
    returns = np.array([[1.0, 0.0, 0.3], [0.6, 0.8, 0.2], [0.5, 0.7, 0.9]])
    # After group 2, group 1 is down by 0.4; after group 3, groups 1 and 2 are down by 0.5 and 0.1: (-0.4 - 0.3) / 2.
    assert backward_transfer(returns) == pytest.approx(-0.35)
    # Group 2 has gained 0.3 and group 3 lost 0.1 against fresh egos: (0.3 + (0.3 - 0.1) / 2) / 2. Group 1 does not count.
    assert forward_transfer(returns, np.array([0.0, 0.5, 1.0])) == pytest.approx(0.2)
    with pytest.raises(ValueError, match=r"shape \(1, 1\); a sequence of K groups"):
        backward_transfer(returns[:1, :1])
    with pytest.raises(ValueError, match="a return for each of the 3 groups"):
        forward_transfer(returns, np.zeros(2))


def test_transfer_is_read_from_decisions():
    decisions = [Decision(groups=["a", "b"])] + [
        Decision(group=name, returns=returns)
        for name, returns in (("b", [0.1, 0.9]), ("a", [0.8, 0.3]), ("b", [0.2, 1.0]))
    ]
    expected = [[0.9, 0.1, 0.9], [0.3, 0.8, 0.3], [1.0, 0.2, 1.0]]
    np.testing.assert_array_equal(returns_over_time(decisions), expected)


def test_a_sequence_takes_from_all_generators_alike():
    generators = {"macop/0": [f"m{k}" for k in range(9)], "fcp/0": ["f0", "f1"], "lipo/0": ["l0", "l1", "l2", "l3"]}
    names = sequence.draw(generators, 8, seed=3)
    # Two turns give two of each, a third one m and one l: 6, then 8.
    assert sorted(name[0] for name in names) == ["f"] * 2 + ["l"] * 3 + ["m"] * 3
    assert names == sequence.draw(generators, 8, seed=3) != sequence.draw(generators, 8, seed=4)
    assert [name[0] for name in names] != ["m", "f", "l", "m", "f", "l", "m", "l"]  # shuffled
    assert sorted(sequence.draw(generators, 0, seed=0)) == sorted(name for own in generators.values() for name in own)


def test_methods_of_one_seed_draw_nothing_alike():
    drawn = {name: setup_of(MethodRun("LBF4", name, 3, config=preset(name, "demo", "LBF4")), "cpu") for name in METHODS}
    assert len({setup.phase_seed(0) for setup in drawn.values()}) == len(METHODS)


def test_egos_of_different_methods_start_from_different_weights(monkeypatch):
    """Whatever the seed of a method's run, its ego is its own: no two methods give `fresh_ego` the same seed."""
    seeds = {}

    class Begun(Exception):
        pass

    def stopping(name):
        def stop(setup, heads, seed):
            seeds[name] = seed
            raise Begun

        return stop

    groups = SimpleNamespace(order=["0/0"], names=["0/0"], net=None)
    population = SimpleNamespace(teams=SimpleNamespace(net=None), names=["0/0"])
    given = {"groups": groups, "population-00": population}
    for name, method in METHODS.items():
        if name == "random-head":  # has Macop's
            continue
        for module in (macop, continual, multi_head, fcp, ppo, fresh):
            if hasattr(module, "fresh_ego"):
                monkeypatch.setattr(module, "fresh_ego", stopping(name))

        def phase(label, kind, work, *arguments):
            return given[label] if label in given else work(*arguments)

        run = MethodRun("LBF4", name, 3, config=preset(name, "demo", "LBF4"))
        with pytest.raises(Begun):
            method.train(setup_of(run, "cpu"), SimpleNamespace(phase=phase))
    assert len(set(seeds.values())) == len(METHODS) - 1


# --- Several rings


def marked_replay(rings, capacity=12, filled=None):
    """Episodes of one step, whose reward is 100 * ring + slot."""
    replay = Replay(build("LBF4", limit=3), 1, capacity, state=0, seats=[0], rings=rings)
    for ring in range(rings):
        count = (filled or [capacity] * rings)[ring]
        slots = replay.begin(np.full(count, ring))
        replay.reward[ring, slots, 0] = 100 * ring + slots
        replay.mask[ring, slots] = True
        replay.action[ring, slots, 0] = 1
        replay.end(np.full(count, ring), slots, np.ones(count, dtype=np.int64), np.zeros(count, dtype=np.bool_))
    return replay


def test_a_batch_has_as_much_of_every_ring():
    replay, rng, extra = marked_replay(3, filled=[12, 4, 7]), np.random.default_rng(0), np.zeros(3)
    assert len(replay) == 12  # four of each, since one has four only
    for _ in range(200):
        batch = replay.sample(8, rng, CPU)
        reward = batch.reward[0].numpy()
        assert len(set(reward.tolist())) == 8
        count = np.bincount(reward.astype(int) // 100, minlength=3)
        assert sorted(count) == [2, 3, 3]
        extra += count
    assert extra / extra.sum() == pytest.approx([1 / 3] * 3, abs=0.02)


def test_members_draw_from_their_own_rings():
    replay = Replay(build("LBF4", limit=3), 2, 4, state=0, rings=2)
    for ring in range(4):
        slots = replay.begin(np.full(4, ring))
        replay.reward[ring, slots, 0] = ring
        replay.end(np.full(4, ring), slots, np.ones(4, dtype=np.int64), np.zeros(4, dtype=np.bool_))
    batch = replay.sample(6, np.random.default_rng(0), CPU)
    assert np.sort(batch.reward.numpy(), axis=1).tolist() == [[0, 0, 0, 1, 1, 1], [2, 2, 2, 3, 3, 3]]


def test_the_ego_meets_all_groups_alike(monkeypatch):
    captured = {}
    monkeypatch.setattr(phases, "run", lambda setup, phase, training: captured.setdefault("training", training))
    world = build("CN3")
    setup = Setup(world, MACOP, 0, CPU)
    net, groups = Stack(Shape.of(world), 1, generator()), Stack(Shape.of(world), 3, generator(1))
    phases.join(setup, "", net, groups, EgoConfig(100, training=SMALL), seed=0)
    collector = captured["training"].sources[0].collector
    assert collector.ring.tolist() == [0, 0, 1, 1, 2, 2]  # four environments do not come out: six
    assert collector.member.tolist() == [0] * 6
    ego, mates = collector.rollout.seats.stacks
    assert ego.rows[0].tolist() == [3 * b + i for b in range(6) for i in (0, 1)]  # both of the ego's agents everywhere
    assert mates.rows.tolist() == [[2, 5], [8, 11], [14, 17]]
    assert collector.replay.seats.tolist() == [0, 1]
    assert collector.replay.length.shape == (3, 20)


# --- LIPO


def test_everybody_meets_every_other():
    pairs = list(zip(*(part.tolist() for part in lipo.pairing(3, each=2)), strict=True))
    assert pairs == [
        (0, 1, 0), (0, 2, 1), (0, 1, 0), (0, 2, 1),
        (1, 2, 0), (1, 0, 1), (1, 2, 0), (1, 0, 1),
        (2, 0, 0), (2, 1, 1), (2, 0, 0), (2, 1, 1),
    ]  # fmt: skip


def test_cross_play_counts_against_both(monkeypatch):
    """In the ego's seats and in the teammates', half of the weight each; the team's reward is negated."""
    captured = {}
    monkeypatch.setattr(lipo, "train_teams", lambda *given: captured.update(given=given))
    config = changed(configure("lipo", MACOP), {"alpha_cross": 0.4, "teammates": {"population": 3}})
    lipo.incompatible_teams(Setup(build("CN3", limit=6), config, 0, CPU))
    setup, _, teams, experiences, training, _, seed, losses = captured["given"]
    phase = begin(setup.world, teams.net, experiences, training, 100, seed, losses)
    _, as_ego, as_mate = phase.sources
    assert [source.share for source in phase.sources] == [1.0, 0.5, 0.5]
    for source, seats in ((as_ego, [0, 1]), (as_mate, [2])):
        collector = source.collector
        assert collector.replay.seats.tolist() == list(source.explorers) == seats
        seated = np.empty((collector.size, 3), dtype=int)
        for table in collector.rollout.seats.stacks:
            for member, rows in enumerate(table.rows):
                seated.reshape(-1)[rows] = member
        partners = [i for i in range(3) if i not in seats]
        assert (seated[:, seats] == collector.member[:, None]).all()
        assert (seated[:, partners] == (collector.member[:, None] + 1 + collector.ring[:, None] % 2) % 3).all()
    learner = Learner(teams.net, Vdn(), UpdateConfig())
    assert [weight for weight, _ in phase.terms.values()] == [0.2, 0.2]
    collector = as_mate.collector
    while len(collector.replay) < training.batch:
        collector.step()
    collector.replay.reward[:] = 1.0  # as if every step had paid
    loss = phase.terms["experience 2"][1](learner, None, None)
    collector.replay.reward[:] = -1.0
    same = collector.replay.sample(
        training.batch, np.random.default_rng([seed, 4]), CPU
    )  # the term's own draws once more
    torch.testing.assert_close(loss, learner.td_loss(same, "cross"))


# --- EWC


def test_penalty_by_hand():
    net = Stack(Shape(obs=2, actions=3, agents=1), 1, generator())
    parameters = list(net.parameters())
    importance = [torch.full_like(part, 2.0) for part in parameters]
    importance[0][0, 0, 0] = 10.0
    term = ewc.penalty(net, importance)
    learner = Learner(net, Vdn(), UpdateConfig())
    assert term(learner, None, None).tolist() == [0.0]
    with torch.no_grad():
        parameters[0][0, 0, 0] += 3.0  # F = 10, moved by 3: 90
        parameters[-1][0, 1] -= 0.5  # F = 2, moved by 0.5: 0.5
    assert term(learner, None, None).item() == pytest.approx(90.5, rel=1e-5)


def test_fisher_by_hand():
    """Episodes of one step, where Q = b for every action: dQ/db is 1 and the information 2, however right b is."""
    net = Stack(Shape.of(build("LBF4")), 1, generator())
    with torch.no_grad():
        net.heads.head2.weight.zero_()
        net.heads.head2.bias.fill_(0.5)
    replay = marked_replay(1, capacity=2)
    replay.reward[0, :, 0] = 0.5  # no TD error at all
    learner = Learner(net, Vdn(), UpdateConfig())
    found = dict(
        zip(
            (name for name, _ in net.named_parameters()),
            ewc.fisher(learner, replay, 6, np.random.default_rng(0)),
            strict=True,
        )
    )
    np.testing.assert_allclose(found["heads.head2.bias"], [[2.0] * 5], rtol=1e-5)
    hidden = found["heads.head2.weight"][0, :, 1]  # 2 h^2: that of the memory's features
    assert (hidden > 0).any()
    assert (found["backbone.encoder1.weight"] == 0).all()  # behind weights of zero, nothing matters


def test_fisher_is_of_single_steps():
    """Three steps in which the same b is Q: the square of their sum would be 9, the sum of their squares is 3, or 1 per step."""
    net = Stack(Shape.of(build("LBF4")), 1, generator())
    with torch.no_grad():
        net.heads.head2.weight.zero_()
    replay = Replay(build("LBF4", limit=3), 1, 2, state=0, seats=[0])
    slots = replay.begin(np.zeros(2, dtype=np.int64))
    replay.mask[0] = True
    replay.action[0] = 1
    replay.end(np.zeros(2, dtype=np.int64), slots, np.full(2, 3), np.zeros(2, dtype=np.bool_))
    names = [name for name, _ in net.named_parameters()]
    found = ewc.fisher(Learner(net, Vdn(), UpdateConfig()), replay, 2_000, np.random.default_rng(0))
    np.testing.assert_allclose(found[names.index("heads.head2.bias")], [[2] * 5], rtol=0.1)


def test_a_stiff_penalty_holds_the_weights():
    world, moved = build("LBF4"), []
    for mu in (0.0, 1e4):
        net, group = Stack(Shape.of(world), 1, generator()), Stack(Shape.of(world), 1, generator(1))
        before = [part.detach().clone() for part in net.parameters()]
        memory = {"fisher": phases.numbered([torch.ones_like(part) for part in before])}
        setup = Setup(world, changed(configure("ewc", MACOP), {"mu": mu, "fisher_episodes": 1}), 0, CPU)
        after = ewc.teach(setup, Lesson("", net, group, memory, seed=5))
        moved.append(
            sum(float(((new.detach() - old) ** 2).sum()) for new, old in zip(net.parameters(), before, strict=True))
        )
        assert all((after["fisher"][k] >= 1.0).all() for k in after["fisher"])  # what has mattered goes on to matter
    assert moved[1] < 0.2 * moved[0]


# --- CLEAR


def test_what_is_kept_is_split_evenly():
    rng, memory, slots = np.random.default_rng(0), {}, []
    for group in range(3):
        latest = marked_replay(1)
        latest.reward[0, :, 0] += 1_000 * group
        latest.length[0, :2] = 0  # unfinished
        memory = rehearsal.share_out(12, memory, latest, rng, state=0)
        slots.append(memory)
    assert [kept["length"].shape for kept in slots] == [(1, 12), (2, 6), (3, 4)]
    assert [int((kept["length"] > 0).sum()) for kept in slots] == [10, 12, 12]  # ten were there to be kept
    groups = (memory["reward"][:, :, 0] // 1_000).astype(int)
    assert groups.tolist() == [[0] * 4, [1] * 4, [2] * 4]
    assert memory["reward"][0, :, 0].tolist() == slots[0]["reward"][0, :4, 0].tolist()
    kept = memory["reward"][:, :, 0] % 1_000
    assert ((kept >= 2) & (kept < 12)).all()
    assert all(len(set(own)) == 4 for own in kept.tolist())


def test_rehearsal_is_the_loss_on_earlier_groups():
    world = build("LBF4", limit=6)
    config = configure("clear", MACOP)
    setup = Setup(world, config, 0, CPU)
    replay = filled_replay(world, population=2)  # twelve episodes each, as of two groups
    memory = {name: array[:, :12] for name, array in replay.state_arrays().items() if name not in ("next", "full")}
    for name in ("obs", "mask", "action"):  # the ego's place only
        memory[name] = memory[name][:, :, :, :1]
    memory["state"] = memory["state"][..., :0]
    term = clear.rehearsal(setup, {"kept": memory}, seed=5)
    learner = Learner(Stack(Shape.of(world), 1, generator()), Vdn(), UpdateConfig())
    again = Replay(world, 1, 12, 0, [0], rings=2)
    again.load_arrays({**memory, "next": np.zeros(2, dtype=np.int64), "full": np.array(True)})
    batch = again.sample(8, np.random.default_rng([5, 3]), CPU)
    expected = learner.td_loss(batch, "cross")
    torch.testing.assert_close(term(learner, None, None), expected)


# --- PPO


@pytest.mark.parametrize("scenario", ["LBF4", "CN3"])
def test_an_ego_with_its_memory_closed_is_what_ppo_has_trained(scenario):
    """Whatever it remembers and did last, it gives the logits of a network without memory."""
    world = build(scenario)
    ego, own, draws = Ego(Shape.of(world), 1, generator()), world.controllable, generator(1)
    obs = torch.rand(7, own, len(world.observations), generator=draws)
    wanted = ppo.logits(ego, obs).flatten(0, 1)
    ppo.close_memory(ego)
    last = torch.randint(-1, len(world.actions), (7, own), generator=draws)
    inputs = encode(ego.shape, obs, last, torch.arange(own).expand(7, own)).flatten(0, 1)
    q, _ = ego.step(inputs.unsqueeze(0), torch.rand(1, 7 * own, ego.shape.hidden, generator=draws))
    torch.testing.assert_close(q[0], wanted, rtol=1e-5, atol=1e-6)


def test_ppo_plays_the_same_environments_as_gymnasium_has_them():
    """The ego's actions drawn from outside: observations, rewards and ends are those of the vector environment."""
    world, rng = build("LBF4", limit=6), np.random.default_rng(0)
    mates = resolve(["scripted:corner-ne", "scripted:nearest"], world)
    ours = ppo_learner.Environments(world, mates, 8, seed=5)
    theirs = MacopVectorEnv("LBF4", 8, mates, autoreset_mode="SameStep", limit=6)
    np.testing.assert_array_equal(ours.reset(), theirs.reset(seed=5)[0])
    ends = 0
    for _ in range(20):
        action = rng.integers(0, 5, 8)
        obs, reward, over, infos = ours.step(action)
        wanted, paid, terminated, truncated, told = theirs.step(action)
        np.testing.assert_array_equal(obs, wanted)
        np.testing.assert_allclose(reward, paid)
        np.testing.assert_array_equal(over, terminated | truncated)
        for b in np.flatnonzero(over):
            np.testing.assert_array_equal(infos[b]["terminal_observation"], told["final_obs"][b])
            assert infos[b]["TimeLimit.truncated"] == bool(truncated[b] and not terminated[b])
            ends += 1
    assert ends >= 16


@pytest.mark.slow
def test_ppo_learns_to_join_a_script():
    """From nothing to nine of ten with one corner: the network without memory, the environments and the policy fit together."""
    world = build("LBF4")
    config = changed(preset("ppo", "paper", "LBF4"), {"steps": 150_000, "optimisation": {"envs": 8}})
    ego = Ego(Shape.of(world), 1, generator())
    mates = resolve("scripted:corner-ne", world)
    ppo_learner.learn(Setup(world, config, 0, CPU), ego, mates, seed=0)
    seats = ppo_learner.Environments(world, mates, 64, seed=1_000)
    obs, returns = seats.reset(), []
    while len(returns) < 200:
        best = ppo.logits(ego, torch.from_numpy(obs).unsqueeze(1)).argmax(dim=-1)[:, 0].numpy()
        obs, _, over, infos = seats.step(best)
        returns += [infos[b]["episode"]["r"] for b in np.flatnonzero(over)]
    assert np.mean(returns) > 0.9


# --- Whole runs


def files(folder):
    return {path.name: path for path in sorted((folder / "phases").glob("*.npz"))}


def small(method, origin):
    config = changed(configure(method, MACOP), CHANGES.get(method, {}))
    if METHODS[method].groups_from:
        config = replace(config, groups=str(origin))
    return MethodRun("LBF4", method, 1, config=config)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A finished run of every method but Macop+: those whose groups others need come first. One of them with figures."""
    folder, finished, draw = tmp_path_factory.mktemp("runs"), {}, summary.draw
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(summary, "EPISODES", 4)
        patch.setattr(
            summary, "draw", lambda result, *given: draw(result, *given) if result.run.method == "fcp" else None
        )
        for method in [method for method in METHODS if method != "macop+"]:
            if method == "multi-head":
                sequence.make([folder / "macop", folder / "trajedi"], 3, 5, folder / "sequence")
            lender = folder / (LENDERS[method] or "macop")
            finished[method] = train(small(method, lender), folder / method, device="cpu", say=lambda line: None)
    return folder, finished


@pytest.mark.parametrize("method", [method for method in METHODS if not method.startswith("macop")])
def test_a_run_killed_in_its_last_phase_ends_the_same(runs, method, tmp_path, monkeypatch):
    """A run that has its groups does not need the one that they are from any more; Random Head takes its ego from there."""
    folder, finished = runs
    run, again = finished[method].run, tmp_path / "run"
    shutil.copytree(folder / method, again)
    max(path for name, path in files(again).items() if name.startswith("ego")).unlink()
    if method != "random-head":
        monkeypatch.setattr(borrowed, "check", None)
        monkeypatch.setattr(borrowed, "borrow", None)
    result = train(run, again, resume=True, device="cpu", say=lambda line: None)
    assert read_run(again) == run
    assert result.decisions == finished[method].decisions
    for name, path in files(folder / method).items():
        ours = checkpoints.flatten(checkpoints.read(files(again)[name])[0])
        theirs = checkpoints.flatten(checkpoints.read(path)[0])
        assert ours.keys() == theirs.keys()
        for entry, value in ours.items():
            np.testing.assert_array_equal(value, theirs[entry], err_msg=f"{name} {entry}")


def test_runs_tell_what_they_have_come_to(runs):
    folder, finished = runs
    assert (folder / "fcp" / "crossplay.png").exists()
    assert not (folder / "fcp" / "process.png").exists()
    for method, run in finished.items():
        figures = RunFolder(folder / method).summary()
        assert figures == run.summary
        assert figures.method == method
        assert len(figures.groups) == len(figures.self_play) == len(figures.ego) == len(figures.outcomes)
        assert figures.heads == (run.result.ego.n_heads if method in ("macop", "random-head", "multi-head") else 1)
    matrix = np.loadtxt(folder / "random-head" / "crossplay.csv", delimiter=",", skiprows=1)[:, 1:]
    assert len(matrix) == finished["macop"].result.ego.n_heads > 1
    np.testing.assert_allclose(RunFolder(folder / "random-head").summary().ego, matrix.mean(axis=0))


def test_groups_and_their_order_are_macops(runs):
    folder, finished = runs
    macop = finished["macop"]
    expected = [decision.group for decision in macop.decisions if decision.new_head is not None]
    assert len(expected) == 4  # two in each of two iterations, some of them perhaps for the second time
    for method in ("finetune", "single-head"):
        own = [decision.group for decision in finished[method].decisions if decision.group]
        assert own == expected == RunFolder(folder / "macop").order
        assert finished[method].result.names == macop.result.names
        for name, value in weights(finished[method].result.groups).items():
            np.testing.assert_array_equal(value, weights(macop.result.groups)[name])
    for name, value in weights(finished["random-head"].result.ego).items():
        np.testing.assert_array_equal(value, weights(macop.result.ego)[name])
    for method in ("ewc", "clear"):
        own = [decision.group for decision in finished[method].decisions if decision.group]
        assert own == ["0/0", "0/1", "0/2"]
        assert returns_over_time(finished[method].decisions).shape == (3, 3)


def test_macops_ego_goes_through_a_sequence(runs):
    """Heads are added as in Macop; returns are of the head that was chosen in other episodes."""
    folder, finished = runs
    order = RunFolder(folder / "sequence").order
    assert len(order) == 3
    assert {name.split("/")[0] for name in order} == {"macop", "trajedi"}
    decisions = [decision for decision in finished["multi-head"].decisions if decision.group]
    assert [decision.group for decision in decisions] == order
    assert [decision.heads for decision in decisions] == [1, 2, 3]  # by a threshold that lets all in
    assert returns_over_time(finished["multi-head"].decisions).shape == (3, 3)
    named = finished["multi-head"].result.groups
    for k, name in enumerate(order):
        method, _, group = name.split("/", 2)
        theirs = finished[method].result
        for part, value in weights(named).items():
            np.testing.assert_array_equal(value[k], weights(theirs.groups)[part][theirs.names.index(group)])
    with pytest.raises(ValueError, match="has learnt with a sequence, and has met groups of all runs"):
        Entrant.load(folder / "multi-head", "cpu")


def test_heads_are_chosen_and_tested_in_different_episodes(monkeypatch):
    """Head 1 looks better with the first group, and head 0 with the second; what they get is measured anew."""
    tried, tested = np.array([[0.2, 0.9], [0.5, 0.1]]), np.array([[0.7, 0.6], [0.4, 1.0]])
    asked = []

    def returns(setup, ego, groups, seed, episodes=None):
        asked.append((seed, episodes))
        return tried if episodes == 4 else tested

    monkeypatch.setattr(multi_head, "cross_returns", returns)
    world = build("LBF4")
    groups = borrowed.Groups(Stack(Shape.of(world), 2), ["a", "b"], ["b", "a"], Decision())
    setup = Setup(world, configure("multi-head", MACOP), 0, CPU)
    ego = Ego(Shape.of(world), 2)
    assert multi_head.tested_returns(setup, ego, groups, 1).tolist() == [0.4, 0.6]
    assert len({seed for seed, _ in asked}) == 2


def test_a_fresh_ego_does_not_know_what_was_before(monkeypatch):
    world, begun = build("LBF4"), []
    monkeypatch.setattr(fresh.continual, "join", lambda setup, lesson: begun.append(weights(lesson.net)))
    setup, group = Setup(world, configure("fresh", MACOP), 0, CPU), Stack(Shape.of(world), 1, generator(1))
    for before in (2, 3):
        assert fresh.teach(setup, Lesson("", Stack(Shape.of(world), 1, generator(before)), group, {}, seed=7)) == {}
    for name, value in begun[0].items():
        np.testing.assert_array_equal(value, begun[1][name])


def test_ppo_is_an_ego_like_any_other(runs, tmp_path):
    folder, _ = runs
    words = [str(folder / "fcp"), str(folder / "ppo"), "--episodes", "4", "--out", str(tmp_path / "rows.csv")]
    assert main(["pool", *words]) == 0
    rows = [row for row in read_rows(tmp_path / "rows.csv") if row.method == "ppo"]
    assert len(rows) == 3 * 4
    assert {(row.tier, row.stage) for row in rows} == {("seen", "test")}
    ego = RunFolder(folder / "ppo").ego()
    assert (ego.backbone.gru_hidden.weight == 0).all()


def test_runs_that_cannot_be_pooled(runs, tmp_path, capsys):
    folder, _ = runs
    for name in ("fcp", "ppo", "finetune"):
        shutil.copytree(folder / name, tmp_path / name)
    words = ["--episodes", "2", "--out", str(tmp_path / "rows.csv")]

    def complaint(*runs):
        assert main(["pool", *(str(tmp_path / run) for run in runs), *words]) == 2
        return capsys.readouterr().err

    assert "two of these runs are called fcp, seed 1" in complaint("fcp", tmp_path / "fcp")
    assert main(["sequence", str(tmp_path / "fcp"), str(folder / "fcp"), "--out", str(tmp_path / "s")]) == 2
    assert "two of these runs are called fcp/1" in capsys.readouterr().err
    last = sorted((tmp_path / "ppo/phases").glob("ego-*.npz"))[-1]
    last.write_bytes(last.read_bytes()[:1000])
    assert f"{last.name} is damaged" in complaint("ppo")
    last = sorted((tmp_path / "finetune/phases").glob("ego-*.npz"))[-1]
    last.unlink()
    assert f"lacks {last.name}; --resume makes the run whole again" in complaint("finetune")


def test_a_lender_is_found_from_the_folders_above(tmp_path):
    for place in ("camp/LBF4/macop/0", "camp/LBF4/finetune/0"):
        (tmp_path / place).mkdir(parents=True)
    (tmp_path / "camp/LBF4/macop/0/run.toml").touch()
    for groups, found in (("LBF4/macop/0", tmp_path / "camp/LBF4/macop/0"), ("elsewhere", Path("elsewhere"))):
        run = MethodRun("LBF4", "finetune", config=replace(configure("finetune", MACOP), groups=groups))
        (tmp_path / "camp/LBF4/finetune/0/run.toml").unlink(missing_ok=True)
        borrower = RunFolder(tmp_path / "camp/LBF4/finetune/0")
        borrower.begin(run, resume=False)
        assert borrower.lender.path == found


def test_what_is_remembered(runs):
    folder, _ = runs

    def memory(method, k):
        return checkpoints.read(files(folder / method)[f"ego-{k:03d}.npz"])[0]

    assert memory("finetune", 4).keys() == {"ego"}
    assert [len(memory("single-head", k)["snapshots"]) for k in (1, 2, 3, 4)] == [1, 2, 3, 4]
    assert [memory("ewc", k).keys() for k in (1, 2, 3)] == [{"ego", "fisher"}] * 3
    assert [memory("clear", k)["kept"]["length"].shape for k in (1, 2, 3)] == [(1, 16), (2, 8), (3, 5)]


def test_mixers_and_several_agents_of_the_ego(tmp_path):
    """QMIX, and two of three agents: a population that plays with itself, and a sequence of its groups."""
    mixing = replace(SMALL, mixer="qmix")
    ours = replace(MACOP, ego_steps=400, teammates=mixing, mutation=mixing, ego=mixing)
    small = {"teammates": {"population": 2, "steps": 600}, "ego": {"steps": 400}}
    for method, changes in (("lipo", small), ("clear", {"groups": str(tmp_path / "lipo"), "kept_episodes": 16})):
        run = MethodRun("CN3", method, 1, config=changed(configure(method, ours), changes))
        train(run, tmp_path / method, device="cpu", say=lambda line: None)
    kept = checkpoints.read(files(tmp_path / "clear")["ego-002.npz"])[0]["kept"]
    assert kept["obs"].shape[:2] == kept["state"].shape[:2] == (2, 8)
    assert kept["obs"].shape[3] == 2  # both of the ego's agents
    assert kept["state"].shape[3] == build("CN3").state_dim


def test_bundles_and_the_zoo_take_baselines(runs, tmp_path, capsys):
    folder, _ = runs
    assert main(["export", str(folder / "clear"), "--out", str(tmp_path / "bundle"), "--steps", "6000"]) == 0
    assert EgoAgent.load(tmp_path / "bundle").heads == 1
    (tmp_path / "zoo").mkdir()
    assert main(["zoo", "add", str(folder / "lipo"), "--split", "train", "--zoo", str(tmp_path / "zoo")]) == 0
    assert [*(tmp_path / "zoo" / "LBF4").glob("lipo-0-*.onnx")]
    assert main(["zoo", "add", str(folder / "finetune"), "--split", "train", "--zoo", str(tmp_path / "zoo")]) == 0
    assert "nothing was added" in capsys.readouterr().out


# --- Settings and mistakes


@pytest.mark.parametrize("method", METHODS)
def test_every_method_has_every_preset_in_every_scenario(method):
    kind = METHODS[method].config
    assert all(setting.about for setting in settings(kind))
    for scenario in SCENARIOS:
        for name in presets.MACOP:
            config = preset(method, name, scenario)
            assert type(config) is kind
            MethodRun(scenario, method, config=config)
            if hasattr(config, "ego") and isinstance(config.ego, EgoConfig):
                assert config.ego.training == presets.macop(name, scenario).ego


def test_steps_are_scaled_as_macops():
    paper, demo = (preset("lipo", name, "LBF4") for name in ("paper", "demo"))
    assert (paper.teammates.population, paper.teammates.steps, paper.ego.steps) == (6, 1_000_000, 1_000_000)
    assert (demo.teammates.steps, demo.ego.steps) == (320_000, 640_000)  # 160,000 of 500,000, and 80,000 of 125,000
    assert preset("fcp", "paper", "SMAC2").ego.steps == 1_000_000
    assert preset("ewc", "paper", "SMAC2").ego.steps == 500_000  # with each group, as Macop's
    assert (
        preset("lipo", "paper", "LBF4").teammates.training.ratio
        == preset("fcp", "paper", "LBF4").teammates.training.ratio / 2
    )


def test_mistakes_are_told(runs, tmp_path, capsys):
    folder, _ = runs
    unfinished = tmp_path / "unfinished"
    shutil.copytree(folder / "trajedi", unfinished)
    (unfinished / "summary.json").unlink()
    for words, message in (
        (["--method", "lippo"], "unknown method 'lippo'; did you mean 'lipo'?"),
        (["--method", "ewc"], "name one with --groups RUN, a finished run of LBF4 by macop"),
        (["--method", "ewc", "--groups", str(tmp_path)], "holds no run: there is no run.toml in it; --groups takes"),
        (
            ["--method", "ewc", "--groups", str(folder / "finetune")],
            "is of LBF4 by finetune; --groups takes a finished",
        ),
        (
            ["--method", "random-head", "--groups", str(folder / "fcp")],
            "by fcp; --groups takes a finished run of LBF4 by",
        ),
        (["--method", "clear", "--groups", str(unfinished)], "is not finished; resume it with --resume first"),
        (["--method", "clear", "--kept-episodes", "9"], "kept_episodes is 9; it must be at least twice a batch, 64"),
        (["--method", "lipo", "--population", "1"], "population is 1; LIPO needs at least 2 groups"),
    ):
        assert main(["train", "LBF4", *words, "--out", str(tmp_path / "run")]) == 2
        assert message in capsys.readouterr().err
        assert not (tmp_path / "run").exists()
    assert main(["train", "LBF1", "--method", "ewc", "--groups", str(folder / "trajedi"), "--out", "x"]) == 2
    assert "is of LBF4 by trajedi; --groups takes a finished run of LBF1" in capsys.readouterr().err
    with pytest.raises(TypeError, match="fcp has a FcpConfig, not a MacopConfig"):
        MethodRun("LBF4", "fcp", config=MACOP)


@pytest.mark.parametrize("method", ["clear", "ewc"])
def test_earlier_groups_are_remembered_in_combat(method, tmp_path):
    """Where teams have QMIX and an ego of one agent has no mixer, what is kept of a lesson fits the next one."""
    small_steps = {"steps": 400, "training": {"envs": 2, "batch": 4, "capacity": 40, "ratio": 1.0}}
    population = {"population": 2, "steps": 400, "training": small_steps["training"]}
    changes = {"trajedi": {"teammates": population, "ego": small_steps, "test_episodes": 2}}
    changes |= {method: {"ego": small_steps, "test_episodes": 2, "groups": str(tmp_path / "trajedi")}}
    for name, change in changes.items():
        run = MethodRun("SMAC1", name, config=changed(preset(name, "demo", "SMAC1"), change))
        finished = train(run, tmp_path / name, device="cpu", say=lambda line: None)
    assert len([decision for decision in finished.decisions if decision.group]) == 2


def test_a_preset_is_known_by_its_settings():
    usual = MethodRun("LBF4", "finetune", config=preset("finetune", "paper", "LBF4"))
    assert preset_of(usual) == "paper"
    assert preset_of(replace(usual, config=replace(usual.config, groups="runs/macop"))) == "paper"
    assert preset_of(replace(usual, config=replace(usual.config, test_episodes=7))) == ""
    assert preset_of(MethodRun("LBF4", config=preset("macop", "fast", "LBF4"))) == "fast"


def test_settings_from_a_file(runs, tmp_path, capsys):
    """Any run's own file starts the same run; what the command line says overrides it."""
    folder, _ = runs
    theirs, again = RunFolder(folder / "random-head"), RunFolder(tmp_path / "again")
    words = ["train", "--config", str(theirs.settings_file), "--out", str(again.path)]
    assert main([*words, "--seed", "2", "--test-episodes", "3"]) == 0
    assert again.settings == theirs.settings | {"seed": 2, "config": theirs.settings["config"] | {"test_episodes": 3}}
    assert again.summary().ego
    own = tmp_path / "own.toml"
    for text, message in (
        ('method = "fcp"\nsed = 3', "unknown key 'sed'; did you mean 'seed'"),
        ('method = "fcp"', "name a scenario, such as LBF4, or a file that does"),
        ('scenario = "LBF4"\n[config]\nalpha_rig = 3.0', "unknown key 'config.alpha_rig'; did you mean 'alpha_reg'"),
        ('format = 1\nscenario = "LBF4"', "convert it first: macop convert"),
    ):
        own.write_text(text)
        capsys.readouterr()
        assert main(["train", "--config", str(own), "--out", str(tmp_path / "new")]) == 2
        assert message in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_methods_of_ones_own_are_checked(monkeypatch):
    monkeypatch.setattr(registry, "METHODS", dict(METHODS))
    mine = replace(METHODS["finetune"], about="mine")
    registry.register_method("mine", mine)
    assert registry.find("mine") is mine
    assert "mine" not in METHODS
    for name, method, message in (
        ("macop", mine, "there is a method 'macop' already"),
        ("sequence", mine, "there is a method 'sequence' already"),
        ("a/b", mine, "use letters, digits"),
        ("other", replace(mine, config=dict), "must be a frozen dataclass"),
        ("other", replace(mine, config=FcpConfig), "FcpConfig, the config of other, lacks the field 'groups'"),
        ("other", replace(mine, groups_from=("fpc",)), "takes groups from 'fpc'; did you mean 'fcp'"),
    ):
        with pytest.raises(ValueError, match=message):
            registry.register_method(name, method)
    with pytest.raises(TypeError, match=r"needs a macop_aht\.methods\.Method"):
        registry.register_method("other", FcpConfig)


def test_the_help_shows_every_default_and_first_what_people_change(capsys):
    with pytest.raises(SystemExit):
        main(["train", "PP1", "--method", "macop", "--help"])
    shown = capsys.readouterr().out
    first, rest = shown.split("further settings:")
    assert "--teammate-steps" in first
    assert "--ego.ratio" not in first
    assert shown.index("settings of teammates alone:") < shown.index("settings of mutation alone:")
    ratio = preset("macop", "fast", "PP1").ego.ratio
    own = " ".join(rest[rest.index("--ego.ratio") :].split())
    assert own.split("(default: ")[1].startswith(f"{ratio})")
    options = shown[shown.index("\nsettings:") :].count("\n  --")
    assert shown[shown.index("\nsettings:") :].count("(default:") >= options - 1
