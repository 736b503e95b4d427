# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""bench/sharded.py: what it reckons from its samples; in short, the whole command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench import sharded


def run(step_s: float, peak: float, width: int) -> dict[str, dict[str, float]]:
    return {"weak, all kept": {"step_s": step_s, "peak_bytes": peak * 2**20, "width": width}}


def test_rows_and_tables() -> None:
    runs = {
        "1": [run(0.1, 8, 64), run(0.2, 8, 64), run(0.1, 8, 64)],
        "2": [run(0.2, 4, 128), run(0.4, 4, 128), run(0.4, 4, 128)],
    }
    one, two = sharded.summary(runs)
    assert (one["ranks"], two["ranks"], two["width"]) == (1, 2, 128)
    assert (
        two["step_ms"]["median"] == 400
        and two["times_one_rank"]["median"] == 2.0
        and two["of_one_rank"] == 0.5
    )
    assert "| weak, all kept | 2 | 128 |" in sharded.markdown({"measured": [one, two]})


@pytest.mark.slow
def test_the_command_in_short(tmp_path: Path) -> None:
    path, png = tmp_path / "results.json", tmp_path / "plot.png"
    short = [
        "--size",
        "tiny",
        "--ranks",
        "1",
        "2",
        "--steps",
        "1",
        "--repeats",
        "1",
        "--json",
        str(path),
        "--png",
        str(png),
    ]
    assert sharded.main(short) == 0 and png.stat().st_size > 1000
    results = json.loads(path.read_text())["results"]
    assert len(results["measured"]) == 8
    assert all(row["step_ms"]["median"] > 0 and row["peak_mib"] > 0 for row in results["measured"])


def test_too_few_gpus_are_told_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("torch.cuda.device_count", lambda: 1)
    assert sharded.main(["--device", "cuda", "--ranks", "2"]) == 2
    assert capsys.readouterr().err == "error: --device cuda: 1 GPUs for [2] ranks\n"
