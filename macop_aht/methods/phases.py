"""What the methods' boxes are made of: teams that train, an ego that learns to join groups, returns that decide.

A phase is given a `Setup` and what came out of the phases before, and returns something that a journal can keep.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Generic, Literal, NamedTuple, Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from macop_aht.config import at_least, setting
from macop_aht.episodes import matches
from macop_aht.learner.experience import Experience, environments, self_play
from macop_aht.learner.mixers import MixerName, Qmix, Vdn, make_mixer
from macop_aht.learner.networks import Ego, Heads, Shape, Stack, member, set_member, set_weights, weights
from macop_aht.learner.phase import AnyTraining, Mixers, begin
from macop_aht.learner.seats import Seating, greedy_returns
from macop_aht.learner.training import Progress, TrainingConfig
from macop_aht.learner.update import Losses
from macop_aht.policies.scripted import Random
from macop_aht.runs.records import Decision, PhaseNote
from macop_aht.scenarios.spec import World

BASELINE = 2_000_000  # in the seed of a random team's episodes, behind all iterations
KEPT = (
    1_000  # episodes of an ego with a single group that PPO keeps for later, where Q-learning keeps its replay buffer
)
Watch = Callable[[str, Progress, int], None]  # told the phase, how far it is, its steps in all


class Settings(Protocol):
    """What every method's configuration has."""

    @property
    def test_episodes(self) -> int: ...


Config = TypeVar("Config", bound=Settings, covariant=True)


class Setup(NamedTuple, Generic[Config]):
    """What every phase is given."""

    world: World
    config: Config
    seed: int
    device: torch.device
    watch: Watch | None = None
    stream: tuple[int, ...] = ()  # setups of the same seed and of different streams have independent random numbers

    def phase_seed(self, *path: int) -> int:
        """A seed of its own for every phase, so that a phase can be repeated alone. Zeros at the end of a path change nothing."""
        return int(np.random.SeedSequence([self.seed, *path], spawn_key=self.stream).generate_state(1)[0])


def mixer(setup: Setup[Settings], name: MixerName, population: int, seed: int) -> Vdn | Qmix:
    """Return a fresh mixer for so many networks."""
    world, generator = setup.world, torch.Generator().manual_seed(seed)
    return make_mixer(name, population, world.n_agents, world.state_dim, generator).to(setup.device)


def _mixer_name(has_weights: bool) -> MixerName:
    return "qmix" if has_weights else "vdn"


def run(setup: Setup[Settings], phase: str, training: AnyTraining) -> AnyTraining:
    """Train to the end, and tell whoever watches; return the finished training."""
    while not training.done:
        training.step()
        if setup.watch:
            setup.watch(phase, training.progress, training.steps)
    training.learner.settle()
    return training


# --- Settings that methods share


@dataclass(frozen=True)
class TeammatesConfig:
    """A population that is trained once."""

    population: int = setting(6, "number of groups in the population, at least 1")
    steps: int = setting(
        1_000_000, "number of environment steps to train the population, all groups together, at least 1"
    )
    training: TrainingConfig = field(default_factory=TrainingConfig)

    def __post_init__(self) -> None:
        at_least(self, 1, "population", "steps")


@dataclass(frozen=True)
class EgoConfig:
    """An ego of one head."""

    steps: int = setting(
        1_000_000,
        "number of environment steps to train the ego, with all groups at once or with each of a sequence, at least 1",
    )
    self_play: float = setting(
        0.0, "weight of the ego's self-play in its loss, at least 0; 0: it plays none; the paper's: 1 (deviation 9)"
    )
    training: TrainingConfig = field(default_factory=TrainingConfig)

    def __post_init__(self) -> None:
        at_least(self, 1, "steps")
        at_least(self, 0, "self_play")


def ego_mixer(world: World, training: TrainingConfig) -> MixerName:
    """The mixer of the ego's lessons. The value of a single agent is the team's, and VDN leaves it as it is."""
    return training.mixer if world.controllable > 1 else "vdn"


# --- Groups


class Teams(NamedTuple):
    """Groups, and what mixes their agents' values: both are needed to train on."""

    net: Stack
    mixer: Vdn | Qmix

    @staticmethod
    def fresh(setup: Setup[Settings], population: int, training: TrainingConfig, seed: int) -> Teams:
        """Return groups with random weights."""
        net = Stack(Shape.of(setup.world), population, torch.Generator().manual_seed(seed)).to(setup.device)
        return Teams(net, mixer(setup, training.mixer, population, seed + 1))

    @staticmethod
    def gather(setup: Setup[Settings], members: Sequence[tuple[Teams, int]]) -> Teams:
        """Return copies of members of other teams."""
        mixing = mixer(setup, _mixer_name(isinstance(members[0][0].mixer, Qmix)), len(members), seed=0)
        for place, (source, p) in enumerate(members):
            set_member(mixing, place, member(source.mixer, p))
        return Teams(Stack.gather([(source.net, p) for source, p in members]), mixing)


