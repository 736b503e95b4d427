# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""bench/ocean.py: what it reckons from its samples."""

from __future__ import annotations

import pytest

from bench import ocean


def test_rates_and_ratios() -> None:
    samples = {ocean.PLAIN: [1e-3, 2e-3, 1e-3], ocean.SERIAL: [1e-3, 4e-3, 1.25e-3]}
    plain, serial = ocean.results_of(100.0, 7, samples, num_envs=1000)
    assert plain.ns_per_step.median == pytest.approx(1000.0)
    assert plain.env_steps_per_s.samples == pytest.approx((1e6, 5e5, 1e6))
    steps = ocean.LENGTH / (ocean.LENGTH + 1)  # of the turns here, without reset rows
    assert serial.ratio.samples == pytest.approx((steps, 0.5 * steps, 0.8 * steps))
    assert (plain.goal, serial.goal) == (None, 0.95)
    cheap = ocean.results_of(20.0, 0, samples, num_envs=1000)
    assert [result.goal for result in cheap] == [None, None]
