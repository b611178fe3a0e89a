"""A campaign on the screen: a live table of what is done, running and to come, and a line for all that begins and ends."""

from __future__ import annotations

import time

from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from macop_aht.campaign.plan import EVALUATION
from macop_aht.campaign.runner import Ledger, Standing, State
from macop_aht.util import plain

COLOURS: dict[State, str] = {
    "to come": "dim", "running": "cyan", "done": "green", "failed": "red", "blocked": "yellow", "left out": "dim",
}  # fmt: skip


class Board:
    """Shows a ledger. Where there is no terminal, the lines alone are printed."""

    def __init__(self, places: int, console: Console | None = None) -> None:
        self._places, self._console = places, console or Console()
        self._live = Live(console=self._console, auto_refresh=False, transient=True)
        self._told: dict[str, State] = {}

    def __enter__(self) -> Board:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *reason: object) -> None:
        self._live.stop()

    def show(self, ledger: Ledger) -> None:
        for name, own in ledger.standing.items():
            if own.state not in (self._told.get(name, "to come"), "left out"):
                took = f" after {own.minutes:.1f} min" if own.minutes is not None else ""
                told = plain(f"{name}: {own.state}{took}")
                self._console.print(told, style=COLOURS[own.state], highlight=False, markup=False)
            self._told[name] = own.state
        if self._console.is_terminal:
            self._live.update(table(ledger, self._places), refresh=True)


def table(ledger: Ledger, places: int) -> Group:
    """How far it is in all, then a line for the runs of a method, and one for every evaluation."""
    lines: dict[str, list[str]] = {}
    for name, own in ledger.standing.items():
        line, _, last = name.rpartition("/")
        if last == EVALUATION:
            lines[name] = [_cell("", own)]
        else:
            lines.setdefault(line, []).append(_cell(f"{last}: ", own))
    grid = Table.grid(padding=(0, 2))
    for line, cells in lines.items():
        grid.add_row(escape(plain(line)), *cells)
    return Group(headline(ledger, places), grid)


def headline(ledger: Ledger, places: int) -> str:
    """How far it is, and how long it still takes."""
    states: tuple[State, ...] = ("done", "running", "to come", "failed", "blocked", "left out")
    counts = ", ".join(f"{len(ledger.named(state))} {state}" for state in states if ledger.named(state))
    left = ledger.minutes_left(places) if ledger.named("running", "to come") else None
    return counts if left is None else f"{counts}; about {left:.0f} min left"


def _cell(label: str, own: Standing) -> str:
    minutes = (time.monotonic() - own.since) / 60 if own.state == "running" else own.minutes
    took = "" if minutes is None else f" {minutes:.1f} min"
    return f"[{COLOURS[own.state]}]{label}{own.state}{took}[/]"
