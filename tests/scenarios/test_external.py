"""Environments that the suite has not written, as worlds."""

import copy
import warnings

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env

import macop_aht
from macop_aht import External, from_smac
from macop_aht.episodes import matches
from macop_aht.episodes.runner import Lockstep, PolicySeats, run
from macop_aht.policies.scripted import Random
from macop_aht.scenarios import SCENARIOS, ExternalError, build, find, streams
from macop_aht.scenarios.batch import make_batch
from macop_aht.scenarios.external.check import check
from tests import environments
from tests.environments import Forgetful, Leaving, Masked, SmacStandIn, Unlike, Walk, make_combat, make_walk

GO = np.array([[1, 1]])


def over(batch):
    return bool(batch.terminated[0] or batch.truncated[0])


def stay(batch, steps):
    for _ in range(steps):
        batch.step(np.zeros((batch.size, batch.world.n_agents), dtype=np.int64))


def batch_of(make, size=1, **settings):
    batch = make_batch(build(External(make=make, **settings)), size)
    batch.seed(range(size))
    batch.reset()
    return batch


@pytest.fixture
def two_workers(monkeypatch):
    monkeypatch.setenv("MACOP_WORKERS", "2")


# --- The same play as in the suite's own form


@pytest.mark.parametrize(
    ("make", "own"), [(environments.make_foraging, "MacopLBF4-v0"), (make_combat, "MacopSMAC1-v0")]
)
def test_the_suites_own_worlds_play_the_same_from_outside(make, own):
    theirs, ours = macop_aht.embed(make, teammate="random"), gym.make(own, teammate="random").unwrapped
    rng, steps = np.random.default_rng(0), 0
    for seed in range(6):
        (seen, info), (expected, told) = theirs.reset(seed=seed), ours.reset(seed=seed)
        ended = False
        while not ended:
            np.testing.assert_array_equal(seen, expected)
            np.testing.assert_array_equal(info["action_mask"], told["action_mask"])
            np.testing.assert_array_equal(theirs.state(), ours.state())
            action = int(rng.choice(np.flatnonzero(told["action_mask"])))
            seen, *results, info = theirs.step(action)
            expected, *others, told = ours.step(action)
            assert results == pytest.approx(others, abs=1e-12)
            assert info.get("battle_won") == told.get("battle_won")
            ended, steps = others[1] or others[2], steps + 1
    assert steps > 100


def test_sizes_names_and_order():
    world = build(External(make=Unlike, ego=["walker_1"]))
    assert (world.n_agents, world.controllable, world.limit) == (2, 1, 6)  # the limit is the environment's own
    assert world.observations == tuple(f"obs_{k}" for k in range(8))  # the agents observe unlike things
    assert len(world.actions) == 3
    assert build(External(make=Walk)).observations == ("obs_0", "obs_1")
    alone = build(External(make=lambda: Unlike(), ego=["walker_1"]))
    low, high = alone.bounds
    assert low.tolist() == [0] * 8
    assert high.tolist() == [9, 9, 1, 1, 1, 1, 9, 9]  # the wider of the two agents' bounds


def test_unlike_agents_are_padded():
    batch = batch_of(Unlike, ego=["walker_1"])
    place = np.random.default_rng(0).integers(0, 2, 2)  # of walker_0, walker_1
    one_hot = np.eye(4)[place[1]].tolist()
    assert batch.obs[0].tolist() == [[*one_hot, 1, 0, 0, 0], [place[0], 0, 0, 0, 0, 0, 0, 0]]
    assert batch.mask[0].tolist() == [[1, 1, 0], [1, 1, 0]]
    batch.step(np.array([[2, 2]]))  # not available: both act as the first action that is, and stay
    assert batch.obs[0, 1, 0] == place[0]
    batch.step(GO)
    assert batch.obs[0, 1, :2].tolist() == [place[0] + 1, 2]
    assert batch.obs[0, 0, :4].argmax() == place[1] + 1


def test_masks_come_from_infos_and_bind():
    batch = batch_of(Masked)
    for _ in range(2):
        batch.step(GO)
    while not over(batch):
        batch.step(GO)  # those who have arrived stay, or the environment would fail
    assert batch.terminated[0]
    assert batch.mask[0].tolist() == [[1, 0], [1, 0]]


