"""The paper's figure of Macop's learning process: groups, heads and the stop criterion over the iterations of a run."""

from __future__ import annotations

from pathlib import Path

from macop_aht import plots
from macop_aht.methods.training import read_run
from macop_aht.reproduction.material import Material, markdown, paper, without, write_csv, write_text
from macop_aht.runs.folder import RunFolder
from macop_aht.runs.records import Iteration, iterations

METHODS = ("macop", "macop+")


def write(material: Material, out: Path) -> str:
    """fig-process.md, fig-process.csv, and a picture for every run."""
    campaign, papers = material.campaign, paper()["process"]
    methods = [method for method in METHODS if method in campaign.methods]
    runs = material.runs(methods)
    if not runs:
        raise ValueError(f"{material.folder} has no finished run of {' or '.join(METHODS)}; the figure is of one")
    summary, points, pictures = [], [], []
    for (scenario, method, seed), folder in runs.items():
        steps, threshold = iterations(RunFolder(folder).decisions()), read_run(folder).config.stop_threshold
        picture = f"fig-process-{scenario}-{method}-{seed}.png"
        plots.process(steps, threshold, out / picture)
        pictures.append(f"![{scenario}, {method}, seed {seed}]({picture})")
        points += [[scenario, method, seed, *step] for step in steps]
        theirs = papers.get(scenario) if method == "macop" else None
        beside = "{iterations}, {groups}, {heads}".format(**theirs) if theirs else "-"
        last = steps[-1]
        summary.append(
            [scenario, method, seed, last.iteration, last.groups, last.heads, f"{last.compatible:.2f}", beside]
        )
    wanted = [(s, method, seed) for s in campaign.scenarios for method in methods for seed in campaign.seeds]
    write_csv(out / "fig-process.csv", ["scenario", "method", "seed", *Iteration._fields], points)
    head = ["scenario", "method", "seed", "iterations", "groups", "heads", "last C", "the paper's"]
    title = "# The learning process of Macop"
    return write_text(out / "fig-process.md", [title, without(wanted, runs), markdown(head, summary), *pictures])
