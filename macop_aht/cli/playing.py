"""Commands to play with an agent, and to watch it."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from macop_aht.cli.options import Commands, new_file, positive, seed

if TYPE_CHECKING:
    import numpy as np


def _play(arguments: argparse.Namespace) -> None:
    import webbrowser

    from macop_aht.play import require_server
    from macop_aht.scenarios import find

    require_server()
    from macop_aht.play import server as pages

    if arguments.scenario:
        find(arguments.scenario)
    options = pages.Options(
        host=arguments.host, agent=arguments.agent, selector=arguments.selector, scenario=arguments.scenario,
        record=arguments.record, seed=arguments.seed, games=arguments.games,
    )  # fmt: skip
    server = pages.Server(options)
    if arguments.scenario:
        server.offer(arguments.scenario)  # a wrong agent fails here
    elif arguments.agent or arguments.selector:
        raise ValueError("--agent and --selector need a scenario, such as `macop play LBF4 --agent macop/LBF4`")
    sock = pages.listen(arguments.host, arguments.port)
    url = pages.address(arguments.host, sock.getsockname()[1], arguments.scenario)

    def ready() -> None:
        print(f"playing at {url} (Ctrl-C stops)", flush=True)
        if arguments.record:
            print(f"episodes are kept in {arguments.record}", flush=True)
        if arguments.browser:
            webbrowser.open(url)

    pages.serve(server, sock, ready)


def _add_agent(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--agent",
        default="",
        metavar="AGENT",
        help="bundle (folder or shipped name) or teammate spec that plays the ego (default: the shipped bundle of Macop+, "
        "else of Macop)",
    )
    parser.add_argument(
        "--selector", default="", metavar="NAME", help="selector of the bundle (default: zero-shot, where it has that)"
    )


def add_play(commands: Commands, words: Sequence[str]) -> None:
    parser = commands.add_parser("play", help="play in the browser as the unknown teammate of an agent")
    parser.add_argument(
        "scenario", nargs="?", default="", help="name of a scenario, such as LBF4 (default: choose on the page)"
    )
    _add_agent(parser)
    parser.add_argument(
        "--record", type=new_file, metavar="FILE", help="file to which every episode is added as a line of JSON"
    )
    parser.add_argument(
        "--port", type=seed, default=8321, metavar="N", help="port, 0 for any free one (default: %(default)s)"
    )
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        help="address to listen on (default: %(default)s, which only this machine can reach)",
    )
    parser.add_argument(
        "--seed", type=seed, metavar="N", help="seed of every game, at least 0 (default: each has its own)"
    )
    parser.add_argument(
        "--games", type=positive, default=64, metavar="N", help="most games at the same time (default: %(default)s)"
    )
    parser.add_argument("--no-browser", dest="browser", action="store_false", help="do not open the browser")
    parser.set_defaults(run=_play)


def _watch(arguments: argparse.Namespace) -> None:
    from dataclasses import replace

    from macop_aht.play import watch
    from macop_aht.play.choices import offer

    known = offer(arguments.scenario, arguments.agent, arguments.selector)
    choice = replace(known.default(), person=False)
    if arguments.teammate:
        choice = replace(choice, teammate=arguments.teammate)
    moments = watch.frames(arguments.scenario, choice, arguments.episodes, arguments.seed)
    if arguments.terminal:
        watch.show(moments, arguments.fps, arguments.beliefs)
        return
    returns = []

    def pictures() -> Iterator[tuple[np.ndarray, bool]]:
        for moment in moments:
            if moment.over:
                returns.append(moment.score)
            yield watch.picture(moment, arguments.trails, arguments.beliefs), moment.over

    count = watch.film(arguments.out, pictures(), arguments.fps)
    print(f"{choice.agent} with {choice.teammate}: returns {', '.join(f'{value:.2f}' for value in returns)}")
    print(f"wrote {arguments.out}: {count} frames")


def _film(text: str) -> Path:
    if not text.endswith((".gif", ".mp4")):
        raise argparse.ArgumentTypeError(f"{text!r} ends neither in .gif nor in .mp4")
    return new_file(text)


def add_watch(commands: Commands, words: Sequence[str]) -> None:
    parser = commands.add_parser("watch", help="film an agent with a teammate, as GIF, MP4 or text")
    parser.add_argument("scenario", help="name of a scenario, such as LBF4 (`macop scenarios` lists them)")
    _add_agent(parser)
    parser.add_argument(
        "--teammate", default="", metavar="TEAMMATE", help="teammate, as for teammate= (default: a group of zoo:test)"
    )
    parser.add_argument(
        "--episodes",
        type=positive,
        default=1,
        metavar="N",
        help="number of episodes, at least 1 (default: %(default)s)",
    )
    parser.add_argument(
        "--seed", type=seed, default=0, metavar="N", help="seed of the episodes, at least 0 (default: %(default)s)"
    )
    parser.add_argument(
        "--out",
        type=_film,
        default="watch.gif",
        metavar="FILE",
        help="FILE.gif or FILE.mp4 to write (default: %(default)s)",
    )
    parser.add_argument("--terminal", action="store_true", help="print the episodes as text instead of writing a file")
    parser.add_argument("--beliefs", action="store_true", help="show what the agent believes beside the picture")
    parser.add_argument("--trails", action="store_true", help="show the ways that the agents have come")
    parser.add_argument(
        "--fps", type=positive, default=5, metavar="N", help="steps per second, at least 1 (default: %(default)s)"
    )
    parser.set_defaults(run=_watch)
