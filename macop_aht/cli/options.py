"""Options that several commands have, and those that a configuration gives."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

Commands = Any  # argparse's subparsers; their type has no name outside of it


def positive(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(text)


def seed(text: str) -> int:
    if not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 0")
    return int(text)


def new_file(text: str) -> Path:
    """Where something will be written; its folder is made at once, so that nothing is played in vain."""
    path = Path(text)
    if path.is_dir():
        raise argparse.ArgumentTypeError(f"{text!r} is a folder; name a file")
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def add_run_options(parser: argparse.ArgumentParser) -> None:
    """What all commands that train have in common."""
    parser.add_argument("scenario", help="such as LBF4")
    parser.add_argument("--out", required=True, metavar="RUN", help="the run's folder")
    parser.add_argument("--resume", action="store_true", help="go on with the run in that folder")
    parser.add_argument("--seed", type=seed, default=0)
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:NUMBER (default: %(default)s)")
    parser.add_argument("--threads", type=positive, help="of the processor (default: up to two)")


def add_settings(parser: argparse.ArgumentParser, kind: type) -> None:
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


def apply_settings(config: Any, arguments: argparse.Namespace) -> Any:
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
