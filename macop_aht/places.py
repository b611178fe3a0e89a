"""Where content lies: given explicitly, named by an environment variable, packaged with the code, or in a checkout beside it.

And where code of the user's does.
"""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from types import ModuleType

PACKAGE = Path(__file__).parent


def module(name: str) -> ModuleType:
    """A module of the user's; it is looked for in the working folder too."""
    if "" not in sys.path:
        sys.path.insert(0, "")
    return importlib.import_module(name)


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
