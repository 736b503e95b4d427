# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Memory cells (puffervec/train/policies/memory.py): a sequence gives what its steps give, and
nothing crosses a reset.
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from puffervec.errors import ConfigError
from puffervec.train.policies.memory import (
    LSTM,
    MEMORIES,
    Memory,
    MinGRU,
    Stack,
    build_memory,
    linear_recurrence,
)

T, B, WIDTH = 7, 5, 6


LAYERS = [1, 3]


def made(kind: str, layers: int = 0) -> Memory:
    memory = build_memory(kind, WIDTH, layers)
    assert memory is not None
    return memory


def inputs() -> tuple[Tensor, Tensor]:
    r = torch.Generator().manual_seed(0)
    return torch.randn(T, B, WIDTH, generator=r), torch.rand(T, B, generator=r) < 0.3


@pytest.mark.parametrize("layers", LAYERS)
@pytest.mark.parametrize("kind", MEMORIES)
def test_a_sequence_equals_its_steps(kind: str, layers: int) -> None:
    memory = made(kind, layers)
    x, reset = inputs()
    state = tuple(torch.randn_like(part) for part in memory.initial_state(B))
    out, last = memory(x, state, reset)
    for t in range(T):
        step, state = memory(x[t], state, reset[t])
        torch.testing.assert_close(out[t], step)
    for whole, part in zip(last, state, strict=True):
        torch.testing.assert_close(whole, part)


@pytest.mark.parametrize("layers", LAYERS)
@pytest.mark.parametrize("kind", MEMORIES)
@pytest.mark.parametrize("sequence", [True, False])
def test_a_reset_forgets(kind: str, layers: int, sequence: bool) -> None:
    memory = made(kind, layers)
    x, reset = inputs()
    reset[3] = True
    fresh = memory.initial_state(B)
    full = tuple(torch.full_like(part, 9.0) for part in fresh)
    if sequence:
        torch.testing.assert_close(
            memory(x, full, reset)[0][3:], memory(x[3:], fresh, reset[3:])[0]
        )
    else:
        torch.testing.assert_close(memory(x[3], full, reset[3])[0], memory(x[3], fresh, None)[0])


@pytest.mark.parametrize("layers", LAYERS)
@pytest.mark.parametrize("kind", MEMORIES)
def test_without_a_reset_it_remembers(kind: str, layers: int) -> None:
    memory = made(kind, layers)
    x, _ = inputs()
    changed = x.clone()
    changed[0] += 1
    before, after = (memory(given, memory.initial_state(B), None)[0] for given in (x, changed))
    assert (before[-1] - after[-1]).abs().max() > 1e-4


def test_the_recurrence_and_its_gradients() -> None:
    r = torch.Generator().manual_seed(1)
    a, b = (torch.rand(4, 3, dtype=torch.float64, generator=r).requires_grad_() for _ in range(2))
    first = torch.rand(3, dtype=torch.float64, generator=r).requires_grad_()
    h = linear_recurrence(a, b, first)
    expected, before = [], first
    for t in range(4):
        before = a[t] * before + b[t]
        expected.append(before)
    torch.testing.assert_close(h, torch.stack(expected))
    assert torch.autograd.gradcheck(linear_recurrence, (a, b, first))


def test_bf16_around_does_not_round_what_is_remembered() -> None:
    for kind in MEMORIES:
        memory = made(kind)
        x, reset = inputs()
        with torch.autocast("cpu", torch.bfloat16):
            out, state = memory(x.bfloat16(), memory.initial_state(B), reset)
        assert out.dtype == torch.float32 and all(part.dtype == torch.float32 for part in state)


def test_cells_one_behind_the_other() -> None:
    """As many as asked for; by default as many as are enough. A single one has the names of weights
    that older runs saved.
    """
    assert isinstance(made("mingru", 1), MinGRU) and isinstance(made("lstm"), LSTM)
    stack = made("mingru")
    assert isinstance(stack, Stack) and [type(cell) for cell in stack.cells] == [MinGRU, MinGRU]
    x, reset = inputs()
    first, second = stack.cells
    between, (one,) = first(x, first.initial_state(B), reset)
    wanted, (two,) = second(between, second.initial_state(B), reset)
    out, state = stack(x, stack.initial_state(B), reset)
    torch.testing.assert_close((out, *state), (wanted, one, two))
    assert len(made("lstm", 2).initial_state(B)) == 4


def test_names() -> None:
    assert build_memory("none", WIDTH) is None
    with pytest.raises(ConfigError, match="policy.memory is 'gru': use none, mingru, lstm"):
        build_memory("gru", WIDTH)
    with pytest.raises(ConfigError, match="policy.memory_layers is 1000000000: must be 0 to 16"):
        build_memory("mingru", WIDTH, 10**9)
