"""What does head selection cost and bring? The return after a number of trial episodes, for every selector.

    python benchmarks/head_selection.py [BUNDLE ...] [--runs RUN ...] [--seeds 5] [--sessions 32] [--test 8] [--out FILE.md]

Without bundles, it takes all bundles under agents/ that have several heads. There are three kinds of teammates:

- seen: the groups of the bundle's own run, from the run's folder where it is given, else from the zoo;
- unseen: the validation and test groups of the zoo;
- the scripts of the scenario.

A session is one agent with one teammate. A selector has a number of trial episodes; the mean return of the following episodes
counts. Zero-shot has no trials: its very first episodes count, and are as many as those of the best head. The best head is
the head of the run that does best with a teammate, in as many other episodes. Regret is the best head's return minus the
selector's.

The generalist head, which only zero-shot plays, is also shown alone. An oracle shows what is possible in a first episode. It
learns the best head after a few steps. Until then it plays the head that does best with seen teammates on average.

In the last table, the teammate is swapped mid-episode, for one with which another head does best. The oracle plays the best
head of each teammate from the swap on. A second oracle learns of the swap some steps later. The summary has zero-shot in its
first episode, and halving after two episodes per head, next to meta-test after four.

Writes Markdown, and a CSV with a line per teammate and seed. In the Markdown, other bundles under agents/ keep their figures
if the options were the same.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from macop_aht import paths, zoo
from macop_aht.deploy.files import read_manifest
from macop_aht.deploy.runtime import EgoAgent
from macop_aht.episodes.matches import sessions
from macop_aht.evaluation.bundles import AgentSeats, Bundle
from macop_aht.export.bundle import group_policies
from macop_aht.policies import Switching, resolve
from macop_aht.policies.protocol import Policy
from macop_aht.reproduction.material import markdown, write_csv
from macop_aht.scenarios import build
from macop_aht.scenarios.spec import World

TIERS = ("seen", "unseen", "scripted")
EPISODEWISE = ("meta-test", "halving", "thompson")
BUDGETS = (1, 2, 4)  # episodes of choosing, times the heads
NAMED = (3, 6)  # steps, of an episode or since the teammate changed, after which an oracle is named the best head
SWITCH = 5  # the teammate changes after this part of the longest episode
PAIRS = 24  # of teammates, at most
OTHERS = 1 << 16  # the number of the first session that heads are chosen by
BEST, FIRST = "best head", "zero-shot, first episode"


@dataclass(frozen=True)
class Bench:
    """A bundle, its world, and its teammates."""

    folder: Path
    world: World
    scenario: str
    method: str
    heads: int  # of the run
    generalist: bool  # whether there is a generalist head behind them
    mates: list[Policy]
    tiers: list[str]
    seeds: int
    sessions: int
    test: int

    @property
    def name(self) -> str:
        return f"{self.scenario}: {self.method}"

    def play(
        self, mates: Sequence[Policy], selector: str | None, episodes: int, budget: int | None = None, times: int = 1
    ) -> np.ndarray:
        """Return the returns of sessions with each teammate, `times` as many as usual: (mates,seeds,sessions,episodes)."""
        size = len(mates) * self.seeds * self.sessions * times
        return self.returns(EgoAgent.load(self.folder, selector, size, budget), mates, episodes, times)

    def returns(
        self, player: Any, mates: Sequence[Policy], episodes: int, times: int = 1, first: int = 0
    ) -> np.ndarray:
        """Return the same for any player; sessions are numbered from `first`."""
        shape = (len(mates), self.seeds, self.sessions * times)
        who, each = np.indices(shape)[0].ravel(), range(first, first + shape[1] * shape[2])
        seeds = [(crc32(mate.name.encode()) << 20) + k for mate in mates for k in each]
        return sessions(self.world, AgentSeats(player), mates, who, episodes, seeds).reshape(*shape, episodes)


def load(folder: Path, runs: Sequence[Path], seeds: int, per_seed: int, test: int) -> Bench:
    manifest = read_manifest(folder)
    scenario, world = manifest.scenario, build(manifest.scenario)
    settings, met = (folder / "run.toml").read_bytes(), Bundle(folder).met
    cards = zoo.cards(scenario)
    own = [run for run in runs if (run / "run.toml").read_bytes() == settings]
    if own:
        seen: list[Policy] = list(group_policies(own[0]))
    else:
        seen = [zoo.load(scenario, name) for name, card in cards.items() if card.sha256 in met]
    held_out = [name for name, card in cards.items() if card.split != "train" and card.sha256 not in met]
    unseen: list[Policy] = [zoo.load(scenario, name) for name in held_out]
    by_tier = dict(zip(TIERS, (seen, unseen, resolve("scripted", world)), strict=True))
    tiers = [tier for tier, members in by_tier.items() for _ in members]
    mates = [mate for members in by_tier.values() for mate in members]
    method, heads = f"{manifest.method}, seed {manifest.seed}", manifest.run_heads
    return Bench(folder, world, scenario, method, heads, manifest.generalist, mates, tiers, seeds, per_seed, test)


def by_head(bench: Bench, heads: int, first: int = 0) -> np.ndarray:
    """Return what the first heads get with every teammate: (mates,seeds,heads). Sessions are numbered from `first`."""
    found = []
    for head in range(heads):
        agent = EgoAgent.load(bench.folder, None, teams=len(bench.mates) * bench.seeds * bench.sessions)
        agent.head = head
        found.append(bench.returns(agent, bench.mates, bench.test, first=first).mean(axis=(2, 3)))
    return np.stack(found, axis=-1)


def best_heads(bench: Bench) -> np.ndarray:
    """Return the best head of the run for each teammate: (mates,). Other episodes decide, so that luck does not."""
    return by_head(bench, bench.heads, first=OTHERS).mean(axis=1).argmax(axis=1)


def results(bench: Bench, heads: np.ndarray, best: np.ndarray) -> dict[tuple[str, int], np.ndarray]:
    """Return the mean return by selector and number of trial episodes: (mates,seeds) each."""
    found = {
        (BEST, 0): np.take_along_axis(heads, best[:, None, None], axis=2)[..., 0],
        ("a random head", 0): heads[..., : bench.heads].mean(axis=2),
    }
    if bench.generalist:
        found["the generalist head", 0] = heads[..., -1]
    each, seen = bench.seeds * bench.sessions, np.array(bench.tiers) == "seen"
    usual = np.full(len(best), heads[seen, :, : bench.heads].mean(axis=(0, 1)).argmax())
    for step in NAMED:
        agent = EgoAgent.load(bench.folder, None, len(best) * each)
        oracle = Oracle(agent, np.repeat(usual, each), np.repeat(best, each), step)
        found[f"that head, named after {step} steps", 0] = bench.returns(oracle, bench.mates, bench.test).mean(
            axis=(2, 3)
        )
    found[FIRST, 0] = bench.play(bench.mates, "zero-shot", 1, times=bench.test).mean(axis=(2, 3))
    found["zero-shot", 0] = bench.play(bench.mates, "zero-shot", bench.test).mean(axis=(2, 3))
    for selector in EPISODEWISE:
        for times in BUDGETS:
            budget = times * bench.heads
            played = bench.play(bench.mates, selector, budget + bench.test, budget)
            found[selector, budget] = played[..., budget:].mean(axis=(2, 3))
    return found


def percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.1f}%" if whole > 0 else "-"


def table(bench: Bench, found: dict[tuple[str, int], np.ndarray]) -> str:
    """Return a line per selector and budget: return, regret and share of the best head's return, in every tier."""
    tiers = np.array(bench.tiers)
    present = [tier for tier in TIERS if tier in bench.tiers]
    counts = ", ".join(f"{(tiers == tier).sum()} {tier}" for tier in present)
    head = ["selector", "episodes of choosing", *(cell for tier in present for cell in (tier, "regret", "of the best"))]
    best, lines = found[BEST, 0], []
    for (name, budget), returns in found.items():
        means = [(returns[tiers == tier].mean(), best[tiers == tier].mean()) for tier in present]
        figures = [(f"{mean:.3f}", f"{most - mean:.3f}", percent(mean, most)) for mean, most in means]
        lines.append([name, budget, *(cell for cells in figures for cell in cells)])
    return f"{bench.heads} heads; teammates: {counts}\n\n{markdown(head, lines)}"


