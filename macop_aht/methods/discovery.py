"""Discovery: random play finds different ways to be rewarded, and each new group begins with one of them (Macop+).

Environment steps are nearly free. Millions of random steps before a population is trained find conventions that the training
itself would never come by, because the easiest one draws all groups. An episode is described by what all agents see when it is
rewarded: which prey is between the predators, which landmark each agent is at. Episodes are chosen that are far from each other,
and from those of earlier groups. Each new group begins with one of them and its neighbours:

- they are its first best episodes, which PPO imitates;
- it is rewarded only where it is nearer to them than to other groups' and to what earlier groups do.

Where there are fewer different ways than new groups, the other groups begin with nothing. No label of the scenario is used.

This is for rewards that come with success. Where many small rewards make up a return, a group would be paid for a part of the
task only.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from macop_aht.learner.best import Seeds, discounted
from macop_aht.learner.experience import Experience
from macop_aht.learner.ppo import Schedule
from macop_aht.learner.rounds import Rounds
from macop_aht.learner.seats import Exploration, Seating
from macop_aht.learner.training import TrainingConfig
from macop_aht.methods.novelty import Moments, Pay
from macop_aht.scenarios.spec import World

ENVS = 1_000
SHARE = 0.05  # of the random episodes that are considered, at most
ENOUGH = 0.5  # of the highest return, for an episode to be considered
CLEAR = 0.57  # distance of what is new from what is known, relative to a large distance between two successes:
LARGE, PAIRS = 0.9, 4_000  # this quantile of the distances of so many pairs
CLOSE = 2  # distances are averaged over so many nearest episodes, so that an odd one does not count as new
NEIGHBOURS = 16  # episodes that a group begins with, at most
NEAR = 0.5  # they are nearer to the chosen one than this share of its distance to anything else that was chosen
ROWS = 512  # at a time, when all distances are computed
IDLE = Schedule(learning_rate=0.0, entropy=0.0, sticky=0.0, together=0.0)


class _RandomPlay(Rounds):
    """Rounds in which all actions are random, and persist as they do in a training."""

    def __init__(self, world: World, training: TrainingConfig, seed: int, device: torch.device) -> None:
        nobody = np.full((ENVS, world.n_agents), -1)
        experience = Experience(Seating((), nobody, nobody), np.zeros(ENVS, dtype=np.int64), seed)
        self._random = Exploration(np.ones((1, 1)), training.persistence, training.together)
        super().__init__(world, experience, 1, device)

    def exploration(self, schedule: Schedule) -> Exploration:
        return self._random


@dataclass(frozen=True)
class Discovered:
    """What new groups begin with."""

    seeds: Seeds  # nothing for the last groups, where there were not as many different ways
    found: np.ndarray  # (E,X) a description of each of the seeds' episodes
    known: np.ndarray  # (K,X) and of earlier groups' episodes
    scale: np.ndarray  # (X,) by which differences are measured

    def own(self, group: np.ndarray, seen: np.ndarray) -> np.ndarray:
        """Return whether each of these observations, (S,X), is nearer to what its `group` (S,) began with than to all else.

        It is for groups that began with something.
        """
        result, at = np.zeros(len(group), dtype=np.bool_), self.seeds.numbers
        for k in np.unique(group).tolist():
            mine = group == k
            others = [self.found[numbers] for other, numbers in enumerate(at) if other != k]
            both = self.found[at[k]], np.concatenate([self.known, *others])
            near, far = (_nearest(seen[mine] * self.scale, points * self.scale) for points in both)
            result[mine] = near <= far
        return result

    def pay(self, otherwise: Pay | None = None) -> Pay:
        """Return what multiplies rewards: groups are paid for their own alone, and those that began with nothing `otherwise`."""
        seeded = np.array([len(numbers) > 0 for numbers in self.seeds.numbers])

        def multiply(group: np.ndarray, seen: np.ndarray) -> np.ndarray:
            factor, own = np.ones(len(group)), seeded[group]
            factor[own] = self.own(group[own], seen[own])
            if otherwise and not own.all():
                factor[~own] = otherwise(group[~own], seen[~own])
            return factor

        return multiply


def discover(
    world: World,
    training: TrainingConfig,
    steps: int,
    groups: int,
    known: np.ndarray,
    seed: int,
    device: torch.device,
) -> Discovered | None:
    """Return what so many new groups begin with, after so many random steps; None where nothing was rewarded.

    `known` are descriptions of the rewarded episodes of earlier groups, (K,N*D).
    """
    rng = np.random.default_rng([seed, 1])
    episodes = random_successes(world, training, steps, seed, device, rng)
    if not len(episodes["length"]):
        return None
    found = describe(episodes["obs"], episodes["reward"], episodes["length"])
    spread = found.std(axis=0)
    scale = 1 / np.maximum(spread + 0.1 * spread.mean(), 1e-8)
    return Discovered(Seeds(episodes, apart(found * scale, groups, known * scale, rng)), found, known, scale)


def random_successes(
    world: World, training: TrainingConfig, steps: int, seed: int, device: torch.device, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """Return episodes of random play with a high return, as `Replay.episodes` does, and the `outcome` of each for reports."""
    rounds, played = _RandomPlay(world, training, seed, device), 0
    replay, parts = rounds.replay, []
    while played < steps:
        played += int((found := rounds.play(IDLE)).lengths.sum())
        returns = discounted(replay.reward[0], replay.length[0], training.update.gamma)
        able = rng.permutation(np.flatnonzero((returns > 0) & (returns >= ENOUGH * returns.max())))
        chosen = able[: int(SHARE * ENVS)]
        parts.append({**replay.episodes(0, chosen), "outcome": found.outcomes[chosen, 0]})
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def describe(obs: np.ndarray, reward: np.ndarray, length: np.ndarray) -> np.ndarray:
    """Return what all agents see when they are rewarded, the mean by the reward: (E,T,N,D) (E,T) (E,) -> (E,N*D)."""
    inside = np.arange(reward.shape[1]) < length[:, None]
    episode, step = np.nonzero((reward > 0) & inside)
    return Moments(obs[episode, step].reshape(len(step), -1), reward[episode, step], episode).described()


def apart(found: np.ndarray, count: int, known: np.ndarray, rng: np.random.Generator) -> list[np.ndarray]:
    """Choose up to so many of the descriptions, (E,X), each as far as possible from `known`, (K,X), and from those before it.

    Return the numbers of each one and of its neighbours, the nearest first; empty ones at the end, where no more are clearly new.
    """
    pairs = rng.integers(0, len(found), (2, PAIRS))
    clear = CLEAR * np.quantile(np.linalg.norm(found[pairs[0]] - found[pairs[1]], axis=1), LARGE)
    around, nearest = _neighbours(found, CLOSE), _nearest(found, known)
    chosen: list[int] = []
    for _ in range(count):
        distance = nearest[around].mean(axis=1)
        first = int(rng.integers(len(found))) if np.isinf(distance).any() else int(distance.argmax())
        if distance[first] < clear:
            break
        chosen.append(first)
        nearest = np.minimum(nearest, _nearest(found, found[chosen[-1:]]))
    numbers = []
    for k, own in enumerate(chosen):
        others = np.concatenate([known, found[chosen[:k] + chosen[k + 1 :]]])
        room, distance = _nearest(found[[own]], others)[0], _nearest(found, found[[own]])
        order = np.argsort(distance, kind="stable")[:NEIGHBOURS]
        numbers.append(order[distance[order] <= NEAR * room])
    return numbers + [np.zeros(0, dtype=np.int64)] * (count - len(chosen))


def _neighbours(points: np.ndarray, count: int) -> np.ndarray:
    """Return each point's nearest ones, itself among them: (E,X) -> (E,count), or less where there are fewer points."""
    square, count = (points**2).sum(axis=1), min(count, len(points))
    found = []
    for start in range(0, len(points), ROWS):
        distance = square - 2 * points[start : start + ROWS] @ points.T  # less each point's own square
        found.append(np.argpartition(distance, count - 1, axis=1)[:, :count])
    return np.concatenate(found)


def _nearest(points: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Return the distance of each point to the nearest of the others, infinity where there are none: (E,X) (K,X) -> (E,)."""
    if not len(others):
        return np.full(len(points), np.inf)
    square = (points**2).sum(axis=1)[:, None] + (others**2).sum(axis=1) - 2 * points @ others.T
    return np.sqrt(np.maximum(square.min(axis=1), 0.0))
