"""Random numbers by counter: every draw is a pure function of (seed, purpose, episode, step, index).

An environment needs no generator object. Its draws do not depend on how many other environments stand beside it in
the batch, nor on how many draws anything else took, so environment i of a batch with seed s plays exactly as a single
one with seed s + i. The mixing function is SplitMix64's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numba import njit

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


@njit(cache=True)
def uniforms(key, episode, clock, out):
    """Fill `out` (B,K) with draws from [0,1) for the given step of the given episode: `key`, `episode`, `clock` (B,)."""
    for b in range(out.shape[0]):
        moment = (np.uint64(episode[b]) << np.uint64(32)) | np.uint64(clock[b])
        start = _mix(key[b] ^ _mix(moment + _GOLDEN))
        for k in range(out.shape[1]):
            out[b, k] = (_mix(start + np.uint64(k + 1) * _GOLDEN) >> np.uint64(11)) * 2.0**-53


def keys(seeds: Sequence[int] | np.ndarray, purpose: int) -> np.ndarray:
    """One stream key per seed (any Python integer) for one purpose: (B,) uint64."""
    folded = np.array([int(seed) % 2**64 for seed in seeds], dtype=np.uint64)
    out = np.empty_like(folded)
    _keys(folded, purpose, out)
    return out
