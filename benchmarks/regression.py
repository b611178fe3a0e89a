"""Whether two checkouts compute the same, on this machine: weights, actions and rows, bit for bit.

    python benchmarks/regression.py OLD [NEW] [--only macop ewc …] [--parallel 2] [--work FOLDER]

OLD and NEW are folders of checkouts; NEW is the one of this script where none is given. What is compared:

- all weights of short runs: `macop`, `macop+`, `lipo` and `ewc` with the preset `demo` on LBF4, `selfplay` on LBF4 and SMAC1;
- the actions of every shipped bundle, with every selector, on its golden inputs;
- the rows of one evaluation.

Weights are compared by their content, whatever the arrays and files are called. The results of a checkout without changes are
kept in `--work` under its commit and not computed again. Do not change a checkout while it is compared. Ends with 1 where
something differs. Hashes depend on the processor: those of another machine say nothing.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

WORK = Path(tempfile.gettempdir()) / "macop-regression"
HERE = Path(__file__).resolve().parent.parent
LEAST = 8  # values; smaller arrays are counters and the like
DEMO = ("--preset", "demo", "--seed", "0", "--threads", "1", "--device", "cpu")
SELF_PLAY = ("--seed", "0", "--threads", "1", "--device", "cpu", "--teams", "2")
RUNS: dict[str, tuple[str, ...]] = {  # by name; {work} is the folder of all runs of a checkout
    "macop": ("train", "LBF4", "--method", "macop", *DEMO),
    "macop+": ("train", "LBF4", "--method", "macop+", *DEMO),
    "lipo": ("train", "LBF4", "--method", "lipo", *DEMO),
    "ewc": ("train", "LBF4", "--method", "ewc", *DEMO, "--groups", "{work}/lipo"),
    "selfplay LBF4": ("selfplay", "LBF4", *SELF_PLAY, "--steps", "30000"),
    "selfplay SMAC1": ("selfplay", "SMAC1", *SELF_PLAY, "--steps", "30000"),
}
NEEDS = {"ewc": "lipo"}
EVALUATION = ("evaluate", "macop-plus/LBF4", "--teammates", "zoo:test", "scripted", "--episodes", "4", "--csv")
PROBE = """
import json, sys
from pathlib import Path
import numpy as np
from macop_aht.deploy.runtime import EgoAgent

found = {}
for manifest in sorted(Path("agents").glob("*/*/manifest.json")):
    folder = manifest.parent
    known = json.loads(manifest.read_text())  # these keys are the same in all formats
    golden = np.array(known["golden"]["inputs"]["obs"], dtype=np.float32)
    for selector in [None, *sorted(path.stem for path in (folder / "selectors").glob("*.onnx"))]:
        agent = EgoAgent.load(folder, selector)
        actions, mask = [], np.ones((1, agent.controllable, len(known["actions"])), dtype=np.int8)
        agent.episode_begin()
        for t in range(len(golden)):
            seen = np.stack([golden[(t + k) % len(golden)] for k in range(agent.controllable)])[None]
            actions.append(np.asarray(agent.act(seen, mask)).ravel().tolist())
        found[f"{folder.parent.name}/{folder.name}, {selector}"] = actions
print(json.dumps(found))
"""


def macop(checkout: Path, *words: str) -> None:
    """A command of that checkout's code, in that checkout."""
    _python(checkout, "-m", "macop_aht", *words)


def _python(checkout: Path, *words: str) -> str:
    """What a Python process says that imports that checkout's code."""
    environment = {**os.environ, "PYTHONPATH": str(checkout), "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, *words], cwd=checkout, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(words[:6])} failed in {checkout}:\n{done.stderr[-2000:]}")
    return done.stdout


def weights(folder: Path) -> list[str]:
    """The hashes of all arrays of floats that a run has kept, in no order."""
    found = []
    checkpoints = sorted(folder.glob("checkpoints/*.npz"))[-1:]  # an earlier one is of whatever step the clock said
    for path in checkpoints or sorted(folder.rglob("*.npz")):
        with np.load(path) as arrays:
            kept = [arrays[name] for name in arrays.files]
        found += [
            sha256(f"{part.shape}".encode() + part.astype(np.float64).tobytes()).hexdigest()[:16]
            for part in kept
            if part.dtype.kind == "f" and part.size >= LEAST
        ]
    if not found:
        raise RuntimeError(f"{folder} holds no weights")
    return sorted(found)


