"""What does a second head learn, and what does the first keep, by the weight of Macop's regulariser in predator-prey?

    python benchmarks/regulariser.py [--scenario PP1] [--seeds 100 101] [--weights 10 1 …] [--parallel 2] [--out FILE]

A fresh ego learns a head with one group of Macop's first population, then a second head with a group of another outcome. The
table has the return of the new head with its group, the return of the old head with the first group, and how far the backbone
moved, relative to its norm. The populations are those of lessons.py. Existing results of the same settings are reused.
"""

from __future__ import annotations

import argparse
import copy
import json
import statistics
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from lessons import EPISODES, WORK, folder_of, population, prepare, setup_of

from macop_aht import plots
from macop_aht.learner.networks import Ego, Stack
from macop_aht.learner.threads import use_threads
from macop_aht.methods import macop, terms
from macop_aht.methods.behaviour import watch_self_play
from macop_aht.methods.phases import Learned, cross_returns, fresh_ego
from macop_aht.runs.journal import Journal

WEIGHTS = ["10", "1", "0.1", "0.01", "0.001", "0"]


def first_lesson(scenario: str, seed: int, work: Path) -> tuple[Learned, Stack, Stack]:
    """Return an ego of one head, the group that it learnt with, and a group with another outcome."""
    setup, folder = setup_of(scenario, seed), folder_of(scenario, seed, work)
    net = population(scenario, seed, work).teams.net
    outcomes = [one.outcome for one in watch_self_play(setup.world, net, EPISODES, seed, setup.device)]
    others = [k for k, outcome in enumerate(outcomes) if outcome and outcome != outcomes[0]]
    if not outcomes[0] or not others:
        raise ValueError(f"the groups of {scenario}, seed {seed}, do {outcomes}; another seed may have two that differ")
    first, second = (Stack.gather([(net, k)]) for k in (0, others[0]))
    fresh = Learned(fresh_ego(setup, 0, setup.phase_seed(0, 2)))
    given = (setup, "first lesson", fresh, "0/0", first, (1, 2))
    learned = Journal(folder, lambda line: None).phase("ego-01-00", Learned, macop.expand, *given)
    return learned, first, second


def begin(scenario: str, seed: int, work: Path) -> None:
    use_threads(1)
    first_lesson(scenario, seed, work)


def backbone(ego: Ego) -> list[torch.Tensor]:
    return [part.detach().clone() for part in ego.backbone.parameters()]


def second_lesson(scenario: str, seed: int, weight: str, work: Path) -> dict[str, Any]:
    """Return the figures of the two heads after the second lesson."""
    stored = folder_of(scenario, seed, work) / f"regulariser-{weight}.json"
    if not stored.exists():
        use_threads(1)
        setup = setup_of(scenario, seed)
        setup = setup._replace(config=replace(setup.config, alpha_reg=float(weight)))
        learned, first, second = first_lesson(scenario, seed, work)
        ego = copy.deepcopy(learned.ego)
        before = backbone(ego)
        head, _ = macop.learn_to_join(setup, "", ego, learned.memory, second, setup.phase_seed(1, 3))
        length = torch.cat([part.flatten() for part in before]).norm()
        way = terms.distance(ego.backbone, [before], "squared").sqrt()
        new = cross_returns(
            setup, Stack.of(ego.shape, ego.backbone, head), second, setup.phase_seed(1, 3, 1), EPISODES
        )[0, 0]
        old = cross_returns(setup, ego, first, setup.phase_seed(1, 3, 2), EPISODES)[0, 0]
        figures = {"new": float(new), "old": float(old), "moved": (way / length).item()}
        stored.write_text(json.dumps(figures) + "\n")
    figures = json.loads(stored.read_text())
    print(f"{scenario} seed {seed} weight {weight}: {figures}", flush=True)
    return figures


def draw(results: dict[str, list[dict[str, Any]]], scenario: str, path: Path) -> None:
    """Draw both heads' returns over the weight: the mean as a line, every seed as a point."""
    plt = plots.pyplot()
    figure, axis = plt.subplots(figsize=(6, 3.6))
    for name, label in (("new", "new head with its group"), ("old", "old head with the first group")):
        means = [statistics.mean(one[name] for one in own) for own in results.values()]
        (line,) = axis.plot(range(len(results)), means, "-", label=label)
        for k, own in enumerate(results.values()):
            axis.plot([k] * len(own), [one[name] for one in own], "o", color=line.get_color())
    axis.set_xticks(range(len(results)), list(results))
    axis.set(
        xlabel="weight of the regulariser",
        ylabel="return",
        ylim=(-0.05, 1.05),
        title=f"Macop's second head, {scenario}",
    )
    axis.legend(loc="center left")
    plots.save(figure, path)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenario", default="PP1")
    parser.add_argument("--seeds", nargs="+", type=int, default=[100, 101])
    parser.add_argument("--weights", nargs="+", default=WEIGHTS)
    parser.add_argument("--parallel", type=int, default=2, help="lessons at a time")
    parser.add_argument("--work", type=Path, default=WORK)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "regulariser.md")
    arguments = parser.parse_args()
    scenario, seeds, work = arguments.scenario, arguments.seeds, arguments.work
    jobs = [(scenario, seed, weight, work) for weight in arguments.weights for seed in seeds]
    with ProcessPoolExecutor(arguments.parallel) as pool:
        for step in (prepare, begin):
            list(pool.map(step, [scenario] * len(seeds), seeds, [work] * len(seeds)))
        figures = list(pool.map(second_lesson, *zip(*jobs, strict=True)))
    results: dict[str, list[dict[str, Any]]] = {weight: [] for weight in arguments.weights}
    for job, figure in zip(jobs, figures, strict=True):
        results[job[2]].append(figure)
    asked = f"--scenario {scenario} --seeds {' '.join(map(str, seeds))} --weights {' '.join(arguments.weights)}"
    lines = [
        "# Macop's second head, over the weight of the regulariser",
        "",
        f"`python benchmarks/regulariser.py {asked}`, a figure per seed, {EPISODES} greedy episodes each.",
        "",
        "| weight | new head, its group | old head, the first group | backbone moved |",
        "|---|---|---|---|",
    ]
    for weight, own in results.items():
        cells = [", ".join(f"{one[name]:.2f}" for one in own) for name in ("new", "old")]
        cells.append(", ".join(f"{one['moved']:.2%}" for one in own))
        lines.append(f"| {weight} | {' | '.join(cells)} |")
    lines += ["", f"![returns over the weight]({arguments.out.with_suffix('.png').name})"]
    arguments.out.write_text("\n".join(lines) + "\n", encoding="utf-8")
    draw(results, scenario, arguments.out.with_suffix(".png"))
    print("\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
