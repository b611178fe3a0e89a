"""Where content lies: given explicitly, named by an environment variable, packaged with the code, or in a checkout beside it.

And where code of the user's does, and which version of ours is running.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import ModuleType

PACKAGE = Path(__file__).parent
IMPORTS = "MACOP_IMPORT"  # names modules that are imported first, by commas
imported: list[str] = []  # those that were, for processes that this one starts


def module(name: str) -> ModuleType:
    """A module of the user's; it is looked for in the working folder too."""
    if "" not in sys.path:
        sys.path.insert(0, "")
    return importlib.import_module(name)


def import_first(names: Sequence[str]) -> None:
    """Import modules of the user's that may register scenarios: these, and those that the environment names."""
    imported[:] = [*filter(None, os.environ.get(IMPORTS, "").split(",")), *names]
    for name in imported:
        module(name)


def find(kind: str, explicit: str | Path | None = None) -> Path:
    """The folder of `zoo` or `agents`; the error lists where it was looked for."""
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
    raise FileNotFoundError(f"there is no folder {kind}; looked for it at {looked}. Set {variable} to where it is")


@cache
def commit() -> str:
    """The commit of the checkout that the code runs from, with a + where the code has changed since; else the version."""
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
