"""Commands that train teams and egos."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from pathlib import Path

from macop_aht.cli.bar import Bar
from macop_aht.cli.options import Commands, add_run_options, add_settings, apply_settings, number, seed
from macop_aht.util import show

EXAMPLE = "LBF4"  # whose defaults the help shows where no scenario is given


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
        show(f"team {team}: greedy self-play return {value:.2f}")


def _train(arguments: argparse.Namespace) -> None:
    from macop_aht.config import of_file
    from macop_aht.learner.device import default_threads
    from macop_aht.methods.registry import MethodRun, RunFile, find, settings_by_file
    from macop_aht.methods.training import check_groups, train

    file = RunFile.read(Path(arguments.config)) if arguments.config else RunFile()
    scenario, method = arguments.scenario or file.scenario, arguments.method or file.method
    if not scenario:
        raise ValueError("name a scenario, such as LBF4, or a file that does with --config FILE.toml")
    named = arguments.preset or find(method).preset
    with of_file(arguments.config) if arguments.config else nullcontext():
        settings = settings_by_file(file, scenario, method, named)
    config = apply_settings(settings, arguments)
    threads = arguments.threads or file.threads or default_threads()
    run = MethodRun(scenario, method, file.seed if arguments.seed is None else arguments.seed, threads, config)
    check_groups(run, Path(arguments.out))
    with Bar(find(method).steps(config), whole_run=True) as bar:
        finished = train(run, Path(arguments.out), arguments.resume, arguments.device, bar.say, bar.show_status)
    show(finished.text)


def _sequence(arguments: argparse.Namespace) -> None:
    from macop_aht.methods import sequence

    folders = [Path(folder) for folder in arguments.run_folders]
    names = sequence.make(folders, arguments.length, arguments.seed, Path(arguments.out))
    show(f"wrote {arguments.out}, a sequence of {len(names)} groups: {', '.join(names)}")


def add_selfplay(commands: Commands, words: Sequence[str]) -> None:
    parser = commands.add_parser("selfplay", help="train teams of agents by self-play")
    add_run_options(parser)
    parser.add_argument(
        "--checkpoint-every",
        type=number,
        default=60.0,
        metavar="SECONDS",
        help="shortest time between two checkpoints, in seconds; 0: one after every step (default: %(default)s)",
    )
    if words[:1] == ["selfplay"]:
        from macop_aht.learner.selfplay import SelfPlayConfig
        from macop_aht.methods import presets
        from macop_aht.scenarios import SCENARIOS

        scenario = next((word for word in words[1:] if word in SCENARIOS), EXAMPLE)
        parser.epilog = (
            f"Defaults are those of {scenario}. docs/deviations.md describes the numbered deviations from the paper."
        )
        add_settings(parser, SelfPlayConfig, SelfPlayConfig(training=presets.training(scenario)))
    parser.set_defaults(run=_selfplay)


def add_train(commands: Commands, words: Sequence[str]) -> None:
    parser = commands.add_parser("train", help="train an ego agent, and the teammate groups that it learns with")
    add_run_options(parser, from_file=True)
    parser.add_argument(
        "--config",
        metavar="FILE.toml",
        help="file with the keys of a run's run.toml: scenario, method, seed, threads, config; other options override it",
    )
    parser.add_argument(
        "--preset",
        choices=("paper", "fast", "demo", "strong"),
        help="settings by name; paper: the paper's numbers of steps; fast: fewer steps and updates where these are measured to "
        "do as well; demo: a run of a minute or two; strong: PPO, with many more steps in less time (default: strong for "
        "macop+, else fast)",
    )
    if words[:1] == ["train"]:
        _add_method(parser, words)
    parser.set_defaults(run=_train)


def add_sequence(commands: Commands, words: Sequence[str]) -> None:
    parser = commands.add_parser(
        "sequence", help="draw one sequence of groups from several runs, for continual learners"
    )
    parser.add_argument("run_folders", nargs="+", metavar="RUN", help="folders of finished runs of one scenario")
    parser.add_argument(
        "--length",
        type=seed,
        metavar="N",
        default=10,
        help="number of groups in the sequence, at least 2; 0: all (default: %(default)s)",
    )
    parser.add_argument(
        "--seed", type=seed, metavar="N", default=0, help="seed of the order, at least 0 (default: %(default)s)"
    )
    parser.add_argument(
        "--out", required=True, metavar="FOLDER", help="new folder of the sequence, for `macop train --groups`"
    )
    parser.set_defaults(run=_sequence)


def _add_method(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    """Add `--method`, and the settings of the method in `words`, with the defaults of the scenario in `words`."""
    from macop_aht.config import ConfigError
    from macop_aht.methods.registry import METHODS, RunFile, find, settings_by_file

    about = "; ".join(f"{name}: {method.about}" for name, method in METHODS.items())
    parser.add_argument(
        "--method",
        metavar="NAME",
        help=f"{about}. The settings below are those of the chosen method (default: that of --config, else macop)",
    )
    chosen = argparse.ArgumentParser(add_help=False)
    for option in ("--method", "--config", "--preset"):
        chosen.add_argument(option)
    chosen.add_argument("scenario", nargs="?")
    given, _ = chosen.parse_known_args(words[1:])
    file = RunFile.read(Path(given.config)) if given.config else RunFile()
    method, config = given.method or file.method, None
    named = given.preset or find(method).preset
    with suppress(ConfigError, ValueError, KeyError):  # told when the command is run
        config = settings_by_file(file, given.scenario or file.scenario or EXAMPLE, method, named)
    parser.usage = "macop train [SCENARIO] --out RUN [--method M] [--preset P] [--config FILE.toml] [settings]"
    parser.epilog = (
        f"Defaults are those of {given.scenario or file.scenario or EXAMPLE} with --preset {named}. "
        "docs/deviations.md describes the numbered deviations from the paper."
    )
    add_settings(parser, find(method).config, config)
