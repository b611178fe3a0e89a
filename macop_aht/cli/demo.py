"""The demonstration: returns of a script in self-play and with a random ego, in every scenario."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np

from macop_aht.episodes.matches import team_play
from macop_aht.play import watch
from macop_aht.play.choices import Choice
from macop_aht.policies import resolve
from macop_aht.scenarios import SCENARIOS, build
from macop_aht.util import show, write_whole

PAIRS = {
    "LBF1": "path-south",
    "LBF4": "corner-ne",
    "PP1": "prey-0",
    "PP2": "prey-0",
    "CN2": "landmark-0",
    "CN3": "landmark-0",
    "SMAC1": "left-first",
    "SMAC2": "kite",
}
SHORT = {"min_iterations": 2, "max_iterations": 3, "teammate_steps": 300_000, "ego_steps": 60_000}


EGO = "macop-plus/LBF4"  # the trained ego of the pictures
FILMED, FILMED_EGO = "PP1", "macop-plus/PP1"
NEXT = {
    "macop play LBF4": "be the unknown teammate yourself, in the browser",
    f"macop watch LBF4 --agent {EGO} --beliefs": "see what the agent believes of its teammate",
    f"macop evaluate {EGO}": "its returns with teammates that it has not met",
    "macop train LBF4 --out runs/lbf4": "train an agent of your own",
}


def table(episodes: int = 256) -> list[tuple[str, str, float, float]]:
    """Return, per scenario, a script, its mean self-play return, and its mean return with a random ego."""
    rows = []
    for name, script in PAIRS.items():
        world = build(name)
        scripted, random_ego = resolve(f"scripted:{script}", world), resolve("random", world)
        teammates = scripted * (world.n_agents - world.controllable)
        matched = team_play(world, scripted * world.n_agents, episodes)
        mixed = team_play(world, random_ego * world.controllable + teammates, episodes)
        rows.append((name, script, float(matched.mean()), float(mixed.mean())))
    return rows


def film(scenario: str, ego: str, script: str, path: str | Path, seed: int = 0) -> int:
    """Write an episode of a trained ego with a scripted teammate as an animated GIF; return the number of frames."""
    choice = Choice(ego, "zero-shot", f"scripted:{script}", person=False)
    moments = watch.frames(scenario, choice, 1, seed)
    return watch.film(Path(path), ((watch.picture(moment), moment.over) for moment in moments), fps=5)


def meetings(path: Path, seed: int = 0) -> list[float]:
    """Write a picture of the trained ego's first episode with each corner's teammate on LBF4; return the four returns."""
    from PIL import Image

    pictures, returns = [], []
    for corner in ("nw", "ne", "sw", "se"):
        choice = Choice(EGO, "zero-shot", f"scripted:corner-{corner}", person=False)
        *_, last = watch.frames("LBF4", choice, 1, seed)
        pictures.append(watch.picture(last, trails=True))
        returns.append(last.score)
    rows = [np.concatenate(pair, axis=1) for pair in (pictures[:2], pictures[2:])]
    content = io.BytesIO()
    Image.fromarray(np.concatenate(rows)).save(content, "PNG")
    write_whole(path, content.getvalue())
    return returns


def learn(folder: Path, scenario: str = "LBF4", seed: int = 0) -> None:
    """Train an ego by Macop+ in that folder, and a team by self-play; print the returns of both with every group.

    The run is a short one of the preset `strong`.
    """
    from macop_aht.config import changed
    from macop_aht.learner.device import default_threads
    from macop_aht.learner.networks import Stack
    from macop_aht.learner.selfplay import SelfPlayConfig, self_play_training
    from macop_aht.methods import presets
    from macop_aht.methods.behaviour import watch_self_play
    from macop_aht.methods.macop import meta_test
    from macop_aht.methods.phases import cross_returns
    from macop_aht.methods.training import MethodRun, configure, train

    config = changed(configure("macop+", presets.macop("strong", scenario)), SHORT)
    finished = train(MethodRun(scenario, "macop+", seed, default_threads(), config), folder)
    setup, ego, groups = finished.setup, finished.result.ego, finished.result.groups
    steps = config.teammate_steps // config.population
    alone = self_play_training(setup.world, SelfPlayConfig(1, steps, config.teammates), seed, setup.device)
    alone.run()
    ours, theirs = (cross_returns(setup, net, groups, setup.phase_seed(1_001)) for net in (ego, alone.learner.net))
    behaviours = watch_self_play(setup.world, groups, 32, setup.phase_seed(1_000), setup.device)
    show(f"\n{'group':8}{'outcome':16}{'self-play':>10}{'our ego':>10}{'self-play agent':>24}")
    for k, (name, behaviour) in enumerate(zip(finished.result.names, behaviours, strict=True)):
        head = meta_test(setup, ego, Stack.gather([(groups, k)]), setup.phase_seed(1_002, k))
        figures = f"{np.mean(behaviour.returns):10.2f}{ours[head, k]:10.2f}{theirs[0, k]:24.2f}"
        show(f"{name:8}{behaviour.outcome:16}{figures}")
    found = sorted({behaviour.outcome for behaviour in behaviours if behaviour.outcome})
    show(f"\ndifferent outcomes: {len(found)} ({', '.join(found)})")
    show(
        f"mean returns; our ego has {ego.n_heads} heads, and chose one in {4 * ego.n_heads} other episodes with each group"
    )


def main(gif: str | Path, episodes: int = 256) -> None:
    """Print the table and write the animated GIF."""
    show(f"{'scenario':10}{'scripted teammate':20}{'self-play':>14}{'with a random ego':>20}")
    for name, script, matched, mixed in table(episodes):
        show(f"{name:10}{script:20}{matched:14.2f}{mixed:20.2f}")
    show(f"\nmean returns over {episodes} episodes; 1 is a success, in SMAC 20 is a win")
    count = film(FILMED, FILMED_EGO, PAIRS[FILMED], gif)
    show(f"wrote {gif}: {count} frames of {SCENARIOS[FILMED].name}, {FILMED_EGO} with scripted:{PAIRS[FILMED]}")
    picture = Path(gif).with_suffix(".png")
    found = ", ".join(f"{value:g}" for value in meetings(picture))
    show(f"wrote {picture}: the trained ego's first episode with the teammate of each corner on LBF4; returns {found}")


def what_next() -> None:
    """Print what to try after the demonstration."""
    show("\nTry next:")
    for command, about in NEXT.items():
        show(f"  {command:56}{about}")
