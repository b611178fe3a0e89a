"""Runs of methods: a folder with the settings, the phases as they end, and every decision."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

from macop_aht.config import changed, from_mapping, read_toml
from macop_aht.learner.device import choose_device
from macop_aht.learner.threads import use_threads
from macop_aht.methods import (
    clear,
    continual,
    ewc,
    fcp,
    finetune,
    fresh,
    lipo,
    macop,
    multi_head,
    origins,
    ppo,
    presets,
    random_head,
    single_head,
    trajedi,
)
from macop_aht.methods.macop import MacopConfig
from macop_aht.methods.origins import ego_of, groups_of
from macop_aht.methods.phases import Outcome, Setup
from macop_aht.paths import commit
from macop_aht.runs.journal import Journal, Status
from macop_aht.runs.selfplay import open_folder
from macop_aht.scenarios import build
from macop_aht.util import hint

__all__ = [
    "METHODS", "Finished", "Method", "MethodRun", "check_groups", "configure", "ego_of", "find", "groups_of", "preset",
    "preset_of", "read_run", "setup_of", "train",
]  # fmt: skip


class Method(NamedTuple):
    """A method: its settings and its algorithm box."""

    about: str
    config: type  # of its settings
    beside: Callable[[MacopConfig, MacopConfig], Any]  # its settings that go with a preset of Macop's and the paper's
    train: Callable[[Setup[Any], Journal], Outcome]
    steps: Callable[[Any], int]  # of a run with these settings, at most
    groups_from: tuple[str, ...] = ()  # the methods whose groups it learns with, where it makes none itself
    fixed: Mapping[str, Any] = {}  # settings that make it what it is
    compared: bool = True  # whether a campaign that names no methods has it
    learner: str = "q"  # what trains the ego: Q-learning, or ppo


MACOPS, POPULATIONS = ("macop", "macop+"), ("fcp", "trajedi", "lipo")
GENERATORS = (*MACOPS, *POPULATIONS)
ANY = (*GENERATORS, "sequence")
METHODS = {
    "macop": Method(
        "groups that the ego cannot join, until there are none; a head for each that needs one",
        MacopConfig, macop.plain, macop.train, macop.steps, fixed={"incompatibility": "cross-play"},
    ),
    "macop+": Method(
        "the same with groups that are novel to the ego, and with their own episodes to learn from",
        MacopConfig, macop.plus, macop.train, macop.steps, fixed={"incompatibility": "novelty"},
    ),
    "fcp": Method(
        "independent groups, then an ego with all of them", fcp.FcpConfig, fcp.beside, fcp.train, fcp.steps
    ),
    "trajedi": Method(
        "groups that act differently, then an ego with all of them",
        trajedi.TrajediConfig, trajedi.beside, trajedi.train, fcp.steps,
    ),
    "lipo": Method(
        "groups that get on badly with each other, then an ego with all of them",
        lipo.LipoConfig, lipo.beside, lipo.train, fcp.steps,
    ),
    "finetune": Method(
        "one head, with group after group",
        finetune.FinetuneConfig, finetune.beside, finetune.train, continual.steps, groups_from=ANY,
    ),
    "finetune-trajedi": Method(
        "Finetune on TrajeDi's groups",
        finetune.FinetuneConfig, finetune.beside, finetune.train, continual.steps, groups_from=("trajedi",),
    ),
    "single-head": Method(
        "one head, with group after group, its backbone held near where it was",
        single_head.SingleHeadConfig, single_head.beside, single_head.train, continual.steps, groups_from=ANY,
    ),
    "random-head": Method(
        "Macop's ego, playing any of its heads",
        random_head.RandomHeadConfig, random_head.beside, random_head.train, random_head.steps, groups_from=MACOPS,
    ),
    "ewc": Method(
        "one head, with group after group, the weights held that mattered",
        ewc.EwcConfig, ewc.beside, ewc.train, continual.steps, groups_from=ANY,
    ),
    "clear": Method(
        "one head, with group after group, the earlier ones rehearsed",
        clear.ClearConfig, clear.beside, clear.train, continual.steps, groups_from=ANY,
    ),
    "ppo": Method(
        "Stable-Baselines3's PPO with all groups of another run",
        ppo.PpoConfig, ppo.beside, ppo.train, ppo.steps, groups_from=GENERATORS, learner="ppo",
    ),
    "multi-head": Method(
        "Macop's ego alone, with group after group, a head for each that needs one",
        multi_head.MultiHeadConfig, multi_head.beside, multi_head.train, multi_head.steps, groups_from=ANY, compared=False,
    ),
    "fresh": Method(
        "one head, begun anew with every group",
        finetune.FinetuneConfig, finetune.beside, fresh.train, continual.steps, groups_from=ANY, compared=False,
    ),
}  # fmt: skip


def find(method: str) -> Method:
    """The method of that name."""
    if method not in METHODS:
        raise ValueError(f"unknown method {method!r}; {hint(method, list(METHODS))}")
    return METHODS[method]


@dataclass
class Finished:
    """A run that has come to its end."""

    run: MethodRun
    setup: Setup[Any]
    outcome: Outcome
    decisions: list[dict[str, Any]]
    minutes: float  # of all its parts; what a kill has cost is not in it
    commits: list[str]  # of the code, in the order of the parts


@dataclass(frozen=True)
class MethodRun:
    """What a run of a method is: the same run gives the same weights."""

    scenario: str
    method: str = "macop"
    seed: int = 0
    threads: int = 1
    config: Any = field(default_factory=MacopConfig)  # of the method's kind

    def __post_init__(self) -> None:
        method = find(self.method)
        if type(self.config) is not method.config:
            raise TypeError(f"{self.method} has a {method.config.__name__}, not a {type(self.config).__name__}")
        if changed(self.config, method.fixed) != self.config:
            raise ValueError(
                f"{self.method} is the method with {dict(method.fixed)}; choose the other --method, not the setting"
            )


def configure(method: str, ours: MacopConfig, papers: MacopConfig | None = None) -> Any:
    """A method's settings beside Macop's; steps are scaled as Macop's are against the paper's, where these are given."""
    return find(method).beside(ours, papers or ours)


def preset(method: str, name: str, scenario: str) -> Any:
    """A method's settings by the name of a preset."""
    return configure(method, presets.macop(name, scenario), presets.macop("paper", scenario))


