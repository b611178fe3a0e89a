"""How good are whole runs of Macop and Macop+? Coverage, heads, best-head return, minutes, and groups that sabotage.

    python benchmarks/macop.py [--scenarios LBF4 PP1] [--methods macop macop+] [--seeds 3] [--preset fast] [--parallel 2]
        [--finished]

Without `--preset`, Macop has the preset `paper` and Macop+ has `strong`. Runs can be resumed. Each has one thread. Writes a
table, the runs' own summaries and figures, and every run's figures as JSON lines. Runs that only these lines have stay in the
table.

A group sabotages if a fresh ego stays under half of the group's self-play return, after training with this group alone for as
many steps as the ego has for a group. Only groups with which the ego stayed under half are tested.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from itertools import permutations
from pathlib import Path
from typing import Any

from macop_aht.runs.folder import RunFolder

WORK = Path(tempfile.gettempdir()) / "macop-runs"
RESULTS = Path(__file__).parent / "results" / "macop"
PRESETS = {"macop": "paper", "macop+": "strong"}
OUTCOMES = {  # that there are to be found; of SMAC2's, too many to name
    "LBF4": [f"food {row},{col}" for row in (0, 5) for col in (0, 5)],
    "LBF1": ["from 3,4 4,3", "from 4,3 3,4"],
    "PP1": [f"prey {k}" for k in range(3)],
    "PP2": [f"prey {k}" for k in range(5)],
    "CN2": ["landmarks 0 1", "landmarks 1 0"],
    "CN3": ["landmarks " + " ".join(order) for order in permutations("012")],
    "SMAC1": ["beat 0", "beat 1"],
    "SMAC2": [],
}


def folder_of(scenario: str, method: str, seed: int, preset: str, work: Path, options: Sequence[str] = ()) -> Path:
    return work / "-".join([scenario, method, str(seed), preset, *(Path(word).name.strip("-") for word in options)])


def done(folder: Path) -> bool:
    """Whether a run is there and has come to its end."""
    return RunFolder(folder).exists and RunFolder(folder).finished


def train(scenario: str, method: str, seed: int, preset: str, work: Path, options: Sequence[str] = ()) -> Path:
    """Train, or finish training, one run in a process of its own, with further options of `macop train`; return its folder."""
    folder = folder_of(scenario, method, seed, preset, work, options)
    command = [sys.executable, "-m", "macop_aht", "train", scenario, "--method", method, "--preset", preset]
    command += ["--seed", str(seed), "--threads", "1", "--device", "cpu", "--out", str(folder), *options]
    if not done(folder):
        resume = ["--resume"] if RunFolder(folder).exists else []
        subprocess.run(command + resume, check=True, stdout=subprocess.DEVNULL)
    return folder


def run(scenario: str, method: str, seed: int, preset: str, work: Path, options: Sequence[str] = ()) -> dict[str, Any]:
    """Return the figures of such a run, with the groups that sabotage."""
    folder = train(scenario, method, seed, preset, work, options)
    figures, stored = asdict(RunFolder(folder).summary()), folder / "sabotage.json"
    if not stored.exists():
        stored.write_text(json.dumps(sabotage(folder, figures)) + "\n")
    figures["sabotage"] = json.loads(stored.read_text())
    best = statistics.mean(figures["best_head"])
    print(
        f"{scenario} {method} seed {seed}: best head {best:.2f}, {figures['heads']} heads, {figures['minutes']} min",
        flush=True,
    )
    return figures


def sabotage(folder: Path, figures: dict[str, Any]) -> dict[str, float]:
    """Return the groups with which no fresh best response gets half of their self-play return, and what it gets."""
    suspects = [
        name
        for name, own, best in zip(figures["groups"], figures["self_play"], figures["best_head"], strict=True)
        if own > 0 and best < 0.5 * own
    ]
    if not suspects:
        return {}
    from macop_aht.learner.threads import use_threads
    from macop_aht.methods.phases import best_response
    from macop_aht.methods.training import read_run, setup_of

    use_threads(1)
    setup = setup_of(read_run(folder), "cpu")
    training, steps, groups = setup.config.ego, setup.config.ego_steps, RunFolder(folder).generated()
    found = {}
    for name in suspects:
        seed = setup.phase_seed(2_000, figures["groups"].index(name))
        response = best_response(setup, groups[name], training, steps, seed)
        if response < 0.5 * figures["self_play"][figures["groups"].index(name)]:
            found[name] = response
    return found


def coverage(figures: dict[str, Any]) -> str:
    """Return the number of different outcomes after each iteration, of groups that stayed in a population."""
    born = [max(int(name.split("/")[0]), 1) for name in figures["groups"]]
    counts = [
        len({outcome for outcome, when in zip(figures["outcomes"], born, strict=True) if outcome and when <= iteration})
        for iteration in range(1, figures["iterations"] + 1)
    ]
    return " ".join(map(str, counts))


def generated(figures: dict[str, Any]) -> int:
    """Return the number of groups that a run made: a population in every iteration."""
    return sum(name.startswith("0/") for name in figures["groups"]) * figures["iterations"]


def row(scenario: str, method: str, results: list[dict[str, Any]]) -> str:
    kinds = f" of {len(OUTCOMES[scenario])}" if OUTCOMES[scenario] else ""
    cells = [
        scenario,
        method,
        ", ".join(str(figures["seed"]) for figures in results),
        ", ".join(coverage(figures) for figures in results) + kinds,
        ", ".join(f"{generated(figures)}/{len(figures['groups'])}" for figures in results),
        ", ".join(str(figures["heads"]) for figures in results),
        ", ".join(f"{statistics.mean(figures['best_head']):.2f}" for figures in results),
        ", ".join(f"{over_self_play(figures):.2f}" for figures in results),
        ", ".join(f"{over_self_play(figures, met=True):.2f}" for figures in results),
        ", ".join(f"{min(figures['best_head']):.2f}" for figures in results),
        ", ".join(str(len(figures["sabotage"])) for figures in results),
        ", ".join(f"{figures['minutes']:.0f}" for figures in results),
        ", ".join(dict.fromkeys(code for figures in results for code in figures.get("commits", ["earlier"]))),
    ]
    return f"| {' | '.join(cells)} |"


def covered(scenario: str, method: str, results: list[dict[str, Any]]) -> str:
    """Return which outcomes were found in how many runs, and which in none."""
    found = Counter(outcome for figures in results for outcome in {*figures["outcomes"]} if outcome)
    named = [f"{outcome} ({count})" if len(results) > 1 else outcome for outcome, count in sorted(found.items())]
    missed = [outcome for outcome in OUTCOMES[scenario] if outcome not in found]
    never = f"; never {', '.join(missed)}" if missed else ""
    return f"- {scenario}, {method}: {', '.join(named) or 'nothing'}{never}."


def over_self_play(figures: dict[str, Any], met: bool = False) -> float:
    """Return how much of the groups' self-play the best heads return with them; `met`: with those that the ego has met."""
    pairs = [
        (best, own)
        for name, best, own in zip(figures["groups"], figures["best_head"], figures["self_play"], strict=True)
        if name in figures["joined"] or not met
    ]
    return sum(best for best, _ in pairs) / sum(own for _, own in pairs)


