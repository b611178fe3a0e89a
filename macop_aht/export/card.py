"""How good a bundle is, measured with the files that are in it, and its card: the same as text and tables."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from macop_aht import plots, zoo
from macop_aht.deploy.manifest import ZERO_SHOT, Bin, Calibration, Figures, Manifest
from macop_aht.deploy.runtime import META_TEST, EgoAgent
from macop_aht.episodes.heads import EPISODES_PER_HEAD
from macop_aht.episodes.matches import sessions
from macop_aht.episodes.runner import Hook, Lockstep
from macop_aht.evaluation.bundles import AgentSeats, Bundle
from macop_aht.evaluation.evaluate import Agent, evaluate, table
from macop_aht.policies.protocol import Policy
from macop_aht.scenarios import build
from macop_aht.scenarios.spec import World

PLOT = "heads.png"
SESSION = 4  # episodes of zero-shot with the same teammate
BINS = 10  # of confidence, in which it is compared with the accuracy


def measure(
    folder: Path, world: World, groups: Sequence[Policy], returns: np.ndarray, run_heads: int, episodes: int, seed: int
) -> Figures:
    """Return how the bundle in a folder does with the groups of its run, and how well it recognises them.

    Each figure is the mean of `episodes` episodes per group. `returns` (K,G) are those of every head with every group, from other
    episodes; the best head is chosen by them, among the first `run_heads`.
    """
    who = np.repeat(np.arange(len(groups)), episodes)
    best = EgoAgent.load(folder, selector=None, teams=len(who))
    best.head = returns[:run_heads].argmax(axis=0)[who]
    of_best = sessions(world, AgentSeats(best), groups, who, 1, _seeds(seed, 0, who))
    meta = EPISODES_PER_HEAD * run_heads
    few = np.repeat(np.arange(len(groups)), max(episodes // SESSION, 1))
    tester = AgentSeats(EgoAgent.load(folder, META_TEST, teams=len(few)))
    tested = sessions(world, tester, groups, few, meta + SESSION, _seeds(seed, 1, few))
    beliefs = _Beliefs(EgoAgent.load(folder, ZERO_SHOT, teams=len(who)), who)
    unaided = sessions(world, AgentSeats(beliefs.agent), groups, who, SESSION, _seeds(seed, 2, who), [beliefs])

    def by_group(found: np.ndarray) -> tuple[float, ...]:
        return tuple(found.reshape(len(groups), -1).mean(axis=1).tolist())

    return Figures(
        episodes=episodes,
        groups=tuple(group.name.removeprefix("group ") for group in groups),
        returns=tuple(tuple(row) for row in returns.tolist()),
        best_head=by_group(of_best),
        meta_test=by_group(tested[:, meta:]),
        meta_episodes=meta,
        zero_shot_first=by_group(unaided[:, 0]),
        zero_shot_later=by_group(unaided[:, 1:]),
        calibration=calibration(np.concatenate(beliefs.confidence), np.concatenate(beliefs.correct)),
    )


class _Beliefs(Hook):
    """Notes at every step how much an agent believes in the likeliest group, and whether that is the one that plays."""

    def __init__(self, agent: EgoAgent, who: np.ndarray) -> None:
        self.agent, self._who = agent, who
        self.confidence: list[np.ndarray] = []
        self.correct: list[np.ndarray] = []

    def chosen(self, play: Lockstep, counted: np.ndarray) -> None:
        belief = self.agent.belief
        self.confidence.append(belief.max(axis=1))
        self.correct.append(belief.argmax(axis=1) == self._who)


def _seeds(seed: int, purpose: int, who: np.ndarray) -> list[int]:
    first = int(np.random.SeedSequence([seed, purpose]).generate_state(1)[0])
    return list(range(first, first + len(who)))


def calibration(confidence: np.ndarray, correct: np.ndarray) -> Calibration:
    """Return how far the belief in the likeliest group, (N,), is from how often that group played, (N,) bool."""
    place = np.minimum((confidence * BINS).astype(np.int64), BINS - 1)
    count = np.bincount(place, minlength=BINS)
    believed, found = (np.bincount(place, weights=values, minlength=BINS) for values in (confidence, correct))
    kept = count > 0
    bins = tuple(
        Bin(int(n), float(b / n), float(f / n))
        for n, b, f in zip(count[kept], believed[kept], found[kept], strict=True)
    )
    return Calibration(float(np.abs(believed - found).sum() / count.sum()), float(correct.mean()), bins)


def tiers(folder: Path, manifest: Manifest, episodes: int) -> dict[str, str]:
    """Return the tables of `macop evaluate` for a bundle, by selector: with the zoo's seen and test groups, and the scripts."""
    scenario, tables, cards = manifest.scenario, {}, []
    with contextlib.suppress(FileNotFoundError):  # an environment of the user's may have no zoo
        cards = list(zoo.cards(scenario).values())
    for selector in (ZERO_SHOT, META_TEST):
        bundle = Bundle(folder, selector)
        met = [f"zoo:{card.name}" for card in cards if card.sha256 in bundle.met]
        tested = ["zoo:test"] if any(card.split == "test" for card in cards) else []
        teammates = [*met, *tested, *(["scripted"] if build(scenario).scripts else [])]
        if not teammates:
            return {}
        tables[selector] = table(evaluate(Agent(folder.name, bundle, manifest.seed), scenario, teammates, episodes))
    return tables


