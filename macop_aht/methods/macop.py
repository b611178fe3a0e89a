"""Macop: teammates are generated until the ego is compatible with all new ones; the ego learns to join them, one by one.

The functions are the boxes of the paper's Algorithm 1, in its order. What each decides, it decides by greedy episodes.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

import numpy as np
import torch

from macop_aht.config import at_least, setting, within
from macop_aht.episodes.heads import choose_head, turns
from macop_aht.learner.experience import Experience, Recorder, environments, self_play
from macop_aht.learner.networks import Ego, Heads, Stack
from macop_aht.learner.replay import Replay
from macop_aht.learner.seats import Seating, greedy_returns
from macop_aht.learner.training import TrainingConfig
from macop_aht.methods import distillation, macop_plus, terms
from macop_aht.methods.phases import (
    EgoConfig,
    Learned,
    Population,
    Result,
    Setup,
    Teams,
    baseline,
    cross_returns,
    fresh_ego,
    join,
    self_play_returns,
    snapshots_of,
    train_teams,
    with_snapshot,
)
from macop_aht.methods.rehearsal import state_width
from macop_aht.runs.journal import Journal
from macop_aht.runs.records import Decision


@dataclass(frozen=True)
class MacopConfig:
    """The paper's hyper-parameters, and the choices that it leaves open."""

    population: int = setting(4, "number of groups in a population (n_p), at least 1")
    alpha_div: float = setting(0.1, "weight of the diversity term in the teammates' loss, at least 0")
    alpha_incom: float = setting(
        0.1, "weight of the incompatibility term in the teammates' loss, at least 0 (not used by Macop+)"
    )
    alpha_reg: float = setting(10.0, "weight of the regulariser of the backbone in the ego's loss, at least 0")
    alpha_distil: float = setting(0.0, "weight of the distillation of old heads in the ego's loss, at least 0 (Macop+)")
    kept_episodes: int = setting(1_000, "number of episodes kept for distillation, of all lessons together, at least 1")
    lessons: Literal["all", "needed"] = setting(
        "all",
        "all: a lesson with every group; needed: only where a head with the group's self-play return would be kept (Macop+)",
    )
    test_episodes: int = setting(
        32, "number of greedy episodes per measured return, at least 1; as many others choose the head"
    )
    min_iterations: int = setting(4, "smallest number of iterations (N_min), at least 1")
    max_iterations: int = setting(10, "largest number of iterations (N_max), at least 1")
    expansion_threshold: float = setting(
        0.0, "gain over the best old head, relative to its return, that a new head needs to be kept (lambda)"
    )
    expansion_rule: Literal["above", "reach"] = setting(
        "above", "a new head's gain must be above the threshold (deviation 7), or reach it, as in the paper"
    )
    stop_threshold: float = setting(0.5, "compatibility C at or above which the run stops (xi)")
    teammate_steps: int = setting(
        500_000, "number of environment steps to train a population, all groups together (t_tm), at least 1"
    )
    ego_steps: int = setting(125_000, "number of environment steps to train the ego with one group (t_ego), at least 1")
    incompatibility: Literal["cross-play", "novelty"] = setting(
        "cross-play",
        "what drives mutation: bad cross-play with the ego (Macop), or novel behaviour (Macop+); --method sets it",
    )
    discovery: int = setting(
        0,
        "number of random environment steps before a population is trained, at least 0; what they find is what its groups begin "
        "with; needs PPO that imitates (Macop+)",
    )
    anew: float = setting(
        0.0,
        "share of the offspring that begin with random weights, in 0..1; the others begin as copies of their parents",
    )
    prune: float = setting(
        0.0,
        "at the end, a head is removed if other heads do as well, but for this share of a group's return, in 0..1; 0: all stay "
        "(Macop+)",
    )
    newest_head: float = setting(
        0.5, "probability that the ego plays its newest head in mutation, else any head, in 0..1 (not used by Macop+)"
    )
    diversity_every: int = setting(
        4, "the diversity term uses every N-th episode of a batch, at least 1; the paper's: 1 (deviation 10)"
    )
    demonstrations: float = setting(
        0.0, "share of the group's own self-play in the ego's replay buffer, in 0..0.9 (Macop+)"
    )
    ego_self_play: float = setting(
        0.0, "weight of the ego's self-play in its loss, at least 0; 0: it plays none; the paper's: 1 (deviation 9)"
    )
    regulariser_norm: terms.Norm = setting(
        "squared", "norm of the backbone's distance from a snapshot; the paper's: plain (deviation 6)"
    )
    regulariser_snapshots: Literal["all", "newest"] = setting(
        "all", "snapshots of the backbone that the regulariser uses: all, or only the newest"
    )
    teammates: TrainingConfig = field(default_factory=TrainingConfig)  # the first population
    mutation: TrainingConfig = field(default_factory=TrainingConfig)
    ego: TrainingConfig = field(default_factory=TrainingConfig)

    def __post_init__(self) -> None:
        at_least(
            self, 1, "population", "test_episodes", "min_iterations", "max_iterations", "teammate_steps", "ego_steps",
            "diversity_every", "kept_episodes",
        )  # fmt: skip
        at_least(self, 0, "alpha_div", "alpha_incom", "alpha_reg", "alpha_distil", "ego_self_play", "discovery")
        within(self, 0, 1, "newest_head", "anew", "prune")
        within(self, 0, 0.9, "demonstrations")


