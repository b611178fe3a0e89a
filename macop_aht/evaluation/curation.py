"""Groups of finished runs are added to the zoo, and the figures on its cards are verified.

Near-duplicates are left out, and the splits are kept apart. All figures come from the files as they are in the zoo, through
onnxruntime, so that anybody with the zoo can check them.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from math import isnan
from pathlib import Path

import numpy as np

from macop_aht import zoo
from macop_aht.episodes.matches import play
from macop_aht.onnx import write
from macop_aht.policies.onnx import OnnxPolicy
from macop_aht.policies.protocol import Array, Decision
from macop_aht.runs.lock import folder_lock
from macop_aht.scenarios import build, find
from macop_aht.scenarios.spec import World
from macop_aht.zoo import graphs, store
from macop_aht.zoo.cards import INDEX, Card, Split, generator_of

EPISODES = 100  # the number of episodes behind every figure on a card
SEED = 77_000  # of these episodes
TRIAL_SEED = 78_000  # of the episodes that responders are chosen by
ALIKE = 0.95  # near-duplicates have a cross-play of at least this share of their self-play,
AGREE = 0.9  # and act the same in at least this share of steps
TOLERANCE = 0.05  # relative, of a figure that is recomputed on another machine


@dataclass(frozen=True)
class Found:
    """A group in a run."""

    name: str
    weights: dict[str, np.ndarray]


@dataclass(frozen=True)
class Run:
    """What a run folder holds, as far as the zoo is concerned."""

    scenario: str
    generator: str
    seed: int
    config_hash: str
    groups: list[Found]


def read_run(folder: Path) -> Run:
    """Return the groups of a finished run of `macop train` or `macop selfplay`; raise where there is none."""
    from macop_aht.learner.networks import member_weights
    from macop_aht.runs.folder import RunFolder

    run = RunFolder(folder)
    generator = generator_of(run.method)
    run.require_finished()
    groups = [Found(name, member_weights(group, 0)) for name, group in run.generated().items()]
    return Run(find(run.scenario).name, generator, run.seed, run.settings_hash, groups)


# --- Adding


@dataclass(frozen=True)
class Addition:
    """Which groups of a run are added to a zoo, and how."""

    split: Split
    most: int | None = None  # at most so many groups
    least: float | None = None  # the self-play that a group must have
    replace: bool = False  # whether the groups of the same generator and seed are removed, and their names used again

    def __post_init__(self) -> None:
        if self.least is not None and isnan(self.least):
            raise ValueError(f"least is {self.least}; it must be a number")


def add(folder: Path, target: Path, what: Addition) -> list[Card]:
    """Add groups of the finished run in a folder to a zoo; return the new cards.

    Killed at any moment, the zoo is as before or as after. Where there is nothing to add, nothing changes. Raise `LockedError`
    where another process is changing the zoo, and `ValueError` where the groups may not be added.
    """
    run = read_run(folder)
    own = target / run.scenario
    with folder_lock(own, "adding to the zoo"):
        store.clean(own)
        before = store.present(own)
        gone = {
            name
            for name, card in before.items()
            if what.replace and (card.generator, card.seed) == (run.generator, run.seed)
        }
        kept = {name: card for name, card in before.items() if name not in gone}
        _keep_apart(run, what.split, kept)
        cards, added = _with_added(run, kept, gone, target, what)
        if added:
            store.replace_cards(own, cards, {candidate.card.file: candidate.content for candidate in added.values()})
        return [cards[name] for name in added]


def _with_added(
    run: Run, cards: dict[str, Card], gone: Collection[str], target: Path, what: Addition
) -> tuple[dict[str, Card], dict[str, Candidate]]:
    """Return the cards of the zoo with those of the run's groups, and the groups that are new, by name."""
    world = build(run.scenario)
    candidates = [_candidate(run, group, world, target) for group in run.groups]
    if what.least is not None:
        candidates = [candidate for candidate in candidates if candidate.card.self_play >= what.least]
    present = {name: _load(card, target) for name, card in cards.items()}  # of whatever generator and split
    chosen = without_duplicates(world, candidates, [*present.values()])[: what.most]
    names = (name for name in (f"{run.generator}/{k}" for k in count()) if name not in cards)
    added = {}
    for candidate, name in zip(chosen, names, strict=False):
        file = store.file_name(name, candidate.content)
        card = replace(candidate.card, name=name, responder=name, file=file, split=what.split)
        added[name] = replace(candidate, card=card)
    if not added:
        return cards, {}
    orphans = [name for name, card in cards.items() if card.responder in gone]
    return with_responders(world, {**present, **added}, [*added, *orphans]), added


