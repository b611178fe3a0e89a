"""What an import costs and brings along, measured in fresh interpreters; and that imports point downwards only."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from macop_aht.rooms import ROOMS

PACKAGE = Path(__file__).parent.parent / "macop_aht"
ABOVE_ALL = ("__init__", "__main__")


def run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout


def test_import_is_light():
    code = (
        "import sys, time; t = time.process_time(); import macop_aht; t = time.process_time() - t;"
        "print(t, 'torch' in sys.modules, 'numba' in sys.modules, 'onnxruntime' in sys.modules)"
    )
    outputs = [run(code).split() for _ in range(3)]
    assert min(float(seconds) for seconds, *_ in outputs) < 1.0
    assert outputs[0][1:] == ["False", "False", "False"]


@pytest.mark.parametrize(
    "module",
    [
        "config", "scenarios", "scenarios.batch", "policies.specs", "episodes.runner", "zoo", "deploy.selectors",
        "deploy.runtime", "envs.single", "envs.vector", "envs.parallel", "play.server", "play.watch",
    ],
)  # fmt: skip
def test_modules_without_torch(module):
    heavy = run(f"import sys, macop_aht.{module}; print('torch' in sys.modules, 'numba' in sys.modules)").split()
    assert heavy[0] == "False"
    if module in ("config", "deploy.runtime"):
        assert heavy[1] == "False"


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported(source: str, package: str) -> list[str]:
    """Every module of ours that this source imports, at the top, in a function or by `import_module`, as dotted names."""
    found: list[str] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            parts = package.split(".")
            base = ".".join(parts[: len(parts) - node.level + 1]) if node.level else ""
            module = ".".join(filter(None, [base, node.module]))
            found += [f"{module}.{alias.name}" for alias in node.names] if module == "macop_aht" else [module]
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            if name in ("import_module", "__import__"):
                found.append(str(node.args[0].value))
    return [name for name in found if name.split(".")[0] == "macop_aht" and "." in name]


def upward(source: str, room: str, package: str) -> list[str]:
    """The imports that point upwards, from a source in that room."""
    targets = [(name, name.split(".")[1]) for name in imported(source, package)]
    return [name for name, target in targets if ROOMS.index(target) > ROOMS.index(room)]


def test_every_room_is_in_the_table():
    there = {room_of(path) for path in PACKAGE.rglob("*.py")} - {*ABOVE_ALL, "data"}
    assert there == set(ROOMS)


@pytest.mark.parametrize("room", ROOMS)
def test_imports_point_downwards(room):
    sources = [path for path in PACKAGE.rglob("*.py") if room_of(path) == room]
    for path in sources:
        package = ".".join(("macop_aht", *path.relative_to(PACKAGE).parts[:-1]))
        assert not upward(path.read_text(encoding="utf-8"), room, package), path


@pytest.mark.parametrize(
    "line",
    [
        "import macop_aht.zoo",
        "import macop_aht.zoo.cards as cards",
        "from macop_aht.zoo import cards",
        "from macop_aht import zoo",
        "from ..zoo import cards",
        "from .. import zoo",
        "def late():\n    from macop_aht.zoo.cards import Card",
        "from importlib import import_module\nimport_module('macop_aht.zoo')",
    ],
)
def test_every_form_of_an_upward_import_is_seen(line):
    assert upward(line, "policies", "macop_aht.policies")
    assert not upward(line, "deploy", "macop_aht.deploy")
