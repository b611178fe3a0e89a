"""Macop's boxes against numbers worked out by hand, and a whole small run."""

import copy
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch

from macop_aht.config import changed
from macop_aht.learner.mixers import Qmix, Vdn
from macop_aht.learner.networks import Backbone, Ego, Heads, Shape, Stack, weights
from macop_aht.learner.phase import source
from macop_aht.learner.threads import use_threads
from macop_aht.learner.training import TrainingConfig
from macop_aht.learner.update import Learner, UpdateConfig, q_values, td_on
from macop_aht.methods import distillation, macop, macop_plus, presets, summary, terms
from macop_aht.methods.macop import MacopConfig, compatibility, expands, select
from macop_aht.methods.phases import (
    EgoConfig,
    Learned,
    Population,
    Setup,
    Teams,
    baseline,
    cross_returns,
    join,
    with_snapshot,
)  # fmt: skip
from macop_aht.methods.training import MethodRun, configure, train
from macop_aht.runs import checkpoints
from macop_aht.runs.folder import RunFolder
from macop_aht.scenarios import SCENARIOS, build
from macop_aht.scenarios.batch import Batch
from tests.helpers import filled_replay, generator

CPU = torch.device("cpu")
SMALL = TrainingConfig(envs=4, batch=8, capacity=60, target_every=15, ratio=4)
CONFIG = MacopConfig(
    population=2, min_iterations=2, max_iterations=3, stop_threshold=2.0, teammate_steps=1_200, ego_steps=1_200,
    test_episodes=4, teammates=SMALL, mutation=SMALL, ego=SMALL,
)  # fmt: skip


# --- Terms


def test_divergence_by_hand():
    # Two policies that never agree: each has KL log 2 to the mixture. Equal ones have none.
    apart = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    assert float(terms.divergence(apart)) == pytest.approx(np.log(2))
    assert float(terms.divergence(torch.tensor([[0.3, 0.7], [0.3, 0.7]]))) == pytest.approx(0.0, abs=1e-7)
    # (3/4, 1/4) and (1/4, 3/4): the mixture is even, KL = 3/4 log(3/2) + 1/4 log(1/2) for both.
    expected = 0.75 * np.log(1.5) + 0.25 * np.log(0.5)
    assert float(terms.divergence(torch.tensor([[0.75, 0.25], [0.25, 0.75]]))) == pytest.approx(expected)
    # Among four, of which three agree: KL = log(4/3) three times and log 4 once, over four.
    three = torch.tensor([[1.0, 0.0]] * 3 + [[0.0, 1.0]])
    assert float(terms.divergence(three)) == pytest.approx((3 * np.log(4 / 3) + np.log(4)) / 4)


def test_policies_are_over_what_is_available():
    policy = terms.policies(torch.tensor([1.0, 5.0, 1.0]), torch.tensor([True, False, True]))
    torch.testing.assert_close(policy, torch.tensor([0.5, 0.0, 0.5]))


def test_diversity_is_the_divergence_in_every_members_own_states():
    """Against a loop over members, networks and agents; and only a member's own policy has a gradient."""
    world = build("LBF4", limit=6)
    replay = filled_replay(world, population=3)
    learner = Learner(Stack(Shape.of(world), 3, generator()), Vdn(), UpdateConfig())
    batch = replay.pack(np.tile(np.arange(12), (3, 1)), CPU)
    loss = terms.diversity(every=1)(learner, batch, lambda: q_values(learner.net, batch))
    for p in range(3):
        own = replay.pack(np.tile(np.arange(12), (3, 1)), CPU)
        same = replace(
            own,
            inputs=own.inputs[p : p + 1].expand_as(own.inputs),
            mask=own.mask[p : p + 1].expand_as(own.mask),
        )
        jsd = terms.divergence(terms.policies(q_values(learner.net, same), same.mask)).mean(dim=-1)
        expected = -(jsd * own.real[p]).sum().detach() / own.real[p].sum()
        assert loss[p].item() == pytest.approx(float(expected), rel=1e-4)
    (gradient,) = torch.autograd.grad(loss[1], learner.net.heads.head2.bias)
    assert (gradient[1] != 0).any()
    assert (gradient[[0, 2]] == 0).all()


