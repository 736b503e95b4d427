# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Which agents failed and why, in scenes with a known outcome, from the env to the files that
`eval` writes.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from drive_env.config import DriveConfig
from drive_env.evaluate.evaluate import evaluate
from drive_env.evaluate.failures import reasons_of
from puffervec.commands.eval import EvalRequest, run_evaluation
from tests.drive_env.worlds import Straight

MakeTree = Callable[..., dict[str, Any]]


@pytest.fixture
def folder(tiny_tree: MakeTree, tmp_path: Path, cache: Path) -> Path:
    """Cars on a straight road.

    clean: nothing happens. hit: a standing car is in the way. red: a light is red all the time.
    edge: the car leaves the road.
    wrong: it drives against its lane. tail: a car is hit from behind by one that drives its log.
        sign: it passes a stop sign.
    """
    path = tmp_path / "scenes"
    path.mkdir()
    trees = {
        name: tiny_tree(frames=40, cars=1 + (name in ("hit", "tail")))
        for name in ("clean", "hit", "red", "edge", "wrong", "tail", "sign")
    }
    standing = trees["hit"]["objects"][1]
    standing["position"] = [{"x": 15.0, "y": -1.75, "z": 0.0}] * 40
    standing["goalPosition"] = {"x": 15.0, "y": -1.75, "z": 0.0}
    standing["velocity"] = [{"x": 0.0, "y": 0.0}] * 40
    trees["red"]["tl_states"] = {"0": {"state": ["stop"] * 40, "x": [8.0] * 40, "y": [-1.75] * 40,
                                       "z": [0.0] * 40, "time_index": list(range(40))}}  # fmt: skip
    trees["sign"]["roads"].append(
        {
            "geometry": [{"x": 16.0, "y": -4.0, "z": 0.0}],
            "type": "stop_sign",
            "map_element_id": 17,
            "id": 4,
        }
    )
    trees["edge"]["objects"][0]["heading"] = [-0.5] * 40
    for road in trees["wrong"]["roads"]:
        if road["type"] == "lane":
            road["geometry"] = road["geometry"][::-1]
    slow, fast = trees["tail"]["objects"]
    slow["position"] = [{"x": 15.0 + 0.1 * frame, "y": -1.75, "z": 0.0} for frame in range(40)]
    slow["velocity"] = [{"x": 1.0, "y": 0.0}] * 40
    slow["goalPosition"] = {"x": 60.0, "y": -1.75, "z": 0.0}
    fast["position"] = [{"x": 0.8 * frame, "y": -1.75, "z": 0.0} for frame in range(40)]
    fast["velocity"], fast["mark_as_expert"] = [{"x": 8.0, "y": 0.0}] * 40, True
    for name, tree in trees.items():
        (path / f"{name}.json").write_text(json.dumps(tree))
    return path


def test_each_failure_has_its_reason(folder: Path) -> None:
    result = evaluate(Straight(), DriveConfig(scenes=str(folder)), episodes=2)  # the same twice
    assert {(row["scene"], row["why"]) for row in result.failures} == {
        ("hit.json", "collision (at fault)"),
        ("red.json", "red light"),
        ("edge.json", "off-road, no goal"),
        ("wrong.json", "wrong way"),
        ("tail.json", "collision, no goal"),
        ("sign.json", "stop sign"),
    }
    assert len(result.failures) == 6 and {row["episode"] for row in result.failures} == {0}
    first = {row["scene"]: row for row in result.failures}
    # From x = 0 the front is at 2.25 m; the standing car begins at 12.75 m; 0.5 m per step.
    assert first["hit.json"]["contact_step"] == 21 and first["hit.json"]["id"] == 100
    assert (
        first["wrong.json"]["wrong_way_m"] == pytest.approx(18, abs=2)
        and first["wrong.json"]["contact_step"] is None
    )
    assert first["edge.json"]["departure_step"] is not None and first["edge.json"]["ade_m"] > 1  # type: ignore[operator]