def trained(checkout: Path, name: str, work: Path) -> list[str]:
    folder = work / name.replace(" ", "-")
    shutil.rmtree(folder, ignore_errors=True)
    macop(checkout, *(word.format(work=work) for word in RUNS[name]), "--out", str(folder))
    return weights(folder)


def bundles(checkout: Path, work: Path) -> dict[str, Any]:
    return json.loads(_python(checkout, "-c", PROBE))


def evaluated(checkout: Path, work: Path) -> list[list[str]]:
    """Return the rows, without the versions of the code and of the file."""
    macop(checkout, *EVALUATION, str(work / "rows.csv"))
    with open(work / "rows.csv", newline="", encoding="utf-8") as file:
        head, *lines = csv.reader(file)
    wanted = [k for k, column in enumerate(head) if column not in ("commit", "format")]
    return [[line[k] for k in wanted] for line in [head, *lines]]


PARTS: dict[str, Callable[[Path, Path], Any]] = {
    **{name: lambda checkout, work, name=name: trained(checkout, name, work) for name in RUNS},  # type: ignore[misc]
    "bundles": bundles,
    "evaluation": evaluated,
}


def version(checkout: Path) -> tuple[str, bool]:
    """The commit, and whether there are no changes since."""
    commands = (["rev-parse", "HEAD"], ["status", "--porcelain", "--untracked-files=no"])
    commit, changes = (
        subprocess.run(["git", "-C", str(checkout), *words], capture_output=True, text=True, check=True).stdout.strip()
        for words in commands
    )
    return commit, not changes


class Checkout(NamedTuple):
    """A checkout as it is when the comparison begins."""

    folder: Path
    home: Path  # where its runs and results are kept
    clean: bool  # whether its results can be recalled

    @staticmethod
    def open(folder: Path, work: Path) -> Checkout:
        commit, clean = version(folder)
        home = work / (commit if clean else f"changed-{sha256(str(folder).encode()).hexdigest()[:8]}")
        home.mkdir(parents=True, exist_ok=True)
        return Checkout(folder, home, clean)

    def computed(self, part: str) -> Any:
        """What it gives for one part; recalled where its commit was compared before."""
        stored = self.home / f"{part.replace(' ', '-')}.json"
        if not (self.clean and stored.exists()):
            stored.write_text(json.dumps(PARTS[part](self.folder, self.home)))
        return json.loads(stored.read_text())


def difference(old: Any, new: Any) -> str:
    """ "" where both are the same, else what is not."""
    if old == new:
        return ""
    if isinstance(old, dict):
        unlike = [name for name in {**old, **new} if old.get(name) != new.get(name)]
        return f"{len(unlike)} of {len({**old, **new})}: {', '.join(unlike[:4])}"
    if old and isinstance(old[0], str):
        return f"{len(set(old) - set(new))} of {len(old)} arrays are not in the new one, which has {len(new)}"
    unlike = [k for k, (one, other) in enumerate(zip(old, new, strict=False)) if one != other]
    return f"{len(old)} and {len(new)} rows; {len(unlike)} differ, the first at {unlike[:1]}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path, metavar="OLD")
    parser.add_argument("new", type=Path, metavar="NEW", nargs="?", default=HERE)
    parser.add_argument("--only", nargs="+", choices=list(PARTS), default=list(PARTS), metavar="PART")
    parser.add_argument("--parallel", type=int, default=2, help="processes at a time")
    parser.add_argument("--work", type=Path, default=WORK)
    arguments = parser.parse_args()
    checkouts = [Checkout.open(folder.resolve(), arguments.work) for folder in (arguments.old, arguments.new)]
    parts = list(dict.fromkeys([*(NEEDS[part] for part in arguments.only if part in NEEDS), *arguments.only]))
    failed = False
    if checkouts[0].home == checkouts[1].home:
        parser.error("both are the same commit, without changes; there is nothing to compare")
    with ThreadPoolExecutor(arguments.parallel) as pool:
        for wave in ([part for part in parts if part not in NEEDS], [part for part in parts if part in NEEDS]):
            jobs = [(checkout, part) for part in wave for checkout in checkouts]
            results = pool.map(lambda job: job[0].computed(job[1]), jobs)
            for part in wave:
                unlike = difference(next(results), next(results))
                failed |= bool(unlike)
                print(f"{part}: {unlike or 'the same'}", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