def _keep_apart(run: Run, split: Split, cards: dict[str, Card]) -> None:
    """Raise `ValueError` where the run's groups are in the zoo, or its seed is in both the test split and another."""
    siblings = [card for card in cards.values() if (card.generator, card.seed) == (run.generator, run.seed)]
    if any(card.config_hash == run.config_hash for card in siblings):
        raise ValueError(
            f"the groups of this run ({run.generator}, seed {run.seed}) are in the zoo already; give --replace to replace them"
        )
    if any((card.split == "test") != (split == "test") for card in siblings):
        raise ValueError(
            f"groups of {run.generator}, seed {run.seed}, are in the split {siblings[0].split!r}; test groups must come from "
            "other seeds than the rest. Use another split or another run"
        )


@dataclass(frozen=True)
class Candidate:
    """A group with its card and the content of its file."""

    card: Card
    content: bytes
    policy: OnnxPolicy


def _candidate(run: Run, group: Found, world: World, target: Path) -> Candidate:
    """Return a group with its file, in half precision unless that changes an action, and the figures of its card."""
    sizes = (len(world.actions), world.n_agents)
    single, half = (write(graphs.group_graph(group.weights, *sizes, half=narrow)) for narrow in (False, True))
    place = target / run.scenario / "candidate.onnx"
    policies = [OnnxPolicy(place, world, content, name="candidate") for content in (single, half)]
    same = agreement(world, policies[0], policies[1]) == 1.0
    content, policy = (half, policies[1]) if same else (single, policies[0])
    self_play, outcomes = figures(world, policy)
    name = f"{run.generator}/0"
    card = Card(
        name, run.scenario, run.generator, run.seed, group.name, run.config_hash, "candidate.onnx",
        hashlib.sha256(content).hexdigest(), "half" if same else "single", self_play, self_play, name, outcomes,
    )  # fmt: skip
    return Candidate(card, content, policy)


def _load(card: Card, target: Path) -> Candidate:
    """Return a group of the zoo, checked as `zoo.load` checks it."""
    return Candidate(card, b"", _renamed(zoo.load(card.scenario, card.name, target)))


def figures(world: World, policy: OnnxPolicy) -> tuple[float, list[str]]:
    """Return the self-play return of a group, and its outcomes, the most frequent first."""
    played = play(world, _renamed(policy), [_renamed(policy)], EPISODES, SEED)
    outcomes = Counter(outcome for outcome in played.outcomes[0].tolist() if outcome)
    return round(float(played.returns.mean()), 4), [
        outcome for outcome, number in outcomes.most_common(3) if number >= EPISODES // 10
    ]


def _renamed(policy: OnnxPolicy) -> OnnxPolicy:
    """Give a group the name that all have here: episodes depend on it, and a card's figures should not."""
    policy.name = "candidate"
    return policy


