"""Commands that train."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from macop_aht.cli.bar import Bar
from macop_aht.cli.options import Commands, add_run_options, add_settings, apply_settings, seed


def _selfplay(arguments: argparse.Namespace) -> None:
    from macop_aht.learner.device import default_threads
    from macop_aht.learner.selfplay import SelfPlayConfig
    from macop_aht.methods import presets
    from macop_aht.runs.selfplay import SelfPlayRun, self_play

    training = apply_settings(SelfPlayConfig(training=presets.training(arguments.scenario)), arguments)
    run = SelfPlayRun(arguments.scenario, arguments.seed, arguments.threads or default_threads(), training)
    with Bar(training.steps * training.teams) as bar:
        result = self_play(
            run, Path(arguments.out), arguments.resume, arguments.device, arguments.checkpoint_every, bar.show, bar.say
        )
    for team, value in enumerate(result.returns):
        print(f"team {team}: greedy self-play return {value:.2f}")


def _train(arguments: argparse.Namespace) -> None:
    from macop_aht.learner.device import default_threads
    from macop_aht.methods.training import MethodRun, check_groups, find, preset, train

    method = find(arguments.method)
    config = apply_settings(preset(arguments.method, arguments.preset, arguments.scenario), arguments)
    threads = arguments.threads or default_threads()
    run = MethodRun(arguments.scenario, arguments.method, arguments.seed, threads, config)
    check_groups(run, Path(arguments.out))
    with Bar(method.steps(config), whole_run=True) as bar:
        finished = train(run, Path(arguments.out), arguments.resume, arguments.device, bar.say, bar.show_status)
    print(finished.text)


def _sequence(arguments: argparse.Namespace) -> None:
    from macop_aht.methods import sequence

    folders = [Path(folder) for folder in arguments.run_folders]
    names = sequence.make(folders, arguments.length, arguments.seed, Path(arguments.out))
    print(f"wrote {arguments.out}, a sequence of {len(names)} groups: {', '.join(names)}")


def add_selfplay(commands: Commands, words: Sequence[str]) -> None:
    parser = commands.add_parser("selfplay", help="train teams by self-play")
    add_run_options(parser)
    parser.add_argument(
        "--checkpoint-every",
        type=float,
        default=60.0,
        metavar="SECONDS",
        help="at most so often (default: %(default)s)",
    )
    if words[:1] == ["selfplay"]:
        from macop_aht.learner.selfplay import SelfPlayConfig

        add_settings(parser, SelfPlayConfig)
    parser.set_defaults(run=_selfplay)


def add_train(commands: Commands, words: Sequence[str]) -> None:
    parser = commands.add_parser("train", help="train an ego agent, and the teammates that it learns with")
    add_run_options(parser)
    parser.add_argument(
        "--preset",
        choices=("paper", "fast", "demo"),
        default="fast",
        help="paper: its numbers of steps; fast: fewer steps and updates where these are measured to do as well; "
        "demo: a minute or two (default: %(default)s)",
    )
    if words[:1] == ["train"]:
        _add_method(parser, words)
    parser.set_defaults(run=_train)


def add_sequence(commands: Commands, words: Sequence[str]) -> None:
    parser = commands.add_parser("sequence", help="one sequence of groups of some runs, for continual learners")
    parser.add_argument("run_folders", nargs="+", metavar="RUN", help="finished runs of one scenario")
    parser.add_argument("--length", type=int, default=10, help="groups in it; 0: all (default: %(default)s)")
    parser.add_argument("--seed", type=seed, default=0)
    parser.add_argument("--out", required=True, metavar="FOLDER", help="that `macop train --groups` takes")
    parser.set_defaults(run=_sequence)


def _add_method(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    """The method, and the settings of the one that these words choose."""
    from macop_aht.methods.training import METHODS, find

    about = "; ".join(f"{name}: {method.about}" for name, method in METHODS.items())
    parser.add_argument("--method", default="macop", help=f"{about}. Its settings are below (default: %(default)s)")
    chosen = argparse.ArgumentParser(add_help=False)
    chosen.add_argument("--method", default="macop")
    add_settings(parser, find(chosen.parse_known_args(words)[0].method).config)
