"""Novelty of behaviour (Macop+): what a group is rewarded for, compared with what earlier groups are rewarded for.

A convention shows in the moments that pay: which corner the team stands at, which prey is between the predators. A small
classifier tells the observations in the rewarded steps of earlier groups from those of the groups that are being trained. While
these are trained, the reward of a step is multiplied by the probability that it is *not* known. A group then earns nothing by
doing what an earlier one does, but in full by anything else that pays. No label of the scenario is used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from macop_aht.episodes.runner import Hook, Lockstep
from macop_aht.learner.experience import Recorder
from macop_aht.learner.networks import Stack
from macop_aht.learner.seats import Seating, greedy_episodes
from macop_aht.scenarios.spec import World

WIDTH = 64
BATCH = 256
KNOWN_WEIGHT = 16.0  # of known steps against those of groups in training, of which some do the same
RECENT = 1_024  # rewarded steps that are remembered of every group in training
EVERY = 64  # rewarded steps for an update of the classifier
LEAST, MOST = 1, 8  # updates after a batch of episodes
NEW = 0.5  # novelty from which a group counts as new
TRAINING = 300  # updates of a classifier that judges finished groups


@dataclass(frozen=True)
class Moments:
    """Rewarded steps: what all agents saw before them, (S,N*D), and the rewards, (S,)."""

    seen: np.ndarray
    reward: np.ndarray

    @staticmethod
    def join(parts: Sequence[Moments]) -> Moments:
        """Return these as one."""
        return Moments(np.concatenate([part.seen for part in parts]), np.concatenate([part.reward for part in parts]))

    def draw(self, size: int, rng: np.random.Generator) -> np.ndarray:
        """Return so many of them, by their rewards: (size,N*D)."""
        return self.seen[rng.choice(len(self.seen), size, p=self.reward / self.reward.sum())]


class _Paid(Hook):
    """Notes the rewarded steps of every environment."""

    def __init__(self, size: int) -> None:
        self.found: list[list[tuple[np.ndarray, float]]] = [[] for _ in range(size)]
        self._seen: np.ndarray = np.zeros(0)

    def chosen(self, play: Lockstep, counted: np.ndarray) -> None:
        self._seen = play.batch.obs.reshape(play.size, -1).copy()

    def stepped(self, play: Lockstep, counted: np.ndarray) -> None:
        for b in np.flatnonzero((play.batch.reward > 0) & counted & play.running).tolist():
            self.found[b].append((self._seen[b], float(play.batch.reward[b])))


def moments_of(world: World, groups: Stack, episodes: int, seed: int, device: torch.device) -> list[Moments]:
    """Return the rewarded steps of every group's greedy self-play; a group that is never rewarded has none."""
    seating = Seating.self_play(groups, episodes)
    paid = _Paid(len(seating.member))
    greedy_episodes(world, seating, range(seed, seed + len(seating.member)), device, [paid])
    width, found = world.n_agents * len(world.observations), []
    for p in range(groups.population):
        steps = [step for own in paid.found[p * episodes : (p + 1) * episodes] for step in own]
        seen = np.array([step for step, _ in steps], dtype=np.float32).reshape(-1, width)
        found.append(Moments(seen, np.array([reward for _, reward in steps], dtype=np.float64)))
    return found