FIGURES: dict[
    str, tuple[Callable[[dict[str, Any]], float], int]
] = {  # of a run; 1 where more is better, -1 where less is
    "different outcomes": (lambda figures: len({outcome for outcome in figures["outcomes"] if outcome}), 1),
    "best head": (lambda figures: statistics.mean(figures["best_head"]), 1),
    "best head over self-play": (over_self_play, 1),
    "best head, worst group": (lambda figures: min(figures["best_head"]), 1),
    "saboteurs": (lambda figures: len(figures["sabotage"]), -1),
    "heads": (lambda figures: figures["heads"], -1),
    "minutes": (lambda figures: figures["minutes"], -1),
}


def against(scenario: str, one: list[dict[str, Any]], other: list[dict[str, Any]]) -> list[str]:
    """Return rows that compare two methods, by the means over their seeds."""
    lines = []
    for name, (figure, sign) in FIGURES.items():
        means = [statistics.mean(figure(figures) for figures in results) for results in (one, other)]
        shown = [f"{mean:.2f}" for mean in means]
        gain = sign * (float(shown[1]) - float(shown[0]))
        better = "macop+" if gain > 0 else "macop" if gain < 0 else "neither"
        lines.append(f"| {scenario} | {name} | {shown[0]} | {shown[1]} | {better} |")
    return lines


