"""The twin of the learner: one team's network, mixer and update in plain torch, with nn.GRU and padded batches."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F


def linear(weights: dict, name: str) -> nn.Linear:
    """Return a torch layer with the weights of a stack member, which are (in, out) there."""
    weight, bias = weights[f"{name}.weight"], weights[f"{name}.bias"]
    layer = nn.Linear(*weight.shape)
    layer.weight.data, layer.bias.data = weight.t().clone(), bias.clone()
    return layer


class PlainNet(nn.Module):
    def __init__(self, weights: dict) -> None:
        super().__init__()
        self.encoder1, self.encoder2 = linear(weights, "backbone.encoder1"), linear(weights, "backbone.encoder2")
        self.head1, self.head2 = linear(weights, "heads.head1"), linear(weights, "heads.head2")
        self.gru = nn.GRU(64, 64, batch_first=True)
        self.gru.weight_ih_l0.data = weights["backbone.gru_input.weight"].t().clone()
        self.gru.weight_hh_l0.data = weights["backbone.gru_hidden.weight"].t().clone()
        self.gru.bias_ih_l0.data = weights["backbone.gru_input.bias"].clone()
        self.gru.bias_hh_l0.data = weights["backbone.gru_hidden.bias"].clone()

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """(E,T,N,in) -> (E,T,N,A), every agent's whole sequence from zero memory."""
        episodes, steps, agents, _ = inputs.shape
        rows = inputs.transpose(1, 2).reshape(episodes * agents, steps, -1)
        hidden, _ = self.gru(F.relu(self.encoder2(F.relu(self.encoder1(rows)))))
        q = self.head2(F.relu(self.head1(hidden)))
        return q.view(episodes, agents, steps, -1).transpose(1, 2)

    def stack_weights(self) -> dict:
        """Return the weights in the form of the stack."""
        found = {
            "backbone.gru_input.weight": self.gru.weight_ih_l0.t(),
            "backbone.gru_hidden.weight": self.gru.weight_hh_l0.t(),
            "backbone.gru_input.bias": self.gru.bias_ih_l0,
            "backbone.gru_hidden.bias": self.gru.bias_hh_l0,
        }
        for room, name in (("backbone", "encoder1"), ("backbone", "encoder2"), ("heads", "head1"), ("heads", "head2")):
            layer = getattr(self, name)
            found |= {f"{room}.{name}.weight": layer.weight.t(), f"{room}.{name}.bias": layer.bias}
        return {name: value.detach() for name, value in found.items()}


class PlainSum(nn.Module):
    def forward(self, q: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
        return q.sum(-1)

    def stack_weights(self) -> dict:
        return {}


class PlainQmix(nn.Module):
    NAMES = ("weight1_hidden", "weight1", "bias1", "weight2_hidden", "weight2", "bias2_hidden", "bias2")

    def __init__(self, weights: dict) -> None:
        super().__init__()
        for name in self.NAMES:
            setattr(self, name, linear(weights, name))

    def forward(self, q: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
        """(E,T,N) (E,T,S) -> (E,T)."""
        total = torch.zeros(q.shape[:2])
        for e in range(q.shape[0]):
            for t in range(q.shape[1]):
                s = state[e, t]
                first = self.weight1(F.relu(self.weight1_hidden(s))).abs().view(q.shape[2], -1)
                hidden = F.elu(q[e, t] @ first + self.bias1(s))
                second = self.weight2(F.relu(self.weight2_hidden(s))).abs()
                total[e, t] = hidden @ second + self.bias2(F.relu(self.bias2_hidden(s)))[0]
        return total

    def stack_weights(self) -> dict:
        found = {}
        for name in self.NAMES:
            layer = getattr(self, name)
            found |= {f"{name}.weight": layer.weight.t().detach(), f"{name}.bias": layer.bias.detach()}
        return found


def plain_update(
    net, mixer, target_net, target_mixer, episodes: dict, gamma: float, limit: float, rate: float
) -> float:
    """One update on padded episodes: obs (E,T,N,D), last_action, action (E,T,N), reward, real (E,T), …; gives the loss.

    `episodes["continues"]` is 1 where the next step's value counts.
    """
    obs, actions, agents = episodes["obs"], episodes["mask"].shape[-1], episodes["obs"].shape[2]
    last = F.one_hot(episodes["last_action"].clamp(min=0), actions) * (episodes["last_action"] >= 0).unsqueeze(-1)
    index = torch.eye(agents).expand(*obs.shape[:2], agents, agents)
    inputs = torch.cat([obs, last.float(), index], dim=-1)
    q = net(inputs)
    chosen = q.gather(-1, episodes["action"].unsqueeze(-1)).squeeze(-1)
    with torch.no_grad():
        target_q = target_net(inputs)
        best = q.masked_fill(~episodes["mask"], -1e9).argmax(-1, keepdim=True)
        value = target_mixer(target_q.gather(-1, best).squeeze(-1), episodes["state"])
        following = torch.cat([value[:, 1:], torch.zeros(len(value), 1)], dim=1)
        target = episodes["reward"] + gamma * episodes["continues"] * following
    error = (mixer(chosen, episodes["state"]) - target) * episodes["real"]
    loss = (error**2).sum() / episodes["real"].sum()
    parameters = [*net.parameters(), *mixer.parameters()]
    optimiser = torch.optim.Adam(parameters, lr=rate)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(parameters, limit)
    optimiser.step()
    return loss.item()
