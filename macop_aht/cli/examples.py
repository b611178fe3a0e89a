"""An example of every command, for its help."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Final

EXAMPLES: Final = {
    "scenarios": "macop scenarios",
    "teammates": "macop teammates LBF4",
    "demo": "macop demo --gif demo.gif --train",
    "check": "macop check my_module:make_env",
    "play": "macop play LBF4",
    "watch": "macop watch LBF4 --beliefs --out episode.gif",
    "selfplay": "macop selfplay LBF4 --teams 4 --steps 125000 --out runs/lbf4",
    "train": "macop train LBF4 --method macop+ --out runs/plus",
    "sequence": "macop sequence runs/macop runs/fcp --length 10 --out runs/sequence",
    "evaluate": "macop evaluate macop-plus/LBF4 --selector zero-shot --html report.html",
    "compare": "macop compare random.csv nearest.csv",
    "crossplay": "macop crossplay LBF4 zoo:train scripted:nearest --out crossplay",
    "pool": "macop pool runs/macop runs/fcp --out rows.csv",
    "campaign": "macop campaign benchmarks/campaigns/lbf4.toml --out runs/all",
    "reproduce": "macop reproduce table1 --campaign runs/all",
    "export": "macop export runs/macop --out bundles/lbf4",
    "zoo list": "macop zoo list LBF4",
    "zoo add": "macop zoo add runs/macop --split train",
    "zoo verify": "macop zoo verify LBF4",
    "convert": "macop convert runs/old",
}


def parsers(parser: argparse.ArgumentParser, name: str = "") -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Yield every command below a parser with its parser, such as "zoo list"."""
    inner = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if not inner:
        yield name, parser
    for action in inner:
        for word, own in action.choices.items():
            yield from parsers(own, f"{name} {word}".strip())


def add_examples(parser: argparse.ArgumentParser) -> None:
    """End the help of every command with its example."""
    for name, own in parsers(parser):
        if name in EXAMPLES:
            own.epilog = f"{own.epilog or ''} Example: {EXAMPLES[name]}".strip()