def test_an_update_does_not_depend_on_the_number_of_threads():
    world, found = build("LBF4", limit=6), []
    replay = filled_replay(world, population=3)
    losses = {"diversity": (0.1, terms.diversity(every=2)), "cross": (0.1, td_on(replay, 8, [0], "cross", -1.0))}
    for threads in (1, 2):
        use_threads(threads)
        learner = Learner(Stack(Shape.of(world), 3, generator()), Vdn(), UpdateConfig())
        for _ in range(3):
            learner.update(replay.pack(np.tile(np.arange(12), (3, 1)), CPU), losses)
        found.append(weights(learner.net))
        losses["cross"] = (0.1, td_on(replay, 8, [0], "cross", -1.0))  # its draws once more
    use_threads(1)
    for name, array in found[0].items():
        np.testing.assert_array_equal(array, found[1][name])


def test_incompatibility_is_the_loss_of_the_negated_reward():
    world = build("LBF4", limit=6)
    replay = filled_replay(world, population=2)
    learner = Learner(Stack(Shape.of(world), 2, generator()), Vdn(), UpdateConfig())
    batch = replay.pack(np.tile(np.arange(12), (2, 1)), CPU)
    term = td_on(replay, 12, [0], "cross", sign=-1.0)  # all twelve episodes, in another order
    mirrored = replace(batch, reward=-batch.reward)
    expected = learner.td_loss(mirrored)
    torch.testing.assert_close(
        term(learner, batch, lambda: q_values(learner.net, batch)), expected, rtol=1e-4, atol=1e-5
    )


def test_regulariser_by_hand():
    backbone = Backbone(Shape(4, 3, 2), 1, generator())
    here = [part.detach().clone() for part in backbone.parameters()]
    count = sum(part.numel() for part in here)
    one_off, two_off = [part + 1 for part in here], [part - 2 for part in here]
    assert terms.distance(backbone, [here], "squared").item() == 0.0
    # Every weight is 1 or 2 off: squares add up to n and 4n, norms to the roots; then the mean over the snapshots.
    assert terms.distance(backbone, [one_off, two_off], "squared").item() == pytest.approx(2.5 * count, rel=1e-4)
    assert terms.distance(backbone, [one_off, two_off], "plain").item() == pytest.approx(1.5 * count**0.5, rel=1e-4)
    loss = terms.distance(backbone, [here], "plain")
    loss.backward()
    assert all(torch.isfinite(part.grad).all() for part in backbone.parameters())


def test_steadiness_is_how_far_old_heads_are_from_what_they_were_taught():
    """Against a network of its own for each head, then and now; only the backbone has a gradient."""
    world = build("LBF4", limit=6)
    replay, ego = filled_replay(world, population=2), Ego(Shape.of(world), 2, generator())
    backbones = [Ego(ego.shape, 0, generator(seed)).backbone for seed in (0, 7)]  # the first: the ego's as it is
    lessons = {"head": np.array([0, 1]), "snapshot": np.array([0, 1])}
    then = distillation.teachers(
        ego, [[part.detach() for part in backbone.parameters()] for backbone in backbones], lessons
    )
    learner = Learner(Stack.of(ego.shape, ego.backbone, Heads(ego.shape, 1, generator(1))), Vdn(), UpdateConfig())
    off = terms.distillation(then, replay, 5, [3])(learner, None, None)
    batch = replay.sample(5, np.random.default_rng([3]), CPU)
    expected = (q_values(ego.apart(), batch) - q_values(then, batch)).square().mean(dim=(2, 3))
    assert torch.count_nonzero(expected[0]) == 0
    real = batch.real[1] > 0
    torch.testing.assert_close(off, expected[1][real].mean().view(1) / 2)
    off.sum().backward()
    assert any((part.grad != 0).any() for part in ego.backbone.parameters())
    assert all(part.grad is None for part in (*ego.heads.parameters(), *then.parameters()))


# --- Selection, expansion, stopping, testing