def train_teams(
    setup: Setup[Settings],
    phase: str,
    teams: Teams,
    experiences: Sequence[Experience],
    training: TrainingConfig,
    steps: int,
    seed: int,
    losses: Losses,
) -> None:
    """Train teams by L_sp, the loss on the first experience, and what a method adds to it."""
    cross = mixer(setup, training.mixer, teams.net.population, seed + 2)
    mixers: Mixers = {"self": teams.mixer, "cross": cross}
    run(setup, phase, begin(setup.world, teams.net, experiences, training, steps, seed, losses, mixers))


@dataclass
class Population:
    """Groups that train together, their names (iteration/number of their making), and how they came about."""

    teams: Teams
    names: list[str]
    decision: Decision

    def arrays(self) -> dict[str, Any]:
        return {"net": weights(self.teams.net), "mixer": weights(self.teams.mixer)}

    def note(self) -> PhaseNote:
        return PhaseNote(self.decision, names=self.names)

    @staticmethod
    def load(setup: Setup[Settings], arrays: dict[str, Any], note: PhaseNote) -> Population:
        names = note.names or []
        count, name = len(names), _mixer_name("mixer" in arrays)
        teams = Teams(Stack(Shape.of(setup.world), count).to(setup.device), mixer(setup, name, count, seed=0))
        set_weights(teams.net, arrays["net"])
        set_weights(teams.mixer, arrays.get("mixer", {}))
        return Population(teams, names, note.decision)


# --- The ego


def join(
    setup: Setup[Settings],
    phase: str,
    net: Stack,
    groups: Stack,
    config: EgoConfig,
    seed: int,
    losses: Losses | None = None,
    demonstrations: float = 0.0,
) -> AnyTraining:
    """Train a network of one member in the ego's seats with groups: L_com, and what a method adds to it.

    Every group has as many environments and as many episodes of a batch as every other. `demonstrations` is the share of
    the groups' self-play in what it learns from. Return the finished training.
    """
    training, world, many = config.training, setup.world, groups.population
    own, pairs = range(world.controllable), np.stack([np.zeros(many, dtype=np.int64), np.arange(many)], axis=1)
    each = environments(training, many)
    seating = Seating.cross_play(net, groups, pairs, each, world.controllable)
    together = _with_groups(seating, np.repeat(np.arange(many), each), many, seed, own)
    experiences = [replace(together, keep=KEPT if many == 1 else 0)]
    if config.self_play:
        alone = self_play(net, training, seed + 1)
        experiences.append(replace(alone, weight=config.self_play, draws=[seed, 2]))
    if demonstrations:
        share = demonstrations / (1 - demonstrations)
        group = np.repeat(np.arange(many), environments(training, many, share))
        shown = _with_groups(Seating.teams(groups, group), group, many, seed + 2, own)
        experiences.append(replace(shown, share=share, demonstration=True))
    names = (training.mixer if config.self_play else "vdn", ego_mixer(world, training))
    mixers: Mixers = {"self": mixer(setup, names[0], 1, seed + 1), "cross": mixer(setup, names[1], 1, seed + 2)}
    return run(setup, phase, begin(world, net, experiences, training, config.steps, seed, losses, mixers))


def _with_groups(seating: Seating, group: np.ndarray, groups: int, seed: int, own: range) -> Experience:
    """Return a lone network's experience in its own seats with groups."""
    return Experience(seating, np.zeros_like(group), seed, own, group, groups, play="cross")


def fresh_ego(setup: Setup[Settings], heads: int, seed: int) -> Ego:
    """Return an ego with random weights."""
    return Ego(Shape.of(setup.world), heads, torch.Generator().manual_seed(seed)).to(setup.device)


def whole(ego: Ego) -> Stack:
    """An ego of one head as a network to train; they share their parts."""
    return Stack.of(ego.shape, ego.backbone, ego.heads)


def numbered(parameters: Iterable[Tensor]) -> dict[str, np.ndarray]:
    """Copies of parameters by their place, for a file."""
    return {str(k): part.detach().cpu().numpy().copy() for k, part in enumerate(parameters)}


