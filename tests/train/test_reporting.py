# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import puffervec
from puffervec.contract.training import Training
from puffervec.train import TrainConfig, Trainer
from puffervec.train.metrics.keys import TIME_PARTS
from puffervec.train.metrics.log import JsonLog, read_metrics
from puffervec.train.run.reporting import Reporting, Totals, step_seconds
from puffervec.train.run.state import Counters

Small = Callable[..., TrainConfig]


class Clock:
    def __init__(self) -> None:
        self.now = 50.0

    def __call__(self) -> float:
        return self.now


def reporter(folder: Path, clock: Clock, step_s: float | None = None, **train: Any) -> Reporting:
    config = TrainConfig.of("probe", train=train, log={"dashboard": "off"})
    vec = SimpleNamespace(
        num_buffers=1 if step_s is None else 2,
        workers=SimpleNamespace(several=True),
        timing=lambda half: np.array([[0, (step_s or 0.0) / 2 * 1e9]]),
        env=SimpleNamespace(training=Training()),
    )
    files = SimpleNamespace(
        folder=folder, run_id="", goes_on=False, log=JsonLog(folder / "m.jsonl", {})
    )
    setup = SimpleNamespace(
        run=SimpleNamespace(config=config, device=torch.device("cpu")), bf16=True
    )
    made = Reporting(setup, files, vec, Counters(), "about", None, clock)  # type: ignore[arg-type]
    made.restart(totals())
    return made


def totals(steps: int = 0, turns: int = 0, **seconds: float) -> Totals:
    return Totals(
        steps,
        10 * steps,
        turns,
        {name: seconds.get(name, 0.0) for name in ("env", "copy", "forward", "update")},
    )


def test_rates_and_shares_of_what_went_by(tmp_path: Path) -> None:
    clock = Clock()
    made = reporter(tmp_path, clock)
    with made.counted():
        clock.now += 1.0
    clock.now += 9.0
    found = made.spans(totals(500, 4, env=1.0, copy=0.5, forward=2.5, update=4.0))
    assert found["span_s"] == 10.0
    assert (found["charts/agent_steps_per_s"], found["charts/env_steps_per_s"]) == (50.0, 500.0)
    shares = {name: found[f"time/{name}"] for name in TIME_PARTS}
    assert shares == pytest.approx(
        {"env": 0.1, "copy": 0.05, "forward": 0.25, "update": 0.4, "log": 0.1, "other": 0.1}
    )
    clock.now += 2.0
    found = made.spans(totals(600, 5, env=1.0, copy=0.5, forward=2.5, update=6.0))
    assert found["charts/agent_steps_per_s"] == 50.0
    assert (
        found["time/update"] == 1.0
        and found["time/env"] == found["time/log"] == found["time/other"] == 0.0
    )


def test_time_that_is_counted_twice_shows(tmp_path: Path) -> None:
    clock = Clock()
    made = reporter(tmp_path, clock)
    clock.now += 1.0
    found = made.spans(totals(1, 1, env=0.75, update=0.75))
    assert found["time/other"] == -0.5


def test_overlap_is_one_where_the_longer_part_hides_the_other(tmp_path: Path) -> None:
    """Four turns; the workers take 2 s for each, so 8 s in all."""
    for seconds, overlap in (
        ({"env": 1.0, "forward": 7.0}, 1.0),
        ({"env": 8.0, "forward": 8.0}, 2.0),
    ):
        clock = Clock()
        made = reporter(tmp_path, clock, step_s=2.0)
        clock.now += 20.0
        assert made.spans(totals(1, 4, **seconds))["charts/overlap"] == overlap
        assert "charts/overlap" not in made.spans(totals(1, 4, **seconds))  # no turn since
    assert "charts/overlap" not in reporter(tmp_path, Clock(), None).spans(totals(1, 4, env=1.0))


