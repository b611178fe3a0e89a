"""How good an agent is with teammates that it has not met: result rows, and a table by tier."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from macop_aht import zoo
from macop_aht.config import LARGEST
from macop_aht.episodes.matches import BATCH, Ego, play
from macop_aht.episodes.runner import Episodes
from macop_aht.evaluation.bundles import Bundle
from macop_aht.evaluation.recordings import PERSON, person_rows
from macop_aht.evaluation.rows import Row, episode_rows
from macop_aht.evaluation.statistics import Estimate, bootstrap, caveat, signed_rank, worst_decile
from macop_aht.paths import commit
from macop_aht.policies import resolve
from macop_aht.policies.protocol import Policy
from macop_aht.scenarios import build
from macop_aht.scenarios.spec import require, whole
from macop_aht.zoo.cards import method_of

KNOWN = ("scripted:", "zoo:", "random")  # names that stand for one policy only
TIERS = ("seen", "unseen", "unseen generator", "scripted", "person", "other")


@dataclass(frozen=True)
class Agent:
    """An agent, and the seed of the run that it comes from."""

    name: str
    player: Ego | Bundle
    seed: int = 0
    method: str = ""  # that has trained it, where that is known
    learner: str = ""  # of that method: q or ppo


def evaluate(
    agent: Agent,
    scenario: str,
    teammates: Sequence[str],
    episodes: int,
    seen: Sequence[str] = (),
    seed: int = 0,
    size: int = BATCH,
) -> list[Row]:
    """Return a row per episode with every teammate that the specs name; `seen` are specs of those it was trained with.

    A spec `person:FILE` names no teammate to play with: the recorded episodes of the bundle with a person are returned.

    Raises `ValueError` where there are no teammates or episodes.
    """
    whole("episodes", episodes, 1)
    whole("seed", seed, 0, LARGEST)
    require(len(teammates) > 0, "there are no teammates; give at least one, such as 'scripted'")
    world = build(scenario)
    persons = [spec for spec in teammates if str(spec).startswith(f"{PERSON}:")]
    teammates = [spec for spec in teammates if spec not in persons]
    known: dict[str, Policy] = {}
    for teammate in (teammate for spec in teammates for teammate in resolve(spec, world, scenario)):
        if teammate.name in known and known[teammate.name] is not teammate and not teammate.name.startswith(KNOWN):
            raise ValueError(f"two teammates are called {teammate.name!r}; rename one of the files")
        known[teammate.name] = teammate
    met = {teammate.name for spec in seen for teammate in resolve(spec, world, scenario)}
    cards = _cards(scenario, [*known, *met, agent.name])
    familiar = {cards[_plain(name)].generator for name in [*met, agent.name] if _plain(name) in cards}
    if isinstance(agent.player, Bundle):
        own = agent.player.met
        met |= {name for name, card in cards.items() if card.sha256 in own}
        familiar.add(agent.player.generator)
    tiers = {
        name: "seen" if name in met or name == agent.name else _tier(name, cards.get(_plain(name)), familiar)
        for name in known
    }

    generators = {name: method_of(cards[_plain(name)].generator) if _plain(name) in cards else "" for name in known}
    common = Row(
        method=agent.method or agent.name, learner=agent.learner, seed=agent.seed, scenario=scenario, teammate="", tier="",
        stage="", commit=commit(),
    )  # fmt: skip

    def rows(stage: str, played: Episodes) -> list[Row]:
        return [
            row
            for k, name in enumerate(known)
            for row in episode_rows(
                replace(common, teammate=name, generator=generators[name], tier=tiers[name], stage=stage), played, k
            )
        ]

    everyone = list(known.values())
    recorded = [row for spec in persons for row in person_rows(spec, _bundle(agent, spec).manifest, common)]
    if not everyone:
        return recorded
    if not isinstance(agent.player, Bundle):
        return rows("test", play(world, agent.player, everyone, episodes, seed, size))
    choosing, chosen = agent.player.meet(world, everyone, seed)
    return rows("selection", choosing) + rows("test", play(world, chosen, everyone, episodes, seed, size)) + recorded


def _bundle(agent: Agent, spec: str) -> Bundle:
    if not isinstance(agent.player, Bundle):
        raise ValueError(f"{spec} holds episodes of bundles; {agent.name} is none, so evaluate it with other teammates")
    return agent.player


def _plain(name: str) -> str:
    """A teammate's name without its perturbations."""
    return name.split("+")[0]


def _cards(scenario: str, names: Sequence[str]) -> dict[str, zoo.Card]:
    """The cards of those teammates that are from the zoo, by the teammate's name."""
    wanted = {_plain(name) for name in names if name.startswith("zoo:")}
    return (
        {f"zoo:{name}": card for name, card in zoo.cards(scenario).items() if f"zoo:{name}" in wanted} if wanted else {}
    )


