"""Films of episodes: the agent with a teammate, as GIF, MP4 or text."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from macop_aht.play.choices import Choice
from macop_aht.play.game import Game
from macop_aht.play.mind import Mind
from macop_aht.scenarios.drawing import FONT, HEADER, SMOOTH, WIDTH, TextCanvas, Track, paint, picture_of
from macop_aht.scenarios.palette import COLOURS, FAINT, INK, TILES
from macop_aht.scenarios.scene import Scene
from macop_aht.util import write_whole

FORMATS = (".gif", ".mp4")
HOLD = 1.0  # seconds for which the end of an episode stays
PANEL = 280  # pixels: the width of the beliefs beside a picture
BARS = 10  # groups that they show at most
CLEAR = "\x1b[H\x1b[2J"


@dataclass(frozen=True)
class Frame:
    """One moment of an episode."""

    scene: Scene
    mind: Mind
    trails: dict[int, Track]  # the ways that the agents have come
    score: float  # the return so far
    caption: str
    teammate: str
    over: bool


def frames(scenario: str, choice: Choice, episodes: int, seed: int) -> Iterator[Frame]:
    """Play episodes, and yield every moment from the beginning of the first to the end of the last."""
    game = Game(scenario, choice, seed)
    for _ in range(episodes):
        game.begin()
        trails: dict[int, list[tuple[float, float]]] = {}
        while True:
            scene = game.scene()
            for agent, body in scene.agents.items():
                trails.setdefault(agent, []).append((body.x, body.y))
            caption = f"step {game.step_number}/{game.world.limit}   return {game.score:.2f}"
            ways: dict[int, Track] = {agent: tuple(way) for agent, way in trails.items()}
            yield Frame(scene, game.mind(), ways, game.score, caption, choice.teammate, game.over)
            if game.over:
                break
            game.step()


def picture(frame: Frame, trails: bool = False, beliefs: bool = False) -> np.ndarray:
    """Return a frame as a picture (height, width, 3) uint8, on request with trails and with the agent's beliefs."""
    found = picture_of(frame.scene, frame.caption, frame.teammate, frame.trails if trails else None)
    return np.concatenate([found, _panel(frame.mind)], axis=1) if beliefs else found


def film(path: Path, pictures: Iterable[tuple[np.ndarray, bool]], fps: float) -> int:
    """Write pictures as a GIF or MP4, by the file's name; return how many there were.

    Each comes with whether an episode ends there, which stays for a moment. Raise `ValueError` for another ending of the name,
    and `ImportError` where the packages for it are missing.
    """
    if path.suffix not in FORMATS:
        raise ValueError(f"cannot write {path}: its name must end in {' or '.join(FORMATS)}")
    shown = list(pictures)
    (_gif if path.suffix == ".gif" else _mp4)(path, shown, fps)
    return len(shown)


def _gif(path: Path, shown: list[tuple[np.ndarray, bool]], fps: float) -> None:
    from PIL import Image

    first, *others = (Image.fromarray(each).quantize(128) for each, _ in shown)
    content = io.BytesIO()
    times = [round(1000 / fps + 1000 * HOLD * over) for _, over in shown]
    first.save(content, "GIF", save_all=True, append_images=others, duration=times, loop=0)
    write_whole(path, content.getvalue())


def _mp4(path: Path, shown: list[tuple[np.ndarray, bool]], fps: float) -> None:
    try:
        import imageio_ffmpeg
    except ImportError as error:
        raise ImportError("MP4 films need imageio-ffmpeg: pip install 'macop-aht[video]'") from error
    height, width, _ = shown[0][0].shape
    writer = imageio_ffmpeg.write_frames(str(path), (width, height), fps=fps, macro_block_size=2, quality=7)
    writer.send(None)
    for each, over in shown:
        for _ in range(1 + round(fps * HOLD) * over):
            writer.send(np.ascontiguousarray(each))
    writer.close()


def _panel(mind: Mind) -> np.ndarray:
    """The beliefs as a picture: a bar for each of the likeliest groups."""
    from PIL import Image, ImageDraw, ImageFont

    image = Image.new("RGB", (PANEL * SMOOTH, (WIDTH + HEADER) * SMOOTH), "white")
    pen, edge, wide = ImageDraw.Draw(image), 16 * SMOOTH, (PANEL - 32) * SMOOTH
    big, small = (ImageFont.load_default(size * SMOOTH) for size in (0.9 * FONT, 0.75 * FONT))
    pen.text((edge, 14 * SMOOTH), title(mind), fill=INK, font=big)
    for row, bar in enumerate(mind.leading(BARS)):
        y = (56 + 45 * row) * SMOOTH
        pen.text((edge, y), bar.label, fill=INK if row == 0 else FAINT, font=small)
        pen.text((edge + wide, y), figure(mind, bar.value), fill=INK if row == 0 else FAINT, font=small, anchor="ra")
        y += 22 * SMOOTH
        pen.rounded_rectangle([edge, y, edge + wide, y + 8 * SMOOTH], 4 * SMOOTH, fill=TILES[0])
        filled = wide * min(max(bar.value, 0.0), 1.0)
        if filled >= 8 * SMOOTH:
            pen.rounded_rectangle([edge, y, edge + filled, y + 8 * SMOOTH], 4 * SMOOTH, fill=COLOURS["ego"])
    return np.asarray(image.reduce(SMOOTH))


def title(mind: Mind) -> str:
    """Return what stands above the beliefs."""
    if mind.kind == "none":
        return "no beliefs"
    return (
        f"plays {'generalist head' if mind.head == 'generalist' else f'head {mind.head}'}"
        if mind.head
        else "first look"
    )


def figure(mind: Mind, value: float) -> str:
    """Return the figure of a bar: a share, or a mean return."""
    return f"{value:.0%}" if mind.kind == "belief" else f"{value:.2f}"


def text(frame: Frame, coloured: bool = False, beliefs: bool = False) -> str:
    """Return a frame as text, on request in the terminal's colours and with the agent's beliefs below."""
    canvas = TextCanvas(coloured)
    paint(frame.scene, canvas)
    found = f"with {frame.teammate}\n{canvas.finish(frame.caption)}"
    if not beliefs:
        return found
    bars = [
        f"  {bar.label:12}{figure(frame.mind, bar.value):>6} {'#' * round(20 * min(max(bar.value, 0.0), 1.0))}"
        for bar in frame.mind.leading(BARS)
    ]
    return "\n".join([found, title(frame.mind), *bars])


def show(shown: Iterable[Frame], fps: float, beliefs: bool = False, out: TextIO | Any = None) -> int:
    """Print frames; on a terminal, each replaces the one before it, in colours. Return how many there were."""
    stream, count = out or sys.stdout, 0
    live = stream.isatty()
    for frame in shown:
        count += 1
        print(f"{CLEAR if live else ''}{text(frame, live, beliefs)}{'' if live else chr(10)}", file=stream, flush=True)
        if live:
            time.sleep(1 / fps + HOLD * frame.over)
    return count
