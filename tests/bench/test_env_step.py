# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""bench/env_step.py in short."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench import common, env_step
from bench.workloads import missing, preset

SHORT = ["--num-envs", "2", "--seconds", "0.005", "--repeats", "2"]


def test_one_line_per_case(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "out.json"
    assert env_step.main([*SHORT, "--envs", "probe,tag_grid", "--json", str(path)]) == 0
    results = json.loads(path.read_text())["results"]
    assert [result["env"] for result in results] == ["probe", "tag_grid", "tag_grid, partial"]
    for result in results:
        agents = 1 if result["env"] == "probe" else 5
        assert result["rows"] == 2 * agents and result["met"] is None
        assert result["agent_steps_per_s"]["median"] == pytest.approx(agents * result["env_steps_per_s"]["median"])
    assert "ns/agent-step" in capsys.readouterr().out


def test_settings_replace_the_extra_cases() -> None:
    assert [case.workload.name for case in env_step.cases(["tag_grid"], 2, {"num_taggers": 1})] == ["tag_grid"]


def test_real_scenes_carry_the_targets_where_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("x-01000_407.json", "y_a5c44223.json", "other.json"):
        (tmp_path / name).write_text("{}")
    monkeypatch.setattr(env_step, "SCENES", tmp_path)
    found = {case.workload.name: case for case in env_step.cases(["drive"])}
    assert list(found) == ["drive", "drive 407, all stay", "drive 407", "drive a5c44223, all stay", "drive a5c44223"]
    assert found["drive 407, all stay"].target == 1.0e6 and found["drive a5c44223, all stay"].target == 0.6e6
    assert found["drive 407, all stay"].workload.kwargs["control"] == 1
    monkeypatch.setattr(env_step, "SCENES", tmp_path / "gone")
    assert [case.workload.name for case in env_step.cases(["drive"])] == ["drive"]


def test_paths_of_scenes_are_written_as_seen_from_the_project() -> None:
    shown = env_step._shown({"scenes": str(common.ROOT.parent / "shared" / "a.json"), "control": 1})
    assert shown == {"scenes": "../shared/a.json", "control": 1}


def test_a_target_is_met_from_it_on() -> None:
    def result(rate: float, target: float | None) -> env_step.Result:
        some = common.figure([1.0])
        return env_step.Result("e", 1, {}, 1, some, some, common.figure([rate]), target)

    assert result(1.0, 1.0).met is True and result(0.9, 1.0).met is False and result(1.0, None).met is None


@pytest.mark.skipif(bool(missing(preset("drive"))), reason="the driving env is not there")
def test_drive_runs_on_generated_scenes(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    kwargs = json.dumps({"num_agents": 64})
    assert env_step.main([*SHORT, "--envs", "drive", "--env-kwargs", kwargs, "--json", str(path)]) == 0
    (result,) = json.loads(path.read_text())["results"]
    assert result["rows"] == 128 and 0 < result["agent_steps_per_s"]["median"]


def test_bad_input_is_one_line_and_status_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert env_step.main([*SHORT, "--envs", "tag_grid", "--env-kwargs", '{"speed": 1}']) == 2
    assert "speed" in capsys.readouterr().err
