# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Submissions: what `--submission` writes is scored as it was when it was driven, and what a file
lacks or has too much is named and counted.
(drive_env/evaluate/sent.py).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drive_env.cli import main
from drive_env.config import DriveConfig
from drive_env.evaluate.baselines import baseline
from drive_env.evaluate.imported import score_submission
from drive_env.evaluate.likelihood import ESTIMATORS
from drive_env.evaluate.realism import COLUMNS, HISTORY, evaluate_realism
from drive_env.evaluate.submission import STEPS, ScenarioRollouts, read_submission, scenario_bytes
from puffervec.errors import ConfigError, SceneError

pytest.importorskip("google.protobuf")

MakeTree = Callable[..., dict[str, Any]]
FRAMES = HISTORY + 1 + STEPS


@pytest.fixture
def folder(tiny_tree: MakeTree, tmp_path: Path, cache: Path) -> Path:
    """Three scenes, the last of which is too short for a submission. All cars are evaluated; a
    light is red for those of the right lane of scene a. Scenes lie far from the origin, on a slope.
    """
    path = tmp_path / "scenes"
    path.mkdir()
    for number, (name, frames, cars) in enumerate(
        (("a", FRAMES, 3), ("b", FRAMES, 2), ("c", 40, 1))
    ):
        tree = tiny_tree(frames=frames, cars=cars, speed_mps=6.0 + number)
        tree["scenario_id"] = f"000000000000000{name}"
        tree["metadata"]["tracks_to_predict"] = [
            {"track_index": index, "difficulty": 0} for index in range(1, cars)
        ]
        tree["tl_states"] = {
            "0": {"state": ["stop"] * frames, "x": [33.3] * frames, "y": [-1.75] * frames,
                  "z": [0.0] * frames, "time_index": [*range(frames)]},
        }  # fmt: skip
        points = [point for road in tree["roads"] for point in road["geometry"]]
        for item in tree["objects"]:
            own = [*item["position"], item["goalPosition"]]
            points += own
            for point in own:
                point["z"] = 0.75  # half its height
        light = tree["tl_states"]["0"]
        for point in points:
            point["z"] += 50.0 + 0.05 * point["x"]
            point["x"] += 4000.0
            point["y"] -= 2000.0
        light["x"] = [value + 4000.0 for value in light["x"]]
        light["y"] = [value - 2000.0 for value in light["y"]]
        (path / f"{name}.json").write_text(json.dumps(tree))
    return path


def sent(folder: Path, who: str, path: Path, **how: Any) -> Any:
    """Drive the scenes, and write the rollouts."""
    config = DriveConfig(scenes=str(folder))
    return evaluate_realism(
        baseline(who), config, **({"episodes": 4, "seed": 3, "submission": path} | how)
    )