def _tier(name: str, card: zoo.Card | None, familiar: set[str]) -> str:
    """`familiar` are the generators of the groups that the agent was trained with."""
    if card is None:
        return "scripted" if name.startswith("scripted:") else "other"
    return "unseen" if card.generator in familiar else "unseen generator"


@dataclass(frozen=True)
class Line:
    """A tier in the table."""

    tier: str
    teammates: int
    episodes: int
    mean: float  # over the teammates
    result: Estimate  # the interquartile mean over them
    normalised: Estimate | None  # over the teammates' best responses, where these are known
    worst: float  # mean return of the worst tenth of the teammates


def lines(rows: Sequence[Row], seed: int = 0) -> list[Line]:
    """Return the table, a line per tier. Intervals resample seeds and teammates, then episodes."""
    scenarios = sorted({row.scenario for row in rows})
    if len(scenarios) > 1:
        raise ValueError(f"the rows are of {', '.join(scenarios)}; a table is of one scenario")
    found = []
    for tier in TIERS:
        own = [row for row in rows if row.tier == tier and row.stage == "test"]
        if not own:
            continue
        best = _best_responses(own)
        scaled = _episodes([row for row in own if row.teammate in best], best)
        rng = np.random.default_rng(seed)
        means = [float(np.mean(results)) for results in _by_teammate(own).values()]
        found.append(
            Line(
                tier,
                len(means),
                len(own),
                float(np.mean(means)),
                bootstrap(_episodes(own, {}), rng),
                bootstrap(scaled, rng) if scaled else None,
                worst_decile(means),
            )
        )
    return found


def _by_teammate(rows: Sequence[Row]) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for row in rows:
        found.setdefault(row.teammate, []).append(row.return_)
    return found


def _episodes(rows: Sequence[Row], scale: Mapping[str, float]) -> dict[tuple[int, str], np.ndarray]:
    """The episodes of every seed with every teammate."""
    found: dict[tuple[int, str], list[float]] = {}
    for row in rows:
        found.setdefault((row.seed, row.teammate), []).append(row.return_ / scale.get(row.teammate, 1.0))
    return {pair: np.array(returns) for pair, returns in found.items()}


def _best_responses(rows: Sequence[Row]) -> dict[str, float]:
    """Of the zoo's groups whose best response gets anything."""
    names = {row.teammate for row in rows}
    cards = _cards(rows[0].scenario, sorted(names))
    best = {name: cards[_plain(name)].best_response for name in names if _plain(name) in cards}
    return {name: value for name, value in best.items() if value > 0}


def table(rows: Sequence[Row]) -> str:
    """Return the table as Markdown."""
    text = [
        "| tier | teammates | episodes | mean | interquartile mean | over the best response | worst tenth of teammates |",
        "|---|---|---|---|---|---|---|",
    ]
    for line in lines(rows):
        normalised = str(line.normalised) if line.normalised else "-"
        text.append(
            f"| {line.tier} | {line.teammates} | {line.episodes} | {line.mean:.2f} | {line.result} | {normalised} "
            f"| {line.worst:.2f} |"
        )
    seeds, choosing = len({row.seed for row in rows}), sum(row.stage == "selection" for row in rows)
    unit = "seeds and teammates are resampled" if seeds > 1 else "there is one seed only: teammates are resampled"
    text += ["", f"All returns are means with a teammate. Intervals of 95% by bootstrap; {unit}, then episodes."]
    text += [caveat(seeds)] if caveat(seeds) else []
    if choosing:
        text += [f"Before that, {choosing} episodes were spent on choosing heads; the table leaves them out."]
    return "\n".join(text) + "\n"


@dataclass(frozen=True)
class Difference:
    """Two agents with the same teammates."""

    teammates: int
    first: float  # mean over the teammates
    second: float
    difference: float  # of the second over the first
    better: int  # teammates with which the second does better
    worse: int
    p: float | None  # of Wilcoxon's signed-rank test over the teammates


def compare(first: Sequence[Row], second: Sequence[Row]) -> Difference:
    """Return the difference of two agents, paired by scenario and teammate; teammates that only one has met do not count."""
    means = []
    for rows in (first, second):
        found: dict[tuple[str, str], list[float]] = {}
        for row in rows:
            if row.stage == "test":
                found.setdefault((row.scenario, row.teammate), []).append(row.return_)
        means.append({pair: float(np.mean(results)) for pair, results in found.items()})
    shared = [pair for pair in means[0] if pair in means[1]]
    if not shared:
        raise ValueError("the two have no teammate in common; evaluate both with the same --scenario and --teammates")
    one, two = (np.array([own[pair] for pair in shared]) for own in means)
    gain = two - one
    better, worse = int((gain > 0).sum()), int((gain < 0).sum())
    return Difference(len(shared), one.mean(), two.mean(), gain.mean(), better, worse, signed_rank(gain.tolist()))