def test_selection_by_hand():
    # Two parents, two offspring. The worst in itself goes (3: 0.2), then the most compatible (0).
    assert select([1.0, 0.9, 0.8, 0.2], [0.9, 0.5, 0.3, 0.0]) == [1, 2]
    # Four and four: 2 of 8 go for self-play (1 and 6), then 2 for cross-play (0 and 4).
    self_play = [1.0, 0.1, 0.9, 0.9, 0.9, 0.9, 0.2, 0.9]
    cross_play = [0.9, 0.0, 0.2, 0.3, 0.8, 0.4, 0.0, 0.1]
    assert select(self_play, cross_play) == [2, 3, 5, 7]


def test_selection_keeps_the_one_new_group_when_all_are_perfect():
    # All play 1.0 among themselves, so the first cut must not be by place: the new one, with cross-play 0, is last in line.
    for new in range(8):
        cross_play = [1.0] * 8
        cross_play[new] = 0.0
        assert new in select([1.0] * 8, cross_play)


def test_expansion_by_hand():
    assert expands(0.0, None, threshold=0.0)  # the first head
    assert not expands(0.5, 0.5, threshold=0.0)
    assert expands(0.5, 0.5, threshold=0.0, rule="reach")  # the paper's rule keeps every tie
    assert expands(0.6, 0.5, threshold=0.15)  # a gain of a fifth
    assert not expands(0.6, 0.5, threshold=0.2 + 1e-9)
    assert expands(0.1, 0.0, threshold=0.0)  # nothing to divide by
    assert not expands(0.0, 0.0, threshold=0.0)
    assert expands(-1.0, -2.0, threshold=0.5)
    assert not expands(-3.0, -2.0, threshold=0.0)


def test_the_best_old_head_is_measured_in_other_episodes_than_it_is_chosen_by(monkeypatch):
    # Three heads with a group. Those to choose by: 0.9, 0.5, 0.7; those to measure: 0.4, 0.6, 0.5. So the first has 0.4.
    tables = {"choose": [[0.9], [0.5], [0.7]], "measure": [[0.4], [0.6], [0.5]]}
    given, ego = setup(), Ego(Shape.of(build("LBF4")), 3, generator())
    seeds = {given.phase_seed(7, 1): "measure", given.phase_seed(7, 2): "choose"}
    monkeypatch.setattr(macop, "cross_returns", lambda setup, ego, group, seed: np.array(tables[seeds[seed]]))
    found = macop.measure_heads(given, ego, group=None, path=(7,))
    assert (found.returns, found.chosen, found.best) == ([0.4, 0.6, 0.5], 0, 0.4)
    assert macop.measure_heads(given, Ego(Shape.of(build("LBF4")), 0, generator()), None, (7,)).best is None


@pytest.mark.parametrize("alpha_distil", [0.0, 10.0])
def test_a_new_head_is_compared_with_the_chosen_one_in_the_same_episodes(alpha_distil, monkeypatch):
    """The chosen old head has 0.4 where the new one has 0.5. Another old one has 0.6 there, by luck: the new one is kept."""
    given = setup(config=replace(CONFIG, alpha_distil=alpha_distil, alpha_reg=0.0))
    tables = {"choose": [0.9, 0.5, 0.7], "measure": [0.4, 0.6, 0.5]}
    seeds = {given.phase_seed(7, 1): "measure", given.phase_seed(7, 2): "choose"}

    def returns(setup, ego, group, seed):
        heads = ego.heads.population
        return np.array(tables[seeds[seed]] if heads == 3 else {"measure": [0.5]}[seeds[seed]])[:, None]

    held = []
    shape = Shape.of(build("LBF4"))
    replay = filled_replay(build("LBF4"), population=1)
    monkeypatch.setattr(macop, "cross_returns", returns)
    monkeypatch.setattr(macop, "learn_to_join", lambda *given: (Heads(shape, 1, generator(5)), replay))
    monkeypatch.setattr(macop.distillation, "remember", lambda memory, head, *given: held.append(head) or memory)
    monkeypatch.setattr(macop.distillation, "played", lambda *given: replay)
    before = Learned(Ego(shape, 3, generator()))
    after = macop.expand(given, "", before, "it", Stack(shape, 1, generator(1)), (7,))
    assert (after.decision.best_head, after.decision.new_head, after.decision.kept) == (0, 0.5, True)
    assert (after.ego.n_heads, after.decision.heads) == (4, 4)
    # A gain of a quarter is asked for at least: 0.5 over 0.4 is that and no more. What serves the group then is the chosen head.
    stricter = given._replace(config=replace(given.config, expansion_threshold=0.25 + 1e-9))
    after = macop.expand(stricter, "", before, "it", Stack(shape, 1, generator(1)), (7,))
    assert (after.decision.kept, after.ego.n_heads) == (False, 3)
    assert held == ([3, 0] if alpha_distil else [])


