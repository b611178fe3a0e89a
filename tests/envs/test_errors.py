"""A user's mistake gets an error that says what came, what is allowed, and what to do."""

import gymnasium as gym
import numpy as np
import pytest

import macop_aht
from macop_aht.cli import main
from macop_aht.policies import Noisy
from macop_aht.scenarios import MARINE, Combat, CooperativeNavigation, LevelBasedForaging, PredatorPrey, Unit
from tests.helpers import save_teammate


def lbf4(**kwargs):
    env = gym.make("MacopLBF4-v0", **kwargs)
    env.reset(seed=0)
    return env


def vec(**kwargs):
    envs = gym.make_vec("MacopLBF4-v0", num_envs=3, **kwargs)
    envs.reset(seed=0)
    return envs


def gives(action):
    return lambda obs, mask: action


class Amnesiac:
    memory_size = 2

    def act(self, obs, mask, agent, last_action, memory, draws):
        return np.zeros(len(obs), dtype=int), memory[:, 1:]


class Gambler:
    def act(self, obs, mask, agent, last_action, memory, draws):
        return (draws[:, 0] * 5).astype(int), memory


class Halfway:
    def act(self, obs, mask, agent, last_action, memory, draws):
        return np.zeros(len(obs), dtype=int)


ENDLESS = ["random"]
ENDLESS.append(ENDLESS)
ONES = np.ones(3, dtype=np.int64)
CASES = {
    # ids, scenarios, parameters
    "unknown id": (lambda: gym.make("MacopLBF5-v0"), "Did you mean: `MacopLBF4`"),
    "unknown scenario": (lambda: macop_aht.parallel_env("LBF44"), "did you mean 'LBF4'"),
    "unknown parameter": (
        lambda: lbf4(teamate="random"),
        "unexpected keyword argument 'teamate'; did you mean 'teammate'",
    ),
    "near parameter": (lambda: lbf4(limits=3), "did you mean 'limit'"),
    "vector parameter": (lambda: vec(max_levels=3), "did you mean 'max_level'"),
    "food outside": (lambda: lbf4(foods=((0, 9),)), r"foods \[\(0, 9\)\] lie outside the 6x6 grid"),
    "food on spawn": (lambda: LevelBasedForaging(foods=((2, 2),)), "hold foods"),
    "food twice": (lambda: LevelBasedForaging(foods=((0, 0), (0, 0))), "twice"),
    "few spawns": (lambda: LevelBasedForaging(n_agents=5), "4 spawn cells are too few for 5 agents"),
    "no room": (
        lambda: LevelBasedForaging(n_agents=3),
        "no food has room for more than 2 agents next to it, but it takes all 3",
    ),
    "wakes and sleeps": (lambda: Combat(acquire=10.0), "acquire 10.0 is larger than leash 9.0"),
    "all controlled": (lambda: lbf4(controllable=2), r"controllable is 2; allowed are 1\.\.1"),
    "no time": (lambda: lbf4(limit=0), "limit is 0; it must be a positive whole number"),
    "NaN parameter": (
        lambda: PredatorPrey(acceleration=float("nan")),
        "acceleration is nan; it must be a positive finite",
    ),
    "NaN place": (lambda: CooperativeNavigation(landmarks=((float("nan"), 0.0),)), "two finite numbers"),
    "prey policy": (lambda: PredatorPrey(prey_policy="flea"), "did you mean 'flee'"),
    "too many landmarks": (lambda: CooperativeNavigation(landmarks=((0, 0), (1, 1), (2, 2))), "too many for 2 agents"),
    "units and posts": (lambda: Combat(enemies=(MARINE,)), "1 enemies but 4 posts; give one for each"),
    "post off the field": (lambda: Combat(posts=((0.1, 5.0),) * 4), "away from the border"),
    "dead unit": (lambda: Unit("ghost", health=0, damage=1, cooldown=1, reach=1, radius=1), "health is 0"),
    "register name": (lambda: macop_aht.register("L B", LevelBasedForaging()), "letters, digits"),
    "register twice": (lambda: macop_aht.register("LBF4", LevelBasedForaging(limit=9)), "exists already"),
    "register nothing": (lambda: macop_aht.register("Nix", "LBF4"), "LevelBasedForaging"),
    "render mode": (lambda: lbf4(render_mode="rgb"), "allowed are human, rgb_array, ansi"),
    "vector render mode": (lambda: vec(render_mode="human"), "allowed are rgb_array, ansi"),
    "autoreset": (lambda: vec(autoreset_mode="never"), "allowed are 'NextStep', 'SameStep'"),
    "no envs": (lambda: gym.make_vec("MacopLBF4-v0", num_envs=0), "num_envs is 0"),
    # teammates
    "unknown teammate": (lambda: lbf4(teammate="randm"), "did you mean 'random'"),
    "unknown script": (lambda: lbf4(teammate="scripted:corner-nn"), "did you mean 'corner-n"),
    "unknown perturbation": (lambda: lbf4(teammate="random+noise=1"), "did you mean 'noisy'"),
    "perturbation without number": (lambda: lbf4(teammate="random+noisy"), "noisy=0.1"),
    "perturbation out of range": (lambda: lbf4(teammate="random+noisy=2"), "noisy is 2.0; it is a probability"),
    "NaN probability": (lambda: lbf4(teammate="random+sticky=nan"), "it is a probability"),
    "endless delay": (lambda: lbf4(teammate="random+delayed=1e9"), r"whole number of steps in 0\.\.1000"),
    "NaN steps": (lambda: lbf4(teammate="random+idle=nan"), "whole number of steps"),
    "perturbation of a bad policy": (lambda: lbf4(teammate=Noisy(gives([9]), 0.0)).step(0), r"allowed are 0\.\.4"),
    "undeclared draws": (lambda: lbf4(teammate=Gambler()).step(0), "0 draws per row.*draws = "),
    "half a step": (lambda: lbf4(teammate="random+idle=1.5"), "whole number of steps"),
    "bad switch": (lambda: lbf4(teammate="random+switch=scripted"), "switch=10,random"),
    "switch to many": (lambda: lbf4(teammate="random+switch=3,scripted"), "is a population"),
    "no zoo": (lambda: lbf4(teammate="zoo:macop/none"), "there is no group 'macop/none' for LBF4"),
    "wrong type": (lambda: lbf4(teammate=3), "teammate is 3 of type int; allowed are"),
    "nobody": (lambda: lbf4(teammate=[]), "the list of teammates is empty"),
    "no file": (lambda: lbf4(teammate="nowhere.onnx"), "no agent or teammate at .*nowhere.onnx; give the path"),
    "no episodes": (lambda: lbf4(episodes_per_teammate=0), "episodes_per_teammate is 0"),
    "teammate's range": (lambda: lbf4(teammate=gives([7])).step(0), r"gave actions \[7\]; allowed are 0\.\.4"),
    "teammate's shape": (
        lambda: lbf4(teammate=gives([1, 2])).step(0),
        r"shape \(2,\); give one per row of obs: \(1,\)",
    ),
    "teammate's NaN": (lambda: lbf4(teammate=gives([float("nan")])).step(0), "give whole numbers"),
    "teammate's type": (lambda: lbf4(teammate=gives(["north"])).step(0), "give whole numbers"),
    "teammate's memory": (lambda: lbf4(teammate=Amnesiac()).step(0), "gave a memory of shape"),
    "teammate's answer": (lambda: lbf4(teammate=Halfway()).step(0), "unpack"),
    # options and seeds
    "choice": (lambda: lbf4().reset(options={"teammate": "neerest"}), "did you mean 'scripted:nearest'"),
    "choice by number": (lambda: lbf4().reset(options={"teammate": 99}), r"a number in 0\.\.7"),
    "reset mask": (lambda: vec().reset(options={"reset_mask": [1, 0, 0]}), "bool array of shape"),
    "max_episode_steps": (lambda: vec(max_episode_steps=3), "call it 'limit'"),
    "teammate of a team": (
        lambda: macop_aht.parallel_env("LBF4", teammate="random"),
        "every agent of the team is yours",
    ),
    "register a class": (lambda: macop_aht.register("Kind", LevelBasedForaging), "LevelBasedForaging\\(...\\)"),
    "team: seed": (lambda: macop_aht.parallel_env("LBF4").reset(seed=-1), "0 or more"),
    "team: half a seed": (lambda: macop_aht.parallel_env("LBF4").reset(seed=1.5), "whole number"),
    "seed count": (lambda: vec().reset(seed=[1, 2]), "2 seeds for 3 environments"),
    "negative seed": (lambda: vec().reset(seed=-1), "0 or more"),
    "negative seed, single": (lambda: lbf4().reset(seed=-1), "non-negative|greater or equal to zero"),
    "options": (lambda: lbf4().reset(options=3), "options is 3; give a dictionary"),
    "vector options": (lambda: vec().reset(options=[1]), r"options is \[1\]; give a dictionary"),
    # sizes
    "huge limit": (lambda: lbf4(limit=10**30), "positive whole number and at most 1000000000"),
    "huge parameter": (lambda: PredatorPrey(acceleration=10**400), "it must be a positive finite number"),
    "endless teammate": (lambda: lbf4(episodes_per_teammate=10**30), r"give a whole number in 1\.\."),
    "deep switches": (lambda: lbf4(teammate="random" + "+switch=2,random" * 3_000), "nested too deeply"),
    "a list in itself": (lambda: lbf4(teammate=ENDLESS), "nested too deeply"),
    "no scenario": (lambda: macop_aht.parallel_env(3), "scenario is 3; give a name"),
    # evaluations and runs
    "no episode": (lambda: macop_aht.evaluate("random", "LBF4", ["random"], 0), "episodes is 0; it must be a positive"),
    "half an episode": (lambda: macop_aht.evaluate("random", "LBF4", ["random"], 1.5), "episodes is 1.5; it must be"),
    "no teammates": (lambda: macop_aht.evaluate("random", "LBF4", []), "there are no teammates; give at least one"),
    "evaluation's seed": (lambda: macop_aht.evaluate("random", "LBF4", ["random"], seed=-1), "seed is -1; it must be"),
    "run's seed": (lambda: macop_aht.MethodRun("LBF4", seed=10**30), r"seed is 1000.* it must be in 0\.\."),
    "run's threads": (lambda: macop_aht.MethodRun("LBF4", threads=0), "threads is 0; it must be at least 1"),
    # actions
    "range": (lambda: lbf4().step(5), r"action 5 is not in 0\.\.4; see info\['action_mask'\]"),
    "negative": (lambda: lbf4().step(-1), r"not in 0\.\.4"),
    "shape": (lambda: lbf4().step([1]), r"shape \(1,\), expected \(\)"),
    "float": (lambda: lbf4().step(1.0), "not made of whole numbers"),
    "NaN": (lambda: lbf4().step(float("nan")), "not made of whole numbers"),
    "text": (lambda: lbf4().step("north"), "not made of whole numbers"),
    "vector range": (lambda: vec().step(5 * ONES), r"not in 0\.\.4"),
    "vector shape": (lambda: vec().step(ONES[:2]), r"shape \(2,\), expected \(3,\)"),
    "vector NaN": (lambda: vec().step(np.full(3, np.nan)), "not made of whole numbers"),
    "vector before reset": (lambda: gym.make_vec("MacopLBF4-v0", num_envs=3).step(ONES), "call reset"),
    "team: unknown agent": (lambda: parallel().step({"agent_0": 0, "agent_2": 0}), "did you mean 'agent_"),
    "team: missing agent": (lambda: parallel().step({"agent_0": 0}), "no action for agent_1"),
    "team: range": (lambda: parallel().step({"agent_0": 0, "agent_1": 9}), r"not in 0\.\.4"),
    "team: before reset": (lambda: macop_aht.parallel_env("LBF4").step({}), "call reset"),
}


