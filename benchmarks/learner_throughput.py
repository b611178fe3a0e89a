"""How fast does the engine learn?

    python benchmarks/learner_throughput.py [--share 0.2] [--out benchmarks/results/learner_throughput.md]

(a) It compares one stacked update of four teams, with a diversity term, with the same update in plain torch: network by
network, with nn.GRU on padded batches. Both have one thread. (b) It measures training from the first step to the last, in
environment steps per second, with the public code's one episode per update and with the default, and the memory in use.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from selfplay import TASKS
from torch import Tensor, nn
from torch.nn import functional

from macop_aht.learner.device import default_threads
from macop_aht.learner.mixers import Vdn
from macop_aht.learner.networks import Shape, Stack
from macop_aht.learner.replay import Replay
from macop_aht.learner.selfplay import SelfPlayConfig, self_play_training
from macop_aht.learner.threads import use_threads
from macop_aht.learner.update import Learner, UpdateConfig
from macop_aht.methods import presets, terms
from macop_aht.scenarios import build

CPU = torch.device("cpu")
TEAMS, EPISODES = 4, 32


def filled(mean_length: int) -> Replay:
    """Return a replay of LBF4 episodes with random content, and with lengths around a mean."""
    world, rng = build("LBF4"), np.random.default_rng(0)
    replay = Replay(world, TEAMS, 200, state=0)
    for array in (replay.obs, replay.reward):
        array[:] = rng.normal(size=array.shape)
    replay.mask[:] = True
    replay.action[:] = rng.integers(0, 5, replay.action.shape)
    lengths = rng.integers(max(2 * mean_length - 25, 1), min(2 * mean_length - 1, 25) + 1, replay.length.shape)
    replay.length[:] = lengths
    return replay


class PlainTeam(nn.Module):
    """One team's network in plain torch."""

    def __init__(self, inputs: int, actions: int) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(inputs, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU())
        self.gru = nn.GRU(64, 64, batch_first=True)
        self.head = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, actions))

    def forward(self, rows: Tensor) -> Tensor:
        return self.head(self.gru(self.encoder(rows))[0])


def plain_update(replay: Replay) -> Callable[[], None]:
    """Update four teams one after the other: batches padded to the longest episode, gradients everywhere."""
    shape, rng = Shape.of(build("LBF4")), np.random.default_rng(1)
    teams = [PlainTeam(shape.input, shape.actions) for _ in range(TEAMS)]
    targets = [PlainTeam(shape.input, shape.actions) for _ in range(TEAMS)]
    optimisers = [torch.optim.Adam(team.parameters(), lr=5e-4) for team in teams]

    def padded(p: int) -> tuple[Tensor, ...]:
        slots = rng.choice(replay.length.shape[1], EPISODES, replace=False)
        length = replay.length[p, slots]
        steps = int(length.max())
        obs = torch.from_numpy(replay.obs[p, slots, :steps])
        action = torch.from_numpy(replay.action[p, slots, :steps])
        last = functional.one_hot(torch.roll(action, 1, dims=1), shape.actions).float()
        index = torch.eye(2).expand(EPISODES, steps, 2, 2)
        rows = torch.cat([obs, last, index], dim=-1).transpose(1, 2).reshape(EPISODES * 2, steps, -1)
        real = torch.from_numpy((np.arange(steps)[None] < length[:, None]).astype(np.float32))
        return rows, action, torch.from_numpy(replay.reward[p, slots, :steps]), real

    def update() -> None:
        batches = [padded(p) for p in range(TEAMS)]
        for p, (team, target, optimiser) in enumerate(zip(teams, targets, optimisers, strict=True)):
            rows, action, reward, real = batches[p]
            shaped = (EPISODES, 2, rows.shape[1], shape.actions)
            q, next_q = team(rows).view(shaped).transpose(1, 2), target(rows).view(shaped).transpose(1, 2)
            chosen = q.gather(-1, action.unsqueeze(-1)).squeeze(-1).sum(-1)
            best = next_q.gather(-1, q.argmax(-1, keepdim=True)).squeeze(-1).sum(-1)
            goal = (reward + 0.99 * torch.roll(best, -1, dims=1)).detach()
            loss = ((chosen - goal) ** 2 * real).sum() / real.sum()
            for other, *_ in batches:
                policies = torch.stack([torch.softmax(each(other), dim=-1) for each in teams])
                mixture = policies.mean(dim=0)
                loss = loss - (policies[p] * (policies[p] / mixture).log()).sum(-1).mean()
            optimiser.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(team.parameters(), 10.0)
            optimiser.step()

    return update