def test_agents_may_leave():
    batch = batch_of(Leaving)
    batch.step(np.array([[1, 0]]))
    while batch.obs[0, 0].any():
        batch.step(np.array([[1, 0]]))
    assert batch.mask[0].tolist() == [[1, 0], [1, 1]]  # walker_0 has left
    assert not over(batch)
    batch.step(np.array([[0, 1]]))
    while not over(batch):
        batch.step(np.array([[0, 1]]))
    assert batch.clock[0] <= 6
    batch.reset()
    assert batch.mask.all()


@pytest.mark.parametrize(("reward", "expected"), [("sum", 2.0), ("mean", 1.0), ("ego", 1.0)])
def test_the_teams_reward(reward, expected):
    batch = batch_of(Walk, reward=reward)
    while not batch.terminated[0]:
        batch.step(GO)
    assert batch.reward[0] == expected


def test_episodes_are_cut_at_the_limit():
    batch = batch_of(Walk, limit=2)
    for _ in range(2):
        batch.step(GO * 0)
    assert (batch.truncated[0], batch.terminated[0]) == (True, False)


def test_every_episode_has_a_seed_of_its_own():
    seeds = []

    class Noted(Walk):
        def reset(self, seed=None, options=None):
            seeds.append(seed)
            return super().reset(seed)

    batch = batch_of(Noted, size=2)
    del seeds[:]
    batch.seed([7, 8])
    batch.reset()
    batch.reset(np.array([False, True]))
    batch.reset()
    assert seeds[:2] == [7, 8]
    assert len(set(seeds)) == 5
    again = seeds.copy()
    batch.seed([7, 8])
    batch.reset()
    batch.reset(np.array([False, True]))
    batch.reset()
    assert seeds[5:] == again


def test_shaped_rewards_are_learnt_from_and_sparse_ones_reported():
    def shaping(env, infos):
        return 0.25 * env.place["walker_1"]

    env = macop_aht.embed(Walk, teammate=lambda obs, mask: np.ones(len(obs)), shaping=shaping)
    env.reset(seed=0)
    start = env.unwrapped._game.batch.obs[0, 1, 0]
    _, reward, _, _, info = env.step(0)
    assert (reward, info["sparse_reward"]) == (0.25 * (start + 1), 0.0)
    batch = env._game.batch
    assert (batch.score[0], batch.shaped_score[0]) == (0.0, reward)


def test_scripts_and_outcomes_of_the_users_own():
    def on(obs, mask):
        """Goes on and on."""
        return np.ones(len(obs))

    family = External(
        make=Walk,
        scripts={"on": on, "idle": lambda obs, mask: np.zeros(len(obs))},
        outcome=lambda env, infos: f"{env.steps} steps" if all(place == 3 for place in env.place.values()) else "",
    )
    world = build(family)
    assert {name: script.about for name, script in world.scripts.items()} == {
        "on": "Goes on and on.",
        "idle": "a script of yours",
    }
    teammates = macop_aht.envs.single.MacopEnv(family, "scripted")._game.population.policies
    assert [one.name for one in teammates] == ["scripted:on", "scripted:idle"]
    played = matches.play(world, teammates[0], teammates, 4)
    assert set(played.outcomes[0]) <= {"2 steps", "3 steps"}
    assert set(played.outcomes[1]) == {""}


def test_pictures_are_the_environments_own():
    pictures = pytest.importorskip("mpe2.simple_spread_v3")
    env = macop_aht.embed(pictures.parallel_env, render_mode="rgb_array")
    env.reset(seed=0)
    env.step(1)
    shown = env.render()
    assert shown.shape == (524, 480, 3)
    bare = pictures.parallel_env(render_mode="rgb_array")
    bare.reset(seed=0)
    log = env._game.batch.log[0, 0]
    bare.step(dict(zip(bare.agents, log.tolist(), strict=True)))
    np.testing.assert_array_equal(env._game.batch.picture(0), bare.render())
    text = macop_aht.embed(pictures.parallel_env, render_mode="ansi")
    text.reset(seed=0)
    with pytest.raises(ValueError, match="'ansi'"):
        text.render()


# --- Many environments


def random_play(size=5, most=256, make=make_walk, episodes=1):
    world = build(External(make=make, most=most))
    seats = PolicySeats(Random(), np.arange(size), np.arange(world.n_agents), streams.keys(range(size), 5))
    play = Lockstep(world, range(size))
    return run(play, [seats], episodes), play.batch


@pytest.mark.parametrize("episodes", [1, 3])
def test_few_environments_play_many_episodes(episodes):
    expected, _ = random_play(7, episodes=episodes)
    found, batch = random_play(7, most=2, episodes=episodes)
    np.testing.assert_array_equal(found.returns, expected.returns)
    np.testing.assert_array_equal(found.lengths, expected.lengths)
    assert len(batch._crew._team) == 2


