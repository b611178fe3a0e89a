"""A campaign from its beginning, or from where it was stopped, to its end."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path

from macop_aht.campaign.board import Board, headline
from macop_aht.campaign.plan import CAMPAIGN, Campaign, tasks
from macop_aht.campaign.processes import Processes
from macop_aht.campaign.runner import Executor, Ledger, run
from macop_aht.config import to_toml
from macop_aht.runs.lock import folder_lock
from macop_aht.util import show, write_whole


def conduct(
    campaign: Campaign,
    folder: Path,
    say: Callable[[str], None] = show,
    ray_address: str | None = None,
    left_out: Collection[str] = (),
) -> bool:
    """Do what is not done yet, but for the tasks that are left out; return whether all else is done.

    What failed is tried again by the next call. With `ray_address`, on the nodes of that cluster; else in processes of this
    machine. Raises `LockedError` where another campaign is at work in the folder.
    """
    folder = folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    with folder_lock(folder, "campaign"):
        ledger = Ledger(folder, tasks(campaign), left_out, say)
        ledger.check_runs()
        write_whole(folder / CAMPAIGN, to_toml(campaign))
        executor = _executor(campaign, folder, ray_address)
        places = executor.places
        with Board(places) as board:
            complete = run(ledger, executor, board.show)
    say(headline(ledger, places))
    for name in ledger.named("failed"):
        say(f"{name} failed: {last_line(folder / f'{name}.log')} (all of it in {folder / name}.log)")
    for task in ledger.tasks:
        missing = [name for name in task.needs if name in ledger.named("failed", "blocked")]
        if missing:
            say(f"{task.name} is blocked by {', '.join(missing)}")
    return complete


def _executor(campaign: Campaign, folder: Path, ray_address: str | None) -> Executor:
    if ray_address is None:
        return Processes(folder, campaign.processes, campaign.threads)
    from macop_aht.campaign.cluster import RayNodes

    return RayNodes(folder, campaign.threads, ray_address)


def last_line(log: Path) -> str:
    """What a task said last."""
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return lines[-1].strip() if lines else "it said nothing"
