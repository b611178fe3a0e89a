"""The server of the page: HTTP and websockets on one port, on loopback unless told otherwise.

It answers only requests that name it as its own host, so that a foreign name that leads here (DNS rebinding) gets nothing, and
opens games only for its own pages. It serves a fixed list of files and nothing else.
"""

from __future__ import annotations

import html
import json
import secrets
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib.resources import files
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import numpy as np
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect

from macop_aht.episodes.runner import Lockstep
from macop_aht.evaluation.recordings import Recording, append
from macop_aht.play import messages
from macop_aht.play.choices import Offer, offer
from macop_aht.play.session import TOO_MANY, Session
from macop_aht.scenarios import SCENARIOS, build, find
from macop_aht.scenarios.palette import DARK, LIGHT

GAMES = 64  # at the same time
LARGEST = 65_536  # bytes of a message; a page that sends more is disconnected
LOOPBACK = ("127.0.0.1", "localhost", "::1")
KINDS = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self' {origin}; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


@dataclass(frozen=True)
class Options:
    """What a server is told when it starts."""

    host: str = "127.0.0.1"
    agent: str = ""  # that is offered first, in the scenario that it plays
    selector: str = ""  # that is offered first, with that agent
    scenario: str = ""  # that agent and selector are for
    record: Path | None = None  # where episodes are kept
    seed: int | None = None  # of every game; None: each has one of its own
    games: int = GAMES


class Guard:
    """Refuses requests for other hosts, and websockets of other pages; adds the headers that every answer has."""

    def __init__(self, app: ASGIApp, host: str) -> None:
        self._app, self._allowed = app, {*LOOPBACK, host.strip("[]").lower()}
        self._anywhere = host in ("0.0.0.0", "::")  # then any address is its own, but no foreign name

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        host = headers.get(b"host", "")
        problem = "" if self._own(host) else f"this server is not {host[:100]!r}; open the address that it has printed"
        if scope["type"] == "websocket" and not problem and headers.get(b"origin") != f"http://{host}":
            problem = "games are for this server's own pages"
        if problem:
            await _refuse(scope, problem)(scope, receive, send)
            return

        async def guarded(message: Any) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *_headers(host)]
            await send(message)

        await self._app(scope, receive, guarded)

    def _own(self, host: str) -> bool:
        name = (host[1:].partition("]")[0] if host.startswith("[") else host.rpartition(":")[0] or host).lower()
        return name in self._allowed or (self._anywhere and _is_address(name))


def _is_address(name: str) -> bool:
    try:
        return bool(ip_address(name))
    except ValueError:
        return False


def _refuse(scope: Scope, problem: str) -> ASGIApp:
    if scope["type"] == "http":
        return PlainTextResponse(problem, status_code=403)

    async def close(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "websocket.close", "code": 1008, "reason": problem})  # before it is accepted: a 403

    return close


def _headers(host: str) -> list[tuple[bytes, bytes]]:
    policy = POLICY.format(origin=f"ws://{host}")
    return [
        (b"content-security-policy", policy.encode("latin-1")),
        (b"x-content-type-options", b"nosniff"),
        (b"referrer-policy", b"no-referrer"),
        (b"cross-origin-resource-policy", b"same-origin"),
        (b"cache-control", b"no-cache"),
    ]


@cache
def _first_scene(scenario: str) -> dict[str, Any]:
    play = Lockstep(build(scenario), [1])
    play.begin(np.ones(1, dtype=np.bool_))
    return messages.scene_message(play.world.scene(play.batch.state, 0))


