"""What the site says of agents, groups, scenarios and commands comes from their cards and their code, when it is built."""

from __future__ import annotations

import os
import re
from dataclasses import fields

import numpy as np
from mkdocs.structure.files import File, Files

from macop_aht import cli, paths, zoo
from macop_aht.cli.examples import parsers
from macop_aht.deploy.manifest import Manifest, parse
from macop_aht.envs.registration import BUILTIN
from macop_aht.scenarios import SCENARIOS, build

FACTS = re.compile(r"<!-- facts: (.+?) -->")
FIRST = ("macop-plus", "macop")


# --- Agents


def bundles() -> dict[str, Manifest]:
    """Return the manifests of the shipped bundles by their names: Macop+ first, then Macop, then the others."""
    found = paths.find("agents").glob("*/*/manifest.json")
    known = {f"{file.parent.parent.name}/{file.parent.name}": parse(file.read_bytes()) for file in found}

    def place(name: str) -> tuple[int, str, int]:
        method, scenario = name.split("/")
        return FIRST.index(method) if method in FIRST else len(FIRST), method, BUILTIN.index(scenario)

    return {name: known[name] for name in sorted(known, key=place)}


def agent_uri(name: str) -> str:
    return f"agents/{name}.md"


def agents_page() -> str:
    lines = [
        "# Agents",
        "",
        "Every agent comes with the package, as a bundle of ONNX files. `EgoAgent.load(NAME)` loads one;",
        "[Deployment](deploy.md) says how to play it. The figures are mean returns with the teammate groups of",
        "the agent's own run: of the best head for each, of `zero-shot` in its first episode, and of `meta-test`.",
        "An agent's page has the figures with unseen groups and with scripts.",
        "",
        '<div class="browsable" markdown>',
        "",
        "| name | scenario | method | heads | groups | best head | zero-shot | meta-test |",
        "|---|---|---|--:|--:|--:|--:|--:|",
    ]
    for name, known in bundles().items():
        figures = known.figures
        cells = [f"[`{name}`]({agent_uri(name)})", known.scenario, known.method, str(known.run_heads)]
        if figures is None:
            cells += [""] * 4
        else:
            rows = (figures.best_head, figures.zero_shot_first, figures.meta_test)
            cells += [str(len(figures.groups)), *(f"{np.mean(row):.2f}" if len(row) else "" for row in rows)]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, "", "</div>", "", "A return of 1 is a success. In SMAC, 20 is a win."]) + "\n"


def agent_page(name: str, known: Manifest) -> str:
    """Return the card of a bundle, with how to play it."""
    card = (paths.find("agents") / name / "card.md").read_text()
    title, _, rest = card.partition("\n")
    play = (
        f'```python\nfrom macop_aht import EgoAgent\n\nagent = EgoAgent.load("{name}")\n```\n\n'
        f'As a teammate: `gym.make("Macop{known.scenario}-v0", teammate="agent:{name}")`. '
        f"Its settings are in `agents/{name}/run.toml`.\n"
    )
    gif = f"![An episode of {known.scenario}](../../img/{known.scenario}.gif){{: .float }}\n\n"
    body = rest.strip().replace("](heads.png)", f"]({known.scenario}/heads.png)")
    return f"{title}\n\n{gif}{play}\n{body}\n"


# --- Groups


def zoo_table() -> str:
    lines = [
        "| name | scenario | generator | split | self-play | best response | outcomes |",
        "|---|---|---|---|--:|--:|---|",
    ]
    for scenario in BUILTIN:
        for card in zoo.cards(scenario).values():
            outcomes = ", ".join(card.outcomes)
            figures = f"{card.self_play:.2f} | {card.best_response:.2f}"
            lines.append(
                f"| `zoo:{card.name}` | {scenario} | {card.generator} | {card.split} | {figures} | {outcomes} |"
            )
    about = (
        "*Self-play* is the group's return with itself. *Best response* is the return of the zoo's group that does best "
        "with it. *Outcomes* says how its self-play ends, most often first."
    )
    return "\n".join([about, "", '<div class="browsable tall" markdown>', "", *lines, "", "</div>"])


# --- Scenarios


def facts(name: str) -> str:
    """Return what one scenario sets, and its scripts."""
    scenario, world = SCENARIOS[name], build(name)
    default = type(scenario.family)()  # type: ignore[call-arg]
    names = [field.name for field in fields(scenario.family)]  # type: ignore[arg-type]
    own = [field for field in names if getattr(scenario.family, field) != getattr(default, field)]
    lines = [f"## {name}", "", f"{scenario.about[0].upper()}{scenario.about[1:]}.", ""]
    lines += [
        "| agents | the ego's | actions | observation | limit |",
        "|--:|--:|--:|--:|--:|",
        f"| {world.n_agents} | {world.controllable} | {len(world.actions)} | {len(world.observations)} | {world.limit} |",
        "",
    ]
    if own:
        settings = ", ".join(f"`{field}={_short(getattr(scenario.family, field))}`" for field in own)
        lines += [f"It sets {settings}. All other parameters have their defaults.", ""]
    else:
        lines += ["All parameters have their defaults.", ""]
    lines += ["| teammate | what it does |", "|---|---|"]
    lines += [f"| `scripted:{script}` | {known.about} |" for script, known in world.scripts.items()]
    return "\n".join([*lines, ""])


def _short(value: object) -> str:
    text = repr(value)
    if len(text) > 90 and isinstance(value, tuple):
        return f"({value[0]!r}, …)" if len(repr(value[0])) < 60 else f"({len(value)} entries)"
    return text


# --- Commands


def commands_page() -> str:
    """Return the help of every command."""
    os.environ["COLUMNS"] = "100"
    parts = ["# Commands", "", "`macop COMMAND --help` prints the same.", ""]
    for name, _ in parsers(cli._parser([])):
        own = dict(parsers(cli._parser(name.split())))[name]  # with the settings that need torch
        parts += [f"## macop {name}", "", "```text", own.format_help().strip(), "```", ""]
    return "\n".join(parts)


# --- The hook


def on_config(config):
    """Add the agents to the navigation, by method."""
    section = next(part["Agents and zoo"] for part in config.nav if "Agents and zoo" in part)
    by_method: dict[str, list[dict[str, str]]] = {}
    for name, known in bundles().items():
        label, scenario = (known.method, known.scenario) if name.split("/")[0] in FIRST else ("baselines", known.method)
        by_method.setdefault(label, []).append({scenario: agent_uri(name)})
    section += [{label.capitalize(): pages} for label, pages in by_method.items()]
    return config


def on_files(files: Files, config) -> Files:
    files.append(File.generated(config, "agents.md", content=agents_page()))
    files.append(File.generated(config, "commands.md", content=commands_page()))
    for name, known in bundles().items():
        files.append(File.generated(config, agent_uri(name), content=agent_page(name, known)))
        for picture in (paths.find("agents") / name).glob("*.png"):
            files.append(File.generated(config, f"agents/{name}/{picture.name}", abs_src_path=str(picture)))
    return files


def on_page_markdown(markdown: str, **_) -> str:
    markdown = FACTS.sub(lambda found: "\n".join(facts(name) for name in found.group(1).split()), markdown)
    if "<!-- zoo -->" in markdown:
        markdown = markdown.replace("<!-- zoo -->", zoo_table())
    return markdown
