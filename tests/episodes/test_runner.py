"""The episode runner: who is called when, what counts, and that the batch size changes nothing."""

import numpy as np
import pytest

from macop_aht.episodes.heads import choose_head, turns
from macop_aht.episodes.matches import play, team_play
from macop_aht.episodes.runner import Hook, Lockstep, run
from macop_aht.policies import resolve
from macop_aht.scenarios import build


class Walk:
    """Everybody moves so that environment b's n-th episode lasts b + n + 1 steps; notes every call."""

    def __init__(self, play):
        self.calls, self.number, self.step = [], np.full(play.size, -1), np.zeros(play.size, dtype=int)

    def begin(self, play, rows):
        self.calls.append(("begin", rows.tolist()))
        self.number[rows] += 1
        self.step[rows] = 0
        assert (play.last_action[rows] == -1).all()

    def act(self, play):
        self.step += 1
        due = self.step > np.arange(play.size) + self.number
        # CN2 ends when both landmarks are taken: put the agents there when it is due, far away else
        play.batch.state.pos[:] = np.where(due[:, None, None], [[0.0, 1.0], [0.0, -1.0]], [[9.0, 9.0], [-9.0, -9.0]])
        play.action[:] = 0

    def end(self, play, over):
        self.calls.append(("end", over.tolist()))


def test_several_episodes_in_a_row():
    play_ = Lockstep(build("CN2"), [0, 0, 0])
    walk = Walk(play_)
    found = run(play_, [walk], episodes=2)
    assert found.lengths.tolist() == [[1, 2], [2, 3], [3, 4]]
    assert found.returns.tolist() == [[1.0, 1.0]] * 3
    assert found.outcomes.tolist() == [["landmarks 0 1"] * 2] * 3
    assert found.won.tolist() == [[None, None]] * 3
    assert walk.calls[0] == ("begin", [True] * 3)
    assert walk.calls[1:3] == [("end", [True, False, False]), ("begin", [True, False, False])]
    assert play_.batch.episode[0] > 2  # the first environment was ready early and played on


class Count(Hook):
    def __init__(self):
        self.chosen_, self.stepped_, self.ended_ = [], [], []

    def chosen(self, play, counted):
        self.chosen_.append(counted.sum())

    def stepped(self, play, counted):
        self.stepped_.append(counted.sum())

    def ended(self, play, over):
        self.ended_ += np.flatnonzero(over).tolist()


@pytest.mark.parametrize("episodes", [1, 2])
def test_hooks_are_told_what_counts(episodes):
    count, play_ = Count(), Lockstep(build("CN2"), [0, 0, 0])
    run(play_, [Walk(play_)], episodes, [count])
    expected = {1: [3, 2, 1], 2: [3, 3, 3, 2, 2, 1, 1]}[episodes]
    assert count.chosen_ == count.stepped_ == expected
    assert sorted(count.ended_) == sorted([0, 1, 2] * episodes)


def test_it_ends_early_where_that_is_asked_for():
    steps, play_ = Count(), Lockstep(build("CN2"), [0, 0, 0])
    found = run(play_, [Walk(play_)], 5, [steps], until=lambda: len(steps.stepped_) == 2)
    assert len(steps.stepped_) == 2
    assert found.lengths.tolist() == [[1, 0, 0, 0, 0], [2, 0, 0, 0, 0], [0, 0, 0, 0, 0]]


def test_an_episode_does_not_depend_on_the_batch():
    world = build("CN3")
    teammates = resolve(["random", "scripted:landmark-0+noisy=0.3", "scripted:nearest+switch=4,random"], world)
    (ego,) = resolve("random+sticky=0.5", world)
    whole, parts = (play(world, ego, teammates, 7, seed=3, size=size) for size in (4_096, 4))
    for name in ("returns", "lengths", "outcomes", "won"):
        np.testing.assert_array_equal(getattr(whole, name), getattr(parts, name))
    later = play(world, ego, teammates, 3, seed=3, first=4)
    np.testing.assert_array_equal(later.lengths, whole.lengths[:, 4:])


def test_agents_of_a_team_draw_apart():
    world = build("CN2")
    (random,), (other,) = resolve("random", world), resolve("random", world)
    for team in ([random, random], [random, other]):
        seen = Actions()
        team_play(world, team, 50, hooks=[seen])
        same = np.mean([(action[:, 0] == action[:, 1]).mean() for action in seen.actions])
        assert same == pytest.approx(1 / 5, abs=0.06)


class Actions(Hook):
    def __init__(self):
        self.actions = []

    def chosen(self, play, counted):
        self.actions.append(play.action.copy())


def test_the_testing_phase_by_hand():
    assert turns(3, 8).tolist() == [0, 1, 2, 0, 1, 2, 0, 1]
    assert turns(2).tolist() == [0, 1] * 4
    returns = np.array([0.0, 1.0, 0.9, 1.0, 1.0, 0.0, 0.0, 0.0])  # means 1/3, 2/3, 0.45
    assert choose_head(returns, 3) == 1
    assert choose_head(np.array([0.5]), 3) == 0  # heads that were never played are not chosen
    assert choose_head(np.array([[0.0, 1.0], [1.0, 1.0]]), 2).tolist() == [1, 0]  # the first of equals