Key = tuple[str, str, int]  # scenario, method, seed


def recorded(path: Path) -> dict[Key, dict[str, Any]]:
    """Return the figures of the runs of an earlier table."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    runs = [json.loads(line) for line in lines]
    return {(figures["scenario"], figures["method"], figures["seed"]): figures for figures in runs}


def keep_figures(source: Path, target: Path, key: Key) -> None:
    """Save a run's own summary, and the pictures of the first seed, next to the table."""
    for name in ("summary.md", "process.png", "crossplay.png", "ways.png"):
        if (source / name).exists() and (key[2] == 0 or name == "summary.md"):
            shutil.copy(source / name, target / f"{'-'.join(map(str, key))}-{name}")


def report(runs: dict[Key, dict[str, Any]], preset: str | None) -> str:
    """Return the table, and what was covered."""
    kinds = list(dict.fromkeys(key[:2] for key in sorted(runs, key=lambda key: ([*OUTCOMES].index(key[0]), *key[1:]))))
    by_kind = {kind: [runs[key] for key in sorted(runs) if key[:2] == kind] for kind in kinds}
    option = f" --preset {preset}" if preset else ""
    lines = [
        "# Macop, end to end",
        "",
        f"`python benchmarks/macop.py{option}`, one thread for each run, two at a time. A figure per seed; outcomes: how many "
        "different ones after each iteration; groups: all that were made, and those that stayed in "
        "a population, which the returns are of. Macop has the preset `paper`, Macop+ the preset `strong`. Runs of an earlier "
        "commit had self-play of the ego in its lessons (but for PP), and chose a head by the episodes that it was measured in. "
        "Minutes are wall-clock: Macop+'s seed 0 with up to three processes on two cores, its other seeds and SMAC2 with up to "
        "ten, so that they say little.",
        "",
        "| scenario | method | seeds | outcomes | groups | heads | best head | over self-play | with groups it met "
        "| worst group | saboteurs | minutes | commit |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|",
        *(row(*kind, results) for kind, results in by_kind.items()),
        "",
        "## What was covered",
        "",
        "In brackets, in how many of the runs.",
        "",
        *(covered(*kind, results) for kind, results in by_kind.items()),
        "",
        "## Macop against Macop+",
        "",
        "Means over the seeds, where there are as many of both.",
        "",
        "| scenario | | macop | macop+ | better |",
        "|---|---|---|---|---|",
    ]
    for scenario in OUTCOMES:
        one, other = (by_kind.get((scenario, method), []) for method in ("macop", "macop+"))
        if one and len(one) == len(other):
            lines += against(scenario, one, other)
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenarios", nargs="+", choices=list(OUTCOMES), default=["LBF4", "PP1"])
    parser.add_argument("--methods", nargs="+", default=["macop", "macop+"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--preset", help="default: paper for macop, strong for macop+")
    parser.add_argument("--parallel", type=int, default=2, help="runs at a time")
    parser.add_argument("--finished", action="store_true", help="only the runs that are there already")
    parser.add_argument("--work", type=Path, default=WORK)
    parser.add_argument("--out", type=Path, default=RESULTS / "macop.md")
    arguments = parser.parse_args()

    def preset_of(method: str) -> str:
        return arguments.preset or PRESETS.get(method, "fast")

    folders = {
        (scenario, method, seed): folder_of(scenario, method, seed, preset_of(method), arguments.work)
        for seed in range(arguments.seeds)
        for scenario in arguments.scenarios
        for method in arguments.methods
    }
    wanted = [key for key, folder in folders.items() if not arguments.finished or done(folder)]
    with ThreadPoolExecutor(arguments.parallel) as pool:
        found = list(pool.map(lambda key: run(key[0], key[1], key[2], preset_of(key[1]), arguments.work), wanted))
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    lines = arguments.out.with_suffix(".jsonl")
    runs = recorded(lines) | dict(zip(wanted, found, strict=True))
    for key in wanted:
        keep_figures(folders[key], arguments.out.parent, key)
    lines.write_text("".join(json.dumps(runs[key]) + "\n" for key in sorted(runs)), encoding="utf-8")
    text = report(runs, arguments.preset)
    arguments.out.write_text(text, encoding="utf-8")
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