def test_compatibility_is_of_heads_that_other_episodes_have_chosen(monkeypatch):
    """Five heads of true return 0.6 with every group: the best of each group looks like more, the chosen one does not."""
    given, rng = setup(config=replace(CONFIG, test_episodes=32)), np.random.default_rng(0)
    seen = []

    def returns(setup, ego, groups, seed):
        seen.append(seed)
        return rng.binomial(32, 0.6, (5, groups.population)) / 32

    monkeypatch.setattr(macop, "cross_returns", returns)
    monkeypatch.setattr(macop, "mutate", lambda setup, iteration, ego, parents, known: parents)
    monkeypatch.setattr(macop, "self_play_returns", lambda setup, net, seed: [1.0] * net.population)
    teams = Teams.fresh(given, CONFIG.population, SMALL, 0)
    ego = Ego(Shape.of(build("LBF4")), 5, generator())
    parents = Population(teams, [f"0/{k}" for k in range(CONFIG.population)], {})
    measured = [
        value
        for iteration in range(2, 202)
        for value in macop._next_population(given, iteration, Learned(ego), parents, teams.net).decision.cross_play
    ]
    assert np.mean(measured) == pytest.approx(0.6, abs=0.01)  # the best of five would be 0.70
    assert len(set(seen)) == len(seen)  # never the same episodes twice


def test_compatibility_by_hand():
    assert compatibility([1.0, 0.5], [0.6, 0.3]) == pytest.approx(0.3 / 0.75)
    assert compatibility([0.0, 0.0], [0.0, 0.0]) == 0.0  # where nobody can do anything, there is no reason to stop


# --- Phases


def setup(scenario="LBF4", config=CONFIG, seed=0):
    return Setup(build(scenario), config, seed, CPU)


@pytest.mark.parametrize(("scenario", "mixed"), [("SMAC1", False), ("CN3", True)])
def test_an_ego_of_one_agent_has_no_mixer(scenario, mixed):
    """The value of SMAC1's one agent is the team's; CN3 has two. Nobody plays with itself."""
    world, training = build(scenario), replace(SMALL, mixer="qmix")
    net, group = (Stack(Shape.of(world), 1, generator(k)) for k in (0, 1))
    done = join(Setup(world, CONFIG, 0, CPU), "", net, group, EgoConfig(200, training=training), seed=0)
    assert isinstance(done.learner.mixers["cross"], Qmix if mixed else Vdn)
    assert (done.replay.state.shape[-1] > 0) == mixed
    assert len(done.sources) == 1
    assert list(done.replay.seats) == list(range(world.controllable))


@pytest.mark.parametrize("scenario", list(SCENARIOS))
def test_lessons_are_as_in_the_authors_code(scenario):
    """No self-play, and epsilon falls over 50,000 steps, in every method; in SMAC, an update per episode."""
    own = presets.macop("paper", scenario)
    assert (own.ego_self_play, own.ego.epsilon_steps) == (0.0, 50_000)
    for method in ("finetune", "finetune-trajedi", "single-head", "ewc", "clear", "fcp", "trajedi", "lipo"):
        ego = configure(method, own).ego
        assert (ego.self_play, ego.training) == (0.0, own.ego)
    assert own.ego.ratio == 1.0 or not scenario.startswith("SMAC")


