"""The manifest of an ego bundle: a dataclass with one strict reader and one writer.

`parse` reads a manifest's text and refuses what it does not know: unknown or missing keys, values of the wrong type, NaN and
infinity, sizes that disagree with each other, and documents that are too large or too deep. `text_of` is its inverse.
numpy and the standard library are all that this module needs.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from macop_aht.deploy.documents import (
    COUNT,
    BundleError,
    Floats,
    Integers,
    as_dataclass,
    as_document,
    document,
    require,
)

FORMAT = 2
AGENT = "agent.onnx"
ZERO_SHOT = "zero-shot"
FILES = re.compile(r"agent\.onnx|selectors/[a-z0-9][a-z0-9-]{0,63}\.onnx")
DIGEST = re.compile(r"[0-9a-f]{64}")
Row = tuple[float, ...]


@dataclass(frozen=True)
class RunGroups:
    """The teammate groups of the run that the ego is from."""

    generator: str  # the method that made them, as zoo cards write it
    learnt_with: tuple[str, ...]  # the groups that the run's heads were trained with
    sha256: dict[str, tuple[str, ...]]  # of every group: its possible files in a zoo, in single and in half precision

    def __post_init__(self) -> None:
        for digest in (digest for digests in self.sha256.values() for digest in digests):
            require(bool(DIGEST.fullmatch(digest)), f"groups.sha256 has {digest!r}, which is no sha-256")
        unknown = {*self.learnt_with} - {*self.sha256}
        require(not unknown, f"groups.learnt_with names {sorted(unknown)}, which groups.sha256 does not have")


@dataclass(frozen=True)
class Versions:
    """What wrote the bundle."""

    macop_aht: str
    opset: int  # the version of ONNX's operators


@dataclass(frozen=True, eq=False)
class AgentInputs:
    """Inputs of `agent.onnx`, N rows."""

    obs: Floats  # (N,D)
    last_action: Integers  # (N,)
    agent: Integers  # (N,)
    memory: Floats  # (N,H)


@dataclass(frozen=True, eq=False)
class AgentOutputs:
    """What `agent.onnx` gives for them."""

    q: Floats  # (N,K,A)
    next_memory: Floats  # (N,H)


@dataclass(frozen=True, eq=False)
class AgentGolden:
    """Recorded inputs and outputs of `agent.onnx`, which every runtime should reproduce."""

    inputs: AgentInputs
    outputs: AgentOutputs


@dataclass(frozen=True, eq=False)
class ZeroShotInputs:
    """Inputs of `selectors/zero-shot.onnx`, B teams."""

    obs: Floats  # (B,m,D)
    last_action: Integers  # (B,m)
    agent: Integers  # (B,m)
    belief: Floats  # (B,S)


@dataclass(frozen=True, eq=False)
class ZeroShotOutputs:
    """What `selectors/zero-shot.onnx` gives for them."""

    head: Integers  # (B,)
    probability: Floats  # (B,G)
    next_belief: Floats  # (B,S)


@dataclass(frozen=True, eq=False)
class ZeroShotGolden:
    """Recorded inputs and outputs of `selectors/zero-shot.onnx`."""

    inputs: ZeroShotInputs
    outputs: ZeroShotOutputs


@dataclass(frozen=True)
class BeliefParts:
    """How many numbers a belief has of each kind; they follow each other in this order."""

    prior: int  # a number per group: the belief before this episode
    evidence: int  # a number per group: what this episode says
    memory: int  # the recogniser's memory, a row per agent
    margin: int  # a number per head: what another head must be better by
    penalty: int  # a number per head: what it has lost by having been active in this episode

    @property
    def size(self) -> int:
        """Return the length of a belief."""
        return self.prior + self.evidence + self.memory + self.margin + self.penalty


@dataclass(frozen=True)
class ZeroShot:
    """What is known of the zero-shot selector."""

    groups: tuple[str, ...]  # the groups that it recognises: the run's, then the ego's own heads
    belief: BeliefParts
    leak: float  # the share of the belief that is forgotten in a step
    returns: tuple[Row, ...]  # (K,G) of every head with every group
    golden: ZeroShotGolden


@dataclass(frozen=True)
class Bin:
    """Steps in which the belief in the likeliest group was about the same."""

    steps: int
    confidence: float  # the mean belief in the likeliest group
    accuracy: float  # the share of steps in which that group was the one that played


@dataclass(frozen=True)
class Calibration:
    """How far the belief in the likeliest group can be trusted."""

    error: float  # the expected calibration error
    accuracy: float  # over all steps
    bins: tuple[Bin, ...]


@dataclass(frozen=True)
class Figures:
    """Mean returns with each of the run's groups."""

    episodes: int  # behind every figure
    groups: tuple[str, ...]
    returns: tuple[Row, ...]  # (K,G) of every head with every group
    best_head: Row  # of the run's best head, in other episodes than those that it was chosen by
    meta_test: Row  # of meta-test, after so many episodes of choosing:
    meta_episodes: int
    zero_shot_first: Row  # of zero-shot in the first episode
    zero_shot_later: Row  # and in the episodes that follow
    calibration: Calibration


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """What a bundle says of itself: names, sizes, versions, hashes, golden inputs and outputs."""

    scenario: str
    method: str
    seed: int  # of the run
    groups: RunGroups | None = None
    heads: int  # all of them: K
    run_heads: int  # those of the run, the first ones; one more is the generalist head
    agents: int  # in a team: N
    controllable: int  # the first of them, which the ego plays: m
    hidden: int  # the size of a memory: H
    observations: tuple[str, ...]  # the meaning of every entry of an observation: D
    actions: tuple[str, ...]  # A
    versions: Versions
    sha256: dict[str, str]  # of the files
    golden: AgentGolden
    zero_shot: ZeroShot | None = None
    figures: Figures | None = None

    def __post_init__(self) -> None:
        _check_sizes(self)
        _check_files(self)
        _check_golden(self)
        if self.zero_shot is not None:
            _check_zero_shot(self, self.zero_shot)
        if self.figures is not None:
            _check_figures(self, self.figures)

    @property
    def generalist(self) -> bool:
        """Return whether the last head is a generalist head."""
        return self.heads > self.run_heads

    @property
    def selectors(self) -> list[str]:
        """Return the names of the selectors."""
        return sorted(name.split("/")[1].removesuffix(".onnx") for name in self.sha256 if name != AGENT)

    @property
    def head_names(self) -> list[str]:
        """Return a name for every head; those of the run are numbered."""
        return [*map(str, range(self.run_heads)), *["generalist"] * self.generalist]


