"""The command line: parse, call, print. A command's options and its function are in the same module."""

from __future__ import annotations

import argparse
import os
import sys
import sysconfig
import traceback
from collections.abc import Sequence
from contextlib import suppress
from io import TextIOWrapper
from pathlib import Path

from macop_aht import paths
from macop_aht.cli import browsing, campaigns, checking, converting, judging, playing, sharing, training
from macop_aht.cli.examples import add_examples
from macop_aht.cli.options import Parser
from macop_aht.util import TooLarge, plain
from macop_aht.version import __version__

COMMANDS = (  # in the order of the help
    browsing.add_scenarios, browsing.add_teammates, browsing.add_demo, checking.add_check,
    playing.add_play, playing.add_watch,
    training.add_selfplay, training.add_train, training.add_sequence,
    judging.add_evaluate, judging.add_compare, judging.add_crossplay, judging.add_pool,
    campaigns.add_campaign, campaigns.add_reproduce,
    sharing.add_export, sharing.add_zoo, converting.add_convert,
)  # fmt: skip


EXPECTED = (ValueError, TypeError, KeyError, OSError, ImportError, RuntimeError, TooLarge)  # of a user's mistakes
LONGEST = 2_000  # characters of a message
SMALLER = "make smaller what the command was given: episodes, envs, capacity, batch, hidden, population or teams"


def _parser(words: Sequence[str]) -> argparse.ArgumentParser:
    """Return the parser. Only the command in `words` gets options for its settings, because these need torch."""
    parser = Parser(prog="macop", description="Ad-hoc teamwork: agents meet teammates they have never seen.")
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
    """Run a command and return the exit code. What goes wrong is told in one line, after a traceback with `MACOP_TRACEBACK=1`."""
    words = sys.argv[1:] if argv is None else list(argv)
    try:
        try:
            return _run(words)
        finally:
            for stream in (sys.stdout, sys.stderr):
                if stream is not None:
                    stream.flush()
    except BrokenPipeError:  # whoever reads the output has had enough
        return _silenced(141)
    except KeyboardInterrupt:
        print("macop: stopped; resume a run with --resume, a campaign with the same command", file=sys.stderr)
        return 130
    except Exception as error:
        if os.environ.get("MACOP_TRACEBACK"):
            traceback.print_exception(error)
        print(f"macop: {plain(_told(error) + _origin(error), LONGEST)}", file=sys.stderr)
        return _silenced(2)


def _run(words: list[str]) -> int:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal without Unicode stops nothing
    words = _imported(words)
    arguments = _parser(words).parse_args(words)
    if getattr(arguments, "workers", None):
        os.environ[paths.WORKERS] = str(arguments.workers)
    return arguments.run(arguments) or 0


def _silenced(code: int) -> int:
    """Return the code. What could not be written to standard output is dropped, so that the interpreter does not complain."""
    try:
        sys.stdout.flush()
    except (AttributeError, OSError):
        with suppress(AttributeError, OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return code


def _told(error: Exception) -> str:
    """Return an error in words: what came, and what to do."""
    text = str(error.args[0] if isinstance(error, KeyError) and error.args else error) or type(error).__name__
    if (isinstance(error, MemoryError) and not isinstance(error, TooLarge)) or "can't allocate memory" in text:
        return f"there is not enough memory ({text}); {SMALLER}"
    if isinstance(error, RecursionError):
        return f"something is nested too deeply, or calls itself without end ({text})"
    if isinstance(error, EXPECTED):
        return text
    return f"unexpected {type(error).__name__}: {text}. MACOP_TRACEBACK=1 in front of the command shows where it comes from"


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
