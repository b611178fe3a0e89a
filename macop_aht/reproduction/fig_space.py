"""The paper's figure of the teammates' policy space: t-SNE of the features of ten groups' self-play trajectories.

The groups are those of a run of Macop, on CN2 where the campaign has it; without a campaign, Macop's groups of CN2 in the zoo.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from macop_aht import plots, zoo
from macop_aht.evaluation.trajectories import EncoderConfig, features, project, record, told_apart, train
from macop_aht.export.bundle import group_policies
from macop_aht.policies.protocol import Policy
from macop_aht.reproduction.material import Material, write_csv, write_text
from macop_aht.scenarios import build
from macop_aht.scenarios.palette import COLOURS

SCENARIO, METHOD = "CN2", "macop"
GROUPS, EPISODES = 10, 100  # at most; of each


def spread(groups: Sequence[Policy], most: int) -> list[Policy]:
    """At most so many of them, evenly from the first to the last."""
    chosen = np.unique(np.linspace(0, len(groups) - 1, min(most, len(groups))).round().astype(int))
    return [groups[k] for k in chosen]


def write(material: Material, out: Path) -> str:
    """From the run with most groups; of several, the one with the lowest seed."""
    campaign = material.campaign
    scenario = SCENARIO if SCENARIO in campaign.scenarios else campaign.scenarios[0]
    runs = {seed: folder for (its, _, seed), folder in material.runs([METHOD]).items() if its == scenario}
    if not runs:
        raise ValueError(
            f"{material.folder} has no finished run of {METHOD} on {scenario}; the figure is of its groups"
        )
    found = {seed: group_policies(folder) for seed, folder in runs.items()}
    seed = max(found, key=lambda seed: (len(found[seed]), -seed))
    return _write(scenario, found[seed], f"{METHOD}'s groups, seed {seed}", out)


def write_from_zoo(out: Path) -> str:
    """From the installed zoo."""
    names = [name for name, card in zoo.cards(SCENARIO).items() if card.generator == METHOD]
    if not names:
        raise ValueError(f"the zoo has no groups of {METHOD} for {SCENARIO}; give a campaign, with --campaign FOLDER")
    return _write(SCENARIO, [zoo.load(SCENARIO, name) for name in names], f"{METHOD}'s groups in the zoo", out)


def _write(scenario: str, groups: Sequence[Policy], which: str, out: Path) -> str:
    """fig-space.md, fig-space.csv (a line per trajectory), fig-space-loss.csv, fig-space.png."""
    chosen, config = spread(groups, GROUPS), EncoderConfig()
    told = record(build(scenario), chosen, EPISODES)
    network, curve = train(told, config)
    points = features(network, told)
    places, names = project(points), [group.name.split(":")[-1] for group in chosen]
    head = ["group", "x", "y", *(f"feature_{k}" for k in range(points.shape[1]))]
    lines = [[names[g], *at, *own] for g, at, own in zip(told.group, places.tolist(), points.tolist(), strict=True)]
    write_csv(out / "fig-space.csv", head, lines)
    losses = [[epoch, *both] for epoch, both in enumerate(curve.tolist(), start=1)]
    write_csv(out / "fig-space-loss.csv", ["epoch", "learnt", "held_out"], losses)
    draw(places, told.group, names, curve, scenario, out / "fig-space.png")
    alike, first, last = 100 * told_apart(points, told.group), curve[0], curve[-1]
    figures = (
        f"{scenario}, {len(chosen)} of {len(groups)} of {which}; {EPISODES} greedy episodes of each, {config.epochs} epochs. In "
        f"{alike:.0f}% of the trajectories the nearest neighbour, by the {config.feature} numbers of the feature, is of the same "
        f"group (by chance: {100 / len(chosen):.0f}%). Negative log-likelihood of an action: {first[0]:.2f} after one epoch, "
        f"{last[0]:.2f} after the last, {last[1]:.2f} with held-out trajectories."
    )
    papers = "The paper prints no figures for it; its picture shows ten groups of CN2, dispersed."
    title = "# The space of the teammates' policies"
    return write_text(out / "fig-space.md", [title, figures, papers, "![t-SNE and loss](fig-space.png)"])


def draw(
    places: np.ndarray, group: np.ndarray, names: Sequence[str], curve: np.ndarray, scenario: str, path: Path
) -> None:
    """The map, a colour for each group; beside it, the loss over the epochs."""
    plt = plots.pyplot()
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2))
    for g, name in enumerate(names):
        left.scatter(*places[group == g].T, s=8, color=plt.get_cmap("tab10")(g % 10), label=name)
    left.legend(fontsize=7, markerscale=2, loc="center left", bbox_to_anchor=(1.0, 0.5))
    left.set(title=f"{scenario}: self-play trajectories", xticks=[], yticks=[])
    for k, (label, role) in enumerate((("learnt from", "ego"), ("held out", "mate"))):
        right.plot(np.arange(1, len(curve) + 1), curve[:, k], color=COLOURS[role], label=label)
    right.set(title="negative log-likelihood of the actions", xlabel="epoch")
    right.legend()
    plots.save(figure, path)
