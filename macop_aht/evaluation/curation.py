"""Groups from finished runs into the zoo: cards, near-duplicates out, splits kept apart; and every figure on a card recomputed.

Figures come from the files as they lie in the zoo, through onnxruntime, so that whoever has the zoo can check them.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

import numpy as np

from macop_aht import zoo
from macop_aht.episodes.matches import play
from macop_aht.onnx_format import write
from macop_aht.policies.onnx import OnnxPolicy
from macop_aht.policies.protocol import Decision
from macop_aht.scenarios import build
from macop_aht.scenarios.spec import World
from macop_aht.zoo import graphs
from macop_aht.zoo.cards import INDEX, Card, Split, generator_of, read_index, write_index

EPISODES = 100  # of self-play, behind the figures on a card
SEED = 77_000  # of these episodes
TRIAL_SEED = 78_000  # of those by which responders are chosen
ALIKE = 0.95  # near-duplicates get this share of their self-play from each other,
AGREE = 0.9  # and act the same in this share of steps
TOLERANCE = 0.05  # of a figure that is recomputed on another machine, as a share of it
ABOUT = "Teammate groups of this scenario. best_response is what the responder gets with it: the group that does best with it."


@dataclass(frozen=True)
class Found:
    """A group in a run."""

    origin: str
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
    return Run(run.scenario, generator, run.seed, run.settings_hash, groups)


# --- Adding


def add(
    folder: Path,
    target: Path,
    split: Split,
    most: int | None = None,
    least: float = 0.0,
    instead: bool = False,
) -> list[Card]:
    """Put a run's groups into a zoo, those with a self-play of at least `least`, at most `most` of them; gives the new cards.

    With `instead`, what the zoo has of this generator and seed gives way, and so do the names. Where there is nothing to add,
    nothing changes.
    """
    if not least >= 0:
        raise ValueError(f"least is {least}; it must be at least 0")
    run = read_run(folder)
    own = target / run.scenario
    before = read_index(own) if (own / INDEX).exists() else {}
    gone = {
        name for name, card in before.items() if instead and (card.generator, card.seed) == (run.generator, run.seed)
    }
    cards = {name: card for name, card in before.items() if name not in gone}
    _keep_apart(run, split, cards)
    world = build(run.scenario)
    candidates = [_candidate(run, group, world, target) for group in run.groups]
    candidates = [candidate for candidate in candidates if candidate.card.self_play >= least]
    present = {name: _load(card, target) for name, card in cards.items()}  # of whatever generator and split
    kept = without_duplicates(world, candidates, [*present.values()])[:most]
    names = (name for name in (f"{run.generator}/{k}" for k in count()) if name not in cards)
    added = {}
    for candidate, name in zip(kept, names, strict=False):
        card = replace(candidate.card, name=name, responder=name, file=name.replace("/", "-") + ".onnx", split=split)
        added[name] = replace(candidate, card=card)
    if not added:
        return []
    orphans = [name for name, card in cards.items() if card.responder in gone]
    cards = with_responders(world, {**present, **added}, [*added, *orphans])
    own.mkdir(parents=True, exist_ok=True)
    for candidate in added.values():
        (own / candidate.card.file).write_bytes(candidate.content)
    write_index(own, cards, ABOUT)
    for name in gone - {*cards}:
        (own / before[name].file).unlink()
    return [cards[name] for name in added]


def _keep_apart(run: Run, split: Split, cards: dict[str, Card]) -> None:
    """A run's groups go into the zoo once, and no seed of a generator is in the test split and another."""
    siblings = [card for card in cards.values() if (card.generator, card.seed) == (run.generator, run.seed)]
    if any(card.config_hash == run.config_hash for card in siblings):
        raise ValueError(
            f"the groups of this run ({run.generator}, seed {run.seed}) are in the zoo already; --replace takes those out first"
        )
    if any((card.split == "test") != (split == "test") for card in siblings):
        raise ValueError(
            f"groups of {run.generator}, seed {run.seed}, are in the split {siblings[0].split!r}; test groups must come from "
            "other seeds than the rest. Use another split or another run"
        )


@dataclass(frozen=True)
class Candidate:
    """A group with its file and its card, ready for the zoo."""

    card: Card
    content: bytes
    policy: OnnxPolicy


def _candidate(run: Run, group: Found, world: World, target: Path) -> Candidate:
    """The file in half precision where no action changes by it, and the figures of its card."""
    sizes = (len(world.actions), world.n_agents)
    single, half = (write(graphs.group_graph(group.weights, *sizes, half=narrow)) for narrow in (False, True))
    place = target / run.scenario / "candidate.onnx"
    policies = [OnnxPolicy(place, world, content, name="candidate") for content in (single, half)]
    same = agreement(world, policies[0], policies[1]) == 1.0
    content, policy = (half, policies[1]) if same else (single, policies[0])
    self_play, tags = figures(world, policy)
    name = f"{run.generator}/0"
    card = Card(
        name, run.scenario, run.generator, run.seed, group.origin, run.config_hash, "candidate.onnx",
        hashlib.sha256(content).hexdigest(), "half" if same else "single", self_play, self_play, name, tags,
    )  # fmt: skip
    return Candidate(card, content, policy)


def _load(card: Card, target: Path) -> Candidate:
    """One that is in the zoo, checked as everybody checks it."""
    return Candidate(card, b"", _renamed(zoo.load(card.scenario, card.name, target)))


def figures(world: World, policy: OnnxPolicy) -> tuple[float, list[str]]:
    """The self-play return of a group, and what it does, the most frequent first."""
    played = play(world, _renamed(policy), [_renamed(policy)], EPISODES, SEED)
    deeds = Counter(outcome for outcome in played.outcomes[0].tolist() if outcome)
    return round(float(played.returns.mean()), 4), [
        deed for deed, count in deeds.most_common(3) if count >= EPISODES // 10
    ]


