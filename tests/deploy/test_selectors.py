"""Selectors: which head is played next."""

import numpy as np
import onnx
import onnxruntime
import pytest

from macop_aht.deploy.selectors import SELECTORS
from macop_aht.episodes.heads import choose_head
from macop_aht.onnx import read, write


def run_selector(name, heads, budget, returns, episodes, seed=0, measured=None):
    """The heads that a selector plays, when head k's j-th episode returns `returns[k][j]`."""
    table = np.zeros((heads, 0)) if measured is None else np.array(measured)
    session = onnxruntime.InferenceSession(write(SELECTORS[name](table)))
    rng, played = np.random.default_rng(seed), [0] * heads
    tried, mean = np.zeros(heads, np.float32), np.zeros(heads, np.float32)
    last, value, sequence = -1, 0.0, []
    for _ in range(episodes):
        feed = {"tried": tried, "mean_return": mean, "last_head": np.array(last), "budget": np.array(budget),
                "last_return": np.array(value, np.float32)}  # fmt: skip
        if name == "thompson":
            feed["draws"] = rng.standard_normal(heads).astype(np.float32)
        tried, mean, head, best = session.run(None, feed)
        last = int(head)
        value = returns[last][played[last] % len(returns[last])]
        played[last] += 1
        sequence.append(last)
    return sequence, int(best), mean


def test_meta_test_is_the_papers():
    returns = [[0.0, 1.0], [1.0, 1.0, 0.0], [0.9, 0.0]]
    sequence, best, mean = run_selector("meta-test", 3, 8, returns, 12)
    assert sequence == [0, 1, 2, 0, 1, 2, 0, 1, 1, 1, 1, 1]
    chosen = choose_head(np.array([0.0, 1.0, 0.9, 1.0, 1.0, 0.0, 0.0, 0.0]), 3)  # in the order in which they are played
    assert sequence[8] == chosen == best == 1
    assert mean[0] == pytest.approx(1 / 3)


def test_halving_drops_the_worse_half():
    sequence, best, _ = run_selector("halving", 4, 16, [[0.1], [0.9], [0.5], [0.2]], 20)
    assert sorted(sequence[:8]) == [0, 0, 1, 1, 2, 2, 3, 3]
    assert set(sequence[8:16]) == {1, 2}
    assert sequence[16:] == [1] * 4
    assert best == 1


def test_halving_leaves_no_head_untried():
    sequence, best, _ = run_selector("halving", 6, 9, [[0.1], [0.2], [0.3], [0.4], [0.5], [0.6]], 10)
    assert sorted(sequence[:6]) == list(range(6))
    assert set(sequence[6:9]) <= {3, 4, 5}
    assert sequence[9] == best == 5


def test_halving_knows_what_heads_get_with_groups():
    measured = np.eye(4)  # each head serves one group
    returns = [[0.0], [0.0], [0.0], [1.0]]
    sequence, best, _ = run_selector("halving", 4, 3, returns, 5, measured=measured)
    assert best == sequence[4] == 3  # it was neither of those that were played at first
    sequence, best, _ = run_selector("halving", 4, 32, [[0.3], [0.4], [0.9], [0.5]], 40, measured=measured)
    assert best == 2  # with a stranger, the returns themselves decide
    assert sequence[32:] == [2] * 8
    sequence, _, _ = run_selector("halving", 4, 4, returns, 1, measured=measured * [[1], [1], [2], [1]])
    assert sequence == [2]  # the most promising comes first


def test_thompson_tries_all_and_settles():
    for seed in range(5):
        sequence, best, _ = run_selector("thompson", 5, 20, [[0.0], [0.2], [1.0], [0.1], [0.3]], 25, seed)
        assert set(sequence[:5]) == set(range(5))
        assert best == 2
        assert sequence[20:] == [2] * 5


@pytest.mark.parametrize("name", SELECTORS)
@pytest.mark.parametrize(("heads", "groups"), [(1, 1), (2, 0), (7, 3)])
def test_selectors_are_sound_files(name, heads, groups):
    content = write(SELECTORS[name](np.random.default_rng(0).random((heads, groups))))
    onnx.checker.check_model(onnx.load_from_string(content), full_check=True)
    assert read(content).notes["selector"] == name
    sequence, _, _ = run_selector(name, heads, 0, [[0.0]] * heads, 3)  # no budget: a head is played all the same
    assert all(0 <= head < heads for head in sequence)
