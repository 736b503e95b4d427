# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""bench/sampling.py in short; and, slow, that drawing is at least three times as fast as `Categorical` from 20 choices on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from bench import sampling


def test_table_and_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "out.json"
    flags = ["--actions", "5,20", "--rows", "8", "--seconds", "0.001", "--repeats", "2", "--json", str(path)]
    assert sampling.main(flags) == 0
    few, many = json.loads(path.read_text())["results"]
    assert (few["actions"], few["rows"], few["met"], many["actions"]) == (5, 8, None, 20)
    assert many["met"] == (many["gain"]["median"] >= 3) and len(many["gain"]["samples"]) == 2
    assert "x as fast" in capsys.readouterr().out


def test_both_draw_as_many_actions_of_the_same_logits() -> None:
    theirs, ours = (work() for work in sampling.works(3, 4))
    assert isinstance(theirs, torch.Tensor) and theirs.shape == (4,)
    assert isinstance(ours, tuple) and ours[0].shape == (4, 1) and ours[1].shape == (4,)


@pytest.mark.parametrize("flags", [["--actions", "x"], ["--rows", "0"]])
def test_bad_input_is_one_line(flags: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert sampling.main(flags) == 2
    assert "whole numbers of at least 1" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("rows", [256, 2048])
@pytest.mark.parametrize("actions", [20, 91])
def test_at_least_three_times_as_fast_from_20_choices_on(actions: int, rows: int) -> None:
    """CPU time and turns about, so that a loaded machine changes neither side alone."""
    with sampling.one_torch_thread():
        result, _ = sampling.measure(actions, rows, 0.2, 3, lambda text: None)
    assert result.gain.median >= 3, result
