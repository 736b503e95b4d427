# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Memory cells (puffervec/train/memory.py): a sequence gives what its steps give, and nothing crosses a reset."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from puffervec.errors import ConfigError
from puffervec.train.memory import LSTM, MEMORIES, LinearRecurrence, MinGRU, build_memory

T, B, WIDTH = 7, 5, 6


def inputs() -> tuple[Tensor, Tensor]:
    r = torch.Generator().manual_seed(0)
    return torch.randn(T, B, WIDTH, generator=r), torch.rand(T, B, generator=r) < 0.3


@pytest.mark.parametrize("kind", MEMORIES)
def test_a_sequence_equals_its_steps(kind: str) -> None:
    memory = build_memory(kind, WIDTH)
    assert memory is not None
    x, reset = inputs()
    state = tuple(torch.randn_like(part) for part in memory.initial_state(B))
    out, last = memory(x, state, reset)
    for t in range(T):
        step, state = memory(x[t], state, reset[t])
        torch.testing.assert_close(out[t], step)
    for whole, part in zip(last, state, strict=True):
        torch.testing.assert_close(whole, part)


@pytest.mark.parametrize("kind", MEMORIES)
@pytest.mark.parametrize("sequence", [True, False])
def test_a_reset_forgets(kind: str, sequence: bool) -> None:
    memory = build_memory(kind, WIDTH)
    assert memory is not None
    x, reset = inputs()
    reset[3] = True
    fresh = memory.initial_state(B)
    full = tuple(torch.full_like(part, 9.0) for part in fresh)
    if sequence:
        torch.testing.assert_close(memory(x, full, reset)[0][3:], memory(x[3:], fresh, reset[3:])[0])
    else:
        torch.testing.assert_close(memory(x[3], full, reset[3])[0], memory(x[3], fresh, None)[0])


@pytest.mark.parametrize("kind", MEMORIES)
def test_without_a_reset_it_remembers(kind: str) -> None:
    memory = build_memory(kind, WIDTH)
    assert memory is not None
    x, _ = inputs()
    changed = x.clone()
    changed[0] += 1
    before, after = (memory(given, memory.initial_state(B), None)[0] for given in (x, changed))
    assert (before[-1] - after[-1]).abs().max() > 1e-4


def test_the_recurrence_and_its_gradients() -> None:
    r = torch.Generator().manual_seed(1)
    a, b = (torch.rand(4, 3, dtype=torch.float64, generator=r).requires_grad_() for _ in range(2))
    first = torch.rand(3, dtype=torch.float64, generator=r).requires_grad_()
    h = LinearRecurrence.apply(a, b, first)
    expected, before = [], first
    for t in range(4):
        before = a[t] * before + b[t]
        expected.append(before)
    torch.testing.assert_close(h, torch.stack(expected))
    assert torch.autograd.gradcheck(LinearRecurrence.apply, (a, b, first))


def test_bf16_around_does_not_round_what_is_remembered() -> None:
    for kind in MEMORIES:
        memory = build_memory(kind, WIDTH)
        assert isinstance(memory, MinGRU | LSTM)
        x, reset = inputs()
        with torch.autocast("cpu", torch.bfloat16):
            out, state = memory(x.bfloat16(), memory.initial_state(B), reset)
        assert out.dtype == torch.float32 and all(part.dtype == torch.float32 for part in state)


def test_names() -> None:
    assert build_memory("none", WIDTH) is None
    with pytest.raises(ConfigError, match="policy.memory is 'gru': use none, mingru, lstm"):
        build_memory("gru", WIDTH)
