"""The colours of pictures, figures and the page. There is no other place for them."""

from __future__ import annotations

from typing import Final

INK: Final = "#1f2933"
FAINT: Final = "#5a6470"
PAPER: Final = "#f5f3ee"
TILES: Final = ("#ece8df", "#e3ded2")
COLOURS: Final = {
    "ego": "#2563eb",
    "mate": "#d9620c",
    "food": "#2b8a3e",
    "prey": "#9c36b5",
    "landmark": "#727b85",
    "enemy": "#c92a2a",
    "health": "#2f9e44",
    "shield": "#1c8fc0",
}
LABEL: Final = "#ffffff"  # on a body

# The page has two themes. Pictures and figures use the light one.
LIGHT: Final = {
    "ink": INK,
    "faint": FAINT,
    "paper": PAPER,
    "card": "#ffffff",
    "line": "#d9d4c9",
    "tile": TILES[0],
    "tile-dark": TILES[1],
    "label": LABEL,
    **COLOURS,
}
DARK: Final = {
    "ink": "#e8eaed",
    "faint": "#9aa5b1",
    "paper": "#12161c",
    "card": "#1b2129",
    "line": "#323b47",
    "tile": "#222933",
    "tile-dark": "#1c222b",
    "label": "#0d1117",
    "ego": "#6ea0ff",
    "mate": "#ff9d52",
    "food": "#5bc878",
    "prey": "#d489e6",
    "landmark": "#9aa5b1",
    "enemy": "#ff7b7b",
    "health": "#5bc878",
    "shield": "#5cc1ec",
}
