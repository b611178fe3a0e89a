"""The cache of compiled kernels: whatever is wrong with it, kernels run, and one warning says what to do."""

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

import macop_aht

MODULE = """
from macop_aht.compiling import njit

@njit(cache=True)
def add(x, y):
    return x + y

@njit(cache=True)
def double(x):
    return 2 * x

print(add(1, 2), double(4), len(add.stats.cache_hits) + len(double.stats.cache_hits))
"""


@pytest.fixture
def module(tmp_path):
    """A module in a folder whose `__pycache__` cannot be a folder, so that NUMBA_CACHE_DIR alone is left."""
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "__pycache__").touch()
    path = tmp_path / "code" / "adding.py"
    path.write_text(MODULE)
    return path


def run(module, cache, beforehand=None):
    """Return what the module prints, and its warnings."""
    nowhere = str(module.parent / "__pycache__")
    env = {**os.environ, "NUMBA_CACHE_DIR": str(cache), "XDG_CACHE_HOME": nowhere}
    command = [sys.executable, str(module)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True, preexec_fn=beforehand)
    return done.stdout.split(), done.stderr


def damage(file, kind):
    content = file.read_bytes()
    middle = len(content) // 2
    changed = bytes(255 - byte for byte in content[middle : middle + 8])
    file.write_bytes(
        {
            "empty": b"",
            "short": content[:40],
            "garbage": b">not a pickle",
            "flipped": content[:middle] + changed + content[middle + 8 :],
        }[kind]
    )


def test_a_sound_cache_is_used(module, tmp_path):
    assert run(module, tmp_path / "cache") == (["3", "8", "0"], "")
    assert run(module, tmp_path / "cache") == (["3", "8", "2"], "")


@pytest.mark.parametrize(
    ("kind", "pattern"), [("empty", "*.nbi"), ("garbage", "*.nb?"), ("short", "*.nbc"), ("flipped", "*.nbc")]
)
def test_a_damaged_cache_is_made_again(module, tmp_path, kind, pattern):
    cache = tmp_path / "cache"
    run(module, cache)
    for file in cache.rglob(pattern):
        damage(file, kind)
    printed, told = run(module, cache)
    assert printed == ["3", "8", "0"]
    assert told.count("RuntimeWarning") == 1
    assert "is damaged" in told
    assert "NUMBA_CACHE_DIR" in told
    assert run(module, cache) == (["3", "8", "2"], "")


def test_no_place_for_a_cache(module):
    printed, told = run(module, module / "cache")
    assert printed == ["3", "8", "0"]
    assert told.count("RuntimeWarning") == 1
    assert "no place for the cache" in told
    assert "Set NUMBA_CACHE_DIR to a writable folder" in told


def test_a_full_disk(module, tmp_path):
    """No file may have a byte, which is how a full disk looks."""
    printed, told = run(module, tmp_path / "cache", lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)))
    assert printed == ["3", "8", "0"]
    assert told.count("RuntimeWarning") == 1
    assert "cannot be cached" in told
    assert "NUMBA_CACHE_DIR" in told


def test_every_kernel_is_compiled_here():
    package = Path(macop_aht.__file__).parent
    sources = {path: path.read_text(encoding="utf-8") for path in package.rglob("*.py")}
    assert [
        path.name for path, text in sources.items() if "numba.njit" in text or "from numba import njit" in text
    ] == ["compiling.py"]
