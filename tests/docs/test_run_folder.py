# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""docs/run-folder.md: its code runs, and its tables list what a run writes, neither more nor less;
that of the metrics is that of puffervec/train/metrics/keys.py.
"""

from __future__ import annotations

import fnmatch
import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch

from puffervec.train import TrainConfig, Trainer
from puffervec.train.metrics.keys import METRICS
from puffervec.train.metrics.log import METRICS_FILE, read_metrics
from puffervec.train.metrics.trackers import TENSORBOARD_FOLDER
from puffervec.train.metrics.usage import Usage
from tests.docs import pages

FILE = pages.ROOT / "docs" / "run-folder.md"
PAGE = FILE.read_text(encoding="utf-8")


def table(head: str) -> dict[str, list[str]]:
    """Return the rows of the table under a head row by the names in their first cell, each with the
    other cells.
    """
    rows = PAGE.partition(f"| {head} |")[2].partition("\n\n")[0].splitlines()[2:]
    cells = [[cell.strip() for cell in row.strip("| ").split(" | ")] for row in rows]
    return {name: rest for first, *rest in cells for name in re.findall(r"`([^`]+)`", first)}


FILES, STARTS = table("file | what it holds"), table("key | meaning")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run with workers, episodes and a resume."""
    pytest.importorskip("tensorboard", reason="needs tensorboard")
    tables: dict[str, Any] = {
        "env": {"num_agents": 2, "episode_length": 5, "end_kind": 2},
        "vec": {"num_envs": 4, "num_workers": 2},
        "train": {"horizon": 8, "device": "cpu", "total_timesteps": 200},
        "log": {
            "dashboard": "off",
            "folder": str(tmp_path_factory.mktemp("runs")),
            "name": "r",
            "tensorboard": True,
        },
    }
    config = TrainConfig.of("probe", **tables)
    with Trainer(config) as trainer:
        trainer.train()
        path = next((trainer.folder / "checkpoints").iterdir())
    longer = config.merged({"train": {"total_timesteps": 300}, "vec": {"backend": "serial"}})
    with Trainer(longer, checkpoint=path) as trainer:
        trainer.train()
        return trainer.folder


def test_the_table_of_metrics_is_that_of_the_code() -> None:
    rows = [
        f"| `{key}` | {metric.unit} | {metric.meaning} | {metric.present} |"
        for key, metric in METRICS.items()
    ]
    expected = "\n".join(["| metric | unit | meaning | present |", "|---|---|---|---|", *rows])
    assert f"\n{expected}\n\n" in PAGE, f"docs/run-folder.md needs this table:\n{expected}"


@pytest.mark.slow
def test_the_metrics_are_those_that_a_run_writes(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = list(read_metrics(run / METRICS_FILE))
    always = {key for key, metric in METRICS.items() if metric.present == "always"}
    assert all(always <= line.keys() for line in lines)
    for line in lines:
        unlisted = {
            key for key in line if not any(fnmatch.fnmatch(key, listed) for listed in METRICS)
        }
        assert unlisted == set()
    written = {key for line in lines for key in line}
    gpu = {key for key, metric in METRICS.items() if "CUDA" in metric.present}
    never = {key for key in METRICS if not fnmatch.filter(written, key)}
    hosts = {key for key in METRICS if key.startswith("ray/")}
    missing = {
        "episode/return/*",
        "eval/*",
        *("losses/cloning", "losses/accuracy", "losses/kl_to_reference", "charts/kl_weight"),
        "charts/reward_limit",
    }  # probe has one agent type; no evaluation while it trains; it learns by PPO alone
    assert never == gpu | hosts | missing
    monkeypatch.setattr("torch.cuda.mem_get_info", lambda device: (1, 2))
    monkeypatch.setattr("torch.cuda.memory_reserved", lambda device: 1)
    monkeypatch.setattr("torch.cuda.utilization", lambda device: 1)
    monkeypatch.setattr("puffervec.train.metrics.usage._has_nvml", lambda: True)
    assert {key for key in Usage((), torch.device("cuda"), 0.0).sample() if "gpu" in key} == gpu


def test_head_and_marker_are_as_described(run: Path) -> None:
    head, *lines = [json.loads(line) for line in (run / METRICS_FILE).read_text().splitlines()]
    assert tuple(head) == re.findall(r"begins with a head: `(.*?)`, `(.*?)`, `(.*?)`\.", PAGE)[0]
    (marker,) = [line for line in lines if "event" in line]
    assert set(marker) == set(
        json.loads(re.findall(r'`(\{"event".*?\})`', PAGE)[0].replace("...", "0"))
    )
    before = lines[lines.index(marker) - 1]
    assert (marker["step"], marker["update"]) == (before["step"], before["update"])


def test_the_files_are_those_of_a_run(run: Path) -> None:
    found = {f"{path.name}/" if path.is_dir() else path.name for path in run.iterdir()}
    assert (
        found | {"wandb/", "diverged.json", "diverged.safetensors", "best/", "evaluations/"}
        == set(FILES)
        and f"{TENSORBOARD_FOLDER}/" in FILES
    )


def test_the_keys_of_a_start(run: Path) -> None:
    first, second = json.loads((run / "run.json").read_text())["starts"]
    assert set(first) == set(second) == set(STARTS)
    assert set(first["versions"]) == {"puffervec", "python", "torch", "numpy"}
    assert first["resumed_from"] is None and second["resumed_from"]


@pytest.mark.slow
def test_the_code_runs(capsys: pytest.CaptureFixture[str]) -> None:
    ((block, _),) = pages.examples(PAGE)
    exec(compile(block.text, str(FILE), "exec"), {})
    total, seeds = capsys.readouterr().out.splitlines()[-2:]
    assert float(total) == pytest.approx(1.0) and seeds == "{'train': 1}"
