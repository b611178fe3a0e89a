"""The script that compares what two checkouts compute: it must see what differs, and nothing else."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

SCRIPT = Path(__file__).parent.parent / "benchmarks" / "regression.py"


@pytest.fixture(scope="module")
def regression():
    spec = importlib.util.spec_from_file_location("regression", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_weights_are_known_by_their_content(regression, tmp_path):
    """Other names, other files and another order of the arrays change nothing; one value does."""
    one, two = np.arange(12, dtype=np.float32), np.ones((3, 4), dtype=np.float32)
    changed = two + np.eye(3, 4, dtype=np.float32) * 1e-6
    for folder, files in {
        "old": {"a": {"x": one, "y": two, "clock": np.float32(3.0)}},
        "renamed": {"p": {"y": one}, "q": {"x": two, "clock": np.float32(4.0)}},
        "changed": {"a": {"x": one, "y": changed}},
    }.items():
        (tmp_path / folder / "phases").mkdir(parents=True)
        for name, arrays in files.items():
            np.savez(tmp_path / folder / "phases" / f"{name}.npz", **arrays)
    old, renamed, unlike = (regression.weights(tmp_path / name) for name in ("old", "renamed", "changed"))
    assert regression.difference(old, renamed) == ""
    assert regression.difference(old, unlike) == "1 of 2 arrays are not in the new one, which has 2"
    (tmp_path / "empty").mkdir()
    with pytest.raises(RuntimeError, match="holds no weights"):
        regression.weights(tmp_path / "empty")


def test_of_checkpoints_the_newest_counts(regression, tmp_path):
    (tmp_path / "checkpoints").mkdir()
    for step, value in ((100, 0.0), (200, 1.0)):
        np.savez(tmp_path / "checkpoints" / f"checkpoint-{step:012d}.npz", w=np.full(9, value))
    whole = regression.weights(tmp_path)
    (tmp_path / "checkpoints" / "checkpoint-000000000100.npz").unlink()
    assert regression.weights(tmp_path) == whole


def test_differences_of_actions_and_rows_are_named(regression):
    assert regression.difference({"a": [1], "b": [2]}, {"a": [1], "b": [3]}) == "1 of 2: b"
    assert regression.difference({"a": [1]}, {}) == "1 of 1: a"
    rows = [["method", "return"], ["m", "1.0"]]
    assert regression.difference(rows, [*rows]) == ""
    assert "the first at [1]" in regression.difference(rows, [rows[0], ["m", "0.5"]])
