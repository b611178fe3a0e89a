"""One open page: its game, its clock, and the limits that keep a page from harming the others."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic
from typing import Any

from starlette.websockets import WebSocket, WebSocketDisconnect

from macop_aht.evaluation.recordings import Recording
from macop_aht.play import messages
from macop_aht.play.choices import Choice, Offer
from macop_aht.play.game import Game

RATE, BURST = 60.0, 120.0  # messages per second of a page, and how many may come at once
PATIENCE = 2_000  # messages above the rate until a page is shut out
SLOW = 10.0  # seconds that a page may take to read a message
IDLE = 1_800.0  # seconds without a message until a game is closed
REST = 1.2  # seconds between two episodes that nobody plays
TURNS, COMBAT_PACE, PLAIN_PACE = 0.0, 3.0, 6.0  # steps per second at first
TOO_MANY, POLICY_VIOLATED = 1013, 1008  # codes of closing


class Budget:
    """A bucket of messages that fills at a rate."""

    def __init__(self, now: float) -> None:
        self._left, self._at, self.refused, self._told = BURST, now, 0, now - 1.0

    def take(self, now: float) -> bool:
        """Return whether another message is allowed."""
        self._left, self._at = min(BURST, self._left + (now - self._at) * RATE), now
        if self._left >= 1.0:
            self._left -= 1.0
            return True
        self.refused += 1
        return False

    def tell(self, now: float) -> bool:
        """Return whether to say that a message was refused: once in a second."""
        due = now - self._told >= 1.0
        self._told = now if due else self._told
        return due


@dataclass
class Orders:
    """What the person wants: an order lasts until it is released, and every order is carried out at least once."""

    held: int | None = None
    tapped: int | None = None

    def give(self, action: int) -> None:
        self.held = self.tapped = action

    def release(self, action: int) -> None:
        if self.held == action:
            self.held = None

    def take(self) -> int | None:
        """Return the order for this step."""
        wanted, self.tapped = self.tapped if self.tapped is not None else self.held, None
        return wanted


class Session:
    """The game of one websocket. A reader obeys the page's messages, a clock steps in real time; both send states."""

    def __init__(self, socket: WebSocket, offer: Offer, seed: int, keep: Callable[[Recording], None] | None) -> None:
        self._socket, self._offer, self._seed, self._keep = socket, offer, seed, keep
        self._orders, self._budget, self._sending = Orders(), Budget(monotonic()), asyncio.Lock()
        self._changed, self._pace, self._paused, self._waiting = asyncio.Event(), TURNS, False, True
        self._game: Game

    async def run(self) -> None:
        """Play until the page is closed."""
        await self._start(self._offer.default(), first=True)
        tasks = [asyncio.create_task(self._listen()), asyncio.create_task(self._tick())]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        with suppress(WebSocketDisconnect, TimeoutError):  # the page is closed, or reads nothing
            for task in done:
                task.result()

    async def _start(self, choice: Choice, first: bool = False) -> None:
        """Begin a new game. It is made in a thread, because reading a bundle takes a while."""
        game = await asyncio.to_thread(Game, self._offer.scenario, choice, self._seed, self._keep)
        game.begin()
        self._game, self._orders, self._waiting = game, Orders(), choice.person
        if first:
            self._pace = _usual_pace(game)
        await self._send(messages.welcome(self._offer, game, self._pace))
        await self._show()

    async def _listen(self) -> None:
        while True:
            text = await asyncio.wait_for(self._receive(), IDLE)
            now = monotonic()
            if not self._budget.take(now):
                if self._budget.refused > PATIENCE:
                    await self._socket.close(POLICY_VIOLATED, "too many messages")
                    return
                if self._budget.tell(now):
                    await self._send(messages.error(f"too many messages; allowed are {RATE:g} per second"))
                elif self._budget.refused % 64 == 0:
                    await asyncio.sleep(0)  # the other games go on
                continue
            try:
                await self._obey(messages.parse(text))
            except (ValueError, TypeError, KeyError, OSError, ImportError) as problem:
                await self._send(messages.error(problem))

    async def _receive(self) -> str:
        """Return the next message; one of bytes counts as an empty text, which is refused."""
        found = await self._socket.receive()
        if found["type"] == "websocket.disconnect":
            raise WebSocketDisconnect(found.get("code", 1000))
        return found.get("text") or ""

    async def _obey(self, message: messages.Message) -> None:
        game = self._game
        match message:
            case messages.Act(action=action):
                if not 0 <= action < len(game.world.actions):
                    raise ValueError(f"action {action} is not in 0..{len(game.world.actions) - 1}")
                await self._act(action)
            case messages.Release(action=action):
                self._orders.release(action)
            case messages.Start():
                chosen = (message.agent, message.selector, message.teammate, message.person)
                await self._start(self._offer.chosen(game.choice, *chosen))
            case messages.Pace(steps=steps):
                self._pace, self._orders = steps, Orders()
            case messages.Pause(on=on):
                self._paused = on
            case messages.Next():
                if not game.over:
                    raise ValueError("the episode is not over; play it to its end, or start a new game")
                await self._next()
        self._changed.set()

    async def _act(self, action: int) -> None:
        if self._game.over:
            return  # a key that comes too late
        self._orders.give(action)
        self._waiting = False
        if self._pace == TURNS:
            await self._step()

    async def _step(self) -> None:
        self._game.step(self._orders.take())
        await self._show()

    async def _next(self) -> None:
        self._game.begin()
        self._orders, self._waiting = Orders(), False
        await self._show()

    async def _tick(self) -> None:
        """Step at the chosen pace, while there is something to step."""
        due = monotonic()
        while True:
            game, pace = self._game, self._pace
            if self._paused or self._waiting or pace == TURNS or (game.over and game.choice.person):
                self._changed.clear()
                await self._changed.wait()
                due = monotonic()
                continue
            due = max(due + (REST if game.over else 1.0 / pace), monotonic())
            await asyncio.sleep(due - monotonic())
            if game is not self._game or self._paused or self._pace == TURNS:
                continue
            if game.over and not game.choice.person:
                await self._next()
            elif not game.over:
                await self._step()

    async def _show(self) -> None:
        await self._send(messages.state(self._game, self._waiting))

    async def _send(self, message: dict[str, Any]) -> None:
        """Send a message; a page that does not read loses its game."""
        async with self._sending:
            await asyncio.wait_for(self._socket.send_text(json.dumps(message, allow_nan=False)), SLOW)


def _usual_pace(game: Game) -> float:
    """Return the pace of a world at first: turns on a grid, else real time."""
    scene = game.scene()
    if scene.picture is not None or scene.grid != (0, 0):
        return TURNS
    return COMBAT_PACE if any(body.action is not None for body in scene.bodies) else PLAIN_PACE
