# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""bench/bottlenecks.py and bench/uneven.py: each cause is really switched on. Times are measured here but not judged."""

from __future__ import annotations

import importlib.util
import json
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from bench import bottlenecks, runs, uneven
from puffervec.train import Trainer
from puffervec.train.collect import device_turn

SMALL = {"vec": {"num_envs": 8, "backend": "serial"}, "train": {"horizon": 4}, "policy": {"hidden": (8,)}}


class Recorded(TorchDispatchMode):
    """Notes the operations that run within the block."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.add(func.overloadpacket.__name__)
        return func(*args, **(kwargs or {}))


@pytest.fixture
def trainer(tmp_path: Path) -> Any:
    run = runs.Run("probe", SMALL)
    with Trainer(runs.config_of(run, "cpu").merged({"log": {"folder": str(tmp_path)}})) as made:
        yield made


def test_a_burden_is_carried_at_every_turn(trainer: Trainer) -> None:
    calls = []
    bottlenecks.put_on(trainer.vec, lambda: calls.append(1))
    assert trainer.collect()
    assert len(calls) == 2 * 4  # halves x horizon


@pytest.mark.parametrize("cause", ["synchronisation", "copies", "shared device"])
def test_every_cause_does_something(trainer: Trainer, cause: str) -> None:
    found = bottlenecks.causes(torch.device("cpu"), 1e-5)[cause]
    assert found.burden is not None
    carried = found.burden(trainer)
    with Recorded() as recorded:
        carried()
    assert {"synchronisation": "_local_scalar_dense", "copies": "clone", "shared device": "mm"}[cause] in recorded.names
    assert ("stand-in" in found.what) == (cause != "synchronisation")


def test_on_cuda_pageable_copies_take_the_place_of_those_from_pinned_memory() -> None:
    cause = bottlenecks.causes(torch.device("cuda"), 1e-5)["copies"]
    assert cause.burden is None  # or rows would be copied once more
    before = device_turn.pin
    with cause.around():
        assert device_turn.pin is not before and not device_turn.pin(torch.zeros(1), cause)
    assert device_turn.pin is before


def test_the_shared_load_is_measured_on_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[int] = []
    monkeypatch.setattr(time, "perf_counter", lambda: float(threads.append(torch.get_num_threads()) or len(threads)))
    bottlenecks._product_s(torch.eye(2), 1)
    assert threads and set(threads) == {1}


def test_sleepers_take_the_same_time_on_the_mean() -> None:
    times = []
    for even in (True, False):
        env = uneven.uneven_env(even)
        env.reset(seed=3)
        times.append(env.unwrapped._times)
    same, drawn = times
    assert len(set(same)) == 1 and len(set(drawn)) > 1000
    assert sum(same) == pytest.approx(sum(drawn))


def test_stragglers_are_stepped_three_ways() -> None:
    found = {way: bottlenecks.straggler_config(False, vec, "cpu").vec for way, vec in bottlenecks.STRAGGLERS.items()}
    assert (found["all at once"].num_buffers, found["two halves"].num_buffers, found["first come"].batch_size) == (1, 2, 4)


def test_the_table_says_what_is_left() -> None:
    rates = {"off": [100.0, 200.0], "on": [50.0, 100.0]}
    taken = {name: [{"agent_steps_per_s": rate, "facts": {}} for rate in found] for name, found in rates.items()}
    found = bottlenecks.row("copies", "what", "off", "on", taken)
    assert found["left"].median == 0.5 and found["off"].median == 150.0


@pytest.mark.slow
def test_the_command_measures_and_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(runs, "RUNS", {"probe": runs.Run("probe", SMALL)})
    written = tmp_path / "r.json"
    assert bottlenecks.main(["--env", "probe", "--seconds", "0.01", "--repeats", "1", "--json", str(written)]) == 0
    text = written.read_text()
    rows = json.loads(text)["results"]
    assert str(tmp_path) not in text and all(row["facts"]["parameters"] > 0 for row in rows)
    if importlib.util.find_spec("matplotlib"):
        assert written.with_suffix(".png").stat().st_size > 1000
    assert [row["cause"] for row in rows] == ["synchronisation", "copies", "shared device", *["stragglers"] * 3]
    assert "what four causes cost" in capsys.readouterr().out


def test_bad_input_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert bottlenecks.main(["--env", "nothing"]) == 2
    assert capsys.readouterr().err == "error: --env is 'nothing': use one of drive, drive-500k, tag_grid\n"
