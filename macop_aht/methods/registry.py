"""The table of methods, to which users add their own, and what a run of a method is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, is_dataclass, replace
from pathlib import Path
from typing import Any
from zlib import crc32

from macop_aht.config import LARGEST, at_least, changed, from_mapping, of_file, read_toml, within
from macop_aht.learner.device import choose_device
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
    ppo,
    presets,
    random_head,
    single_head,
    trajedi,
)
from macop_aht.methods.macop import MacopConfig
from macop_aht.methods.phases import Result, Setup
from macop_aht.runs.folder import SELF_PLAY, SEQUENCE, RunFolder
from macop_aht.runs.journal import Journal
from macop_aht.runs.records import check_format
from macop_aht.scenarios import build
from macop_aht.util import hint


@dataclass(frozen=True)
class Method:
    """A method: its settings and its algorithm box. `register_method` gives it a name.

    - `about`: one line for `macop train --help`.
    - `config`: the frozen dataclass of its settings. Every value has a default and is made by `config.setting`. It needs
      `test_episodes: int`, the greedy episodes behind every measured return.
    - `from_preset`: called as `from_preset(preset, paper)`, with Macop's settings by the chosen preset and by the paper.
      Returns a `config` that trains as long as these say.
    - `train`: the algorithm box. Called as `train(setup, journal)`, returns an `Result`. Every phase goes through
      `journal.phase`, so that a killed run resumes there.
    - `steps`: called as `steps(config)`, returns the most environment steps that a run takes, for the progress bar.
    - `groups_from`: the methods whose groups it learns with; empty where it generates its own (default). Where it is not
      empty, `config` needs `groups: str`, the folder of the run that lends the groups.
    - `campaign_groups`: the one of them that lends the groups in a campaign (default: the first).
    - `fixed`: settings that make the method what it is, and that a run may not change (default: none).
    - `compared`: whether a campaign that names no methods runs it (default: yes).
    - `preset`: the preset by default (default: fast).
    - `learner`: what trains the ego, for the result rows, such as `ppo`; None: what the settings say (default).
    """

    about: str
    config: type
    from_preset: Callable[[MacopConfig, MacopConfig], Any]
    train: Callable[[Setup[Any], Journal], Result]
    steps: Callable[[Any], int]
    groups_from: tuple[str, ...] = ()
    campaign_groups: str = ""
    fixed: Mapping[str, Any] = field(default_factory=dict)
    compared: bool = True
    preset: str = "fast"
    learner: str | None = None

    @property
    def lender(self) -> str:
        """The method that lends the groups in a campaign; "" where it generates its own."""
        return self.campaign_groups or next(iter(self.groups_from), "")


MACOPS, POPULATIONS = ("macop", "macop+"), ("fcp", "trajedi", "lipo")
GENERATORS = (*MACOPS, *POPULATIONS)
ANY = (*GENERATORS, SEQUENCE)
METHODS = {
    "macop": Method(
        "generates groups that the ego cannot join, until it finds none; the ego gets a head for each that needs one",
        MacopConfig, macop.from_preset, macop.train, macop.steps, fixed={"incompatibility": "cross-play"},
    ),
    "macop+": Method(
        "Macop, but the groups are novel to the ego, and the ego learns from their own episodes too",
        MacopConfig, macop.plus_from_preset, macop.train, macop.steps, fixed={"incompatibility": "novelty"},
        preset="strong",
    ),
    "fcp": Method(
        "independent groups, then an ego of one head that learns with all of them",
        fcp.FcpConfig, fcp.from_preset, fcp.train, fcp.steps,
    ),
    "trajedi": Method(
        "groups that are trained to act differently, then an ego as in fcp",
        trajedi.TrajediConfig, trajedi.from_preset, trajedi.train, fcp.steps,
    ),
    "lipo": Method(
        "groups that are trained to play badly with each other, then an ego as in fcp",
        lipo.LipoConfig, lipo.from_preset, lipo.train, fcp.steps,
    ),
    "finetune": Method(
        "an ego of one head learns with the groups of another run, one after the other",
        finetune.FinetuneConfig, finetune.from_preset, finetune.train, continual.steps,
        groups_from=ANY, campaign_groups="macop",
    ),
    "finetune-trajedi": Method(
        "finetune with the groups of a run of trajedi",
        finetune.FinetuneConfig, finetune.from_preset, finetune.train, continual.steps, groups_from=("trajedi",),
    ),
    "single-head": Method(
        "finetune with Macop's regulariser on the backbone",
        single_head.SingleHeadConfig, single_head.from_preset, single_head.train, continual.steps,
        groups_from=ANY, campaign_groups="macop",
    ),
    "random-head": Method(
        "the ego of a run of Macop, which plays a random head in every episode",
        random_head.RandomHeadConfig, random_head.from_preset, random_head.train, random_head.steps,
        groups_from=MACOPS, campaign_groups="macop",
    ),
    "ewc": Method(
        "finetune with a penalty on moving the weights that mattered for earlier groups",
        ewc.EwcConfig, ewc.from_preset, ewc.train, continual.steps, groups_from=ANY, campaign_groups="trajedi",
    ),
    "clear": Method(
        "finetune with rehearsal of episodes with earlier groups",
        clear.ClearConfig, clear.from_preset, clear.train, continual.steps, groups_from=ANY, campaign_groups="trajedi",
    ),
    "ppo": Method(
        "Stable-Baselines3's PPO learns with all groups of another run",
        ppo.PpoConfig, ppo.from_preset, ppo.train, ppo.steps,
        groups_from=GENERATORS, campaign_groups="fcp", learner="ppo",
    ),
    "multi-head": Method(
        "finetune with Macop's ego and its heads; Macop's settings of teammates have no effect",
        multi_head.MultiHeadConfig, multi_head.from_preset, multi_head.train, multi_head.steps,
        groups_from=ANY, campaign_groups="macop", compared=False,
    ),
    "fresh": Method(
        "finetune from random weights with every group",
        finetune.FinetuneConfig, finetune.from_preset, fresh.train, continual.steps,
        groups_from=ANY, campaign_groups="macop", compared=False,
    ),
}  # fmt: skip
BUILT_IN = frozenset(METHODS)


def register_method(name: str, method: Method) -> None:
    """Add a method of your own to the table, so that `macop train`, campaigns and `MethodRun` know it by name.

    A module that calls this is named by `macop --import MODULE …`. Registering a name of your own again replaces it.
    Raises `ValueError` where the name or the method will not do, `TypeError` where it is no `Method`.
    """
    if not isinstance(method, Method):
        raise TypeError(
            f"register_method({name!r}, …) got {type(method).__name__}; it needs a macop_aht.methods.Method"
        )
    if name in (*BUILT_IN, SEQUENCE, SELF_PLAY):
        raise ValueError(f"there is a method {name!r} already; choose another name")
    if not name or not all(letter.isalnum() or letter in "+-_" for letter in name):
        raise ValueError(f"a method is called {name!r}; use letters, digits, - + and _, since it names a folder too")
    if not is_dataclass(method.config):
        raise ValueError(f"the config of {name} is {method.config!r}; it must be a frozen dataclass")
    needed = ["test_episodes", *(["groups"] if method.groups_from else [])]
    missing = [one for one in needed if one not in getattr(method.config, "__dataclass_fields__", {})]
    if missing:
        raise ValueError(f"{method.config.__name__}, the config of {name}, lacks the field {missing[0]!r}")
    strangers = [one for one in method.groups_from if one not in (*METHODS, SEQUENCE)]
    if strangers:
        raise ValueError(f"{name} takes groups from {strangers[0]!r}; {hint(strangers[0], [*METHODS, SEQUENCE])}")
    METHODS[name] = method


def find(method: str) -> Method:
    """Return the method of that name; raise `ValueError` where there is none."""
    if method not in METHODS:
        raise ValueError(f"unknown method {method!r}; {hint(method, list(METHODS))}")
    return METHODS[method]


# --- Runs


@dataclass(frozen=True)
class MethodRun:
    """What a run of a method is: the same run gives the same weights."""

    scenario: str
    method: str = "macop"
    seed: int = 0
    threads: int = 1
    config: Any = field(default_factory=MacopConfig)  # of the method's kind

    @staticmethod
    def from_preset(
        scenario: str,
        method: str = "macop+",
        name: str | None = None,
        seed: int = 0,
        threads: int = 1,
        settings: Mapping[str, Any] | None = None,
    ) -> MethodRun:
        """Return a run with the settings of a preset (default: the method's), and some of them changed.

        `settings` are nested as in a run's TOML: `{"ego_steps": 50_000, "ego": {"ratio": 1.0}}`. Raises `ConfigError` for an
        unknown key or a value of the wrong type.
        """
        return MethodRun(
            scenario,
            method,
            seed,
            threads,
            changed(preset(method, name or find(method).preset, scenario), settings or {}),
        )

    def __post_init__(self) -> None:
        within(self, 0, LARGEST, "seed")
        at_least(self, 1, "threads")
        method = find(self.method)
        if type(self.config) is not method.config:
            raise TypeError(f"{self.method} has a {method.config.__name__}, not a {type(self.config).__name__}")
        if changed(self.config, method.fixed) != self.config:
            raise ValueError(
                f"{self.method} is the method with {dict(method.fixed)}; choose the other --method, not the setting"
            )


def configure(method: str, preset: MacopConfig, paper: MacopConfig | None = None) -> Any:
    """Return a method's settings by a preset of Macop's; steps are scaled as Macop's are against the paper's, where given."""
    return find(method).from_preset(preset, paper or preset)


def preset(method: str, name: str, scenario: str) -> Any:
    """Return a method's settings by the name of a preset."""
    return configure(method, presets.macop(name, scenario), presets.macop("paper", scenario))


@dataclass(frozen=True)
class RunFile:
    """A file that `macop train --config` takes: what every run's folder has in `run.toml`, or a part of it."""

    scenario: str = ""
    method: str = "macop"
    seed: int = 0
    threads: int = 0  # 0: the default
    config: dict = field(default_factory=dict)  # settings of the method, as nested tables

    @staticmethod
    def read(path: Path) -> RunFile:
        """Return what a file says; raise `ConfigError` or `FormatError` where it has unknown keys or another format."""
        values = read_toml(path)
        if "format" in values:
            values = check_format(values, str(path), path.parent)
        with of_file(path):
            return from_mapping(RunFile, values)


def settings_by_file(file: RunFile, scenario: str, method: str, name: str) -> Any:
    """Return a method's settings: those of a preset, and over them what the file says."""
    return changed(preset(method, name, scenario), file.config, "config.")


def preset_of(run: MethodRun) -> str:
    """Return the name of the preset whose settings a run has, but for whose groups it learns with; "" where it has others."""
    for name in presets.MACOP:
        usual = preset(run.method, name, run.scenario)
        if usual == (replace(run.config, groups=usual.groups) if hasattr(usual, "groups") else run.config):
            return name
    return ""


def read_run(folder: Path) -> MethodRun:
    """Return the run that a folder holds; raise `ValueError` where it is none of macop train."""
    own = RunFolder(folder)
    if own.method in (SELF_PLAY, SEQUENCE):
        raise ValueError(f"{own.settings_file} describes no run of macop train; is it one of macop {own.method}?")
    with of_file(own.settings_file):
        return from_mapping(MethodRun, own.settings, kinds={"config": find(own.method).config})


def learner_of(run: MethodRun) -> str:
    """Return what trains the ego of a run: `q` or `ppo`, for the result rows; "" where that is not known any more."""
    own = find(run.method).learner
    if own is not None:
        return own
    config = getattr(run.config, "macop", run.config)
    ego = getattr(config, "ego", None)
    training = getattr(ego, "training", ego)
    if training is not None:
        return training.learner
    lender = RunFolder(config.groups)
    return learner_of(read_run(lender.path)) if lender.exists else ""


def setup_of(run: MethodRun, device: str = "auto") -> Setup[Any]:
    """Return what the phases of a run are given.

    Methods of the same seed have independent random numbers. Else FCP's groups and TrajeDi's would be twins, the one's ego
    would know the other's groups, and the egos of all methods would start from the same weights.
    """
    stream = () if run.method == "macop" else (crc32(run.method.encode()),)
    return Setup(build(run.scenario), run.config, run.seed, choose_device(device), stream=stream)
