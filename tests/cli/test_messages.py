"""Whatever a user types or hands in, the answer is a message of a line or two, and no traceback."""

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from macop_aht.cli import main
from macop_aht.config import ConfigError, parse
from macop_aht.evaluation.rows import Row, read_rows, write_rows
from macop_aht.util import plain

BIG, HUGE = "9" * 23, "9" * 6_000
ROW = Row(method="a", scenario="LBF4", teammate="b", tier="seen", stage="test", return_=1.0)
FILES = {
    "deep.toml": "a=" + "[" * 5_000 + "]" * 5_000,
    "dotted.toml": "a" + ".a" * 5_000 + "=1",
    "digits.toml": f"seed={HUGE}",
    "big.toml": f'scenario="LBF4"\nseed={BIG}',
    "seeds.toml": f'scenarios=["LBF4"]\nseeds=[{BIG}]',
    "escape.toml": '"\\u001b[31m" = 1',
    "long.csv": "x" * 200_000,
    "syntax.py": "def f(:",
    "leaving.py": "raise SystemExit(0)",
    "dividing.py": "1 / 0",
    "endless.py": "def f():\n    return f()\nf()",
    "full.py": "raise MemoryError",
}
CASES = {
    "a module with a syntax error": ("--import syntax scenarios", "cannot import 'syntax': invalid syntax"),
    "a module that ends": ("--import leaving scenarios", "cannot import 'leaving': 0 (SystemExit, "),
    "a module that fails": ("--import dividing scenarios", "division by zero (ZeroDivisionError, "),
    "a module that never ends": ("--import endless scenarios", "RecursionError"),
    "a module that wants too much": ("--import full scenarios", "MemoryError"),
    "no module": ("--import= scenarios", "cannot import ''"),
    "an agent's module": ("evaluate dividing:make --scenario LBF4", "there is no agent dividing:make (cannot import"),
    "a big seed": (
        f"evaluate random --scenario LBF4 --seed {BIG}",
        "is not a whole number of at least 0 and at most 92",
    ),
    "a huge seed": (f"selfplay LBF4 --out out --seed {HUGE}", "99999 [...] 99999"),
    "a negative seed": ("train LBF4 --out out --seed -1", "'-1' is not a whole number of at least 0"),
    "a seed in other digits": ("train LBF4 --out out --seed ²", "is not a whole number"),
    "a big number of episodes": (f"demo --episodes {BIG}", "is not a whole number of at least 1"),
    "a big seed of a campaign": (f"campaign seeds.toml --dry-run --seeds {BIG}", "is not a whole number"),
    "big steps": (f"selfplay LBF4 --out out --steps {BIG}", f"steps is {BIG}; it must be in -92"),
    "NaN seconds": ("selfplay LBF4 --out out --checkpoint-every nan", "'nan' is not a finite number"),
    "more than fits": ("selfplay LBF4 --out out --capacity 1000000000000", "GB; make capacity smaller"),
    "more teams than fit": ("selfplay LBF4 --out out --teams 1000000000", "there is not enough memory"),
    "a big seed in a file": ("train --config big.toml --out out", f"big.toml: seed is {BIG}; it must be in"),
    "a big seed in a campaign's file": ("campaign seeds.toml --dry-run", f"seeds.toml: seeds[0] is {BIG}; it must be"),
    "a number of thousands of digits": ("train --config digits.toml --out out", "digits.toml: this is not TOML"),
    "deep lists": ("train --config deep.toml --out out", "deep.toml: it is nested too deeply"),
    "deep tables": ("campaign dotted.toml --dry-run", "dotted.toml: it is nested too deeply"),
    "a file without end": ("train --config /dev/zero --out out", "/dev/zero: it has more than 1,048,576 bytes"),
    "a campaign without end": ("campaign /dev/zero --dry-run", "/dev/zero: it has more than"),
    "rows without end": ("compare /dev/zero /dev/zero", "/dev/zero is damaged: field larger than"),
    "a long field": ("compare long.csv long.csv", "long.csv is damaged: field larger than"),
    "an escape sequence in a file": ("train --config escape.toml --out out", "unknown key"),
    "an escape sequence": ("teammates \x1b[31m", "unknown scenario"),
    "an escape sequence in an option": ("compare a b \x1b[31m", "unrecognized arguments"),
    "a device as a run": ("selfplay LBF4 --out /dev/null", "/dev/null is no folder; name one"),
}


