"""Commands for many runs, and for the paper's tables and figures from them."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from macop_aht.cli.options import Commands, positive, seed
from macop_aht.util import show

REPRODUCTIONS = (  # their names alone, since they need torch
    "table1", "table2", "table-modern", "fig-process", "fig-crossplay", "fig-ablation", "fig-sensitivity", "fig-population",
    "fig-radar", "fig-space", "fig-environments",
)  # fmt: skip


def _campaign(arguments: argparse.Namespace) -> int:
    from dataclasses import replace

    from macop_aht.campaign.conduct import conduct
    from macop_aht.campaign.plan import outside, read

    given = {name: getattr(arguments, name) for name in ("processes", "threads", "device")}
    campaign = replace(read(Path(arguments.file)), **{name: value for name, value in given.items() if value})
    left_out = outside(campaign, arguments.scenarios, arguments.seeds)
    if arguments.dry_run:
        from macop_aht.campaign.estimate import table

        show(table(campaign, arguments.scenarios or campaign.scenarios, len(arguments.seeds or campaign.seeds)))
        return 0
    if not arguments.out:
        raise ValueError("name the campaign's folder with --out FOLDER, or see what it would run with --dry-run")
    address = arguments.address if arguments.executor == "ray" else None
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what it has begun is ended on the way out
    return 0 if conduct(campaign, Path(arguments.out), ray_address=address, left_out=left_out) else 1


def add_campaign(commands: Commands, words: Sequence[str]) -> None:
    parser = commands.add_parser(
        "campaign", help="run methods x scenarios x seeds, and evaluate the egos with all groups"
    )
    parser.add_argument(
        "file", metavar="FILE.toml", help="the campaign: scenarios, methods, seeds, preset, settings by method"
    )
    parser.add_argument(
        "--out", metavar="FOLDER", help="folder of the campaign; an unfinished campaign in it is resumed"
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="list the runs with their estimated core-hours, and start nothing"
    )
    parser.add_argument(
        "--executor",
        choices=("processes", "ray"),
        default="processes",
        help="where the runs go: processes of this machine, or a Ray cluster whose nodes share the folder (default: %(default)s)",
    )
    parser.add_argument(
        "--address", default="auto", help="address of the Ray cluster, with --executor ray (default: %(default)s)"
    )
    parser.add_argument(
        "--scenarios",
        nargs="+",
        metavar="SCENARIO",
        help="run only these of the file's scenarios; the rest can follow in the same folder (default: all)",
    )
    parser.add_argument(
        "--seeds", nargs="+", type=seed, metavar="N", help="run only these of the file's seeds (default: all)"
    )
    parser.add_argument(
        "--processes",
        type=positive,
        metavar="N",
        help="number of runs at a time, at least 1 (default: that of the file, else 2)",
    )
    parser.add_argument(
        "--threads",
        type=positive,
        metavar="N",
        help="number of CPU threads per run, at least 1 (default: that of the file, else 1)",
    )
    parser.add_argument(
        "--device",
        help="auto (CUDA if available, else the CPU), cpu, cuda or cuda:NUMBER (default: that of the file, else auto)",
    )
    parser.set_defaults(run=_campaign)


def _reproduce(arguments: argparse.Namespace) -> None:
    from macop_aht.reproduction import REPRODUCTIONS, WITHOUT_CAMPAIGN
    from macop_aht.reproduction.material import Material
    from macop_aht.runs.lock import folder_lock

    name = arguments.name
    material = Material.load(Path(arguments.campaign)) if arguments.campaign else None
    if material is None and name not in WITHOUT_CAMPAIGN:
        raise ValueError(f"{name} needs a campaign; name its folder with --campaign FOLDER")
    out = Path(arguments.out or Path(arguments.campaign or "") / "reproduction")
    with folder_lock(out, "reproduce"):
        out.mkdir(parents=True, exist_ok=True)
        show(REPRODUCTIONS[name](material, out) if material and name in REPRODUCTIONS else WITHOUT_CAMPAIGN[name](out))
    show(f"wrote {out / name}.md, .csv and plots")


def add_reproduce(commands: Commands, words: Sequence[str]) -> None:
    parser = commands.add_parser("reproduce", help="write the paper's tables and figures from a campaign")
    parser.add_argument("name", choices=REPRODUCTIONS, metavar="NAME", help=f"one of {', '.join(REPRODUCTIONS)}")
    parser.add_argument(
        "--campaign",
        metavar="FOLDER",
        help="folder of a campaign; fig-environments needs none, and fig-space takes the groups of the zoo without one",
    )
    parser.add_argument(
        "--out",
        metavar="FOLDER",
        help="folder to write to (default: reproduction, in the campaign's folder if there is one)",
    )
    parser.set_defaults(run=_reproduce)