# --- Teammates: a population, its mutation, the selection


def first_population(setup: Setup[MacopConfig]) -> Teams:
    """Groups that are good in themselves and different from each other: L_sp + alpha_div L_div."""
    config, seed = setup.config, setup.phase_seed(0)
    teams = Teams.fresh(setup, config.population, config.teammates, seed)
    _train_teammates(setup, "first population", config.teammates, teams, seed)
    return teams


def mutate(
    setup: Setup[MacopConfig], iteration: int, ego: Ego, parents: Teams, known: macop_plus.Known | None = None
) -> Teams:
    """Return the offspring: copies of the parents, or fresh groups, trained with L_tm (Eq. 5) against the ego as it is.

    Macop+ pays them for what is not `known` instead.
    """
    config, phase, seed = setup.config, f"iteration {iteration}: mutation", setup.phase_seed(iteration, 0)
    fresh, anew = Teams.fresh(setup, config.population, config.mutation, seed), round(config.anew * config.population)
    sources = [fresh if k < anew else parents for k in range(config.population)]
    offspring = Teams.gather(setup, [(source, k) for k, source in enumerate(sources)])
    _train_teammates(setup, phase, config.mutation, offspring, seed, ego, known)
    return offspring


def _train_teammates(
    setup: Setup[MacopConfig],
    phase: str,
    training: TrainingConfig,
    teams: Teams,
    seed: int,
    ego: Ego | None = None,
    known: macop_plus.Known | None = None,
) -> None:
    config, net = setup.config, teams.net
    alone, losses = self_play(net, training, seed), {}
    if config.alpha_div:
        losses["diversity"] = (config.alpha_div, terms.diversity(config.diversity_every))
    experiences = [alone]
    if config.incompatibility == "novelty":
        experiences = [macop_plus.novel(setup, alone, training, net.population, known)]
    elif ego is not None and config.alpha_incom:
        experiences.append(_against_ego(setup, ego, net, seed))
    train_teams(setup, phase, teams, experiences, training, config.teammate_steps, seed, losses)


def _against_ego(setup: Setup[MacopConfig], ego: Ego, net: Stack, seed: int) -> Experience:
    """Cross-play of every group with the ego, which draws a head for every episode: L_incom, the team's reward negated.

    It is the experience of the groups' seats.
    """
    world, config, rng = setup.world, setup.config, np.random.default_rng(seed + 1)
    owner = np.repeat(np.arange(net.population), environments(config.mutation))
    seating = Seating.cross_play(ego, net, np.stack([np.zeros_like(owner), owner], axis=1), 1, world.controllable)

    def attach(recorder: Recorder) -> None:
        def draw_heads(over: np.ndarray, *_: np.ndarray) -> None:
            newest = rng.random(over.sum()) < config.newest_head
            anyone = rng.integers(0, ego.n_heads, over.sum())
            recorder.rollout.reseat(over, np.where(newest, ego.n_heads - 1, anyone))

        draw_heads(np.ones(len(owner), dtype=np.bool_))
        recorder.when_over.append(draw_heads)

    return Experience(
        seating, owner, seed + 1, range(world.controllable, world.n_agents), play="cross", weight=config.alpha_incom,
        sign=-1.0, draws=[seed, 2], attach=attach,
    )  # fmt: skip


