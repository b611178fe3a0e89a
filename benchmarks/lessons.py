"""What does each choice in the ego's lessons do to the return with the lesson's group?

    python benchmarks/lessons.py [--scenarios SMAC2 LBF4 …] [--seeds 100 101] [--groups 2] [--parallel 2] [--out FILE]

A lesson trains a fresh ego with one group, for the paper's number of steps. The groups are the first of Macop's first
population (preset `paper`), on seeds that no other result uses. The variants of a scenario are cumulative: each keeps the
changes of those above it. The return is the mean of 100 greedy episodes. Existing results of the same settings are reused.
Lines of other scenarios stay in the table.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch
from zlib import crc32

import torch
from selfplay import recorded

from macop_aht.config import to_toml
from macop_aht.learner.networks import Stack
from macop_aht.learner.threads import use_threads
from macop_aht.methods import macop, phases, presets
from macop_aht.methods.macop import MacopConfig
from macop_aht.methods.phases import Population, Setup, cross_returns, fresh_ego, join, whole
from macop_aht.runs.folder import RunFolder
from macop_aht.runs.journal import Journal
from macop_aht.scenarios import build

WORK = Path(tempfile.gettempdir()) / "macop-lessons"
EPISODES = 100
SCENARIOS = ["SMAC2", "SMAC1", "LBF4", "PP1", "CN3", "LBF1", "CN2", "PP2"]  # in the order of the table


@dataclass(frozen=True)
class Variant:
    """The settings of a lesson."""

    name: str
    self_play: float = 0.0  # weight of the ego's own self-play, which half of the episodes are
    ratio: float = 1.0  # episodes with the group per update
    mixer: bool = False  # whether a single agent has the scenario's mixer
    epsilon_steps: int = 50_000


def variants(scenario: str) -> list[Variant]:
    """Return the variants from lessons with self-play of the ego to those of the authors' code, one change each."""
    ratio = {"LBF4": 8.0, "PP1": 1.0, "PP2": 1.0, "SMAC1": 4.0, "SMAC2": 4.0}.get(scenario, 2.0)
    epsilon = {"PP1": 12_500, "PP2": 12_500, "SMAC1": 25_000, "SMAC2": 25_000}.get(scenario, 50_000)
    first = Variant("with self-play", 1.0, ratio, True, epsilon)
    found = [first, replace(first, name="no self-play", self_play=0.0)]
    if scenario.startswith("SMAC"):
        found.append(replace(found[-1], name="no mixer for one agent", mixer=False))
    if epsilon != 50_000:
        found.append(replace(found[-1], name=f"epsilon falls over 50,000 steps, not {epsilon:,}", epsilon_steps=50_000))
    if ratio != 1.0:
        found.append(replace(found[-1], name=f"an update per episode, not per {ratio:.0f}", ratio=1.0))
    return found


def setup_of(scenario: str, seed: int) -> Setup[MacopConfig]:
    return Setup(build(scenario), presets.macop("paper", scenario), seed, torch.device("cpu"))


def folder_of(scenario: str, seed: int, work: Path) -> Path:
    """Return the folder for results with the preset's present settings."""
    return work / f"{scenario}-{seed}-{crc32(to_toml(setup_of(scenario, seed).config).encode()):08x}"


def population(scenario: str, seed: int, work: Path) -> Population:
    """Train Macop's first population once, and keep it with the minutes that this took."""
    folder = folder_of(scenario, seed, work)
    folder.mkdir(parents=True, exist_ok=True)
    fresh, began = not RunFolder(folder).has_phase("population-00"), time.process_time()
    found = Journal(folder, lambda line: None).phase(
        "population-00", Population, macop._begin, setup_of(scenario, seed)
    )
    if fresh:
        (folder / "minutes.json").write_text(json.dumps((time.process_time() - began) / 60) + "\n")
    return found


def prepare(scenario: str, seed: int, work: Path) -> None:
    use_threads(1)
    population(scenario, seed, work)