@pytest.mark.parametrize("demonstrations", [0.0, 0.2])
def test_old_heads_and_snapshots_do_not_move(demonstrations):
    world = build("CN3")
    ego, mates = Ego(Shape.of(world), 2, generator()), Stack(Shape.of(world), 1, generator(1))
    memory = with_snapshot({}, ego.backbone)
    before, kept = copy.deepcopy((ego, memory))
    config = replace(CONFIG, demonstrations=demonstrations)
    head, episodes = macop.learn_to_join(setup("CN3", config), "", ego, memory, mates, seed=5)
    assert len(episodes) > 0
    assert all(
        torch.equal(one, two) for one, two in zip(before.heads.parameters(), ego.heads.parameters(), strict=True)
    )
    assert all((kept["snapshots"]["0"][k] == part).all() for k, part in memory["snapshots"]["0"].items())
    assert not torch.equal(before.backbone.encoder1.weight, ego.backbone.encoder1.weight)
    fresh = Heads(ego.shape, 1, torch.Generator().manual_seed(5))
    assert not torch.equal(fresh.head2.weight, head.head2.weight)


def test_a_stiff_regulariser_holds_the_backbone():
    world = build("LBF4")
    moved = []
    for alpha in (0.0, 1e4):
        ego, mates = Ego(Shape.of(world), 1, generator()), Stack(Shape.of(world), 1, generator(1))
        before, memory = copy.deepcopy(ego), with_snapshot({}, ego.backbone)
        macop.learn_to_join(setup(config=replace(CONFIG, alpha_reg=alpha)), "", ego, memory, mates, seed=5)
        moved.append(terms.distance(ego.backbone, [[*before.backbone.parameters()]], "squared").item())
    assert moved[1] < 0.2 * moved[0]


def test_steadiness_holds_what_an_old_head_says_and_not_the_backbone():
    world, mates = build("LBF4"), Stack(Shape.of(build("LBF4")), 2, generator(1))
    one, other = (Stack.gather([(mates, k)]) for k in range(2))
    config = replace(CONFIG, alpha_reg=0.0, alpha_distil=1e3, kept_episodes=40)
    before = macop.expand(setup(config=config), "", Learned(Ego(Shape.of(world), 0, generator())), "one", one, (1,))
    assert before.memory["kept"]["length"].shape == (1, 40)
    batch, said, moved = filled_replay(world, population=1).pack(np.arange(12)[None], CPU), [], []
    for alpha in (0.0, 1e3):
        ego = copy.deepcopy(before.ego)
        again = setup(config=replace(config, alpha_distil=alpha))
        macop.learn_to_join(again, "", ego, before.memory, other, seed=5)
        said.append((q_values(ego.apart(), batch) - q_values(before.ego.apart(), batch)).square().mean().item())
        moved.append(terms.distance(ego.backbone, [[*before.ego.backbone.parameters()]], "squared").item())
    assert said[1] < 0.5 * said[0]
    assert moved[1] > 0.1 * moved[0]


def test_a_lesson_without_need_or_gain_leaves_the_ego_as_it_was():
    """All that stays is what its best head says with the group, by the backbone of now."""
    world = build("LBF4", limit=8)
    mates = Stack(Shape.of(world), 2, generator(1))
    one, other = (Stack.gather([(mates, k)]) for k in range(2))
    distilling = replace(CONFIG, alpha_reg=0.0, alpha_distil=1.0, kept_episodes=30)
    learned = Learned(Ego(Shape.of(world), 0, generator()))
    given = Setup(world, distilling, 0, CPU)
    learned = macop.expand(given, "", learned, "one", one, (1,))
    for change, group in (({"lessons": "needed"}, one), ({"expansion_threshold": 1e9}, other)):
        after = macop.expand(given._replace(config=replace(distilling, **change)), "", learned, "it", group, (2,))
        assert (after.decision.new_head is not None) == (
            "expansion_threshold" in change
        )  # nobody gets anything: no need
        assert (after.decision.kept, after.decision.heads) == (False, 1)
        assert weights(after.ego).keys() == weights(learned.ego).keys()
        assert all((weights(after.ego)[name] == part).all() for name, part in weights(learned.ego).items())
        assert after.memory["snapshots"].keys() == learned.memory["snapshots"].keys()
        assert {name: part.tolist() for name, part in after.memory["taught"].items()} == {
            "head": [0, 0],
            "snapshot": [0, 0],
        }
        assert (after.memory["kept"]["length"] > 0).sum(axis=1).tolist() == [15, 15]
        assert learned.memory["kept"]["length"].shape == (1, 30)  # what was before is not touched


