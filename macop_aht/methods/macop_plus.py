"""What Macop+ decides otherwise than Macop: which groups stay, by their behaviour, and which heads are needed in the end."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol

import numpy as np

from macop_aht.learner.experience import Experience
from macop_aht.learner.networks import Stack
from macop_aht.learner.training import TrainingConfig
from macop_aht.methods.discovery import discover
from macop_aht.methods.novelty import Classifier, Moments, affordable, choose_new, moments_of, pay_by, random_steps
from macop_aht.methods.phases import Learned, Settings, Setup, baseline, cross_returns
from macop_aht.runs.records import Decision

PRUNING = 1_000_000  # in the seed of its episodes, behind all iterations
KNOWN_EPISODES = 256  # of each group, from which the classifier learns what is known
KNOWN_NOISE = 0.3  # the largest probability of a random action in them: offspring explore when they are paid
DESCRIBED = 32  # episodes of each group that random play is compared with
ALIKE = 0.5  # a group does what another one does, if with it, in either seats, it returns this share of its self-play
TOGETHER_EPISODES = 32


class Discovers(Settings, Protocol):
    """Settings with random play before a population is trained."""

    @property
    def discovery(self) -> int: ...


class Known(NamedTuple):
    """What the groups of a run so far are rewarded for."""

    groups: Stack  # all of them
    moments: list[Moments]  # of every good one
    others: np.ndarray  # steps of random teams
    classifier: Classifier | None  # None where no group was ever rewarded

    @staticmethod
    def of(setup: Setup[Settings], groups: Stack, training: TrainingConfig, path: tuple[int, ...]) -> Known:
        """Play the groups, and random teams that explore as the training does; `path` is that of the seeds."""
        seeds = [setup.phase_seed(*path, k) for k in (2, 3, 4)]
        least, episodes = step_baseline(setup), affordable(setup.world, KNOWN_EPISODES)
        found = moments_of(setup.world, groups, episodes, seeds[0], setup.device, KNOWN_NOISE, least)
        fit = good([own.reward.sum() / episodes for own in found])
        found = [own for own, able in zip(found, fit, strict=True) if able]
        others = random_steps(setup.world, training.persistence, training.together, seeds[1], setup.device, least)
        classifier = Classifier(found, others, seeds[2], setup.device) if found else None
        return Known(groups, found, others, classifier)

    def described(self) -> np.ndarray:
        """Return descriptions of rewarded episodes of each: (K,N*D)."""
        return np.concatenate([own.described()[:DESCRIBED] for own in self.moments])


def novel(
    setup: Setup[Discovers], alone: Experience, training: TrainingConfig, count: int, known: Known | None
) -> Experience:
    """Return the self-play of so many new groups, rewarded for what is not `known`, and begun with what random play discovers."""
    pay, least = known.classifier.pay if known and known.classifier else None, step_baseline(setup)
    if setup.config.discovery and training.learner == "ppo" and training.ppo.imitation:
        width = setup.world.n_agents * len(setup.world.observations)
        before = known.described() if known and known.moments else np.zeros((0, width))
        steps, seed = setup.config.discovery, alone.seed + 3
        if found := discover(setup.world, training, steps, count, before, seed, setup.device):
            return replace(alone, attach=pay_by(found.pay(pay), least), seeds=found.seeds)
    return replace(alone, attach=pay_by(pay, least)) if pay else alone


def step_baseline(setup: Setup[Settings]) -> float:
    """Return above which a step counts as rewarded: a step's part of the baseline of returns (deviation 13)."""
    return baseline(setup) / setup.world.limit


def judge(
    setup: Setup[Settings], known: Known, offspring: Stack, self_play: Sequence[float], path: tuple[int, ...]
) -> tuple[list[int], list[float]]:
    """Return which candidates are good and behave in a new way, and the novelty of all offspring, the last of the candidates."""
    count = offspring.population
    episodes, least, worst = setup.config.test_episodes, step_baseline(setup), baseline(setup)
    found = moments_of(setup.world, offspring, episodes, setup.phase_seed(*path, 5), setup.device, least=least)
    seeds, alone = [setup.phase_seed(*path, k) for k in (6, 7)], np.array(self_play) - worst
    own = alone[-count:]
    with_earlier = (_together(setup, offspring, known.groups, seeds[1]) - worst).max(axis=1) >= ALIKE * own
    alike = _together(setup, offspring, offspring, seeds[1]) - worst >= ALIKE * own[:, None]
    able = np.array(good(alone.tolist())[-count:]) & ~with_earlier
    new, novelty = choose_new(known.moments, found, able.tolist(), alike, known.others, seeds[0], setup.device)
    return [len(self_play) - count + k for k in new], novelty


def _together(setup: Setup[Settings], groups: Stack, others: Stack, seed: int) -> np.ndarray:
    """Return how groups play with others, in the worse of both seatings: (C,K)."""
    seated = cross_returns(setup, groups, others, seed, TOGETHER_EPISODES)
    return np.minimum(seated, cross_returns(setup, others, groups, seed, TOGETHER_EPISODES).T)


def good(self_play: Sequence[float]) -> list[bool]:
    """Return whether each candidate's self-play return is positive, and at least half of the best one's."""
    return [value > 0 and value >= max(self_play) / 2 for value in self_play]


def select(self_play: Sequence[float], cross_play: Sequence[float], new: Sequence[int]) -> list[int]:
    """Of parents and offspring, 2 n_p in all, return the n_p that stay.

    Those with `new` behaviour come first, then the good ones, the least compatible before others, then the best of the rest.
    Where all behaviour is known, mutation pays for little, and its offspring are often poor in themselves. Poor groups should
    not stay for being incompatible.
    """
    fit, count = good(self_play), len(self_play)
    order = sorted(
        range(count),
        key=lambda k: (k not in new, not fit[k], cross_play[k] if fit[k] else -self_play[k], -self_play[k], k),
    )
    return sorted(order[: count // 2])


def spare(returns: np.ndarray, loss: float) -> list[int]:
    """Return the heads that stay, where others do as well: returns (K,G) -> numbers of heads.

    A head is removed where every group has another head whose return is at most `loss` lower, relative to the best of all. The
    least useful goes first.
    """
    enough, kept = returns.max(axis=0) - loss * np.abs(returns.max(axis=0)), list(range(len(returns)))
    while len(kept) > 1:
        best_without = {k: returns[[own for own in kept if own != k]].max(axis=0) for k in kept}
        able = [k for k in kept if (best_without[k] >= enough).all()]
        if not able:
            break
        kept.remove(max(able, key=lambda k: (best_without[k].sum(), k)))
    return kept


def prune(setup: Setup[Settings], learned: Learned, groups: Stack, loss: float) -> Learned:
    """Remove the heads that no group needs; the others move up."""
    seed, ego = setup.phase_seed(PRUNING), copy.deepcopy(learned.ego)
    returns = cross_returns(setup, ego, groups, seed, 2 * setup.config.test_episodes)
    kept = spare(returns - baseline(setup), loss)
    for k in reversed([k for k in range(ego.n_heads) if k not in kept]):
        ego.drop_head(k)
    return Learned(ego, Decision(returns=returns[kept].max(axis=0).tolist(), heads=ego.n_heads))