def test_the_columns_of_the_table(folder: Path) -> None:
    report = evaluate(Straight(), DriveConfig(scenes=str(folder))).report()
    rows = {row["scene"]: row for row in report.rows}
    value = {
        name: {column: getattr(cell, "value", cell) for column, cell in row.items()}
        for name, row in rows.items()
    }
    assert (
        value["hit.json"]["at_fault"],
        value["tail.json"]["at_fault"],
        value["tail.json"]["collision"],
    ) == (1, 0, 1)
    assert (
        value["red.json"]["red_light"]
        == value["wrong.json"]["wrong_way"]
        == value["hit.json"]["short_ttc"]
        == 1
    )
    assert value["wrong.json"]["lane_aligned"] == 0 and value["clean.json"]["lane_aligned"] == 1
    assert (
        value["clean.json"]["comfortable"] == 1 and value["clean.json"]["speeding"] is None
    )  # no lane has a limit
    assert (
        value["clean.json"]["ade_m"] == pytest.approx(0, abs=0.02)
        and value["clean.json"]["least_ttc_s"] == 5
    )
    assert value["hit.json"]["least_ttc_s"] < 0.2 and value["clean.json"]["route_share"] == 1
    total = {column: getattr(cell, "value", cell) for column, cell in (report.total or {}).items()}
    assert total["collision"] == pytest.approx(2 / 7) and total["at_fault"] == pytest.approx(1 / 7)
    assert total["lawful"] == pytest.approx(4 / 7) and value["sign.json"]["stop_sign"] == 1
    assert (
        value["clean.json"]["goal_time"] == pytest.approx(1, abs=0.05)
        and value["clean.json"]["path_m"] < 0.02
    )
    assert value["edge.json"]["path_m"] > 1 and value["edge.json"]["goal_time"] is None
    cells = report.cells()
    assert "at_fault" not in cells[0] and "at_fault" in dict(report.rest())


def test_limits_of_speed_are_a_setting(folder: Path) -> None:
    slow = evaluate(
        Straight(), DriveConfig(scenes=str(folder), unknown_speed_limit_mps=4.0)
    ).total.more["speeding"]
    fast = evaluate(
        Straight(), DriveConfig(scenes=str(folder), unknown_speed_limit_mps=6.0)
    ).total.more["speeding"]
    assert slow is not None and fast is not None and slow.value > 0.8 and fast.value == 0


def test_results_as_files(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    request = EvalRequest(
        "drive",
        baseline="log",
        json=tmp_path / "a.json",
        csv=tmp_path / "a.csv",
        env_flags=("--scenes", str(folder)),
    )
    run_evaluation(request)
    out = capsys.readouterr().out
    assert "failures: " in out and "also of all" in out and "lane_aligned" in out
    found = json.loads((tmp_path / "a.json").read_text())
    assert {row["why"] for row in found["tables"]["failures"]} >= {"red light", "wrong way"}
    assert (
        (tmp_path / "a.failures.csv")
        .read_text()
        .startswith("scene,seed,episode,object,id,cause,why,other,other_id,driver")
    )


def test_reasons_are_in_order() -> None:
    clean = {
        "contacts": 0,
        "faults": 0,
        "departures": 0,
        "red_lights": 0,
        "signs_run": 0,
        "wrong_way": 6.0,
        "reached": 1,
    }
    assert reasons_of(clean) == []
    wrong = {
        "contacts": 1,
        "faults": 0,
        "departures": 1,
        "red_lights": 1,
        "signs_run": 1,
        "wrong_way": 6.1,
        "reached": 0,
    }
    assert reasons_of(wrong) == [
        "collision",
        "off-road",
        "red light",
        "stop sign",
        "wrong way",
        "no goal",
    ]


def test_other_levels_do_not_count(tiny_tree: MakeTree, tmp_path: Path, cache: Path) -> None:
    """A bridge right above the car's way: its lane, its red light and the car that stands on it."""
    tree = tiny_tree(frames=40, cars=2)
    above = tree["objects"][1]
    above["position"], above["velocity"] = (
        [{"x": 15.0, "y": -1.75, "z": 8.0}] * 40,
        [{"x": 0.0, "y": 0.0}] * 40,
    )
    above["goalPosition"] = {"x": 15.0, "y": -1.75, "z": 8.0}
    lane = {
        "geometry": [{"x": x, "y": -1.75, "z": 8.0} for x in range(-20, 60)],
        "type": "lane",
        "map_element_id": 2,
        "id": 99,
    }
    own = next(
        road for road in tree["roads"] if road["type"] == "lane" and road["geometry"][0]["y"] < 0
    )
    own["geometry"] = [{**point, "y": -2.75} for point in own["geometry"]]
    tree["roads"].append(lane)
    tree["tl_states"] = {"99": {"state": ["stop"] * 40, "x": [8.0] * 40, "y": [-1.75] * 40,
                                "z": [8.0] * 40, "time_index": list(range(40))}}  # fmt: skip
    (tmp_path / "bridge.json").write_text(json.dumps(tree))
    result = evaluate(Straight(), DriveConfig(scenes=str(tmp_path / "bridge.json")))
    found = {
        name: None if value is None else value.value for name, value in result.total.more.items()
    }
    assert result.failures == [] and result.total.agents == 1
    assert (
        found["lane_offset_m"] == pytest.approx(1.0, abs=1e-3)
        and found["least_ttc_s"] == 5
        and found["red_light"] == 0
    )
