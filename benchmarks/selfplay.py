"""Do teams learn by self-play in all eight scenarios, with the paper's number of steps per team, and how fast?

    python benchmarks/selfplay.py [--scenarios LBF4 PP1 …] [--seeds 3] [--out FOLDER] [-- --ratio 4 --td-lambda 0 …]

Options after `--` go to `macop selfplay`. Without them, every scenario has its recommended settings.

Two runs go at a time, with one thread each, in `--work`. A killed benchmark resumes. Writes a table (selfplay.md) and the
curves (curves.csv, and selfplay.png with matplotlib). The figure of a seed is the mean greedy return of its teams.
"""

from __future__ import annotations

import argparse
import csv
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from macop_aht.runs.folder import RunFolder

WORK = Path(tempfile.gettempdir()) / "macop-selfplay"


@dataclass(frozen=True)
class Task:
    """A scenario's settings of the paper, and the return that its self-play should reach."""

    steps: int  # per team
    teams: int
    bar: float


TASKS = {
    "LBF1": Task(125_000, 4, 0.9),
    "LBF4": Task(125_000, 4, 0.95),
    "PP1": Task(125_000, 4, 0.95),
    "PP2": Task(125_000, 4, 0.9),
    "CN2": Task(125_000, 4, 0.95),
    "CN3": Task(125_000, 4, 0.95),
    "SMAC1": Task(300_000, 2, 5.2),
    "SMAC2": Task(500_000, 2, 5.5),
}


def folder_of(scenario: str, seed: int, options: Sequence[str], work: Path) -> Path:
    return work / "-".join([scenario, str(seed), *(word.strip("-") for word in options)])


def run(scenario: str, seed: int, options: Sequence[str], work: Path) -> dict[str, Any]:
    """Train, or finish training, one seed of one scenario in a process of its own; return its result."""
    task, folder = TASKS[scenario], folder_of(scenario, seed, options, work)
    command = [sys.executable, "-m", "macop_aht", "selfplay", scenario, "--seed", str(seed), "--threads", "1"]
    command += [
        "--teams",
        str(task.teams),
        "--steps",
        str(task.steps),
        "--device",
        "cpu",
        "--out",
        str(folder),
        *options,
    ]
    own = RunFolder(folder)
    if not own.exists or not RunFolder(folder).finished:
        resume = ["--resume"] if own.exists else []
        subprocess.run(command + resume, check=True, stdout=subprocess.DEVNULL)
    result = asdict(own.result())
    print(f"{scenario} seed {seed}: {[round(value, 2) for value in result['returns']]}", flush=True)
    return {"scenario": scenario, "seed": seed, **result, "curve": own.curve()}


def speed(results: list[dict[str, Any]]) -> float:
    """Return the environment steps per second of the median run."""
    return statistics.median(result["progress"]["steps"] / result["progress"]["seconds"] for result in results)


def table(results: list[dict[str, Any]], command: str) -> str:
    lines = [
        "# Self-play",
        "",
        f"`{command}`: two runs at a time, one thread each. The figure of a seed is the mean greedy return of its teams.",
        "",
        "| scenario | steps per team | teams | returns of the seeds | median | bar | met | worst team | steps/s | minutes |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for scenario, task in TASKS.items():
        own = [result for result in results if result["scenario"] == scenario]
        if not own:
            continue
        means = [statistics.mean(result["returns"]) for result in own]
        median, worst = statistics.median(means), min(min(result["returns"]) for result in own)
        minutes = statistics.median(result["progress"]["seconds"] for result in own) / 60
        lines.append(
            f"| {scenario} | {task.steps:,} | {task.teams} | {', '.join(f'{mean:.2f}' for mean in means)} | {median:.2f} "
            f"| {task.bar} | {'yes' if median >= task.bar else 'NO'} | {worst:.2f} | {speed(own):,.0f} | {minutes:.1f} |"
        )
    return "\n".join(lines) + "\n"


def write_curves(results: list[dict[str, Any]], out: Path) -> None:
    with open(out / "curves.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["scenario", "seed", "step", "return"])
        for result in results:
            rows = result["curve"][:: max(len(result["curve"]) // 50, 1)]
            writer.writerows([result["scenario"], result["seed"], row["step"], round(row["return"], 4)] for row in rows)
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        return
    names = [scenario for scenario in TASKS if any(result["scenario"] == scenario for result in results)]
    figure, axes = plt.subplots(2, (len(names) + 1) // 2, figsize=(14, 6), squeeze=False)
    for axis, scenario in zip(axes.flat, names, strict=False):
        for result in results:
            if result["scenario"] == scenario:
                axis.plot([row["step"] for row in result["curve"]], [row["return"] for row in result["curve"]])
        axis.set_title(scenario)
        axis.set_xlabel("steps of all teams")
    figure.suptitle("Mean return while exploring, one line per seed")
    figure.tight_layout()
    figure.savefig(out / "selfplay.png", dpi=100)


def recorded(path: Path) -> dict[tuple[str, str], str]:
    """Return the lines of an earlier table by their first two cells: a scenario, and its variant."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {(c[0], c[1]): line for c, line in zip(cells, lines, strict=True) if c[0] in TASKS}


def add_options(parser: argparse.ArgumentParser, scenarios: Sequence[str], seeds: int) -> None:
    """Add the options that all benchmarks of self-play runs share."""
    parser.add_argument("--scenarios", nargs="+", choices=list(TASKS), default=list(scenarios))
    parser.add_argument("--seeds", type=int, default=seeds)
    parser.add_argument("--parallel", type=int, default=2, help="runs at a time")
    parser.add_argument("--work", type=Path, default=WORK)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser, list(TASKS), seeds=3)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "selfplay")
    parser.add_argument("options", nargs="*", help="for `macop selfplay`")
    arguments = parser.parse_args()
    jobs = [(scenario, seed) for seed in range(arguments.seeds) for scenario in arguments.scenarios]
    with ThreadPoolExecutor(arguments.parallel) as pool:
        results = list(pool.map(lambda job: run(job[0], job[1], arguments.options, arguments.work), jobs))
    arguments.out.mkdir(parents=True, exist_ok=True)
    command = f"python benchmarks/selfplay.py --seeds {arguments.seeds}"
    text = table(results, " ".join([command, *(["--", *arguments.options] if arguments.options else [])]))
    (arguments.out / "selfplay.md").write_text(text)
    write_curves(results, arguments.out)
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
