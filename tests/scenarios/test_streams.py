"""The counter-based draws: uniform, independent of their neighbours, and the same wherever they are asked for."""

import numpy as np

from macop_aht.scenarios import streams


def draw(seeds, episode=0, clock=0, count=4, purpose=streams.WORLD):
    size = len(seeds)
    out = np.zeros((size, count))
    at = [np.full(size, value, dtype=np.int64) for value in (episode, clock)]
    streams.uniforms(streams.keys(seeds, purpose), *at, out)
    return out


def test_known_values():
    """SplitMix64 worked out in plain Python integers."""

    def mix(z):
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
        return z ^ (z >> 31)

    golden = 0x9E3779B97F4A7C15
    key = mix((mix((7 + golden) % 2**64) + streams.TEAMMATE * golden) % 2**64)
    start = mix(key ^ mix(((3 << 32) + 5 + golden) % 2**64))
    expected = [(mix((start + (k + 1) * golden) % 2**64) >> 11) * 2.0**-53 for k in range(3)]
    np.testing.assert_array_equal(draw([7], 3, 5, 3, streams.TEAMMATE)[0], expected)


def test_draws_do_not_depend_on_the_batch_or_on_their_number():
    many = draw(range(100, 200), episode=3, clock=9, count=8)
    np.testing.assert_array_equal(draw([150], 3, 9, 2)[0], many[50, :2])


def test_uniform_and_uncorrelated_over_every_axis():
    by_seed = draw(range(4_000), count=4)
    by_clock = np.concatenate([draw([1], clock=t, count=4) for t in range(4_000)])
    by_episode = np.concatenate([draw([1], episode=e, count=4) for e in range(4_000)])
    for sample in (by_seed, by_clock, by_episode):
        assert sample.min() >= 0
        assert sample.max() < 1
        counts = np.histogram(sample, bins=16, range=(0, 1))[0]
        expected = sample.size / 16
        assert ((counts - expected) ** 2 / expected).sum() < 37.7  # chi-squared, 15 degrees of freedom, 0.1%
        correlation = np.corrcoef(np.concatenate([sample[:-1].T, sample[1:].T]))
        assert np.abs(correlation - np.eye(8)).max() < 0.07  # 4 standard deviations and more


def test_purposes_and_seeds_are_different_streams():
    rows = [
        draw([seed], purpose=purpose, count=2)[0].tobytes()
        for seed in (0, 1, 2**63, 2**64 - 1)
        for purpose in (1, 2, 3)
    ]
    assert len(set(rows)) == len(rows)
    np.testing.assert_array_equal(draw([5]), draw([5 + 2**64]))  # seeds of any size are folded
