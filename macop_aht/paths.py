"""The places of content (the zoo and the agents), the user's modules, and the version that is running.

A folder of content is given explicitly, named by an environment variable, packaged with the code, or next to it in a checkout.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import traceback
from collections.abc import Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import ModuleType

PACKAGE = Path(__file__).parent
IMPORTS = "MACOP_IMPORT"  # environment variable: modules to import first, separated by commas
WORKERS = "MACOP_WORKERS"  # environment variable: processes that step environments that are not the suite's own
imported: list[str] = []  # the modules that were imported first; child processes import them too


def module(name: str) -> ModuleType:
    """Import a module of the user's, also from the working folder, and return it.

    Raises `ImportError` where it cannot be imported, whatever happens in it.
    """
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        return importlib.import_module(name)
    except (Exception, SystemExit) as error:
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "importlib" not in frame.filename]
        place = f", {frames[-1].filename}, line {frames[-1].lineno}" if frames[1:] else ""
        raise ImportError(f"cannot import {name!r}: {error} ({type(error).__name__}{place})") from error


def import_first(names: Sequence[str]) -> None:
    """Import the user's modules, which may register scenarios: those named, and those of `MACOP_IMPORT`."""
    imported[:] = [*filter(None, os.environ.get(IMPORTS, "").split(",")), *names]
    for name in imported:
        module(name)


def find(kind: str, explicit: str | Path | None = None) -> Path:
    """Return the folder of `zoo` or `agents`. Raises `FileNotFoundError` with the places that were tried."""
    variable = f"MACOP_{kind.upper()}"
    if explicit is not None:
        places = [Path(explicit)]
    elif os.environ.get(variable):
        places = [Path(os.environ[variable])]
    else:
        places = [PACKAGE / "data" / kind, PACKAGE.parent / kind]
    for place in places:
        if place.is_dir():
            return place
    looked = ", ".join(str(place) for place in places)
    raise FileNotFoundError(f"there is no folder {kind!r}; tried {looked}. Set {variable} to its path")


@cache
def commit() -> str:
    """Return the commit of the checkout that the code runs from, else the version.

    A `+` follows the commit where the code has uncommitted changes.
    """
    git = ["git", "-C", str(PACKAGE.parent)]
    try:
        if (PACKAGE.parent / ".git").exists():
            known, changed = (
                subprocess.run([*git, *words], capture_output=True, text=True, check=True, timeout=10).stdout.strip()
                for words in (["rev-parse", "--short=12", "HEAD"], ["status", "--porcelain", "--", PACKAGE.name])
            )
            return f"{known}+" if changed else known
    except (OSError, subprocess.SubprocessError):
        pass
    try:
        return f"v{version('macop-aht')}"
    except PackageNotFoundError:
        return ""
