# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Define the memory of policies: MinGRU and LSTM cells that reset where an episode begins.

    memory(x, state, reset) -> (out, state)    x (B, width) in a rollout, (T, B, width) in an update

reset (B,) or (T, B) bool is True where a row begins an episode, also in the middle of a sequence:
its state is cleared before the step. A rollout step by step and an update over the whole sequence
give the same numbers. Runs in the learner.

How many stacked cells a task needs depends on the cell. The gates and the candidate of a MinGRU
depend only on the current input. One cell can hold a value until an input releases it, but it holds
a series of values as a sum with fading weights, from which their order is hard to recover. The
second cell sees the state of the first, so it can tell the current step from the previous one. On
recalling at every step the input from two steps ago, two cells reached 99 % of the optimum where
one reached 73 %, and 80 to 95 % after three times as many steps (tests/learn, Echo); Feng et al.
2024 report the same for selective copying. The gates of an LSTM depend on its state: one is enough.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, library, nn

from puffervec.errors import ConfigError
from puffervec.train.config.sections import check_layers
from puffervec.train.policies.whole import is_kept_whole

State = tuple[Tensor, ...]
Grads = tuple[Tensor, Tensor, Tensor]


def linear_recurrence(a: Tensor, b: Tensor, first: Tensor) -> Tensor:
    """Compute h_t = a_t * h_{t-1} + b_t over dim 0: (T, ...), (T, ...), (...) -> (T, ...).

    Args:
        first: h_{-1}.
    """
    recurrence: Any = _recurrence_op if is_kept_whole() else _Recurrence.apply
    h: Tensor = recurrence(a, b, first)
    return h


def recurrence_into(h: Tensor, a: Tensor, b: Tensor, first: Tensor) -> Tensor:
    """Write `linear_recurrence` into h, one kernel per step; return h. Allocates nothing."""
    before = first
    for factor, term, now in zip(a.unbind(0), b.unbind(0), h.unbind(0), strict=True):
        torch.addcmul(term, factor, before, out=now)
        before = now
    return h


def recurrence_grad_into(grads: Grads, grad: Tensor, a: Tensor, h: Tensor, first: Tensor) -> Grads:
    """Write the gradients of a, b and first into `grads`, given that of h; return them.

    Allocates nothing and needs only h from the forward pass:

    dL/db_t = g_t, dL/da_t = g_t * h_{t-1}, dL/dh_{-1} = a_0 * g_0, with g_t = dL/dh_t + a_{t+1} *
    g_{t+1}.
    """
    a_grad, g, first_grad = grads
    g.copy_(grad)
    for t in range(len(g) - 2, -1, -1):
        g[t].addcmul_(a[t + 1], g[t + 1])
    torch.mul(g[0], first, out=a_grad[0])
    torch.mul(g[1:], h[:-1], out=a_grad[1:])
    torch.mul(a[0], g[0], out=first_grad)
    return grads


class _Recurrence(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, first: Tensor) -> Tensor:
        h = recurrence_into(torch.empty_like(b), a, b, first)
        ctx.save_for_backward(a, h, first)
        return h

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Grads:
        a, h, first = ctx.saved_tensors
        return recurrence_grad_into(
            (torch.empty_like(a), torch.empty_like(h), torch.empty_like(first)), grad, a, h, first
        )


# The recurrence as operations of a graph.


@library.custom_op("puffervec::linear_recurrence", mutates_args=())
def _recurrence_op(a: Tensor, b: Tensor, first: Tensor) -> Tensor:
    return recurrence_into(torch.empty_like(b), a, b, first)