class Oracle:
    """Plays one head, and from some step on another: (S,) each."""

    def __init__(self, agent: EgoAgent, first: np.ndarray, then: np.ndarray, after: int) -> None:
        self._agent, self._first, self._then, self._after = agent, first, then, after
        self._clock = np.zeros(len(first), dtype=np.int64)

    def episode_begin(self, teams: np.ndarray | None = None) -> None:
        self._clock[slice(None) if teams is None else teams] = 0
        self._agent.episode_begin(teams)

    def act(self, obs: np.ndarray, mask: np.ndarray) -> np.ndarray:
        self._agent.head = np.where(self._clock < self._after, self._first, self._then)
        self._clock += 1
        return self._agent.act(obs, mask)

    def episode_end(self, returns: np.ndarray, teams: np.ndarray) -> None:
        self._agent.episode_end(returns, teams)


def switching_pairs(bench: Bench, heads: np.ndarray, best: np.ndarray) -> list[tuple[int, int]]:
    """Return pairs of seen teammates where the first one's best head gets less than half with the second one."""
    means, seen = heads.mean(axis=1), [k for k, tier in enumerate(bench.tiers) if tier == "seen"]
    apart = [(a, b) for a in seen for b in seen if means[b, best[a]] < 0.5 * means[b, best[b]]]
    order = np.random.default_rng(0).permutation(len(apart))[:PAIRS]
    return [apart[k] for k in order]


