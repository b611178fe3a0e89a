"""Where content lies: given explicitly, named by an environment variable, packaged with the code, or in a checkout beside it."""

from __future__ import annotations

import os
from pathlib import Path

PACKAGE = Path(__file__).parent


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