def plot(manifest: Manifest, path: Path) -> None:
    """Draw the returns of every head with every group, and below them zero-shot's in the first episode and later."""
    figures = _figures(manifest)
    rows = {f"head {head}": row for head, row in zip(manifest.head_names, figures.returns, strict=True)}
    rows |= {"zero-shot, first": figures.zero_shot_first, "zero-shot, later": figures.zero_shot_later}
    title = f"{manifest.method} on {manifest.scenario}: return with every group"
    plots.heat_map(np.array(list(rows.values())), list(rows), figures.groups, title, path)


def card(manifest: Manifest, by_tier: Mapping[str, str] | None = None, plotted: bool = False) -> str:
    """Return the card as Markdown. All figures in it are the manifest's, but for the tables that `tiers` gives."""
    lines = [*_about(manifest), *_with_groups(manifest), *_heads_and_groups(manifest)]
    if plotted:
        lines += ["", f"![returns]({PLOT})"]
    for selector, found in (by_tier or {}).items():
        lines += ["", f"## With teammates of every tier: {selector}", "", found.rstrip("\n")]
    return "\n".join([*lines, *_belief(manifest)]) + "\n"


def _figures(manifest: Manifest) -> Figures:
    if manifest.figures is None:
        raise ValueError("the manifest has no figures; a bundle that `macop export` wrote has them")
    return manifest.figures


def _about(manifest: Manifest) -> list[str]:
    groups, known = _figures(manifest).groups, manifest.groups
    more = " and a generalist head, which learnt with all groups at once" if manifest.generalist else ""
    learnt = f"{len(known.learnt_with)} of them" if known else "some of them"
    return [
        f"# {manifest.method} on {manifest.scenario}, seed {manifest.seed}",
        "",
        f"An ego agent with {_count(manifest.run_heads, 'head')}{more}. Its run has {_count(len(groups), 'teammate group')}: the "
        f"run's heads were trained with {learnt}, the recogniser with all. Settings: run.toml.",
    ]


def _with_groups(manifest: Manifest) -> list[str]:
    figures = _figures(manifest)
    columns = figures.best_head, figures.zero_shot_first, figures.zero_shot_later, figures.meta_test
    rows = zip(figures.groups, zip(*columns, strict=True), strict=True)
    return [
        "",
        "## With the groups of its own run",
        "",
        f"Mean return of {figures.episodes} greedy episodes with each group: of the run's best head for the group, of zero-shot "
        f"in its first episode and in the {SESSION - 1} that follow, and of meta-test after {figures.meta_episodes} episodes of "
        "choosing.",
        "",
        "| group | best head | zero-shot, first | zero-shot, later | meta-test |",
        "|---|---|---|---|---|",
        *(_line(name, row) for name, row in rows),
        _line("**mean**", (float(np.mean(column)) for column in columns)),
    ]


def _heads_and_groups(manifest: Manifest) -> list[str]:
    figures = _figures(manifest)
    return [
        "",
        "## Heads and groups",
        "",
        f"Mean return of {figures.episodes} greedy episodes of every head with every group, played from the first step on.",
        "",
        f"| head | {' | '.join(figures.groups)} |",
        f"|---|{'---|' * len(figures.groups)}",
        *(_line(head, row) for head, row in zip(manifest.head_names, figures.returns, strict=True)),
    ]


def _belief(manifest: Manifest) -> list[str]:
    found = _figures(manifest).calibration
    return [
        "",
        "## Belief",
        "",
        f"In {100 * found.accuracy:.0f}% of all steps the likeliest group was the one that played. Groups that act alike, or "
        f"like a head of the ego, are mistaken for each other. Expected calibration error: {found.error:.3f}.",
        "",
        "| confidence | accuracy | steps |",
        "|---|---|---|",
        *(f"| {part.confidence:.2f} | {part.accuracy:.2f} | {part.steps} |" for part in found.bins),
    ]


def _count(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def _line(name: str, values: Iterable[float]) -> str:
    return f"| {name} | {' | '.join(f'{value:.2f}' for value in values)} |"
