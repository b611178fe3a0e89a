"""The README and the documentation: code runs, commands parse, links lead somewhere, facts are those of the code."""

import ast
import contextlib
import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import gymnasium as gym
import pytest

import macop_aht
from macop_aht import cli
from macop_aht.cli.examples import EXAMPLES, parsers
from macop_aht.envs.registration import BUILTIN, env_id
from macop_aht.learner.threads import use_threads
from macop_aht.methods.registry import METHODS
from macop_aht.scenarios import SCENARIOS, build

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted(path for path in (ROOT / "docs").rglob("*.md"))]
LINKED = [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "zoo" / "README.md", ROOT / "agents" / "README.md"]
BLOCK = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)
GENERATED = {"agents.md", "commands.md"}  # made when the site is built
MY_MODULE = """
import macop_aht

def make_env():
    return macop_aht.parallel_env("LBF4")
"""
CHEAP = (
    (r"learn\([\d_]+\)", "learn(128)"),
    (r"n_steps=128, batch_size=256", "n_steps=16, batch_size=64"),
    (r"n_eval_episodes=\d+", "n_eval_episodes=2"),
    (r"range\(1000\)", "range(20)"),
)


def name_of(page):
    return str(page.relative_to(ROOT))


def blocks(page, language):
    return [code for found, code in BLOCK.findall(page.read_text()) if found == language]


def module(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


@pytest.fixture
def inside(tmp_path, monkeypatch):
    """An empty working folder with the module of an environment, as the pages call it."""
    (tmp_path / "my_module.py").write_text(MY_MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)


# --- Code


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python")], ids=name_of)
def test_python_runs(page, inside, passing):
    """Block after block, with fewer steps of learning."""
    use_threads(1)
    names = {"my_policy": lambda obs, mask: mask.argmax(axis=1), "gymnasium": gym}  # what a page takes as given
    for code in blocks(page, "python"):
        for pattern, cheap in CHEAP:
            code = re.sub(pattern, cheap, code)
        compiled = compile(code, name_of(page), "exec")
        if "from smac.env" not in code:  # which needs StarCraft II
            exec(compiled, names)


def commands(page):
    lines = "".join(blocks(page, "sh")).replace("\\\n", " ").split("\n")
    return [words for words in (shlex.split(line, comments=True) for line in lines) if words]


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "sh")], ids=name_of)
def test_commands_are_known(page, inside, monkeypatch):
    """Commands of the package are parsed; targets of make and extras of pip are looked up."""
    makefile, project = (ROOT / "Makefile").read_text(), (ROOT / "pyproject.toml").read_text()
    for words in commands(page):
        if words[0] == "macop":
            parse(words[1:], monkeypatch)
        elif words[0] == "make":
            assert f"\n{words[1]}:" in makefile, words
        elif words[:2] == ["pip", "install"]:
            assert all(f"\n{extra} = [" in project for extra in re.findall(r"\[(\w+)\]", words[2])), words
        else:
            assert shutil.which(words[0]), words


def parse(words, monkeypatch):
    imported = []
    while words[0] == "--import":
        imported, words = [*imported, words[1]], words[2:]
    Path("runs/macop").mkdir(parents=True, exist_ok=True)
    shutil.copy(ROOT / "agents" / "macop" / "LBF4" / "run.toml", "runs/macop/run.toml")
    known = dict(METHODS)
    if "own_method" in imported:
        module(ROOT / "examples" / "own_method.py")
    try:
        with contextlib.redirect_stderr(sys.stdout):
            cli._parser(words).parse_args(words)
    except SystemExit as ended:
        if ended.code:
            pytest.fail(f"macop {shlex.join(words)} is no command")
    finally:
        METHODS.clear()
        METHODS.update(known)


def test_every_command_has_an_example(inside, monkeypatch):
    commands = dict(parsers(cli._parser([])))
    assert set(EXAMPLES) == set(commands)
    for name, parser in commands.items():
        own = dict(parsers(cli._parser(name.split()))).get(name, parser)
        assert f"Example: {EXAMPLES[name]}" in " ".join(own.format_help().split())
        assert EXAMPLES[name].startswith(f"macop {name}")
        parse(shlex.split(EXAMPLES[name])[1:], monkeypatch)


# --- Links