def switch(bench: Bench, heads: np.ndarray, best: np.ndarray) -> list[str] | None:
    """Return a line for teammates that are swapped mid-episode; None where no two need different heads."""
    pairs, after = switching_pairs(bench, heads, best), bench.world.limit // SWITCH
    if not pairs:
        return None
    mates = [Switching(bench.mates[a], bench.mates[b], after) for a, b in pairs]
    each = bench.seeds * bench.sessions
    first, then = (np.repeat(best[[pair[k] for pair in pairs]], each) for k in (0, 1))
    size = len(pairs) * each
    found = bench.play(mates, "zero-shot", bench.test).mean()

    def oracle(second: np.ndarray, step: int) -> float:
        player = Oracle(EgoAgent.load(bench.folder, None, size), first, second, step)
        return float(bench.returns(player, mates, bench.test).mean())

    at_once, *later, never = oracle(then, after), *(oracle(then, after + late) for late in NAMED), oracle(first, after)
    figures = [
        f"{found:.3f}",
        f"{at_once:.3f}",
        percent(found, at_once),
        *(f"{value:.3f}" for value in (*later, never)),
    ]
    return [bench.scenario, bench.method, str(len(pairs)), str(after), *figures]


def summary(bench: Bench, found: dict[tuple[str, int], np.ndarray]) -> list[str]:
    """Return a line for a bundle: zero-shot and the best head; halving with half of the episodes, and meta-test."""
    few, many = (times * bench.heads for times in BUDGETS[-2:])
    tiers, pairs = np.array(bench.tiers), (((FIRST, 0), (BEST, 0)), (("halving", few), ("meta-test", many)))
    cells = [
        percent(found[one][tiers == tier].mean(), found[other][tiers == tier].mean()) if tier in bench.tiers else "-"
        for one, other in pairs
        for tier in TIERS
    ]
    return [bench.scenario, bench.method, *cells]


def per_seed(bench: Bench, found: dict[tuple[str, int], np.ndarray]) -> list[list[object]]:
    """Return a line per selector, budget, teammate and seed."""
    best = found[BEST, 0]
    return [
        [bench.scenario, bench.method, name, budget, bench.tiers[m], mate.name, seed,
         round(float(returns[m, seed]), 4), round(float(best[m, seed] - returns[m, seed]), 4)]
        for (name, budget), returns in found.items()
        for m, mate in enumerate(bench.mates)
        for seed in range(bench.seeds)
    ]  # fmt: skip


