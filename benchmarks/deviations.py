"""What does each deviation do (docs/deviations.md)? 1 and 3 to 5 in self-play, 5 to 7 and 10 in runs of Macop, 8 from decisions.

    python benchmarks/deviations.py [--scenarios LBF4 PP1 …] [--seeds 1] [--whole LBF4] [--finished] [--parallel 2] [--out FILE]

Each variant turns off one deviation. The runs are shared with selfplay.py and macop.py, and can be resumed. `--finished`
leaves out variants that have not run. The effect on ties (8) is computed from the decisions of all runs of macop.py.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import macop
import selfplay
import torch

from macop_aht.learner.selfplay import SelfPlayConfig, self_play_returns, self_play_training
from macop_aht.learner.threads import use_threads
from macop_aht.methods import presets
from macop_aht.methods.macop import select
from macop_aht.runs.folder import RunFolder
from macop_aht.scenarios import build

PENALTY = 0.5  # SMAC's, where its negative rewards are on
SELF_PLAY = {
    "as recommended": [],
    "one-step targets (3)": ["--td-lambda", "0"],
    "independent exploration (4)": ["--persistence", "0", "--together", "0"],
    "last weights (5)": ["--averaging", "0"],
}
WHOLE = {
    "as recommended": [],
    "last weights (5)": ["--averaging", "0"],
    "plain norm (6)": ["--regulariser-norm", "plain"],
    "ties expand (7)": ["--expansion-rule", "reach"],
    "diversity on all (10)": ["--diversity-every", "1"],
}


def self_play(
    scenarios: list[str], seeds: int, work: Path, finished: bool, pool: ThreadPoolExecutor
) -> list[dict[str, Any]]:
    """Return the greedy return of every team, for every variant, scenario and seed."""
    jobs = [
        (scenario, name, seed)
        for scenario in scenarios
        for name, options in SELF_PLAY.items()
        for seed in range(seeds)
        if not finished or macop.done(selfplay.folder_of(scenario, seed, options, work))
    ]
    results = pool.map(lambda job: selfplay.run(job[0], job[2], SELF_PLAY[job[1]], work), jobs)
    return [
        {"scenario": job[0], "variant": job[1], "returns": result["returns"]}
        for job, result in zip(jobs, results, strict=True)
    ]


def result_of_penalised(scenario: str, seed: int, work: Path) -> Path:
    return selfplay.folder_of(scenario, seed, ["--penalty", str(PENALTY)], work) / "result.json"


def penalised(scenario: str, seed: int, work: Path) -> dict[str, Any]:
    """Return the returns of teams that learnt with negative rewards, in the scenario without them."""
    stored = result_of_penalised(scenario, seed, work)
    if not stored.exists():
        use_threads(1)
        task, cpu = selfplay.TASKS[scenario], torch.device("cpu")
        config = SelfPlayConfig(task.teams, task.steps, presets.training(scenario))
        training = self_play_training(build(scenario, penalty=PENALTY), config, seed, cpu)
        while not training.done:
            training.step()
        training.learner.settle()
        returns = self_play_returns(build(scenario), training.learner.net, 100, seed + 10_000, cpu)
        stored.parent.mkdir(parents=True, exist_ok=True)
        stored.write_text(json.dumps({"returns": returns.tolist()}) + "\n")
    returns = json.loads(stored.read_text())["returns"]
    return {"scenario": scenario, "variant": "negative rewards (1)", "returns": returns}


def with_penalties(scenarios: list[str], seeds: int, work: Path, finished: bool, parallel: int) -> list[dict[str, Any]]:
    """Return the rows of teams that learnt with negative rewards, in the scenarios with combat."""
    jobs = [(scenario, seed) for scenario in scenarios if scenario.startswith("SMAC") for seed in range(seeds)]
    if finished:
        jobs = [job for job in jobs if result_of_penalised(*job, work).exists()]
    with ProcessPoolExecutor(parallel) as pool:
        return list(pool.map(penalised, *zip(*jobs, strict=True), [work] * len(jobs))) if jobs else []


def team_table(rows: list[dict[str, Any]]) -> list[str]:
    """Return a table with a line per scenario and variant; a line has the teams of all seeds."""
    lines = ["| scenario | variant | mean | every team |", "|---|---|---|---|"]
    for scenario, variant in sorted({(row["scenario"], row["variant"]) for row in rows}):
        own = [
            value
            for row in rows
            if (row["scenario"], row["variant"]) == (scenario, variant)
            for value in row["returns"]
        ]
        each = ", ".join(f"{value:.2f}" for value in own)
        lines.append(f"| {scenario} | {variant} | {statistics.mean(own):.2f} | {each} |")
    return lines


def ties(work: Path) -> list[str]:
    """Return a table: how often selection lost the one group with which the ego does worst, and would have by random ties."""
    counts: dict[tuple[str, str], list[float]] = {}
    for folder in sorted(work.glob("*-paper")):
        scenario, method = folder.name.split("-")[:2]
        for decision in RunFolder(folder).decisions():
            cross_play = decision.cross_play or []
            if cross_play and cross_play.count(min(cross_play)) == 1:
                lost = loses_the_least_compatible(decision.self_play or [], cross_play)
                count = counts.setdefault((scenario, method), [0, 0, 0])
                counts[scenario, method] = [sum(both) for both in zip(count, (1, *lost), strict=True)]
    lines = ["| scenario | method | selections | ours loses it | lots would, on average |", "|---|---|---|---|---|"]
    return lines + [
        f"| {' | '.join(key)} | {many} | {ours} | {lots:.1f} |" for key, (many, ours, lots) in sorted(counts.items())
    ]


def loses_the_least_compatible(self_play: list[float], cross_play: list[float]) -> tuple[bool, float]:
    """Return whether our selection loses that group, and the probability that random ties would lose it."""
    least, dropped = cross_play.index(min(cross_play)), len(self_play) // 4
    worse = sum(other < self_play[least] for other in self_play)
    chance = (dropped - worse) / self_play.count(self_play[least])
    return least not in select(self_play, cross_play), min(max(chance, 0.0), 1.0)


def whole_runs(scenario: str, seeds: int, finished: bool, pool: ThreadPoolExecutor) -> list[str]:
    """Return a table of the results of whole Macop runs, with a figure per seed."""
    jobs = [
        (name, seed)
        for name, options in WHOLE.items()
        for seed in range(seeds)
        if not finished or macop.done(macop.folder_of(scenario, "macop", seed, "paper", macop.WORK, options))
    ]
    results = list(pool.map(lambda job: macop.run(scenario, "macop", job[1], "paper", macop.WORK, WHOLE[job[0]]), jobs))
    lines = ["| variant | outcomes | groups | heads | best head | minutes |", "|---|---|---|---|---|---|"]
    for name in WHOLE:
        own = [figures for job, figures in zip(jobs, results, strict=True) if job[0] == name]
        if not own:
            continue
        columns = [
            [macop.coverage(figures) for figures in own],
            [str(macop.generated(figures)) for figures in own],
            [str(figures["heads"]) for figures in own],
            [f"{statistics.mean(figures['best_head']):.2f}" for figures in own],
            [f"{figures['minutes']:.0f}" for figures in own],
        ]
        lines.append(f"| {name} | {' | '.join(', '.join(column) for column in columns)} |")
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    selfplay.add_options(parser, ["LBF4", "PP1", "SMAC1", "SMAC2"], seeds=1)
    parser.add_argument("--whole", choices=list(macop.OUTCOMES), default="LBF4", help="scenario of the whole runs")
    parser.add_argument("--finished", action="store_true", help="only the runs that are there already")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "deviations.md")
    arguments = parser.parse_args()
    given = (arguments.scenarios, arguments.seeds, arguments.work, arguments.finished)
    with ThreadPoolExecutor(arguments.parallel) as pool:
        learnt = [*self_play(*given, pool), *with_penalties(*given, arguments.parallel)]
        grown = whole_runs(arguments.whole, arguments.seeds, arguments.finished, pool)
    command = f"python benchmarks/deviations.py --scenarios {' '.join(arguments.scenarios)} --seeds {arguments.seeds}"
    lines = [
        "# What the deviations do",
        "",
        f"`{command} --whole {arguments.whole}`. Greedy self-play return of every team, after the paper's number of steps; of",
        f"teams that learnt with negative rewards ({PENALTY} of what the same pays when dealt), in the scenario without them:",
        "",
        *team_table(learnt),
        "",
        f"Macop on {arguments.whole}; outcomes: how many different ones after each iteration; groups: all that were made.",
        "",
        *grown,
        "",
        "Ties in selection (8): of finished runs' selections with one group that the ego gets least with, how many lose it.",
        "",
        *ties(macop.WORK),
    ]
    text = "\n".join(lines) + "\n"
    arguments.out.write_text(text)
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
