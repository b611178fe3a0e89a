"""An ego of one head that learns with group after group: what Finetune, Single Head, EWC and CLEAR have in common.

They differ in their lessons: in what they add to L_com against forgetting, and in what they remember for it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from macop_aht.learner.networks import Stack
from macop_aht.learner.phase import AnyTraining
from macop_aht.methods import phases
from macop_aht.methods.borrowed import Groups, borrow, lessons_of
from macop_aht.methods.macop import MacopConfig
from macop_aht.methods.phases import EgoConfig, Learned, Losses, Result, Setup, cross_returns, fresh_ego, whole
from macop_aht.runs.journal import Journal
from macop_aht.runs.records import Decision


class Sequential(Protocol):
    """What is set in every such method."""

    @property
    def test_episodes(self) -> int: ...
    @property
    def groups(self) -> str: ...
    @property
    def ego(self) -> EgoConfig: ...


class Lesson(NamedTuple):
    """One group, the network that learns to join it, and what its method remembers of the groups before, in arrays."""

    phase: str
    net: Stack
    group: Stack
    memory: dict[str, Any]
    seed: int


Teach = Callable[[Setup[Any], Lesson], dict[str, Any]]  # trains the network; returns the memory for the groups to come


def train(setup: Setup[Sequential], journal: Journal, teach: Teach) -> Result:
    """Learn with all groups of another run, in the order in which its ego has met them; return the ego and the groups."""
    groups = journal.phase("groups", Groups, borrow, setup)
    learned = Learned(fresh_ego(setup, 1, setup.phase_seed(0, 2)))
    for k, name in enumerate(groups.order, start=1):
        learned = journal.phase(f"ego-{k:03d}", Learned, _learn, setup, k, name, learned, groups, teach)
    return Result(learned.ego, groups.names, groups.net, list(dict.fromkeys(groups.order)))


def _learn(setup: Setup[Sequential], k: int, name: str, before: Learned, groups: Groups, teach: Teach) -> Learned:
    """The k-th group of the sequence; then a test with every group, whether met or not."""
    ego, phase = copy.deepcopy(before.ego), f"group {k} of {len(groups.order)}: ego with {name}"
    memory = teach(setup, Lesson(phase, whole(ego), groups[name], before.memory, setup.phase_seed(k)))
    returns = cross_returns(setup, ego, groups.net, setup.phase_seed(k, 1))[0].tolist()
    return Learned(ego, Decision(group=name, returns=returns, heads=1), memory)


def join(setup: Setup[Sequential], lesson: Lesson, losses: Losses | None = None) -> AnyTraining:
    """Train with the lesson's group by L_com, and what is added to it; return the finished training."""
    return phases.join(setup, lesson.phase, lesson.net, lesson.group, setup.config.ego, lesson.seed, losses)


def steps(config: Sequential) -> int:
    """Return the environment steps of a run; of a single lesson where the lender is not there any more."""
    return config.ego.steps * lessons_of(config.groups)


def usual_ego() -> EgoConfig:
    """Return how Macop's ego learns with a group, by the paper's numbers."""
    return EgoConfig(steps=125_000)


def ego_from_preset(preset: MacopConfig) -> EgoConfig:
    """Return how Macop's ego learns with a group, by a preset."""
    return EgoConfig(preset.ego_steps, preset.ego_self_play, preset.ego)
