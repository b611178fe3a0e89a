"""What do the scenarios look like? Films a shipped agent with teammates that it has never met, in every scenario.

    python benchmarks/gallery.py [--out docs/img] [SCENARIO ...]

Writes SCENARIO.gif: the ego is a bundle with its zero-shot selector, and plays an episode with each of two scripts.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from macop_aht.episodes.matches import team_play
from macop_aht.episodes.runner import Hook, Lockstep
from macop_aht.policies import resolve
from macop_aht.scenarios import build
from macop_aht.scenarios.drawing import Screen

WIDTH = 240  # pixels of the page
COLOURS = 48
FRAMES = 30  # of an episode; a longer one is shown faster
LIMIT = 150_000  # bytes of a file
CAST = {  # the shipped method, then two scripts that the ego meets one after the other
    "LBF1": ("macop-plus", "path-south", "path-east"),
    "LBF4": ("macop-plus", "corner-ne", "corner-sw"),
    "PP1": ("macop-plus", "prey-0", "prey-2"),
    "PP2": ("macop-plus", "prey-0", "prey-3"),
    "CN2": ("macop-plus", "landmark-0", "landmark-1"),
    "CN3": ("macop-plus", "landmark-0", "landmark-2"),
    "SMAC1": ("macop-plus", "left-first", "right-first"),
    "SMAC2": ("macop-plus", "kite", "focus-weakest"),
}


class Camera(Hook):
    """Takes a picture at first, and after every step."""

    def __init__(self, teammate: str) -> None:
        self.pictures: list[np.ndarray] = []
        self._screen, self._teammate = Screen("rgb_array", fps=5), teammate

    def chosen(self, play: Lockstep, counted: np.ndarray) -> None:
        if not self.pictures:
            self.stepped(play, counted)

    def stepped(self, play: Lockstep, counted: np.ndarray) -> None:
        batch = play.batch
        step, score = int(batch.clock[0]), float(batch.score[0])
        self.pictures.append(self._screen.show(batch.world, batch.state, 0, step, score, self._teammate))


def film(scenario: str, seed: int = 0) -> tuple[list[np.ndarray], list[int]]:
    """Return the frames of both episodes with their durations in milliseconds."""
    world, (method, *scripts) = build(scenario), CAST[scenario]
    ego = resolve(f"agent:{method}/{scenario}", world, scenario)
    frames: list[np.ndarray] = []
    durations: list[int] = []
    for script in scripts:
        teammate, camera = resolve(f"scripted:{script}", world), Camera(f"teammate: {script}")
        team = ego * world.controllable + teammate * (world.n_agents - world.controllable)
        team_play(world, team, 1, seed, [camera])
        shown = camera.pictures[:: -(-len(camera.pictures) // FRAMES)]
        if shown[-1] is not camera.pictures[-1]:
            shown.append(camera.pictures[-1])
        frames += shown
        durations += [200] * (len(shown) - 1) + [1_500]  # the end is held
    return frames, durations


def save(frames: list[np.ndarray], durations: list[int], path: Path) -> int:
    """Write an animated GIF with one palette for all frames; return its size in bytes."""
    height = round(WIDTH * frames[0].shape[0] / frames[0].shape[1])
    images = [Image.fromarray(frame).resize((WIDTH, height), Image.Resampling.LANCZOS) for frame in frames]
    shades = np.unique(np.concatenate([np.asarray(image).reshape(-1, 3) for image in images]), axis=0)
    palette = Image.fromarray(shades[None]).quantize(
        COLOURS
    )  # every shade counts once: small bodies keep their colours
    first, *rest = (image.quantize(palette=palette, dither=Image.Dither.NONE) for image in images)
    options: dict[str, Any] = {"duration": durations, "loop": 0, "optimize": True}
    first.save(path, save_all=True, append_images=rest, **options)
    return path.stat().st_size


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO", default=list(CAST))
    parser.add_argument("--out", type=Path, default=Path("docs/img"), metavar="FOLDER")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    for scenario in arguments.scenarios:
        frames, durations = film(scenario)
        size = save(frames, durations, arguments.out / f"{scenario}.gif")
        print(f"{scenario}: {len(frames)} frames, {size / 1000:.0f} kB")
        if size > LIMIT:
            raise SystemExit(f"{scenario}.gif has more than {LIMIT} bytes; lower COLOURS, WIDTH or FRAMES")


if __name__ == "__main__":
    main()
