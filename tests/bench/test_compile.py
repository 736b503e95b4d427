# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""bench/compile.py in short, with a compiler that changes nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench import compile as bench

SHORT = ["--seconds", "0.001", "--repeats", "2"]
SMALL = (bench.Case("small", "probe", 32, hidden=(8,)), bench.Case("small", "probe", 16, bf16=True, hidden=(8,)))


def test_table_and_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "out.json"
    assert bench.main([*SHORT, "--json", str(path)], SMALL, "eager") == 0
    out = capsys.readouterr().out
    assert "pays after" in out and out.count("small") == 2
    found = json.loads(path.read_text())
    assert found["benchmark"] == "compile" and found["machine"]["foreign_load"] >= 0
    for result, case in zip(found["results"], SMALL, strict=True):
        assert (result["case"]["samples"], result["case"]["bf16"]) == (case.samples, case.bf16)
        assert result["eager_ms"]["median"] > 0 and result["compiling_s"] > 0 and len(result["ratio"]["samples"]) == 2
        assert result["loss"] == "C"
        ratio, pays = result["ratio"]["median"], result["pays_after_s"]
        assert pays is None if ratio >= 1 else pays == pytest.approx(result["compiling_s"] / (1 - ratio))


def test_the_loss_in_c_is_what_many_rows_are_compared_with(monkeypatch: pytest.MonkeyPatch) -> None:
    gradients, _ = bench.gradients_of(bench.Case("large", "probe", 25_600, hidden=(8,)))
    assert bench.loss_of(gradients) == "C"
    monkeypatch.setattr("puffervec.train.learn.updater.fits", lambda *given: False)
    assert bench.loss_of(gradients) == "torch"


def test_without_a_compiler(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(bench, "missing_compiler", lambda device: "there is no C++ compiler")
    assert bench.main(SHORT) == 1 and "no C++ compiler" in capsys.readouterr().err
