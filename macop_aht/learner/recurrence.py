"""A stack of GRUs over sequences of different lengths, in packed form.

Packed form has no padding. Sequences are sorted by length, the longest first. Step t has `counts[t]` rows, one for each sequence
that is still running. The rows of all steps are concatenated: M = sum(counts). Row r of step t + 1 continues row r of step t.

The gradient is written by hand, so that the gradient of the weights is one product over all steps. On the CPU, compiled kernels
run the steps. Elsewhere, their twins in plain torch do.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from macop_aht.learner import kernels
from macop_aht.learner.threads import begin, thread_count


def packing(length: np.ndarray) -> tuple[tuple[np.ndarray, np.ndarray], tuple[int, ...]]:
    """Return the packed form of episodes of these lengths, (B,): the step and the episode of each row, (M,) each; the counts."""
    order = np.argsort(-length, kind="stable")
    counts = [int((length > step).sum()) for step in range(length.max())]
    step, episode = np.repeat(np.arange(len(counts)), counts), np.concatenate([order[:count] for count in counts])
    return (step, episode), tuple(counts)


def cell(gates: Tensor, recurrent: Tensor, hidden: Tensor) -> Tensor:
    """Return one step of a GRU from both parts of its gates (reset, update, new): (…,3H) (…,3H) (…,H) -> (…,H)."""
    size = hidden.shape[-1]
    reset_update = torch.sigmoid(gates[..., : 2 * size] + recurrent[..., : 2 * size])
    new = torch.tanh(torch.addcmul(gates[..., 2 * size :], reset_update[..., :size], recurrent[..., 2 * size :]))
    return torch.lerp(new, hidden, reset_update[..., size:])


def _before(hidden: Tensor, counts: Sequence[int]) -> Tensor:
    """Return the memory before each row's step: the hidden state of its previous step, zeros at first."""
    before, at = torch.empty_like(hidden), counts[0]
    before[:, :at] = 0.0
    for last, count in pairwise(counts):
        before[:, at : at + count] = hidden[:, at - last : at - last + count]
        at += count
    return before


def _forward(
    gates: Tensor,
    weight: Tensor,
    bias: Tensor,
    counts: Sequence[int],
    hidden: Tensor,
    squashed: Tensor,
    product: Tensor,
) -> None:
    """Do in torch what `kernels.forward` does."""
    size, start = weight.shape[1], 0
    last = gates.new_zeros(gates.shape[0], counts[0], size)
    for count in counts:
        here, last = slice(start, start + count), last[:, :count]
        recurrent = torch.baddbmm(bias.unsqueeze(1), last, weight)
        reset_update = torch.sigmoid(gates[:, here, : 2 * size] + recurrent[..., : 2 * size])
        reset, update = reset_update.split(size, dim=-1)
        new = torch.tanh(torch.addcmul(gates[:, here, 2 * size :], reset, recurrent[..., 2 * size :]))
        last = hidden[:, here] = torch.lerp(new, last, update)
        if squashed.shape[1]:
            squashed[:, here, : 2 * size], squashed[:, here, 2 * size :] = reset_update, new
            product[:, here] = recurrent[..., 2 * size :]
        start += count


def _backward(
    grad_hidden: Tensor, weight: Tensor, squashed: Tensor, product: Tensor, before: Tensor, counts: Sequence[int],
    grad_gates: Tensor, grad_recurrent: Tensor,
) -> None:  # fmt: skip
    """Do in torch what `kernels.backward` does."""
    population, start, size = before.shape
    carried = before.new_zeros(population, 0, size)
    for count in reversed(counts):
        start -= count
        here = slice(start, start + count)
        reset, update, new = squashed[:, here].split(size, dim=-1)
        grad = grad_hidden[:, here].clone()
        grad[:, : carried.shape[1]] += carried
        for_new = grad * (1 - update) * (1 - new * new)
        grad_gates[:, here, :size] = for_new * product[:, here] * reset * (1 - reset)
        grad_gates[:, here, size : 2 * size] = grad * (before[:, here] - new) * update * (1 - update)
        grad_gates[:, here, 2 * size :] = for_new
        grad_recurrent[:, here] = grad_gates[:, here]
        grad_recurrent[:, here, 2 * size :] *= reset
        carried = torch.baddbmm(grad * update, grad_recurrent[:, here], weight.transpose(1, 2))


def _compiled(tensor: Tensor) -> bool:
    """Return whether the kernels can be used: float32 on the CPU, with a width in whole blocks."""
    return tensor.device.type == "cpu" and tensor.dtype == torch.float32 and tensor.shape[-1] % kernels.BLOCK == 0


def _through(kernel: Any, tensors: Sequence[Tensor], counts: Sequence[int], outputs: Sequence[Tensor]) -> None:
    """Call a kernel, with its tasks shared among the threads."""
    arrays = [tensor.detach().contiguous().numpy() for tensor in tensors]
    arguments = (*arrays, np.array(counts), *[output.numpy() for output in outputs])
    tasks = kernels.CHUNKS * len(arrays[0])
    shares = list(pairwise(np.linspace(0, tasks, min(thread_count(), tasks) + 1, dtype=np.int64)))
    ends = [begin(kernel, *share, *arguments) for share in shares[1:]]
    kernel(*shares[0], *arguments)
    for end in ends:
        end()


def _hidden(
    gates: Tensor, weight: Tensor, bias: Tensor, counts: Sequence[int], squashed: Tensor, product: Tensor
) -> Tensor:
    """Return the hidden states (P,M,H). `squashed` and `product` are filled, unless they are empty."""
    hidden = gates.new_empty(*gates.shape[:2], weight.shape[1])
    if _compiled(weight):
        _through(kernels.forward, (gates, weight, bias), counts, (hidden, squashed, product))
    else:
        _forward(gates, weight, bias, counts, hidden, squashed, product)
    return hidden


class PackedGru(torch.autograd.Function):
    """The recurrence of the GRU with its gradient."""

    @staticmethod
    def forward(ctx: Any, gates: Tensor, weight: Tensor, bias: Tensor, counts: tuple[int, ...]) -> Tensor:
        squashed = torch.empty_like(gates)  # reset, update and new gate, after their functions
        product = gates.new_empty(
            *gates.shape[:2], weight.shape[1]
        )  # the recurrent part of the new gate, before the reset
        hidden = _hidden(gates, weight, bias, counts, squashed, product)
        ctx.save_for_backward(weight, hidden, squashed, product)
        ctx.counts = counts
        return hidden

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        weight, hidden, squashed, product = ctx.saved_tensors
        before = _before(hidden, ctx.counts)
        grad_gates, grad_recurrent = torch.empty_like(squashed), torch.empty_like(squashed)
        known = (gradients[0], weight, squashed, product, before)
        if _compiled(hidden):
            _through(kernels.backward, known, ctx.counts, (grad_gates, grad_recurrent))
        else:
            _backward(*known, ctx.counts, grad_gates, grad_recurrent)
        return grad_gates, torch.bmm(before.transpose(1, 2), grad_recurrent), grad_recurrent.sum(dim=1), None


def packed_gru(gates: Tensor, weight: Tensor, bias: Tensor, counts: Sequence[int]) -> Tensor:
    """Return the hidden states of all rows, from zero memory: (P,M,3H) (P,H,3H) (P,3H) -> (P,M,H)."""
    if torch.is_grad_enabled():
        return PackedGru.apply(gates, weight, bias, tuple(counts))
    nothing = gates.new_empty(gates.shape[0], 0, 0)
    return _hidden(gates, weight, bias, counts, nothing, nothing)