def test_episodes_that_are_played_for_keeping_are_of_that_head_with_that_group():
    world = build("LBF4", limit=8)
    ego, mates = Ego(Shape.of(world), 2, generator()), Stack(Shape.of(world), 1, generator(1))
    still = replace(CONFIG, ego=replace(CONFIG.ego, epsilon_end=0.0))
    replay = distillation.played(Setup(world, still, 0, CPU), ego, 1, mates, still.ego, 7, seed=3)
    assert len(replay) >= 7
    batch = replay.pack(np.flatnonzero(replay.length[0])[None], CPU)
    best = q_values(Stack.gather([(ego.apart(), 1)]), batch).masked_fill(~batch.mask, -torch.inf).argmax(dim=-1)
    assert (best == batch.action)[batch.real > 0].all()


def test_the_ego_draws_its_heads_for_every_episode():
    world = build("LBF4", limit=3)
    ego, mates = Ego(Shape.of(world), 4, generator()), Stack(Shape.of(world), 2, generator(1))
    experience = macop._against_ego(Setup(world, CONFIG, 0, CPU), ego, mates, seed=0)
    collector = source(world, experience, CONFIG.mutation, 2, False, CPU).collector
    table = collector.rollout.seats.stacks[0]
    seen = []
    for _ in range(300):
        collector.step()
        seen += table.head.tolist()
    share = np.bincount(seen, minlength=4) / len(seen)
    assert share[3] == pytest.approx(0.5 + 0.5 / 4, abs=0.06)  # the newest half the time, any of the four otherwise
    assert share[:3] == pytest.approx([0.125] * 3, abs=0.05)


# --- Whole runs


@pytest.fixture(autouse=True, scope="module")
def short_summaries():
    """Figures and summaries of many episodes are looked at elsewhere."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(summary, "EPISODES", 2)
        patch.setattr(summary, "draw", lambda *given: None)
        yield


def files(folder):
    return {path.name: path for path in sorted((folder / "phases").glob("*.npz"))}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("macop") / "run"
    run = MethodRun("LBF4", seed=1, config=CONFIG)
    return run, folder, train(run, folder, device="cpu", say=lambda line: None)


def test_a_run_keeps_every_population_every_ego_and_every_decision(finished):
    _, folder, result = finished
    assert list(files(folder)) == [
        "ego-01-00.npz", "ego-01-01.npz", "ego-02-00.npz", "ego-02-01.npz", "ego-03-00.npz", "ego-03-01.npz",
        "population-00.npz", "population-02.npz", "population-03.npz",
    ]  # fmt: skip
    decisions = RunFolder(folder).decisions()
    assert decisions == result.decisions
    assert [decision.phase for decision in decisions[:4]] == [
        "population-00",
        "ego-01-00",
        "ego-01-01",
        "population-02",
    ]
    chosen = decisions[3]
    assert chosen.groups == [chosen.candidates[k] for k in select(chosen.self_play, chosen.cross_play)]
    arrays, note = RunFolder(folder).read_phase("ego-03-01")
    assert note.heads == len(arrays.get("snapshots", {})) == result.result.ego.n_heads
    for name, value in weights(result.result.ego).items():
        np.testing.assert_array_equal(arrays["ego"][name], value)
    assert result.result.groups.population == len(result.result.names) == len(set(result.result.names))


def test_it_stops_before_the_ego_learns_once_all_are_compatible(tmp_path):
    for least, last in ((2, "population-02"), (3, "population-03")):  # and not before N_min
        run = MethodRun("LBF4", seed=1, config=replace(CONFIG, stop_threshold=0.0, min_iterations=least))
        folder = tmp_path / str(least)
        result = train(run, folder, device="cpu", say=lambda line: None)
        assert result.decisions[-1].phase == last
        assert f"ego-0{least}-00.npz" not in files(folder)
        assert f"ego-0{least - 1}-01.npz" in files(folder)
        new = [name for name in result.result.names if name.startswith(f"{least}/")]
        assert not set(new) & set(result.result.joined)


@pytest.mark.parametrize("method", ["macop", "macop+"])
def test_mixers_are_handed_on_and_seats_are_kept_apart(method, tmp_path):
    """A run with QMIX: offspring begin with their parents' mixers, and every replay holds the seats it should."""
    mixing = replace(SMALL, mixer="qmix")
    config = configure(method, replace(CONFIG, max_iterations=2, teammates=mixing, mutation=mixing, ego=mixing))
    steps = replace(config, teammate_steps=600, ego_steps=600)
    result = train(MethodRun("CN3", method, 2, config=steps), tmp_path / "run", device="cpu", say=lambda line: None)
    arrays, note = result.folder.read_phase("population-02")
    assert arrays["mixer"]["weight1.weight"].shape[0] == len(note.names) == 2
    begun = Population.load(result.setup, *result.folder.read_phase("population-00")).teams
    still = result.setup._replace(config=replace(steps, teammate_steps=1, anew=0.0))  # no time to learn anything
    offspring = macop.mutate(still, 2, result.result.ego, begun)
    for name, value in weights(begun.mixer).items():
        np.testing.assert_array_equal(weights(offspring.mixer)[name], value)
    other = macop.mutate(still._replace(config=replace(still.config, anew=0.5)), 2, result.result.ego, begun)
    for name, value in weights(begun.net).items():
        same = [np.array_equal(one, two) for one, two in zip(weights(other.net)[name], value, strict=True)]
        assert same == [False, True]  # the first has begun anew
    experience = macop._against_ego(result.setup, result.result.ego, begun.net, seed=0)
    assert list(experience.seats) == list(experience.explorers) == [2]  # the teammate's place, where the group explores