def test_environments_are_used_again():
    made = []

    def make():
        made.append(Walk())
        return made[-1]

    world = build(External(make=make))
    for _ in range(3):
        batch = make_batch(world, 4)
        batch.reset()
        del batch
    assert len(made) == 1 + 4  # one to see what it is like


def test_workers_change_nothing(two_workers, monkeypatch):
    found, batch = random_play(9, make=environments.make_walk_of_three)
    assert len(batch._crew._workers) == 2
    state = batch.global_state()
    monkeypatch.setenv("MACOP_WORKERS", "1")
    expected, alone = random_play(9, make=environments.make_walk_of_three)
    np.testing.assert_array_equal(found.returns, expected.returns)
    np.testing.assert_array_equal(state, alone.global_state())
    assert not hasattr(alone._crew, "_workers")


def test_a_worker_that_dies_is_told(two_workers):
    batch = batch_of(environments.make_deadly, 4)
    with pytest.raises(ExternalError, match=r"worker \d of 2 .* died with exit code -9"):
        stay(batch, 4)


def test_an_error_in_a_worker_is_the_environments_own(two_workers):
    batch = batch_of(environments.make_failing, 4)
    with pytest.raises(ExternalError, match="ZeroDivisionError: the third step") as caught:
        stay(batch, 4)
    assert "in step" in caught.value.__notes__[0]


def test_workers_import_what_they_run(two_workers):
    """PettingZoo's `parallel_env` was made inside another function, and is found in its module."""
    module = pytest.importorskip("mpe2.simple_spread_v3")
    batch_of(module.parallel_env, 4)
    with pytest.raises(ExternalError, match=r"not as a lambda .* or leave out --workers"):
        batch_of(lambda: Walk(), 4)


# --- Checkpoints


def test_unfinished_episodes_are_played_again():
    batch = batch_of(Walk, 3)
    batch.step(np.array([[1, 1], [0, 1], [1, 0]]))
    batch.reset(np.array([False, True, False]))
    batch.step(GO)  # the first episode is over now, or is in the next step
    kept = copy.deepcopy(batch.state_arrays())
    other = make_batch(batch.world, 3)
    other.seed(range(3))
    assert not other.load_arrays(kept).any()
    for _ in range(2):
        batch.step(GO)
        other.step(GO)
        for name in ("obs", "mask", "score", "clock", "terminated", "truncated", "episode"):
            np.testing.assert_array_equal(getattr(other, name)[1:], getattr(batch, name)[1:], name)


def test_environments_that_are_not_deterministic_are_found_out():
    batch = batch_of(lambda: Forgetful(6), 8)
    batch.step(np.ones((8, 6), dtype=np.int64))
    kept = copy.deepcopy(batch.state_arrays())
    assert batch.load_arrays(kept).any()
    told = [finding.what for finding in check(External(make=lambda: Forgetful(6)))]
    assert any(what.startswith("not deterministic") for what in told)
    told = [finding.what for finding in check(External(make=Walk))]
    assert any(what.startswith("deterministic") for what in told)


# --- SMAC's traps


def combat(ego_action=1, **settings):
    """Return a batch of one stand-in, and the actions of two agents that both stop."""
    batch = batch_of(lambda seed: from_smac(SmacStandIn(seed, **settings)))
    return batch, np.array([[ego_action, 1]])


@pytest.mark.parametrize("continuing", [False, True])
def test_smacs_time_limit_is_a_truncation(continuing):
    batch, stop = combat(continuing_episode=continuing, limit=4)
    for _ in range(4):
        assert not over(batch)
        batch.step(stop)
    assert (batch.terminated[0], batch.truncated[0]) == (False, True)


def charge(batch):
    """Go to the west, into the first pair of marines, until the episode is over; return its steps."""
    while not over(batch):
        batch.step(np.array([[5 if mask[5] else mask.argmax() for mask in batch.mask[0]]]))
    return int(batch.clock[0])


def test_a_defeat_in_smac_is_an_end():
    batch, _ = combat()
    steps = charge(batch)
    last, _ = combat(limit=steps)  # at the very limit
    assert charge(last) == steps
    for one in (batch, last):
        assert one.terminated[0]
        assert not one.world.info(one.state)["battle_won"][0]


