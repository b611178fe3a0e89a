"""What an import costs and brings along: measured in fresh interpreters."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "macop_aht"


def run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout


def test_import_is_light():
    code = (
        "import sys, time; t = time.perf_counter(); import macop_aht; t = time.perf_counter() - t;"
        "print(t, 'torch' in sys.modules, 'numba' in sys.modules, 'onnxruntime' in sys.modules)"
    )
    outputs = [run(code).split() for _ in range(3)]
    assert min(float(seconds) for seconds, *_ in outputs) < 1.0
    assert outputs[0][1:] == ["False", "False", "False"]


@pytest.mark.parametrize(
    "room",
    [
        "scenarios",
        "scenarios.batch",
        "envs.single",
        "envs.vector",
        "envs.parallel",
        "teammates",
        "zoo",
        "deploy.selectors",
        "deploy.runtime",
        "evaluation.matches",
    ],
)
def test_rooms_without_torch(room):
    assert run(f"import sys, macop_aht.{room}; print('torch' in sys.modules)").strip() == "False"


def test_imports_go_one_way():
    """scenarios know nothing of teammates and envs, teammates nothing of envs, and only the outermost of the command line."""
    forbidden = {
        "scenarios": ("envs", "teammates", "cli", "demo"),
        "teammates": ("envs", "cli", "demo"),
        "envs": ("cli", "demo"),
    }
    for room, outer in forbidden.items():
        for path in (PACKAGE / room).glob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ImportFrom):
                    for name in outer:
                        assert not (node.module or "").startswith(f"macop_aht.{name}"), (
                            f"{path.name} imports {node.module}"
                        )
