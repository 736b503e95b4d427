# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
from __future__ import annotations

import numpy as np
import pytest
import torch

from puffervec.train.advantage import advantage, advantage_c, advantage_torch

Arrays = tuple[torch.Tensor, ...]


def twin(arrays: Arrays, gamma: float, lam: float) -> tuple[np.ndarray, np.ndarray]:
    """Row by row in plain Python, float64: the definition written out."""
    rewards, values, terminals, truncations, masks = (a.numpy() for a in arrays)
    horizon, rows = rewards.shape[0] - 1, rewards.shape[1]
    out, valid = np.zeros((horizon, rows)), np.zeros((horizon, rows), np.uint8)
    for row in range(rows):
        following = 0.0
        for k in reversed(range(horizon)):
            if not masks[k, row] or terminals[k, row] or truncations[k, row]:
                following = 0.0
                continue
            bootstrap = 0.0 if terminals[k + 1, row] else float(values[k + 1, row])
            following = float(rewards[k + 1, row]) + gamma * bootstrap - float(values[k, row]) + gamma * lam * following
            out[k, row], valid[k, row] = following, 1
    return out, valid


def random_arrays(seed: int, horizon: int = 13, rows: int = 37) -> Arrays:
    r = torch.Generator().manual_seed(seed)
    shape = (horizon + 1, rows)
    flags = [(torch.rand(shape, generator=r) < p).to(torch.uint8) for p in (0.1, 0.1, 0.8)]
    return torch.randn(shape, generator=r), torch.randn(shape, generator=r), *flags


@pytest.mark.parametrize("run", [advantage_c, advantage_torch, advantage])
@pytest.mark.parametrize("seed", range(3))
def test_agrees_with_the_twin(run: object, seed: int) -> None:
    arrays = random_arrays(seed)
    got, valid = run(*arrays, 0.97, 0.9)  # type: ignore[operator]
    expected, expected_valid = twin(arrays, 0.97, 0.9)
    np.testing.assert_array_equal(valid.numpy(), expected_valid)
    np.testing.assert_allclose(got.numpy(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("run", [advantage_c, advantage_torch])
def test_three_steps_by_hand(run: object) -> None:
    """Rewards 1, 2, 3; values 10, 20, 30, 40; the episode ends at step 3: as a terminal, as a truncation, not at all."""
    rewards = torch.tensor([[0.0] * 3, [1.0] * 3, [2.0] * 3, [3.0] * 3])
    values = torch.tensor([[10.0] * 3, [20.0] * 3, [30.0] * 3, [40.0] * 3])
    terminals, truncations = torch.zeros(4, 3, dtype=torch.uint8), torch.zeros(4, 3, dtype=torch.uint8)
    terminals[3, 0] = truncations[3, 1] = 1
    masks = torch.ones(4, 3, dtype=torch.uint8)
    got, valid = run(rewards, values, terminals, truncations, masks, 0.5, 0.5)  # type: ignore[operator]
    delta = [1 + 0.5 * 20 - 10, 2 + 0.5 * 30 - 20]
    last = {0: 3 - 30, 1: 3 + 0.5 * 40 - 30, 2: 3 + 0.5 * 40 - 30}
    for row in range(3):
        a2 = last[row]
        a1 = delta[1] + 0.25 * a2
        a0 = delta[0] + 0.25 * a1
        assert got[:, row].tolist() == [a0, a1, a2]
    assert valid.all()


def test_nothing_leaks_across_a_done_or_a_filler_row() -> None:
    """What stands in rows after a done, or in absent rows, changes no valid advantage."""
    arrays = random_arrays(7)
    before, valid = advantage_c(*arrays, 0.97, 0.9)
    rewards, values, terminals, truncations, masks = (a.clone() for a in arrays)
    # A row's value is read as its own (if its transition is valid) or as the bootstrap of a valid one before it.
    used = torch.zeros_like(masks, dtype=torch.bool)
    used[:-1] |= valid != 0
    used[1:] |= (valid != 0) & (terminals[1:] == 0)
    values[~used] = 1e6
    after, _ = advantage_c(rewards, values, terminals, truncations, masks, 0.97, 0.9)
    torch.testing.assert_close(before, after)
