"""The command line: parse, call, print. A command's options and its function are in the same module."""

from __future__ import annotations

import argparse
import sys
import sysconfig
import traceback
from collections.abc import Sequence
from pathlib import Path

from macop_aht import paths
from macop_aht.cli import browsing, campaigns, converting, judging, sharing, training
from macop_aht.cli.examples import add_examples
from macop_aht.version import __version__

COMMANDS = (  # in the order of the help
    browsing.add_scenarios, browsing.add_teammates, browsing.add_demo,
    training.add_selfplay, training.add_train, training.add_sequence,
    judging.add_evaluate, judging.add_compare, judging.add_crossplay, judging.add_pool,
    campaigns.add_campaign, campaigns.add_reproduce,
    sharing.add_export, sharing.add_zoo, converting.add_convert,
)  # fmt: skip


def _parser(words: Sequence[str]) -> argparse.ArgumentParser:
    """Return the parser. Only the command in `words` gets options for its settings, because these need torch."""
    parser = argparse.ArgumentParser(
        prog="macop", description="Ad-hoc teamwork: agents meet teammates they have never seen."
    )
    parser.add_argument("--version", action="version", version=f"macop-aht {__version__}")
    parser.add_argument(
        "--import",
        metavar="MODULE",
        help="Python module to import first, which may register scenarios and methods; stands before COMMAND",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for add in COMMANDS:
        add(commands, words)
    add_examples(parser)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return the exit code. A user's mistake prints one line, not a traceback."""
    words = sys.argv[1:] if argv is None else list(argv)
    try:
        words = _imported(words)
        arguments = _parser(words).parse_args(words)
        code = arguments.run(arguments)
    except KeyboardInterrupt:
        print("macop: stopped; resume a run with --resume, a campaign with the same command", file=sys.stderr)
        return 130
    except (ValueError, TypeError, KeyError, OSError, ImportError, RuntimeError) as error:
        print(f"macop: {error.args[0] if isinstance(error, KeyError) else error}{_origin(error)}", file=sys.stderr)
        return 2
    return code or 0


def _imported(words: list[str]) -> list[str]:
    """Import the modules named before the command, as `--import MODULE` or `--import=MODULE`; return the other words."""
    names = []
    while words and words[0].partition("=")[0] == "--import" and (len(words) > 1 or "=" in words[0]):
        _, given, name = words[0].partition("=")
        names.append(name if given else words[1])
        words = words[1 if given else 2 :]
    paths.import_first(names)
    return words


def _origin(error: Exception) -> str:
    """Return the place in the user's own code that an error comes from; "" where there is none."""
    installed = [paths.PACKAGE, *(Path(sysconfig.get_path(name)) for name in ("stdlib", "purelib", "platlib"))]
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if Path(frame.filename).is_file()
        and not any(Path(frame.filename).is_relative_to(folder) for folder in installed)
    ]
    return f" ({type(error).__name__}, {frames[-1].filename}, line {frames[-1].lineno})" if frames else ""
