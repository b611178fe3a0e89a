"""Does `macop play` hold 50 games at once, and does its memory stay flat over 10,000 episodes?

    python benchmarks/play_load.py [--scenario LBF4] [--pages 50] [--seconds 60] [--pace 5] [--episodes 10000] [--out FILE]

The server runs in a process of its own, as `macop play` starts it. Every page is a websocket that plays in turns, with random
actions of the person. First the pages play for so many seconds at the given pace: a step takes as long as it is from sending
the action to having the new state. Then they play as fast as the server lets them, until so many episodes have ended; the
server's memory is read on the way. A game is lost where its page gets an error, or is disconnected.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from websockets.asyncio.client import connect

LIMIT = 40.0  # messages per second of a page, below what the server allows
LOOKS = 10  # times that the memory is read


@dataclass
class Load:
    """What the pages have found."""

    waits: list[float] = field(default_factory=list)  # seconds
    episodes: int = 0
    lost: list[str] = field(default_factory=list)


async def play(url: str, scenario: str, pace: float, until: Any, load: Load, seed: int) -> None:
    """Play in one page at so many steps per second, until `until(load)` holds."""
    rng = random.Random(seed)
    await asyncio.sleep(rng.random() / pace)
    try:
        async with connect(f"{url.replace('http', 'ws')}/{scenario}/game", origin=url, max_size=None) as socket:  # type: ignore[arg-type]
            actions = len((await hear(socket, "welcome"))["controls"])
            state = await hear(socket, "state")
            await socket.send(json.dumps({"type": "pace", "steps": 0}))
            due = time.perf_counter()
            while not until(load):
                due = max(due + 1 / pace, time.perf_counter() - 1 / pace)
                await asyncio.sleep(max(0.0, due - time.perf_counter()))
                begun = time.perf_counter()
                order = {"type": "next"} if state["over"] else {"type": "act", "action": rng.randrange(actions)}
                await socket.send(json.dumps(order))
                state = await hear(socket, "state")
                load.waits.append(time.perf_counter() - begun)
                load.episodes += state["over"]
    except Exception as problem:  # whatever it is, the game is lost
        load.lost.append(repr(problem))


async def hear(socket: Any, kind: str) -> dict[str, Any]:
    """Return the next message of that kind; an error of the server raises."""
    while True:
        message: dict[str, Any] = json.loads(await asyncio.wait_for(socket.recv(), 60))
        if message["type"] == "error":
            raise RuntimeError(message["text"])
        if message["type"] == kind:
            return message


async def all_pages(url: str, arguments: argparse.Namespace, pace: float, until: Any) -> Load:
    """Play in all pages at once."""
    load = Load()
    pages = (play(url, arguments.scenario, pace, until, load, seed) for seed in range(arguments.pages))
    await asyncio.gather(*pages)
    return load


def memory(process: int) -> float:
    """Return how much memory a process has, in megabytes."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) / 1024


async def measure(url: str, process: int, arguments: argparse.Namespace) -> list[str]:
    """Return the lines of the two tables."""
    end = time.monotonic() + arguments.seconds
    timed = await all_pages(url, arguments, arguments.pace, lambda load: time.monotonic() > end)
    waits = np.array(timed.waits) * 1000
    looks: dict[int, float] = {}

    def until(load: Load) -> bool:
        if load.episodes >= len(looks) * arguments.episodes / LOOKS:
            looks[load.episodes] = memory(process)
        return load.episodes >= arguments.episodes

    fast = await all_pages(url, arguments, LIMIT, until)
    return [
        "| pages | steps | median, ms | 95%, ms | longest, ms | games lost |",
        "|---|---|---|---|---|---|",
        f"| {arguments.pages} | {len(waits)} | {np.median(waits):.1f} | {np.quantile(waits, 0.95):.1f} | {waits.max():.0f} "
        f"| {len(timed.lost)} |",
        "",
        f"At full speed, {fast.episodes} episodes: {len(fast.lost)} games lost.",
        "",
        "| episodes | memory of the server, MB |",
        "|---|---|",
        *(f"| {episodes} | {amount:.1f} |" for episodes, amount in looks.items()),
        *(f"\nlost: {problem}" for problem in {*timed.lost, *fast.lost}),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenario", default="LBF4")
    parser.add_argument("--pages", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--pace", type=float, default=5.0, help="steps per second and page while the time is taken")
    parser.add_argument("--episodes", type=int, default=10_000)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "play_load.md")
    arguments = parser.parse_args()
    words = [sys.executable, "-m", "macop_aht", "play", arguments.scenario, "--no-browser", "--port=0"]
    with subprocess.Popen([*words, f"--games={arguments.pages}"], stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            url = server.stdout.readline().split()[2].rpartition("/")[0]
            found = asyncio.run(measure(url, server.pid, arguments))
        finally:
            server.terminate()
    options = " ".join(f"--{name} {getattr(arguments, name):g}" for name in ("pages", "seconds", "pace", "episodes"))
    head = (
        f"`python benchmarks/play_load.py --scenario {arguments.scenario} {options}`, on {os.cpu_count()} cores, load of the "
        f"machine {os.getloadavg()[0]:.1f}."
    )
    lines = ["# Many games at once", "", head, "", *found]
    print("\n".join(lines))
    arguments.out.write_text("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
