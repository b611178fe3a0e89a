"""Commands that share what was trained: `export` an ego as a bundle, add groups to the `zoo`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from macop_aht.cli.options import Commands, add_settings, add_workers, apply_settings, positive
from macop_aht.util import show


def _export(arguments: argparse.Namespace) -> None:
    from macop_aht.export.bundle import export
    from macop_aht.export.config import ExportConfig
    from macop_aht.learner.device import default_threads
    from macop_aht.learner.threads import use_threads

    use_threads(default_threads())
    export(Path(arguments.run_folder), Path(arguments.out), apply_settings(ExportConfig(), arguments))
    show(f"wrote {arguments.out}")


def _zoo_list(arguments: argparse.Namespace) -> None:
    from macop_aht import zoo

    cards = zoo.cards(arguments.scenario, arguments.zoo)
    show(f"{'name':16}{'split':12}{'self-play':>10}{'best response':>15}  outcomes")
    for card in cards.values():
        show(
            f"{card.name:16}{card.split:12}{card.self_play:10.2f}{card.best_response:15.2f}  {', '.join(card.outcomes)}"
        )


def _zoo_add(arguments: argparse.Namespace) -> None:
    from macop_aht import paths
    from macop_aht.evaluation.curation import Addition, add

    if arguments.zoo:
        Path(arguments.zoo).mkdir(parents=True, exist_ok=True)
    target = paths.find("zoo", arguments.zoo)
    what = Addition(arguments.split, arguments.most, arguments.least, arguments.replace)
    cards = add(Path(arguments.run_folder), target, what)
    if not cards:
        show("nothing was added: the run has no group that is new and reaches --least")
    for card in cards:
        show(
            f"{card.name}: self-play {card.self_play:.2f}, {', '.join(card.outcomes) or 'no outcome'} ({card.precision})"
        )


def _zoo_verify(arguments: argparse.Namespace) -> None:
    from macop_aht import paths
    from macop_aht.evaluation.curation import verify
    from macop_aht.scenarios import find
    from macop_aht.zoo.cards import INDEX

    target = paths.find("zoo", arguments.zoo)
    asked = [find(name).name if ":" in name else name for name in arguments.scenarios]
    asked = asked or sorted(path.name for path in target.glob("[!._]*") if path.is_dir())
    if not asked:
        raise ValueError(f"there is nothing to verify in {target}; name another folder with --zoo")
    wrong, unread = 0, []
    for scenario, name, complaint in verify(target, asked):
        show(f"{scenario} {name}: {complaint or 'as its card says'}")
        if name == INDEX:
            unread.append(scenario)
        else:
            wrong += bool(complaint)
    problems = [f"{wrong} groups are not as their cards say"] if wrong else []
    if unread:
        about = "a scenario of your own is registered by macop --import MODULE zoo verify"
        problems.append(f"there is no telling of {', '.join(unread)} in {target}; {about}")
    if problems:
        raise ValueError("; ".join(problems))


def add_export(commands: Commands, words: Sequence[str]) -> None:
    parser = commands.add_parser("export", help="write a trained ego as a bundle of ONNX files, for apps without torch")
    about = (
        "folder of a finished run, or of a bundle whose groups are in the zoo; such a bundle keeps the heads of its run"
    )
    parser.add_argument("run_folder", metavar="RUN", help=about)
    parser.add_argument("--out", required=True, metavar="FOLDER", help="new folder of the bundle")
    if words[:1] == ["export"]:
        from macop_aht.export.config import ExportConfig

        add_settings(parser, ExportConfig)
    add_workers(parser)
    parser.set_defaults(run=_export)


def add_zoo(commands: Commands, words: Sequence[str]) -> None:
    parser = commands.add_parser("zoo", help="list, add or verify teammate groups")
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    listing = actions.add_parser("list", help="list the groups of a scenario with their cards' figures")
    listing.add_argument("scenario", help="name of a scenario, such as LBF4 (`macop scenarios` lists them)")
    listing.set_defaults(run=_zoo_list)
    adding = actions.add_parser("add", help="add the groups of a finished run to the zoo")
    adding.add_argument("run_folder", metavar="RUN", help="folder of a finished run")
    adding.add_argument(
        "--split", choices=("train", "validation", "test"), required=True, help="split that the groups belong to"
    )
    adding.add_argument(
        "--most", type=positive, metavar="N", help="largest number of groups to add, at least 1 (default: all)"
    )
    adding.add_argument(
        "--least",
        type=float,
        metavar="X",
        help="smallest self-play return of a group to add (default: any)",
    )
    adding.add_argument(
        "--replace", action="store_true", help="replace the groups of the same method and seed that are in the zoo"
    )
    adding.set_defaults(run=_zoo_add)
    verifying = actions.add_parser("verify", help="recompute every figure on every card")
    verifying.add_argument(
        "scenarios", nargs="*", metavar="SCENARIO", help="names of scenarios, such as LBF4 (default: all in the zoo)"
    )
    verifying.set_defaults(run=_zoo_verify)
    for action in (listing, adding, verifying):
        action.add_argument(
            "--zoo",
            metavar="FOLDER",
            help="folder of the zoo (default: that of the environment variable MACOP_ZOO, else the shipped one)",
        )
