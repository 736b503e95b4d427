# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""What scripts/ship_driver.py makes of a run."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import puffervec
from drive_env.generate import generate
from puffervec.train import TrainConfig, Trainer
from puffervec.train.run import checkpoint as ckpt
from scripts import ship_driver
from tests.fixtures.training import small, torch_state

__all__ = ["small", "torch_state"]  # Fixtures.
Small = Callable[..., TrainConfig]
SMALL: dict[str, Any] = {"env": {"num_agents": 24}, "train": {"minibatch_size": 0}}


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PUFFERVEC_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(ship_driver, "SCENES", ("generated:2", "streets:1"))


def run_of(small: Small, target: str, *changes: dict[str, Any]) -> Path:
    config = small(target)
    for tables in changes:
        config = config.merged(tables)
    with Trainer(config) as trainer:
        trainer.collect()
        trainer.update()
        trainer.save()
        return trainer.folder


@pytest.mark.slow
@pytest.mark.usefixtures("cache")
def test_a_run_becomes_a_folder_with_a_card(
    small: Small, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, out = run_of(small, "drive", SMALL), tmp_path / "out"
    out.mkdir()
    (out / "old").touch()
    assert ship_driver.main([str(run), "--out", str(out)]) == 2
    assert "is not a shipped driver" in capsys.readouterr().err
    (out / "manifest.json").touch()
    assert ship_driver.main([str(run), "--out", str(out)]) == 0
    assert "streets:1: score" in capsys.readouterr().out
    assert {path.name for path in out.iterdir()} == {
        *("manifest.json", "default.safetensors", "README.md", "card.json")
    }
    manifest = ckpt.read(out).manifest
    assert manifest["config"]["log"]["folder"] == "runs" and str(tmp_path) not in json.dumps(
        manifest
    )
    card, text = json.loads((out / "card.json").read_text()), (out / "README.md").read_text()
    assert card["agent_steps"] == manifest["counters"]["agent_steps"] > 0
    assert [figures["scenes"] for figures in card["scores"].values()] == [2, 1]
    assert f"| `generated:2` (2) | {card['scores']['generated:2']['agents']} |" in text
    assert "MIT" in text and f"`--scenes {card['scenes']}`" in text
    one, other = (
        puffervec.load_policy(path, settings={"scenes": "generated:2"}) for path in (run, out)
    )
    rows = one.observation_space.sample()
    assert one.act(rows) == other.act(rows)


@pytest.mark.slow
@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize(
    ("target", "tables", "words"),
    [
        ("cartpole", {}, "the run is of cartpole, not of drive"),
        ("drive", {"env": {"scenes": "SCENE"}}, "the run has seen .*only generated scenes"),
        ("drive", {"policy": {"hidden": (600, 600)}}, "a shipped driver has at most"),
        (
            "drive",
            {"policy": {"map": ["a=0", "b=" + ",".join(map(str, range(1, 24)))]}},
            "the run has the policies a, b: one only",
        ),
    ],
)
def test_what_may_not_be_shipped_is_refused(
    small: Small,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    target: str,
    tables: dict[str, Any],
    words: str,
) -> None:
    scene = tmp_path / "scene.json"
    scene.write_text(json.dumps(generate.generate_tree(5, 0)))
    if "env" in tables:
        tables = {"env": {"scenes": str(scene)}}
    run = run_of(small, target, SMALL if target == "drive" else {}, tables)
    assert ship_driver.main([str(run), "--out", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert re.search(words, error) and not (tmp_path / "out").exists()
