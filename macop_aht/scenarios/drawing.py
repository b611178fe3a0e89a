"""Pictures of the worlds. A family has one drawing function; the canvas that it draws on makes pixels or text."""

from __future__ import annotations

from typing import Any, Final, Protocol

import numpy as np

from macop_aht.scenarios.spec import World

WIDTH: Final = 480  # pixels
HEADER: Final = 44
SMOOTH: Final = 2  # pictures are drawn this many times larger, then scaled down
COLUMNS, LINES = 48, 24  # characters of a text picture

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
    """The contract of what a world draws on, in the world's coordinates; y points up."""

    def area(self, left: float, bottom: float, right: float, top: float) -> None:
        """Set the part of the world to show. This call comes first."""

    def tile(self, x: float, y: float, dark: bool) -> None:
        """Draw a square of side 1 around (x, y)."""

    def ring(self, x: float, y: float, radius: float, role: str) -> None:
        """Draw a range, faintly."""

    def disc(self, x: float, y: float, radius: float, role: str, label: str = "", glyph: str = "?") -> None:
        """Draw a body. `role` is a key of `COLOURS`; `glyph` stands for the body in text."""

    def bar(self, x: float, y: float, width: float, fraction: float, role: str) -> None:
        """Draw a gauge around (x, y), filled to `fraction`."""


class PixelCanvas:
    """A canvas of pixels, drawn with Pillow."""

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

    def paste(self, picture: np.ndarray) -> None:
        """Fill the canvas with a picture (height, width, 3) uint8, as large as it fits."""
        from PIL import Image

        side, image = WIDTH * SMOOTH, Image.fromarray(picture)
        scale = side / max(image.size)
        image = image.resize([max(round(length * scale), 1) for length in image.size])
        left, top = ((side - length) // 2 for length in image.size)
        self._image.paste(image, (left, HEADER * SMOOTH + top))

    def finish(self, caption: str, note: str) -> np.ndarray:
        """Return the picture with its header: (height, width, 3) uint8."""
        self._pen.rectangle([(0, 0), (WIDTH * SMOOTH, HEADER * SMOOTH)], fill="white")
        font, middle = self._font(15.0 * SMOOTH), HEADER * SMOOTH / 2
        self._pen.text((14 * SMOOTH, middle), caption, fill=INK, font=font, anchor="lm")
        self._pen.text(((WIDTH - 14) * SMOOTH, middle), note, fill=FAINT, font=font, anchor="rm")
        return np.asarray(self._image.reduce(SMOOTH)).copy()


class TextCanvas:
    """A canvas of characters with a glyph for each body. A world with tiles has one character per tile."""

    def __init__(self) -> None:
        self._cells: dict[tuple[int, int], str] = {}
        self._columns, self._lines, self._gap = COLUMNS, LINES, ""

    def area(self, left: float, bottom: float, right: float, top: float) -> None:
        self._left, self._top, self._width, self._height = left, top, right - left, top - bottom

    def _at(self, x: float, y: float) -> tuple[int, int]:
        line = int((self._top - y) / self._height * self._lines)
        column = int((x - self._left) / self._width * self._columns)
        return min(max(line, 0), self._lines - 1), min(max(column, 0), self._columns - 1)  # the far borders are inside

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
        """Return the text with its caption and a frame."""
        lines = [
            self._gap.join(self._cells.get((line, column), " ") for column in range(self._columns))
            for line in range(self._lines)
        ]
        edge = "-" * (len(lines[0]) + 2)
        return "\n".join([caption, edge, *(f"|{line}|" for line in lines), edge])


class Window:
    """A window on the screen that shows pictures. Every environment has its own window."""

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
        """Show a picture, and wait as long as the frame rate asks for."""
        surface = self._pygame.surfarray.make_surface(picture.transpose(1, 0, 2))
        self._window.get_surface().blit(surface, (0, 0))
        self._pygame.event.pump()
        self._window.flip()
        self._clock.tick(self._fps)

    def close(self) -> None:
        """Close this window."""
        self._window.destroy()  # the display stays initialised: other windows may be open


class Screen:
    """Draws in an environment's render mode. Raises `ValueError` for a mode that is not allowed."""

    MODES = ("human", "rgb_array", "ansi")

    def __init__(self, mode: str | None, fps: int, modes: tuple[str, ...] = MODES) -> None:
        if mode is not None and mode not in modes:
            raise ValueError(f"render_mode is {mode!r}; allowed are {', '.join(modes)} and None")
        self.mode, self._fps = mode, fps
        self._window: Window | None = None

    def show(self, world: World, state: Any, b: int, step: int, score: float, teammate: str = "") -> Any:
        """Draw environment b. Returns a picture, a text, or None where a window shows it, as `render()` does."""
        caption = f"step {step}/{world.limit}   return {score:.2f}"
        if self.mode == "ansi" and world.picture is not None:
            raise ValueError(
                "render_mode is 'ansi'; this environment draws pictures only, so give 'rgb_array' or 'human'"
            )
        if self.mode == "ansi":
            text = TextCanvas()
            world.draw(text, state, b)
            return text.finish(caption)
        canvas = PixelCanvas()
        if world.picture is not None:
            canvas.paste(world.picture(state, b))
        else:
            world.draw(canvas, state, b)
        picture = canvas.finish(caption, teammate)
        if self.mode == "rgb_array":
            return picture
        self._window = self._window or Window("Macop", self._fps)
        self._window.show(picture)
        return None

    def close(self) -> None:
        """Close the window, if there is one."""
        if self._window is not None:
            self._window.close()
            self._window = None