def preset_of(run: MethodRun) -> str:
    """The name of the preset whose settings a run has, apart from whose groups it learns with; "" where it has others."""
    for name in presets.MACOP:
        usual = preset(run.method, name, run.scenario)
        if usual == (replace(run.config, groups=usual.groups) if hasattr(usual, "groups") else run.config):
            return name
    return ""


def read_run(folder: Path) -> MethodRun:
    """The run that a folder holds."""
    stored = folder / "run.toml"
    if not stored.exists():
        raise FileNotFoundError(f"{folder} holds no run: there is no {stored.name} in it")
    values = read_toml(stored)
    if "method" not in values:
        raise ValueError(f"{stored} describes no run of macop train; is it one of macop selfplay?")
    return from_mapping(MethodRun, values, kinds={"config": find(values["method"]).config})


def setup_of(run: MethodRun, device: str = "auto") -> Setup[Any]:
    """What the phases of a run are given.

    Methods of the same seed draw nothing alike: else FCP's groups and TrajeDi's would be twins, the one's ego would know the
    other's groups, and the egos of all methods would start from the same weights.
    """
    stream = () if run.method == "macop" else (crc32(run.method.encode()),)
    return Setup(build(run.scenario), run.config, run.seed, choose_device(device), stream=stream)


def check_groups(run: MethodRun, folder: Path) -> None:
    """Raise where a method lacks the groups that it learns with; once it has them, they are in its own folder."""
    method = find(run.method)
    if method.groups_from and not (folder / "phases" / "groups.npz").exists():
        origins.check(run.config.groups, run.scenario, method.groups_from)


def train(
    run: MethodRun,
    folder: Path,
    resume: bool = False,
    device: str = "auto",
    say: Callable[[str], None] = print,
    show: Callable[[Status], None] | None = None,
) -> Finished:
    """Train, or go on training, to the end."""
    setup = setup_of(run, device)
    check_groups(run, folder)
    open_folder(folder, run, resume)
    use_threads(run.threads)
    say(f"device {setup.device}, {run.threads} thread{'s' if run.threads > 1 else ''}")
    journal = Journal(folder, say, show)
    setup = setup._replace(watch=journal.watch)
    began, code = time.perf_counter(), commit()
    try:
        outcome = find(run.method).train(setup, journal)
    finally:
        journal.close()
        parts = _add_part(folder / "parts.json", (time.perf_counter() - began) / 60, code)
    minutes, commits = sum(part["minutes"] for part in parts), list(dict.fromkeys(part["commit"] for part in parts))
    return Finished(run, setup._replace(watch=None), outcome, journal.decisions, minutes, commits)


def _add_part(path: Path, minutes: float, code: str) -> list[dict[str, Any]]:
    """Note how long this part of the run took, and with what code; gives all parts that are known. Never stops a run."""
    try:
        before = json.loads(path.read_text())
    except (OSError, ValueError):
        before = []
    parts = [*before, {"minutes": round(minutes, 2), "commit": code}]
    with contextlib.suppress(OSError):
        path.with_suffix(".unfinished").write_text(json.dumps(parts) + "\n")
        path.with_suffix(".unfinished").replace(path)
    return parts
