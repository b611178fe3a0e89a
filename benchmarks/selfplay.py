"""Self-play in all eight scenarios with the paper's number of steps per team: do the teams learn, and how fast.

    python benchmarks/selfplay.py [--scenarios LBF4 PP1 …] [--seeds 3] [--ratio 2] [--td-lambda 0.8] [--out FOLDER]

Runs go two at a time, one thread each, in `--work`; a killed benchmark goes on where it was. Writes a table (selfplay.md), the
curves (curves.csv, and selfplay.png where matplotlib is installed). The figure of a seed is the mean greedy return of its teams.
"""

from __future__ import annotations

import argparse
import csv
import json
import statistics
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

WORK = Path(tempfile.gettempdir()) / "macop-selfplay"


@dataclass(frozen=True)
class Task:
    """A scenario's settings of the paper, and the bar that its self-play should reach."""

    steps: int  # per team
    teams: int
    mixer: str
    bar: float


TASKS = {
    "LBF1": Task(125_000, 4, "vdn", 0.9),
    "LBF4": Task(125_000, 4, "vdn", 0.95),
    "PP1": Task(125_000, 4, "vdn", 0.95),
    "PP2": Task(125_000, 4, "vdn", 0.9),
    "CN2": Task(125_000, 4, "vdn", 0.95),
    "CN3": Task(125_000, 4, "vdn", 0.95),
    "SMAC1": Task(300_000, 2, "qmix", 5.2),
    "SMAC2": Task(500_000, 2, "qmix", 5.5),
}


def run(scenario: str, seed: int, ratio: float, td_lambda: float, work: Path) -> dict[str, Any]:
    """Train, or finish training, one seed of one scenario in a process of its own; gives its result."""
    task, folder = TASKS[scenario], work / f"{scenario}-{seed}-ratio{ratio:g}-lambda{td_lambda:g}"
    command = [sys.executable, "-m", "macop_aht", "selfplay", scenario, "--seed", str(seed), "--threads", "1"]
    command += ["--teams", str(task.teams), "--steps", str(task.steps), "--mixer", task.mixer, "--ratio", str(ratio)]
    command += ["--td-lambda", str(td_lambda), "--device", "cpu", "--out", str(folder)] + (
        ["--resume"] if (folder / "run.toml").exists() else []
    )
    if not (folder / "result.json").exists():
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    result = json.loads((folder / "result.json").read_text())
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    print(f"{scenario} seed {seed}: {[round(value, 2) for value in result['returns']]}", flush=True)
    return {"scenario": scenario, "seed": seed, **result, "curve": [json.loads(line) for line in lines]}


def table(results: list[dict[str, Any]], seeds: int, ratio: float, td_lambda: float) -> str:
    lines = [
        "# Self-play",
        "",
        f"`python benchmarks/selfplay.py --seeds {seeds} --ratio {ratio:g} --td-lambda {td_lambda:g}`:",
        f"{ratio:g} episodes per update, two runs at a time, one thread each.",
        "",
        "| scenario | steps per team | returns of the seeds | median | bar | met | steps/s |",
        "|---|---|---|---|---|---|---|",
    ]
    for scenario, task in TASKS.items():
        own = [result for result in results if result["scenario"] == scenario]
        if not own:
            continue
        means = [statistics.mean(result["returns"]) for result in own]
        median = statistics.median(means)
        speed = statistics.median(
            result["progress"]["steps"] * task.teams / result["progress"]["seconds"] for result in own
        )
        each = ", ".join(f"{mean:.2f}" for mean in means)
        met = "yes" if median >= task.bar else "NO"
        lines.append(f"| {scenario} | {task.steps:,} | {each} | {median:.2f} | {task.bar} | {met} | {speed:,.0f} |")
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
        axis.set_xlabel("steps per team")
    figure.suptitle("Mean return while exploring, one line per seed")
    figure.tight_layout()
    figure.savefig(out / "selfplay.png", dpi=100)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenarios", nargs="+", choices=list(TASKS), default=list(TASKS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--ratio", type=float, default=2.0)
    parser.add_argument("--td-lambda", type=float, default=0.8)
    parser.add_argument("--work", type=Path, default=WORK)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "selfplay")
    arguments = parser.parse_args()
    jobs = [(scenario, seed) for scenario in arguments.scenarios for seed in range(arguments.seeds)]
    with ThreadPoolExecutor(2) as pool:
        results = list(
            pool.map(lambda job: run(job[0], job[1], arguments.ratio, arguments.td_lambda, arguments.work), jobs)
        )
    arguments.out.mkdir(parents=True, exist_ok=True)
    text = table(results, arguments.seeds, arguments.ratio, arguments.td_lambda)
    (arguments.out / "selfplay.md").write_text(text)
    write_curves(results, arguments.out)
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
