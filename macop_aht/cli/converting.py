"""The command that converts files of earlier versions."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from macop_aht.cli.options import Commands
from macop_aht.util import show

Say = Callable[[str], None]


def _runs(path: Path, say: Say) -> Iterator[Path]:
    from macop_aht.runs import convert

    for folder in convert.find(path):
        convert.convert(folder, say)
        yield folder


def _campaigns(path: Path, say: Say) -> Iterator[Path]:
    from macop_aht.campaign import convert

    for folder in convert.find(path):
        convert.convert(folder, say)
        yield folder


def _bundles(path: Path, say: Say) -> Iterator[Path]:
    from macop_aht.deploy.convert import convert_bundle
    from macop_aht.deploy.files import MANIFEST

    yield from (file.parent for file in _files(path, MANIFEST) if convert_bundle(file.parent))


def _zoos(path: Path, say: Say) -> Iterator[Path]:
    from macop_aht.zoo.cards import INDEX
    from macop_aht.zoo.convert import convert_zoo

    yield from (file.parent for file in _files(path, INDEX) if convert_zoo(file.parent))


def _rows(path: Path, say: Say) -> Iterator[Path]:
    from macop_aht.evaluation.rows import convert_rows

    named = [path] if path.is_file() else _files(path, "rows.csv") + _files(path, "rows.csv.gz")
    yield from (file for file in named if convert_rows(file))


def _files(path: Path, name: str) -> list[Path]:
    """The files of that name in or under a path."""
    return [file for file in (path / name, *sorted(path.rglob(f"*/{name}"))) if file.is_file()]


# Each converts what is of an earlier format in or under a path, and yields it.
CONVERTERS: dict[
    str, Callable[[Path, Say], Iterator[Path]]
] = {  # a campaign's status is made from its runs: they come first
    "run": _runs,
    "campaign": _campaigns,
    "bundle": _bundles,
    "zoo": _zoos,
    "result rows": _rows,
}


def convert(paths: Sequence[Path], say: Say = show) -> int:
    """Convert all that is of an earlier format in or under these paths; return how many things were converted."""
    for path in paths:
        if not path.exists():
            raise FileNotFoundError(f"there is nothing at {path}")
    count = 0
    for kind, converter in CONVERTERS.items():
        for path in paths:
            if path.is_file() and kind != "result rows":
                continue
            for found in converter(path, say):
                say(f"{kind} {found}: converted")
                count += 1
    return count


def _convert(arguments: argparse.Namespace) -> None:
    if not convert([Path(path) for path in arguments.paths]):
        show("nothing to convert: everything there is of the present format")


def add_convert(commands: Commands, words: Sequence[str]) -> None:
    parser = commands.add_parser(
        "convert", help="convert files of earlier versions in place: runs, campaigns, bundles, zoos and result rows"
    )
    parser.add_argument(
        "paths",
        nargs="+",
        metavar="PATH",
        help="folder of a run, campaign, bundle or zoo, or a folder that contains such folders, or a CSV file of result rows",
    )
    parser.set_defaults(run=_convert)