def select(self_play: Sequence[float], cross_play: Sequence[float]) -> list[int]:
    """Of parents and offspring, 2 n_p in all, the n_p that stay: the worst in themselves go, then the most compatible.

    Among equals in self-play the less compatible stays (deviation 8): where success pays 1, everybody is equal.
    """
    population = len(self_play) // 2
    by_quality = sorted(range(len(self_play)), key=lambda k: (self_play[k], -cross_play[k]))
    left = by_quality[population // 2 :]
    by_compatibility = sorted(left, key=lambda k: (cross_play[k], -self_play[k], k))
    return sorted(by_compatibility[:population])


def compatibility(self_play: Sequence[float], cross_play: Sequence[float]) -> float:
    """C: the worst cross-play with the ego over the mean self-play. Where no group gets anything, 0: no reason to stop."""
    mean = float(np.mean(self_play))
    return min(cross_play) / mean if mean > 0 else 0.0


# --- The ego: continual learning with head expansion


def learn_to_join(
    setup: Setup[MacopConfig], phase: str, ego: Ego, memory: Mapping[str, Any], group: Stack, seed: int
) -> tuple[Heads, Replay]:
    """A fresh head for a group, trained with the backbone by L_com + alpha_reg L_reg (Eq. 8).

    Old heads stay as they are. Return the head, and the episodes of its training.
    """
    config, snapshots = setup.config, snapshots_of(setup, memory)
    head = Heads(ego.shape, 1, torch.Generator().manual_seed(seed)).to(setup.device)
    net, losses = Stack.of(ego.shape, ego.backbone, head), {}
    if config.alpha_reg and snapshots:
        near = snapshots if config.regulariser_snapshots == "all" else snapshots[-1:]
        losses["regulariser"] = (config.alpha_reg, terms.regulariser(near, config.regulariser_norm))
    if config.alpha_distil and snapshots:
        losses["distillation"] = (config.alpha_distil, distillation.loss(setup, ego, memory, config.ego, seed))
    lesson = EgoConfig(config.ego_steps, config.ego_self_play, config.ego)
    training = join(setup, phase, net, group, lesson, seed, losses, config.demonstrations)
    return head, training.replay


class HeadReturns(NamedTuple):
    """An ego's heads with one group: the return of each, and the head that does best in other episodes."""

    returns: list[float]
    chosen: int | None  # None where there is no head yet

    @property
    def best(self) -> float | None:
        """The return of the chosen head. The largest of `returns` would be the luckiest, not the best."""
        return None if self.chosen is None else self.returns[self.chosen]


def measure_heads(setup: Setup[MacopConfig], ego: Ego, group: Stack, path: tuple[int, ...]) -> HeadReturns:
    """Measure every head with a group in some episodes, and choose one in as many others; `path` is that of the lesson's seed."""
    if not ego.n_heads:
        return HeadReturns([], None)
    measured, tried = (cross_returns(setup, ego, group, setup.phase_seed(*path, k))[:, 0] for k in (1, 2))
    return HeadReturns(measured.tolist(), int(tried.argmax()))


def _better(setup: Setup[MacopConfig], new: float, best: float | None) -> bool:
    """Whether a head with the return `new` is kept beside the best old one, by the run's settings."""
    config, worst = setup.config, baseline(setup)
    above = None if best is None else best - worst
    return expands(new - worst, above, config.expansion_threshold, config.expansion_rule)


def expands(new: float, best: float | None, threshold: float, rule: Literal["above", "reach"] = "above") -> bool:
    """Whether a new head is kept: its gain, relative to the best old head, is above the threshold (deviation 7: not at it).

    Where the best old return is not positive, the gain is the difference. Where there is no old head, the new one is kept.
    """
    if best is None:
        return True
    gain = (new - best) / best if best > 0 else new - best
    return gain >= threshold if rule == "reach" else gain > threshold


# --- Testing


def meta_test(setup: Setup[MacopConfig], ego: Ego, group: Stack, seed: int, episodes: int | None = None) -> int:
    """Return the head that the testing phase chooses for a group; without `episodes`, EPISODES_PER_HEAD of each."""
    played = turns(ego.n_heads, episodes)
    pairs = np.stack([played, np.zeros_like(played)], axis=1)
    seating = Seating.cross_play(ego, group, pairs, 1, setup.world.controllable)
    return int(choose_head(greedy_returns(setup.world, seating, 1, seed, setup.device)[:, 0], ego.n_heads))


# --- Algorithm 1


def train(setup: Setup[MacopConfig], journal: Journal) -> Result:
    """From nothing to an ego and the groups that were generated on the way. What the journal holds already is not done again."""
    config = setup.config
    learned = Learned(fresh_ego(setup, 0, setup.phase_seed(0, 2)))
    population = journal.phase("population-00", Population, _begin, setup)
    met: dict[str, tuple[Stack, int]] = {}
    joined: list[str] = []
    for iteration in range(1, config.max_iterations + 1):
        if iteration > 1:
            name = f"population-{iteration:02d}"
            known = Stack.gather(list(met.values()))
            population = journal.phase(name, Population, _next_population, setup, iteration, learned, population, known)
            met |= {group: (population.teams.net, k) for k, group in enumerate(population.names)}
            if iteration >= config.min_iterations and _nothing_new(setup, population.decision):
                break
        met |= {group: (population.teams.net, k) for k, group in enumerate(population.names)}
        joined += [group for group in population.names if group not in joined]
        for k in range(config.population):
            name = f"ego-{iteration:02d}-{k:02d}"
            learned = journal.phase(name, Learned, _continual_learning, setup, iteration, k, learned, population)
    groups = Stack.gather(list(met.values()))
    if config.prune:
        seen = Stack.gather([met[group] for group in joined])
        learned = journal.phase("ego-99-pruned", Learned, macop_plus.prune, setup, learned, seen, config.prune)
    return Result(learned.ego, list(met), groups, joined)


def _begin(setup: Setup[MacopConfig]) -> Population:
    teams, names = first_population(setup), [f"0/{k}" for k in range(setup.config.population)]
    returns = self_play_returns(setup, teams.net, setup.phase_seed(0, 1))
    return Population(teams, names, Decision(groups=names, self_play=returns))


def _nothing_new(setup: Setup[MacopConfig], decision: Decision) -> bool:
    """Whether the ego is compatible with all groups of a selection, and none of them behaves in a new way (Macop+)."""
    compatible = decision.compatibility
    return compatible is not None and compatible >= setup.config.stop_threshold and not decision.new


def _next_population(
    setup: Setup[MacopConfig], iteration: int, learned: Learned, parents: Population, earlier: Stack
) -> Population:
    """Mutation, selection, and the figures that the stopping is decided by; `earlier` are all groups so far."""
    count, by_novelty = setup.config.population, setup.config.incompatibility == "novelty"
    known = macop_plus.Known.of(setup, earlier, setup.config.mutation, (iteration, 1)) if by_novelty else None
    offspring = mutate(setup, iteration, learned.ego, parents.teams, known)
    names = parents.names + [f"{iteration}/{k}" for k in range(count)]
    teams = [(source, k) for source in (parents.teams, offspring) for k in range(count)]
    both, seed = Stack.gather([(source.net, k) for source, k in teams]), setup.phase_seed(iteration, 1)
    self_play = self_play_returns(setup, both, seed)
    heads = cross_returns(setup, learned.ego, both, setup.phase_seed(iteration, 1, 1)).argmax(axis=0)
    cross_play = cross_returns(setup, learned.ego, both, seed)[heads, np.arange(len(names))].tolist()
    worst = baseline(setup)
    alone, crossed = ([value - worst for value in values] for values in (self_play, cross_play))
    if known:
        new, novelty = macop_plus.judge(setup, known, offspring.net, self_play, (iteration, 1))
        chosen = macop_plus.select(alone, crossed, new)
    else:
        new, novelty, chosen = [], None, select(alone, crossed)
    groups = [names[k] for k in chosen]
    decision = Decision(
        novelty=novelty,
        new=[names[k] for k in new] if known else None,
        candidates=names,
        self_play=self_play,
        cross_play=cross_play,
        candidate_heads=heads.tolist(),
        groups=groups,
        compatibility=compatibility([alone[k] for k in chosen], [crossed[k] for k in chosen]),
    )
    return Population(Teams.gather(setup, [teams[k] for k in chosen]), groups, decision)


def _continual_learning(
    setup: Setup[MacopConfig], iteration: int, k: int, before: Learned, population: Population
) -> Learned:
    """The box of that name, with group k."""
    name, group = population.names[k], Stack.gather([(population.teams.net, k)])
    path = (iteration, 2 + k)
    return expand(setup, f"iteration {iteration}: ego with {name}", before, name, group, path)


def expand(
    setup: Setup[MacopConfig], phase: str, before: Learned, name: str, group: Stack, path: tuple[int, ...]
) -> Learned:
    """A fresh head is trained with a group, and kept if it is better than the best old one; `path` is that of the seed."""
    config, seed = setup.config, setup.phase_seed(*path)
    old = measure_heads(setup, before.ego, group, path)
    count = len(old.returns)
    decision = Decision(group=name, old_heads=old.returns, best_head=old.chosen, kept=False, heads=count)
    reachable = np.inf if config.lessons == "all" else self_play_returns(setup, group, setup.phase_seed(*path, 1))[0]
    if not _better(setup, reachable, old.best):
        return _as_before(setup, before, decision, group, seed)
    ego, memory = copy.deepcopy(before.ego), before.memory
    head, episodes = learn_to_join(setup, phase, ego, memory, group, seed)
    if not config.alpha_distil:  # the backbone has moved, and what the old heads say with it
        old = measure_heads(setup, ego, group, path)
    alone = Stack.of(ego.shape, ego.backbone, head)
    new = float(cross_returns(setup, alone, group, setup.phase_seed(*path, 1))[0, 0])
    kept = _better(setup, new, old.best)
    decision = replace(
        decision, old_heads=old.returns, best_head=old.chosen, new_head=new, kept=kept, heads=count + kept
    )
    if not kept and config.alpha_distil:  # the backbone was free to move, and would have moved for nothing
        return _as_before(setup, before, decision, group, seed)
    if not kept:
        return Learned(ego, decision, memory)
    ego.add_head(head)
    memory = with_snapshot(memory, ego.backbone)
    if config.alpha_distil:
        state = state_width(setup.world, config.ego)
        memory = distillation.remember(memory, count, episodes, config.kept_episodes, seed, state)
    return Learned(ego, decision, memory)


def _as_before(setup: Setup[MacopConfig], before: Learned, decision: Decision, group: Stack, seed: int) -> Learned:
    """The ego without a lesson; from now on, its best old head is distilled in episodes with the group."""
    config, memory, best = setup.config, before.memory, decision.best_head
    if config.alpha_distil and best is not None:
        episodes = distillation.played(setup, before.ego, best, group, config.ego, config.kept_episodes, seed)
        state = state_width(setup.world, config.ego)
        memory = distillation.remember(memory, best, episodes, config.kept_episodes, seed, state)
    return Learned(before.ego, decision, memory)


# --- Settings


def steps(config: MacopConfig) -> int:
    """Return the environment steps of a run that stops at its last iteration only."""
    return config.max_iterations * (config.teammate_steps + config.population * config.ego_steps)


def from_preset(preset: MacopConfig, paper: MacopConfig) -> MacopConfig:
    """Return a preset's settings for Macop."""
    return replace(preset, incompatibility="cross-play", discovery=0)


def plus_from_preset(preset: MacopConfig, paper: MacopConfig) -> MacopConfig:
    """Return a preset's settings for Macop+.

    Offspring begin with random weights and are rewarded for novelty. Old heads are distilled, instead of a regulariser on the
    backbone. The ego learns from demonstrations too, and there is no lesson without need. In the end, heads that no group needs
    are removed.

    All of the mutation's episodes are self-play, where half of Macop's are: twice the ratio makes as many updates. Fresh
    offspring need as many updates as the first population.
    """
    mutation = replace(preset.mutation, ratio=min(2 * preset.mutation.ratio, preset.teammates.ratio))
    learner = replace(preset, alpha_reg=0.0, alpha_distil=10.0, demonstrations=0.2, lessons="needed", prune=0.03)
    return replace(learner, incompatibility="novelty", anew=1.0, mutation=mutation)