# --- What must agree inside a manifest


def _check_sizes(found: Manifest) -> None:
    for name in ("heads", "run_heads", "agents", "controllable", "hidden"):
        value = getattr(found, name)
        require(1 <= value <= COUNT, f"{name} is {value}; it must be in 1..{COUNT}")
    require(found.seed >= 0, f"seed is {found.seed}; it must be at least 0")
    require(
        found.heads - found.run_heads in (0, 1),
        f"heads is {found.heads} and run_heads {found.run_heads}; there may be one generalist head more, or none",
    )
    require(
        found.controllable <= found.agents,
        f"controllable is {found.controllable}; it must be at most agents, {found.agents}",
    )
    require(bool(found.observations and found.actions), "observations and actions must not be empty")


def _check_files(found: Manifest) -> None:
    for name, digest in found.sha256.items():
        require(
            bool(FILES.fullmatch(name)), f"sha256 names the file {name!r}; allowed are {AGENT} and selectors/NAME.onnx"
        )
        require(bool(DIGEST.fullmatch(digest)), f"sha256 has {digest!r} for {name}, which is no sha-256")
    require(AGENT in found.sha256, f"sha256 lacks {AGENT}")
    selector = f"selectors/{ZERO_SHOT}.onnx"
    require(
        (selector in found.sha256) == (found.zero_shot is not None),
        f"zero_shot and {selector} belong together; the manifest has only one of them",
    )


