"""Figures drawn with matplotlib."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from macop_aht.scenarios.batch import make_batch
from macop_aht.scenarios.drawing import paint
from macop_aht.scenarios.palette import COLOURS, FAINT, TILES
from macop_aht.scenarios.scene import Body, Ring
from macop_aht.scenarios.spec import World
from macop_aht.util import write_whole


class Behaviour(Protocol):
    """The part of a group's behaviour that `ways` draws: returns, and the tracks of the agents."""

    returns: list[float]
    tracks: list[list[np.ndarray]]

    @property
    def outcome(self) -> str: ...


def pyplot() -> Any:
    """Return `matplotlib.pyplot`, set to draw to files. Raises `ImportError` with the extra to install."""
    try:
        import matplotlib
    except ImportError as error:
        raise ImportError("figures need matplotlib: pip install 'macop-aht[report]'") from error
    matplotlib.use("Agg")
    matplotlib.rcParams["text.parse_math"] = False  # a dollar in a name is a dollar
    from matplotlib import pyplot as plt

    return plt


class AxisCanvas:
    """A canvas on the axis of a figure. It leaves out the agents."""

    def __init__(self, axis: Any) -> None:
        self._axis, self._plt = axis, pyplot()

    def area(self, left: float, bottom: float, right: float, top: float) -> None:
        self._axis.set(xlim=(left, right), ylim=(bottom, top), aspect="equal", xticks=[], yticks=[])

    def tile(self, x: float, y: float, dark: bool) -> None:
        self._axis.add_patch(self._plt.Rectangle((x - 0.5, y - 0.5), 1, 1, color=TILES[dark], zorder=0))

    def ring(self, ring: Ring) -> None:
        self._axis.add_patch(
            self._plt.Circle((ring.x, ring.y), ring.radius, color=COLOURS[ring.role], alpha=0.08, zorder=1)
        )

    def body(self, body: Body) -> None:
        if body.agent is None:
            self._axis.add_patch(
                self._plt.Circle((body.x, body.y), body.radius, color=COLOURS[body.role], alpha=0.6, zorder=2)
            )

    def paste(self, picture: np.ndarray) -> None:
        self._axis.imshow(picture)


def heat_map(matrix: np.ndarray, rows: Sequence[str], columns: Sequence[str], title: str, path: Path) -> None:
    """Save a matrix of returns as a picture, with a number in each cell."""
    plt = pyplot()
    figure, axis = plt.subplots(figsize=(2 + 0.55 * len(columns), 1.6 + 0.45 * len(rows)))
    top = max(float(matrix.max()), 1e-9)
    axis.imshow(matrix, cmap="viridis", vmin=min(float(matrix.min()), 0.0), vmax=top, aspect="auto")
    axis.set_xticks(range(len(columns)), columns, rotation=45 if len(columns) > 8 else 0)
    axis.set_yticks(range(len(rows)), rows)
    for (i, j), value in np.ndenumerate(matrix):
        axis.text(
            j, i, f"{value:.2f}", ha="center", va="center", fontsize=8, color="white" if value < 0.6 * top else "black"
        )
    axis.set_title(title)
    save(figure, path)


def heat_maps(matrices: Mapping[str, np.ndarray], title: str, path: Path) -> None:
    """Save matrices of returns as one picture, side by side and with one colour scale."""
    plt = pyplot()
    low = min(0.0, *(float(matrix.min()) for matrix in matrices.values()))
    top = max(1e-9, *(float(matrix.max()) for matrix in matrices.values()))
    figure, axes = plt.subplots(1, len(matrices), figsize=(1 + 3.2 * len(matrices), 3.6), squeeze=False)
    for axis, (name, matrix) in zip(axes[0], matrices.items(), strict=True):
        image = axis.imshow(matrix, cmap="viridis", vmin=low, vmax=top)
        axis.set_title(name, fontsize=9)
    figure.colorbar(image, ax=axes[0].tolist())
    figure.suptitle(title)
    save(figure, path, tight=False)


def process(steps: Sequence[tuple[int, int, int, float]], threshold: float, path: Path) -> None:
    """Draw the groups met, the heads and the compatibility over a run's iterations; a step has these behind its iteration."""
    plt = pyplot()
    iterations, groups, heads, compatible = zip(*steps, strict=True)
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2))
    left.plot(iterations, groups, "o-", label="groups", color=COLOURS["mate"])
    left.plot(iterations, heads, "s-", label="heads", color=COLOURS["ego"])
    left.set(xlabel="iteration", title="groups met and heads")
    left.legend()
    right.plot(iterations, compatible, "o-", color=COLOURS["food"])
    right.axhline(threshold, color=FAINT, linestyle="--", label="stopping threshold")
    right.set(xlabel="iteration", title="compatibility C", ylim=(0, max(1.1, np.nanmax([*compatible, 0]))))
    right.legend()
    for axis in (left, right):
        axis.set_xticks(iterations)
    save(figure, path)


def ways(world: World, names: Sequence[str], behaviours: Sequence[Behaviour], path: Path) -> None:
    """Save a picture of how each group moves in self-play: ego and teammate seats in two colours, circles at the end."""
    plt = pyplot()
    columns = min(len(names), 6)
    lines = -(-len(names) // columns)
    figure, axes = plt.subplots(lines, columns, figsize=(2.3 * columns, 2.6 * lines), squeeze=False)
    batch = make_batch(world, 1)
    batch.seed([0])
    batch.reset()
    for axis in axes.flat:
        axis.axis("off")
    for axis, name, behaviour in zip(axes.flat, names, behaviours, strict=False):
        axis.axis("on")
        paint(world.scene(batch.state, 0), AxisCanvas(axis))
        for agents in behaviour.tracks:
            for i, track in enumerate(agents):
                colour = COLOURS["ego" if i < world.controllable else "mate"]
                axis.plot(track[:, 0], track[:, 1], color=colour, alpha=0.45, linewidth=1.5, zorder=3)
                axis.plot(*track[-1], "o", color=colour, markersize=4, zorder=4)
        axis.set_title(f"{name}: {np.mean(behaviour.returns):.2f}\n{behaviour.outcome}", fontsize=8)
    save(figure, path)


def save(figure: Any, path: Path, tight: bool = True) -> None:
    """Save a figure as a PNG file, and close it."""
    if tight:
        figure.tight_layout()
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=110, bbox_inches=None if tight else "tight")
    write_whole(path, content.getvalue())
    pyplot().close(figure)