def tensors(setup: Setup[Settings], arrays: Mapping[str, np.ndarray]) -> list[Tensor]:
    """The inverse of `numbered`."""
    return [torch.from_numpy(arrays[str(k)]).to(setup.device) for k in range(len(arrays))]


def with_snapshot(memory: Mapping[str, Any], backbone: nn.Module) -> dict[str, Any]:
    """The memory of an ego, and its backbone as it is now behind the earlier ones in it."""
    before = memory.get("snapshots", {})
    return {**memory, "snapshots": {**before, str(len(before)): numbered(backbone.parameters())}}


def snapshots_of(setup: Setup[Settings], memory: Mapping[str, Any]) -> list[list[Tensor]]:
    """The earlier backbones in a memory, the oldest first."""
    before = memory.get("snapshots", {})
    return [tensors(setup, before[str(k)]) for k in range(len(before))]


@dataclass
class Learned:
    """The ego after learning, what its method remembers of the groups before, in arrays, and what was decided."""

    ego: Ego
    decision: Decision = field(default_factory=Decision)
    memory: dict[str, Any] = field(default_factory=dict)

    def arrays(self) -> dict[str, Any]:
        return {"ego": weights(self.ego), **self.memory}

    def note(self) -> PhaseNote:
        return PhaseNote(self.decision, heads=self.ego.n_heads)

    @staticmethod
    def load(setup: Setup[Settings], arrays: dict[str, Any], note: PhaseNote) -> Learned:
        ego = Ego(Shape.of(setup.world), note.heads or 0).to(setup.device)
        set_weights(ego, arrays["ego"])
        memory = {name: kept for name, kept in arrays.items() if name != "ego"}
        return Learned(ego, note.decision, memory)


@dataclass
class Result:
    """What a run ends with."""

    ego: Ego
    names: list[str]  # of all groups that were ever in a population
    groups: Stack
    joined: list[str]  # of those that the ego has met in a lesson; not the newest, where no more had to be learnt
    head: Literal["best", "random"] = "best"  # which of its heads the ego plays with a group


# --- What figures are measured by


def baseline(setup: Setup[Settings]) -> float:
    """Return what decisions measure returns from: 0, or the return of a random team where that is negative (deviation 13)."""
    return min(0.0, _random_return(setup.world, setup.config.test_episodes, setup.phase_seed(BASELINE)))


@lru_cache(maxsize=16)
def _random_return(world: World, episodes: int, seed: int) -> float:
    return float(matches.self_play(world, [Random()], episodes, seed).returns.mean())


def self_play_returns(setup: Setup[Settings], net: Stack, seed: int) -> list[float]:
    """The greedy return of every member with itself, all in the same worlds."""
    episodes = setup.config.test_episodes
    seating = Seating.self_play(net, episodes)
    returns = greedy_returns(setup.world, seating, 1, seed, setup.device, alike=episodes)
    return returns.reshape(net.population, episodes).mean(axis=1).tolist()


def cross_returns(
    setup: Setup[Settings], egos: Ego | Stack, groups: Stack, seed: int, episodes: int | None = None
) -> np.ndarray:
    """The greedy return of every head of an ego, or every member of a stack, in the ego's seats with every group: (K,P).

    All play in the same worlds, so that what is compared differs by who plays. Without `episodes`, as many as the settings say.
    """
    episodes, members = episodes or setup.config.test_episodes, egos.heads.population
    pairs = np.array([(ego, group) for ego in range(members) for group in range(groups.population)])
    seating = Seating.cross_play(egos, groups, pairs, episodes, setup.world.controllable)
    returns = greedy_returns(setup.world, seating, 1, seed, setup.device, alike=episodes)
    return returns.reshape(members, groups.population, episodes).mean(axis=2)


def best_response(setup: Setup[Settings], group: Stack, training: TrainingConfig, steps: int, seed: int) -> float:
    """Return what a fresh ego gets with a group after learning with it alone.

    Whatever the method: without demonstrations, and without self-play of its own.
    """
    ego = fresh_ego(setup, 0, seed)
    head = Heads(ego.shape, 1, torch.Generator().manual_seed(seed + 1)).to(setup.device)
    alone = EgoConfig(steps, training=training)
    join(setup, "best response", Stack.of(ego.shape, ego.backbone, head), group, alone, seed + 1)
    ego.add_head(head)
    return float(cross_returns(setup, ego, group, seed + 2)[0, 0])