@library.custom_op("puffervec::linear_recurrence_grad", mutates_args=())
def _recurrence_grad_op(
    grad: Tensor, a: Tensor, h: Tensor, first: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    return recurrence_grad_into(
        (torch.empty_like(a), torch.empty_like(h), torch.empty_like(first)), grad, a, h, first
    )


@_recurrence_op.register_fake
def _(a: Tensor, b: Tensor, first: Tensor) -> Tensor:
    return torch.empty_like(b)


@_recurrence_grad_op.register_fake
def _(grad: Tensor, a: Tensor, h: Tensor, first: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return torch.empty_like(a), torch.empty_like(h), torch.empty_like(first)


def _save_inputs(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor], output: Tensor) -> None:
    ctx.save_for_backward(inputs[0], output, inputs[2])


def _op_backward(ctx: Any, grad: Tensor) -> Grads:
    grads: Grads = _recurrence_grad_op(grad, *ctx.saved_tensors)
    return grads


_recurrence_op.register_autograd(_op_backward, setup_context=_save_inputs)


class MinGRU(nn.Module):
    """A GRU whose gates do not depend on the state, with a highway gate from input to output.

    A sequence is one matrix product and a linear recurrence. Source: Feng et al. 2024, "Were RNNs
    All We Needed?".

        z, c, p = W x
        h_t = (1 - sigmoid(z)) * h_{t-1} + sigmoid(z) * c
        out = sigmoid(p) * h + (1 - sigmoid(p)) * x
    """

    enough: ClassVar[int] = 2  # Cells in a stack; see the top of this file.

    def __init__(self, width: int) -> None:
        """Create the gates.

        Args:
            width: Width of input, state and output.
        """
        super().__init__()
        self.width = width
        self.gates = nn.Linear(width, 3 * width)
        nn.init.orthogonal_(self.gates.weight)
        nn.init.zeros_(self.gates.bias)

    def initial_state(self, rows: int) -> State:
        """Return an empty state: a (rows, width) tensor of zeros."""
        return (self.gates.weight.new_zeros(rows, self.width, dtype=torch.float32),)

    def forward(self, x: Tensor, state: State, reset: Tensor | None) -> tuple[Tensor, State]:
        """See the top of this file."""
        keep, candidate, carry = (part.float() for part in self.gates(x).chunk(3, dim=-1))
        share = keep.sigmoid()
        stay = 1 - share if reset is None else (1 - share) * reset.logical_not().unsqueeze(-1)
        if x.dim() == 2:
            h = stay * state[0] + share * candidate
            last = h
        else:
            h = linear_recurrence(stay, share * candidate, state[0])
            last = h[-1]
        gate = carry.sigmoid()
        return gate * h + (1 - gate) * x.float(), (last,)


class LSTM(nn.Module):
    """An LSTM cell (Hochreiter and Schmidhuber 1997), run step by step.

    Episodes may begin within a sequence, so a whole sequence is not one call.
    """

    enough: ClassVar[int] = 1

    def __init__(self, width: int) -> None:
        """Create the cell.

        Args:
            width: Width of input, state and output.
        """
        super().__init__()
        self.width = width
        self.cell = nn.LSTMCell(width, width)
        for name, parameter in self.cell.named_parameters():
            if "weight" in name:
                nn.init.orthogonal_(parameter)
            else:
                nn.init.zeros_(parameter)

    def initial_state(self, rows: int) -> State:
        """Return an empty state: two (rows, width) tensors of zeros."""
        zeros = self.cell.weight_hh.new_zeros(rows, self.width, dtype=torch.float32)
        return zeros, zeros.clone()

    def forward(self, x: Tensor, state: State, reset: Tensor | None) -> tuple[Tensor, State]:
        """See the top of this file."""
        single = x.dim() == 2
        steps = x.unsqueeze(0) if single else x
        forgets = (
            torch.zeros(steps.shape[:-1], dtype=torch.bool, device=x.device)
            if reset is None
            else reset
        )
        stay = (
            (forgets.unsqueeze(0) if single and reset is not None else forgets)
            .logical_not()
            .unsqueeze(-1)
            .float()
        )
        # The state must not be rounded from step to step.
        with torch.autocast(x.device.type, enabled=False):
            hidden, cell = state
            out = []
            for step, factor in zip(steps.float().unbind(), stay.unbind(), strict=True):
                hidden, cell = self.cell(step, (hidden * factor, cell * factor))
                out.append(hidden)
        return (hidden if single else torch.stack(out)), (hidden, cell)


class Stack(nn.Module):
    """A stack of cells, whose state is the concatenation of the cells' states."""

    def __init__(self, cells: list[MinGRU] | list[LSTM]) -> None:
        """Take the cells.

        Args:
            cells: Cells of one width, the first one first.
        """
        super().__init__()
        self.cells = nn.ModuleList(cells)

    def initial_state(self, rows: int) -> State:
        """Return the empty states of all cells."""
        cells: Any = self.cells
        return tuple(part for cell in cells for part in cell.initial_state(rows))

    def forward(self, x: Tensor, state: State, reset: Tensor | None) -> tuple[Tensor, State]:
        """See the top of this file."""
        each = len(state) // len(self.cells)
        after: State = ()
        for index, cell in enumerate(self.cells):
            x, new = cell(x, state[index * each : (index + 1) * each], reset)
            after += new
        return x, after


Memory = MinGRU | LSTM | Stack
MEMORIES: dict[str, type[MinGRU] | type[LSTM]] = {"mingru": MinGRU, "lstm": LSTM}


def build_memory(kind: str, width: int, layers: int = 0) -> Memory | None:
    """Return the memory that `policy.memory` names, None for "none".

    Args:
        layers: Number of stacked cells; 0 for as many as the task at the top of this file needs.

    Raises:
        ConfigError: The name or the number is not allowed.
    """
    if kind == "none":
        return None
    if kind not in MEMORIES:
        raise ConfigError(f"policy.memory is {kind!r}: use none, {', '.join(MEMORIES)}")
    check_layers(layers)
    cell = MEMORIES[kind]
    cells: Any = [cell(width) for _ in range(layers or cell.enough)]
    memory: Memory = cells[0] if len(cells) == 1 else Stack(cells)
    return memory
