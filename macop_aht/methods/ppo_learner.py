"""What Stable-Baselines3 needs to train an ego of ours: environments on the kernels, and a policy around the ego's network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.vec_env import VecEnv
from torch import Tensor, nn

from macop_aht.envs.game import spaces_of
from macop_aht.learner.networks import HIDDEN, Ego
from macop_aht.learner.training import Progress
from macop_aht.methods import ppo
from macop_aht.methods.phases import Setup
from macop_aht.policies.population import Population
from macop_aht.policies.protocol import Policy
from macop_aht.scenarios.batch import Batch
from macop_aht.scenarios.spec import World

if TYPE_CHECKING:
    from macop_aht.methods.ppo import PpoConfig


class Environments(VecEnv):
    """B environments in lockstep, a teammate drawn for every episode; a new one begins where one has ended."""

    def __init__(self, world: World, teammates: Sequence[Policy], size: int, seed: int) -> None:
        super().__init__(size, *spaces_of(world))
        self.world, self._all = world, np.ones(size, dtype=np.bool_)
        self.batch = Batch(world, size)
        self._population = Population(list(teammates), self.batch, episodes_per_teammate=1)
        seeds = list(range(seed, seed + size))
        self.batch.seed(seeds)
        self._population.seed(seeds, self._all)
        self._action = np.zeros((size, world.n_agents), dtype=np.int64)

    def _look(self) -> np.ndarray:
        return self.batch.obs[:, : self.world.controllable].reshape(self.num_envs, -1).copy()

    def _begin(self, rows: np.ndarray) -> None:
        self.batch.reset(rows)
        self._population.begin(rows)

    def reset(self) -> np.ndarray:
        self._begin(self._all)
        return self._look()

    def step_async(self, actions: np.ndarray) -> None:
        self._action[:, : self.world.controllable] = actions.reshape(self.num_envs, -1)

    def step_wait(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        batch = self.batch
        self._population.act(self._action)
        batch.step(self._action)
        last, rewards, over = self._look(), batch.reward.astype(np.float32), batch.terminated | batch.truncated
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for b in np.flatnonzero(over).tolist():
            episode = {"r": float(batch.score[b]), "l": int(batch.clock[b])}
            cut = bool(batch.truncated[b] and not batch.terminated[b])
            infos[b] = {"terminal_observation": last[b], "TimeLimit.truncated": cut, "episode": episode}
        if over.any():
            self._begin(over)
        return self._look(), rewards, over, infos

    def close(self) -> None: ...

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        return [getattr(self, attr_name, None)] * len(list(self._get_indices(indices)))

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        raise NotImplementedError("the environments are one: there is nothing to set in a single one")

    def env_method(self, method_name: str, *arguments: Any, indices: Any = None, **options: Any) -> list[Any]:
        raise NotImplementedError("the environments are one: there is nothing to call in a single one")

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        return [False] * len(list(self._get_indices(indices)))


class Extractor(nn.Module):
    """The ego's network, which gives the logits of all its agents at once, and a critic of its own."""

    def __init__(self, ego: Ego, controllable: int) -> None:
        super().__init__()
        self.ego, self._own = ego, controllable
        self.latent_dim_pi, self.latent_dim_vf = controllable * ego.shape.actions, HIDDEN
        wide = controllable * ego.shape.obs
        self.critic = nn.Sequential(nn.Linear(wide, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, HIDDEN), nn.Tanh())

    def forward(self, flat: Tensor) -> tuple[Tensor, Tensor]:
        return self.forward_actor(flat), self.forward_critic(flat)

    def forward_actor(self, flat: Tensor) -> Tensor:
        return ppo.logits(self.ego, flat.unflatten(1, (self._own, -1))).flatten(1)

    def forward_critic(self, flat: Tensor) -> Tensor:
        return self.critic(flat)


class EgoPolicy(ActorCriticPolicy):
    """A policy whose actor is an ego's network as it is."""

    def __init__(self, *arguments: Any, ego: Ego, controllable: int, **options: Any) -> None:
        self._parts = (ego, controllable)
        super().__init__(*arguments, **options)

    def _build_mlp_extractor(self) -> None:
        self.mlp_extractor: Any = Extractor(*self._parts)

    def _build(self, lr_schedule: Any) -> None:
        super()._build(lr_schedule)
        self.action_net = nn.Identity()  # the extractor gives the logits already
        optimiser: Any = self.optimizer_class
        self.optimizer = optimiser(self.parameters(), lr=lr_schedule(1), **self.optimizer_kwargs)


class Watcher(BaseCallback):
    """Tells whoever watches a run how far it is."""

    def __init__(self, setup: Setup[PpoConfig]) -> None:
        super().__init__()
        self._setup, self._progress = setup, Progress()

    def _on_step(self) -> bool:
        return True

    def _on_rollout_end(self) -> None:
        known, steps = self.model.ep_info_buffer or (), self._setup.config.steps
        self._progress.steps, self._progress.updates = min(self.num_timesteps, steps), self.model._n_updates
        self._progress.mean_return = float(np.mean([episode["r"] for episode in known])) if known else 0.0
        if self._setup.watch:
            self._setup.watch("ego", self._progress, steps)


def learn(setup: Setup[PpoConfig], ego: Ego, teammates: Sequence[Policy], seed: int) -> None:
    """Train the ego's network, in place."""
    config, world = setup.config.optimisation, setup.world
    with torch.random.fork_rng(devices=[]):  # Stable-Baselines3 seeds the generators of all
        model = PPO(
            EgoPolicy,
            Environments(world, teammates, config.envs, seed),
            learning_rate=config.learning_rate,
            n_steps=config.rollout,
            batch_size=config.batch,
            n_epochs=config.epochs,
            gamma=config.discount,
            ent_coef=config.entropy,
            policy_kwargs={"ego": ego, "controllable": world.controllable, "ortho_init": False},
            seed=seed % 2**32,
            device=setup.device,
        )
        model.set_logger(
            Logger(folder=None, output_formats=[])
        )  # else it leaves a folder in the system's temporary one
        model.learn(setup.config.steps, callback=Watcher(setup))
