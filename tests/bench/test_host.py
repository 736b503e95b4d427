# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""bench/host.py in short. What it measures is judged by people, not here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from bench import common, host

CPU = torch.device("cpu")


def test_both_loops_are_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str], no_leaks: None) -> None:
    path = tmp_path / "out.json"
    assert host.main(["--seconds", "0.001", "--repeats", "2", "--json", str(path)]) == 0
    costs = json.loads(path.read_text())["results"]
    assert [cost["loop"] for cost in costs] == ["a CPU's loop", "a GPU's loop, on a CPU"]
    for cost in costs:
        parts = [cost[part]["median"] for part in ("receive_and_send", "act", "wait")]
        assert len(cost["host"]["samples"]) == 2 and cost["met"] is None and cost["wait"]["median"] == 0
        assert 0 < max(parts) <= cost["host"]["median"]
    assert "a GPU's loop, on a CPU" in capsys.readouterr().out


def test_the_parts_add_up() -> None:
    """What is left is bookkeeping between the parts."""
    found = host.sample(CPU, True, 0.01)
    assert found["receive_and_send"] + found["act"] + found["wait"] <= found["host"]
    assert found["act"] > 0 and found["receive_and_send"] > 0


def test_a_target_is_met_below_it() -> None:
    def cost(us: float, target: float | None) -> host.Cost:
        figure = common.figure([us])
        return host.Cost("loop", figure, figure, figure, figure, target)

    assert [cost(59.9, 60.0).met, cost(60.0, 60.0).met, cost(60.0, None).met] == [True, False, None]


def test_a_device_that_is_not_there_is_an_error_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert host.main(["--device", "abacus"]) == 2
    assert "abacus" in capsys.readouterr().err


@pytest.mark.gpu
def test_the_host_is_done_with_a_vector_step_within_the_target() -> None:
    assert host.sample(torch.device("cuda"), True, 1.0)["host"] < host.TARGET_US
