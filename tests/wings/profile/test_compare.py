# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Reports and comparisons (puffervec/wings/profile/report.py, compare.py), modes side by side
(puffervec/wings/profile/ablation.py), pictures (puffervec/wings/profile/pictures.py)."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from puffervec.errors import ConfigError
from puffervec.wings.profile.ablation import MODES, Mode, ablation, ablation_table
from puffervec.wings.profile.compare import compare, difference
from puffervec.wings.profile.counts import Counts
from puffervec.wings.profile.pictures import picture
from puffervec.wings.profile.report import Report, about, read_report
from puffervec.wings.profile.sweep import Sweep
from puffervec.wings.profile.timing import Latency
from tests.wings.profile.test_timing import FakeClock

VALUES = (1, 2, 4)
CPU = torch.device("cpu")


def report(
    a: float,
    b: float,
    waits: int,
    actions: tuple[float, ...] | None = (1.0, 2.0),
    knob: str = "num_steps",
) -> Report:
    """Of something that takes a + b n ms."""

    def times(n: int) -> tuple[float, ...]:
        return tuple(a + b * n + jitter for jitter in (-0.1, 0.0, 0.1))

    points = tuple(Latency(f"{knob}={n}", times(n)) for n in VALUES)
    call = Latency("call", times(10), None, Counts(30, waits, waits, "operations"), actions)
    return Report(about(CPU, target="here", seed=0), (call,), Sweep(knob, VALUES, points))


def test_a_report_is_read_as_it_was_written(tmp_path: Path) -> None:
    written = report(2.0, 0.5, 11)
    on_device = dataclasses.replace(
        written.latencies[0], name="phase", device=(1.0, 2.0), counts=None, per_iteration=2.0
    )
    written = dataclasses.replace(written, latencies=(*written.latencies, on_device))
    written.save(tmp_path / "a.json")
    assert read_report(tmp_path / "a.json") == written
    shown = json.loads((tmp_path / "a.json").read_text())
    assert shown["latencies"][0]["stats_ms"]["wall"]["p50"] == pytest.approx(7.0)
    assert shown["sweep"]["fit"]["b"] == pytest.approx(0.5)
    assert "T = 2.000 ms + 0.5000 ms x num_steps" in str(written) and "share" in str(written)


