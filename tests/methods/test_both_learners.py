"""Every method on PPO: it trains, it is killed and resumed to the same weights, and what it adds to the loss has an effect."""

import copy
import shutil
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

from macop_aht.config import changed
from macop_aht.learner.networks import Ego, Shape, Stack, weights
from macop_aht.learner.phase import begin
from macop_aht.learner.ppo import PpoLearner, ProximalConfig
from macop_aht.learner.rounds import PpoTraining
from macop_aht.learner.threads import use_threads
from macop_aht.learner.training import TrainingConfig
from macop_aht.learner.update import q_values
from macop_aht.methods import clear, ewc, macop, phases, summary, terms
from macop_aht.methods.continual import Lesson
from macop_aht.methods.macop import MacopConfig
from macop_aht.methods.phases import Learned, Setup, Teams, with_snapshot
from macop_aht.methods.registry import learner_of
from macop_aht.methods.rehearsal import replay_of
from macop_aht.methods.training import METHODS, MethodRun, configure, train
from macop_aht.runs import checkpoints
from macop_aht.scenarios import build
from tests.helpers import filled_replay, generator

CPU = torch.device("cpu")
SMALL = TrainingConfig(learner="ppo", envs=4, batch=8, ppo=ProximalConfig(envs=8, parts=2, epochs=1))
MACOP = MacopConfig(
    population=2, min_iterations=2, max_iterations=2, stop_threshold=2.0, teammate_steps=600, ego_steps=600,
    test_episodes=4, expansion_threshold=-9.0, kept_episodes=30, teammates=SMALL, mutation=SMALL, ego=SMALL,
)  # fmt: skip
STAGES = {"teammates": {"population": 3, "steps": 900}, "ego": {"steps": 600}}
IMITATES = {"ppo": {"imitation": 1.0}}
CHANGES = {
    "macop+": {"discovery": 2_000, "teammates": IMITATES, "mutation": IMITATES},
    "fcp": STAGES, "trajedi": STAGES, "lipo": STAGES, "ewc": {"fisher_episodes": 4}, "clear": {"kept_episodes": 64},
}  # fmt: skip
OURS = [method for method in METHODS if METHODS[method].learner is None and method != "random-head"]


@pytest.fixture(autouse=True)
def one_thread(monkeypatch):
    use_threads(1)
    monkeypatch.setattr(summary, "EPISODES", 2)
    monkeypatch.setattr(summary, "draw", lambda *given: None)


def setup(scenario="LBF4", config=MACOP, seed=0, **changes):
    return Setup(build(scenario, **changes), config, seed, CPU)


def run_of(method, folder):
    config = changed(configure(method, MACOP), CHANGES.get(method, {}))
    if METHODS[method].groups_from:
        config = replace(config, groups=str(folder / (METHODS[method].lender or "macop")))
    return MethodRun("LBF4", method, 1, config=config)


def phases_of(folder):
    return {path.name: path for path in sorted((folder / "phases").glob("*.npz"))}


