# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""bench/runs.py: what it reckons from logs, which runs there are, and its pictures."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import pytest

from bench import common, runs
from puffervec.errors import MissingExtraError
from puffervec.train import TrainConfig

SMALL = {"vec": {"num_envs": 8}, "train": {"horizon": 8}, "policy": {"hidden": (8,)}}
FACTS = {"horizon": 10, "num_envs": 2, "buffers": 2}


def line(seconds: float, step: int, env: float) -> dict[str, float]:
    rest = {"copy": 0.1, "forward": 0.2, "update": 0.5 - env, "log": 0.1, "other": 0.1}
    return {"elapsed_s": seconds, "step": step, **{f"time/{part}": share for part, share in {"env": env, **rest}.items()}}


def test_rates_leave_the_first_lines_out_and_weigh_by_time() -> None:
    lines = [line(9.0, 1, 0.0), line(10.0, 100, 0.0), line(11.0, 200, 0.2), line(14.0, 700, 0.4)]
    lines = [lines[0], *lines]  # a fifth of five lines is warm-up
    found = runs.rates(lines, FACTS)
    assert found["agent_steps_per_s"] == pytest.approx(699 / 5)
    assert found["env_steps_per_s"] == pytest.approx(3 * 10 * 2 / 5)
    assert found["shares"]["env"] == pytest.approx((0 * 1 + 0.2 * 1 + 0.4 * 3) / 5)
    assert sum(found["shares"].values()) == pytest.approx(1)
    assert found["iteration_s"] == pytest.approx((0.28 + 0.3) * 5 / 30)
    assert found["policy_half_s"] == pytest.approx(0.3 * 5 / 60)


def test_half_a_million_parameters_and_replay_ratio_1() -> None:
    from puffervec.train.config.target import env_spec
    from puffervec.train.policies.registry import build_policy

    config = runs.config_of(runs.RUNS["drive-500k"], "cpu")
    policy = build_policy(env_spec(config).groups[0], config.policy)
    assert 500_000 <= sum(p.numel() for p in policy.parameters()) < 600_000 and config.train.update_epochs == 1


def test_the_simulation_of_a_half_is_measured() -> None:
    assert runs.simulation_half_s(TrainConfig.of("probe", **SMALL), turns=4) > 0


def beside(tmp_path: Path, png: Path | None = None) -> argparse.Namespace:
    return argparse.Namespace(json=tmp_path / "r.json", png=png)


def test_pictures_lie_beside_the_results(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    figures = [common.figure([1.0, 2.0]), common.figure([3.0])]
    panels = [lambda axis: runs.bars(axis, ["a", "b"], figures, "title")] * 2
    runs.draw_beside(panels, beside(tmp_path), "name")
    assert (tmp_path / "r.png").stat().st_size > 1000
    runs.draw_beside(panels, beside(tmp_path, tmp_path / "sub" / "other.png"), "name")
    assert (tmp_path / "sub" / "other.png").stat().st_size > 1000


def test_without_matplotlib_only_a_picture_that_was_asked_for_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    runs.draw_beside([], beside(tmp_path), "name")
    assert "no picture: a picture needs matplotlib" in capsys.readouterr().out
    with pytest.raises(MissingExtraError):
        runs.draw_beside([], beside(tmp_path, tmp_path / "r.png"), "name")
