"""Options that several commands share, and options for the settings of a configuration."""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any, NoReturn

from macop_aht.config import LARGEST
from macop_aht.util import plain

MOST = 10**7  # of things that are counted, such as episodes
Commands = Any  # argparse's subparsers; their type has no name outside of it


class Parser(argparse.ArgumentParser):
    """A parser whose errors are safe to print."""

    def error(self, message: str) -> NoReturn:
        super().error(plain(message, 500))


def positive(text: str) -> int:
    """Return a number of things, at least 1."""
    return _whole(text, 1, MOST)


def seed(text: str) -> int:
    """Return a seed, or another whole number of at least 0."""
    return _whole(text, 0, LARGEST)


def number(text: str) -> float:
    """Return a finite number of at least 0."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value >= 0):
        raise argparse.ArgumentTypeError(f"{text!r} is not a finite number of at least 0")
    return value


def _whole(text: str, least: int, most: int) -> int:
    digits = text.lstrip("0") or "0"
    if not (text.isascii() and text.isdigit() and len(digits) <= len(str(most)) and least <= int(digits) <= most):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least {least} and at most {most}")
    return int(digits)


def new_file(text: str) -> Path:
    """Return the path of a file to write. Its folder is made at once, so that a wrong path fails before anything is played."""
    path = Path(text)
    if path.is_dir():
        raise argparse.ArgumentTypeError(f"{text!r} is a folder; name a file")
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def add_workers(parser: argparse.ArgumentParser) -> None:
    """Add the option for processes that step a user's environments."""
    parser.add_argument(
        "--workers",
        type=positive,
        metavar="N",
        help="number of processes that step the environments, at least 1, if these are not the suite's own (default: 1)",
    )


def add_run_options(parser: argparse.ArgumentParser, from_file: bool = False) -> None:
    """Add the options of all commands that train. `from_file`: a file may give the scenario and the seed."""
    file_or = "that of --config, else " if from_file else ""
    about = "name of a scenario, such as LBF4, or MODULE:FUNCTION that makes an environment" + (
        " (may be left out with --config)" if from_file else ""
    )
    parser.add_argument("scenario", nargs="?" if from_file else None, help=about)
    parser.add_argument(
        "--out", required=True, metavar="RUN", help="folder of the run; it must not hold a run, except with --resume"
    )
    parser.add_argument("--resume", action="store_true", help="resume the unfinished run in that folder")
    parser.add_argument(
        "--seed",
        type=seed,
        metavar="N",
        default=None if from_file else 0,
        help=f"seed of all random draws, at least 0; the same seed gives the same weights (default: {file_or}0)",
    )
    parser.add_argument(
        "--device",
        default="auto",
        help="auto (CUDA if available, else the CPU), cpu, cuda or cuda:NUMBER (default: %(default)s)",
    )
    parser.add_argument(
        "--threads",
        type=positive,
        metavar="N",
        help=f"number of CPU threads, at least 1 (default: {file_or}2, or 1 on one core)",
    )
    add_workers(parser)


FIRST = (  # the settings that people change, by the last word of their paths
    "groups", "population", "steps", "teammate_steps", "ego_steps", "min_iterations", "max_iterations", "stop_threshold",
    "test_episodes", "alpha_div", "alpha_incom", "alpha_reg", "alpha_distil", "alpha_cross", "alpha_rehearsal", "mu",
    "ratio", "mixer", "learner",
)  # fmt: skip


def add_settings(parser: argparse.ArgumentParser, kind: type, config: Any = None) -> None:
    """Add an option for every value of a configuration by its path, and by its last word for all of that name at once.

    First come the settings that people change, then the rest by their tables. The defaults shown are those of `config`, or
    of the kind.
    """
    from dataclasses import replace

    from macop_aht.config import settings

    found, values = settings(kind), _values(config if config is not None else kind())
    by_word: dict[str, list[Any]] = {}
    for setting in found:
        by_word.setdefault(setting.path.rpartition(".")[2], []).append(setting)
    several = "An option without a dot sets every setting of that name. The options with a dot below set one alone."
    about = several if any("." in setting.path for setting in found) else None
    groups = {"settings": parser.add_argument_group("settings", about)}
    groups["further settings"] = parser.add_argument_group("further settings")
    for word, own in by_word.items():
        defaults = list(dict.fromkeys(values[setting.path] for setting in own))
        shown = _text(defaults[0]) if len(defaults) == 1 else "differs, see below"
        every = replace(own[0], about="; ".join(dict.fromkeys(setting.about for setting in own)))
        _add_setting(groups["settings" if word in FIRST else "further settings"], word, every, shown)
    for setting in found:
        table = setting.path.rpartition(".")[0]
        if table:
            title = f"settings of {table.replace('_', '-')} alone"
            if title not in groups:
                groups[title] = parser.add_argument_group(title)
            _add_setting(groups[title], setting.path, setting, _text(values[setting.path]))


def _values(config: Any, where: str = "") -> dict[str, Any]:
    """The values of a configuration by their paths."""
    from dataclasses import fields, is_dataclass

    found: dict[str, Any] = {}
    for own in fields(config):
        value = getattr(config, own.name)
        found |= _values(value, f"{where}{own.name}.") if is_dataclass(value) else {where + own.name: value}
    return found


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value == "" else str(value)


def _add_setting(group: Any, name: str, setting: Any, default: str) -> None:
    choices = getattr(setting.kind, "__args__", None)
    group.add_argument(
        f"--{name.replace('_', '-')}",
        dest=f"settings.{name}",
        type=_truth if setting.kind is bool else str if choices else setting.kind,
        choices=choices,
        metavar=None if choices else {bool: "yes|no", int: "N", float: "X"}.get(setting.kind, "TEXT"),
        help=f"{setting.about} (default: {default})".replace("%", "%%"),
    )


def apply_settings(config: Any, arguments: argparse.Namespace) -> Any:
    """Return the configuration with the options that were given; options by a whole path override those by a last word."""
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
