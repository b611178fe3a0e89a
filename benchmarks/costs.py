"""What training costs in every scenario, for `macop campaign --dry-run`: writes macop_aht/campaign/costs.toml.

    python benchmarks/costs.py [--scenarios LBF4 …] [--seeds 100 101] [--campaign FOLDER] [--work FOLDER]

Core-minutes of a million steps with an update per episode: of Macop's first population, and of a lesson, both made by lessons.py
and reused where they exist. A method's factor is what makes the estimate of its finished runs in a campaign right. Scenarios that
are not measured stay as they are in the file, and so do the factors without a campaign.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tomllib
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from lessons import WORK, Variant, folder_of, lesson, prepare, setup_of

from macop_aht.campaign import estimate
from macop_aht.campaign.plan import Campaign, read
from macop_aht.methods.presets import merged
from macop_aht.methods.runs import METHODS
from macop_aht.scenarios import SCENARIOS

FILE = Path(estimate.__file__).parent / "costs.toml"


def costs(scenario: str, seed: int, work: Path) -> tuple[float, float]:
    """Of a population and of a lesson."""
    prepare(scenario, seed, work)
    config = setup_of(scenario, seed).config
    own = lesson(scenario, seed, 0, Variant("as it is", ratio=config.ego.ratio), work)["minutes"]
    population = json.loads((folder_of(scenario, seed, work) / "minutes.json").read_text())
    million = estimate.MILLION
    return (
        population / config.teammate_steps * million * config.teammates.ratio,
        own / config.ego_steps * million * config.ego.ratio,
    )


def factors(folder: Path, campaign: Campaign, known: dict[str, float]) -> dict[str, float]:
    """Of every method with finished runs, the factor with which the estimate is what these took."""
    found: dict[str, float] = {}
    for method in METHODS:
        own = [
            _factor(campaign, scenario, method, path)
            for scenario in campaign.scenarios
            for path in sorted((folder / scenario / method).glob("*/summary.json"))
        ]
        if own and method not in ("random-head", "ppo"):
            found[method] = statistics.median(own)
    return known | found


def _factor(campaign: Campaign, scenario: str, method: str, summary: Path) -> float:
    """The factor of one run: the estimate is linear in it."""
    took = json.loads(summary.read_text())["minutes"]
    run = _as_it_came(campaign, summary)
    none, one = (60 * estimate.core_hours(run, scenario, method, {method: factor})[0] for factor in (0.0, 1.0))
    return max((took - none) / (one - none), 0.1)


def _as_it_came(campaign: Campaign, summary: Path) -> Campaign:
    """The campaign with the number of iterations that the run of Macop behind a run had."""
    macop = summary.parent.parent.parent / "macop" / summary.parent.name / "summary.json"
    if not macop.exists():
        return campaign
    iterations = {"min_iterations": json.loads(macop.read_text())["iterations"]}
    return replace(campaign, settings=merged(campaign.settings, {"macop": iterations}))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenarios", nargs="+", choices=list(SCENARIOS), default=list(SCENARIOS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[100])
    parser.add_argument("--campaign", type=Path, help="folder of a campaign with finished runs, for the factors")
    parser.add_argument("--parallel", type=int, default=2, help="processes at a time")
    parser.add_argument("--work", type=Path, default=WORK)
    arguments = parser.parse_args()
    values: dict[str, Any] = tomllib.loads(FILE.read_text(encoding="utf-8"))
    jobs = [(scenario, seed, arguments.work) for scenario in arguments.scenarios for seed in arguments.seeds]
    with ProcessPoolExecutor(arguments.parallel) as pool:
        measured = list(pool.map(costs, *zip(*jobs, strict=True)))
    for scenario in arguments.scenarios:
        own = np.mean([pair for job, pair in zip(jobs, measured, strict=True) if job[0] == scenario], axis=0)
        values["scenarios"][scenario] = {"population": float(own[0]), "lesson": float(own[1])}
    if arguments.campaign:
        campaign = read(arguments.campaign / "campaign.toml")
        values["factors"] = factors(arguments.campaign, campaign, values["factors"])
    lines = [
        "# Core-minutes of a million steps with an update per episode; written by benchmarks/costs.py.",
        "",
        f"ppo = {values['ppo']:.2f} # Stable-Baselines3's, whatever the scenario",
        "",
        "[scenarios]",
    ]
    for name in SCENARIOS:
        if name in values["scenarios"]:
            parts = ", ".join(f"{part} = {value:.2f}" for part, value in values["scenarios"][name].items())
            lines.append(f"{name} = {{ {parts} }}")
    lines += ["", "[factors] # by method, of its mutation, its population or its lessons"]
    lines += [f'"{name}" = {value:.2f}' for name, value in values["factors"].items()]
    FILE.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(FILE.read_text(encoding="utf-8"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
