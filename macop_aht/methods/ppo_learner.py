"""What Stable-Baselines3 needs to train an ego of ours: environments on the kernels, and a policy around the ego's network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from gymnasium.vector import AutoresetMode
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.vec_env import VecEnv
from torch import Tensor, nn

from macop_aht.envs.vector import MacopVectorEnv
from macop_aht.learner.networks import HIDDEN, Ego
from macop_aht.learner.training import Progress
from macop_aht.methods import ppo
from macop_aht.methods.phases import Setup
from macop_aht.policies.protocol import Policy
from macop_aht.scenarios.spec import World

if TYPE_CHECKING:
    from macop_aht.methods.ppo import PpoConfig


class Environments(VecEnv):
    """A `MacopVectorEnv` as Stable-Baselines3 wants it: a teammate drawn for every episode, a new one where one has ended."""

    def __init__(self, world: World, teammates: Sequence[Policy], size: int, seed: int) -> None:
        self._envs = MacopVectorEnv(world, size, list(teammates), autoreset_mode=AutoresetMode.SAME_STEP)
        super().__init__(size, self._envs.single_observation_space, self._envs.single_action_space)
        self._seed: int | None = seed  # of the first reset
        self._actions = np.zeros(0, dtype=np.int64)
        self._return, self._length = np.zeros(size), np.zeros(size, dtype=np.int64)

    def reset(self) -> np.ndarray:
        obs, _ = self._envs.reset(seed=self._seed)
        self._seed = None
        self._return[:], self._length[:] = 0.0, 0
        return obs

    def step_async(self, actions: np.ndarray) -> None:
        self._actions = actions

    def step_wait(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        obs, rewards, terminated, truncated, told = self._envs.step(self._actions)
        self._return += rewards
        self._length += 1
        over = terminated | truncated
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for b in np.flatnonzero(over).tolist():
            episode = {"r": float(self._return[b]), "l": int(self._length[b])}
            last, cut = told["final_obs"][b], bool(truncated[b] and not terminated[b])
            infos[b] = {"terminal_observation": last, "TimeLimit.truncated": cut, "episode": episode}
        self._return[over], self._length[over] = 0.0, 0
        return obs, rewards.astype(np.float32), over, infos

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