@pytest.fixture
def material(tmp_path, monkeypatch):
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    yield
    for name in FILES:
        sys.modules.pop(name.removesuffix(".py"), None)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.usefixtures("material")
def test_a_message_and_no_traceback(case, capsys):
    command, message = CASES[case]
    try:
        code = main(command.split(" "))
    except SystemExit as stop:
        code = stop.code
    told = capsys.readouterr().err
    assert code == 2
    assert message in told
    assert "Traceback" not in told
    assert "\x1b" not in told
    assert len(told.splitlines()[-1]) < 2_100


def test_rows_without_a_finite_return_are_refused(tmp_path, capsys):
    for value in ("nan", "inf"):
        write_rows([ROW, replace(ROW, return_=float(value))], tmp_path / "rows.csv")
        assert main(["compare", str(tmp_path / "rows.csv"), str(tmp_path / "rows.csv")]) == 2
        assert f"rows.csv is damaged: a return is {value}; it must be a finite number" in capsys.readouterr().err
    write_rows([ROW], tmp_path / "rows.csv")
    assert read_rows(tmp_path / "rows.csv") == [ROW]


def test_toml_may_be_nested_a_little():
    assert parse("a=" + "[" * 20 + "]" * 20)
    for depth in (40, 500):
        with pytest.raises(ConfigError, match="at most 32 levels"):
            parse("a=" + "[" * depth + "]" * depth)


def test_plain_texts():
    assert plain("naïve\ttext,\nΣ 3") == "naïve\ttext,\nΣ 3"
    assert plain("\x1b[31m\x07\r\u202e\udcff") == "\\x1b[31m\\x07\\r\\u202e\\udcff"
    assert plain("x" * 3_000, 500) == "x" * 300 + " [...] " + "x" * 200


# --- As processes


def macop(*words, **options):
    # A signal may have been ignored by whoever runs the tests; Python takes it over from them.
    usual = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([sys.executable, "-m", "macop_aht", *words], **{**usual, **options})


def test_output_that_nobody_reads_ends_quietly():
    reading, writing = os.pipe()
    os.close(reading)
    process = macop("scenarios", stdout=writing)
    os.close(writing)
    assert process.communicate(timeout=60)[1] == ""
    assert process.returncode == 141


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_output_to_a_full_disk_is_told():
    with open("/dev/full", "wb") as full:
        process = macop("scenarios", stdout=full)
        told = process.communicate(timeout=60)[1]
    assert (process.returncode, told) == (2, "macop: [Errno 28] No space left on device\n")


def test_an_interrupt_ends_with_a_line(tmp_path):
    (tmp_path / "waiting.py").write_text("import time\nprint('ready', flush=True)\ntime.sleep(60)\n")
    own = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    usual = lambda: signal.signal(signal.SIGINT, signal.default_int_handler)  # noqa: E731
    process = macop("--import", "waiting", "scenarios", env=own, preexec_fn=usual)
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    told = process.communicate(timeout=60)[1]
    assert process.returncode == 130
    assert told.startswith("macop: stopped; ")
    assert told.count("\n") == 1


def test_a_traceback_for_those_who_ask(tmp_path):
    (tmp_path / "dividing.py").write_text("1 / 0")
    process = macop("--import", "dividing", "scenarios", env={**os.environ, "MACOP_TRACEBACK": "1"}, cwd=tmp_path)
    told = process.communicate(timeout=60)[1]
    assert "Traceback" in told
    assert told.splitlines()[-1].startswith("macop: cannot import 'dividing': division by zero")
