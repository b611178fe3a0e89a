"""Which learner is better, Q-learning or PPO, in equal CPU time?

    python benchmarks/learners.py [--scenarios LBF4 …] [--seeds 0 1 2] [--parts teams lessons] [--parallel 1] [--out FILE]

Teams: two teams of a stack learn by self-play, for two minutes of CPU time. Lessons: a fresh ego learns with the two teams of
PPO at once, for one minute. Q-learning has the settings of `macop selfplay`, PPO those of the preset `strong`, with so many steps
that it is done within the time; its schedules go by steps. A curve is the mean greedy return of 64 episodes over the minutes;
Q-learning's last point is that of the averaged weights. Measuring does not count, nor does compiling. Time is process time with
one thread; let nothing else run. Results are kept in `--work` and not computed again.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

from macop_aht.learner.networks import Shape, Stack, set_weights, weights
from macop_aht.learner.phase import AnyTraining
from macop_aht.learner.selfplay import SelfPlayConfig, self_play_returns, self_play_training
from macop_aht.learner.threads import use_threads
from macop_aht.methods import phases, presets
from macop_aht.methods.phases import EgoConfig, Setup, cross_returns, fresh_ego, whole
from macop_aht.scenarios import SCENARIOS, build

MINUTES = {"teams": 2.0, "lessons": 1.0}
WARM_UP = 0.05  # minutes of a training before, in which kernels are compiled
POINTS = 12  # of a curve
EPISODES, TEAMS = 64, 2
CPU = torch.device("cpu")
GOALS = {"SMAC2": 10.0, "SMAC1": 6.0, "PP1": 0.98, "PP2": 0.9}  # of teams; the others': 1.00
WORK = Path(tempfile.gettempdir()) / "macop-learners"
Curve = list[tuple[float, float]]  # minutes, mean return


def measured(training: AnyTraining, minutes: float, returns: Callable[[], np.ndarray]) -> dict[str, Any]:
    """Train for so many minutes of CPU time, or to the end; return the curve and what came of it."""
    curve: Curve = []
    spent, due = 0.0, 0.0
    while not training.done and spent < 60 * minutes:
        began = time.process_time()
        training.step()
        spent += time.process_time() - began
        if spent >= due:
            curve.append((spent / 60, float(returns().mean())))
            due += 60 * minutes / POINTS
    training.learner.settle()
    last = returns()
    curve.append((spent / 60, float(last.mean())))
    progress = training.progress
    return {"curve": curve, "returns": last.tolist(), "steps": progress.steps, "updates": progress.updates}


def teams(scenario: str, learner: str, seed: int, work: Path, minutes: float) -> dict[str, Any]:
    """Two teams in self-play."""
    world = build(scenario)
    strong = presets.macop("strong", scenario)
    training = strong.teammates if learner == "ppo" else presets.training(scenario)
    steps = strong.teammate_steps // strong.population if learner == "ppo" else 10**9
    phase = self_play_training(world, SelfPlayConfig(TEAMS, steps, training), seed, CPU)
    net = phase.learner.net
    found = measured(phase, minutes, lambda: self_play_returns(world, net, EPISODES, 10_000 + seed, CPU))
    arrays: dict[str, Any] = weights(net)
    np.savez(stored(work, "teams", scenario, learner, seed).with_suffix(".npz"), **arrays)
    return found


def lessons(scenario: str, learner: str, seed: int, work: Path, minutes: float) -> dict[str, Any]:
    """A fresh ego with PPO's two teams."""
    world = build(scenario)
    strong, paper = presets.macop("strong", scenario), presets.macop("paper", scenario)
    setup: Setup[Any] = Setup(world, strong, seed, CPU, stream=(1,))
    groups = Stack(Shape.of(world), TEAMS)
    set_weights(groups, dict(np.load(stored(work, "teams", scenario, "ppo", seed).with_suffix(".npz"))))
    training, steps = (strong.ego, TEAMS * strong.ego_steps) if learner == "ppo" else (paper.ego, 10**9)
    ego = fresh_ego(setup, 1, setup.phase_seed(0))
    found: dict[str, Any] = {}

    def run(setup: Setup[Any], name: str, phase: AnyTraining) -> AnyTraining:
        returns = lambda: cross_returns(setup, ego, groups, 20_000 + seed, EPISODES)[0]  # noqa: E731
        found.update(measured(phase, minutes, returns))
        return phase

    with patch.object(phases, "run", run):
        phases.join(setup, "lesson", whole(ego), groups, EgoConfig(steps, training=training), setup.phase_seed(1))
    return found


def stored(work: Path, part: str, scenario: str, learner: str, seed: int) -> Path:
    """Return the file that a result is in."""
    return work / f"{part}-{scenario}-{learner}-{seed}.json"


