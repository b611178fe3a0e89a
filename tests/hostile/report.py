"""The figures of the attack, as the slow tests write them into `benchmarks/results/hostile.md`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from macop_aht.paths import commit
from macop_aht.util import write_whole

FILE = Path(__file__).parents[2] / "benchmarks" / "results" / "hostile.md"
HEAD = """# The attack on the suite's files and runs

`make test-slow` writes this page. [docs/security.md](../../docs/security.md) says what it means.
"""
PARTS = ("mutants", "kills")


def write(part: str, text: str) -> None:
    """Write a part of the page; the other one stays as it is."""
    before = FILE.read_text(encoding="utf-8") if FILE.exists() else ""
    found = dict(re.findall(r"<!-- (\w+) -->\n(.*?)<!-- end -->\n", before, re.DOTALL)) | {part: f"\n{text}\n\n"}
    body = "".join(f"\n<!-- {name} -->\n{found[name]}<!-- end -->\n" for name in PARTS if name in found)
    write_whole(FILE, HEAD + body)


def kills_table(lines: Iterable[Sequence[object]], seconds: float) -> str:
    """Return the table of the kill test."""
    heads = ("command", "kills", "runs compared, all equal to the bit", "seconds undisturbed")
    rows = "\n".join("| " + " | ".join(map(str, line)) + " |" for line in [heads, ["---"] * len(heads), *lines])
    return f"## Kills\n\nCommit {commit()}, {seconds / 60:.0f} minutes.\n\n{rows}"


def mutants_table(table: str, seconds: float) -> str:
    """Return the table of the mutants."""
    return f"## Mutants\n\nCommit {commit()}, {seconds / 60:.0f} minutes in two processes.\n\n{table}"