class Classifier:
    """A classifier that tells whether what is rewarded is known."""

    def __init__(self, known: Sequence[Moments], seed: int, device: torch.device) -> None:
        """`known` are the rewarded steps of earlier groups, of which at least one has some; each counts as much as another."""
        self._known, self._rng = [own for own in known if len(own.seen)], np.random.default_rng(seed)
        pool = Moments.join(self._known).seen
        self._mean, self._scale = pool.mean(axis=0), 1 / (pool.std(axis=0) + 0.1)
        generator = torch.Generator().manual_seed(seed)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(torch.randint(2**31, (1,), generator=generator)))
            layers = [
                nn.Linear(pool.shape[1], WIDTH),
                nn.ReLU(),
                nn.Linear(WIDTH, WIDTH),
                nn.ReLU(),
                nn.Linear(WIDTH, 1),
            ]
        self.net = nn.Sequential(*layers).to(device)
        self._optimiser = torch.optim.Adam(self.net.parameters(), lr=1e-3, weight_decay=1e-4)
        self._device = device

    def _input(self, seen: np.ndarray) -> Tensor:
        return torch.from_numpy(((seen - self._mean) * self._scale).astype(np.float32)).to(self._device)

    def novelty(self, seen: np.ndarray) -> np.ndarray:
        """Return the probability that each of these is not known: (S,N*D) -> (S,)."""
        with torch.no_grad():
            return torch.sigmoid(-self.net(self._input(seen)).squeeze(-1)).cpu().numpy()

    def learn(self, others: Sequence[Moments], updates: int) -> None:
        """Learn to tell known steps from those of other groups, each of which counts as much as another.

        A quarter of a batch are known steps whose entries are shuffled among them. So what is like nothing seen before is not
        taken for known.
        """
        rng, others = self._rng, [own for own in others if len(own.seen)]
        for _ in range(updates):
            known = np.concatenate([own.draw(-(-BATCH // len(self._known)), rng) for own in self._known])
            parts = [known, rng.permuted(known, axis=0)[: BATCH // 2]]
            if others:
                parts.append(np.concatenate([own.draw(-(-BATCH // len(others)), rng) for own in others]))
            label = np.concatenate([np.full(len(part), float(k == 0)) for k, part in enumerate(parts)])
            each = [KNOWN_WEIGHT, *[1.0] * (len(parts) - 1)]
            weight = np.concatenate(
                [np.full(len(part), own / len(part)) for own, part in zip(each, parts, strict=True)]
            )
            logit = self.net(self._input(np.concatenate(parts))).squeeze(-1)
            target, weights = (torch.from_numpy(array.astype(np.float32)).to(self._device) for array in (label, weight))
            self._optimiser.zero_grad()
            nn.functional.binary_cross_entropy_with_logits(logit, target, weights, reduction="sum").backward()
            self._optimiser.step()


class Novelty:
    """Multiplies the rewards of groups in training by their novelty, as their episodes enter the replay."""

    def __init__(self, known: Sequence[Moments], members: int, seed: int, device: torch.device) -> None:
        """`members` is the number of groups in training."""
        self._classifier = Classifier(known, seed, device)
        self._recent: list[Moments | None] = [None] * members
        self._waiting = 0

    def __call__(self, recorder: Recorder) -> None:
        """Attach to whoever plays the groups' self-play."""
        replay = recorder.replay

        def tell(over: np.ndarray, ring: np.ndarray, slot: np.ndarray) -> None:
            reward = replay.reward[ring, slot] * (np.arange(replay.limit + 1) < replay.length[ring, slot][:, None])
            episode, step = np.nonzero(reward > 0)
            if len(episode):
                at = ring[episode], slot[episode], step
                found = Moments(replay.obs[at].reshape(len(step), -1), reward[episode, step].astype(np.float64))
                self._remember(found, ring[episode])
                replay.reward[at] *= self._classifier.novelty(found.seen).astype(np.float32)

        recorder.when_over.append(tell)

    def _remember(self, found: Moments, member: np.ndarray) -> None:
        """Keep the newest rewarded steps of every group, and train the classifier on them now and then."""
        for p in np.unique(member).tolist():
            own = Moments(found.seen[member == p], found.reward[member == p])
            before = self._recent[p]
            both = Moments.join([before, own]) if before else own
            self._recent[p] = Moments(both.seen[-RECENT:], both.reward[-RECENT:])
        self._waiting += len(found.seen)
        if self._waiting >= EVERY:
            self._classifier.learn([own for own in self._recent if own], min(max(self._waiting // EVERY, LEAST), MOST))
            self._waiting = 0


def choose_new(
    known: Sequence[Moments], candidates: Sequence[Moments], good: Sequence[bool], seed: int, device: torch.device
) -> tuple[list[int], list[float]]:
    """Return the candidates whose behaviour is new, the newest first; and each one's novelty before anything was chosen.

    Only `good` candidates are chosen. One that does what an earlier choice does is not new any more.
    """
    chosen: list[int] = []
    first: list[float] = []
    while True:
        if not any(len(own.seen) for own in [*known, *(candidates[k] for k in chosen)]):
            return [k for k in range(len(candidates)) if good[k]], [1.0] * len(candidates)
        judge = Classifier([*known, *(candidates[k] for k in chosen)], seed, device)
        judge.learn(candidates, TRAINING)
        found = [_mean_novelty(judge, own) for own in candidates]
        first = first or found
        open_to_choice = [k for k in range(len(candidates)) if good[k] and k not in chosen and found[k] >= NEW]
        if not open_to_choice:
            return chosen, first
        chosen.append(max(open_to_choice, key=lambda k: (found[k], -k)))


def _mean_novelty(judge: Classifier, own: Moments) -> float:
    return float(np.average(judge.novelty(own.seen), weights=own.reward)) if len(own.seen) else 0.0
