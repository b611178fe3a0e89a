"""Features of self-play trajectories, by the paper's trajectory encoder: which groups behave alike.

encoder   a transformer over the steps (state, joint action) that gives 10 numbers for each; their mean is the trajectory's
          feature
decoder   a GRU that is given the feature and the state at every step, and predicts the joint action

Both learn by the negative log-likelihood of the actions. The paper gives the sizes of the feature and of the training; widths,
layers and attention heads are ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from macop_aht.config import at_least, setting, within
from macop_aht.episodes.matches import self_play
from macop_aht.episodes.runner import Hook, Lockstep
from macop_aht.policies.protocol import Policy
from macop_aht.scenarios.spec import World


@dataclass(frozen=True)
class EncoderConfig:
    """The paper's numbers, and our sizes."""

    feature: int = setting(10, "size of the feature that a trajectory becomes")
    epochs: int = setting(50, "number of passes over all trajectories")
    batch: int = setting(32, "number of trajectories per update")
    learning_rate: float = setting(1e-4, "learning rate of Adam")
    width: int = setting(64, "width of the transformer and of the GRU")
    layers: int = setting(2, "number of layers of the transformer")
    attention: int = setting(4, "number of attention heads")
    held_out: float = setting(0.2, "share of the trajectories that are held out, in 0..0.9, for the second curve")

    def __post_init__(self) -> None:
        at_least(self, 1, "feature", "epochs", "batch", "width", "layers", "attention")
        within(self, 0, 0.9, "held_out")


@dataclass(frozen=True)
class Trajectories:
    """E episodes of self-play, padded to the longest."""

    state: Tensor  # (E,T,S)
    action: Tensor  # (E,T,N)
    real: Tensor  # (E,T) bool
    group: np.ndarray  # (E,)
    actions: int  # A

    def __getitem__(self, index: np.ndarray) -> Trajectories:
        at = torch.from_numpy(index)
        return Trajectories(self.state[at], self.action[at], self.real[at], self.group[index], self.actions)


class _Recorder(Hook):
    """Notes every step: the global state, what all are about to do, and which episodes are still running."""

    def __init__(self) -> None:
        self.states: list[np.ndarray] = []
        self.actions: list[np.ndarray] = []
        self.real: list[np.ndarray] = []

    def chosen(self, play: Lockstep, counted: np.ndarray) -> None:
        self.states.append(play.batch.global_state())
        self.actions.append(play.action.copy())
        self.real.append(counted)


def record(world: World, groups: Sequence[Policy], episodes: int, seed: int = 0) -> Trajectories:
    """Return greedy self-play of every group. States are scaled to mean 0 and standard deviation 1 over all steps."""
    seen = _Recorder()
    self_play(world, groups, episodes, seed, [seen])
    state, taken, there = (np.stack(part, axis=1) for part in (seen.states, seen.actions, seen.real))
    own = state[there]
    state = (state - own.mean(axis=0)) / np.maximum(own.std(axis=0), 1e-6) * there[:, :, None]
    group = np.repeat(np.arange(len(groups)), episodes)
    parts = (torch.from_numpy(state.astype(np.float32)), torch.from_numpy(taken), torch.from_numpy(there))
    return Trajectories(*parts, group, len(world.actions))


def positions(steps: int, width: int) -> Tensor:
    """Return the transformer's positional encoding, sines and cosines of every step: (T,width)."""
    frequency = torch.exp(-np.log(1e4) * torch.arange(0, width, 2) / width)
    angle = torch.arange(steps).unsqueeze(1) * frequency
    return torch.stack([angle.sin(), angle.cos()], dim=2).flatten(1)[:, :width]


class Autoencoder(nn.Module):
    """Encoder and decoder for states (S,) of N agents with A actions."""

    def __init__(self, states: int, agents: int, actions: int, config: EncoderConfig) -> None:
        super().__init__()
        width = config.width
        self.enter = nn.Linear(states + agents * actions, width)
        layer = nn.TransformerEncoderLayer(width, config.attention, 4 * width, dropout=0.0, batch_first=True)
        self.transformer = nn.TransformerEncoder(layer, config.layers, enable_nested_tensor=False)
        self.leave = nn.Linear(width, config.feature)
        self.decoder = nn.GRU(states + config.feature, width, batch_first=True)
        self.predict = nn.Linear(width, agents * actions)

    def encode(self, told: Trajectories) -> Tensor:
        """The mean of the embeddings of all steps: (E,F)."""
        acted = nn.functional.one_hot(told.action, told.actions).flatten(2).float()  # (E,T,N*A)
        steps = self.enter(torch.cat([told.state, acted], dim=2))
        steps = self.transformer(steps + positions(*steps.shape[1:]), src_key_padding_mask=~told.real)
        real = told.real.unsqueeze(2)
        return (self.leave(steps) * real).sum(dim=1) / real.sum(dim=1)

    def loss(self, told: Trajectories) -> Tensor:
        """The negative log-likelihood of an agent's action, on average over steps and agents: ()."""
        feature = self.encode(told).unsqueeze(1).expand(-1, told.state.shape[1], -1)
        hidden, _ = self.decoder(torch.cat([told.state, feature], dim=2))
        logits = self.predict(hidden).unflatten(2, (told.action.shape[2], told.actions))  # (E,T,N,A)
        return nn.functional.cross_entropy(logits[told.real].flatten(0, 1), told.action[told.real].flatten())


def train(told: Trajectories, config: EncoderConfig, seed: int = 0) -> tuple[Autoencoder, np.ndarray]:
    """Return the trained networks, and the loss on training and held-out trajectories after every epoch: (epochs,2)."""
    rng, count = np.random.default_rng(seed), len(told.group)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = Autoencoder(told.state.shape[2], told.action.shape[2], told.actions, config)
    optimiser = torch.optim.Adam(network.parameters(), lr=config.learning_rate)
    shuffled = rng.permutation(count)
    held, learnt = np.split(shuffled, [int(config.held_out * count)])
    curve = []
    for _ in range(config.epochs):
        order = rng.permutation(learnt)
        losses = [
            _update(network, optimiser, told[order[k : k + config.batch]]) for k in range(0, len(order), config.batch)
        ]
        with torch.no_grad():
            beside = float(network.loss(told[held])) if len(held) else np.nan
        curve.append((float(np.mean(losses)), beside))
    return network, np.array(curve)


def _update(network: Autoencoder, optimiser: torch.optim.Optimizer, batch: Trajectories) -> float:
    loss = network.loss(batch)
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
    return float(loss.detach())


def features(network: Autoencoder, told: Trajectories) -> np.ndarray:
    """Return the features of every trajectory: (E,F)."""
    with torch.no_grad():
        return network.encode(told).numpy()


def told_apart(points: np.ndarray, group: np.ndarray) -> float:
    """Return the share of trajectories whose nearest neighbour is of the same group; by chance, about 1 / groups."""
    distance = np.square(points[:, None] - points[None]).sum(axis=2)
    np.fill_diagonal(distance, np.inf)
    return float((group[distance.argmin(axis=1)] == group).mean())


def project(points: np.ndarray, seed: int = 0) -> np.ndarray:
    """Return the t-SNE projection to two dimensions: (E,F) -> (E,2)."""
    try:
        from sklearn.manifold import TSNE
    except ImportError as error:
        raise ImportError("t-SNE needs scikit-learn: pip install 'macop-aht[report]'") from error
    perplexity = min(30.0, (len(points) - 1) / 3)
    return TSNE(2, perplexity=perplexity, init="pca", random_state=seed).fit_transform(points)
