# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""bench/sps.py in short: tables, keys, arithmetic. No figure is judged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench import sps
from bench.modes import Mode, PolicyChoice, Sample
from bench.workloads import Shares, preset

SHORT = ["--num-envs", "8", "--seconds", "0.01", "--warmup", "0.005", "--repeats", "1"]


def _run(tmp_path: Path, *arguments: str) -> dict[str, Any]:
    path = tmp_path / "out.json"
    assert sps.main([*SHORT, "--json", str(path), *arguments]) == 0
    found: dict[str, Any] = json.loads(path.read_text())
    return found


@pytest.mark.slow
def test_a_wait_gives_gain_and_overlap_and_a_timeline(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    png = tmp_path / "t.png"
    more = ["--png", str(png), "--trace-turns", "6", "--trace-split", "envs"]
    document = _run(
        tmp_path,
        "--envs",
        "probe",
        "--workers",
        "1",
        "--modes",
        "multi,envs",
        "--policy-ms",
        "0.1",
        *more,
    )
    rows = {(row["mode"], row["policy"]): row for row in document["results"]["rows"]}
    assert set(rows) == {
        (mode, policy)
        for mode in ("multiprocess", "double, split envs")
        for policy in ("none", "wait")
    }
    double = rows["double, split envs", "wait"]
    assert (
        double["overlap"]["median"] > 0
        and double["gain"]["median"] > 0
        and double["half_ms"]["median"] > 0
    )
    assert rows["multiprocess", "wait"]["efficiency"] is None, (
        "a policy's time is no part of the simulation limit"
    )
    text = capsys.readouterr().out
    assert "policy wait" in text and str(png) in text
    assert png.read_bytes()[:4] == b"\x89PNG"


def _prepared() -> sps.Prepared:
    return sps.Prepared(
        preset("probe", 8),
        {},
        Shares(8.0, 16.0),
        1e-3,
        (PolicyChoice(), PolicyChoice("wait", half_s=3e-3)),
    )


def test_efficiency_is_throughput_over_cores_times_the_c_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two cores step all envs in 0.625 ms where one thread takes 1 ms: 1 / (2 x 0.625) = 80 %."""
    monkeypatch.setattr("bench.modes.usable_cores", lambda: 2)
    mode, none = Mode("multiprocess", "multiprocessing", 2), PolicyChoice()
    samples = [Sample(0.625e-3, 0.0), Sample(1.25e-3, 0.0)]
    results: dict[str, list[Any]] = {
        sps._key(mode, none): samples,
        "limit": [1e-3, 2e-3],
        sps._ceiling_key(2): [0.6e-3, 1.2e-3],
    }
    row = sps._row(_prepared(), mode, none, [mode], results)
    assert row.efficiency is not None and row.efficiency.samples == pytest.approx((0.8, 0.8))
    assert row.of_ceiling is not None and row.of_ceiling.samples == pytest.approx((0.96, 0.96)), (
        "two loops at once: 0.6 ms"
    )
    assert row.env_steps_per_s.samples == pytest.approx((8 / 0.625e-3, 8 / 1.25e-3))
    assert row.agent_steps_per_s.median == pytest.approx(2 * row.env_steps_per_s.median)
    assert row.iteration_us.samples == row.turn_us.samples == pytest.approx((625.0, 1250.0))


def test_overlap_and_gain_follow_the_definitions(monkeypatch: pytest.MonkeyPatch) -> None:
    """A double-buffered iteration of 6.6 ms, policy 3 ms per half, simulation 2 ms per half: 6.6 /
    (2 x 3) = 1.1.
    """
    monkeypatch.setattr("bench.modes.usable_cores", lambda: 2)
    monkeypatch.setattr("bench.sps.usable_cores", lambda: 2)
    single, double = (
        Mode("multiprocess", "multiprocessing", 2),
        Mode("double, split workers", "multiprocessing", 4, 2),
    )
    wait = PolicyChoice("wait", half_s=3e-3)
    results: dict[str, list[Any]] = {
        sps._key(single, wait): [Sample(9.9e-3, 6e-3)],
        sps._key(double, wait): [Sample(6.6e-3, 3e-3)],
        sps._half_key(2): [2e-3],
        "limit": [4e-3],
    }
    row = sps._row(_prepared(), double, wait, [single, double], results)
    assert row.overlap is not None and row.overlap.median == pytest.approx(1.1)
    assert row.gain is not None and row.gain.median == pytest.approx(1.5)
    assert row.turn_us.median == pytest.approx(3300.0) and row.efficiency is None
    results[sps._half_key(2)] = [4e-3]
    slower = sps._row(_prepared(), double, wait, [single, double], results)
    assert slower.overlap is not None and slower.overlap.median == pytest.approx(6.6 / 8), (
        "the simulation is the longer one"
    )