SUMMARY, SWITCHED = "Summary", "A teammate that becomes another one in mid-episode"
COLUMNS = {  # of the tables with a line per bundle
    SUMMARY: ["scenario", "bundle", *(f"{FIRST}, of the best head: {tier}" for tier in TIERS),
              *(f"halving in half of the episodes, of meta-test: {tier}" for tier in TIERS)],
    SWITCHED: ["scenario", "bundle", "pairs", "after steps", "zero-shot", "oracle", "of the oracle",
               *(f"told {late} steps later" for late in NAMED), "the first one's best head"],
}  # fmt: skip


Lines = dict[str, dict[str, list[str]]]  # by title and bundle: the cells


def recorded(path: Path, names: Sequence[str]) -> tuple[dict[str, str], Lines]:
    """Return earlier figures of bundles of these names: their tables, and their lines in the common tables."""
    parts = path.read_text(encoding="utf-8").split("\n## ")[1:] if path.exists() else []
    by_title = {title: content.strip() for title, content in (part.split("\n", 1) for part in parts)}
    lines: Lines = {}
    for title in COLUMNS:
        rows = [row.strip("| ").split(" | ") for row in by_title.pop(title, "").splitlines()[2:]]
        lines[title] = {name: row for row in rows if (name := ": ".join(row[:2])) in names}
    return {name: by_title[name] for name in names if name in by_title}, lines


def report(about: str, tables: dict[str, str], lines: Lines) -> str:
    """Return the page: the summary, the tables of all bundles, and last the teammates that are swapped."""
    first, last = (
        markdown(columns, [row for _, row in sorted(lines[title].items())]) for title, columns in COLUMNS.items()
    )
    sections = {SUMMARY: first, **dict(sorted(tables.items())), SWITCHED: last}
    parts = ["# Head selection", about, *(f"## {title}\n\n{text}" for title, text in sections.items())]
    return "\n\n".join(parts) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundles", nargs="*", type=Path, metavar="BUNDLE")
    parser.add_argument(
        "--runs", nargs="+", type=Path, default=[], help="folders of the runs that the bundles are from"
    )
    parser.add_argument("--seeds", type=int, default=5, help="of evaluation")
    parser.add_argument("--sessions", type=int, default=32, help="per teammate and seed")
    parser.add_argument("--test", type=int, default=8, help="episodes of a session that count")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "head_selection.md")
    arguments = parser.parse_args()
    folders = [path.parent for path in paths.find("agents").rglob("manifest.json")]
    manifests = {folder: read_manifest(folder) for folder in folders}
    shipped = {
        folder: f"{known.scenario}: {known.method}, seed {known.seed}"
        for folder, known in manifests.items()
        if known.run_heads > 1
    }
    bundles = arguments.bundles or sorted(shipped)
    if not bundles:
        parser.error("there is no bundle under agents/; name one, or write one with `macop export`")
    options = f"--seeds {arguments.seeds} --sessions {arguments.sessions} --test {arguments.test}"
    about = (
        f"`python benchmarks/head_selection.py {options}`: mean returns of {arguments.seeds * arguments.sessions} sessions with "
        f"each teammate, of the {arguments.test} episodes after choosing."
    )
    other = arguments.out.exists() and about not in arguments.out.read_text(encoding="utf-8")
    if other and arguments.bundles:
        parser.error(f"{arguments.out} was measured with other options than {options}: give those, or another --out")
    tables, lines = recorded(arguments.out, [] if other else [*shipped.values()])
    written = []
    for folder in bundles:
        bench = load(folder, arguments.runs, arguments.seeds, arguments.sessions, arguments.test)
        heads, best = by_head(bench, bench.heads + bench.generalist), best_heads(bench)
        found = results(bench, heads, best)
        tables[bench.name] = table(bench, found)
        for title, row in ((SUMMARY, summary(bench, found)), (SWITCHED, switch(bench, heads, best))):
            lines[title].pop(bench.name, None)
            lines[title] |= {bench.name: row} if row else {}
        print(f"{bench.name}: {tables[bench.name]}", flush=True)
        arguments.out.write_text(report(about, tables, lines), encoding="utf-8")
        written += per_seed(bench, found)
    columns = ["scenario", "bundle", "selector", "episodes", "tier", "teammate", "seed", "return", "regret"]
    write_csv(arguments.out.with_suffix(".csv"), columns, written)
    return 0


if __name__ == "__main__":
    sys.exit(main())
