"""What there is: scenarios, teammates, and a demonstration."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from macop_aht.cli.options import Commands, new_file, positive


def _scenarios(arguments: argparse.Namespace) -> None:
    from macop_aht.envs.registration import env_id
    from macop_aht.scenarios import SCENARIOS, build

    print(f"{'id':18}{'agents':>7}{'ego':>5}{'actions':>9}{'obs':>5}{'limit':>7}  about")
    for name, scenario in SCENARIOS.items():
        world = build(name)
        sizes = f"{world.n_agents:7}{world.controllable:5}{len(world.actions):9}{len(world.observations):5}"
        print(f"{env_id(name):18}{sizes}{world.limit:7}  {scenario.about}")


def _teammates(arguments: argparse.Namespace) -> None:
    from macop_aht.policies import PERTURBATIONS
    from macop_aht.scenarios import build

    scripts = build(arguments.scenario).scripts
    width = max(map(len, scripts)) + len("scripted:") + 2
    print(f"{'random':{width}}takes any available action with equal chance")
    for name, script in scripts.items():
        print(f"{'scripted:' + name:{width}}{script.about}")
    print("\nperturbations, for any of them, behind a +:")
    for about in PERTURBATIONS.values():
        print(f"  +{about}")


def _demo(arguments: argparse.Namespace) -> None:
    from tempfile import TemporaryDirectory

    from macop_aht.cli import demo

    demo.main(arguments.gif, arguments.episodes)
    if arguments.train:
        with TemporaryDirectory() as folder:
            demo.learn(Path(folder) / "run")


def add_scenarios(commands: Commands, words: Sequence[str]) -> None:
    parser = commands.add_parser("scenarios", help="list the scenarios")
    parser.set_defaults(run=_scenarios)


def add_teammates(commands: Commands, words: Sequence[str]) -> None:
    parser = commands.add_parser("teammates", help="list the teammates that a scenario comes with")
    parser.add_argument("scenario", help="such as LBF4")
    parser.set_defaults(run=_teammates)


def add_demo(commands: Commands, words: Sequence[str]) -> None:
    parser = commands.add_parser("demo", help="play every scenario with a scripted pair and with a random ego")
    parser.add_argument("--gif", type=_gif, default="demo.gif", help="where to write the film (default: %(default)s)")
    parser.add_argument("--episodes", type=positive, default=256, help="per pairing (default: %(default)s)")
    parser.add_argument("--train", action="store_true", help="also train an ego on LBF4, in two or three minutes")
    parser.set_defaults(run=_demo)


def _gif(text: str) -> str:
    if not text.endswith(".gif"):
        raise argparse.ArgumentTypeError(f"{text!r} does not end in .gif")
    new_file(text)
    return text