@dataclass
class Server:
    """The pages, and the games that are open."""

    options: Options
    open_games: int = 0
    offers: dict[str, Offer] = field(default_factory=dict)

    def app(self) -> Guard:
        """Return the ASGI application."""
        routes = [
            Route("/", self._gallery),
            Route("/static/palette.css", self._palette),
            Route("/static/{name}", self._file),
            Route("/{scenario}", self._page),
            Route("/{scenario}/scene.json", self._scene),
            WebSocketRoute("/{scenario}/game", self._game),
        ]
        return Guard(Starlette(routes=routes), self.options.host)

    def offer(self, scenario: str) -> Offer:
        """Return what can be chosen in a scenario; raise as `offer` of `choices` does."""
        if scenario not in self.offers:
            own = scenario == self.options.scenario
            given = (self.options.agent, self.options.selector) if own else ("", "")
            self.offers[scenario] = offer(scenario, *given)
        return self.offers[scenario]

    @cached_property
    def _static(self) -> dict[str, str]:
        folder = files("macop_aht.play") / "static"
        return {entry.name: entry.read_text("utf-8") for entry in folder.iterdir() if entry.is_file()}

    def _file(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in self._static:
            return PlainTextResponse("there is no such file", status_code=404)
        return Response(self._static[name], media_type=KINDS[Path(name).suffix])

    def _palette(self, request: Request) -> Response:
        light, dark = ("".join(f"--{name}: {colour}; " for name, colour in theme.items()) for theme in (LIGHT, DARK))
        text = f":root {{ {light}}}\n@media (prefers-color-scheme: dark) {{ :root {{ {dark}}} }}\n"
        return Response(text, media_type="text/css")

    def _gallery(self, request: Request) -> Response:
        return HTMLResponse(self._worlds(""))

    def _page(self, request: Request) -> Response:
        scenario = request.path_params["scenario"]
        try:
            find(scenario)
        except KeyError as error:
            problem = f'<p class="problem" role="alert">{html.escape(str(error.args[0])[:300])}</p>'
            return HTMLResponse(self._worlds(problem), status_code=404)
        options = "".join(
            f'<option value="{name}"{" selected" * (name == scenario)}>{name}</option>' for name in SCENARIOS
        )
        about = html.escape(SCENARIOS[scenario].about)
        return HTMLResponse(self._filled("game.html", {"scenario": scenario, "about": about, "options": options}))

    def _worlds(self, problem: str) -> str:
        worlds = "".join(
            f'<li><a href="/{name}"><canvas data-world="{name}" aria-hidden="true"></canvas><strong>{name}</strong>'
            f"<span>{html.escape(known.about)}</span></a></li>"
            for name, known in SCENARIOS.items()  # names are identifiers
        )
        return self._filled("gallery.html", {"problem": problem, "worlds": worlds})

    def _filled(self, name: str, entries: dict[str, str]) -> str:
        text = self._static[name]
        for key, value in entries.items():
            text = text.replace(f"<!--{key}-->", value)
        return text

    def _scene(self, request: Request) -> Response:
        """A scenario as an episode begins, for the gallery."""
        scenario = request.path_params["scenario"]
        if scenario not in SCENARIOS:
            return PlainTextResponse("there is no such scenario", status_code=404)
        return Response(json.dumps(_first_scene(scenario)), media_type="application/json")

    async def _game(self, page: WebSocket) -> None:
        await page.accept()
        if self.open_games >= self.options.games:
            await page.send_json(messages.error(f"{self.options.games} games are open, and no more fit; close a tab"))
            await page.close(TOO_MANY)
            return
        self.open_games += 1
        try:
            find(page.path_params["scenario"])
            seed = secrets.randbits(31) if self.options.seed is None else self.options.seed
            await Session(page, self.offer(page.path_params["scenario"]), seed, self._keeper()).run()
        except WebSocketDisconnect:
            pass
        except (ValueError, KeyError, OSError, ImportError) as problem:
            await page.send_json(messages.error(problem))
            await page.close(1008)
        finally:
            self.open_games -= 1

    def _keeper(self) -> Callable[[Recording], None] | None:
        record = self.options.record
        return None if record is None else lambda recording: append(record, recording)


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens; port 0 is any free one. Raises `OSError` where the port is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host.strip("[]"), port), family=family, backlog=256)
    except OSError as error:
        raise OSError(f"cannot listen on {host} port {port} ({error}); choose another one with --port") from error


def address(host: str, port: int, scenario: str) -> str:
    """Return the address of a scenario's page; of all scenarios where none is named."""
    name = "127.0.0.1" if host == "0.0.0.0" else "::1" if host == "::" else host.strip("[]")
    return f"http://{f'[{name}]' if ':' in name else name}:{port}/{scenario}"


def serve(server: Server, sock: socket.socket, ready: Callable[[], None] = lambda: None) -> None:
    """Serve until Ctrl-C. `ready` is called as soon as pages are answered."""
    import uvicorn

    class Announced(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            ready()

    config = uvicorn.Config(
        server.app(), log_level="warning", access_log=False, lifespan="off", server_header=False, proxy_headers=False,
        ws="websockets-sansio", ws_max_size=LARGEST, ws_per_message_deflate=False, timeout_graceful_shutdown=2,
    )  # fmt: skip
    Announced(config).run([sock])
