"""What `macop check` finds out about an environment, by playing it at random."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from macop_aht.scenarios.batch import make_batch
from macop_aht.scenarios.external.errors import ExternalError
from macop_aht.scenarios.external.workers import sendable
from macop_aht.scenarios.spec import Family, World

EPISODES = 8
Verdict = Literal["yes", "no", "note"]


@dataclass(frozen=True)
class Finding:
    """What was found: whether something can be used as it is, and a sentence that says what is missing."""

    verdict: Verdict
    what: str


@dataclass
class Played:
    """Some random episodes."""

    seen: list[np.ndarray]  # of every step, everything that is observed
    returns: list[float]
    lengths: list[int]
    rewards: set[float]
    terminated: int = 0
    seconds: float = 0.0


def check(family: Family) -> Iterator[Finding]:
    """Give what is found about an environment, one after the other. Ends with the first thing that cannot be used."""
    try:
        world = family.build()
    except (ExternalError, TypeError, ValueError) as error:
        yield Finding("no", str(error))
        return
    yield from _sizes(world)
    try:
        first, again = _play(world, EPISODES), _play(world, EPISODES)  # the second time in environments that were used
    except Exception as error:
        told = str(error) if isinstance(error, ExternalError) else f"{type(error).__name__} while playing: {error}"
        yield Finding("no", told)
        return
    yield from _figures(world, first)
    yield _determinism(first, again)
    yield _workers(world)
    yield _pictures(world)


def _sizes(world: World) -> Iterator[Finding]:
    teammates = world.n_agents - world.controllable
    yield Finding("yes", f"{world.n_agents} agents: {world.controllable} of the ego, {teammates} played by teammates")
    yield Finding("yes", f"{len(world.observations)} observation entries, {len(world.actions)} actions")
    own = "of its own" if world.state_bounds else "made of all observations"
    yield Finding(
        "yes", f"a global state of {world.state_dim} entries, {own}; episodes are cut after {world.limit} steps"
    )
    if not world.scripts:
        yield Finding("note", "no scripted teammates: External(scripts={…}) has them, for evaluations and as a default")


def _play(world: World, episodes: int) -> Played:
    """Play random episodes one after the other; always the same, where the environment is deterministic."""
    batch, rng, found = make_batch(world, 1), np.random.default_rng(0), Played([], [], [], set())
    started = time.perf_counter()
    for episode in range(episodes):
        batch.seed([episode // 2])  # every second episode is the one before again
        batch.reset()
        found.seen.append(batch.obs.copy())
        while not (batch.terminated[0] or batch.truncated[0]) or batch.clock[0] == 0:
            chosen = [rng.choice(np.flatnonzero(mask)) for mask in batch.mask[0]]
            batch.step(np.array([chosen]))
            found.seen.append(batch.obs.copy())
            found.rewards.add(float(batch.reward[0]))
        found.terminated += int(batch.terminated[0])
        found.returns.append(float(batch.score[0]))
        found.lengths.append(int(batch.clock[0]))
    found.seconds = time.perf_counter() - started
    return found


def _figures(world: World, played: Played) -> Iterator[Finding]:
    low, high, mean = min(played.returns), max(played.returns), float(np.mean(played.returns))
    yield Finding("yes", f"random teams return {low:.2f} to {high:.2f}, {mean:.2f} on average")
    if played.rewards == {0.0}:
        yield Finding("note", "random teams are never rewarded: External(shaping=…) helps learning where that stays so")
    steps = np.mean(played.lengths)
    ends = f"{played.terminated} of {len(played.lengths)} end by themselves"
    yield Finding("yes", f"their episodes have {steps:.0f} steps on average; {ends}, the others at the limit")
    rate = sum(played.lengths) / played.seconds
    yield Finding("yes", f"{rate:.0f} steps per second in one process, one environment at a time")


def _determinism(first: Played, again: Played) -> Finding:
    same = len(first.seen) == len(again.seen) and first.returns == again.returns
    if same and all(np.array_equal(one, two) for one, two in zip(first.seen, again.seen, strict=True)):
        return Finding(
            "yes", "deterministic: the same seed and actions give the same episode, so that killed runs are resumed"
        )
    return Finding(
        "note",
        "not deterministic: the same seed and actions gave another episode. A run of train is resumed at its last phase, and "
        "selfplay begins unfinished episodes anew, so that weights differ from those of a run that was not killed. Draw all "
        "random numbers from a generator that reset(seed=…) makes; of StarCraft's SMAC, let make take the seed",
    )


def _workers(world: World) -> Finding:
    pool: Any = getattr(world.make_batch, "args", (None,))[0]
    if pool is None:
        return Finding("note", "one of the suite's own worlds, which needs no --workers")
    try:
        sendable(pool.recipe)
    except ExternalError as error:
        return Finding("note", f"--workers cannot be used: {error}")
    return Finding("yes", "--workers can be used")


def _pictures(world: World) -> Finding:
    batch = make_batch(world, 1)
    batch.reset()
    try:
        picture = world.scene(batch.state, 0).picture
    except Exception as error:  # whatever goes wrong there, nothing else needs pictures
        return Finding("note", f"no pictures: {error}")
    if picture is None:
        return Finding("yes", "pictures are drawn by the suite")
    height, width, _ = picture.shape
    return Finding("yes", f"pictures of {width} by {height} pixels")
