"""Compiled CPU kernels for sequences: packing, the GRU's forward and backward pass, and the λ targets.

The matrices of one step are small (tens of rows, 64 wide), so calling a matrix product would cost more than the product itself.
The kernels multiply blocks of four rows and four columns. Each loaded number is then used four times.

The rows of each of P members are divided into CHUNKS tasks. A call does the tasks from `first_task` up to `last_task`, so that
threads can share them. The results do not depend on the division. Arrays are contiguous, and float32 except for packed ones.
Outputs are the last arguments.
"""

from __future__ import annotations

import numpy as np

from macop_aht.compiling import njit

CHUNKS = 2
BLOCK = 4
_HALF, _ONE = np.float32(0.5), np.float32(1.0)
_LIMIT = np.float32(7.9053111)  # tanh is 1 here in single precision
# Coefficients of tanh(x) = x * p(x^2) / q(x^2), approximately, from the highest power down.
_P = tuple(
    np.float32(c)
    for c in (-2.76076847742355e-16, 2.00018790482477e-13, -8.60467152213735e-11, 5.12229709037114e-08,
              1.48572235717979e-05, 6.37261928875436e-04, 4.89352455891786e-03)
)  # fmt: skip
_Q = tuple(
    np.float32(c) for c in (1.19825839466702e-06, 1.18534705686654e-04, 2.26843463243900e-03, 4.89352518554385e-03)
)


@njit(cache=True, nogil=True)
def pack(
    counts, ring, slot, seats, length, obs, mask, action, reward, state,
    inputs, packed_mask, packed_action, packed_reward, packed_state, real,
):  # fmt: skip
    """Pack the first `counts[t]` of the episodes in `ring` and `slot`, (P,batch) each, at every step t: see `replay`.

    `inputs` (P,M,N,in) must be zeros before. It becomes the networks' input: observation, last action and agent index.
    """
    agents, size, actions = len(seats), obs.shape[-1], mask.shape[-1]
    for p in range(len(ring)):
        m = 0
        for t in range(len(counts)):
            for row in range(counts[t]):
                q, s = ring[p, row], slot[p, row]
                for n in range(agents):
                    for j in range(size):
                        inputs[p, m, n, j] = obs[q, s, t, n, j]
                    if t > 0 and action[q, s, t - 1, n] >= 0:
                        inputs[p, m, n, size + action[q, s, t - 1, n]] = _ONE
                    inputs[p, m, n, size + actions + seats[n]] = _ONE
                    for j in range(actions):
                        packed_mask[p, m, n, j] = mask[q, s, t, n, j]
                    packed_action[p, m, n] = max(action[q, s, t, n], 0)
                for j in range(state.shape[-1]):
                    packed_state[p, m, j] = state[q, s, t, j]
                packed_reward[p, m] = reward[q, s, t]
                real[p, m] = t < length[q, s]
                m += 1


@njit(inline="always")
def _tanh(x):
    """Return tanh in single precision, without branches, so that a loop can be vectorised."""
    x = min(max(x, -_LIMIT), _LIMIT)
    s = x * x
    p = (((((_P[0] * s + _P[1]) * s + _P[2]) * s + _P[3]) * s + _P[4]) * s + _P[5]) * s + _P[6]
    q = ((_Q[0] * s + _Q[1]) * s + _Q[2]) * s + _Q[3]
    return x * p / q


@njit(inline="always")
def _sigmoid(x):
    return _HALF + _HALF * _tanh(_HALF * x)


@njit(error_model="numpy", fastmath=True)
def _add_product(rows, start, count, weight, out, to):
    """Compute out[to : to + count] += rows[start : start + count] @ weight; count <= BLOCK, and BLOCK divides the inner size."""
    inner, outer = weight.shape
    r, o = start, to
    if count == BLOCK:
        for k in range(0, inner, BLOCK):
            a0, a1, a2, a3 = rows[r, k], rows[r, k + 1], rows[r, k + 2], rows[r, k + 3]
            b0, b1, b2, b3 = rows[r + 1, k], rows[r + 1, k + 1], rows[r + 1, k + 2], rows[r + 1, k + 3]
            c0, c1, c2, c3 = rows[r + 2, k], rows[r + 2, k + 1], rows[r + 2, k + 2], rows[r + 2, k + 3]
            d0, d1, d2, d3 = rows[r + 3, k], rows[r + 3, k + 1], rows[r + 3, k + 2], rows[r + 3, k + 3]
            for j in range(outer):
                w0, w1, w2, w3 = weight[k, j], weight[k + 1, j], weight[k + 2, j], weight[k + 3, j]
                out[o, j] += a0 * w0 + a1 * w1 + a2 * w2 + a3 * w3
                out[o + 1, j] += b0 * w0 + b1 * w1 + b2 * w2 + b3 * w3
                out[o + 2, j] += c0 * w0 + c1 * w1 + c2 * w2 + c3 * w3
                out[o + 3, j] += d0 * w0 + d1 * w1 + d2 * w2 + d3 * w3
        return
    for i in range(count):
        for k in range(0, inner, BLOCK):
            a0, a1, a2, a3 = rows[r + i, k], rows[r + i, k + 1], rows[r + i, k + 2], rows[r + i, k + 3]
            for j in range(outer):
                w0, w1, w2, w3 = weight[k, j], weight[k + 1, j], weight[k + 2, j], weight[k + 3, j]
                out[o + i, j] += a0 * w0 + a1 * w1 + a2 * w2 + a3 * w3


