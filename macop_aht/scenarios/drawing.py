"""Pictures of the worlds. `paint` draws a scene on a canvas, which makes pixels or text of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, Protocol

import numpy as np

from macop_aht.scenarios.palette import COLOURS, FAINT, INK, LABEL, PAPER, TILES
from macop_aht.scenarios.scene import Body, Ring, Role, Scene
from macop_aht.scenarios.spec import World

WIDTH: Final = 480  # pixels
HEADER: Final = 44
SMOOTH: Final = 2  # pictures are drawn this many times larger, then scaled down
LEAST: Final = 9.0  # pixels: the radius of the smallest body that is drawn
FONT: Final = 20.0  # pixels: numbers can be read when a picture is shown at half its size
COLUMNS, LINES = 48, 24  # characters of a text picture
Track = Sequence[tuple[float, float]]


class Canvas(Protocol):
    """The contract of what a scene is painted on, in the world's coordinates; y points up."""

    def area(self, left: float, bottom: float, right: float, top: float) -> None:
        """Set the part of the world to show. This call comes first."""

    def tile(self, x: float, y: float, dark: bool) -> None:
        """Draw a square of side 1 around (x, y)."""

    def ring(self, ring: Ring) -> None:
        """Draw a range, faintly."""

    def body(self, body: Body) -> None:
        """Draw a body with its label and gauges."""

    def paste(self, picture: np.ndarray) -> None:
        """Show an environment's own picture (height, width, 3) uint8."""


def paint(scene: Scene, canvas: Canvas) -> None:
    """Draw a scene: tiles, then ranges, then bodies."""
    if scene.picture is not None:
        canvas.paste(scene.picture)
        return
    canvas.area(*scene.area)
    rows, cols = scene.grid
    for row, col in np.ndindex(rows, cols):
        canvas.tile(col + 0.5, rows - row - 0.5, dark=(row + col) % 2 == 1)
    for ring in scene.rings:
        canvas.ring(ring)
    for body in scene.bodies:
        canvas.body(body)