def stacked_update(replay: Replay, every: int) -> Callable[[], None]:
    """Update our stack; the diversity term takes every so-many-th episode of the batch, none with 0."""
    world, rng = build("LBF4"), np.random.default_rng(1)
    learner = Learner(Stack(Shape.of(world), TEAMS), Vdn(), UpdateConfig())
    losses = {"diversity": (0.1, terms.diversity(every))} if every else None

    def update() -> None:
        learner.update(replay.sample(EPISODES, rng, CPU), losses)

    return update


def compare(rounds: int, say: Callable[[str], None]) -> None:
    say("\n## (a) One update of four teams, milliseconds; diversity on all 32 episodes or on 8\n")
    say(
        "| mean length | plain, one thread, all 32 | stacked, all 32 | times faster | stacked, 8 | times faster | TD alone |"
    )
    say("|---|---|---|---|---|---|---|")
    for mean_length in (5, 10, 20):
        replay = filled(mean_length)
        ours = [stacked_update(replay, every) for every in (1, 4, 0)]
        contestants = [plain_update(replay), *ours]
        times: list[list[float]] = [[] for _ in contestants]
        for round_ in range(rounds + 2):
            for own, update in zip(times, contestants, strict=True):
                start = time.perf_counter()
                update()
                if round_ >= 2:
                    own.append(1e3 * (time.perf_counter() - start))
        plain, whole, part, bare = (statistics.median(own) for own in times)
        ratios = f"{whole:.0f} | {plain / whole:.1f} | {part:.0f} | {plain / part:.1f}"
        say(f"| {mean_length} | {plain:.0f} | {ratios} | {bare:.0f} |")


def resident() -> float:
    """Return the memory in use now, in GiB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**30


def end_to_end(share: float, say: Callable[[str], None]) -> None:
    say(
        f"\n## (b) Training, environment steps per second; LBF4 for the paper's steps, the others for {share:g} of them\n"
    )
    say(
        "| scenario | teams | ratio | steps | steps/s | updates per team | return while exploring, at the end | memory, GiB |"
    )
    say("|---|---|---|---|---|---|---|---|")
    for scenario, task in TASKS.items():
        if scenario not in ("LBF4", "PP1", "CN3", "SMAC1"):
            continue
        usual = presets.training(scenario)
        for ratio in sorted({1.0, usual.ratio}):
            steps = task.steps if scenario == "LBF4" else int(share * task.steps)
            config = SelfPlayConfig(task.teams, steps, replace(usual, ratio=ratio))
            training = self_play_training(build(scenario), config, 0, CPU)
            memory: list[float] = []
            while not training.done:
                training.step()
                if training.progress.steps * 4 // training.steps > len(memory):
                    memory.append(resident())
            progress = training.progress
            say(
                f"| {scenario} | {task.teams} | {ratio:g} | {progress.steps:,} | {progress.steps / progress.seconds:,.0f} "
                f"| {progress.updates:,} | {progress.mean_return:.2f} | {', '.join(f'{value:.2f}' for value in memory)} |"
            )
    say("\nMemory is given after each quarter of a training; the trainings are of one process, one after the other.")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--share", type=float, default=0.2, help="of the paper's steps, in (b), but for LBF4; 0 leaves (b) out"
    )
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=default_threads())
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    use_threads(arguments.threads)
    lines: list[str] = []

    def say(line: str) -> None:
        print(line, flush=True)
        lines.append(line)

    say("# Learner throughput")
    say(f"\n`python benchmarks/learner_throughput.py --share {arguments.share:g} --threads {arguments.threads}`")
    compare(arguments.rounds, say)
    if arguments.share:
        end_to_end(arguments.share, say)
    if arguments.out:
        arguments.out.write_text("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
