"""Progress on the terminal."""

from __future__ import annotations

from typing import Any

from macop_aht.util import plain


class Bar:
    """A bar with phase, steps, return, steps per second and time left. Runs in phases have a second bar for the whole run."""

    def __init__(self, steps: int, whole_run: bool = False) -> None:
        try:
            from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
        except ImportError as error:
            raise ImportError("training needs more packages: pip install 'macop-aht[train]'") from error

        columns = (
            TextColumn("{task.description}"),
            TextColumn("{task.completed:,.0f}/{task.total:,.0f} steps"),
            BarColumn(20),
        )
        self._progress = Progress(*columns, TextColumn("{task.fields[figures]}"), TimeRemainingColumn())
        self._whole = self._progress.add_task("run, at most", total=steps, figures="", visible=whole_run)
        self._task = self._progress.add_task("self-play", total=steps, figures="")

    def show(self, progress: Any) -> None:
        speed = progress.steps / max(progress.seconds, 1e-9)
        figures = f"return {progress.mean_return:.2f}, {speed:,.0f} steps/s"
        self._progress.update(self._task, completed=progress.steps, figures=figures)

    def show_status(self, status: Any) -> None:
        if self._progress.tasks[-1].description != status.phase:
            self._progress.reset(self._task, total=status.steps, description=status.phase)
        self.show(status.progress)
        heads = "" if status.heads is None else f"{status.heads} head{'s' if status.heads > 1 else ''}"
        compatible = "" if status.compatibility is None else f", C = {status.compatibility:.2f}"
        done = status.spent + status.progress.steps
        self._progress.update(self._whole, completed=done, figures=heads + compatible)

    def say(self, line: str) -> None:
        self._progress.console.print(plain(line), markup=False)

    def __enter__(self) -> Bar:
        self._progress.start()
        return self

    def __exit__(self, *reason: object) -> None:
        self._progress.stop()