def lesson(scenario: str, seed: int, k: int, variant: Variant, work: Path) -> dict[str, Any]:
    """Return the return of a fresh ego after one lesson with group k."""
    settings = f"{variant.self_play:g}-{variant.ratio:g}-{'mixer' if variant.mixer else 'none'}-{variant.epsilon_steps}"
    stored = folder_of(scenario, seed, work) / f"lesson-{k}-{settings}.json"
    if not stored.exists():
        use_threads(1)
        setup = setup_of(scenario, seed)
        group = Stack.gather([(population(scenario, seed, work).teams.net, k)])
        training = replace(setup.config.ego, ratio=variant.ratio, epsilon_steps=variant.epsilon_steps)
        ego, began = fresh_ego(setup, 1, setup.phase_seed(1, k)), time.process_time()
        seed_of_lesson, steps = setup.phase_seed(1, k, 1), setup.config.ego_steps
        usual = phases.ego_mixer
        with patch.object(phases, "ego_mixer", (lambda world, own: own.mixer) if variant.mixer else usual):
            how = phases.EgoConfig(steps, variant.self_play, training)
            done = join(setup, "lesson", whole(ego), group, how, seed_of_lesson)
        result = float(cross_returns(setup, ego, group, setup.phase_seed(1, k, 2), EPISODES)[0, 0])
        figures = {"return": result, "updates": done.progress.updates, "minutes": (time.process_time() - began) / 60}
        stored.write_text(json.dumps(figures) + "\n")
    figures = json.loads(stored.read_text())
    print(f"{scenario} seed {seed} group {k}, {variant.name}: {figures}", flush=True)
    return figures


def row(scenario: str, variant: str, own: list[dict[str, Any]], seeds: int) -> str:
    """Return the figures of one variant; the lessons of a seed are next to each other."""
    each = len(own) // seeds
    by_seed = [own[at : at + each] for at in range(0, len(own), each)]
    returns = "; ".join(", ".join(f"{one['return']:.2f}" for one in part) for part in by_seed)
    mean = statistics.mean(one["return"] for one in own)
    updates, minutes = (statistics.mean(one[name] for one in own) for name in ("updates", "minutes"))
    return f"| {scenario} | {variant} | {mean:.2f} | {returns} | {updates:,.0f} | {minutes:.1f} |"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenarios", nargs="+", choices=SCENARIOS, default=SCENARIOS[:-1])
    parser.add_argument("--seeds", nargs="+", type=int, default=[100, 101])
    parser.add_argument("--groups", type=int, default=2, help="groups of every population, a lesson with each")
    parser.add_argument("--parallel", type=int, default=2, help="lessons at a time")
    parser.add_argument("--work", type=Path, default=WORK)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "lessons.md")
    arguments = parser.parse_args()
    jobs = [
        (scenario, seed, k, variant, arguments.work)
        for scenario in arguments.scenarios
        for variant in variants(scenario)
        for seed in arguments.seeds
        for k in range(arguments.groups)
    ]
    with ProcessPoolExecutor(arguments.parallel) as pool:
        populations = [(scenario, seed) for scenario in arguments.scenarios for seed in arguments.seeds]
        list(pool.map(prepare, *zip(*populations, strict=True), [arguments.work] * len(populations)))
        figures = list(pool.map(lesson, *zip(*jobs, strict=True)))
    results: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for job, own in zip(jobs, figures, strict=True):
        results.setdefault((job[0], job[3].name), []).append(own)
    lines = {key: line for key, line in recorded(arguments.out).items() if key[0] not in arguments.scenarios}
    lines |= {key: row(*key, own, len(arguments.seeds)) for key, own in results.items()}
    head = [
        "# The ego's lessons",
        "",
        "`python benchmarks/lessons.py --scenarios SCENARIO… --seeds 100 101 --groups 1`. Return of a fresh ego after one lesson",
        "with a group of Macop's first population, 100 greedy episodes. Each line keeps the changes of the lines above it.",
        "Minutes are process time on one core.",
        "",
        "| scenario | lesson | mean return | every lesson, seed by seed | updates | minutes |",
        "|---|---|---|---|---|---|",
    ]
    order = sorted(lines, key=lambda key: SCENARIOS.index(key[0]))
    text = "\n".join([*head, *(lines[key] for key in order)]) + "\n"
    arguments.out.write_text(text, encoding="utf-8")
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
