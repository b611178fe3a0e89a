"""Pictures of the worlds. A family draws itself once, on a canvas; the canvas makes pixels or text of it."""

from __future__ import annotations

from typing import Any, Final, Protocol

import numpy as np

from macop_aht.scenarios.spec import World

WIDTH: Final = 480  # pixels
HEADER: Final = 44
SMOOTH: Final = 2  # drawn this much larger, then scaled down
COLUMNS, LINES = 48, 24  # of a picture made of text

INK = "#1f2933"
FAINT = "#7b8794"
PAPER = "#f5f3ee"
TILES = ("#ece8df", "#e3ded2")
COLOURS = {
    "ego": "#2563eb",
    "mate": "#ea7317",
    "food": "#2f9e44",
    "prey": "#9c36b5",
    "landmark": "#868e96",
    "enemy": "#c92a2a",
    "health": "#2f9e44",
    "shield": "#1c9bd1",
}


class Canvas(Protocol):
    """What a world draws on, in its own coordinates; y points up."""

    def area(self, left: float, bottom: float, right: float, top: float) -> None:
        """The part of the world to show. Comes first."""

    def tile(self, x: float, y: float, dark: bool) -> None:
        """A square of side 1 around (x, y)."""

    def ring(self, x: float, y: float, radius: float, role: str) -> None:
        """A range, drawn faintly."""

    def disc(self, x: float, y: float, radius: float, role: str, label: str = "", glyph: str = "?") -> None:
        """A body; `glyph` stands for it in text."""

    def bar(self, x: float, y: float, width: float, fraction: float, role: str) -> None:
        """A gauge around (x, y), filled to `fraction`."""


class PixelCanvas:
    """Draws with Pillow, twice as large as asked for."""

    def __init__(self) -> None:
        try:
            from PIL import Image, ImageDraw, ImageFont
        except ImportError as error:
            raise ImportError("pictures need Pillow: pip install 'macop-aht[render]'") from error
        self._font = ImageFont.load_default
        self._image = Image.new("RGB", (WIDTH * SMOOTH, (WIDTH + HEADER) * SMOOTH), PAPER)
        self._pen = ImageDraw.Draw(self._image, "RGBA")

    def area(self, left: float, bottom: float, right: float, top: float) -> None:
        self._left, self._top = left, top
        self._scale = WIDTH * SMOOTH / max(right - left, top - bottom)

    def _at(self, x: float, y: float) -> tuple[float, float]:
        return (x - self._left) * self._scale, HEADER * SMOOTH + (self._top - y) * self._scale

    def _box(self, x: float, y: float, half_width: float, half_height: float) -> list[tuple[float, float]]:
        return [self._at(x - half_width, y + half_height), self._at(x + half_width, y - half_height)]

    def tile(self, x: float, y: float, dark: bool) -> None:
        self._pen.rectangle(self._box(x, y, 0.5, 0.5), fill=TILES[dark])

    def ring(self, x: float, y: float, radius: float, role: str) -> None:
        colour = COLOURS[role]
        self._pen.ellipse(self._box(x, y, radius, radius), fill=colour + "12", outline=colour + "50", width=SMOOTH)

    def disc(self, x: float, y: float, radius: float, role: str, label: str = "", glyph: str = "?") -> None:
        self._pen.ellipse(self._box(x, y, radius, radius), fill=COLOURS[role], outline=INK, width=SMOOTH)
        if label:
            font = self._font(max(radius * self._scale * 0.9, 9.0))
            self._pen.text(self._at(x, y), label, fill="white", font=font, anchor="mm")

    def bar(self, x: float, y: float, width: float, fraction: float, role: str) -> None:
        half, thick = width / 2, 0.14
        self._pen.rectangle(self._box(x, y, half, thick), fill="#00000030")
        filled = half * max(min(fraction, 1.0), 0.0)
        self._pen.rectangle(self._box(x - half + filled, y, filled, thick), fill=COLOURS[role])

    def finish(self, caption: str, note: str) -> np.ndarray:
        """The picture with its header: (height, width, 3) uint8."""
        self._pen.rectangle([(0, 0), (WIDTH * SMOOTH, HEADER * SMOOTH)], fill="white")
        font, middle = self._font(15.0 * SMOOTH), HEADER * SMOOTH / 2
        self._pen.text((14 * SMOOTH, middle), caption, fill=INK, font=font, anchor="lm")
        self._pen.text(((WIDTH - 14) * SMOOTH, middle), note, fill=FAINT, font=font, anchor="rm")
        return np.asarray(self._image.reduce(SMOOTH)).copy()