def _renamed(policy: OnnxPolicy) -> OnnxPolicy:
    """Episodes depend on the teammate's name; a card's figures should not."""
    policy.name = "candidate"
    return policy


def agreement(world: World, one: OnnxPolicy, two: OnnxPolicy) -> float:
    """The share of decisions in the self-play of `one` in which `two`, with the same history, would decide the same."""
    witness = _Witness(one, two)
    play(world, witness, [witness], EPISODES // 4, SEED)
    return witness.same / max(witness.decisions, 1)


class _Witness:
    """Plays as one policy does, and counts when another would do the same."""

    draws = 0

    def __init__(self, one: OnnxPolicy, two: OnnxPolicy) -> None:
        self.name, self.memory_size = "candidate", one.memory_size + two.memory_size
        self._one, self._two, self.same, self.decisions = one, two, 0, 0

    def act(
        self,
        obs: np.ndarray,
        mask: np.ndarray,
        agent: np.ndarray,
        last_action: np.ndarray,
        memory: np.ndarray,
        draws: np.ndarray,
    ) -> Decision:
        width = self._one.memory_size
        action, first = self._one.act(obs, mask, agent, last_action, memory[:, :width], draws)
        other, second = self._two.act(obs, mask, agent, last_action, memory[:, width:], draws)
        self.same, self.decisions = self.same + int((action == other).sum()), self.decisions + len(action)
        return action, np.concatenate([first, second], axis=1)


def without_duplicates(world: World, candidates: Sequence[Candidate], present: Sequence[Candidate]) -> list[Candidate]:
    """Those that are not nearly the same as one before: the same deed, good cross-play both ways, the same decisions."""
    kept: list[Candidate] = []
    for candidate in sorted(candidates, key=lambda candidate: -candidate.card.self_play):
        if not any(_alike(world, candidate, other) for other in [*present, *kept]):
            kept.append(candidate)
    order = {id(candidate): k for k, candidate in enumerate(candidates)}
    return sorted(kept, key=lambda candidate: order[id(candidate)])


def _alike(world: World, one: Candidate, two: Candidate) -> bool:
    if one.card.tags[:1] != two.card.tags[:1]:
        return False
    if min(agreement(world, one.policy, two.policy), agreement(world, two.policy, one.policy)) < AGREE:
        return False
    own = min(one.card.self_play, two.card.self_play)
    ways = (one.policy, two.policy), (two.policy, one.policy)
    return all(play(world, ego, [mate], EPISODES // 4, SEED).returns.mean() >= ALIKE * own for ego, mate in ways)


# --- Best responses


def with_responders(world: World, groups: Mapping[str, Candidate], new: Collection[str]) -> dict[str, Card]:
    """The cards with the best responder of each group among all of them; old groups try only the new ones.

    Chosen by other episodes than those behind the figure: the best of many by luck would not be the best again.
    """
    trials: dict[str, dict[str, float]] = {name: {} for name in groups}
    for name, candidate in groups.items():
        mates = [mate for mate, other in groups.items() if {name, mate} & {*new} or name == other.card.responder]
        policies = [groups[mate].policy for mate in mates]
        means = play(world, candidate.policy, policies, EPISODES, TRIAL_SEED).returns.mean(axis=1) if mates else ()
        for mate, mean in zip(mates, means, strict=True):
            trials[mate][name] = float(mean)
    return {name: _answered(world, groups, name, trials[name]) for name in groups}


def _answered(world: World, groups: Mapping[str, Candidate], name: str, tried: Mapping[str, float]) -> Card:
    """A card with whoever did best in the trial; with the group itself, unless that one really gets more."""
    card, best = groups[name].card, max(tried, key=lambda responder: (tried[responder], responder == name))
    result = response(world, groups[best].policy, groups[name].policy)
    if result <= card.self_play:
        best, result = name, card.self_play
    return replace(card, best_response=result, responder=best)


def response(world: World, responder: OnnxPolicy, group: OnnxPolicy) -> float:
    """What a group gets with another in the ego's seats."""
    return round(float(play(world, _renamed(responder), [_renamed(group)], EPISODES, SEED).returns.mean()), 4)


# --- Verifying


def verify(target: Path, scenarios: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """For every group: scenario, name, and what is wrong with it, or "" for nothing.

    The file is checked, all figures are recomputed; the best response, by the responder that the card names.
    """
    for scenario in scenarios:
        world = build(scenario)
        for name, card in zoo.cards(scenario, target).items():
            yield scenario, name, _complaint(world, card, target)


def _complaint(world: World, card: Card, target: Path) -> str:
    try:
        group, responder = (zoo.load(card.scenario, name, target) for name in (card.name, card.responder))
        self_play, tags = figures(world, group)
        best = response(world, responder, group)
    except (ValueError, KeyError, OSError) as error:
        return str(error)
    if _off(self_play, card.self_play):
        return f"its self-play is {self_play:.3f}, the card says {card.self_play:.3f}"
    if tags[:1] != card.tags[:1]:
        return f"it does {tags[:1]}, the card says {card.tags[:1]}"
    if _off(best, card.best_response):
        return f"its best response, by {card.responder}, is {best:.3f}, the card says {card.best_response:.3f}"
    if best < self_play and _off(best, self_play):
        return f"its best response, by {card.responder}, is {best:.3f}, less than its self-play, {self_play:.3f}"
    return ""


def _off(one: float, two: float) -> bool:
    return abs(one - two) > TOLERANCE * max(abs(two), 1.0)
