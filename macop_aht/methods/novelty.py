"""Novelty of behaviour (Macop+): what a group is rewarded for, compared with what earlier groups are rewarded for.

A convention shows in the moments that pay: which corner the team stands at, which prey is between the predators. A small
classifier learns what makes these moments of earlier groups: it tells the observations in their rewarded steps from those that
random teams come by. While new groups are trained, the reward of a step is multiplied by the probability that it is *not* one of
these moments. A group then earns nothing by doing what an earlier one does, but in full by anything else that pays. No label of
the scenario is used.

Random teams are the contrast, and not the new groups themselves. Against the new groups, the classifier would learn every small
way in which they differ, such as the place where the same prey is caught.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from macop_aht.episodes.runner import Hook, Lockstep, run
from macop_aht.learner.experience import Recorder
from macop_aht.learner.networks import Shape, Stack
from macop_aht.learner.seats import Exploration, NetworkSeats, Seating
from macop_aht.scenarios.spec import World

WIDTH = 64
BATCH = 256  # steps of either kind in an update
UPDATES = 1_000
KNOWN_WEIGHT = 4.0  # of known steps against those of random teams
NEW = 0.5  # novelty from which a group counts as new
RANDOM_EPISODES = 2_000
SHARE = 0.25  # of the steps of random teams that are kept
USUAL_LIMIT, FEWEST = 25, 32  # steps of an episode in most scenarios; episodes in any
NOISE_PERSISTENCE = 0.5  # the probability that a random action of a known group is its last one again

# (group (S,), what all agents see (S,N*D)) -> by what rewards are multiplied (S,)
Pay = Callable[[np.ndarray, np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Moments:
    """Rewarded steps: what all agents saw before them, (S,N*D), and the rewards, (S,)."""

    seen: np.ndarray
    reward: np.ndarray
    episode: np.ndarray  # (S,) the number of the episode, in ascending order

    def described(self) -> np.ndarray:
        """Return what all agents see when they are rewarded, the mean of each episode by the reward: (E,N*D)."""
        starts = np.flatnonzero(np.diff(self.episode, prepend=-1))
        if not len(starts):
            return self.seen
        total = np.add.reduceat(self.seen * self.reward[:, None], starts, axis=0)
        return total / np.add.reduceat(self.reward, starts)[:, None]

    def draw(self, size: int, rng: np.random.Generator) -> np.ndarray:
        """Return so many of them, by their rewards: (size,N*D)."""
        return self.seen[rng.choice(len(self.seen), size, p=self.reward / self.reward.sum())]


class _Watch(Hook):
    """Notes the rewarded steps of every environment, and a share of the others."""

    def __init__(self, size: int, share: float = 0.0, seed: int = 0, least: float = 0.0) -> None:
        """A step is rewarded if its reward is above `least`, at most 0, from which rewards are then measured."""
        self._least = least
        self.paid: list[list[tuple[np.ndarray, float]]] = [[] for _ in range(size)]
        self.others: list[np.ndarray] = []
        self._share, self._rng = share, np.random.default_rng(seed)
        self._seen: np.ndarray = np.zeros(0)

    def chosen(self, play: Lockstep, counted: np.ndarray) -> None:
        self._seen = play.batch.obs.reshape(play.size, -1).copy()

    def stepped(self, play: Lockstep, counted: np.ndarray) -> None:
        running, reward = counted & play.running, play.batch.reward - self._least
        for b in np.flatnonzero(running & (reward > 0)).tolist():
            self.paid[b].append((self._seen[b], float(reward[b])))
        if self._share:
            self.others.append(self._seen[running & (reward <= 0) & (self._rng.random(play.size) < self._share)])


def moments_of(
    world: World,
    groups: Stack,
    episodes: int,
    seed: int,
    device: torch.device,
    noise: float = 0.0,
    least: float = 0.0,
) -> list[Moments]:
    """Return the rewarded steps of every group's self-play; a group that is never rewarded has none.

    Every second episode has random actions, with a probability that is drawn for the episode and is at most `noise`. The other
    episodes are greedy.
    """
    seating = Seating.self_play(groups, episodes)
    size, rng = len(seating.member), np.random.default_rng(seed)
    watch, seats = _Watch(size, least=least), NetworkSeats(seating, device, rng)
    if noise:
        seats.exploration = Exploration((noise * rng.random(size) * (np.arange(size) % 2))[:, None], NOISE_PERSISTENCE)
    run(Lockstep(world, range(seed, seed + size)), [seats], hooks=[watch])
    width, found = world.n_agents * len(world.observations), []
    for p in range(groups.population):
        steps = [(b, *step) for b, own in enumerate(watch.paid[p * episodes : (p + 1) * episodes]) for step in own]
        seen = np.array([step for _, step, _ in steps], dtype=np.float32).reshape(-1, width)
        reward = np.array([reward for _, _, reward in steps], dtype=np.float64)
        found.append(Moments(seen, reward, np.array([b for b, _, _ in steps], dtype=np.int64)))
    return found


def random_steps(
    world: World, persistence: float, together: float, seed: int, device: torch.device, least: float = 0.0
) -> np.ndarray:
    """Return what all agents see in unrewarded steps of teams that act at random: (S,N*D)."""
    net, size = Stack(Shape.of(world), 1).to(device), affordable(world, RANDOM_EPISODES)
    seats = NetworkSeats(Seating.self_play(net, size), device, np.random.default_rng(seed))
    seats.exploration = Exploration(np.ones((1, 1)), persistence, together)
    watch = _Watch(size, SHARE, seed, least)
    run(Lockstep(world, range(seed, seed + size)), [seats], hooks=[watch])
    return np.concatenate(watch.others)


def affordable(world: World, episodes: int) -> int:
    """Return so many episodes, or as many steps as they have in most scenarios where the steps of an environment are dear."""
    if world.make_batch is None:
        return episodes
    return int(np.clip(episodes * USUAL_LIMIT // world.limit, min(FEWEST, episodes), episodes))


class Classifier:
    """Tells known moments from everything else."""

    def __init__(self, known: Sequence[Moments], others: np.ndarray, seed: int, device: torch.device) -> None:
        """Learn what makes the rewarded steps of earlier groups, against `others` (S,N*D), steps of random teams.

        At least one of the groups has rewarded steps. Each of those counts as much as another.
        """
        known, rng, self._device = [own for own in known if len(own.seen)], np.random.default_rng(seed), device
        pool = np.concatenate([others, *(own.seen for own in known)])
        self._mean, self._scale = pool.mean(axis=0), 1 / (pool.std(axis=0) + 0.1)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            hidden = [nn.Linear(pool.shape[1], WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU()]
            self._net = nn.Sequential(*hidden, nn.Linear(WIDTH, 1)).to(device)
        optimiser = torch.optim.Adam(self._net.parameters(), lr=1e-3, weight_decay=1e-4)
        each = -(-BATCH // len(known))
        label = torch.cat([torch.ones(each * len(known)), torch.zeros(BATCH)]).to(device)
        weight = torch.where(label > 0, KNOWN_WEIGHT / (each * len(known)), 1 / BATCH)
        for _ in range(UPDATES):
            seen = np.concatenate(
                [*(own.draw(each, rng) for own in known), others[rng.integers(0, len(others), BATCH)]]
            )
            optimiser.zero_grad()
            logit = self._logit(seen)
            nn.functional.binary_cross_entropy_with_logits(logit, label, weight, reduction="sum").backward()
            optimiser.step()

    def _logit(self, seen: np.ndarray) -> Tensor:
        rows = ((seen - self._mean) * self._scale).astype(np.float32)
        return self._net(torch.from_numpy(rows).to(self._device)).squeeze(-1)

    def pay(self, group: np.ndarray, seen: np.ndarray) -> np.ndarray:
        """Return by what rewards are multiplied: the novelty of what is seen, whichever group it is."""
        return self.novelty(seen)

    def novelty(self, seen: np.ndarray) -> np.ndarray:
        """Return the probability that each of these steps is not known: (S,N*D) -> (S,)."""
        with torch.no_grad():
            return torch.sigmoid(-self._logit(seen)).cpu().numpy()

    def novelty_of(self, moments: Moments) -> float:
        """Return the mean novelty of a group's rewarded steps, by their rewards; 0 where it has none."""
        return float(np.average(self.novelty(moments.seen), weights=moments.reward)) if len(moments.seen) else 0.0