def result(part: str, scenario: str, learner: str, seed: int, work: Path) -> dict[str, Any]:
    """Return a result, from its file where that is there."""
    file = stored(work, part, scenario, learner, seed)
    if not file.exists():
        use_threads(1)
        play = {"teams": teams, "lessons": lessons}[part]
        play(scenario, learner, seed, work, WARM_UP)
        found = play(scenario, learner, seed, work, MINUTES[part])
        file.write_text(json.dumps(found) + "\n", encoding="utf-8")
        print(f"{file.stem}: {[round(value, 2) for value in found['returns']]}", flush=True)
    return json.loads(file.read_text(encoding="utf-8"))


def at(curve: Curve, minutes: float) -> float:
    """Return the last figure of a curve up to then."""
    return next((value for when, value in reversed(curve) if when <= minutes), curve[0][1])


def row(part: str, scenario: str, results: dict[str, list[dict[str, Any]]]) -> str:
    """Return the line of a scenario: both learners at half time and at the end, and each seed at the end."""
    cells = []
    for learner in ("q", "ppo"):
        half = statistics.mean(at(one["curve"], MINUTES[part] / 2) for one in results[learner])
        end = [statistics.mean(one["returns"]) for one in results[learner]]
        used = statistics.mean(one["curve"][-1][0] for one in results[learner])
        each = ", ".join(f"{value:.2f}" for value in end)
        cells += [f"{half:.2f}", f"**{statistics.mean(end):.2f}** ({each})", f"{used:.1f}"]
    goal = [f"{GOALS.get(scenario, 1.0):g}"] if part == "teams" else []
    return f"| {' | '.join([scenario, *cells, *goal])} |"


def draw(part: str, results: dict[tuple[str, str], list[dict[str, Any]]], file: Path) -> None:
    """Draw the curves of every scenario."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    names = list(dict.fromkeys(scenario for scenario, _ in results))
    figure, axes = pyplot.subplots(2, -(-len(names) // 2), figsize=(3 * -(-len(names) // 2), 5.2), squeeze=False)
    for axis, scenario in zip(axes.flat, names, strict=False):
        for learner, colour in (("q", "#0072b2"), ("ppo", "#d55e00")):
            for one in results[scenario, learner]:
                label = {"q": "Q-learning", "ppo": "PPO"}[learner] if one is results[scenario, learner][0] else None
                axis.plot(*zip(*one["curve"], strict=True), color=colour, linewidth=1.2, label=label)
        axis.set_title(scenario, fontsize=10)
        axis.set_ylim(bottom=0)
    axes[0, 0].legend(fontsize=8)
    figure.supxlabel("CPU minutes", fontsize=9)
    figure.supylabel("greedy return", fontsize=9)
    figure.tight_layout()
    figure.savefig(file, dpi=110)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenarios", nargs="+", choices=list(SCENARIOS), default=list(SCENARIOS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--parts", nargs="+", choices=list(MINUTES), default=list(MINUTES))
    parser.add_argument("--learners", nargs="+", choices=["q", "ppo"], default=["q", "ppo"])
    parser.add_argument("--parallel", type=int, default=1, help="trainings at a time")
    parser.add_argument("--work", type=Path, default=WORK)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "learners.md")
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    parts: list[str] = []
    with ProcessPoolExecutor(arguments.parallel) as pool:
        for part in arguments.parts:
            keys = [(name, own) for name in arguments.scenarios for own in arguments.learners]
            jobs = [(part, *key, seed, arguments.work) for key in keys for seed in arguments.seeds]
            found = iter(list(pool.map(result, *zip(*jobs, strict=True))))
            results = {key: [next(found) for _ in arguments.seeds] for key in keys}
            if len(arguments.learners) < 2:
                continue
            lines = [row(part, name, {own: results[name, own] for own in ("q", "ppo")}) for name in arguments.scenarios]
            columns = [
                "scenario",
                "Q, half time",
                "Q, at the end",
                "minutes",
                "PPO, half time",
                "PPO, at the end",
                "minutes",
            ]
            columns += ["goal"] if part == "teams" else []
            rule = "|---" * len(columns) + "|"
            parts.append("\n".join([f"## {part.capitalize()}", "", f"| {' | '.join(columns)} |", rule, *lines]))
            image = arguments.out.with_name(f"{arguments.out.stem}-{part}.png")
            draw(part, results, image)
            parts.append(f"![Returns over CPU minutes: {part}]({image.name})")
    if parts:
        asked = f"--scenarios {' '.join(arguments.scenarios)} --seeds {' '.join(map(str, arguments.seeds))}"
        about = (
            "Mean greedy return over seeds, with each seed in brackets. Teams have two minutes of CPU time per pair, an ego "
            "that learns with two groups at once has one minute. PPO stops earlier where its steps are done."
        )
        text = "\n\n".join(
            ["# Q-learning and PPO in equal CPU time", f"`python benchmarks/learners.py {asked}`", about, *parts]
        )
        arguments.out.write_text(text + "\n", encoding="utf-8")
        print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
