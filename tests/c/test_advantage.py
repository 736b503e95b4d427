# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""pv_advantage (csrc/learner/advantage.c) against its twin on random flags, and what it must not
touch or be touched by.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.test_known_returns import Arrays, c_advantage
from tests.twins import advantage as twin


def random_rollout(seed: int, horizon: int, rows: int) -> tuple[Arrays, np.ndarray]:
    """Flags of all kinds, also such as no env gives (both flags, flags on empty rows)."""
    rng = np.random.default_rng(seed)
    shape = (horizon + 1, rows)
    rollout = {
        "rewards": rng.normal(size=shape).astype(np.float32),
        "terminals": rng.random(shape) < 0.2,
        "truncations": rng.random(shape) < 0.2,
        "masks": rng.random(shape) < 0.7,
    }
    return rollout, rng.normal(size=shape).astype(np.float32)


@pytest.mark.parametrize(("horizon", "rows"), [(1, 1), (2, 3), (16, 5), (33, 17), (64, 70)])
@pytest.mark.parametrize(
    ("gamma", "gae_lambda"), [(0.99, 0.95), (1.0, 1.0), (0.0, 0.5), (0.9, 0.0)]
)
def test_equals_the_twin(horizon: int, rows: int, gamma: float, gae_lambda: float) -> None:
    rollout, values = random_rollout(horizon * 1000 + rows, horizon, rows)
    advantages, valid = c_advantage(rollout, values, gamma, gae_lambda)
    expected, expected_valid = twin.advantage(
        rollout["rewards"], values, *_flags(rollout), gamma, gae_lambda
    )
    np.testing.assert_array_equal(valid, expected_valid)
    np.testing.assert_array_equal(advantages, expected)


def _flags(rollout: Arrays) -> list[np.ndarray]:
    return [rollout[name] for name in ("terminals", "truncations", "masks")]


def _is_valid(rollout: Arrays, k: int, row: int) -> bool:
    flags = (rollout[name][k, row] for name in ("masks", "terminals", "truncations"))
    return twin.transition_is_valid(*flags, rollout["masks"][k + 1, row])


def test_what_stands_in_invalid_rows_is_never_read_into_others() -> None:
    """Empty rows may hold anything, also NaN; so may the rows behind a terminal."""
    rollout, values = random_rollout(1, 40, 30)
    clean, _ = c_advantage(rollout, values, 0.99, 0.95)
    rewards = rollout["rewards"].copy()
    for k in range(41):
        for row in range(30):
            came_by_a_step = k > 0 and _is_valid(rollout, k - 1, row)
            goes_on = k < 40 and _is_valid(rollout, k, row)
            if not came_by_a_step:
                rewards[k, row] = np.nan
            if not goes_on and (not came_by_a_step or rollout["terminals"][k, row]) and k < 40:
                values[k, row] = np.nan
    dirty, _ = c_advantage({**rollout, "rewards": rewards}, values, 0.99, 0.95)
    np.testing.assert_array_equal(dirty, clean)


def test_one_row_all_valid_equals_the_closed_form() -> None:
    """Sum over l of (gamma lambda)^l delta_{k+l}: equation 16 of the GAE paper, in float64."""
    horizon, gamma, gae_lambda = 20, 0.97, 0.9
    rng = np.random.default_rng(0)
    rewards, values = rng.normal(size=(2, horizon + 1, 1)).astype(np.float32)
    never, always = np.zeros((horizon + 1, 1), bool), np.ones((horizon + 1, 1), bool)
    rollout = {"rewards": rewards, "terminals": never, "truncations": never, "masks": always}
    advantages, _ = c_advantage(rollout, values, gamma, gae_lambda)
    delta = (
        rewards[1:, 0].astype(float)
        + gamma * values[1:, 0].astype(float)
        - values[:-1, 0].astype(float)
    )
    for k in range(horizon):
        weights = (gamma * gae_lambda) ** np.arange(horizon - k)
        assert advantages[k, 0] == pytest.approx(float(weights @ delta[k:]), abs=1e-5)