def pay_by(pay: Pay, least: float = 0.0) -> Callable[[Recorder], None]:
    """Return what multiplies the positive rewards of a recorder's episodes, as they enter its replay. Each network is a group.

    Rewards are measured from `least`, at most 0: a reward above that is multiplied down to it at most.
    """

    def attach(recorder: Recorder) -> None:
        replay = recorder.replay

        def tell(over: np.ndarray, ring: np.ndarray, slot: np.ndarray) -> None:
            inside = np.arange(replay.limit + 1) < replay.length[ring, slot][:, None]
            episode, step = np.nonzero((replay.reward[ring, slot] > least) & inside)
            if len(episode):
                at = ring[episode], slot[episode], step
                factor = pay(ring[episode], replay.obs[at].reshape(len(step), -1))
                replay.reward[at] = least + (replay.reward[at] - least) * factor.astype(np.float32)

        recorder.when_over.append(tell)

    return attach


def choose_new(
    known: Sequence[Moments],
    candidates: Sequence[Moments],
    good: Sequence[bool],
    alike: np.ndarray,
    others: np.ndarray,
    seed: int,
    device: torch.device,
) -> tuple[list[int], list[float]]:
    """Return the candidates whose behaviour is new, the newest first; and each one's novelty before anything was chosen.

    Only `good` candidates are chosen. One that does what an earlier choice does is not new any more. Nor is one that plays well
    with an earlier choice: `alike`, (C,C) bool. `others` are steps of random teams.
    """
    chosen: list[int] = []
    first: list[float] = []
    while True:
        seen = [own for own in [*known, *(candidates[k] for k in chosen)] if len(own.seen)]
        judge = Classifier(seen, others, seed, device) if seen else None
        found = [judge.novelty_of(own) if judge else float(len(own.seen) > 0) for own in candidates]
        first = first or found
        able = [k for k in range(len(candidates)) if good[k] and k not in chosen and found[k] >= NEW]
        able = [k for k in able if not any(alike[k, other] for other in chosen)]
        if not able:
            return chosen, first
        chosen.append(max(able, key=lambda k: (found[k], -k)))