def _shapes(where: str, tensors: Any, wanted: dict[str, tuple[int, ...]]) -> None:
    for name, shape in wanted.items():
        own = getattr(tensors, name).shape
        require(own == shape, f"{where}.{name} has the shape {own}; the sizes in the manifest say {shape}")


def _check_golden(found: Manifest) -> None:
    inputs, rows = found.golden.inputs, len(found.golden.inputs.last_action)
    width, actions = len(found.observations), len(found.actions)
    memory = (rows, found.hidden)
    _shapes("golden.inputs", inputs, {"obs": (rows, width), "last_action": (rows,), "agent": (rows,), "memory": memory})
    _shapes("golden.outputs", found.golden.outputs, {"q": (rows, found.heads, actions), "next_memory": memory})
    _in_range("golden.inputs", inputs, found.agents, actions)


def _in_range(where: str, inputs: AgentInputs | ZeroShotInputs, agents: int, actions: int) -> None:
    for name, low, high in (("agent", 0, agents - 1), ("last_action", -1, actions - 1)):
        numbers = getattr(inputs, name)
        require(
            bool(((numbers >= low) & (numbers <= high)).all()), f"{where}.{name} has numbers outside of {low}..{high}"
        )


def _check_zero_shot(found: Manifest, described: ZeroShot) -> None:
    groups, parts, own = len(described.groups), described.belief, found.controllable
    wanted = {"prior": groups, "evidence": groups, "margin": found.heads, "penalty": found.heads}
    for name, size in wanted.items():
        value = getattr(parts, name)
        require(value == size, f"zero_shot.belief.{name} is {value}; the manifest says {size} elsewhere")
    require(
        0 < parts.memory <= COUNT and parts.memory % own == 0,
        f"zero_shot.belief.memory is {parts.memory}; it must be a multiple of controllable, {own}, up to {COUNT}",
    )
    require(groups > 0, "zero_shot.groups is empty")
    require(0 <= described.leak <= 1, f"zero_shot.leak is {described.leak}; it must be in 0..1")
    _table("zero_shot.returns", described.returns, found.heads, groups)
    teams, size = len(described.golden.inputs.last_action), parts.size
    inputs = {"obs": (teams, own, len(found.observations)), "last_action": (teams, own), "agent": (teams, own)}
    outputs = {"head": (teams,), "probability": (teams, groups), "next_belief": (teams, size)}
    _shapes("zero_shot.golden.inputs", described.golden.inputs, {**inputs, "belief": (teams, size)})
    _shapes("zero_shot.golden.outputs", described.golden.outputs, outputs)
    _in_range("zero_shot.golden.inputs", described.golden.inputs, found.agents, len(found.actions))


def _check_figures(found: Manifest, figures: Figures) -> None:
    groups = len(figures.groups)
    _table("figures.returns", figures.returns, found.heads, groups)
    for name in ("best_head", "meta_test", "zero_shot_first", "zero_shot_later"):
        _table(f"figures.{name}", (getattr(figures, name),), 1, groups)


def _table(where: str, rows: tuple[Row, ...], height: int, width: int) -> None:
    require(
        len(rows) == height and all(len(row) == width for row in rows),
        f"{where} has {len(rows)} rows of {sorted({len(row) for row in rows})} numbers; it must have {height} of {width}",
    )


# --- Reading and writing


def parse(content: bytes) -> Manifest:
    """Return the manifest with this content; raise `BundleError`, which says what came and what is allowed."""
    found = document(content)
    written = found.pop("format", None)
    if written == 1:
        raise BundleError("it is of format 1; convert it with `macop convert`")
    if written != FORMAT or isinstance(written, bool):
        raise BundleError(f"it is of format {repr(written)[:60]}; this version reads {FORMAT}. Upgrade macop-aht")
    return as_dataclass(Manifest, found)


def text_of(manifest: Manifest) -> str:
    """Return a manifest as the text that `parse` reads."""
    return json.dumps({"format": FORMAT, **as_document(manifest)}, indent=1, allow_nan=False) + "\n"
