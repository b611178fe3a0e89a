"""Writes the tutorial as a notebook: python docs/hooks/notebook.py

Python blocks and `macop` commands become cells of code; everything else is text.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent.parent
BLOCK = re.compile(r"```(python|sh)\n(.*?)```\n", re.DOTALL)


def cells(markdown: str) -> list[tuple[str, str]]:
    """Return the kind and the text of every cell."""
    found: list[tuple[str, str]] = []
    text, at = "", 0
    for block in BLOCK.finditer(markdown):
        language, code = block.groups()
        text += markdown[at : block.start()]
        at = block.end()
        if language == "sh" and not code.startswith("macop "):
            text += block.group()
            continue
        lines = code.strip().split("\n")
        found += [("markdown", text), ("code", "\n".join(f"!{line}" if language == "sh" else line for line in lines))]
        text = ""
    return [(kind, own.strip()) for kind, own in [*found, ("markdown", text + markdown[at:])] if own.strip()]


def notebook(markdown: str) -> dict[str, Any]:
    """Return the notebook of a page, as Jupyter stores it; its outputs are empty."""
    made: list[dict[str, Any]] = []
    for number, (kind, text) in enumerate(cells(markdown)):
        cell: dict[str, Any] = {"cell_type": kind, "id": f"cell-{number}", "metadata": {}, "source": text}
        made.append(cell | ({"execution_count": None, "outputs": []} if kind == "code" else {}))
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {"cells": made, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


def text() -> str:
    """Return the content of docs/tutorial.ipynb."""
    return json.dumps(notebook((DOCS / "tutorial.md").read_text()), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    (DOCS / "tutorial.ipynb").write_text(text())
