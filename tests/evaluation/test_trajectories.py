"""The trajectory encoder: what it is given, what it may look at, and that it tells behaviours apart."""

import numpy as np
import pytest
import torch

from macop_aht.cli import main
from macop_aht.evaluation import trajectories
from macop_aht.evaluation.trajectories import Autoencoder, EncoderConfig, Trajectories, record, told_apart, train
from macop_aht.policies import resolve
from macop_aht.reproduction import fig_space
from macop_aht.scenarios import build

SMALL = EncoderConfig(epochs=40, batch=16, learning_rate=3e-3, width=16, layers=1, attention=2)


@pytest.fixture(scope="module")
def told():
    world = build("LBF4")
    return record(world, resolve(["scripted:corner-ne", "scripted:corner-sw"], world), episodes=24)


def test_trajectories_are_what_was_played(told):
    """Two scripts that meet at opposite corners: they take opposite ways, and are there before the limit."""
    world = build("LBF4")
    assert told.state.shape[:2] == told.action.shape[:2] == told.real.shape
    assert told.action.shape[2] == world.n_agents
    assert told.group.tolist() == [0] * 24 + [1] * 24
    assert told.real[:, 0].all()
    assert (told.real.int().diff(dim=1) <= 0).all()  # an episode that has ended does not go on
    assert told.real.sum(dim=1).max() < world.limit
    steps = told.state[told.real]
    moving = steps.std(dim=0) > 1e-3
    np.testing.assert_allclose(steps.mean(dim=0), 0.0, atol=1e-4)
    np.testing.assert_allclose(steps.std(dim=0)[moving], 1.0, rtol=0.01)
    taken = [told.action[told.group == g][told.real[told.group == g]].flatten().tolist() for g in (0, 1)]
    counts = [{name: own.count(a) for a, name in enumerate(world.actions)} for own in taken]
    assert counts[0]["north"] > counts[0]["south"]
    assert counts[1]["south"] > counts[1]["north"]


def test_padding_changes_nothing(told):
    torch.manual_seed(0)
    network = Autoencoder(told.state.shape[2], told.action.shape[2], told.actions, SMALL)
    shorter = told[np.flatnonzero(told.real.sum(dim=1).numpy() < told.real.shape[1])]
    most = int(shorter.real.sum(dim=1).max())
    cut = Trajectories(
        shorter.state[:, :most], shorter.action[:, :most], shorter.real[:, :most], shorter.group, told.actions
    )
    torch.testing.assert_close(network.encode(shorter), network.encode(cut), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(network.loss(shorter), network.loss(cut), rtol=1e-4, atol=1e-5)


def test_the_feature_has_what_the_state_does_not_tell():
    """States are all zero; half of the trajectories go left, half right: only the feature can say which."""
    action = torch.tensor([0, 1]).repeat(16).view(32, 1, 1).expand(32, 5, 1)
    made = Trajectories(torch.zeros(32, 5, 2), action, torch.ones(32, 5, dtype=torch.bool), np.tile([0, 1], 16), 2)
    network, curve = train(made, SMALL)
    assert curve.shape == (40, 2)
    assert curve[0, 0] > 0.4  # log 2 is 0.69
    assert curve[-1].max() < 0.1
    assert told_apart(trajectories.features(network, made), made.group) == 1.0
    np.testing.assert_array_equal(train(made, SMALL)[1], curve)


def test_nearest_neighbours_by_hand():
    points = np.array([[0.0], [1.0], [5.0], [5.5], [2.5]])
    assert told_apart(points, np.array([0, 0, 1, 1, 1])) == pytest.approx(4 / 5)  # 2.5 is nearer to 1 than to 5


def test_groups_are_taken_evenly():
    assert fig_space.spread(list(range(28)), 10) == [0, 3, 6, 9, 12, 15, 18, 21, 24, 27]
    assert fig_space.spread(list(range(4)), 10) == [0, 1, 2, 3]


def test_the_figure_from_the_zoo(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(fig_space, "EPISODES", 4)
    monkeypatch.setattr(fig_space, "EncoderConfig", lambda: SMALL)
    assert main(["reproduce", "fig-space", "--out", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "the nearest neighbour, by the 10 numbers of the feature, is of the same group (by chance: 10%)" in printed
    assert (tmp_path / "fig-space.png").stat().st_size > 5_000
    assert len((tmp_path / "fig-space.csv").read_text().splitlines()) == 1 + 10 * 4
    assert len((tmp_path / "fig-space-loss.csv").read_text().splitlines()) == 1 + 40
    assert main(["reproduce", "table1"]) == 2
    assert "table1 needs a campaign; name its folder with --campaign FOLDER" in capsys.readouterr().err
