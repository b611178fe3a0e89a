"""Commands to play with an agent, and to watch it."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from macop_aht.cli.options import Commands, new_file, positive, seed


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


def add_play(commands: Commands, words: Sequence[str]) -> None:
    parser = commands.add_parser("play", help="play in the browser as the unknown teammate of an agent")
    parser.add_argument(
        "scenario", nargs="?", default="", help="name of a scenario, such as LBF4 (default: choose on the page)"
    )
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
