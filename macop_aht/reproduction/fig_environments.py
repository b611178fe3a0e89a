"""The paper's figure of the environments: the eight scenarios as an episode begins. Needs no campaign."""

from __future__ import annotations

from pathlib import Path

from macop_aht import plots
from macop_aht.envs.registration import BUILTIN
from macop_aht.reproduction.material import markdown, write_csv, write_text
from macop_aht.scenarios import SCENARIOS, build
from macop_aht.scenarios.batch import Batch
from macop_aht.scenarios.drawing import Screen

PAPERS = ("LBF1", "PP1", "CN2", "SMAC1", "LBF4", "PP2", "CN3", "SMAC2")  # its order, in two rows


def write(out: Path) -> str:
    """fig-environments.md, fig-environments.csv, fig-environments.png."""
    names = [name for name in PAPERS if name in BUILTIN]
    plt = plots.pyplot()
    figure, axes = plt.subplots(2, 4, figsize=(13, 7.2))
    for axis, name in zip(axes.flat, names, strict=True):
        world = build(name)
        batch = Batch(world, 1)
        batch.seed([0])
        batch.reset()
        axis.imshow(Screen("rgb_array", fps=1).show(world, batch.state, 0, 0, 0.0))
        axis.set_title(name)
        axis.axis("off")
    plots.save(figure, out / "fig-environments.png")
    head = ["scenario", "agents", "ego", "actions", "limit", "about"]
    lines = [_facts(name) for name in names]
    write_csv(out / "fig-environments.csv", head, lines)
    picture = "![The eight scenarios](fig-environments.png)"
    return write_text(out / "fig-environments.md", ["# The environments", picture, markdown(head, lines)])


def _facts(name: str) -> list[object]:
    world = build(name)
    return [name, world.n_agents, world.controllable, len(world.actions), world.limit, SCENARIOS[name].about]
