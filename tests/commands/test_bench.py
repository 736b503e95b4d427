# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from puffervec.commands.bench import TooShort, measure, summary
from puffervec.commands.verb import StopSignals
from puffervec.train import TrainConfig
from puffervec.train.metrics.keys import TIME_PARTS

Small = Callable[..., TrainConfig]


def line(at: float, rate: float, env: float) -> dict[str, float]:
    shares = dict.fromkeys((f"time/{part}" for part in TIME_PARTS), 0.0)
    return {
        **shares,
        "elapsed_s": at,
        "charts/agent_steps_per_s": rate,
        "charts/env_steps_per_s": rate / 2,
        "time/env": env,
    }


def test_means_over_time_without_the_warm_up() -> None:
    lines = [line(0.5, 1e9, 9.0), line(1.5, 1e9, 9.0), line(2.5, 100.0, 0.0), line(5.5, 200.0, 1.0)]
    found = summary("about", lines, 1.0, 8, 99, 2.0)
    assert (found.seconds, found.updates) == (4.0, 2)
    assert found.agent_steps_per_s == pytest.approx(175) and found.env_steps_per_s == pytest.approx(
        87.5
    )
    assert found.times["env"] == pytest.approx(0.75)
    assert found.overlap is None and "overlap" not in found.text()
    told = [
        {**line, "charts/overlap": overlap}
        for line, overlap in zip(lines, (9.0, 9.0, 1.0, 1.4), strict=True)
    ]
    found = summary("about", told, 1.0, 8, 99, 2.0)
    assert found.overlap == pytest.approx(1.3) and "overlap: 1.30 (1: the shorter" in found.text()
    with pytest.raises(TooShort, match="2 updates"):
        summary("about", lines[:2], 1.0, 8, 99, 2.0)


@pytest.mark.slow
def test_a_short_run(small: Small) -> None:
    found = measure(small(train={"update_epochs": 3}), 0.4, StopSignals())
    assert found is not None and found.updates > 0 and found.agent_steps_per_s > 0
    assert sum(found.times.values()) == pytest.approx(1.0, abs=0.02)
    assert (found.observation_numbers, found.replay_ratio) == (8, 3.0)
    assert json.loads(found.as_json())["parameters"] == found.parameters > 100
    assert "agent-steps/s" in found.text() and "time split: env" in found.text()


def test_a_signal_ends_it(small: Small) -> None:
    signals = StopSignals()
    signals.received = 2
    with pytest.raises(KeyboardInterrupt):  # it came while the workers started
        measure(small(), 60.0, signals)