@pytest.mark.slow
@pytest.mark.parametrize("who", ["log", "random"])
def test_what_is_written_is_scored_as_it_was_driven(who: str, folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "sent.binproto"
    driven = sent(folder, who, path)
    remarks = "\n".join(driven.remarks)
    assert f"{path}: the rollouts of 2 scenes" in remarks
    assert "NOT WRITTEN: 1 scenes with fewer than 91 frames" in remarks and "c.json" in remarks
    assert "4 rollouts of a scene; the challenge takes 32" in remarks
    scored, missing = score_submission([path], DriveConfig(scenes=str(folder)))
    assert scored.names() == ["a.json", "b.json"] and missing.scenes == ["c.json"]
    for row, before in zip(scored.rows, driven.rows[:2], strict=True):
        for column in COLUMNS:
            assert row[column] == pytest.approx(before[column], rel=1e-3, abs=0.02), column
        assert row["agents"] == before["agents"] and row["rollouts"] == 4
    if who == "log":
        assert scored.total is not None and scored.total["realism"].value > 0.9  # type: ignore[union-attr]


@pytest.mark.slow
@pytest.mark.parametrize("who", ["log", "constant-velocity"])
def test_poses_are_written_in_the_frame_of_the_data_set(
    who: str, folder: Path, tmp_path: Path
) -> None:
    """Cars that keep their velocity drive as their log does."""
    path = tmp_path / "sent.binproto"
    sent(folder, who, path)
    first = next(iter(read_submission(path)))
    assert first.scenario_id == "000000000000000a" and first.ids.tolist() == [100, 101, 102]
    times = np.arange(HISTORY + 1, FRAMES)
    for number in range(3):
        x = 12.0 * number + 0.6 * times
        y = -1.75 if number % 2 == 0 else 1.75
        expected = [x + 4000, np.full(STEPS, y - 2000), np.zeros(STEPS)]
        found = first.poses[0, number]
        np.testing.assert_allclose(found[[0, 1, 3]], expected, atol=2e-3)
        z = 50.75 + 0.05 * (12.0 * number + 0.6 * HISTORY)  # of frame 10: the scene has one level
        np.testing.assert_allclose(found[2], z, atol=0.05)


@pytest.mark.slow
def test_lights_are_judged(folder: Path, tmp_path: Path) -> None:
    """In the log, cars of the right lane run the light. A file in which they stop before it has a
    likelihood near 0 for that, and with the weights of 2024 it does not count.
    """
    path = tmp_path / "sent.binproto"
    sent(folder, "log", path)
    whole = list(read_submission(path))
    config = DriveConfig(scenes=str(folder))
    assert score_submission([path], config)[0].rows[0]["traffic_light_violation"] > 0.99  # type: ignore[operator]
    poses = whole[0].poses.copy()
    poses[:, :, 0] = np.minimum(poses[:, :, 0], 4033.0)  # before the light in all rollouts
    stopped = ScenarioRollouts(whole[0].scenario_id, whole[0].ids, poses)
    path.write_bytes(scenario_bytes(stopped))
    later, earlier = (
        score_submission([path], config, year)[0].rows[0] for year in ("2025", "2024")
    )
    assert later["traffic_light_violation"] < 0.02  # type: ignore[operator]
    assert later["traffic_light_violation"] == earlier["traffic_light_violation"]
    rest = {name: later[name] for name in ESTIMATORS}
    assert rest == {name: earlier[name] for name in ESTIMATORS}
    gap = 0.05 * (later["distance_to_road_edge"] - later["traffic_light_violation"])  # type: ignore[operator]
    assert earlier["realism"] - later["realism"] == pytest.approx(gap)  # type: ignore[operator]


@pytest.mark.slow
def test_what_is_missing_is_named_and_counted(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "sent.binproto"
    sent(folder, "log", path)
    first = next(iter(read_submission(path)))
    fewer = ScenarioRollouts(first.scenario_id, np.array([100, 102, 999]), first.poses)
    path.write_bytes(
        scenario_bytes(fewer) + scenario_bytes(ScenarioRollouts("zzz", first.ids, first.poses))
    )
    report, missing = score_submission([path], DriveConfig(scenes=str(folder)))
    assert missing.scenes == ["b.json", "c.json"] and missing.unknown == ["zzz"]
    assert missing.objects == [{"scene": "a.json", "object": 101}]
    assert missing.strangers == {"a.json": 1} and missing.counts == {"a.json": 4}
    assert report.names() == ["a.json"] and report.rows[0]["agents"] == 2
    said = "\n".join(report.remarks)
    assert "MISSING: 2 of the 3 scenes are not in the files: b.json, c.json" in said
    assert "MISSING: 1 objects, in 1 scenes, are not in all of their rollouts: a.json (1)" in said
    assert "left out 1 scenarios that are not among the scenes: zzz" in said
    assert [row["scene"] for row in report.to_json()["tables"]["missing"]] == [
        "b.json", "c.json", "a.json",
    ]  # fmt: skip


@pytest.mark.slow
def test_nothing_to_score_is_an_error(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "sent.binproto"
    sent(folder, "log", path)
    first = next(iter(read_submission(path)))
    path.write_bytes(
        scenario_bytes(ScenarioRollouts(first.scenario_id, np.array([7, 8, 9]), first.poses))
    )
    with pytest.raises(SceneError, match="no scene of .* can be scored: .*none of its objects"):
        score_submission([path], DriveConfig(scenes=str(folder)))


@pytest.mark.slow
def test_files_are_parts_of_one_submission(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "sent.binproto"
    sent(folder, "random", path)
    config = DriveConfig(scenes=str(folder))
    whole = score_submission([path], config)[0]
    parts = []
    for number, item in enumerate(read_submission(path)):
        parts.append(tmp_path / f"part-{number}")
        parts[-1].write_bytes(scenario_bytes(item))
    assert score_submission(parts[::-1], config)[0].rows == whole.rows
    with pytest.raises(SceneError, match="part-0: scenario 000000000000000a is in .*part-0 too"):
        score_submission([parts[0], parts[0]], config)


@pytest.mark.slow
def test_the_command(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "sent.binproto"
    sent(folder, "random", path)
    command = ["score", str(path), "--scenes", str(folder)]
    assert main(command) == 1, "a scene is missing"
    out, err = capsys.readouterr()
    assert "realism" in out and "c.json" in err
    (folder / "c.json").unlink()
    assert main([*command, "--json", "--wosac", "2024"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert len(found["rows"]) == 2 and "weights of 2024" in found["remarks"][0]
    assert main([*command, "--wosac", "2023"]) == 2
    path.write_bytes(path.read_bytes()[:-5])
    capsys.readouterr()
    assert main(command) == 2
    err = capsys.readouterr().err
    assert "it is cut off" in err and err.count("\n") == 1


def test_other_years_are_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--wosac 2023: use one of 2025, 2024"):
        sent(folder, "log", tmp_path / "x", wosac="2023")
    assert not (tmp_path / "x").exists()
