"""Whole runs of Macop and Macop+: coverage, heads, best-head return, minutes, and how many groups sabotage.

    python benchmarks/macop.py [--scenarios LBF4 PP1] [--methods macop macop+] [--seeds 3] [--preset paper] [--parallel 2]
        [--finished]

Runs can be resumed; each has one thread. Writes a table, the runs' own summaries and figures, and every run's figures as JSON
lines. A group sabotages if a fresh ego, trained with it alone for as many steps as the ego has for a group, stays under half of
its self-play return; only groups with which the ego itself did not get that far can be of that kind.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

WORK = Path(tempfile.gettempdir()) / "macop-runs"
RESULTS = Path(__file__).parent / "results" / "macop"
KINDS = {  # how many different deeds a scenario has; 0: there is no such number
    "LBF1": 2, "LBF4": 4, "PP1": 3, "PP2": 5, "CN2": 2, "CN3": 6, "SMAC1": 2, "SMAC2": 0,
}  # fmt: skip


def train(scenario: str, method: str, seed: int, preset: str, work: Path, options: Sequence[str] = ()) -> Path:
    """Train, or finish training, one run in a process of its own, with further options of `macop train`; gives its folder."""
    folder = work / "-".join([scenario, method, str(seed), preset, *(Path(word).name.strip("-") for word in options)])
    command = [sys.executable, "-m", "macop_aht", "train", scenario, "--method", method, "--preset", preset]
    command += ["--seed", str(seed), "--threads", "1", "--device", "cpu", "--out", str(folder), *options]
    if not (folder / "summary.json").exists():
        resume = ["--resume"] if (folder / "run.toml").exists() else []
        subprocess.run(command + resume, check=True, stdout=subprocess.DEVNULL)
    return folder


def run(scenario: str, method: str, seed: int, preset: str, work: Path, options: Sequence[str] = ()) -> dict[str, Any]:
    """The figures of such a run, with the groups that sabotage."""
    folder = train(scenario, method, seed, preset, work, options)
    figures = json.loads((folder / "summary.json").read_text())
    if "sabotage" not in figures:
        figures["sabotage"] = sabotage(folder, figures)
        (folder / "summary.json").write_text(json.dumps(figures, indent=1) + "\n")
    best = statistics.mean(figures["best_head"])
    print(
        f"{scenario} {method} seed {seed}: best head {best:.2f}, {figures['heads']} heads, {figures['minutes']} min",
        flush=True,
    )
    return figures


def sabotage(folder: Path, figures: dict[str, Any]) -> dict[str, float]:
    """The groups that no fresh best response gets to half of their self-play with, and what it gets."""
    suspects = [
        name
        for name, own, best in zip(figures["groups"], figures["self_play"], figures["best_head"], strict=True)
        if own > 0 and best < 0.5 * own
    ]
    if not suspects:
        return {}
    from macop_aht.learner.threads import use_threads
    from macop_aht.methods.phases import best_response
    from macop_aht.methods.runs import groups_of, read_run, setup_of

    use_threads(1)
    setup = setup_of(read_run(folder), "cpu")
    training, steps, groups = setup.config.ego, setup.config.ego_steps, groups_of(folder, setup)
    found = {}
    for name in suspects:
        seed = setup.phase_seed(2_000, figures["groups"].index(name))
        response = best_response(setup, groups[name], training, steps, seed)
        if response < 0.5 * figures["self_play"][figures["groups"].index(name)]:
            found[name] = response
    return found


def coverage(figures: dict[str, Any]) -> str:
    """How many different deeds there were after each iteration, of groups that stayed in a population."""
    born = [max(int(name.split("/")[0]), 1) for name in figures["groups"]]
    counts = [
        len({deed for deed, when in zip(figures["deeds"], born, strict=True) if deed and when <= iteration})
        for iteration in range(1, figures["iterations"] + 1)
    ]
    return " ".join(map(str, counts))


def generated(figures: dict[str, Any]) -> int:
    """All groups that were made: a population in every iteration."""
    return sum(name.startswith("0/") for name in figures["groups"]) * figures["iterations"]


def row(scenario: str, method: str, results: list[dict[str, Any]]) -> str:
    kinds = f" of {KINDS[scenario]}" if KINDS[scenario] else ""
    cells = [
        scenario,
        method,
        ", ".join(str(figures["seed"]) for figures in results),
        ", ".join(coverage(figures) for figures in results) + kinds,
        ", ".join(f"{generated(figures)}/{len(figures['groups'])}" for figures in results),
        ", ".join(str(figures["heads"]) for figures in results),
        ", ".join(f"{statistics.mean(figures['best_head']):.2f}" for figures in results),
        ", ".join(f"{statistics.mean(_honest(figures)):.2f}" for figures in results),
        ", ".join(str(len(figures["sabotage"])) for figures in results),
        ", ".join(f"{figures['minutes']:.0f}" for figures in results),
    ]
    return f"| {' | '.join(cells)} |"


def _honest(figures: dict[str, Any]) -> list[float]:
    """Best-head returns with the groups that do not sabotage."""
    return [
        best
        for name, best in zip(figures["groups"], figures["best_head"], strict=True)
        if name not in figures["sabotage"]
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenarios", nargs="+", choices=list(KINDS), default=["LBF4", "PP1"])
    parser.add_argument("--methods", nargs="+", default=["macop", "macop+"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--preset", default="paper")
    parser.add_argument("--parallel", type=int, default=2, help="runs at a time")
    parser.add_argument("--finished", action="store_true", help="only the runs that are there already")
    parser.add_argument("--work", type=Path, default=WORK)
    parser.add_argument("--out", type=Path, default=RESULTS / "macop.md")
    arguments = parser.parse_args()
    jobs = [
        (scenario, method, seed)
        for seed in range(arguments.seeds)
        for scenario in arguments.scenarios
        for method in arguments.methods
        if not arguments.finished
        or (arguments.work / f"{scenario}-{method}-{seed}-{arguments.preset}" / "summary.json").exists()
    ]
    with ThreadPoolExecutor(arguments.parallel) as pool:
        results = list(pool.map(lambda job: run(job[0], job[1], job[2], arguments.preset, arguments.work), jobs))
    lines = [
        "# Macop, end to end",
        "",
        f"`python benchmarks/macop.py --scenarios {' '.join(arguments.scenarios)} --methods {' '.join(arguments.methods)} "
        f"--seeds {arguments.seeds} --preset {arguments.preset}{' --finished' if arguments.finished else ''}`, one thread for "
        "each run. A figure per seed; deeds: how many different ones after each iteration; groups: all that were made, and those "
        "that stayed in a population, which the returns are of.",
        "",
        "| scenario | method | seeds | deeds | groups | heads | best head | without saboteurs | saboteurs | minutes |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    for scenario in arguments.scenarios:
        for method in arguments.methods:
            own = [figures for job, figures in zip(jobs, results, strict=True) if job[:2] == (scenario, method)]
            if own:
                lines.append(row(scenario, method, own))
            for figures in own:
                source = arguments.work / f"{scenario}-{method}-{figures['seed']}-{arguments.preset}"
                for name in ("summary.md", "process.png", "crossplay.png", "ways.png"):
                    target = arguments.out.parent / f"{scenario}-{method}-{figures['seed']}-{name}"
                    if (source / name).exists() and (figures["seed"] == 0 or name == "summary.md"):
                        shutil.copy(source / name, target)
    text = "\n".join(lines) + "\n"
    arguments.out.write_text(text)
    with open(arguments.out.with_suffix(".jsonl"), "w", encoding="utf-8") as file:
        file.writelines(json.dumps(figures) + "\n" for figures in results)
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