class PixelCanvas:
    """A canvas of pixels, drawn with Pillow."""

    def __init__(self) -> None:
        try:
            from PIL import Image, ImageDraw, ImageFont
        except ImportError as error:
            raise ImportError("pictures need Pillow: pip install 'macop-aht[render]'") from error
        self._font, self._from_array = ImageFont.load_default, Image.fromarray
        self._image = Image.new("RGB", (WIDTH * SMOOTH, (WIDTH + HEADER) * SMOOTH), PAPER)
        self._pen = ImageDraw.Draw(self._image, "RGBA")

    def area(self, left: float, bottom: float, right: float, top: float) -> None:
        self._left, self._top = left, top
        self._scale = WIDTH * SMOOTH / max(right - left, top - bottom)

    def _at(self, x: float, y: float) -> tuple[float, float]:
        return (x - self._left) * self._scale, HEADER * SMOOTH + (self._top - y) * self._scale

    def _box(self, x: float, y: float, radius: float) -> list[tuple[float, float]]:
        return [self._at(x - radius, y + radius), self._at(x + radius, y - radius)]

    def tile(self, x: float, y: float, dark: bool) -> None:
        self._pen.rectangle(self._box(x, y, 0.5), fill=TILES[dark])

    def ring(self, ring: Ring) -> None:
        colour = COLOURS[ring.role]
        self._pen.ellipse(
            self._box(ring.x, ring.y, ring.radius), fill=colour + "12", outline=colour + "50", width=SMOOTH
        )

    def trail(self, track: Track, role: Role) -> None:
        """Draw the way that a body has come, fainter the longer ago; `area` comes first."""
        for k, (start, end) in enumerate(pairwise(track)):
            fade = f"{round(30 + 150 * (k + 1) / len(track)):02x}"
            self._pen.line([self._at(*start), self._at(*end)], fill=COLOURS[role] + fade, width=5 * SMOOTH)

    def body(self, body: Body) -> None:
        x, y = self._at(body.x, body.y)
        radius = max(body.radius * self._scale, LEAST * SMOOTH)
        _FORMS.get(body.role, _disc)(self._pen, x, y, radius, COLOURS[body.role])
        size = FONT * SMOOTH
        if body.label and radius >= 0.7 * size:
            self._pen.text((x, y), body.label, fill=LABEL, font=self._font(max(0.95 * radius, size)), anchor="mm")
        elif body.label:  # there is no room for it inside
            beside = (x + 1.1 * radius, y - 0.9 * radius)
            self._pen.text(
                beside, body.label, fill=COLOURS[body.role], font=self._font(size), anchor="lb", stroke_width=3 * SMOOTH,
                stroke_fill=PAPER,
            )  # fmt: skip
        for row, gauge in enumerate(body.gauges):
            self._bar(x, y + radius + (7 + 7 * row) * SMOOTH, gauge.fraction, gauge.role)

    def _bar(self, x: float, y: float, fraction: float, role: Role) -> None:
        half, thick = 16 * SMOOTH, 2.5 * SMOOTH
        self._pen.rectangle([x - half, y - thick, x + half, y + thick], fill="#00000030")
        filled = 2 * half * max(min(fraction, 1.0), 0.0)
        if filled:
            self._pen.rectangle([x - half, y - thick, x - half + filled, y + thick], fill=COLOURS[role])

    def paste(self, picture: np.ndarray) -> None:
        side, image = WIDTH * SMOOTH, self._from_array(picture)
        scale = side / max(image.size)
        image = image.resize([max(round(length * scale), 1) for length in image.size])
        left, top = ((side - length) // 2 for length in image.size)
        self._image.paste(image, (left, HEADER * SMOOTH + top))

    def finish(self, caption: str, note: str) -> np.ndarray:
        """Return the picture with its header: (height, width, 3) uint8. A note that is too long is cut."""
        self._pen.rectangle([(0, 0), (WIDTH * SMOOTH, HEADER * SMOOTH)], fill="white")
        font, middle, edge = self._font(FONT * SMOOTH), HEADER * SMOOTH / 2, 14 * SMOOTH
        self._pen.text((edge, middle), caption, fill=INK, font=font, anchor="lm")
        small = self._font(0.8 * FONT * SMOOTH)
        room = WIDTH * SMOOTH - 3 * edge - self._pen.textlength(caption, font=font)
        while note and self._pen.textlength(note, font=small) > room:
            note = note[:-2].rstrip("…") + "…" if len(note) > 2 else ""
        self._pen.text((WIDTH * SMOOTH - edge, middle), note, fill=FAINT, font=small, anchor="rm")
        return np.asarray(self._image.reduce(SMOOTH)).copy()


def _disc(pen: Any, x: float, y: float, radius: float, colour: str) -> None:
    pen.ellipse([x - radius, y - radius, x + radius, y + radius], fill=colour, outline="white", width=SMOOTH)


def _fruit(pen: Any, x: float, y: float, radius: float, colour: str) -> None:
    _disc(pen, x, y, radius, colour)
    pen.ellipse([x, y - 1.35 * radius, x + 0.6 * radius, y - 0.95 * radius], fill=colour)


def _animal(pen: Any, x: float, y: float, radius: float, colour: str) -> None:
    for side in (-0.62, 0.62):
        ear, up = x + side * radius, y - 0.8 * radius
        pen.ellipse([ear - 0.35 * radius, up - 0.5 * radius, ear + 0.35 * radius, up + 0.5 * radius], fill=colour)
    _disc(pen, x, y, radius, colour)


def _target(pen: Any, x: float, y: float, radius: float, colour: str) -> None:
    for share in (1.0, 0.55):
        r = share * radius
        pen.ellipse([x - r, y - r, x + r, y + r], outline=colour, width=3 * SMOOTH)
    _disc(pen, x, y, 0.15 * radius, colour)


def _diamond(pen: Any, x: float, y: float, radius: float, colour: str) -> None:
    r = 1.2 * radius
    pen.polygon([(x, y - r), (x + r, y), (x, y + r), (x - r, y)], fill=colour, outline="white", width=SMOOTH)


_FORMS: Final = {"food": _fruit, "prey": _animal, "landmark": _target, "enemy": _diamond}  # other roles are discs


class TextCanvas:
    """A canvas of characters with a glyph for each body. A world with tiles has one character per tile."""

    def __init__(self, coloured: bool = False) -> None:
        """`coloured`: glyphs have their roles' colours, by the codes of terminals."""
        self._coloured = coloured
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

    def ring(self, ring: Ring) -> None:
        pass  # ranges would hide the bodies

    def body(self, body: Body) -> None:
        colour = ";".join(str(int(COLOURS[body.role][k : k + 2], 16)) for k in (1, 3, 5))
        shown = f"\x1b[1;38;2;{colour}m{body.glyph}\x1b[0m" if self._coloured else body.glyph
        self._cells[self._at(body.x, body.y)] = shown

    def paste(self, picture: np.ndarray) -> None:
        raise ValueError("render_mode is 'ansi'; this environment draws pictures only, so give 'rgb_array' or 'human'")

    def finish(self, caption: str) -> str:
        """Return the text with its caption and a frame."""
        lines = [
            self._gap.join(self._cells.get((line, column), " ") for column in range(self._columns))
            for line in range(self._lines)
        ]
        edge = "-" * (self._columns + len(self._gap) * (self._columns - 1) + 2)
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


def picture_of(scene: Scene, caption: str, note: str, trails: Mapping[int, Track] | None = None) -> np.ndarray:
    """Return a scene as a picture (height, width, 3) uint8.

    `caption` and `note` stand above it. `trails` are the ways that agents have come, by their numbers.
    """
    canvas = PixelCanvas()
    paint(scene, canvas)
    agents = scene.agents
    for i, track in (trails or {}).items():
        if i in agents:
            canvas.trail(track, agents[i].role)
    for body in agents.values() if trails else ():
        canvas.body(body)
    return canvas.finish(caption, note)


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
        scene = world.scene(state, b)
        if self.mode == "ansi" and scene.picture is not None:
            raise ValueError(
                "render_mode is 'ansi'; this environment draws pictures only, so give 'rgb_array' or 'human'"
            )
        if self.mode == "ansi":
            text = TextCanvas()
            paint(scene, text)
            return text.finish(caption)
        picture = picture_of(scene, caption, teammate)
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
