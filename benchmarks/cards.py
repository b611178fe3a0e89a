"""Rewrite the cards of bundles, with all tiers of teammates. The bundles' files stay as they are.

python benchmarks/cards.py [agents/macop/LBF4 …] [--episodes 32]
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from macop_aht.deploy.files import read_manifest
from macop_aht.export.card import PLOT, card, tiers

AGENTS = Path(__file__).parent.parent / "agents"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "bundles", nargs="*", type=Path, default=sorted(path.parent for path in AGENTS.glob("*/*/card.md"))
    )
    parser.add_argument("--episodes", type=int, default=32, help="with each teammate")
    arguments = parser.parse_args()
    for folder in arguments.bundles:
        manifest = read_manifest(folder)
        text = card(manifest, tiers(folder, manifest, arguments.episodes), (folder / PLOT).exists())
        (folder / "card.md").write_text(text, encoding="utf-8")
        print(folder, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
