"""Bundles of format 1 become bundles of format 2: only their manifest changes.

    convert_bundle(Path("BUNDLE"))

The files, their hashes and all numbers stay as they are.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from macop_aht.deploy.documents import LARGEST, BundleError, as_dataclass, document
from macop_aht.deploy.files import MANIFEST, read_limited, write_manifest
from macop_aht.deploy.manifest import Manifest, parse

RENAMED = {"company": "groups"}
RENAMED_BELIEF = {"held": "margin", "spent": "penalty"}
RENAMED_FIGURES = {"heads": "returns"}
RENAMED_CALIBRATION = {"right": "accuracy"}
RENAMED_BIN = {"believed": "confidence", "right": "accuracy"}


def convert_bundle(folder: Path) -> bool:
    """Bring the bundle in a folder to the current format, whole or not at all; return whether anything has changed.

    Raise `FileNotFoundError` where there is no bundle, and `BundleError` where its manifest cannot be read.
    """
    path = folder / MANIFEST
    if not path.is_file():
        raise FileNotFoundError(f"there is no bundle in {folder}: {MANIFEST} is missing")
    content = read_limited(path, LARGEST)
    try:
        found = document(content)
        if found.get("format") != 1:
            parse(content)
            return False
        manifest = as_dataclass(Manifest, _from_format_1(found))
    except (KeyError, TypeError, AttributeError) as error:
        raise BundleError(f"{path} is damaged ({error!r}); export the bundle again") from error
    except BundleError as error:
        raise BundleError(f"{path} cannot be converted: {error}") from error
    write_manifest(folder, manifest)
    return True


def _renamed(table: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    return {names.get(name, name): value for name, value in table.items()}


def _from_format_1(old: dict[str, Any]) -> dict[str, Any]:
    """Return a manifest of format 1 with the keys of format 2, without its format."""
    new = _renamed({name: value for name, value in old.items() if name != "format"}, RENAMED)
    new.setdefault("run_heads", new["heads"])  # the first bundles had no generalist head
    new["versions"] = _renamed(new["versions"], {"macop-aht": "macop_aht"})
    if "zero_shot" in new:
        new["zero_shot"] = {**new["zero_shot"], "belief": _renamed(new["zero_shot"]["belief"], RENAMED_BELIEF)}
    if "figures" in new:
        figures = _renamed(new["figures"], RENAMED_FIGURES)
        calibration = _renamed(figures["calibration"], RENAMED_CALIBRATION)
        calibration["bins"] = [_renamed(entry, RENAMED_BIN) for entry in calibration["bins"]]
        new["figures"] = {**figures, "calibration": calibration}
    return new
