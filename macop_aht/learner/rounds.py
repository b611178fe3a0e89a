"""A phase of training by PPO: rounds of whole episodes, each of which the networks learn from in a few passes, and forget."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from math import ceil
from typing import Any

import numpy as np
import torch

from macop_aht.episodes.runner import Episodes, Hook, Lockstep, run
from macop_aht.learner.best import Best
from macop_aht.learner.experience import Experience
from macop_aht.learner.networks import Stack
from macop_aht.learner.ppo import Demonstration, Part, PpoLearner, Schedule
from macop_aht.learner.replay import Packed, Replay
from macop_aht.learner.rollout import Rollout
from macop_aht.learner.seats import Exploration
from macop_aht.learner.training import Progress, TrainingConfig, check_loss
from macop_aht.learner.update import Losses
from macop_aht.scenarios.spec import World


class Rounds(Hook):
    """Plays rounds of an experience: an episode in every environment, written into a replay buffer."""

    def __init__(self, world: World, experience: Experience, members: int, device: torch.device) -> None:
        """`members` is the number of networks that learn."""
        ring, rings = experience.ring, members * experience.groups
        self.experience, self.device = experience, device
        self.rollout = Rollout(world, experience.seating, experience.seed, device, begin=False)
        self._order = np.argsort(ring, kind="stable")
        self.each = len(ring) // rings  # episodes of every ring in a round
        told = world.state_dim + world.n_agents * len(world.actions) + self.known().shape[1]
        self.told = 0 if experience.demonstration else told
        capacity = self.each * max(ceil(experience.keep / self.each), 1)
        self.replay = Replay(world, members, capacity, self.told, experience.seats, experience.groups)
        self.when_over: list[Callable[[np.ndarray, np.ndarray, np.ndarray], None]] = []
        explorers = range(world.n_agents) if experience.explorers is None else experience.explorers
        self._sampled = np.isin(np.arange(world.n_agents), explorers)
        self.largest = np.zeros(members)  # size of each network's largest reward so far, before anything multiplies it
        self._ring, self._slot = ring, np.zeros(len(ring), dtype=np.int64)
        self._at: tuple[np.ndarray, ...] = ()
        if experience.attach:
            experience.attach(self)

    def play(self, schedule: Schedule) -> Episodes:
        """Play a round: an episode in each of B environments."""
        self._slot = self.replay.begin(self._ring)
        self.rollout.seats.exploration = self.exploration(schedule)
        found = run(self.rollout.play, [self.rollout.seats], hooks=[self])
        for tell in self.when_over:
            tell(np.ones(len(self._ring), dtype=np.bool_), self._ring, self._slot)
        return found

    @property
    def episodes(self) -> tuple[np.ndarray, np.ndarray]:
        """The rings and slots of the last round's episodes: (B,) (B,)."""
        return self._ring, self._slot

    def exploration(self, schedule: Schedule) -> Exploration:
        """Return how the agents who learn explore in a round."""
        return Exploration(None, 0.0, schedule.together, self._sampled, schedule.sticky)

    def known(self) -> np.ndarray:
        """Return what the critic knows beside the state and the last actions: the group where there are several, (B,G)."""
        group, groups = self.experience.group, self.experience.groups
        if group is None or groups == 1:
            return np.zeros((len(self.experience.member), 0))
        return group[:, None] == np.arange(groups)

    def chosen(self, play: Lockstep, counted: np.ndarray) -> None:
        """Record what the agents see and do."""
        batch, replay = play.batch, self.replay
        self._at = at = (self._ring, self._slot, np.minimum(batch.clock, replay.limit))
        replay.obs[at] = batch.obs[:, replay.seats]
        replay.mask[at] = batch.mask[:, replay.seats]
        replay.action[at] = play.action[:, replay.seats]
        if self.told:
            replay.state[at] = self._tell(play)

    def stepped(self, play: Lockstep, counted: np.ndarray) -> None:
        """Record the reward."""
        reward = play.batch.shaped * counted
        self.replay.reward[self._at] = reward
        np.maximum.at(self.largest, self.experience.member, np.abs(reward))

    def ended(self, play: Lockstep, over: np.ndarray) -> None:
        """Record how long the episodes were."""
        self.replay.end(self._ring[over], self._slot[over], play.batch.clock[over], play.batch.truncated[over])

    def _tell(self, play: Lockstep) -> np.ndarray:
        """Return what the critic is told: the state, everybody's last action, and what it knows."""
        actions, last = np.arange(play.batch.mask.shape[-1]), play.last_action
        acted = (last[..., None] == actions).reshape(len(last), -1)
        return np.concatenate([play.batch.global_state(), acted, self.known()], axis=1)

    def parts(self, count: int, rng: np.random.Generator) -> list[Packed]:
        """Return the round's episodes in so many random parts, each with as many episodes of every ring."""
        rings, groups = len(self.replay.length), self.experience.groups
        slots = rng.permuted(self._slot[self._order].reshape(rings, self.each), axis=1)
        ring = np.arange(rings)[:, None].repeat(self.each, axis=1)
        found = []
        for columns in np.array_split(np.arange(self.each), min(count, self.each)):
            chosen, own = (array[:, columns].reshape(rings // groups, -1) for array in (slots, ring))
            batch = self.replay.pack(chosen, self.device, ring=own)
            found.append(replace(batch, reward=batch.reward * self.experience.sign))
        return found


class PpoTraining:
    """A phase of training by PPO that can be stopped after any round, and resumed."""

    def __init__(
        self,
        world: World,
        config: TrainingConfig,
        net: Stack,
        experiences: Sequence[Experience],
        steps: int,
        seed: int,
        terms: Losses | None = None,
    ) -> None:
        """Set up a phase of `steps` steps, of all networks and experiences together."""
        self.config, self.steps, self.terms, self.progress = config, steps, terms, Progress()
        device = next(net.parameters()).device
        self.rounds = [Rounds(world, experience, net.population, device) for experience in experiences]
        told, generator = [rounds.told for rounds in self.rounds], torch.Generator().manual_seed(seed)
        self.learner = PpoLearner(net, told, config.ppo, config.update.gamma, generator)
        self.replay = self.rounds[0].replay
        self.best = Best(self.replay, config.update.gamma, experiences[0].seeds)
        self._rng = np.random.default_rng([seed, 1])  # which episodes make a part
        self._clock = time.perf_counter()

    @property
    def done(self) -> bool:
        """Whether all steps were taken."""
        return self.progress.steps >= self.steps

    def run(self) -> None:
        """Run to the end."""
        while not self.done:
            self.step()

    def step(self) -> None:
        """Play a round and learn from it."""
        config, net, done = self.config, self.learner.net, min(self.progress.steps / self.steps, 1.0)
        schedule = Schedule.at(done, config.ppo, config.persistence, config.together, net.shape.actions)
        played = [(k, weight) for k in range(len(self.rounds)) if (weight := self._weight(k, done))]
        count = min(config.ppo.parts, *(self.rounds[k].each for k, _ in played))
        parts = {k: self._play(k, schedule, count) for k, _ in played}
        if (imitation := config.ppo.imitation * (1 - done)) and (best := self._best(count)):
            played.append((len(self.rounds), imitation))
            parts[len(self.rounds)] = best
        for _ in range(config.ppo.epochs):
            for at in self._rng.permutation(count):
                losses = self.learner.losses({k: (weight, parts[k][at]) for k, weight in played}, schedule, self.terms)
                self.learner.descend(losses, schedule.learning_rate)
                self.progress.updates += 1
                self.progress.td_loss = float(torch.stack([loss.detach().mean() for loss in losses.values()]).sum())
                check_loss(self.progress)
        now = time.perf_counter()
        self.progress.seconds, self._clock = self.progress.seconds + now - self._clock, now

    def _weight(self, k: int, done: float) -> float:
        """Return the weight of an experience; demonstrations are imitated at the start, while agents explore."""
        experience, exploring = self.rounds[k].experience, self.config.ppo.exploring
        left = max(1 - done / exploring, 0.0) if exploring else 0.0
        return experience.weight * (left if experience.demonstration else 1.0)

    def _play(self, k: int, schedule: Schedule, count: int) -> Sequence[Part | Demonstration]:
        """Play a round of an experience, and return so many parts of it."""
        rounds, progress = self.rounds[k], self.progress
        found = rounds.play(schedule)
        progress.steps += int(found.lengths.sum())
        if k == 0:
            progress.episodes += len(found.returns) / self.learner.net.population
            weight = min(len(found.returns) / 200, 1.0)
            progress.mean_return += (float(found.returns.mean()) - progress.mean_return) * weight
        batches = rounds.parts(count, self._rng)
        if rounds.experience.demonstration:
            return [Demonstration(batch) for batch in batches]
        return self.learner.prepare(k, batches, rounds.largest, schedule.sticky)

    def _best(self, count: int) -> Sequence[Demonstration]:
        """Keep the best episodes of a round of the first experience, and return so many parts of those that are kept."""
        rounds, critic = self.rounds[0], self.learner.critics[0]
        self.best.keep(*rounds.episodes)
        size = ceil(rounds.each / count)
        with torch.no_grad():
            return self.best.parts(
                count, size, lambda batch: critic(batch.state, batch.counts), rounds.largest, rounds.device, self._rng
            )

    def state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return everything that the rest of the training depends on: arrays, and a note for JSON.

        This is for phases with one experience and no terms.
        """
        rollout = self.rounds[0].rollout
        arrays = {
            "learner": self.learner.state_arrays(),
            "rollout": rollout.state_arrays(),
            "largest": self.rounds[0].largest,
        }
        if self.config.ppo.imitation:
            arrays["best"] = self.best.state_arrays()
        generators = {"parts": self._rng, "explore": rollout.rng}
        note = {
            "progress": asdict(self.progress),
            "generators": {name: rng.bit_generator.state for name, rng in generators.items()},
        }
        return arrays, note

    def load_state(self, arrays: Mapping[str, Any], note: Mapping[str, Any]) -> None:
        """Restore what `state` returned."""
        rollout = self.rounds[0].rollout
        self.learner.load_arrays(arrays["learner"])
        rollout.load_arrays(arrays["rollout"])
        self.rounds[0].largest[:] = arrays["largest"]
        if self.config.ppo.imitation:
            self.best.load_arrays(arrays["best"])
        self.progress = Progress.restored(note["progress"])
        self._rng.bit_generator.state = note["generators"]["parts"]
        rollout.rng.bit_generator.state = note["generators"]["explore"]
        self._clock = time.perf_counter()