def test_a_method_is_what_it_is():
    with pytest.raises(ValueError, match="choose the other --method"):
        MethodRun("LBF4", "macop", config=replace(CONFIG, incompatibility="novelty"))
    plus = configure("macop+", CONFIG)
    assert (plus.demonstrations, plus.alpha_reg, plus.alpha_distil) == (0.2, 0.0, 10.0)
    assert (plus.anew, plus.lessons) == (1.0, "needed")
    assert plus.mutation.ratio == min(2 * CONFIG.mutation.ratio, CONFIG.teammates.ratio)
    for change, message in (
        ({"demonstrations": 1.0}, r"demonstrations is 1\.0; it must be in 0\.\.0\.9"),
        ({"max_iterations": 0}, "max_iterations is 0; it must be at least 1"),
        ({"ego": {"capacity": 10}}, r"capacity is 10; it must be at least envs \+ batch, 12"),
        ({"ego": {"ratio": 0.0}}, "ratio is 0.0; it must be above 0"),
        ({"ego": {"epsilon_steps": 0}}, "epsilon_steps is 0; it must be at least 1"),
        ({"ego": {"update": {"gamma": 1.5}}}, r"gamma is 1\.5; it must be in 0\.\.1"),
    ):
        with pytest.raises(ValueError, match=message):
            changed(CONFIG, change)


def test_compared_returns_come_from_the_same_worlds():
    """Two heads that are the same head return the same, and so do two groups that are the same group."""
    world = build("PP1")
    ego = Ego(Shape.of(world), 1, generator())
    ego.add_head(Heads(ego.shape, 1, generator(1)))
    ego.add_head(copy.deepcopy(Ego(Shape.of(world), 1, generator())).heads)
    with torch.no_grad():
        for part in ego.heads.parameters():
            part[2] = part[0]
    group = Stack(Shape.of(world), 1, generator(2))
    returns = cross_returns(setup("PP1"), ego, Stack.gather([(group, 0), (group, 0)]), seed=3)
    assert returns[0].tolist() == returns[2].tolist()
    assert returns[0, 0] == returns[0, 1]


def test_a_damaged_phase_is_done_again(finished, tmp_path):
    run, reference, _ = finished
    folder = tmp_path / "run"
    shutil.copytree(reference, folder)
    last = files(folder)["ego-03-01.npz"]
    last.write_bytes(last.read_bytes()[:1_000])
    said = []
    result = train(run, folder, resume=True, device="cpu", say=said.append)
    assert any("ego-03-01.npz is damaged" in line for line in said)
    original = checkpoints.read(files(reference)["ego-03-01.npz"])[0]["ego"]
    for name, value in weights(result.result.ego).items():
        np.testing.assert_array_equal(value, original[name])


