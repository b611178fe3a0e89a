"""What does the README say about results? Its figure and its table, from the tables of a campaign.

    python benchmarks/readme_results.py [--results benchmarks/results/lbf4] [--readme README.md] [--figure docs/img/results.png]

Reads table-modern.csv of `macop reproduce table-modern`, of one scenario. The text between the README's marks is replaced.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

from macop_aht import plots
from macop_aht.scenarios.drawing import COLOURS, FAINT, INK

OURS = ("macop", "macop+")
Rows = list[dict[str, str]]


def read(folder: Path) -> Rows:
    """Return the methods of a campaign, the best mean return first."""
    with open(folder / "table-modern.csv", newline="") as file:
        return sorted(csv.DictReader(file), key=lambda row: -float(row["mean"]))


def table(rows: Rows) -> str:
    """Return the Markdown table."""
    lines = ["| method | mean | interquartile mean (95%) | worst tenth of groups |", "|---|---|---|---|"]
    for row in rows:
        name = f"**{row['method']}**" if row["method"] in OURS else row["method"]
        iqm, low, high, mean, worst = (float(row[key]) for key in ("iqm", "iqm_low", "iqm_high", "mean", "worst_tenth"))
        lines.append(f"| {name} | {mean:.2f} | {iqm:.2f} ({low:.2f} to {high:.2f}) | {worst:.2f} |")
    return "\n".join(lines)


def draw(rows: Rows, path: Path) -> None:
    """Save the figure: the mean over all groups as a bar, the mean over the worst tenth as a dot."""
    plt = plots.pyplot()
    figure, axis = plt.subplots(figsize=(7.2, 0.34 * len(rows) + 1.0))
    for place, row in enumerate(reversed(rows)):
        mean, worst = float(row["mean"]), float(row["worst_tenth"])
        ours = row["method"] in OURS
        axis.barh(place, mean, color=COLOURS["ego"] if ours else "#c9ced6", height=0.62)
        axis.plot(worst, place, "o", color=COLOURS["mate"], markersize=6)
        axis.text(mean + 0.01, place, f"{mean:.2f}", va="center", fontsize=9, color=INK)
    names = [row["method"] for row in reversed(rows)]
    axis.set_yticks(range(len(names)), names)
    axis.set_xlim(0, 1.08)
    axis.set_xlabel("return, 1 = the best known with a group; dots: the worst tenth of the groups", color=FAINT)
    axis.spines[["top", "right", "left"]].set_visible(False)
    axis.tick_params(left=False)
    plots.save(figure, path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=Path("benchmarks/results/lbf4"), metavar="FOLDER")
    parser.add_argument("--readme", type=Path, default=Path("README.md"), metavar="FILE")
    parser.add_argument("--figure", type=Path, default=Path("docs/img/results.png"), metavar="FILE")
    arguments = parser.parse_args()
    rows = read(arguments.results)
    draw(rows, arguments.figure)
    before, mark, rest = arguments.readme.read_text().partition("<!-- results -->\n")
    if not mark:
        raise SystemExit(f"{arguments.readme} has no mark <!-- results -->")
    after = rest.partition("<!-- end -->")[2]
    arguments.readme.write_text(f"{before}{mark}{table(rows)}\n<!-- end -->{after}")


if __name__ == "__main__":
    main()