def test_a_lost_connection_is_not_learnt_from():
    from macop_aht.learner.networks import Shape, Stack
    from macop_aht.learner.replay import Replay
    from macop_aht.learner.rollout import Collector
    from macop_aht.learner.seats import Seating

    world = build(External(make=lambda seed: SmacStandIn(seed, lost_at=(3,), limit=5)))
    net, replay = Stack(Shape.of(world), 1), Replay(world, 1, 8, state=0)
    collector = Collector(world, Seating.self_play(net, 1), np.zeros(1, dtype=np.int64), replay, 0, "cpu")
    ended = [len(collector.step()[1]) for _ in range(8)]
    assert ended == [0, 0, 0, 0, 0, 0, 0, 1]  # lost in the third step; then an episode of five
    assert replay.length[0].tolist() == [5, 0, 0, 0, 0, 0, 0, 0]  # written over the lost one


def test_a_lost_connection_is_played_again():
    world = build(External(make=lambda seed: SmacStandIn(seed, lost_at=(3,), limit=5)))
    seats = PolicySeats(Random(), np.arange(2), np.arange(2), streams.keys(range(2), 5))
    assert run(Lockstep(world, range(2)), [seats]).lengths[:, 0].tolist() == [5, 5]
    lost = build(External(make=lambda seed: SmacStandIn(seed, lost_at=range(1, 99), limit=5)))
    with pytest.raises(ExternalError, match="lost its connection to the game in 3 episodes in a row"):
        run(Lockstep(lost, range(2)), [seats])


def test_the_lost_episode_ends_as_truncated_for_others():
    env = macop_aht.embed(lambda seed: SmacStandIn(seed, lost_at=(1,)))
    env.reset(seed=0)
    _, reward, terminated, truncated, info = env.step(1)
    assert (reward, terminated, truncated, info["connection_lost"]) == (0.0, False, True, True)


def test_no_op_is_for_the_dead_only():
    """An action that is not available acts as stop; the stand-in fails where it does not."""
    batch, _ = combat()
    assert batch.world.actions[:3] == ("no-op", "stop", "north")
    while not over(batch):
        dead = batch.mask[0, :, 0] == 1
        assert (batch.mask[0, :, 1] == ~dead).all()
        batch.step(np.array([[0, 5]]))


def test_the_seed_goes_into_smacs_constructor():
    seeds = []

    def make(seed):
        seeds.append(seed)
        return SmacStandIn(seed)

    batch = batch_of(make)
    del seeds[:]
    batch.seed([41])
    batch.reset()
    batch.reset()  # the next episode of the same game
    assert seeds == [41]


def test_battles_won_become_a_rate():
    world = build(External(make=make_combat))
    played = matches.play(world, Random(), [Random()], 3)
    assert played.won.shape == (1, 3)
    assert all(isinstance(won, bool) for won in played.won[0])


def test_the_other_package_called_smac_is_told_apart(tmp_path, monkeypatch):
    def make():
        from smac.env import StarCraft2Env

        return from_smac(StarCraft2Env(map_name="2s3z"))

    with pytest.raises(ExternalError, match="StarCraft's SMAC is not installed"):
        build(External(make=make))
    (tmp_path / "smac").mkdir()
    (tmp_path / "smac" / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ExternalError, match=r"a hyper-parameter optimiser, which has no smac\.env"):
        build(External(make=make))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("environment", "own", "steps", "learnt", "apart"),
    [
        ("tests.environments:make_foraging", "LBF4", 200_000, 0.9, 0.1),
        ("tests.environments:make_combat", "SMAC1", 60_000, 5.0, 1.0),
    ],
)
def test_self_play_learns_as_much_from_outside(environment, own, steps, learnt, apart):
    """The same settings; only the later episodes have other seeds."""
    from macop_aht.learner.selfplay import SelfPlayConfig, self_play_returns, self_play_training
    from macop_aht.methods import presets

    config, returns = SelfPlayConfig(2, steps, presets.training(own)), []
    for name in (environment, own):
        training = self_play_training(build(name), config, 0, torch.device("cpu"))
        training.run()
        returns.append(self_play_returns(build(own), training.learner.net, 100, 7, torch.device("cpu")))
    print(environment, *returns)
    assert returns[1].mean() > learnt
    assert returns[0].mean() == pytest.approx(returns[1].mean(), abs=apart)


# --- Forms of environments


def test_aec_environments_are_converted():
    module = pytest.importorskip("mpe2.simple_spread_v3")
    turns, at_once = (build(External(make=make)) for make in (module.env, module.parallel_env))
    assert turns.observations == at_once.observations
    one, two = (matches.self_play(world, [Random()], 3).returns for world in (turns, at_once))
    np.testing.assert_array_equal(one, two)


