"""PPO, as Stable-Baselines3 has it, against the groups of another run; in a campaign, FCP's. What users would try first.

The ego has no memory and sees no last action: its network is the usual one with the memory closed, so that a trained
ego is like any other. A group is drawn for every episode.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from macop_aht.config import ConfigError, at_least, setting, within
from macop_aht.learner.networks import Ego, encode, member_weights
from macop_aht.methods.borrowed import Groups, borrow
from macop_aht.methods.macop import MacopConfig
from macop_aht.methods.phases import EgoConfig, Learned, Result, Setup, cross_returns, fresh_ego
from macop_aht.onnx import write
from macop_aht.policies.onnx import OnnxPolicy
from macop_aht.policies.protocol import Policy
from macop_aht.runs.journal import Journal
from macop_aht.runs.records import Decision
from macop_aht.scenarios.spec import World
from macop_aht.zoo import graphs

CLOSED = -100.0  # of an update gate: nothing of the memory passes


@dataclass(frozen=True)
class OptimisationConfig:
    """What Stable-Baselines3's PPO is given."""

    envs: int = setting(16, "number of environments that step together, at least 1")
    rollout: int = setting(128, "number of steps of every environment between two rounds of updates, at least 1")
    batch: int = setting(256, "number of steps per update (minibatch), at least 2")
    epochs: int = setting(10, "number of passes over a rollout, at least 1")
    learning_rate: float = setting(1e-3, "learning rate of Adam, above 0")
    entropy: float = setting(0.02, "weight of the policy's entropy in the loss, at least 0")
    discount: float = setting(0.99, "discount factor per step (gamma), in 0..1")

    def __post_init__(self) -> None:
        at_least(self, 1, "envs", "rollout", "epochs")
        at_least(self, 2, "batch")
        at_least(self, 0, "entropy")
        within(self, 0, 1, "discount")
        if not self.learning_rate > 0:
            raise ConfigError(f"learning_rate is {self.learning_rate}; it must be above 0")


@dataclass(frozen=True)
class PpoConfig:
    """Whose groups, how long, and PPO's own."""

    groups: str = setting("", "folder of the finished run whose groups it learns with; required")
    test_episodes: int = setting(32, "number of greedy episodes per measured return, at least 1")
    steps: int = setting(1_000_000, "number of environment steps to train the ego with all groups, at least 1")
    optimisation: OptimisationConfig = field(default_factory=OptimisationConfig)

    def __post_init__(self) -> None:
        at_least(self, 1, "test_episodes", "steps")


def train(setup: Setup[PpoConfig], journal: Journal) -> Result:
    """The groups of another run; then the ego with all of them."""
    groups = journal.phase("groups", Groups, borrow, setup)
    learned = journal.phase("ego-001", Learned, _learn, setup, groups)
    return Result(learned.ego, groups.names, groups.net, groups.names)


def _learn(setup: Setup[PpoConfig], groups: Groups) -> Learned:
    try:
        from macop_aht.methods import ppo_learner
    except ImportError as error:
        raise ImportError("ppo needs Stable-Baselines3: pip install 'macop-aht[sb3]'") from error
    ego, seed = fresh_ego(setup, 1, setup.phase_seed(1)), setup.phase_seed(1, 0)
    ppo_learner.learn(setup, ego, policies(groups, setup.world), seed)
    close_memory(ego)
    returns = cross_returns(setup, ego, groups.net, setup.phase_seed(1, 1))[0].tolist()
    return Learned(ego, Decision(returns=returns, heads=1))


def policies(groups: Groups, world: World) -> list[Policy]:
    """The groups as teammates."""
    found: list[Policy] = []
    for name in groups.names:
        content = write(graphs.group_graph(member_weights(groups[name], 0), len(world.actions), world.n_agents))
        found.append(OnnxPolicy(name, world, content, name))
    return found


def logits(ego: Ego, obs: Tensor) -> Tensor:
    """The ego's network as if it had no memory, in its own agents' places: (B,m,D) -> (B,m,A)."""
    agent = torch.arange(obs.shape[1], device=obs.device).expand(obs.shape[:2])
    rows = encode(ego.shape, obs, torch.full_like(agent, -1), agent).flatten(0, 1).unsqueeze(0)
    new = torch.tanh(ego.backbone.gates(rows)[..., 2 * ego.shape.hidden :])
    return ego.heads(new)[0].unflatten(0, obs.shape[:2])


def close_memory(ego: Ego) -> None:
    """Set the weights so that the network with its memory returns what `logits` returns, whatever was before."""
    shape, backbone = ego.shape, ego.backbone
    update = slice(shape.hidden, 2 * shape.hidden)
    with torch.no_grad():
        backbone.encoder1.weight[:, shape.obs : shape.obs + shape.actions] = 0.0  # the last action
        backbone.gru_hidden.weight.zero_()
        backbone.gru_hidden.bias.zero_()
        backbone.gru_input.weight[:, :, update] = 0.0
        backbone.gru_input.bias[:, update] = CLOSED


def steps(config: PpoConfig) -> int:
    """Return the environment steps of a run."""
    return config.steps


def from_preset(preset: MacopConfig, paper: MacopConfig) -> PpoConfig:
    """Return the settings that match a preset of Macop's, with as many steps as FCP's ego has; `paper` has the paper's."""
    scaled = round(EgoConfig().steps * preset.ego_steps / paper.ego_steps)
    return PpoConfig(test_episodes=preset.test_episodes, steps=scaled)