def agreement(world: World, one: OnnxPolicy, two: OnnxPolicy) -> float:
    """Return the share of decisions in the self-play of `one` in which `two`, with the same history, decides the same."""
    witness = _Witness(one, two)
    play(world, witness, [witness], EPISODES // 4, SEED)
    return witness.same / max(witness.decisions, 1)


class _Witness:
    """Plays as one policy, and counts how often another would act the same."""

    draws = 0

    def __init__(self, one: OnnxPolicy, two: OnnxPolicy) -> None:
        self.name, self.memory_size = "candidate", one.memory_size + two.memory_size
        self._one, self._two, self.same, self.decisions = one, two, 0, 0

    def act(self, obs: Array, mask: Array, agent: Array, last_action: Array, memory: Array, draws: Array) -> Decision:
        width = self._one.memory_size
        action, first = self._one.act(obs, mask, agent, last_action, memory[:, :width], draws)
        other, second = self._two.act(obs, mask, agent, last_action, memory[:, width:], draws)
        self.same, self.decisions = self.same + int((action == other).sum()), self.decisions + len(action)
        return action, np.concatenate([first, second], axis=1)


def without_duplicates(world: World, candidates: Sequence[Candidate], present: Sequence[Candidate]) -> list[Candidate]:
    """Return the candidates without near-duplicates: the same outcome, good cross-play both ways, the same decisions."""
    kept: list[Candidate] = []
    for candidate in sorted(candidates, key=lambda candidate: -candidate.card.self_play):
        if not any(_alike(world, candidate, other) for other in [*present, *kept]):
            kept.append(candidate)
    order = {id(candidate): k for k, candidate in enumerate(candidates)}
    return sorted(kept, key=lambda candidate: order[id(candidate)])


def _alike(world: World, one: Candidate, two: Candidate) -> bool:
    if one.card.outcomes[:1] != two.card.outcomes[:1]:
        return False
    if min(agreement(world, one.policy, two.policy), agreement(world, two.policy, one.policy)) < AGREE:
        return False
    own = min(one.card.self_play, two.card.self_play)
    enough = min(ALIKE * own, own / ALIKE)  # which of them is smaller depends on the sign
    ways = (one.policy, two.policy), (two.policy, one.policy)
    return all(play(world, ego, [teammate], EPISODES // 4, SEED).returns.mean() >= enough for ego, teammate in ways)


# --- Best responses


def with_responders(world: World, groups: Mapping[str, Candidate], new: Collection[str]) -> dict[str, Card]:
    """Return the cards with the best responder of each group among all; groups that are not `new` try only the new ones.

    Responders are chosen by other episodes than those behind the figure, so that the figure is not biased by the choice.
    """
    trials: dict[str, dict[str, float]] = {name: {} for name in groups}
    for name, candidate in groups.items():
        teammates = [own for own, other in groups.items() if {name, own} & {*new} or name == other.card.responder]
        policies = [groups[teammate].policy for teammate in teammates]
        means = play(world, candidate.policy, policies, EPISODES, TRIAL_SEED).returns.mean(axis=1) if teammates else ()
        for teammate, mean in zip(teammates, means, strict=True):
            trials[teammate][name] = float(mean)
    return {name: _answered(world, groups, name, trials[name]) for name in groups}


def _answered(world: World, groups: Mapping[str, Candidate], name: str, tried: Mapping[str, float]) -> Card:
    """Return a card with the responder that did best in the trial, or with the group itself where that does not do better."""
    card, best = groups[name].card, max(tried, key=lambda responder: (tried[responder], responder == name))
    result = response(world, groups[best].policy, groups[name].policy)
    if result <= card.self_play:
        best, result = name, card.self_play
    return replace(card, best_response=result, responder=best)


def response(world: World, responder: OnnxPolicy, group: OnnxPolicy) -> float:
    """Return the mean return of a group with another one, the responder, in the ego's seats."""
    return round(float(play(world, _renamed(responder), [_renamed(group)], EPISODES, SEED).returns.mean()), 4)


# --- Verifying


def verify(target: Path, scenarios: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """Give for every group: scenario, name, and what is wrong with its card, "" for nothing.

    The file is checked and all figures are recomputed, the best response with the responder that the card names. Where the
    scenario is unknown or its index cannot be read, that is told in place of its groups.
    """
    for scenario in scenarios:
        try:
            cards = zoo.cards(scenario, target)
        except (ValueError, KeyError, OSError) as error:
            yield scenario, INDEX, str(error.args[0] if isinstance(error, KeyError) else error)
            continue
        world = build(scenario)
        for name, card in cards.items():
            yield scenario, name, _complaint(world, card, target)


def _complaint(world: World, card: Card, target: Path) -> str:
    try:
        group, responder = (zoo.load(card.scenario, name, target) for name in (card.name, card.responder))
        self_play, outcomes = figures(world, group)
        best = response(world, responder, group)
    except (ValueError, KeyError, OSError) as error:
        return str(error.args[0] if isinstance(error, KeyError) else error)
    if _off(self_play, card.self_play):
        return f"its self-play is {self_play:.3f}, the card says {card.self_play:.3f}"
    if outcomes[:1] != card.outcomes[:1]:
        return f"its outcome is {outcomes[:1]}, the card says {card.outcomes[:1]}"
    if _off(best, card.best_response):
        return f"its best response, by {card.responder}, is {best:.3f}, the card says {card.best_response:.3f}"
    if best < self_play and _off(best, self_play):
        return f"its best response, by {card.responder}, is {best:.3f}, less than its self-play, {self_play:.3f}"
    return ""


def _off(one: float, two: float) -> bool:
    return abs(one - two) > TOLERANCE * max(abs(two), 1.0)