class TextCanvas:
    """Places the glyphs of bodies on a grid of characters; a tiled world gets one cell per tile."""

    def __init__(self) -> None:
        self._cells: dict[tuple[int, int], str] = {}
        self._columns, self._lines, self._gap = COLUMNS, LINES, ""

    def area(self, left: float, bottom: float, right: float, top: float) -> None:
        self._left, self._top, self._width, self._height = left, top, right - left, top - bottom

    def _at(self, x: float, y: float) -> tuple[int, int]:
        line = int((self._top - y) / self._height * self._lines)
        column = int((x - self._left) / self._width * self._columns)
        return min(max(line, 0), self._lines - 1), min(max(column, 0), self._columns - 1)  # the far border is inside

    def tile(self, x: float, y: float, dark: bool) -> None:
        self._columns, self._lines, self._gap = round(self._width), round(self._height), " "
        self._cells[self._at(x, y)] = "."

    def ring(self, x: float, y: float, radius: float, role: str) -> None:
        pass  # ranges would hide the bodies

    def disc(self, x: float, y: float, radius: float, role: str, label: str = "", glyph: str = "?") -> None:
        self._cells[self._at(x, y)] = glyph

    def bar(self, x: float, y: float, width: float, fraction: float, role: str) -> None:
        pass

    def finish(self, caption: str) -> str:
        lines = [
            self._gap.join(self._cells.get((line, column), " ") for column in range(self._columns))
            for line in range(self._lines)
        ]
        edge = "-" * (len(lines[0]) + 2)
        return "\n".join([caption, edge, *(f"|{line}|" for line in lines), edge])


class Window:
    """A window on the screen that shows pictures. Every environment has its own."""

    def __init__(self, title: str, fps: int) -> None:
        try:
            import pygame
            import pygame.window
        except ImportError as error:
            raise ImportError("the window needs pygame: pip install 'macop-aht[render]'") from error
        self._pygame, self._fps = pygame, fps
        pygame.display.init()
        self._window = pygame.window.Window(title, (WIDTH, WIDTH + HEADER))
        self._clock = pygame.time.Clock()

    def show(self, picture: np.ndarray) -> None:
        surface = self._pygame.surfarray.make_surface(picture.transpose(1, 0, 2))
        self._window.get_surface().blit(surface, (0, 0))
        self._pygame.event.pump()
        self._window.flip()
        self._clock.tick(self._fps)

    def close(self) -> None:
        self._window.destroy()  # the display stays on: other windows may be open


class Screen:
    """Draws in the mode that an environment was made with; what `show` gives back is what `render()` gives."""

    MODES = ("human", "rgb_array", "ansi")

    def __init__(self, mode: str | None, fps: int, modes: tuple[str, ...] = MODES) -> None:
        if mode is not None and mode not in modes:
            raise ValueError(f"render_mode is {mode!r}; allowed are {', '.join(modes)} and None")
        self.mode, self._fps = mode, fps
        self._window: Window | None = None

    def show(self, world: World, state: Any, b: int, step: int, score: float, teammate: str = "") -> Any:
        caption = f"step {step}/{world.limit}   return {score:.2f}"
        if self.mode == "ansi":
            text = TextCanvas()
            world.draw(text, state, b)
            return text.finish(caption)
        canvas = PixelCanvas()
        world.draw(canvas, state, b)
        picture = canvas.finish(caption, teammate)
        if self.mode == "rgb_array":
            return picture
        self._window = self._window or Window("Macop", self._fps)
        self._window.show(picture)
        return None

    def close(self) -> None:
        if self._window is not None:
            self._window.close()
            self._window = None