@pytest.mark.parametrize(
    "text",
    ["", "{}", "[1]", "\xff", '{"format": "puffervec profile 2"}',
     '{"format": "puffervec profile 1"}',
     '{"format": "puffervec profile 1", "about": {}, "latencies": [{"name": "a"}], "sweep": null}',
     '{"format": "puffervec profile 1", "about": {}, "latencies": [], "sweep": {"knob": "a", '
     '"values": [1], "points": []}}'],
)  # fmt: skip
def test_a_file_that_is_no_report_is_refused_in_one_line(text: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(text, encoding="latin-1")
    with pytest.raises(
        ConfigError, match="a.json is not a report of puffer-train profile"
    ) as refused:
        read_report(tmp_path / "a.json")
    assert "\n" not in str(refused.value)
    with pytest.raises(ConfigError, match="none.json: No such file"):
        read_report(tmp_path / "none.json")


def test_before_and_after() -> None:
    found = compare(report(14.0, 0.8, 11), report(14.0, 0.6, 0, (1.0, 2.25)))
    by_key = {change.key: change for change in found.changes}
    assert by_key["a"].percent == pytest.approx(0.0, abs=1e-6) and by_key[
        "b"
    ].percent == pytest.approx(-25.0)
    assert by_key["median"].before == pytest.approx(22.0) and by_key[
        "median"
    ].after == pytest.approx(20.0)
    assert {"p95", "p99", "launches", "copies"} <= set(by_key)
    assert by_key["synchronisations"].measured == -11 and by_key["actions"].after == 0.25
    assert "largest difference of the actions" in str(found) and "-25.0 %" in str(found)


def test_limits_are_for_what_gets_worse() -> None:
    found = compare(report(14.0, 0.6, 0), report(14.0, 0.8, 11, (1.0, 2.25)))
    broken = found.above({"b": 10, "synchronisations": 0, "actions": 1e-6, "a": 1})
    assert [text.split(":")[0] for text in broken] == [
        "b, per num_steps, ms", "synchronisations", "largest difference of the actions",
    ]  # fmt: skip
    assert found.above({"b": 50, "synchronisations": 11, "actions": 0.25}) == []
    assert (
        compare(report(14.0, 0.8, 11), report(14.0, 0.6, 0)).above(
            {"b": 0, "launches": 0, "copies": 0, "actions": 0}
        )
        == []
    )


def test_a_limit_on_what_was_not_measured_is_refused() -> None:
    without = report(1.0, 1.0, 0, None)
    found = compare(without, without)
    assert "the actions are not compared" in str(found)
    with pytest.raises(ConfigError, match="--limit actions: the two reports do not both have it"):
        found.above({"actions": 0.0})


def test_what_has_nothing_in_common_is_refused() -> None:
    with pytest.raises(ConfigError, match="nothing|no call"):
        compare(
            Report({}, (Latency("a", (1.0,)), Latency("b", (1.0,)))),
            Report({}, (Latency("c", (1.0,)),)),
        )
    other = dataclasses.replace(report(1.0, 1.0, 0), about={"torch": "another"})
    assert "torch differs" in str(compare(report(1.0, 1.0, 0, knob="batch"), other))


@pytest.mark.parametrize(
    ("before", "after", "apart"),
    [((1.0, math.nan), (1.0, math.nan), 0.0), ((1.0,), (math.nan,), math.inf),
     ((math.inf,), (math.inf,), 0.0), ((1.0, 2.0), (1.0,), math.inf),
     ((-1.0, 2.0), (1.0, 2.0), 2.0)],
)  # fmt: skip
def test_differences_of_actions(
    before: tuple[float, ...], after: tuple[float, ...], apart: float
) -> None:
    assert difference(before, after) == apart


# ---- modes, pictures, traces ---------------------------------------------------------------------


def test_modes_side_by_side() -> None:
    clock = FakeClock()

    def work() -> torch.Tensor:
        clock.work(8)
        return torch.ones(2)

    def twice_as_fast(made_from: Callable[[], Any]) -> Callable[[], Any]:
        clock.work(3000)

        def work() -> torch.Tensor:
            clock.work(4)
            return torch.tensor([1.0, 1.5])

        return work

    def broken(work: Any) -> Any:
        raise RuntimeError("no compiler")

    modes = {
        "eager": MODES["eager"],
        "fast": Mode(twice_as_fast),
        "gpu": Mode(broken, cuda=True),
        "broken": Mode(broken),
    }
    entries = ablation(
        work, modes={**modes, "own": lambda: work}, iterations=3, warmup=0, now=clock, device="cpu"
    )
    by_name = {entry.mode: entry for entry in entries}
    assert list(by_name) == ["eager", "fast", "gpu", "broken", "own"]
    fast = by_name["fast"]
    assert fast.latency is not None and fast.latency.median == pytest.approx(4.0)
    assert (
        fast.ready_s == pytest.approx(3.004)
        and fast.difference == 0.5
        and by_name["own"].difference == 0.0
    )
    assert (
        by_name["gpu"].why == "needs a GPU" and by_name["broken"].why == "RuntimeError: no compiler"
    )
    assert fast.speed == pytest.approx(2.0) and "2.00x" in ablation_table(entries)


# What torch's own modules warn of.
COMPILER = pytest.mark.filterwarnings(
    "ignore:.torch.jit.script:DeprecationWarning",
    "ignore:.*should not be instantiated:DeprecationWarning",
)


@pytest.mark.slow
@COMPILER
def test_modes_that_a_cpu_can_run() -> None:
    x, layer = torch.randn(4, 8), torch.nn.Linear(8, 8)
    with torch.no_grad():
        entries = ablation(lambda: layer(x + torch.rand(8)), iterations=3, warmup=1, device="cpu")
    ran = {entry.mode: entry for entry in entries if entry.latency is not None}
    wanted = {"eager", "compile", "compile, max-autotune-no-cudagraphs", "compile, max-autotune"}
    assert set(ran) == wanted, ablation_table(entries)
    assert all(entry.difference < 1e-5 for entry in ran.values())


@pytest.mark.gpu
@COMPILER
@pytest.mark.filterwarnings("default::UserWarning")  # of Inductor, which gives advice
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
def test_modes_on_a_gpu() -> None:
    x, layer = torch.randn(4, 8, device="cuda"), torch.nn.Linear(8, 8, device="cuda")
    with torch.no_grad():
        entries = ablation(lambda: layer(x), iterations=5, warmup=3)
    assert all(entry.latency is not None and entry.difference < 1e-4 for entry in entries), (
        ablation_table(entries)
    )


@pytest.mark.slow
def test_a_picture_of_boxes_and_lines(tmp_path: Path) -> None:
    """Of a phase with times on a device beside a call without, and a sweep each."""
    phase = Latency("phase", (1.0, 2.0), (0.5, 0.6), per_iteration=1.0)
    reports = [report(2.0, 0.5, 0), dataclasses.replace(report(2.0, 0.4, 0), latencies=(phase,))]
    drawn = picture(reports, tmp_path / "a.svg", ["before", "after"])
    assert drawn.read_bytes().startswith(b"<?xml")
