"""Files that are written whole or not at all, and where they go when the target is no ordinary file."""

import os
import stat
import subprocess
import sys
from pathlib import Path
from threading import Thread

import numpy as np
import pytest

from macop_aht.evaluation import crossplay
from macop_aht.evaluation.rows import Row, read_rows, write_rows
from macop_aht.plots import heat_map
from macop_aht.reproduction.material import write_text
from macop_aht.runs import checkpoints
from macop_aht.util import require_free, whole_file, whole_folder, write_csv, write_whole

ROWS = [Row(method="a", scenario="LBF4", teammate="b", tier="seen", stage="test")]
MATRIX = np.eye(2)
WRITERS = {  # by the name of a file
    "whole.txt": lambda path: write_whole(path, "new"),
    "table.csv": lambda path: write_csv(path, [["new"]]),
    "rows.csv": lambda path: write_rows(ROWS, path),
    "rows.csv.gz": lambda path: write_rows(ROWS, path),
    "text.md": lambda path: write_text(path, ["new"]),
    "figure.png": lambda path: heat_map(MATRIX, "ab", "ab", "", path),
    "phase.npz": lambda path: checkpoints.write(path, {"x": MATRIX}, {}),
    "matrix.csv": lambda path: crossplay.write(MATRIX, ["a", "b"], "", path.with_suffix("")),
}


@pytest.mark.parametrize("name", WRITERS)
def test_the_file_behind_a_link_is_replaced(tmp_path, name):
    (tmp_path / "elsewhere").mkdir()
    file, link = tmp_path / "elsewhere" / "file", tmp_path / name
    file.write_text("old")
    file.chmod(0o600)
    link.symlink_to("elsewhere/file")
    WRITERS[name](link)
    assert link.is_symlink()
    assert file.read_bytes() != b"old"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [path.name for path in file.parent.iterdir()] == ["file"]


def test_a_link_to_nothing_yet_and_one_to_itself(tmp_path):
    (tmp_path / "link").symlink_to("file")
    write_whole(tmp_path / "link", "new")
    assert (tmp_path / "file").read_text() == "new"
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(OSError, match="leads to itself"):
        write_whole(tmp_path / "loop", "new")
    assert (tmp_path / "loop").is_symlink()


@pytest.mark.parametrize("name", ["whole.txt", "rows.csv", "rows.csv.gz"])
def test_a_pipe_is_written_to(tmp_path, name):
    pipe, found = tmp_path / name, []
    os.mkfifo(pipe)
    reader = Thread(target=lambda: found.append(pipe.read_bytes()), daemon=True)
    reader.start()
    WRITERS[name](pipe)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    reader.join(10)
    (tmp_path / f"copy-{name}").write_bytes(found[0])
    if name != "whole.txt":
        assert read_rows(tmp_path / f"copy-{name}") == ROWS


@pytest.mark.parametrize("redirected", [False, True])
def test_standard_output_is_written_to(tmp_path, redirected):
    code = "from pathlib import Path; from macop_aht.util import write_whole; print('one'); "
    code += "write_whole(Path('/dev/stdout'), 'two\\n'); print('three')"
    with open(tmp_path / "out", "wb") as out:
        target = out if redirected else subprocess.PIPE
        done = subprocess.run([sys.executable, "-c", code], stdout=target, check=True)
    assert ((tmp_path / "out").read_bytes() if redirected else done.stdout) == b"one\ntwo\nthree\n"


def test_what_cannot_be_written_leaves_all_as_it_was(tmp_path):
    (tmp_path / "file").write_text("old")
    with pytest.raises(TypeError), whole_file(tmp_path / "file") as file:
        file.writelines([b"new", None])
    (tmp_path / "folder").mkdir()
    with pytest.raises(IsADirectoryError):
        write_whole(tmp_path / "folder", "new")
    assert (tmp_path / "file").read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]


def test_a_folder_is_whole_or_not_there(tmp_path):
    with pytest.raises(FileNotFoundError), whole_folder(tmp_path / "out") as place:
        (place / "missing" / "half").write_text("")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "manifest.json.unfinished").write_text("left by a killed process")
    (tmp_path / "out").symlink_to("real")
    with whole_folder(tmp_path / "out") as place:
        (place / "one").write_text("")
    assert sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*")) == [
        Path("out"),
        Path("real"),
        Path("real/one"),
    ]
    with pytest.raises(FileExistsError, match="is not empty; choose another"), whole_folder(tmp_path / "out"):
        pass
    with pytest.raises(FileExistsError, match="is no folder"):
        require_free(tmp_path / "real" / "one")
