# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""What is left behind where a number is not finite (puffervec/train/run/diverged.py); whole runs
are in tests/faults.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from puffervec.train.collect.storage import Storage
from puffervec.train.run import diverged as module
from puffervec.train.run.diverged import Diverged, diverged
from tests.train.fakes import group


def storage() -> Storage:
    return Storage(group(("x", (3,))), 2, 4, torch.device("cpu"), None)


def left(tmp_path: Path, of: Storage) -> tuple[str, dict[str, dict[str, float]]]:
    path = tmp_path / "diverged.json"
    error = diverged(
        path, ["losses/value"], {"default": of}, {"agent_steps": 7}, {"losses/value": math.nan}
    )
    assert isinstance(error, Diverged) and isinstance(error, ArithmeticError)
    found = json.loads(path.read_text())
    assert found["losses"] == {"losses/value": "nan"} and found["counters"] == {"agent_steps": 7}
    return str(error), found["rollout"]


@pytest.mark.parametrize("bad", ["obs", "rewards"])
def test_numbers_from_the_env_are_traced_to_it(bad: str, tmp_path: Path) -> None:
    of = storage()
    of.tensors()[bad][1, 2] = math.inf
    text, stats = left(tmp_path, of)
    assert f"the env returned a non-finite default.{bad}, first in row 2 of step 1" in text
    assert stats[f"default.{bad}"]["finite"] < 1


def test_else_the_settings_are_suspected(tmp_path: Path) -> None:
    of = storage()
    of.values[0, 0] = math.nan
    of.first_states = {0: (torch.full((4, 2), 3.0),)}
    text, stats = left(tmp_path, of)
    assert (
        "losses/value is not a finite number after 7 agent-steps" in text
        and "smaller train.lr" in text
    )
    assert stats["default.state.0"] == {"finite": 1.0, "min": 3.0, "max": 3.0}


def test_the_roll_out_can_be_looked_at_and_nothing_is_written_over(tmp_path: Path) -> None:
    of = storage()
    of.first_states = {0: (torch.arange(8.0).view(4, 2),)}
    for name, value in (("diverged", 1.0), ("diverged-2", 2.0)):
        of.rewards.fill_(value)
        error = diverged(tmp_path / "diverged.json", ["x"], {"default": of}, {"agent_steps": 1}, {})
        assert f"{name}.json" in str(error) and (tmp_path / f"{name}.json").is_file()
    for name, value in (("diverged", 1.0), ("diverged-2", 2.0)):
        found = load_file(tmp_path / f"{name}.safetensors")
        assert found["default.rows"].tolist() == [0, 1, 2, 3]
        torch.testing.assert_close(found["default.rewards"], torch.full((3, 4), value))
        torch.testing.assert_close(found["default.state.0"], torch.arange(8.0).view(4, 2))
        assert set(found) == {f"default.{name}" for name in (*of.tensors(), "rows", "state.0")}


def test_of_large_roll_outs_the_bad_rows_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of = storage()
    of.tensors()["obs"][1, 2] = math.inf
    monkeypatch.setattr(
        module, "MOST_BYTES", 2 * sum(tensor.nbytes for tensor in of.tensors().values()) // 4
    )
    monkeypatch.setattr(module, "MOST_TIMES", 1)
    for _ in range(2):
        diverged(tmp_path / "diverged.json", ["x"], {"default": of}, {"agent_steps": 1}, {})
    found = load_file(tmp_path / "diverged.safetensors")
    assert found["default.rows"].tolist() == [2, 0] and found["default.obs"].shape == (3, 2, 3)
    assert bool(found["default.obs"][1, 0].isinf().all()) and bool(
        found["default.obs"][:, 1].isfinite().all()
    )
    assert (tmp_path / "diverged-2.json").is_file() and not (
        tmp_path / "diverged-2.safetensors"
    ).exists()


def test_a_full_disk_does_not_hide_the_error(tmp_path: Path) -> None:
    error = diverged(
        tmp_path / "gone" / "d.json", ["x"], {"default": storage()}, {"agent_steps": 1}, {}
    )
    assert "not a finite number" in str(error)