def test_tuple_spaces():
    pytest.importorskip("lbforaging")
    world = build(External(make=lambda: gym.make("Foraging-8x8-2p-2f-coop-v3").unwrapped))
    assert (world.n_agents, len(world.actions), len(world.observations), world.limit) == (2, 6, 12, 50)
    assert (matches.self_play(world, [Random()], 3).lengths == 50).all()


def test_official_checkers():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_env(macop_aht.embed(Masked, ego=1), skip_render_check=True)
    from pettingzoo.test import parallel_api_test

    macop_aht.register("WalkForTests", External(make=make_walk))
    try:
        parallel_api_test(macop_aht.parallel_env("WalkForTests"), num_cycles=50)
        single, vector = (gym.make("MacopWalkForTests-v0", teammate="random").unwrapped for _ in range(2))
        vector = gym.make_vec("MacopWalkForTests-v0", num_envs=3, teammate="random")
        _assert_vector_plays_as_single(vector, single)
    finally:
        del SCENARIOS["WalkForTests"]
        del gym.registry["MacopWalkForTests-v0"]


def _assert_vector_plays_as_single(vector, single):
    seen, _ = vector.reset(seed=3)
    actions, columns = np.ones((5, 3), dtype=np.int64), []
    for action in actions:
        seen, rewards, over, cut, _ = vector.step(action)
        columns.append((seen.copy(), rewards, over | cut))
    for b in range(3):
        single.reset(seed=3 + b)
        for seen, rewards, over in columns:
            own, reward, terminated, truncated, _ = single.step(1)
            np.testing.assert_array_equal(seen[b], own)
            assert (rewards[b], over[b]) == (reward, terminated or truncated)
            if over[b]:
                break


