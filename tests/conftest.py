"""What several test files need."""

import gymnasium as gym
import numpy as np
import pytest
import torch

from macop_aht.deploy.manifest import RunGroups
from macop_aht.export.bundle import RunInfo, ZeroShotSelector, write_bundle
from macop_aht.export.generalist import with_generalist
from macop_aht.export.recogniser import RecogniserConfig, train
from macop_aht.learner.networks import Ego, weights
from macop_aht.learner.threads import use_threads
from macop_aht.scenarios import SCENARIOS
from tests.bundles import NORTH, SOUTH, make_ego, make_recogniser, policy, stubborn


@pytest.fixture
def passing():
    """What is registered in the test is forgotten after it: other tests go through all scenarios there are."""
    before = [(registry, dict(registry)) for registry in (SCENARIOS, gym.registry)]
    yield
    for registry, entries in before:
        registry.clear()
        registry.update(entries)


@pytest.fixture
def bundle(tmp_path):
    """Three heads of a run and a generalist head, none of them trained."""
    world, ego = make_ego("LBF4")
    folder, rng = tmp_path / "bundle", np.random.default_rng(0)
    net = Ego(ego.shape, 1, torch.Generator().manual_seed(1))
    joined = with_generalist(ego, net)
    untrained = make_recogniser(world, joined, rng.random((4, 5)), seed=0, generalist=True)
    selector = ZeroShotSelector([f"0/{k}" for k in range(5)], weights(untrained))
    known = RunGroups("macop", ("0/0",), {f"0/{k}": (f"{k}" * 64,) for k in range(5)})
    run = RunInfo("LBF4", "macop", 0, known)
    write_bundle(folder, weights(ego), world, run, selector=selector, generalist=weights(net))
    return folder


@pytest.fixture(scope="session")
def told(tmp_path_factory):
    """Two groups of opposite actions, an ego with a head that suits each, its recogniser, and the bundle.

    In CN2 two agents are paid where one goes south and the other north. The recogniser is told that all heads get nothing: what
    it knows of them it has learnt.
    """
    use_threads(1)  # how many there are changes the last bits
    world, ego = make_ego("CN2", heads=2)
    teams, suitable = stubborn(world, (SOUTH, NORTH)), stubborn(world, (NORTH, SOUTH))
    ego.heads.load_state_dict(suitable.heads.state_dict())
    config = RecogniserConfig(steps=80_000, batch=400, learning_rate=1e-2, swaps=1.0, noise=0.0)
    recogniser = train(world, ego, teams, np.zeros((2, 2)), config, seed=0)
    folder = tmp_path_factory.mktemp("told") / "bundle"
    selector = ZeroShotSelector(["one way", "the other"], weights(recogniser))
    write_bundle(folder, weights(ego), world, RunInfo("CN2", "macop", 0), selector=selector)
    return world, [policy(teams, p, world) for p in range(2)], recogniser, folder
