"""A stack of GRUs over sequences of different lengths, in packed form.

Packed means: rows are sorted by length, longest first, and only rows that are still running are kept at each step. Step t
has `counts[t]` rows, the steps lie one behind the other, M = sum(counts) rows in all, and row r of step t + 1 continues row r of
step t. Nothing is ever computed for padding.

The gradient is written out, so that the weights' gradient is one product over all steps. The elementwise part of the way back is
a compiled kernel on the CPU, and the same in plain torch, its twin, everywhere else.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from numba import njit
from torch import Tensor


def cell(gates: Tensor, recurrent: Tensor, hidden: Tensor) -> Tensor:
    """One step of a GRU from both halves of its gates (reset, update, new): (…,3H) (…,3H) (…,H) -> (…,H)."""
    size = hidden.shape[-1]
    reset_update = torch.sigmoid(gates[..., : 2 * size] + recurrent[..., : 2 * size])
    new = torch.tanh(torch.addcmul(gates[..., 2 * size :], reset_update[..., :size], recurrent[..., 2 * size :]))
    return torch.lerp(new, hidden, reset_update[..., size:])


def _run(gates: Tensor, weight: Tensor, bias: Tensor, counts: Sequence[int]) -> Tensor:
    """The hidden states alone, for when no gradient is wanted."""
    population, size = gates.shape[0], weight.shape[1]
    hidden, at = gates.new_empty(population, gates.shape[1], size), 0
    last = gates.new_zeros(population, counts[0], size)
    for count in counts:
        last = last[:, :count]
        last = cell(gates[:, at : at + count], torch.baddbmm(bias.unsqueeze(1), last, weight), last)
        hidden[:, at : at + count] = last
        at += count
    return hidden


def _before(hidden: Tensor, counts: Sequence[int]) -> Tensor:
    """The memory that each row came with: the hidden state of its previous step, zero at first."""
    before, at = torch.empty_like(hidden), counts[0]
    before[:, :at] = 0.0
    for last, count in pairwise(counts):
        before[:, at : at + count] = hidden[:, at - last : at - last + count]
        at += count
    return before


@njit(cache=True, error_model="numpy")
def _back_compiled(start, grad_hidden, carried, squashed, product, before, grad_gates, grad_recurrent, keep):
    """One step of the way back, elementwise; `carried` (P,C,H) comes from the step after, `keep` (P,R,H) goes on."""
    size = before.shape[2]
    for p in range(keep.shape[0]):
        for r in range(keep.shape[1]):
            k = start + r
            for j in range(size):
                keep[p, r, j] = grad_hidden[p, k, j]
            if r < carried.shape[1]:
                for j in range(size):
                    keep[p, r, j] += carried[p, r, j]
            for j in range(size):
                grad = keep[p, r, j]
                reset, update, new = squashed[p, k, j], squashed[p, k, size + j], squashed[p, k, 2 * size + j]
                for_new = grad * (1 - update) * (1 - new * new)
                for_reset = for_new * product[p, k, j] * reset * (1 - reset)
                for_update = grad * (before[p, k, j] - new) * update * (1 - update)
                grad_gates[p, k, j] = grad_recurrent[p, k, j] = for_reset
                grad_gates[p, k, size + j] = grad_recurrent[p, k, size + j] = for_update
                grad_gates[p, k, 2 * size + j] = for_new
                grad_recurrent[p, k, 2 * size + j] = for_new * reset
                keep[p, r, j] = grad * update


def _back_plain(
    start: int, grad_hidden: Tensor, carried: Tensor, squashed: Tensor, product: Tensor, before: Tensor,
    grad_gates: Tensor, grad_recurrent: Tensor, keep: Tensor,
) -> None:  # fmt: skip
    """The same in torch."""
    here, size = slice(start, start + keep.shape[1]), before.shape[2]
    reset, update, new = squashed[:, here].split(size, dim=-1)
    keep.copy_(grad_hidden[:, here])
    keep[:, : carried.shape[1]] += carried
    for_new = keep * (1 - update) * (1 - new * new)
    grad_gates[:, here, :size] = for_new * product[:, here] * reset * (1 - reset)
    grad_gates[:, here, size : 2 * size] = keep * (before[:, here] - new) * update * (1 - update)
    grad_gates[:, here, 2 * size :] = for_new
    grad_recurrent[:, here] = grad_gates[:, here]
    grad_recurrent[:, here, 2 * size :] *= reset
    keep *= update


class PackedGru(torch.autograd.Function):
    """The recurrence with its gradient."""

    @staticmethod
    def forward(ctx: Any, gates: Tensor, weight: Tensor, bias: Tensor, counts: tuple[int, ...]) -> Tensor:
        """`gates` (P,M,3H) of the inputs, `weight` (P,H,3H), `bias` (P,3H), from zero memory -> hidden (P,M,H)."""
        population, rows, size = gates.shape[0], gates.shape[1], weight.shape[1]
        hidden = gates.new_empty(population, rows, size)
        squashed = torch.empty_like(gates)  # reset, update, new, after their functions
        product = gates.new_empty(population, rows, size)  # the recurrent part of `new`, before the reset gate
        last, at = gates.new_zeros(population, counts[0], size), 0
        for count in counts:
            here = slice(at, at + count)
            last = last[:, :count]
            recurrent = torch.baddbmm(bias.unsqueeze(1), last, weight)
            reset_update, new = squashed[:, here, : 2 * size], squashed[:, here, 2 * size :]
            torch.add(gates[:, here, : 2 * size], recurrent[..., : 2 * size], out=reset_update)
            reset_update.sigmoid_()
            product[:, here] = recurrent[..., 2 * size :]
            torch.addcmul(gates[:, here, 2 * size :], reset_update[..., :size], recurrent[..., 2 * size :], out=new)
            new.tanh_()
            last = torch.lerp(new, last, reset_update[..., size:])
            hidden[:, here] = last
            at += count
        ctx.save_for_backward(weight, hidden, squashed, product)
        ctx.counts = counts
        return hidden

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        weight, hidden, squashed, product = ctx.saved_tensors
        counts, grad_hidden = ctx.counts, gradients[0].contiguous()
        before = _before(hidden, counts)
        grad_gates, grad_recurrent = torch.empty_like(squashed), torch.empty_like(squashed)
        fixed = (grad_hidden, squashed, product, before, grad_gates, grad_recurrent)
        compiled = hidden.device.type == "cpu" and hidden.dtype == torch.float32
        arrays = [tensor.numpy() for tensor in fixed] if compiled else None
        carried, start = hidden.new_zeros(hidden.shape[0], 0, hidden.shape[2]), hidden.shape[1]
        for count in reversed(counts):
            start -= count
            keep = hidden.new_empty(hidden.shape[0], count, hidden.shape[2])
            if arrays:
                _back_compiled(start, arrays[0], carried.numpy(), *arrays[1:], keep.numpy())  # type: ignore[call-arg]
            else:
                _back_plain(start, grad_hidden, carried, *fixed[1:], keep)
            if start > 0:
                carried = torch.baddbmm(keep, grad_recurrent[:, start : start + count], weight.transpose(1, 2))
        grad_weight = torch.bmm(before.transpose(1, 2), grad_recurrent)
        return grad_gates, grad_weight, grad_recurrent.sum(dim=1), None


def packed_gru(gates: Tensor, weight: Tensor, bias: Tensor, counts: Sequence[int]) -> Tensor:
    """Hidden states of all rows at all steps: (P,M,3H) (P,H,3H) (P,3H) -> (P,M,H)."""
    if not torch.is_grad_enabled():
        return _run(gates, weight, bias, counts)
    return PackedGru.apply(gates, weight, bias, tuple(counts))