def anchors(page):
    titles = re.findall(r"^#+ (.+)$", re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", LINKED, ids=name_of)
def test_links_lead_somewhere(page):
    text = re.sub(r"```.*?```|`[^`]*`", "", page.read_text(), flags=re.DOTALL)
    for link, anchor in re.findall(r"\]\((?!https?:)([^)\s#]*)#?([^)\s]*)\)", text):
        target = (page.parent / link).resolve() if link else page
        assert target.exists() or target.name in GENERATED, f"{link} is nowhere"
        assert not anchor or target.suffix != ".md" or anchor in anchors(target), f"{link}#{anchor} is no heading"


def test_pictures_are_small():
    assert {path.stem for path in (ROOT / "docs" / "img").glob("*.gif")} == set(BUILTIN)
    assert all(path.stat().st_size < 150_000 for path in (ROOT / "docs" / "img").iterdir())


# --- Facts


def test_the_table_of_scenarios():
    text = (ROOT / "docs" / "scenarios.md").read_text()
    for name in BUILTIN:
        world = build(name)
        sizes = (world.n_agents, world.controllable, len(world.actions), world.limit, len(world.observations))
        row = next(line for line in text.splitlines() if line.startswith(f"| [`{env_id(name)}`]"))
        assert row.split(" | ")[1:] == [*map(str, sizes), f"{SCENARIOS[name].about} |"]


@pytest.mark.parametrize("family", sorted({type(SCENARIOS[name].family) for name in BUILTIN}, key=str))
def test_manuals_list_every_argument(family):
    """With its default, as a family's docstring promises."""
    default = family()
    units = {"MARINE": repr(macop_aht.scenarios.MARINE)}
    for field in fields(family):
        row = re.search(rf"^ *\| `{field.name}` \| `(.+?)` \|", family.__doc__, re.MULTILINE)
        assert row, f"{field.name} is not in the manual"
        given = row.group(1)
        for word, meaning in units.items():
            given = given.replace(word, meaning)
        assert given == repr(getattr(default, field.name))


def test_figures_of_the_readme_are_those_of_the_results():
    results = module(ROOT / "benchmarks" / "readme_results.py")
    readme = (ROOT / "README.md").read_text()
    shown = readme.partition("<!-- results -->\n")[2].partition("\n<!-- end -->")[0]
    assert shown == results.table(results.read(ROOT / "benchmarks" / "results" / "lbf4"))
    groups = sum(len(macop_aht.zoo.cards(name)) for name in BUILTIN)
    assert f"{groups} trained teammate groups" in readme
    assert f"{groups} groups" in readme


def test_errors_in_the_faq_are_real():
    """Every heading is a message of the code, with … for its values."""
    told = [text for path in (ROOT / "macop_aht").rglob("*.py") for text in messages(path)]
    for message in re.findall(r"^### `(.+)`$", (ROOT / "docs" / "faq.md").read_text(), re.MULTILINE):
        parts = [part for part in message.split("…") if part.strip(" :;.,'(")]
        assert any(all(part in text for part in parts) for text in told), f"nothing says {message!r}"


def messages(path):
    """The texts of a file, what is filled in left out."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.JoinedStr):
            yield "".join(
                part.value if isinstance(part, ast.Constant) else "\N{HORIZONTAL ELLIPSIS}" for part in node.values
            )


# --- The notebook and the site


def test_the_notebook_is_the_tutorial():
    """Else: python docs/hooks/notebook.py."""
    notebook = module(ROOT / "docs" / "hooks" / "notebook.py")
    assert (ROOT / "docs" / "tutorial.ipynb").read_text() == notebook.text()


@pytest.mark.slow
def test_the_notebook_runs(tmp_path):
    """With fewer steps of learning, and an export that trains next to nothing."""
    import nbformat
    from nbclient import NotebookClient

    document = json.loads((ROOT / "docs" / "tutorial.ipynb").read_text())
    cheap = (*CHEAP, ("--preset demo", "--preset demo --teammate-steps 4000 --ego-steps 2000 --max-iterations 1"))
    cheap = (
        *cheap,
        (r"(macop export .*)", r"\1 --steps 2000 --rounds 0 --test-episodes 2 --tier-episodes 0 --plot no"),
    )
    for cell in document["cells"]:
        for pattern, replacement in cheap if cell["cell_type"] == "code" else ():
            cell["source"] = re.sub(pattern, replacement, cell["source"])
    run = f"{sys.executable} -m macop_aht "
    for cell in document["cells"]:
        cell["source"] = re.sub(
            r"^!macop (.*)$", rf"import os\nassert os.system('{run}\1') == 0", cell["source"], flags=re.M
        )
    client = NotebookClient(nbformat.from_dict(document), timeout=900, resources={"metadata": {"path": tmp_path}})
    client.execute()
    assert (tmp_path / "bundles" / "demo" / "manifest.json").exists()
    assert "1.0" in client.nb.cells[-2]["outputs"][0]["text"]


@pytest.mark.slow
def test_the_site_is_whole(tmp_path):
    """Warnings are errors. No page loads anything from another host."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    )
    assert done.returncode == 0, done.stderr
    pages = [path for path in tmp_path.rglob("*.html") if path.is_file()]
    agents = {path.parent.name for path in tmp_path.glob("agents/macop/*/index.html")}
    assert agents == set(BUILTIN)
    tags = r"<(?:script|img|iframe|source)[^>]+src=|<link[^>]+rel=\"?(?:stylesheet|preload)[^>]+href="
    loaded = re.compile(rf'(?:{tags})"?https?:')
    for page in pages:
        assert not loaded.search(page.read_text()), page
    assert "<math" in (tmp_path / "method" / "index.html").read_text()
    assert "arithmatex" not in (tmp_path / "method" / "index.html").read_text()


# --- The tutorial's claim


@pytest.mark.slow
def test_the_tutorial_learns_a_teammate_and_not_teamwork():
    """An ordinary single-agent learner learns to meet a scripted teammate, and fails with a stranger."""
    from stable_baselines3.common.evaluation import evaluate_policy

    learning = next(code for code in blocks(ROOT / "docs" / "tutorial.md", "python") if "PPO(" in code)
    names: dict = {}
    exec("import macop_aht\n" + learning, names)
    for teammate, least, most in (("scripted:corner-ne", 0.9, 1.0), ("scripted:corner-sw", 0.0, 0.2)):
        env = gym.make("MacopLBF4-v0", teammate=teammate)
        env.reset(seed=1_000)
        score, _ = evaluate_policy(names["model"], env, n_eval_episodes=200, warn=False)
        assert least <= score <= most
