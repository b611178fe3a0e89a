"""A stack of GRUs over sequences of different lengths, in packed form.

Packed means: rows are sorted by length, longest first, and only rows that are still running are kept at each step. Step t has
`counts[t]` rows, the steps lie one behind the other, M = sum(counts) rows in all, and row r of step t + 1 continues row r of step t.
Nothing is ever computed for padding.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


def cell(gates: Tensor, recurrent: Tensor, hidden: Tensor) -> Tensor:
    """One step of a GRU from both halves of its gates (reset, update, new): (…,3H) (…,3H) (…,H) -> (…,H)."""
    size = hidden.shape[-1]
    reset_update = torch.sigmoid(gates[..., : 2 * size] + recurrent[..., : 2 * size])
    new = torch.tanh(gates[..., 2 * size :] + reset_update[..., :size] * recurrent[..., 2 * size :])
    return new + reset_update[..., size:] * (hidden - new)


class PackedGru(torch.autograd.Function):
    """The recurrence with its gradient written out, so that the weights' gradients are one product over all steps."""

    @staticmethod
    def forward(ctx: Any, gates: Tensor, weight: Tensor, bias: Tensor, counts: Sequence[int]) -> Tensor:
        """`gates` (P,M,3H) of the inputs, `weight` (P,H,3H), `bias` (P,3H), from zero memory -> hidden (P,M,H)."""
        population, rows, size = gates.shape[0], gates.shape[1], weight.shape[1]
        hidden = gates.new_empty(population, rows, size)
        before = gates.new_zeros(population, rows, size)  # the memory that each row came with
        squashed = torch.empty_like(gates)  # reset, update, new, after their functions
        product = gates.new_empty(population, rows, size)  # the recurrent part of `new`, before the reset gate
        row_bias, last, at = bias.unsqueeze(1), None, 0
        for count in counts:
            here = slice(at, at + count)
            gate = gates[:, here]
            if last is None:
                recurrent = row_bias.expand(population, count, 3 * size)
                memory = before[:, here]
            else:
                memory = last[:, :count]
                before[:, here] = memory
                recurrent = torch.baddbmm(row_bias, memory, weight)
            reset_update = torch.sigmoid_(gate[..., : 2 * size] + recurrent[..., : 2 * size])
            product[:, here] = recurrent[..., 2 * size :]
            new = torch.tanh_(torch.addcmul(gate[..., 2 * size :], reset_update[..., :size], recurrent[..., 2 * size :]))
            last = torch.lerp(new, memory, reset_update[..., size:])
            squashed[:, here, : 2 * size] = reset_update
            squashed[:, here, 2 * size :] = new
            hidden[:, here] = last
            at += count
        ctx.save_for_backward(weight, before, squashed, product)
        ctx.counts = tuple(counts)
        return hidden

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        weight, before, squashed, product = ctx.saved_tensors
        (grad_hidden,) = gradients
        size, counts = weight.shape[1], ctx.counts
        reset, update, new = squashed.split(size, dim=-1)
        # Everything that does not depend on the later steps, for all rows at once.
        d_new = (1 - update) * (1 - new * new)  # of the hidden state by new's argument
        d_update = (before - new) * update * (1 - update)  # by update's argument
        d_reset = product * reset * (1 - reset)  # of new's argument by reset's argument
        grad_gates = torch.empty_like(squashed)
        grad_recurrent = torch.empty_like(squashed)
        turned = weight.transpose(1, 2)
        carried, end = None, squashed.shape[1]
        for count in reversed(counts):
            here = slice(end - count, end)
            grad = grad_hidden[:, here]
            if carried is not None:
                grad = grad.clone()
                grad[:, : carried.shape[1]] += carried
            for_new = grad * d_new[:, here]
            grad_gates[:, here, :size] = for_new * d_reset[:, here]
            grad_gates[:, here, size : 2 * size] = grad * d_update[:, here]
            grad_gates[:, here, 2 * size :] = for_new
            grad_recurrent[:, here] = grad_gates[:, here]
            grad_recurrent[:, here, 2 * size :] *= reset[:, here]
            end -= count
            if end > 0:
                carried = torch.baddbmm(grad * update[:, here], grad_recurrent[:, here], turned)
        grad_weight = torch.bmm(before.transpose(1, 2), grad_recurrent)
        return grad_gates, grad_weight, grad_recurrent.sum(dim=1), None


def packed_gru(gates: Tensor, weight: Tensor, bias: Tensor, counts: Sequence[int]) -> Tensor:
    """Hidden states of all rows at all steps: see `PackedGru.forward`."""
    return PackedGru.apply(gates, weight, bias, tuple(counts))  # type: ignore[no-any-return]
