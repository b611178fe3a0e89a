"""CLEAR: episodes of earlier groups are kept and rehearsed beside those of the newest. The groups are a TrajeDi run's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from macop_aht.config import ConfigError, at_least, setting
from macop_aht.learner.replay import Replay
from macop_aht.learner.update import Term
from macop_aht.methods import continual, terms
from macop_aht.methods.continual import Lesson
from macop_aht.methods.journal import Journal
from macop_aht.methods.macop import MacopConfig
from macop_aht.methods.phases import EgoConfig, Outcome, Setup


@dataclass(frozen=True)
class ClearConfig:
    """Finetune's, and how much is rehearsed."""

    groups: str = setting("", "folder of the finished run whose groups it learns with; in the paper, TrajeDi's")
    alpha_rehearsal: float = setting(1.0, "weight of the TD loss on episodes of earlier groups")
    kept_episodes: int = setting(1_000, "episodes kept for rehearsal, of all earlier groups together")
    test_episodes: int = setting(32, "greedy episodes behind every figure")
    ego: EgoConfig = field(default_factory=continual.usual_ego)

    def __post_init__(self) -> None:
        at_least(self, 1, "test_episodes")
        at_least(self, 0, "alpha_rehearsal")
        if self.kept_episodes < 2 * self.ego.training.batch:
            raise ConfigError(
                f"kept_episodes is {self.kept_episodes}; it must be at least twice a batch, {2 * self.ego.training.batch}"
            )


def train(setup: Setup[ClearConfig], journal: Journal) -> Outcome:
    """One group after the other."""
    return continual.train(setup, journal, teach)


def teach(setup: Setup[ClearConfig], lesson: Lesson) -> dict[str, Any]:
    """L_com, and the TD loss on as many episodes of the groups before; some of this group's are kept for those to come."""
    config, memory = setup.config, lesson.memory.get("kept", {})
    again = {"rehearsal": (config.alpha_rehearsal, rehearsal(setup, memory, lesson.seed))} if memory else {}
    training = continual.join(setup, lesson, again)
    rng = np.random.default_rng([lesson.seed, 4])
    return {"kept": share_out(config.kept_episodes, memory, training.replay, rng)}


def rehearsal(setup: Setup[ClearConfig], memory: Mapping[str, np.ndarray], seed: int) -> Term:
    """The TD loss on a batch that has as much of every earlier group."""
    world, training = setup.world, setup.config.ego.training
    many, each = memory["length"].shape
    replay = Replay(world, 1, each, training.mixer == "qmix", range(world.controllable), rings=many)
    replay.load_arrays({**memory, "next": np.zeros(many, dtype=np.int64), "full": np.array(True)})
    return terms.td_on(replay, min(training.batch, len(replay)), [seed, 3], "cross")


def share_out(
    total: int, memory: Mapping[str, np.ndarray], latest: Replay, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """What is kept once the latest group has joined: an equal share of `total` for each, (groups,share,…).

    Earlier groups give up the last of theirs; kept ones are in no order, so these are any.
    """
    share = max(total // (len(memory["length"]) + 1 if memory else 1), 1)
    chosen = rng.permutation(np.flatnonzero(latest.length[0]))[:share]
    new = {name: _fitted(part[None], share) for name, part in latest.episodes(0, chosen).items()}
    if not memory:
        return new
    return {name: np.concatenate([_fitted(memory[name], share), part]) for name, part in new.items()}


def _fitted(episodes: np.ndarray, share: int) -> np.ndarray:
    """As many as the share, places without an episode being zeros: (G,n,…) -> (G,share,…)."""
    fitted = np.zeros((len(episodes), share, *episodes.shape[2:]), dtype=episodes.dtype)
    fitted[:, : episodes.shape[1]] = episodes[:, :share]
    return fitted


def beside(ours: MacopConfig, papers: MacopConfig) -> ClearConfig:
    """The settings that go with Macop's."""
    return ClearConfig(test_episodes=ours.test_episodes, ego=continual.ego_beside(ours))