@njit(cache=True, error_model="numpy", fastmath=True, nogil=True)
def forward(first_task, last_task, gates, weight, bias, counts, hidden, squashed, product):
    """Run the GRU from zero memory: `gates` (P,M,3H), `weight` (P,H,3H), `bias` (P,3H), `counts` (T,) -> `hidden` (P,M,H).

    `gates` is the inputs' part of the gates. Unless they are empty, two arrays are filled for the backward pass: `squashed`
    (P,M,3H) with the reset, update and new gates after their functions, and `product` (P,M,H) with the recurrent part of the new
    gate before the reset.
    """
    size = hidden.shape[2]
    keeps = squashed.shape[1] > 0
    for task in range(first_task, last_task):
        p, chunk = task // CHUNKS, task % CHUNKS
        recurrent = np.empty((BLOCK, 3 * size), dtype=np.float32)
        gate = np.empty(3 * size, dtype=np.float32)
        start, before = 0, 0
        for t in range(len(counts)):
            for first in range(chunk * BLOCK, counts[t], CHUNKS * BLOCK):
                rows = min(BLOCK, counts[t] - first)
                for i in range(rows):
                    for j in range(3 * size):
                        recurrent[i, j] = bias[p, j]
                if t > 0:
                    _add_product(hidden[p], before + first, rows, weight[p], recurrent, 0)
                for i in range(rows):
                    r = start + first + i
                    for j in range(2 * size):
                        gate[j] = _sigmoid(gates[p, r, j] + recurrent[i, j])
                    for j in range(size):
                        gate[2 * size + j] = _tanh(gates[p, r, 2 * size + j] + gate[j] * recurrent[i, 2 * size + j])
                    if t > 0:
                        for j in range(size):
                            new = gate[2 * size + j]
                            hidden[p, r, j] = new + gate[size + j] * (hidden[p, before + first + i, j] - new)
                    else:
                        for j in range(size):
                            hidden[p, r, j] = gate[2 * size + j] * (_ONE - gate[size + j])
                    if keeps:
                        for j in range(3 * size):
                            squashed[p, r, j] = gate[j]
                        for j in range(size):
                            product[p, r, j] = recurrent[i, 2 * size + j]
            before, start = start, start + counts[t]


@njit(cache=True, error_model="numpy", fastmath=True, nogil=True)
def backward(first_task, last_task, grad_hidden, weight, squashed, product, before, counts, grad_gates, grad_recurrent):
    """Compute the gradients of the gates' two parts, (P,M,3H) each; `before` (P,M,H) is the memory before each row's step."""
    _, total, size = before.shape
    for task in range(first_task, last_task):
        p, chunk = task // CHUNKS, task % CHUNKS
        back = np.ascontiguousarray(weight[p].T)
        carried = np.zeros((counts[0], size), dtype=np.float32)  # from the next step; zero for rows that end here
        start = total
        for t in range(len(counts) - 1, -1, -1):
            start -= counts[t]
            for first in range(chunk * BLOCK, counts[t], CHUNKS * BLOCK):
                rows = min(BLOCK, counts[t] - first)
                for row in range(first, first + rows):
                    r = start + row
                    for j in range(size):
                        grad = grad_hidden[p, r, j] + carried[row, j]
                        reset, update, new = squashed[p, r, j], squashed[p, r, size + j], squashed[p, r, 2 * size + j]
                        for_new = grad * (_ONE - update) * (_ONE - new * new)
                        for_reset = for_new * product[p, r, j] * reset * (_ONE - reset)
                        for_update = grad * (before[p, r, j] - new) * update * (_ONE - update)
                        grad_gates[p, r, j] = grad_recurrent[p, r, j] = for_reset
                        grad_gates[p, r, size + j] = grad_recurrent[p, r, size + j] = for_update
                        grad_gates[p, r, 2 * size + j] = for_new
                        grad_recurrent[p, r, 2 * size + j] = for_new * reset
                        carried[row, j] = grad * update
                if t > 0:
                    _add_product(grad_recurrent[p], start + first, rows, back, carried, first)


@njit(cache=True, error_model="numpy")
def lambda_target(counts, gamma, td_lambda, reward, continues, real, next_value, target):
    """Compute λ targets (P,M) from the last step to the first; see `update`. One thread suffices."""
    members, start = target.shape
    later, later_start = 0, 0  # the number of rows of the next step, and where they begin
    for t in range(len(counts) - 1, -1, -1):
        start -= counts[t]
        for p in range(members):
            for r in range(counts[t]):
                here, after = start + r, later_start + r
                value = reward[p, here] + gamma * continues[p, here] * next_value[p, here]
                if r < later:
                    surprise = (target[p, after] - next_value[p, here]) * real[p, after]
                    value += gamma * td_lambda * continues[p, here] * surprise
                target[p, here] = value
        later, later_start = counts[t], start