def test_a_scenario_by_its_module(tmp_path, monkeypatch):
    (tmp_path / "of_mine.py").write_text("from tests.environments import Walk\n\n\ndef make():\n    return Walk()\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    try:
        assert find("of_mine:make").name == "of_mine_make"
        assert build("of_mine:make") is build("of_mine_make")
        with pytest.raises(KeyError, match=r"of_mine has no 'maker'. did you mean 'make'"):
            find("of_mine:maker")
        with pytest.raises(KeyError, match="there is no module 'of_nobody' here"):
            find("of_nobody:make")
    finally:
        SCENARIOS.pop("of_mine_make", None)


# --- Wrong uses


def changed(**attributes):
    """Return a class of walks with some attributes changed."""
    return type("Changed", (Walk,), attributes)


def at_step(change):
    """Return a class of walks whose second step returns something else."""

    def step(self, actions):
        found = Walk.step(self, actions)
        return change(self, list(found)) if self.steps == 2 else found

    return changed(step=step)


def play(make, **settings):
    stay(batch_of(make, **settings), 3)


def in_place(k, value):
    def change(self, found):
        found[k] = value(self, found[k]) if callable(value) else value
        return tuple(found)

    return at_step(change)


def no_seed(self):
    return Walk.reset(self)


def old_reset(self, seed=None, options=None):
    return Walk.reset(self, seed)[0]


def newcomer(self, found):
    self.agents = [*self.agents, "stranger"]
    return tuple(found)


def comes_back(self, found):
    def step(actions):
        self.agents = list(self.possible_agents)
        return tuple(found)

    self.agents, self.step = self.agents[:1], step
    return tuple(found)


class Single(gym.Env):
    action_space = spaces.Discrete(2)
    observation_space = spaces.Discrete(2)


class InTurns:
    metadata = {"is_parallelizable": False}  # noqa: RUF012 - declared so by PettingZoo
    possible_agents = ("a", "b")

    def agent_iter(self):
        pass

    def last(self):
        pass


def raises():
    raise OSError("no such map")


def shaped(value):
    return {"make": Walk, "shaping": lambda env, infos: value}


BOX = spaces.Box(-1.0, 1.0, (2,))
WRONG = {
    "make is an environment": (lambda: External(make=Walk()), "without ()"),
    "make is a name": (lambda: play("simple_spread"), "give the function that makes it"),
    "make raises": (lambda: play(raises), "make failed: OSError: no such map"),
    "make needs arguments": (lambda: play(lambda size: Walk()), r"called as make\(\)"),
    "make returns nothing": (lambda: play(lambda: None), "make returned None; it must return the environment"),
    "make returns a class": (lambda: play(lambda: Walk), r"return one of its objects, as Walk\(\)"),
    "make returns a number": (lambda: play(lambda: 3), "lacks possible_agents, reset, step; allowed are PettingZoo's"),
    "an environment of one agent": (lambda: play(Single), "of one agent with the action space"),
    "agents that take turns": (lambda: play(InTurns), "its agents take turns"),
    "a team of one": (lambda: play(lambda: Walk(1)), "a team has at least 2 agents"),
    "the ego is everybody": (lambda: play(Walk, ego=2), r"allowed are 1\.\.1, so that a teammate remains"),
    "the ego is a stranger": (lambda: play(Walk, ego=["me"]), r"ego names \['me'\]; the environment's agents are"),
    "the ego is a text": (lambda: play(Walk, ego="walker_0"), r"give a list of names, such as \['walker_0'\]"),
    "no seed": (lambda: play(changed(reset=no_seed)), "reset takes no seed, and make neither; add a parameter"),
    "no limit": (lambda: play(lambda: Walk(limit=None)), "give limit="),
    "an odd limit": (lambda: play(Walk, limit=0), "limit is 0"),
    "continuous actions": (lambda: play(changed(actions=BOX)), "discrete actions .continuous_actions=False in MPE"),
    "several actions at once": (
        lambda: play(changed(actions=spaces.MultiDiscrete([2, 2]))),
        "allowed is Discrete. Number the combinations",
    ),
    "text is observed": (lambda: play(changed(seen=spaces.Text(3))), "allowed are Box, Discrete, MultiDiscrete"),
    "an old reset": (lambda: play(changed(reset=old_reset)), r"it must return \(observations, infos\)"),
    "an old step": (
        lambda: play(at_step(lambda self, found: tuple(found[:4]))),
        "an older environment needs a wrapper",
    ),
    "a space that changes": (
        lambda: play(in_place(0, lambda self, seen: {**seen, "walker_1": np.zeros(3)})),
        r"has the shape \(3,\), and its space \(2,\); spaces must not change",
    ),
    "no observation": (lambda: play(in_place(0, {})), "there is no observation of agent 'walker_0'"),
    "NaN is observed": (
        lambda: play(in_place(0, lambda self, seen: {**seen, "walker_1": np.full(2, np.nan, np.float32)})),
        "holds NaN or infinity",
    ),
    "NaN as a reward": (
        lambda: play(in_place(1, {"walker_0": np.nan, "walker_1": 0.0})),
        "they must be finite numbers. Correct the environment's reward",
    ),
    "no number as a reward": (lambda: play(in_place(1, {"walker_0": "1"})), "give a number for each agent"),
    "agents that appear": (lambda: play(at_step(newcomer)), "possible_agents has all that can ever appear"),
    "agents that come back": (lambda: play(at_step(comes_back)), "agents may leave, but not join"),
    "a mask without actions": (
        lambda: play(changed(infos=lambda self: {agent: {"action_mask": [0, 0]} for agent in self.possible_agents})),
        "leave at least one action",
    ),
    "a mask of another size": (
        lambda: play(changed(infos=lambda self: {agent: {"action_mask": [1]} for agent in self.possible_agents})),
        "has 1 entries, for 2 actions",
    ),
    "an unknown reward": (lambda: play(Walk, reward="total"), "reward is 'total'"),
    "shaping that is no function": (lambda: play(Walk, shaping=0.1), r"give a function \(env, infos\)"),
    "shaping without a number": (lambda: play(**shaped(None)), "it returns a finite number"),
    "outcomes that are no text": (
        lambda: play(Walk, limit=2, outcome=lambda env, infos: 1),
        "outcome returned 1; it returns a label",
    ),
    "scripts that are no policies": (lambda: play(Walk, scripts={"on": 1}), "give a name, and a policy"),
    "no scripts": (
        lambda: macop_aht.embed(Walk, teammate="scripted"),
        "this environment has no scripts; give another teammate",
    ),
    "SMAC without a method": (lambda: play(lambda: from_smac(Walk())), "which lacks get_env_info, get_obs"),
    "no pictures": (lambda: batch_of(lambda: Walk()).picture(0), "let make take render_mode"),
    "a copy": (lambda: copy.deepcopy(batch_of(Walk)), "cannot be copied; make another one"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_use_is_told_with_its_fix(case):
    use, told = WRONG[case]
    with pytest.raises((ExternalError, TypeError, ValueError), match=told):
        use()
