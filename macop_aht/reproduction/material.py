"""What tables and figures are made of: a campaign's rows and run folders, and the paper's figures; and how they are written."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from macop_aht import util
from macop_aht.campaign.plan import CAMPAIGN, Campaign, read
from macop_aht.evaluation.rows import Row, read_rows
from macop_aht.runs.folder import RunFolder


@dataclass(frozen=True)
class Material:
    """A campaign, as far as it has come."""

    folder: Path
    campaign: Campaign

    @staticmethod
    def load(folder: Path) -> Material:
        stored = folder / CAMPAIGN
        if not stored.exists():
            raise FileNotFoundError(f"{folder} holds no campaign: there is no {stored.name} in it")
        return Material(folder, read(stored))

    def rows(self) -> dict[str, list[Row]]:
        """The rows of the scenarios that have been evaluated."""
        paths = [
            (scenario, self.folder / scenario / name)
            for scenario in self.campaign.scenarios
            for name in ("rows.csv.gz", "rows.csv")
        ]
        found = {scenario: read_rows(path) for scenario, path in paths if path.exists()}
        if not found:
            raise ValueError(f"nothing in {self.folder} has been evaluated yet; resume it with macop campaign first")
        return found

    def runs(self, methods: Iterable[str]) -> dict[tuple[str, str, int], Path]:
        """The finished runs of these methods by scenario, method and seed."""
        found = {
            (scenario, method, seed): self.folder / scenario / method / str(seed)
            for scenario in self.campaign.scenarios
            for method in methods
            for seed in self.campaign.seeds
        }
        return {key: path for key, path in found.items() if RunFolder(path).exists and RunFolder(path).finished}


def without(wanted: Iterable[tuple[str, str, int]], found: Iterable[tuple[str, str, int]]) -> str:
    """A note on which runs are missing; "" where none is."""
    there = set(found)
    missing = [
        f"{scenario}/{method}/{seed}" for scenario, method, seed in wanted if (scenario, method, seed) not in there
    ]
    return f"**Partial; missing are the runs** {', '.join(missing)}." if missing else ""


def mean_and_std(values: Sequence[float]) -> tuple[float, float | None]:
    """Over seeds; the standard deviation is of a sample, and None where there is one."""
    return float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else None


def paper() -> dict[str, Any]:
    """The paper's figures."""
    return tomllib.loads((Path(__file__).parent / "paper.toml").read_text(encoding="utf-8"))


def markdown(head: Sequence[str], lines: Iterable[Sequence[object]]) -> str:
    """A table."""
    body = [[*map(str, line)] for line in lines]
    return "\n".join("| " + " | ".join(line) + " |" for line in [[*head], ["---"] * len(head), *body])


def write_csv(path: Path, head: Sequence[str], lines: Iterable[Sequence[object]]) -> None:
    util.write_csv(path, [head, *lines])


def write_text(path: Path, paragraphs: Iterable[str]) -> str:
    """Paragraphs that are not empty, as a file; gives what is in it."""
    text = "\n\n".join(filter(None, paragraphs)) + "\n"
    util.write_whole(path, text)
    return text
