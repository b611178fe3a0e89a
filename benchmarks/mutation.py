"""How many conventions does mutation find, by how often it updates its networks?

    python benchmarks/mutation.py [--scenarios PP1 LBF4] [--seeds 100 101] [--ratios 4 1] [--parallel 2] [--out FILE]

It starts from Macop's first population (that of lessons.py) and an ego that had a lesson with each of its groups. It then
runs one mutation, with the given ratios of self-play episodes per update. A group's convention is an outcome in which at
least a quarter of its self-play episodes end. Existing results of the same settings are reused. Lines of other scenarios stay
in the table.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from lessons import EPISODES, WORK, folder_of, population, setup_of
from selfplay import TASKS, recorded

from macop_aht.learner.networks import Stack
from macop_aht.learner.threads import use_threads
from macop_aht.methods import macop
from macop_aht.methods.behaviour import watch_self_play
from macop_aht.methods.phases import Learned, Population, fresh_ego
from macop_aht.runs.journal import Journal


def parents(scenario: str, seed: int, work: Path) -> tuple[Learned, Population]:
    """Return the ego after the first iteration, and the population that it learnt with."""
    setup, journal = setup_of(scenario, seed), Journal(folder_of(scenario, seed, work), lambda line: None)
    found, learned = population(scenario, seed, work), Learned(fresh_ego(setup, 0, setup.phase_seed(0, 2)))
    for k in range(setup.config.population):
        given = (setup, 1, k, learned, found)
        learned = journal.phase(f"ego-01-{k:02d}", Learned, macop._continual_learning, *given)
    return learned, found


def begin(scenario: str, seed: int, work: Path) -> None:
    use_threads(1)
    parents(scenario, seed, work)


def outcomes(setup: Any, net: Stack) -> list[str]:
    return [one.outcome for one in watch_self_play(setup.world, net, EPISODES, setup.seed, setup.device)]


def mutation(scenario: str, seed: int, ratio: float, work: Path) -> dict[str, Any]:
    """Return the outcomes of the parents and of their offspring, and the minutes of the mutation."""
    stored = folder_of(scenario, seed, work) / f"mutation-{ratio:g}.json"
    if not stored.exists():
        use_threads(1)
        setup = setup_of(scenario, seed)
        config = replace(setup.config, mutation=replace(setup.config.mutation, ratio=ratio))
        learned, before = parents(scenario, seed, work)
        began = time.process_time()
        after = macop._next_population(setup._replace(config=config), 2, learned, before, before.teams.net)
        figures = {
            "parents": outcomes(setup, before.teams.net),
            "selected": outcomes(setup, after.teams.net),
            "compatibility": after.decision.compatibility,
            "offspring_self_play": (after.decision.self_play or [])[config.population :],
            "minutes": (time.process_time() - began) / 60,
        }
        stored.write_text(json.dumps(figures) + "\n")
    figures = json.loads(stored.read_text())
    print(f"{scenario} seed {seed} ratio {ratio:g}: {figures}", flush=True)
    return figures


def row(scenario: str, ratio: float, own: list[dict[str, Any]]) -> str:
    def count(names: list[str]) -> str:
        return str(len({name for name in names if name}))

    columns = [
        [count(one["parents"]) for one in own],
        [count([*one["parents"], *one["selected"]]) for one in own],
        [f"{sum(one['offspring_self_play']) / len(one['offspring_self_play']):.2f}" for one in own],
        [f"{one['compatibility']:.2f}" for one in own],
        [f"{one['minutes']:.1f}" for one in own],
    ]
    return f"| {scenario} | {ratio:g} | {' | '.join(', '.join(column) for column in columns)} |"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenarios", nargs="+", default=["PP1", "LBF4"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[100, 101])
    parser.add_argument("--ratios", nargs="+", type=float, default=[4.0, 1.0])
    parser.add_argument("--parallel", type=int, default=2, help="mutations at a time")
    parser.add_argument("--work", type=Path, default=WORK)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "mutation.md")
    arguments = parser.parse_args()
    jobs = [
        (scenario, seed, ratio)
        for scenario in arguments.scenarios
        for ratio in arguments.ratios
        for seed in arguments.seeds
    ]
    with ProcessPoolExecutor(arguments.parallel) as pool:
        pairs = list(dict.fromkeys(job[:2] for job in jobs))
        list(pool.map(begin, *zip(*pairs, strict=True), [arguments.work] * len(pairs)))
        figures = list(pool.map(mutation, *zip(*jobs, strict=True), [arguments.work] * len(jobs)))
    results: dict[tuple[str, float], list[dict[str, Any]]] = {}
    for (scenario, _, ratio), own in zip(jobs, figures, strict=True):
        results.setdefault((scenario, ratio), []).append(own)
    lines = {key: line for key, line in recorded(arguments.out).items() if key[0] not in arguments.scenarios}
    lines |= {(scenario, f"{ratio:g}"): row(scenario, ratio, own) for (scenario, ratio), own in results.items()}
    head = [
        "# Updates in mutation",
        "",
        "`python benchmarks/mutation.py --scenarios SCENARIO… --seeds 100 101 --ratios RATIO 1`, a figure per seed. Conventions",
        "of the first population, and of it and the selected groups together, after one mutation. Minutes of one core.",
        "",
        "| scenario | episodes per update | conventions before | after | offspring's self-play | C | minutes |",
        "|---|---|---|---|---|---|---|",
    ]
    order = sorted(lines, key=lambda key: list(TASKS).index(key[0]))
    text = "\n".join([*head, *(lines[key] for key in order)]) + "\n"
    arguments.out.write_text(text, encoding="utf-8")
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
