"""How long a decision takes: an exported agent against the torch module that it comes from.

    python benchmarks/latency.py [--scenarios LBF4 CN3 SMAC2] [--heads 8] [--groups 16] [--rounds 2000] [--out FILE]

The networks are untrained, since the weights do not matter to the clock; they have so many heads and a generalist head.
Torch does no more than the networks need: encode, one step, the best available action of a head, and for zero-shot, which
alone plays the generalist head, a step of the recogniser before it; no checks. `EgoAgent` does all that an app gets: its
checks, its memory, its selector. They take turns in one process with one thread, by 25 calls in a row, and by single calls,
where each finds the caches as the others have left them. The figures are medians.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch

from macop_aht.deploy.runtime import EgoAgent
from macop_aht.export.bundle import RunInfo, ZeroShotSelector, write_bundle
from macop_aht.export.recogniser import Recogniser, RecogniserConfig
from macop_aht.learner.networks import Backbone, Ego, Shape, encode, member, set_member, weights
from macop_aht.scenarios import build
from macop_aht.scenarios.spec import World

MANY = 256  # teams in one call
TURNS = (25, 1)  # decisions of one before it is the next one's turn: with warm caches, and with cold ones


class TorchAgent:
    """The modules in torch for some teams; it remembers, and checks nothing."""

    def __init__(self, egos: Sequence[Ego], recogniser: Recogniser | None, teams: int, own: int) -> None:
        """The backbones of the egos, all of one shape, are a stack."""
        self.egos, self.recogniser = egos, recogniser
        self.backbone = Backbone(egos[0].shape, len(egos))
        for p, ego in enumerate(egos):
            set_member(self.backbone, p, member(ego.backbone, 0))
        self.shape, self.place = (teams, own), torch.arange(teams * own)
        self.agent = torch.arange(own).repeat(teams)
        self.head = torch.zeros(teams, dtype=torch.int64)
        self.belief = torch.zeros(teams, recogniser.belief(own).size if recogniser else 0)
        self.memory = torch.zeros(len(egos), teams * own, egos[0].shape.hidden)
        self.last = torch.full((teams * own,), -1)

    @torch.no_grad()
    def act(self, obs: np.ndarray, mask: np.ndarray) -> np.ndarray:
        """(teams,m,D) (teams,m,A) -> (teams*m,)."""
        seen = torch.from_numpy(obs)
        if self.recogniser:
            last, agent = self.last.view(self.shape), self.agent.view(self.shape)
            value, _, self.belief = self.recogniser.step(seen, last, agent, self.belief)
            self.head = value.argmax(dim=-1)
        inputs = encode(self.egos[0].shape, seen.flatten(0, 1), self.last, self.agent)
        self.memory = self.backbone.step(inputs.expand(len(self.egos), -1, -1), self.memory)
        q = torch.cat(
            [ego.heads(own.expand(ego.n_heads, -1, -1)) for ego, own in zip(self.egos, self.memory, strict=True)]
        )
        own = q[self.head.repeat_interleave(self.shape[1]), self.place]
        self.last = own.masked_fill(torch.from_numpy(mask).flatten(0, 1) == 0, -torch.inf).argmax(dim=-1)
        return self.last.numpy()


def decisions(
    world: World, egos: Sequence[Ego], recogniser: Recogniser, folder: Path, teams: int
) -> list[Callable[[], object]]:
    """Torch and the bundle, both with a head that is given, then both with zero-shot, all on the same input."""
    rng, own = np.random.default_rng(0), world.controllable
    obs = rng.random((teams, own, len(world.observations)), dtype=np.float32)
    mask = np.ones((teams, own, len(world.actions)), dtype=np.int8)
    agents: list[Any] = [
        TorchAgent(egos[:1], None, teams, own),
        EgoAgent.load(folder, selector="meta-test", teams=teams),
        TorchAgent(egos, recogniser, teams, own),
        EgoAgent.load(folder, selector="zero-shot", teams=teams),
    ]
    return [partial(agent.act, obs, mask) for agent in agents]


def microseconds(contestants: list[Callable[[], object]], rounds: int, turn: int) -> list[float]:
    """The median of each; they take turns."""
    times: list[list[float]] = [[] for _ in contestants]
    for _ in range(max(rounds // turn, 2)):
        for own, decide in zip(times, contestants, strict=True):
            if turn > 1:
                decide()  # warm after the others' turns
            for _ in range(turn):
                start = time.perf_counter()
                decide()
                own.append(1e6 * (time.perf_counter() - start))
    return [statistics.median(own) for own in times]


def measure(scenario: str, heads: int, groups: int, rounds: int) -> list[str]:
    """The lines of the table for one team, and for many."""
    world = build(scenario)
    generator = torch.Generator().manual_seed(0)
    shape = Shape.of(world)
    run, generalist = egos = Ego(shape, heads, generator), Ego(shape, 1, generator)
    returns = np.random.default_rng(0).random((heads + 1, groups))
    recogniser = Recogniser(shape, returns, RecogniserConfig(), world.limit, generator)
    selector = ZeroShotSelector([str(k) for k in range(groups)], weights(recogniser))
    lines = []
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "bundle"
        about = RunInfo(scenario, "none", 0)
        write_bundle(folder, weights(run), world, about, None, selector, weights(generalist))
        for teams, turn in product((1, MANY), TURNS):
            contestants = decisions(world, egos, recogniser, folder, teams)
            plain, ours, plain_told, told = microseconds(contestants, max(rounds // (1 + teams // 16), 50), turn)
            lines.append(
                f"| {scenario} | {teams} | {turn} | {plain:.0f} | {ours:.0f} | {plain / ours:.1f} "
                f"| {plain_told:.0f} | {told:.0f} | {plain_told / told:.1f} |"
            )
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenarios", nargs="+", default=["LBF4", "CN3", "SMAC2"])
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--groups", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=2_000)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "latency.md")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    lines = [
        "# Latency of a decision, microseconds",
        "",
        f"`python benchmarks/latency.py --scenarios {' '.join(arguments.scenarios)} --heads {arguments.heads} "
        f"--groups {arguments.groups} --rounds {arguments.rounds}`: medians, one thread, load of "
        f"the machine {os.getloadavg()[0]:.1f}. With zero-shot, both "
        "ask the recogniser too.",
        "",
        "| scenario | teams in a call | calls in a row | torch | EgoAgent | times faster "
        "| torch, zero-shot | EgoAgent | times faster |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for scenario in arguments.scenarios:
        lines += measure(scenario, arguments.heads, arguments.groups, arguments.rounds)
        print("\n".join(lines[-2 * len(TURNS) :]), flush=True)
    arguments.out.write_text("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
