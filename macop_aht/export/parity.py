"""Checks that onnxruntime computes what torch computes, before a bundle is written; recorded inputs and golden outputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from macop_aht.deploy.manifest import (
    ZERO_SHOT,
    AgentGolden,
    AgentInputs,
    AgentOutputs,
    ZeroShotGolden,
    ZeroShotInputs,
    ZeroShotOutputs,
)
from macop_aht.episodes.runner import Lockstep, run
from macop_aht.scenarios.spec import World

if TYPE_CHECKING:
    from macop_aht.export.recogniser import Recogniser
    from macop_aht.learner.networks import Ego

PARITY = 1e-5  # the largest allowed difference of a Q value from torch's
DECISIONS = 10_000  # recorded observations on which no action may differ,
TIE = 1e-6  # unless the values of the two actions differ by less than this, which is rounding
GOLDEN_ROWS = 8
RECORDED = 64  # environments in lockstep


class _RandomTeam:
    """Random available actions in all seats; records what everybody sees."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng, self.rows = rng, 0
        self.seen: list[np.ndarray] = []

    def begin(self, play: Lockstep, rows: np.ndarray) -> None:
        """Nothing is remembered."""

    def act(self, play: Lockstep) -> None:
        """Record the observations and draw all actions."""
        obs, mask = play.batch.obs, play.batch.mask
        self.seen.append(obs.reshape(-1, obs.shape[-1]).copy())
        self.rows += len(self.seen[-1])
        play.action[:] = (self._rng.random(mask.shape) * mask).argmax(axis=2)

    def end(self, play: Lockstep, over: np.ndarray) -> None:
        """Nothing is learnt."""


def recorded_feed(world: World, hidden: int, rows: int, seed: int = 0) -> dict[str, np.ndarray]:
    """Return inputs of `agent.onnx`: observations from episodes of random actions, with random memories."""
    rng = np.random.default_rng(seed)
    team, play = _RandomTeam(rng), Lockstep(world, range(seed, seed + RECORDED))
    most = -(-rows // (RECORDED * world.n_agents))  # steps, and so episodes of an environment at most
    run(play, [team], max(most, 2), until=lambda: team.rows >= rows)
    return {
        "obs": np.concatenate(team.seen)[:rows],
        "last_action": rng.integers(-1, len(world.actions), rows),
        "agent": rng.integers(0, world.n_agents, rows),
        "memory": rng.uniform(-1, 1, (rows, hidden)).astype(np.float32),
    }


def belief_feed(world: World, size: int, teams: int, seed: int = 0) -> dict[str, np.ndarray]:
    """Return inputs of the zero-shot selector, with random beliefs of that size."""
    own = world.controllable
    feed = recorded_feed(world, size, teams * own, seed)
    return {
        "obs": feed["obs"].reshape(teams, own, -1),
        "last_action": feed["last_action"].reshape(teams, own),
        "agent": np.tile(np.arange(own), (teams, 1)),
        "belief": feed["memory"][:teams],
    }


def agent_golden(content: bytes, world: World, hidden: int) -> AgentGolden:
    """Return inputs and outputs of an `agent.onnx` that every runtime should reproduce."""
    feed = recorded_feed(world, hidden, GOLDEN_ROWS)
    return AgentGolden(AgentInputs(**feed), AgentOutputs(**_run(content, feed)))


def zero_shot_golden(content: bytes, world: World, size: int) -> ZeroShotGolden:
    """Return the same of a zero-shot selector with beliefs of that size."""
    feed = belief_feed(world, size, GOLDEN_ROWS)
    return ZeroShotGolden(ZeroShotInputs(**feed), ZeroShotOutputs(**_run(content, feed)))


def _run(content: bytes, feed: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    import onnxruntime

    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    names = [tensor.name for tensor in session.get_outputs()]
    return dict(zip(names, session.run(names, dict(feed)), strict=True))


def check_parity(ego: Ego, content: bytes, world: World, generalist: bool = False) -> None:
    """Raise `ValueError` where a Q value differs from torch's by more than PARITY, or an action on DECISIONS observations.

    Two actions whose values differ by less than TIE may change places. What a generalist head, the last one, gives is no return
    and may be large: both limits are in proportion to it there.
    """
    import torch

    from macop_aht.learner.networks import encode

    feed = recorded_feed(world, ego.shape.hidden, DECISIONS, seed=1)
    q, next_memory = _run(content, feed).values()
    given = {name: torch.from_numpy(array) for name, array in feed.items()}
    inputs = encode(ego.shape, given["obs"], given["last_action"], given["agent"])
    ours, memory = ego.step(inputs.unsqueeze(0), given["memory"].unsqueeze(0))
    expected = ours.transpose(0, 1).numpy()  # (N,K,A)
    size = np.ones(expected.shape[:2], dtype=np.float32)  # (N,K)
    if generalist:
        size[:, -1] = np.maximum(np.abs(expected[:, -1]).max(axis=-1), 1.0)
    off = (np.abs(q - expected) / size[..., None]).max()
    worst = max(float(off), float(np.abs(next_memory - memory[0].numpy()).max()))
    chosen = np.take_along_axis(expected, q.argmax(axis=-1)[..., None], axis=-1)[..., 0]
    differ = int((expected.max(axis=-1) - chosen > TIE * size).sum())
    if worst > PARITY or differ:
        raise ValueError(
            f"the exported graph differs from torch by {worst:.1e} (allowed {PARITY:.0e}), and in {differ} of {q[..., 0].size} "
            "actions; nothing was written"
        )


def check_recogniser(trained: Recogniser, content: bytes, world: World) -> None:
    """Raise `ValueError` where a belief differs from torch's by more than PARITY, or the head is not one of the highest value."""
    import torch

    feed = belief_feed(world, trained.belief(world.controllable).size, DECISIONS // world.controllable, seed=2)
    found = _run(content, feed)
    values, *expected = trained.step(**{name: torch.from_numpy(array) for name, array in feed.items()})
    alike = found["head"] == values.argmax(dim=1).numpy()  # of two that are as good, either may be active from then on
    for name, array in zip(("probability", "next_belief"), expected, strict=True):
        if not np.allclose(found[name][alike], array.numpy()[alike], rtol=PARITY, atol=PARITY):
            worst = float(np.abs(found[name] - array.numpy())[alike].max())
            raise ValueError(f"{name} of {ZERO_SHOT} differs from torch by {worst:.1e}; nothing was written")
    chosen = values.gather(1, torch.from_numpy(found["head"]).unsqueeze(1))[:, 0]
    short = float((values.amax(dim=1) - chosen).max() / trained.scale)
    if short > PARITY:
        raise ValueError(
            f"heads of {ZERO_SHOT} have less than torch's highest value, by {short:.1e}; nothing was written"
        )
