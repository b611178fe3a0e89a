"""What a bundle is worth, measured with the files that are in it, and its card, which says so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from macop_aht import plots, zoo
from macop_aht.deploy.runtime import META_EPISODES, ZERO_SHOT, EgoAgent
from macop_aht.episodes.matches import sessions
from macop_aht.episodes.runner import Hook, Lockstep
from macop_aht.evaluation.bundles import AgentSeats, Bundle
from macop_aht.evaluation.evaluate import Agent, evaluate, table
from macop_aht.policies.protocol import Policy
from macop_aht.scenarios.spec import World

PLOT = "heads.png"
SESSION = 4  # episodes of zero-shot with the same teammate
BINS = 10  # of belief, in which it is compared with how often it was right


def measure(
    folder: Path, world: World, groups: Sequence[Policy], heads: np.ndarray, own: int, episodes: int, seed: int
) -> dict[str, Any]:
    """How the bundle in a folder does with the groups of its run, `episodes` with each, and how well it knows them.

    `heads` (K,G) are the returns by which the best head is known; they were measured in other episodes than these. It is one
    of the run's heads, the first `own`.
    """
    who = np.repeat(np.arange(len(groups)), episodes)
    best = EgoAgent.load(folder, selector=None, teams=len(who))
    best.head = heads[:own].argmax(axis=0)[who]
    known = sessions(world, AgentSeats(best), groups, who, 1, _seeds(seed, 0, who))
    meta = META_EPISODES * own
    few = np.repeat(np.arange(len(groups)), max(episodes // SESSION, 1))
    tested = sessions(
        world, AgentSeats(EgoAgent.load(folder, teams=len(few))), groups, few, meta + SESSION, _seeds(seed, 1, few)
    )
    sure, right = [], []

    told = EgoAgent.load(folder, selector=ZERO_SHOT, teams=len(who))

    class Watch(Hook):
        """Notes how sure it is of a group at every step, and whether that is the one."""

        def chosen(self, play: Lockstep, counted: np.ndarray) -> None:
            belief = told.belief
            sure.append(belief.max(axis=1))
            right.append(belief.argmax(axis=1) == who)

    unaided = sessions(world, AgentSeats(told), groups, who, SESSION, _seeds(seed, 2, who), [Watch()])
    by_group = (len(groups), -1)
    return {
        "episodes": episodes,
        "groups": [group.name.removeprefix("group ") for group in groups],
        "heads": heads.tolist(),
        "best_head": known.reshape(by_group).mean(axis=1).tolist(),
        "meta_test": tested[:, meta:].reshape(by_group).mean(axis=1).tolist(),
        "meta_episodes": meta,
        "zero_shot_first": unaided[:, 0].reshape(by_group).mean(axis=1).tolist(),
        "zero_shot_later": unaided[:, 1:].reshape(by_group).mean(axis=1).tolist(),
        "calibration": calibration(np.concatenate(sure), np.concatenate(right)),
    }


def _seeds(seed: int, purpose: int, who: np.ndarray) -> list[int]:
    first = int(np.random.SeedSequence([seed, purpose]).generate_state(1)[0])
    return list(range(first, first + len(who)))


def calibration(sure: np.ndarray, right: np.ndarray) -> dict[str, Any]:
    """How far the belief in the likeliest group, (N,), is from how often it is right, (N,) bool: on average, and by bin."""
    place = np.minimum((sure * BINS).astype(np.int64), BINS - 1)
    count = np.bincount(place, minlength=BINS)
    believed, found = (np.bincount(place, weights=values, minlength=BINS) for values in (sure, right))
    kept = count > 0
    bins = [
        {"steps": int(n), "believed": float(b / n), "right": float(f / n)}
        for n, b, f in zip(count[kept], believed[kept], found[kept], strict=True)
    ]
    error = float(np.abs(believed - found).sum() / count.sum())
    return {"error": error, "right": float(right.mean()), "bins": bins}


def tiers(folder: Path, manifest: Mapping[str, Any], episodes: int) -> dict[str, str]:
    """What `macop evaluate` says of the bundle in a folder, by selector: with the zoo's seen and test groups, and the scripts."""
    scenario, tables = manifest["scenario"], {}
    for selector in (ZERO_SHOT, "meta-test"):
        bundle = Bundle(folder, selector)
        cards = zoo.cards(scenario).values()
        met = [f"zoo:{card.name}" for card in cards if card.sha256 in bundle.met]
        mates = [*met, *(["zoo:test"] if any(card.split == "test" for card in cards) else []), "scripted"]
        tables[selector] = table(evaluate(Agent(folder.name, bundle, manifest["seed"]), scenario, mates, episodes))
    return tables


