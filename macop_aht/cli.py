"""The command line: parse, call, print."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

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


def _selfplay(arguments: argparse.Namespace) -> None:
    from pathlib import Path

    from macop_aht.learner.device import default_threads
    from macop_aht.learner.runs import SelfPlayRun, self_play
    from macop_aht.learner.selfplay import SelfPlayConfig
    from macop_aht.learner.update import UpdateConfig

    given = {name: getattr(arguments, name) for name in ("teams", "steps", "mixer", "ratio")}
    update = UpdateConfig() if arguments.td_lambda is None else UpdateConfig(td_lambda=arguments.td_lambda)
    training = SelfPlayConfig(**{name: value for name, value in given.items() if value is not None}, update=update)
    run = SelfPlayRun(arguments.scenario, arguments.seed, arguments.threads or default_threads(), training)
    with _Bar(training.steps, training.teams) as bar:
        returns = self_play(
            run, Path(arguments.out), arguments.resume, arguments.device, arguments.checkpoint_every, bar.show, bar.say
        )
    for team, value in enumerate(returns):
        print(f"team {team}: greedy self-play return {value:.2f}")


class _Bar:
    """Steps, return, steps per second and time left, on one line."""

    def __init__(self, steps: int, teams: int) -> None:
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        self._teams = teams
        columns = TextColumn("{task.completed:,.0f}/{task.total:,.0f} steps per team"), BarColumn()
        figures = TextColumn("return {task.fields[mean]:.2f}"), TextColumn("{task.fields[speed]:,.0f} steps/s")
        self._progress = Progress(*columns, *figures, TimeRemainingColumn())
        self._task = self._progress.add_task("", total=steps, mean=0.0, speed=0.0)

    def show(self, progress: Any) -> None:
        speed = progress.steps * self._teams / max(progress.seconds, 1e-9)
        self._progress.update(self._task, completed=progress.steps, mean=progress.mean_return, speed=speed)

    def say(self, line: str) -> None:
        self._progress.console.print(line)

    def __enter__(self) -> _Bar:
        self._progress.start()
        return self

    def __exit__(self, *reason: object) -> None:
        self._progress.stop()


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
    selfplay = commands.add_parser("selfplay", help="train teams by self-play")
    selfplay.add_argument("scenario", help="such as LBF4")
    selfplay.add_argument("--out", required=True, metavar="RUN", help="the run's folder")
    selfplay.add_argument("--resume", action="store_true", help="go on with the run in that folder")
    selfplay.add_argument("--teams", type=_positive, help="teams, trained side by side (default: 4)")
    selfplay.add_argument("--steps", type=_positive, help="environment steps per team (default: 125000)")
    selfplay.add_argument("--mixer", choices=("vdn", "qmix"), help="how the agents' values are mixed (default: vdn)")
    selfplay.add_argument("--ratio", type=float, help="episodes that a team collects per update of it (default: 2)")
    selfplay.add_argument(
        "--td-lambda", type=float, help="share of later targets in a target (default: 0.8; the paper's: 0)"
    )
    selfplay.add_argument("--seed", type=int, default=0)
    selfplay.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:NUMBER (default: %(default)s)")
    selfplay.add_argument("--threads", type=_positive, help="of the processor (default: up to two)")
    selfplay.add_argument(
        "--checkpoint-every",
        type=float,
        default=60.0,
        metavar="SECONDS",
        help="at most so often (default: %(default)s)",
    )
    selfplay.set_defaults(run=_selfplay)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; a user's mistake gives one line, not a traceback."""
    arguments = _parser().parse_args(argv)
    try:
        arguments.run(arguments)
    except (ValueError, TypeError, KeyError, OSError, ImportError, RuntimeError) as error:
        print(f"macop: {error.args[0] if isinstance(error, KeyError) else error}", file=sys.stderr)
        return 2
    return 0
