"""Counter-based random numbers: every draw is a pure function of (seed, purpose, episode, step, index).

An environment needs no generator object. Its draws depend neither on the size of the batch nor on how many draws anything else
took. So environment i of a batch with seed s plays exactly as a single environment with seed s + i. The mixing function is
SplitMix64.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from macop_aht.compiling import njit

WORLD: Final = 1  # spawns, levels, prey
TEAMMATE: Final = 2  # the teammates' own draws
PAIRING: Final = 3  # who plays this episode

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)


@njit(inline="always")
def _mix(z):
    z = (z ^ (z >> np.uint64(30))) * _MIX_1
    z = (z ^ (z >> np.uint64(27))) * _MIX_2
    return z ^ (z >> np.uint64(31))


@njit(cache=True)
def _keys(seeds, purpose, out):
    for b in range(seeds.shape[0]):
        out[b] = _mix(_mix(seeds[b] + _GOLDEN) + np.uint64(purpose) * _GOLDEN)


@njit(inline="always")
def _start(key, episode, clock):
    """Return the counter at which the draws of one step of one episode begin."""
    moment = (np.uint64(episode) << np.uint64(32)) | np.uint64(clock)
    return _mix(key ^ _mix(moment + _GOLDEN))


@njit(inline="always")
def _uniform(start, k):
    return (_mix(start + np.uint64(k + 1) * _GOLDEN) >> np.uint64(11)) * 2.0**-53


@njit(cache=True)
def uniforms(key, episode, clock, out):
    """Fill `out` (B,K) with draws from [0,1) for this step of this episode: `key`, `episode`, `clock` (B,)."""
    for b in range(out.shape[0]):
        start = _start(key[b], episode[b], clock[b])
        for k in range(out.shape[1]):
            out[b, k] = _uniform(start, k)


@njit(cache=True)
def uniforms_for(rows, key, episode, clock, out):
    """Fill `out` as `uniforms` does, but only for the environments in `rows`, (B,) bool. The other rows keep their values."""
    for b in range(out.shape[0]):
        if rows[b]:
            start = _start(key[b], episode[b], clock[b])
            for k in range(out.shape[1]):
                out[b, k] = _uniform(start, k)


def keys(seeds: Sequence[int] | np.ndarray, purpose: int) -> np.ndarray:
    """Return one stream key per seed for one purpose: (B,) uint64. A seed is any Python integer."""
    folded = np.array([int(seed) % 2**64 for seed in seeds], dtype=np.uint64)
    out = np.empty_like(folded)
    _keys(folded, purpose, out)
    return out
