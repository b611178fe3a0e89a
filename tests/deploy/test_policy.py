"""An ego bundle in any seat, as a policy."""

import copy
import pickle

import gymnasium as gym
import numpy as np
import pytest

import macop_aht  # noqa: F401 - registers the environments
from macop_aht.deploy.runtime import EgoAgent
from macop_aht.episodes.matches import play
from macop_aht.evaluation.bundles import AgentSeats
from macop_aht.policies import resolve
from macop_aht.scenarios import build


@pytest.mark.parametrize("bundle", ["macop-plus/LBF4", "macop/CN2", "macop/SMAC1"])
def test_in_the_egos_seat_it_plays_as_the_agent_does(bundle):
    scenario = bundle.split("/")[1]
    world = build(scenario)
    teammates = resolve("scripted", world)[:3]
    (zero_shot,), (fixed,) = (resolve(f"agent:{bundle}{at}", world, scenario) for at in ("", "@1"))
    told, set_ = EgoAgent.load(bundle, "zero-shot", teams=24), EgoAgent.load(bundle, None, teams=24)
    set_.head = 1
    for policy, agent in ((zero_shot, told), (fixed, set_)):
        ours = play(world, policy, teammates, 8, seed=3)
        theirs = play(world, lambda who, agent=agent: AgentSeats(agent), teammates, 8, seed=3)
        np.testing.assert_array_equal(ours.returns, theirs.returns)
        np.testing.assert_array_equal(ours.lengths, theirs.lengths)


def test_as_a_teammate_in_environments():
    env = gym.make("MacopLBF4-v0", teammate="agent:macop-plus/LBF4")
    env.reset(seed=0)
    *_, info = env.step(0)
    assert info["teammate"] == "agent:macop-plus/LBF4"
    world = build("LBF4")
    (policy,) = resolve("agent:macop-plus/LBF4", world, "LBF4")
    returns = play(world, policy, [policy], 32).returns
    assert returns.mean() > 0.9  # with itself it knows what to do
    (three,) = resolve("agent:macop/CN3+noisy=0.1", build("CN3"), "CN3")  # two agents of its own, one teammate's seat
    assert play(build("CN3"), three, [three], 4).returns.shape == (1, 4)


def test_it_can_be_copied():
    world = build("LBF4")
    (policy,) = resolve("agent:macop-plus/LBF4", world, "LBF4")
    for other in (copy.deepcopy(policy), pickle.loads(pickle.dumps(policy))):
        ours, theirs = (play(world, one, resolve("random", world), 8) for one in (policy, other))
        np.testing.assert_array_equal(ours.lengths, theirs.lengths)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("agent:macop/LBF4", "plays LBF4; it cannot play in this scenario, CN2"),
        ("agent:macop/CN2@9", "has no head '9'; Allowed: 0, 1"),
        ("agent:nowhere/CN2", "there is no bundle in"),
    ],
)
def test_what_cannot_play_is_refused(spec, message):
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        resolve(spec, build("CN2"), "CN2")