def test_what_distillation_remembers_survives_an_interruption(tmp_path):
    """Macop+, whose lessons need what was kept of those before, gone on with after any of its phases."""
    config = configure("macop+", replace(CONFIG, kept_episodes=20, max_iterations=2))
    always = replace(config, lessons="all", expansion_rule="reach", prune=0.0)
    run = MethodRun("LBF4", "macop+", seed=1, config=always)
    whole = train(run, tmp_path / "whole", device="cpu", say=lambda line: None)
    assert whole.result.ego.n_heads > 1
    names = [f"{decision.phase}.npz" for decision in whole.decisions]
    for k in range(1, len(names), 2):
        folder = tmp_path / str(k)
        shutil.copytree(tmp_path / "whole", folder)
        for name in names[k:]:
            files(folder)[name].unlink()
        again = train(run, folder, resume=True, device="cpu", say=lambda line: None)
        assert again.decisions == whole.decisions
        for name, value in weights(again.result.ego).items():
            np.testing.assert_array_equal(value, weights(whole.result.ego)[name])


# --- Presets


@pytest.mark.parametrize("preset", presets.MACOP)
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_preset_is_valid_for_every_scenario(preset, scenario):
    config = presets.macop(preset, scenario)
    smac = scenario.startswith("SMAC")
    assert config.population == (2 if smac else 4)
    assert config.ego.mixer == config.teammates.mixer == ("qmix" if smac else "vdn")
    assert config.min_iterations <= config.max_iterations


def test_the_paper_preset_is_the_papers_table():
    found = {name: presets.macop("paper", name) for name in SCENARIOS}
    assert {name: config.teammate_steps for name, config in found.items()} == {
        **dict.fromkeys(("LBF1", "LBF4", "PP1", "PP2", "CN2", "CN3"), 500_000), "SMAC1": 600_000, "SMAC2": 1_000_000,
    }  # fmt: skip
    assert {name: config.ego_steps for name, config in found.items()} == {
        **dict.fromkeys(("LBF1", "LBF4", "CN2", "CN3"), 125_000), **dict.fromkeys(("PP1", "PP2"), 150_000),
        "SMAC1": 300_000, "SMAC2": 500_000,
    }  # fmt: skip
    for name, config in found.items():
        assert (config.min_iterations, config.max_iterations) == (3 if name.startswith("SMAC") else 4, 10)
        assert (config.alpha_div, config.alpha_incom, config.alpha_reg) == (0.1, 0.1, 10.0)
        assert (config.test_episodes, config.expansion_threshold, config.stop_threshold) == (32, 0.0, 0.5)
    with pytest.raises(ValueError, match="did you mean 'paper'"):
        presets.macop("papr", "LBF4")
    with pytest.raises(ValueError, match=r"it is a table, such as ego\.learner"):
        changed(CONFIG, {"ego": 3})


# --- Returns of any sign


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_baseline_of_the_scenarios_is_zero(name):
    """So that deviation 13 changes nothing there: what is subtracted is exactly 0."""
    setup = Setup(build(name), CONFIG, 0, CPU)
    assert baseline(setup) == 0.0
    assert macop_plus.step_baseline(setup) == 0.0


def test_negative_returns_are_measured_from_a_random_team():
    """An ego that is as bad as a random team is not compatible at all, and one that loses less expands."""
    world = build("LBF4")
    punished = replace(world, make_batch=lambda own, size: _Punished(own, size))
    setup = Setup(punished, CONFIG, 0, CPU)
    assert baseline(setup) == pytest.approx(-25.0, abs=1.0)  # -1 in every step
    worst = baseline(setup)
    assert compatibility([value - worst for value in (-5.0, -5.0)], [value - worst for value in (-5.0, worst)]) == 0.0
    assert macop._better(setup, -12.0, -13.0)
    assert not macop._better(setup._replace(config=replace(CONFIG, expansion_threshold=0.2)), -12.0, -13.0)
    assert macop._better(setup._replace(config=replace(CONFIG, expansion_threshold=0.05)), -12.0, -13.0)
    assert macop_plus.good([value - worst for value in (-5.0, -20.0, worst - 1)]) == [True, False, False]


class _Punished(Batch):
    """A batch whose every step costs 1."""

    def step(self, action):
        super().step(action)
        self.reward -= 1.0
        self.score -= 1.0