@pytest.fixture(scope="module")
def lenders(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lenders")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(summary, "EPISODES", 2)
        patch.setattr(summary, "draw", lambda *given: None)
        for method in ("macop", "trajedi"):
            train(run_of(method, folder), folder / method, device="cpu", say=lambda line: None)
    return folder


@pytest.mark.parametrize("method", OURS)
def test_every_method_trains_on_ppo_and_resumes_to_the_same_weights(method, lenders, tmp_path):
    run, whole, again = run_of(method, lenders), tmp_path / "whole", tmp_path / "again"
    assert learner_of(run) == "ppo"
    done = train(run, whole, device="cpu", say=lambda line: None)
    assert all(np.isfinite(part).all() for part in weights(done.result.ego).values())
    shutil.copytree(whole, again)
    max(path for name, path in phases_of(again).items() if name.startswith("ego")).unlink()
    result = train(run, again, resume=True, device="cpu", say=lambda line: None)
    assert result.decisions == done.decisions
    for name, path in phases_of(whole).items():
        ours, theirs = (checkpoints.flatten(checkpoints.read(file)[0]) for file in (phases_of(again)[name], path))
        assert ours.keys() == theirs.keys()
        for entry, value in ours.items():
            np.testing.assert_array_equal(value, theirs[entry], err_msg=f"{name} {entry}")


def test_both_learners_may_work_in_one_run(tmp_path):
    """Groups by Q-learning, an ego by PPO; the other way round, teams of QMIX have no mixer to hand on."""
    slow = TrainingConfig(envs=4, batch=8, capacity=60, ratio=4, mixer="qmix")
    for teammates, ego in ((slow, SMALL), (SMALL, slow)):
        config = replace(MACOP, teammates=teammates, mutation=teammates, ego=ego)
        run = MethodRun("CN3", "macop", 1, config=config)
        folder = tmp_path / teammates.learner
        assert train(run, folder, device="cpu", say=lambda line: None).result.ego.n_heads > 0
        assert learner_of(run) == ego.learner


def test_random_heads_learner_is_that_of_the_ego_that_it_borrows(lenders):
    config = replace(configure("random-head", MACOP), groups=str(lenders / "macop"))
    assert learner_of(MethodRun("LBF4", "random-head", config=config)) == "ppo"
    assert learner_of(MethodRun("LBF4", "ppo", config=configure("ppo", MACOP))) == "ppo"
    assert learner_of(MethodRun("LBF4", "fcp", config=configure("fcp", MacopConfig()))) == "q"


# --- What methods add


def test_the_ego_is_fought_in_the_groups_seats():
    """Mutation has cross-play with the reward negated, in which the ego draws its heads, and a critic of its own for it."""
    given = setup(limit=6)
    ego, net = Ego(Shape.of(given.world), 3, generator()), Stack(Shape.of(given.world), 2, generator(1))
    against = macop._against_ego(given, ego, net, seed=0)
    training = begin(given.world, net, [replace(against, sign=1.0), against], SMALL, 200, seed=0)
    assert isinstance(training, PpoTraining)
    assert [round.replay.seats.tolist() for round in training.rounds] == [[1], [1]]
    heads = []
    for _ in range(40):
        training.step()
        heads += training.rounds[1].rollout.seats.stacks[0].head.tolist()
    share = np.bincount(heads, minlength=3) / len(heads)
    assert share == pytest.approx([1 / 6, 1 / 6, 2 / 3], abs=0.08)
    assert len(training.learner.critics) == 2


def test_distillation_holds_the_policies_of_old_heads():
    """The same lesson without and with it: the old head's policy in the kept episodes moves, or hardly moves."""
    world, mates = build("LBF4"), Stack(Shape.of(build("LBF4")), 2, generator(1))
    one, other = (Stack.gather([(mates, k)]) for k in range(2))
    fast = replace(SMALL, ppo=replace(SMALL.ppo, learning_rate=1e-2))
    config = replace(MACOP, alpha_reg=0.0, alpha_distil=1.0, ego=fast, ego_steps=1_500)
    before = macop.expand(setup(config=config), "", Learned(Ego(Shape.of(world), 0, generator())), "one", one, (1,))
    assert before.memory["kept"]["length"].shape == (1, 30)
    assert before.memory["kept"]["state"].shape[-1] == 0  # nobody needs it
    with torch.no_grad():
        before.ego.heads.head2.weight.mul_(30.0)  # a head that is sure of what it does
    kept, moved = replay_of(world, before.memory["kept"]), []
    batch = kept.pack(np.flatnonzero(kept.length[0])[None], CPU)
    then = q_values(before.ego.apart(), batch).detach()
    for alpha in (0.0, 10.0):
        ego = copy.deepcopy(before.ego)
        macop.learn_to_join(setup(config=replace(config, alpha_distil=alpha)), "", ego, before.memory, other, seed=5)
        learner = PpoLearner(ego.apart(), [3], SMALL.ppo, 0.9)
        moved.append(learner.difference(then, q_values(ego.apart(), batch), batch.mask).mean().item())
    assert moved[1] < 0.3 * moved[0]


def test_clear_clones_the_policy_of_every_lesson():
    """The loss is zero where the network is what it was after both lessons, and grows as it moves."""
    world = build("LBF4")
    config = changed(configure("clear", MACOP), {"kept_episodes": 64})
    given, net = setup(config=config), Stack(Shape.of(world), 1, generator())
    groups, memory = Stack(Shape.of(world), 2, generator(1)), {}
    for k in range(2):
        memory = clear.teach(given, Lesson("", net, Stack.gather([(groups, k)]), memory, seed=k))
    assert sorted(memory["networks"]) == ["0", "1"]
    assert memory["kept"]["length"].shape == (2, 32)
    memory["networks"]["0"] = memory["networks"]["1"]
    learner = PpoLearner(net, [3], SMALL.ppo, 0.9)
    loss = clear.rehearsal(given, memory, seed=5)
    assert loss(learner, None, None).item() == pytest.approx(0.0, abs=1e-6)
    with torch.no_grad():
        net.heads.head2.bias[0, 1] += 1.0
    assert loss(learner, None, None).item() > 0.01


def test_ewc_holds_what_mattered_for_the_policy():
    world, moved = build("LBF4"), []
    for mu in (0.0, 1e4):
        net, group = Stack(Shape.of(world), 1, generator()), Stack(Shape.of(world), 1, generator(1))
        before = [part.detach().clone() for part in net.parameters()]
        memory = {"fisher": phases.numbered([torch.ones_like(part) for part in before])}
        config = changed(configure("ewc", MACOP), {"mu": mu, "fisher_episodes": 2})
        after = ewc.teach(setup(config=config), Lesson("", net, group, memory, seed=5))
        moved.append(sum(((new.detach() - old) ** 2).sum() for new, old in zip(net.parameters(), before, strict=True)))
        assert any((after["fisher"][k] > 1.0).any() for k in after["fisher"])
    assert moved[1] < 0.2 * moved[0]


def test_a_regulariser_holds_the_backbone():
    moved = []
    for alpha in (0.0, 1e4):
        given = setup(config=replace(MACOP, alpha_reg=alpha))
        ego, group = Ego(Shape.of(given.world), 1, generator()), Stack(Shape.of(given.world), 1, generator(1))
        memory = with_snapshot({}, ego.backbone)
        here = [part.detach().clone() for part in ego.backbone.parameters()]
        macop.learn_to_join(given, "", ego, memory, group, seed=5)
        moved.append(terms.distance(ego.backbone, [here], "squared").item())
    assert moved[1] < 0.2 * moved[0]


def test_diverse_groups_have_other_policies():
    """The diversity term on the logits: with a large weight, groups differ more after the same number of updates."""
    world, found = build("LBF4"), []
    batch = filled_replay(world, population=2).pack(np.tile(np.arange(12), (2, 1)), CPU)
    for alpha in (0.0, 10.0):
        given = setup(config=replace(MACOP, alpha_div=alpha, teammate_steps=3_000))
        teams = macop.first_population(given)
        assert isinstance(teams, Teams)
        learner = PpoLearner(teams.net, [3], SMALL.ppo, 0.9)
        loss = terms.diversity(1)(learner, batch, partial(q_values, teams.net, batch))
        found.append(-loss.mean().item())
    assert found[1] > 1.5 * found[0]
