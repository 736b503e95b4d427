# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
from __future__ import annotations

import dataclasses
import json
import os
import struct
import sys
from pathlib import Path
from typing import Any

import pytest

from puffervec.commands import plot
from puffervec.contract.drawing import PALETTE
from puffervec.errors import ConfigError, MissingExtraError
from puffervec.train.metrics.keys import TIME_PARTS

pytest.importorskip("matplotlib")


def line(step: int, **values: Any) -> dict[str, Any]:
    shares = {f"time/{part}": 1 / len(TIME_PARTS) for part in TIME_PARTS}
    return {
        "step": step,
        "elapsed_s": step / 10,
        "charts/agent_steps_per_s": 10.0,
        **shares,
        **values,
    }


def write(folder: Path, lines: list[dict[str, Any]], torn: str = "") -> Path:
    folder.mkdir(exist_ok=True)
    head = {"schema_version": 1, "env": "probe"}
    (folder / "metrics.jsonl").write_text(
        "".join(json.dumps(item) + "\n" for item in [head, *lines]) + torn
    )
    return folder


def test_latest_is_the_run_that_was_started_last(tmp_path: Path) -> None:
    for number, name in enumerate(("b", "c", "a", "silent")):
        folder = tmp_path / name
        folder.mkdir()
        if name != "silent":
            write(folder, [line(1)])
        (folder / "run.json").write_text("{}")
        os.utime(folder / "run.json", (number, number))
    assert plot.resolve("latest", tmp_path) == str(tmp_path / "a")
    assert plot.resolve("b", tmp_path) == "b"
    with pytest.raises(ConfigError, match="no run in .* has a metrics.jsonl"):
        plot.resolve("latest", tmp_path / "a")


def test_what_a_resumed_run_did_again_counts_once(tmp_path: Path) -> None:
    steps = [(10, 1.0), (20, 2.0), (30, 3.0), (20, 5.0), (30, 6.0), (40, None)]
    logged = [line(s, **{"episode/return": v}) for s, v in steps]
    logged.insert(3, {"event": "resumed", "step": 10})
    run = plot.read_run(write(tmp_path / "r", logged, '{"step": 50, "epi'))
    assert [item["step"] for item in run.lines] == [10, 20, 30, 40] and (run.name, run.env) == (
        "r",
        "probe",
    )
    xs, ys = run.curve("steps", "episode/return")
    assert (xs.tolist(), ys.tolist()) == ([10, 20, 30], [1, 5, 6])  # what is not known is left out


def titled(figure: Any) -> dict[str, Any]:
    return {axis.get_title(): axis for axis in figure.axes if axis.get_title()}


def lines_of(axis: Any) -> list[Any]:
    """The curves, without those that only stand in a legend."""
    return [found for found in axis.get_lines() if len(found.get_xdata())]


@pytest.mark.slow
def test_panels_of_several_runs_and_policies(tmp_path: Path) -> None:
    one = plot.read_run(
        write(
            tmp_path / "one", [line(i, **{"losses/value": i, "env/score": 0.5}) for i in (1, 2, 3)]
        )
    )
    two = {"losses/scouts/value": 1.0, "losses/towers/value": 2.0}
    other = plot.read_run(write(tmp_path / "two", [line(i, **two) for i in (1, 2)]))
    figure = plot.draw([one, other], plot.Request(smooth=0))
    panels = titled(figure)
    assert list(panels) == ["env/score", "losses/value", "charts/agent_steps_per_s", "time split"]
    found = lines_of(panels["losses/value"])
    assert [item.get_color() for item in found] == [
        PALETTE[0],
        PALETTE[1],
        PALETTE[1],
    ]
    assert len({item.get_linestyle() for item in found[1:]}) == 2
    assert sum(bar.get_width() for bar in panels["time split"].patches) == pytest.approx(
        2.0
    )  # 1 per run
    assert "2 runs" in figure.get_suptitle()
    assert (
        panels["env/score"].get_ylabel().startswith("share")
        and panels["env/score"].get_xlabel() == "agent-steps"
    )


def test_seeds_and_envs(tmp_path: Path) -> None:
    """Seeds are one line in a band; another env has axes of its own."""
    runs = []
    for seed in (1, 2, 3):
        folder = write(
            tmp_path / f"pole-s{seed}",
            [line(i, **{"episode/return": float(i * seed)}) for i in (1, 2, 3)],
        )
        runs.append(plot.read_run(folder))
    runs = [dataclasses.replace(run, config={"train": {"seed": i}}) for i, run in enumerate(runs)]
    alone = dataclasses.replace(runs[0], env="other", config={})
    figure = plot.draw([*runs, alone], plot.Request(metrics="return"))
    panels = titled(figure)
    assert list(panels) == ["probe: episode/return", "other: episode/return"]
    (mean,) = lines_of(panels["probe: episode/return"])
    assert (
        mean.get_ydata()[-1] == pytest.approx(6.0)
        and len(panels["probe: episode/return"].collections) == 1
    )
    assert "lowest to highest seed" in [text.get_text() for text in figure.legends[0].get_texts()]
    apart = plot.draw(runs, plot.Request(metrics="return", smooth=0, join=False))
    assert len(lines_of(titled(apart)["episode/return"])) == 3


@pytest.mark.slow
def test_a_picture_is_written(tmp_path: Path) -> None:
    folder = write(tmp_path / "r", [line(i, **{"episode/return": float(i)}) for i in (1, 2, 3)])
    path = plot.plot_runs([str(folder)])
    assert path == folder / "plot.png"
    data = path.read_bytes()
    width, height = struct.unpack(">II", data[16:24])
    assert data[:4] == b"\x89PNG" and width > 900 and height > 300


@pytest.mark.parametrize(
    ("where", "out", "words"),
    [
        (["none"], None, "none does not exist: give run folders"),
        (["r"], "a.jpg", "must end in .png"),
        (["r"], "none/a.png", "there is no folder"),
        (["empty"], None, "no metrics yet"),
        (["other"], None, "schema_version 7"),
        (["broken"], None, "cannot be read"),
    ],
)
def test_bad_input(
    where: list[str],
    out: str | None,
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "r", [line(1)])
    write(tmp_path / "empty", [])
    for name, text in (("other", '{"schema_version": 7}\n'), ("broken", "\x00")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "metrics.jsonl").write_text(text)
    with pytest.raises(ConfigError, match=words):
        plot.plot_runs(where, None if out is None else Path(out))
    assert not list(tmp_path.rglob("*.png"))


def test_without_matplotlib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"puffervec\[plot\]"):
        plot.check_request(["run"], tmp_path / "a.png", plot.Request())