def test_time_left_follows_the_speed_of_this_process(tmp_path: Path) -> None:
    clock = Clock()
    made = reporter(tmp_path, clock, total_timesteps=1_000_000)
    made.restart(totals(900_000))  # resumed
    assert made.seconds_left(900_000, 500.0) == math.inf
    clock.now += 10.0
    made.spans(totals(910_000))
    assert made.speed() == 1000.0 and made.seconds_left(910_000, 510.0) == 90.0
    for step in range(
        1, 21
    ):  # Ten times as fast from now on: half a minute later that is all that counts.
        clock.now += 2.0
        made.spans(totals(910_000 + 20_000 * step))
    assert made.speed() == 10_000.0
    assert made.seconds_left(1_310_000, 550.0) == 0.0
    limited = reporter(tmp_path, clock, total_timesteps=10**9, time_limit_s=600.0)
    limited.restart(totals(910_000))
    clock.now += 2.0
    limited.spans(totals(930_000))
    assert (
        limited.seconds_left(1_310_000, 550.0) == 50.0
        and limited.seconds_left(1_310_000, 700.0) == 0.0
    )


def test_seconds_of_a_step_are_the_slowest_workers() -> None:
    times = {0: np.array([[0, 2e9], [0, 3e9]], np.int64), 1: np.array([[1e9, 2e9]], np.int64)}
    vec = SimpleNamespace(
        num_buffers=2, workers=SimpleNamespace(several=True), timing=times.__getitem__
    )
    assert step_seconds(vec) == 4.0
    assert (
        step_seconds(SimpleNamespace(num_buffers=1, workers=SimpleNamespace(several=True))) is None
    )
    with puffervec.make("probe", backend="serial", num_envs=2, num_buffers=2) as serial:
        assert step_seconds(serial) is None


class Shown:
    """A dashboard that keeps what it is shown."""

    def __init__(self) -> None:
        self.lines: list[dict[str, float]] = []

    def show(self, metrics: Any, progress: float) -> None:
        self.lines.append(dict(metrics))

    def note(self, text: str) -> None:
        pass

    def close(self) -> None:
        pass


def test_a_runs_shares_add_up_and_nothing_is_counted_twice(small: Small) -> None:
    shown = Shown()
    config = small(vec={"backend": "threading", "num_workers": 2}, log={"checkpoint_interval_s": 0})
    with Trainer(config, dashboard=shown) as trainer:
        trainer.train()
    assert len(shown.lines) >= 3
    for line in shown.lines:
        shares = [line[f"time/{name}"] for name in TIME_PARTS]
        assert math.fsum(shares) == pytest.approx(1.0, abs=1e-9) and min(shares) > -1e-9
        assert line["charts/overlap"] > 0
    assert all(line["time/log"] > 0 for line in shown.lines[1:])  # the checkpoint before


@pytest.mark.slow
def test_progress_after_a_resume(small: Small, monkeypatch: pytest.MonkeyPatch) -> None:
    """Totals go on, rates count only what the new process does, and the time in between counts
    nowhere.
    """
    config = small(train={"total_timesteps": 150})
    with Trainer(config) as trainer:
        first = trainer.train()
        path = next((trainer.folder / "checkpoints").iterdir())
        kept = trainer.counters.elapsed_s
    shown = Shown()
    with Trainer(
        config.merged({"train": {"total_timesteps": 300}}), checkpoint=path, dashboard=shown
    ) as trainer:
        clock = Clock()
        trainer.reporting._clock = clock
        trainer.reporting.restart(trainer._totals())
        clock.now += 10_000.0  # between its start and `train`
        real = trainer.update

        def update() -> dict[str, float]:
            clock.now += 4.0
            return real()

        monkeypatch.setattr(trainer, "update", update)
        trainer.train()
        metrics = read_metrics(trainer.files.log.path)  # type: ignore[union-attr]
        marker = [
            line for line in trainer.files.log.path.read_text().splitlines() if "event" in line
        ]  # type: ignore[union-attr]
    line = shown.lines[0]
    done = line["step"] - first["step"]
    assert line["update"] == first["update"] + 1 and 0 < done < 100
    assert line["span_s"] == 4.0 and line["charts/agent_steps_per_s"] == done / 4.0
    assert kept <= line["elapsed_s"] - 4.0 < kept + 60.0
    assert line["charts/seconds_left"] == pytest.approx((300 - line["step"]) / (done / 4.0))
    assert [m["step"] for m in metrics][-len(shown.lines) :] == [m["step"] for m in shown.lines]
    assert len(marker) == 1 and f'"step": {first["step"]}' in marker[0]
