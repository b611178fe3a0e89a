"""Does the suite work on environments that other authors wrote: check, self-play, a run of Macop+, zoo, export, evaluation?

    python benchmarks/external.py [--environments spread foraging overcooked] [--workers 2] [--small] [--out FOLDER]

The environments are those of `examples/`. For each: `macop check`; self-play, until teams are competent; two runs of Macop+, with
seeds 0 and 1; the groups of both in a zoo, those of seed 1 as its test split; the cross-play matrix of all groups; the bundle of
seed 0; `EgoAgent` in the environment's loop; and the bundle's evaluation with the groups of seed 1, which it has not met.

Everything is done in `--work`. A killed benchmark resumes there. Results are in `--out`, a folder for each environment.
`--small` takes a few minutes, and says nothing about how well anything is learnt.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from macop_aht.deploy.runtime import EgoAgent
from macop_aht.envs.single import MacopEnv
from macop_aht.policies import resolve
from macop_aht.runs.folder import RunFolder
from macop_aht.scenarios import build
from macop_aht.util import write_whole

ROOT = Path(__file__).parent.parent
WORK = Path(tempfile.gettempdir()) / "macop-external"
OUT = ROOT / "benchmarks" / "results" / "external"
LOOP = 32  # episodes of the agent in the loop


@dataclass(frozen=True)
class Settings:
    """Options of the commands."""

    selfplay: str
    train: str
    export: str = ""


FULL = {
    "spread": Settings(
        "--learner ppo --teams 4 --steps 400000",
        "--teammate-steps 800000 --ego-steps 100000 --test-episodes 64",
    ),
    "foraging": Settings(
        "--learner ppo --teams 4 --steps 600000",
        "--teammate-steps 1200000 --ego-steps 150000 --test-episodes 64",
    ),
    "overcooked": Settings(
        "--learner ppo --teams 2 --steps 500000 --envs 32",
        "--population 2 --teammate-steps 600000 --ego-steps 100000 --test-episodes 16 --max-iterations 3",
        "--recogniser.steps 100000 --test-episodes 16",
    ),
}
SMALL = Settings(
    "--teams 2 --steps 2000 --envs 4 --batch 8",
    "--population 2 --teammate-steps 2000 --ego-steps 500 --test-episodes 2 "
    "--min-iterations 2 --max-iterations 2 --envs 4 --batch 8",
    "--recogniser.steps 500 --generalist.rounds 1 --test-episodes 2 --members 1",
)


class Bench:
    """The stages of one environment, each done once."""

    def __init__(self, name: str, settings: Settings, work: Path, out: Path, workers: int) -> None:
        self.name, self.settings, self._workers = name, settings, workers
        self.scenario, self.work, self.out = f"{name}:environment", work / name, out / name
        self.zoo, self.bundle = self.work / "zoo", self.work / "bundle"
        for folder in (self.work, self.out, self.zoo):
            folder.mkdir(parents=True, exist_ok=True)

    def stage(self, name: str, do: Callable[[], str]) -> None:
        """Do a stage, unless it was done, and keep what it tells as a file."""
        path = self.out / f"{name}.txt"
        if path.exists():
            print(f"{self.name}: {name} was done")
            return
        began = time.time()
        told = do()
        write_whole(path, f"{told.rstrip()}\n\n{(time.time() - began) / 60:.1f} minutes\n")
        print(f"{self.name}: {name}, {(time.time() - began) / 60:.1f} minutes", flush=True)

    def macop(self, *words: str | Path) -> str:
        """Run a command, and return what it prints."""
        paths = os.pathsep.join([str(ROOT), str(ROOT / "examples"), os.environ.get("PYTHONPATH", "")])
        more = {"PYTHONPATH": paths, "MACOP_ZOO": str(self.zoo), "MACOP_WORKERS": str(self._workers)}
        command = [sys.executable, "-m", "macop_aht", *map(str, words)]
        done = subprocess.run(command, capture_output=True, text=True, env=os.environ | more)
        if done.returncode:
            raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout}\n{done.stderr}")
        return done.stdout

    def trained(self, command: str, folder: Path, options: str, *words: str) -> str:
        """Run a command that trains, or resume it."""
        resumed = ["--resume"] if RunFolder(folder).exists else []
        return self.macop(command, self.scenario, "--out", folder, *options.split(), *words, *resumed)

    def run(self) -> None:
        """Do all stages."""
        runs = [self.work / "macop-plus" / seed for seed in ("0", "1")]
        self.stage("check", lambda: self.macop("check", self.scenario))
        self.stage("selfplay", lambda: self.trained("selfplay", self.work / "selfplay", self.settings.selfplay))
        for seed, run in enumerate(runs):
            words = ("--method", "macop+", "--seed", str(seed))
            self.stage(f"macop-plus-{seed}", lambda: self.trained("train", run, self.settings.train, *words))  # noqa: B023
        self.stage("zoo", lambda: self._fill_zoo(runs))
        self.stage("crossplay", lambda: self.macop("crossplay", self.scenario, "zoo:all", "--out", self.out / "matrix"))
        options = self.settings.export.split()
        self.stage("export", lambda: self.macop("export", runs[0], "--out", self.bundle, *options))
        self.stage("loop", self._loop)
        rest = ("--teammates", "zoo:test", "random", "--csv", self.out / "rows.csv")
        self.stage("evaluate", lambda: self.macop("evaluate", self.bundle, "--scenario", self.scenario, *rest))

    def _fill_zoo(self, runs: Sequence[Path]) -> str:
        told = [
            self.macop("zoo", "add", run, "--split", split, "--zoo", self.zoo, "--replace")
            for split, run in zip(("train", "test"), runs, strict=True)
        ]
        return "\n".join([*told, self.macop("zoo", "list", self.scenario, "--zoo", self.zoo)])

    def _loop(self) -> str:
        """Play the bundle in Gymnasium's loop, as an app does, with the groups that it has not met."""
        os.environ["MACOP_ZOO"] = str(self.zoo)
        world, agent = build(self.scenario), EgoAgent.load(self.bundle)
        own = world.controllable
        env, returns = MacopEnv(world, resolve("zoo:test", world, self.scenario)), []
        for seed in range(LOOP):
            seen, _ = env.reset(seed=seed)
            agent.episode_begin()
            over, total = False, 0.0
            while not over:
                masks = np.reshape(env.action_masks(), (own, -1))
                action = agent.act(seen.reshape(own, -1), masks)
                seen, reward, terminated, truncated, info = env.step(action if own > 1 else int(action[0]))
                total, over = total + info.get("sparse_reward", reward), terminated or truncated
            agent.episode_end(total)
            returns.append(total)
        return f"EgoAgent in the loop: {np.mean(returns):.2f} over {LOOP} episodes with the groups of another seed"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--environments", nargs="+", choices=list(FULL), default=list(FULL))
    parser.add_argument("--workers", type=int, default=1, help="processes that step the environments")
    parser.add_argument("--small", action="store_true", help="a few minutes, to see that everything works")
    parser.add_argument("--work", type=Path, default=WORK)
    parser.add_argument("--out", type=Path, default=OUT)
    arguments = parser.parse_args()
    sys.path.insert(0, str(ROOT / "examples"))
    for name in arguments.environments:
        settings = SMALL if arguments.small else FULL[name]
        Bench(name, settings, arguments.work, arguments.out, arguments.workers).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
