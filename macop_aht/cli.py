"""The command line: parse, call, print."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from macop_aht import __version__


def _scenarios(arguments: argparse.Namespace) -> None:
    from macop_aht.envs.registration import env_id
    from macop_aht.scenarios import SCENARIOS, build

    print(f"{'id':18}{'agents':>7}{'ego':>5}{'actions':>9}{'obs':>5}{'limit':>7}  about")
    for name, scenario in SCENARIOS.items():
        world = build(name)
        sizes = f"{world.n_agents:7}{world.controllable:5}{len(world.actions):9}{len(world.observations):5}"
        print(f"{env_id(name):18}{sizes}{world.limit:7}  {scenario.about}")


def _teammates(arguments: argparse.Namespace) -> None:
    from macop_aht.scenarios import build
    from macop_aht.teammates import HABITS

    scripts = build(arguments.scenario).scripts
    width = max(map(len, scripts)) + len("scripted:") + 2
    print(f"{'random':{width}}takes any available action with equal chance")
    for name, script in scripts.items():
        print(f"{'scripted:' + name:{width}}{script.about}")
    print("\nhabits, for any of them, behind a +:")
    for about in HABITS.values():
        print(f"  +{about}")


def _positive(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(text)


def _gif(text: str) -> str:
    if not text.endswith(".gif"):
        raise argparse.ArgumentTypeError(f"{text!r} does not end in .gif")
    return text


def _demo(arguments: argparse.Namespace) -> None:
    from macop_aht import demo

    demo.main(arguments.gif, arguments.episodes)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="macop", description="Ad-hoc teamwork: agents meet teammates they have never seen."
    )
    parser.add_argument("--version", action="version", version=f"macop-aht {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    scenarios = commands.add_parser("scenarios", help="list the scenarios")
    scenarios.set_defaults(run=_scenarios)
    teammates = commands.add_parser("teammates", help="list the teammates that a scenario comes with")
    teammates.add_argument("scenario", help="such as LBF4")
    teammates.set_defaults(run=_teammates)
    demo = commands.add_parser("demo", help="play every scenario with a scripted pair and with a random ego")
    demo.add_argument("--gif", type=_gif, default="demo.gif", help="where to write the film (default: %(default)s)")
    demo.add_argument("--episodes", type=_positive, default=256, help="per pairing (default: %(default)s)")
    demo.set_defaults(run=_demo)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; a user's mistake gives one line, not a traceback."""
    arguments = _parser().parse_args(argv)
    try:
        arguments.run(arguments)
    except (ValueError, TypeError, KeyError, OSError, ImportError) as error:
        print(f"macop: {error.args[0] if isinstance(error, KeyError) else error}", file=sys.stderr)
        return 2
    return 0
