"""The command that converts files of earlier versions."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from macop_aht.cli.options import Commands


class Converter(NamedTuple):
    """What converts one kind of content. Its module has the functions `find` and `convert`.

    `find(path)` returns what is of an earlier format in or under a path, `convert(found, say)` converts one of these in place.
    """

    what: str
    module: str


CONVERTERS = (  # in this order: a campaign's status is made from its runs
    Converter("run", "macop_aht.runs.convert"),
    Converter("campaign", "macop_aht.campaign.convert"),
)


def convert(paths: Sequence[Path], say: Callable[[str], None] = print) -> int:
    """Convert all that is of an earlier format in or under these paths; return how many folders were converted."""
    for path in paths:
        if not path.exists():
            raise FileNotFoundError(f"there is nothing at {path}")
    count = 0
    for converter in CONVERTERS:
        module = import_module(converter.module)
        for found in [found for path in paths for found in module.find(path)]:
            module.convert(found, say)
            say(f"{converter.what} {found}: converted")
            count += 1
    return count


def _convert(arguments: argparse.Namespace) -> None:
    if not convert([Path(path) for path in arguments.paths]):
        print("nothing to convert: everything there is of the present format")


def add_convert(commands: Commands, words: Sequence[str]) -> None:
    parser = commands.add_parser("convert", help="convert runs and campaigns of earlier versions, in place")
    parser.add_argument("paths", nargs="+", metavar="PATH", help="a folder, or one that has such folders in it")
    parser.set_defaults(run=_convert)