def parallel():
    env = macop_aht.parallel_env("LBF4")
    env.reset(seed=0)
    return env


@pytest.mark.parametrize("case", CASES)
@pytest.mark.filterwarnings("ignore")
def test_bad_input_names_the_fix(case):
    call, message = CASES[case]
    with pytest.raises((ValueError, TypeError, LookupError, RuntimeError, OSError, gym.error.Error), match=message):
        call()


def test_an_error_loses_nothing():
    env = lbf4()
    before = env.unwrapped.state()
    for bad in (9, 0.5, [0, 1]):
        with pytest.raises(ValueError):
            env.step(bad)
    np.testing.assert_array_equal(env.unwrapped.state(), before)
    env.step(0)
    with pytest.raises(ValueError):
        env.reset(seed=9, options={"teammate": "nobody"})
    undisturbed = lbf4()
    for _ in range(2):  # the episode goes on as if nothing had been
        expected = undisturbed.step(0)[0]
    np.testing.assert_array_equal(env.step(0)[0], expected)


def test_unknown_reset_options_warn():
    with pytest.warns(UserWarning, match="did you mean 'teammate'"):
        lbf4().reset(options={"teamate": "nearest"})


def test_bad_onnx_files(tmp_path):
    (tmp_path / "text.onnx").write_text("not a network")
    cases = {
        str(tmp_path / "text.onnx"): "text.onnx is not a usable .onnx file",
        save_teammate(tmp_path / "foreign.onnx", 18, 5): "obs has the shape.*this scenario needs.*another scenario",
        save_teammate(tmp_path / "actions.onnx", 12, 6): "q has the shape",
        save_teammate(tmp_path / "fixed.onnx", 12, 5, rows=1): "dynamic first axis",
    }
    for path, message in cases.items():
        with pytest.raises(ValueError, match=message):
            lbf4(teammate=path)
    with pytest.raises(ValueError, match="contain NaN or infinity"):
        lbf4(teammate=save_teammate(tmp_path / "nan.onnx", 12, 5, nan=True))


@pytest.mark.parametrize("count", [10**9, 10**30])
def test_more_environments_than_fit_into_memory_are_refused_at_once(count):
    with pytest.raises(MemoryError, match=r"environments would need .* GB; make fewer of them, such as with num_envs"):
        gym.make_vec("MacopLBF4-v0", num_envs=count)


def test_any_whole_number_is_a_seed():
    for seed in (2**64, 10**30, 10**5_000):
        first, second = (lbf4().reset(seed=seed) for _ in range(2))
        np.testing.assert_array_equal(first[0], second[0])
        assert vec().reset(seed=seed)[1]["teammate"][0] == first[1]["teammate"]


def test_command_line_mistakes_are_one_line(capsys):
    assert main(["teammates", "LBF5"]) == 2
    assert capsys.readouterr().err == (
        "macop: unknown scenario 'LBF5'; did you mean 'LBF4'? "
        "Allowed: " + ", ".join(macop_aht.scenarios.SCENARIOS) + "\n"
    )
