"""The command that tells whether an environment can be used."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from macop_aht.cli.options import Commands

MARKS = {"yes": "ok  ", "no": "NO  ", "note": "note"}


def _check(arguments: argparse.Namespace) -> int:
    from macop_aht.scenarios import find
    from macop_aht.scenarios.external.check import check

    usable = True
    for finding in check(find(arguments.environment).family):
        print(f"{MARKS[finding.verdict]}  {finding.what}")
        usable &= finding.verdict != "no"
    print(f"{arguments.environment} {'can be used' if usable else 'cannot be used yet'}")
    return 0 if usable else 2


def add_check(commands: Commands, words: Sequence[str]) -> None:
    parser = commands.add_parser("check", help="tell whether an environment of yours can be used, and what is missing")
    parser.add_argument(
        "environment",
        metavar="MODULE:FUNCTION",
        help="function that makes it, or External(...), such as my_module:make_env; or the name of a scenario",
    )
    parser.set_defaults(run=_check)
