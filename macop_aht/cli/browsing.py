"""Commands that list scenarios and teammates, and the demonstration."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from macop_aht.cli.options import Commands, new_file, positive
from macop_aht.util import show


def _scenarios(arguments: argparse.Namespace) -> None:
    from macop_aht.envs.registration import env_id
    from macop_aht.scenarios import SCENARIOS, build

    show(f"{'id':18}{'agents':>7}{'ego':>5}{'actions':>9}{'obs':>5}{'limit':>7}  about")
    for name, scenario in SCENARIOS.items():
        world = build(name)
        sizes = f"{world.n_agents:7}{world.controllable:5}{len(world.actions):9}{len(world.observations):5}"
        show(f"{env_id(name):18}{sizes}{world.limit:7}  {scenario.about}")


def _teammates(arguments: argparse.Namespace) -> None:
    from macop_aht.policies import PERTURBATIONS
    from macop_aht.scenarios import build

    scripts = build(arguments.scenario).scripts
    width = max(map(len, scripts), default=0) + len("scripted:") + 2
    show(f"{'random':{width}}chooses among the available actions with equal probability")
    for name, script in scripts.items():
        show(f"{'scripted:' + name:{width}}{script.about}")
    show("\nperturbations, after the name of any teammate, such as scripted:nearest+noisy=0.1:")
    for about in PERTURBATIONS.values():
        show(f"  +{about}")


def _demo(arguments: argparse.Namespace) -> None:
    from tempfile import TemporaryDirectory

    from macop_aht.cli import demo

    demo.main(arguments.gif, arguments.episodes)
    if arguments.train:
        with TemporaryDirectory() as folder:
            demo.learn(Path(folder) / "run")
    demo.what_next()


def add_scenarios(commands: Commands, words: Sequence[str]) -> None:
    parser = commands.add_parser("scenarios", help="list the scenarios and their sizes")
    parser.set_defaults(run=_scenarios)


def add_teammates(commands: Commands, words: Sequence[str]) -> None:
    parser = commands.add_parser("teammates", help="list the scripted teammates of a scenario, and the perturbations")
    parser.add_argument("scenario", help="name of a scenario, such as LBF4 (`macop scenarios` lists them)")
    parser.set_defaults(run=_teammates)


def add_demo(commands: Commands, words: Sequence[str]) -> None:
    parser = commands.add_parser(
        "demo", help="play every scenario with a scripted team, and with a random ego and scripted teammates"
    )
    parser.add_argument(
        "--gif",
        type=_gif,
        metavar="FILE.gif",
        default="demo.gif",
        help="animated GIF to write; FILE.png beside it shows the trained ego with four teammates (default: %(default)s)",
    )
    parser.add_argument(
        "--episodes",
        type=positive,
        metavar="N",
        default=256,
        help="number of episodes per scenario and ego, at least 1 (default: %(default)s)",
    )
    parser.add_argument(
        "--train", action="store_true", help="also train an ego on LBF4, which takes two or three minutes"
    )
    parser.set_defaults(run=_demo)


def _gif(text: str) -> str:
    if not text.endswith(".gif"):
        raise argparse.ArgumentTypeError(f"{text!r} does not end in .gif")
    new_file(text)
    return text