def head_names(manifest: Mapping[str, Any]) -> list[str]:
    """Those of the run are numbered."""
    own = manifest["run_heads"]
    return [*map(str, range(own)), *["common"] * (manifest["heads"] - own)]


def plot(manifest: Mapping[str, Any], path: Path) -> None:
    """The returns of every head with every group, and below them zero-shot's in the first episode and later."""
    figures = manifest["figures"]
    rows = {f"head {head}": row for head, row in zip(head_names(manifest), figures["heads"], strict=True)}
    rows |= {"zero-shot, first": figures["zero_shot_first"], "zero-shot, later": figures["zero_shot_later"]}
    title = f"{manifest['method']} on {manifest['scenario']}: return with every group"
    plots.heat_map(np.array(list(rows.values())), list(rows), figures["groups"], title, path)


def card(manifest: Mapping[str, Any], by_tier: Mapping[str, str] | None = None, plotted: bool = False) -> str:
    """The bundle in words and tables: everything in it is from the manifest, but for what `tiers` gives."""
    figures = manifest["figures"]
    groups, calibrated = figures["groups"], figures["calibration"]
    means = {name: np.mean(figures[name]) for name in ("best_head", "zero_shot_first", "zero_shot_later", "meta_test")}
    more = (
        " and a common one, which learnt with all groups at once" if manifest["heads"] > manifest["run_heads"] else ""
    )
    lines = [
        f"# {manifest['method']} on {manifest['scenario']}, seed {manifest['seed']}",
        "",
        f"An ego agent of {_count(manifest['run_heads'], 'head')}{more}. Its run has {_count(len(groups), 'group')} of "
        f"teammates: the run's heads learnt with {len(manifest['company']['learnt_with'])} of them, the recogniser has met all. "
        "Settings: run.toml.",
        "",
        "## With the groups of its own run",
        "",
        f"Mean return of {figures['episodes']} greedy episodes with each group; meta-test after {figures['meta_episodes']} "
        f"episodes of choosing, zero-shot without any, in the first episode and in the {SESSION - 1} that follow.",
        "",
        "| group | best head | zero-shot, first | zero-shot, later | meta-test |",
        "|---|---|---|---|---|",
    ]
    columns = zip(*(figures[name] for name in means), strict=True)
    lines += [_line(name, row) for name, row in zip(groups, columns, strict=True)]
    lines += [_line("**mean**", means.values())]
    lines += [
        "",
        "## Heads and groups",
        "",
        f"Mean return of {figures['episodes']} greedy episodes of every head with every group, played from the first step on.",
        "",
        f"| head | {' | '.join(groups)} |",
        f"|---|{'---|' * len(groups)}",
    ]
    lines += [_line(head, row) for head, row in zip(head_names(manifest), figures["heads"], strict=True)]
    if plotted:
        lines += ["", f"![returns]({PLOT})"]
    for selector, found in (by_tier or {}).items():
        lines += ["", f"## With teammates of every tier: {selector}", "", found.rstrip("\n")]
    lines += [
        "",
        "## Belief",
        "",
        f"In {100 * calibrated['right']:.0f}% of all steps the likeliest group was the one that played; those that act alike, "
        "groups or heads of the ego itself, count as mistaken for each other. Expected calibration error "
        f"{calibrated['error']:.3f}.",
        "",
        "| believed | right | steps |",
        "|---|---|---|",
    ]
    lines += [f"| {part['believed']:.2f} | {part['right']:.2f} | {part['steps']} |" for part in calibrated["bins"]]
    return "\n".join(lines) + "\n"


def _count(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def _line(name: str, values: Any) -> str:
    return f"| {name} | {' | '.join(f'{value:.2f}' for value in values)} |"
