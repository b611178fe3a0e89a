"""The paper's tables and figures from a campaign: `macop reproduce NAME --campaign FOLDER`. One file for each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from macop_aht.reproduction import (
    fig_ablation,
    fig_crossplay,
    fig_environments,
    fig_population,
    fig_process,
    fig_radar,
    fig_sensitivity,
    fig_space,
    table1,
    table2,
    table_modern,
)
from macop_aht.reproduction.material import Material

# Each writes NAME.md, NAME.csv and pictures into a folder, and gives the text.
REPRODUCTIONS: dict[str, Callable[[Material, Path], str]] = {
    "table1": table1.write,
    "table2": table2.write,
    "table-modern": table_modern.write,
    "fig-process": fig_process.write,
    "fig-crossplay": fig_crossplay.write,
    "fig-ablation": fig_ablation.write,
    "fig-sensitivity": fig_sensitivity.write,
    "fig-population": fig_population.write,
    "fig-radar": fig_radar.write,
    "fig-space": fig_space.write,
}
# Those that can be made without a campaign.
WITHOUT_CAMPAIGN: dict[str, Callable[[Path], str]] = {
    "fig-space": fig_space.write_from_zoo,
    "fig-environments": fig_environments.write,
}
