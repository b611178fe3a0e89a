"""Episodes of earlier groups that are kept for rehearsal and distillation, while an ego learns with new ones."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from macop_aht.learner.replay import Replay
from macop_aht.learner.training import TrainingConfig
from macop_aht.methods.phases import ego_mixer
from macop_aht.scenarios.spec import World

Kept = Mapping[str, np.ndarray]  # (groups,share,…), named as in a replay's checkpoint


def state_width(world: World, training: TrainingConfig) -> int:
    """Return how many numbers of the state the ego's kept episodes need: those of a mixer of Q-learning."""
    mixes = training.learner == "q" and ego_mixer(world, training) == "qmix"
    return world.state_dim if mixes else 0


def share_out(total: int, kept: Kept, latest: Replay, rng: np.random.Generator, state: int) -> dict[str, np.ndarray]:
    """What is kept once the latest group has joined: an equal share of `total` for each, (groups,share,…).

    Earlier groups give up the last of theirs; kept ones are in no order, so these are any. Of the state, so many numbers are
    kept.
    """
    share = max(total // (len(kept["length"]) + 1 if kept else 1), 1)
    chosen = rng.permutation(np.flatnonzero(latest.length[0]))[:share]
    episodes = latest.episodes(0, chosen)
    episodes["state"] = episodes["state"][..., :state]
    new = {name: _fitted(part[None], share) for name, part in episodes.items()}
    if not kept:
        return new
    return {name: np.concatenate([_fitted(kept[name], share), part]) for name, part in new.items()}


def _fitted(episodes: np.ndarray, share: int) -> np.ndarray:
    """As many as the share, places without an episode being zeros: (G,n,…) -> (G,share,…)."""
    fitted = np.zeros((len(episodes), share, *episodes.shape[2:]), dtype=episodes.dtype)
    fitted[:, : episodes.shape[1]] = episodes[:, :share]
    return fitted


def replay_of(world: World, kept: Kept, rings: int = 1) -> Replay:
    """Kept episodes to draw from: every group is a member of its own, or one of so many rings of a member."""
    groups, share = kept["length"].shape
    replay = Replay(world, groups // rings, share, kept["state"].shape[-1], range(world.controllable), rings)
    replay.load_arrays({**kept, "next": np.zeros(groups, dtype=np.int64), "full": np.array(True)})
    return replay
