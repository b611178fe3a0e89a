"""The command line: parse, call, print."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from macop_aht import __version__

REPRODUCTIONS = (  # their names alone, since they need torch
    "table1", "table2", "table-modern", "fig-process", "fig-crossplay", "fig-ablation", "fig-sensitivity", "fig-population",
    "fig-radar", "fig-space", "fig-environments",
)  # fmt: skip


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
    from pathlib import Path
    from tempfile import TemporaryDirectory

    from macop_aht import demo

    demo.main(arguments.gif, arguments.episodes)
    if arguments.train:
        with TemporaryDirectory() as folder:
            demo.learn(Path(folder) / "run")


def _selfplay(arguments: argparse.Namespace) -> None:
    from pathlib import Path

    from macop_aht.learner.device import default_threads
    from macop_aht.learner.runs import SelfPlayRun, self_play
    from macop_aht.learner.selfplay import SelfPlayConfig
    from macop_aht.methods import presets

    training = _apply_settings(SelfPlayConfig(training=presets.training(arguments.scenario)), arguments)
    run = SelfPlayRun(arguments.scenario, arguments.seed, arguments.threads or default_threads(), training)
    with _Bar(training.steps * training.teams) as bar:
        returns = self_play(
            run, Path(arguments.out), arguments.resume, arguments.device, arguments.checkpoint_every, bar.show, bar.say
        )
    for team, value in enumerate(returns):
        print(f"team {team}: greedy self-play return {value:.2f}")


def _train(arguments: argparse.Namespace) -> None:
    from pathlib import Path

    from macop_aht.evaluation import summary
    from macop_aht.learner.device import default_threads
    from macop_aht.methods.runs import MethodRun, check_groups, find, preset, train

    method = find(arguments.method)
    config = _apply_settings(preset(arguments.method, arguments.preset, arguments.scenario), arguments)
    run = MethodRun(
        arguments.scenario, arguments.method, arguments.seed, arguments.threads or default_threads(), config
    )
    check_groups(run, Path(arguments.out))
    with _Bar(method.steps(config), whole_run=True) as bar:
        finished = train(run, Path(arguments.out), arguments.resume, arguments.device, bar.say, bar.show_status)
    summary.write(finished, Path(arguments.out))


def _evaluate(arguments: argparse.Namespace) -> None:
    from pathlib import Path

    from macop_aht.evaluation.agents import load_agents
    from macop_aht.evaluation.evaluate import evaluate, table
    from macop_aht.evaluation.matches import write_rows
    from macop_aht.scenarios import build

    scenario = arguments.scenario
    agents = load_agents(arguments.agents, build(scenario), scenario, arguments.selector, arguments.budget)
    rows = [
        row
        for agent in agents
        for row in evaluate(agent, scenario, arguments.teammates, arguments.episodes, arguments.seen, arguments.seed)
    ]
    print(table(rows))
    if arguments.csv:
        write_rows(rows, Path(arguments.csv))
    if arguments.html:
        from macop_aht.evaluation import report

        report.write(rows, Path(arguments.html))


def _sequence(arguments: argparse.Namespace) -> None:
    from pathlib import Path

    from macop_aht.methods import sequence

    folders = [Path(folder) for folder in arguments.run_folders]
    names = sequence.make(folders, arguments.length, arguments.seed, Path(arguments.out))
    print(f"wrote {arguments.out}, a sequence of {len(names)} groups: {', '.join(names)}")


def _pool(arguments: argparse.Namespace) -> None:
    from pathlib import Path

    from macop_aht.evaluation import pool
    from macop_aht.learner.threads import use_threads

    use_threads(arguments.threads)
    folders = [Path(folder) for folder in arguments.run_folders]
    pool.evaluate(
        folders,
        arguments.episodes,
        Path(arguments.out),
        arguments.device,
        arguments.seed,
        by_folder=arguments.by_folder,
    )


def _campaign(arguments: argparse.Namespace) -> int:
    from dataclasses import replace
    from pathlib import Path

    from macop_aht.campaign.conduct import conduct
    from macop_aht.campaign.plan import read

    given = {name: getattr(arguments, name) for name in ("processes", "threads", "device")}
    campaign = replace(read(Path(arguments.file)), **{name: value for name, value in given.items() if value})
    address = arguments.address if arguments.executor == "ray" else None
    return 0 if conduct(campaign, Path(arguments.out), ray_address=address) else 1


def _reproduce(arguments: argparse.Namespace) -> None:
    from pathlib import Path

    from macop_aht.reproduction import REPRODUCTIONS, WITHOUT_CAMPAIGN
    from macop_aht.reproduction.material import Material

    name = arguments.name
    material = Material.load(Path(arguments.campaign)) if arguments.campaign else None
    if material is None and name not in WITHOUT_CAMPAIGN:
        raise ValueError(f"{name} is made from a campaign: name its folder with --campaign FOLDER")
    out = Path(arguments.out or Path(arguments.campaign or "") / "reproduction")
    out.mkdir(parents=True, exist_ok=True)
    print(REPRODUCTIONS[name](material, out) if material and name in REPRODUCTIONS else WITHOUT_CAMPAIGN[name](out))
    print(f"wrote {out / name}.md, .csv and pictures")


def _compare(arguments: argparse.Namespace) -> None:
    from pathlib import Path

    from macop_aht.evaluation.evaluate import compare
    from macop_aht.evaluation.matches import read_rows

    found = compare(read_rows(Path(arguments.first)), read_rows(Path(arguments.second)))
    chance = "no difference to test" if found.p is None else f"p = {found.p:.3f} (Wilcoxon, paired by teammate)"
    print(f"{found.teammates} teammates in common: {found.first:.3f} and {found.second:.3f}")
    print(f"the second is {found.difference:+.3f}, better with {found.better}, worse with {found.worse}; {chance}")


def _export(arguments: argparse.Namespace) -> None:
    from pathlib import Path

    from macop_aht.deploy.export import export
    from macop_aht.deploy.recogniser import RecogniserConfig
    from macop_aht.learner.device import default_threads
    from macop_aht.learner.threads import use_threads

    use_threads(default_threads())
    export(Path(arguments.run_folder), Path(arguments.out), _apply_settings(RecogniserConfig(), arguments))
    print(f"wrote {arguments.out}")


def _crossplay(arguments: argparse.Namespace) -> None:
    from pathlib import Path

    from macop_aht.evaluation import crossplay
    from macop_aht.scenarios import build
    from macop_aht.teammates import resolve

    world = build(arguments.scenario)
    policies = [policy for spec in arguments.policies for policy in resolve(spec, world, arguments.scenario)]
    returns = crossplay.matrix(world, policies, arguments.episodes, arguments.seed)
    names = [policy.name.split(":")[-1] for policy in policies]
    print(crossplay.summary(returns))
    crossplay.write(
        returns, names, f"{arguments.scenario}: ego in the row, teammate in the column", Path(arguments.out)
    )


def _zoo_list(arguments: argparse.Namespace) -> None:
    from macop_aht import zoo

    print(f"{'name':16}{'split':12}{'self-play':>10}{'best response':>15}  does")
    for card in zoo.cards(arguments.scenario, arguments.zoo).values():
        print(f"{card.name:16}{card.split:12}{card.self_play:10.2f}{card.best_response:15.2f}  {', '.join(card.tags)}")


def _zoo_add(arguments: argparse.Namespace) -> None:
    from pathlib import Path

    from macop_aht import places
    from macop_aht.evaluation.curation import add

    target = places.find("zoo", arguments.zoo)
    limits = (arguments.most, arguments.least)
    cards = add(Path(arguments.run_folder), target, arguments.split, *limits, instead=arguments.replace)
    if not cards:
        print("no group was added: the run has generated none that is new and good enough")
    for card in cards:
        print(f"{card.name}: self-play {card.self_play:.2f}, {', '.join(card.tags) or 'no deed'} ({card.precision})")


def _zoo_verify(arguments: argparse.Namespace) -> None:
    from macop_aht import places
    from macop_aht.evaluation.curation import verify
    from macop_aht.scenarios import SCENARIOS

    target, wrong = places.find("zoo", arguments.zoo), 0
    present = [name for name in SCENARIOS if (target / name).is_dir()]
    for scenario, name, complaint in verify(target, arguments.scenarios or present):
        wrong += bool(complaint)
        print(f"{scenario} {name}: {complaint or 'as its card says'}")
    if wrong:
        raise ValueError(f"{wrong} groups are not as their cards say")


class _Bar:
    """What is being done, steps, return, steps per second and time left, on a line; for runs in phases, a line for the whole."""

    def __init__(self, steps: int, whole_run: bool = False) -> None:
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (
            TextColumn("{task.description}"),
            TextColumn("{task.completed:,.0f}/{task.total:,.0f} steps"),
            BarColumn(20),
        )
        self._progress = Progress(*columns, TextColumn("{task.fields[figures]}"), TimeRemainingColumn())
        self._whole = self._progress.add_task("run, at most", total=steps, figures="", visible=whole_run)
        self._task = self._progress.add_task("self-play", total=steps, figures="")

    def show(self, progress: Any) -> None:
        speed = progress.steps / max(progress.seconds, 1e-9)
        figures = f"return {progress.mean_return:.2f}, {speed:,.0f} steps/s"
        self._progress.update(self._task, completed=progress.steps, figures=figures)

    def show_status(self, status: Any) -> None:
        if self._progress.tasks[-1].description != status.phase:
            self._progress.reset(self._task, total=status.steps, description=status.phase)
        self.show(status.progress)
        heads = "" if status.heads is None else f"{status.heads} head{'s' if status.heads > 1 else ''}"
        compatible = "" if status.compatibility is None else f", C = {status.compatibility:.2f}"
        done = status.spent + status.progress.steps
        self._progress.update(self._whole, completed=done, figures=heads + compatible)

    def say(self, line: str) -> None:
        self._progress.console.print(line)

    def __enter__(self) -> _Bar:
        self._progress.start()
        return self

    def __exit__(self, *reason: object) -> None:
        self._progress.stop()


def _add_settings(parser: argparse.ArgumentParser, kind: type) -> None:
    """An option for every value of a configuration by its path, and by its last word for all of that name at once."""
    from macop_aht.config import settings

    group = parser.add_argument_group("settings", "without them, what is recommended for the scenario")
    found = settings(kind)
    words = [setting.path.split(".")[-1] for setting in found]
    for setting, word in zip(found, words, strict=True):
        if word != setting.path:
            _add_setting(group, setting.path, setting)
    for word in dict.fromkeys(words):
        _add_setting(group, word, found[words.index(word)])


def _add_setting(group: Any, name: str, setting: Any) -> None:
    choices = getattr(setting.kind, "__args__", None)
    group.add_argument(
        f"--{name.replace('_', '-')}",
        dest=f"settings.{name}",
        type=_truth if setting.kind is bool else str if choices else setting.kind,
        choices=choices,
        metavar=None if choices else {bool: "yes|no", int: "N", float: "X"}.get(setting.kind, "TEXT"),
        help=setting.about.replace("%", "%%"),
    )


def _apply_settings(config: Any, arguments: argparse.Namespace) -> Any:
    """What was set by a last word first, then what was set by its whole path."""
    from macop_aht.config import as_tree, changed, settings

    def given(name: str) -> Any:
        return getattr(arguments, f"settings.{name}", None)

    paths = [setting.path for setting in settings(type(config))]
    values = {path: given(path.split(".")[-1]) for path in paths} | {
        path: given(path) for path in paths if given(path) is not None
    }
    return changed(config, as_tree({path: value for path, value in values.items() if value is not None}))


def _truth(text: str) -> bool:
    if text not in ("yes", "no"):
        raise argparse.ArgumentTypeError(f"{text!r} is neither yes nor no")
    return text == "yes"


def _add_run_options(parser: argparse.ArgumentParser) -> None:
    """What all commands that train have in common."""
    parser.add_argument("scenario", help="such as LBF4")
    parser.add_argument("--out", required=True, metavar="RUN", help="the run's folder")
    parser.add_argument("--resume", action="store_true", help="go on with the run in that folder")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:NUMBER (default: %(default)s)")
    parser.add_argument("--threads", type=_positive, help="of the processor (default: up to two)")


def _add_method(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    """The method, and the settings of the one that these words choose."""
    from macop_aht.methods.runs import METHODS, find

    about = "; ".join(f"{name}: {method.about}" for name, method in METHODS.items())
    parser.add_argument("--method", default="macop", help=f"{about}. Its settings are below (default: %(default)s)")
    chosen = argparse.ArgumentParser(add_help=False)
    chosen.add_argument("--method", default="macop")
    _add_settings(parser, find(chosen.parse_known_args(words)[0].method).config)


def _add_zoo(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    listing = actions.add_parser("list", help="the groups of a scenario")
    listing.add_argument("scenario", help="such as LBF4")
    listing.set_defaults(run=_zoo_list)
    adding = actions.add_parser("add", help="put the groups of a finished run into the zoo")
    adding.add_argument("run_folder", metavar="RUN")
    adding.add_argument("--split", choices=("train", "validation", "test"), required=True)
    adding.add_argument("--most", type=_positive, help="groups to add at most")
    adding.add_argument(
        "--least", type=float, default=0.0, help="self-play that a group must have (default: %(default)s)"
    )
    adding.add_argument(
        "--replace", action="store_true", help="in the place of what the zoo has of this generator and seed"
    )
    adding.set_defaults(run=_zoo_add)
    verifying = actions.add_parser("verify", help="recompute every figure on every card")
    verifying.add_argument("scenarios", nargs="*", help="(default: all)")
    verifying.set_defaults(run=_zoo_verify)
    for action in (listing, adding, verifying):
        action.add_argument("--zoo", metavar="FOLDER", help="another zoo than the installed one")


def _add_pool(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run_folders", nargs="+", metavar="RUN", help="finished runs of one scenario")
    parser.add_argument("--episodes", type=_positive, default=32, help="per pairing (default: %(default)s)")
    parser.add_argument("--out", required=True, metavar="FILE", help="where to write a row per episode, as CSV")
    parser.add_argument(
        "--by-folder",
        action="store_true",
        help="call a run by the folder it is in, as NAME in NAME/0, not by its method",
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=_positive, default=1, help="of the processor (default: %(default)s)")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:NUMBER (default: %(default)s)")
    parser.set_defaults(run=_pool)


def _add_sequence(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run_folders", nargs="+", metavar="RUN", help="finished runs of one scenario")
    parser.add_argument("--length", type=int, default=10, help="groups in it; 0: all (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", required=True, metavar="FOLDER", help="that `macop train --groups` takes")
    parser.set_defaults(run=_sequence)


def _add_campaign(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE.toml", help="scenarios, methods, seeds, preset, settings by method")
    parser.add_argument(
        "--out",
        required=True,
        metavar="FOLDER",
        help="of the campaign; where it holds a part of it, that is gone on with",
    )
    parser.add_argument(
        "--executor",
        choices=("processes", "ray"),
        default="processes",
        help="processes of this machine, or a Ray cluster whose nodes share the campaign's folder (default: %(default)s)",
    )
    parser.add_argument("--address", default="auto", help="of the Ray cluster (default: %(default)s)")
    parser.add_argument("--processes", type=_positive, help="at a time (default: what the file says, or 2)")
    parser.add_argument("--threads", type=_positive, help="of each process (default: what the file says, or 1)")
    parser.add_argument("--device", help="auto, cpu, cuda or cuda:NUMBER (default: what the file says, or auto)")
    parser.set_defaults(run=_campaign)


def _add_reproduce(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", choices=REPRODUCTIONS)
    parser.add_argument(
        "--campaign",
        metavar="FOLDER",
        help="that `macop campaign` has written; without one, fig-space takes the zoo's groups",
    )
    parser.add_argument("--out", metavar="FOLDER", help="where to write to (default: reproduction, in the campaign's)")
    parser.set_defaults(run=_reproduce)


def _parser(words: Sequence[str]) -> argparse.ArgumentParser:
    """For these words: settings are added to the command that is run only, since they need torch, and are its method's."""
    command = words[0] if words else ""
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
    demo.add_argument("--train", action="store_true", help="also train an ego on LBF4, in two or three minutes")
    demo.set_defaults(run=_demo)
    selfplay = commands.add_parser("selfplay", help="train teams by self-play")
    _add_run_options(selfplay)
    selfplay.add_argument(
        "--checkpoint-every",
        type=float,
        default=60.0,
        metavar="SECONDS",
        help="at most so often (default: %(default)s)",
    )
    if command == "selfplay":
        from macop_aht.learner.selfplay import SelfPlayConfig

        _add_settings(selfplay, SelfPlayConfig)
    selfplay.set_defaults(run=_selfplay)
    train = commands.add_parser("train", help="train an ego agent, and the teammates that it learns with")
    _add_run_options(train)
    train.add_argument(
        "--preset",
        choices=("paper", "fast", "demo"),
        default="fast",
        help="paper: its numbers of steps; fast: fewer updates where these are measured to do as well; demo: a minute or two "
        "(default: %(default)s)",
    )
    evaluation = commands.add_parser("evaluate", help="tell how good an agent is with teammates that it has not met")
    evaluation.add_argument(
        "agents",
        nargs="+",
        metavar="AGENT",
        help="the FOLDER of an ego bundle, scripted:NAME, random, FILE.onnx, FILE.zip, or MODULE:FACTORY; several are one "
        "method's, of several runs",
    )
    evaluation.add_argument("--scenario", required=True, help="such as LBF4")
    evaluation.add_argument(
        "--teammates", nargs="+", default=["zoo:test", "scripted"], help="(default: zoo:test scripted)"
    )
    evaluation.add_argument(
        "--seen", nargs="+", default=[], help="teammates that it was trained with, such as zoo:train"
    )
    evaluation.add_argument("--episodes", type=_positive, default=32, help="per teammate (default: %(default)s)")
    evaluation.add_argument(
        "--selector", default="meta-test", help="how a bundle chooses its heads (default: %(default)s)"
    )
    evaluation.add_argument(
        "--budget", type=_positive, metavar="N", help="episodes per teammate for that (default: 4 per head)"
    )
    evaluation.add_argument("--seed", type=int, default=0)
    evaluation.add_argument("--csv", metavar="FILE", help="where to write a row per episode")
    evaluation.add_argument("--html", metavar="FILE", help="where to write a page with the table and plots")
    evaluation.set_defaults(run=_evaluate)
    exporting = commands.add_parser("export", help="write a trained ego as an ONNX bundle, for apps without torch")
    exporting.add_argument("run_folder", metavar="RUN")
    exporting.add_argument("--out", required=True, metavar="FOLDER")
    if command == "export":
        from macop_aht.deploy.recogniser import RecogniserConfig

        _add_settings(exporting, RecogniserConfig)
    exporting.set_defaults(run=_export)
    crossplay = commands.add_parser("crossplay", help="the matrix of who gets on with whom")
    crossplay.add_argument("scenario", help="such as LBF4")
    crossplay.add_argument("policies", nargs="+", help="such as zoo:train scripted:nearest FILE.onnx")
    crossplay.add_argument("--episodes", type=_positive, default=32, help="per pairing (default: %(default)s)")
    crossplay.add_argument("--seed", type=int, default=0)
    crossplay.add_argument("--out", default="crossplay", help="writes OUT.csv and OUT.png (default: %(default)s)")
    crossplay.set_defaults(run=_crossplay)
    _add_sequence(commands.add_parser("sequence", help="one sequence of groups of some runs, for continual learners"))
    _add_pool(commands.add_parser("pool", help="the egos of some runs with all groups that these have generated"))
    _add_campaign(commands.add_parser("campaign", help="run methods x scenarios x seeds, and evaluate them"))
    _add_reproduce(commands.add_parser("reproduce", help="the paper's tables and figures from a campaign"))
    comparison = commands.add_parser("compare", help="compare two agents by the rows of their evaluations")
    comparison.add_argument("first", metavar="A.csv")
    comparison.add_argument("second", metavar="B.csv")
    comparison.set_defaults(run=_compare)
    _add_zoo(commands.add_parser("zoo", help="list, add or verify teammate groups"))
    if command == "train":
        _add_method(train, words)
    train.set_defaults(run=_train)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; a user's mistake gives one line, not a traceback."""
    words = sys.argv[1:] if argv is None else list(argv)
    try:
        arguments = _parser(words).parse_args(words)
        code = arguments.run(arguments)
    except KeyboardInterrupt:
        print("macop: stopped; a run goes on with --resume, a campaign by the same command", file=sys.stderr)
        return 130
    except (ValueError, TypeError, KeyError, OSError, ImportError, RuntimeError) as error:
        print(f"macop: {error.args[0] if isinstance(error, KeyError) else error}", file=sys.stderr)
        return 2
    return code or 0
