# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Converting to .pvs and reading back: what the format keeps is the same, what it drops is said.

With drive_env/scenes/pvs.py.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

from drive_env.scenes import open_scenes, write_scenes
from drive_env.scenes.compile import CompileSettings, compile_scene, reindex
from drive_env.scenes.goals import with_near_goals
from drive_env.scenes.json_scene import scene_from_tree
from drive_env.scenes.reader import read_scene, scene_files
from drive_env.scenes.schema import SEGMENT_TYPES, Control, LaneLinks, Road, Scene
from drive_env.scenes.stored import StoredScene
from puffervec.errors import SceneError
from tests.drive_env.conftest import make_tree
from tests.drive_env.worlds import random_scene
from tests.twins.drive_lines import segment_distance


def check_back(source: Scene, stored: StoredScene, bound_m: float = 0.1) -> Scene:
    """Read a scene back and compare it with its source."""
    back, source = stored.scene(), with_near_goals(source)
    kept = [item for item in source.objects if item.valid.any()]
    assert (back.name, back.scenario_id, back.frame_count) == (
        source.name,
        source.scenario_id,
        source.frame_count,
    )
    assert len(back.objects) == len(kept) and stored.text["objects"]["all"] == len(source.objects)
    for one, other in zip(kept, back.objects, strict=True):
        same = ("type", "id", "expert")
        assert [getattr(one, name) for name in same] == [getattr(other, name) for name in same]
        np.testing.assert_array_equal(one.valid, other.valid)
        np.testing.assert_allclose(
            one.position_m[one.valid], other.position_m[one.valid], atol=1e-3
        )
        turn = (one.heading_rad - other.heading_rad + np.pi) % (2 * np.pi) - np.pi
        assert np.abs(turn[one.valid]).max() < 1e-4
        np.testing.assert_allclose(one.goal_m, other.goal_m, atol=1e-3)
        sizes = ("width_m", "length_m", "height_m")
        np.testing.assert_allclose(
            [getattr(one, n) for n in sizes], [getattr(other, n) for n in sizes], rtol=1e-6
        )
    for kind in SEGMENT_TYPES:
        before = [
            road
            for road in source.roads
            if road.type == kind and np.ptp(road.points_m[:, :2], axis=0).max(initial=0) > 2e-3
        ]
        after = [road for road in back.roads if road.type == kind]
        assert [road.map_element_id for road in before] == [road.map_element_id for road in after]
        for one, two in zip(before, after, strict=True):
            pieces = zip(two.points_m[:-1, :2], two.points_m[1:, :2], strict=True)
            nearest = np.min(
                [segment_distance(one.points_m[:, :2], *piece) for piece in pieces], axis=0
            )
            assert nearest.max() <= bound_m + 2e-3
    for kind in ("crosswalk", "speed_bump", "driveway", "stop_sign"):
        assert sum(road.type == kind for road in back.roads) == sum(
            road.type == kind and len(road.points_m) > 0 for road in source.roads
        )
    assert len(back.traffic_lights) == len(source.traffic_lights)
    for name, light in source.traffic_lights.items():
        assert [back.traffic_lights[name]["state"][t] for t in light["time_index"]] == light[
            "state"
        ]
    if source.sdc >= 0:
        assert back.objects[back.sdc].id == source.objects[source.sdc].id
    tracks = sorted(
        source.objects[index].id for index in source.to_predict if source.objects[index].valid.any()
    )
    assert (
        sorted(back.objects[index].id for index in back.to_predict) == tracks
        and back.of_interest == source.of_interest
    )
    return back


@pytest.mark.slow
def test_every_real_scene_comes_back(real_scenes: Path, tmp_path: Path) -> None:
    sources = [read_scene(path) for path in scene_files(real_scenes)]
    assert len(sources) == 10
    write_scenes(tmp_path / "real.pvs", sources)
    found = open_scenes(tmp_path / "real.pvs")
    for source, stored in zip(sources, found, strict=True):
        back = check_back(source, stored)
        assert stored.counts["vehicle"] == sum(
            item.type == 0 and bool(item.valid.any()) for item in source.objects
        )
        write_scenes(tmp_path / "again.pvs", [back])
        check_back(back, open_scenes(tmp_path / "again.pvs")[0])


def test_metadata_and_what_was_dropped(tmp_path: Path) -> None:
    tree = make_tree(cars=4)
    tree["objects"][1]["valid"] = [False] * 30
    tree["metadata"] = {
        "sdc_track_index": 2, "tracks_to_predict": [{"track_index": 3, "difficulty": 2},
                                                    {"track_index": 1}],
        "objects_of_interest": [100, 7], "source": ["any", 1.5],
    }  # fmt: skip
    write_scenes(tmp_path / "one.pvs", [scene_from_tree(tree, "t", "t.json")])
    stored = open_scenes(tmp_path / "one.pvs")[0]
    assert stored.text["objects"] == {"all": 4, "dropped": [1]}
    assert stored.text["roads"]["lane"] == {"roads": 2, "points": 562, "kept": 2, "segments": 20}
    assert stored.scene().metadata == {
        "sdc_track_index": 1, "tracks_to_predict": [{"track_index": 2, "difficulty": 2}],
        "objects_of_interest": [100], "source": ["any", 1.5],
    }  # fmt: skip


def test_lane_graph_and_controls_come_back(tmp_path: Path) -> None:
    lanes = (
        Road(
            "lane",
            1,
            8,
            np.array([[0.0, 0, 3], [40, 0, 5]]),
            LaneLinks(exits=(6,), left=7, speed_limit_mps=20.0),
        ),
        Road("lane", 3, 7, np.array([[0.0, 3.5, 3], [40, 3.5, 5]]), LaneLinks()),
        Road("lane", 2, 6, np.array([[40.0, 0, 5], [60, 0, 5]]), LaneLinks()),
    )
    line = np.array([[39.0, 2, 5], [39, -2, 5]])
    states = np.arange(20, dtype=np.uint8) % 5
    light = Control(1, np.array([39.0, 0, 5]), 8, states, 8, 0.25, line)
    scene = dataclasses.replace(random_scene(3, roads=0), roads=lanes, controls=(light,))
    write_scenes(tmp_path / "one.pvs", [scene])
    back = open_scenes(tmp_path / "one.pvs")[0].scene()
    assert [road.links for road in back.roads] == [
        LaneLinks((6,), (), 7, -1, 20.0), LaneLinks((), (), -1, 8), LaneLinks((), (8,), -1, -1)
    ]  # fmt: skip
    assert [(road.id, road.map_element_id) for road in back.roads] == [(8, 1), (7, 3), (6, 2)]
    np.testing.assert_allclose(back.roads[0].points_m[[0, -1]], lanes[0].points_m, atol=1e-4)
    (control,) = back.controls or ()
    np.testing.assert_array_equal(control.states, states)
    assert (control.kind, control.lane_id, control.id, control.heading_rad) == (1, 8, 8, 0.25)
    assert control.stop_line_m is not None
    np.testing.assert_allclose(control.stop_line_m, line, atol=1e-4)


def test_a_broken_text_is_as_good_as_none(tmp_path: Path) -> None:
    write_scenes(tmp_path / "one.pvs", [random_scene(0)])
    stored = open_scenes(tmp_path / "one.pvs")[0]
    for text in (b"{", b"[1]", b"\xff", json.dumps({"objects": 7, "metadata": 8}).encode()):
        broken = dataclasses.replace(
            stored, sections={**stored.sections, "text": np.frombuffer(text, np.uint8)}
        )
        assert broken.scene().frame_count == 20


def test_slices_and_scenes_of_other_files(tmp_path: Path) -> None:
    """Files are joined without compiling anything again."""
    for seed in (1, 2):
        write_scenes(tmp_path / f"{seed}.pvs", [random_scene(seed), random_scene(seed + 10)])
    parts = [open_scenes(tmp_path / f"{seed}.pvs") for seed in (1, 2)]
    write_scenes(
        tmp_path / "all.pvs", [scene for part in parts for scene in part], parts[0].settings
    )
    joined = open_scenes(tmp_path / "all.pvs")
    assert (
        joined.names == ["random 1", "random 11", "random 2", "random 12"]
        and joined.settings == parts[0].settings
    )
    assert bytes(joined[-1].data) == bytes(parts[1][1].data) and len(joined[1:3]) == 2
    with pytest.raises(IndexError):
        _ = joined[4]
    with pytest.raises(SceneError, match=r"nowhere\.pvs: cannot be read"):
        open_scenes(tmp_path / "nowhere.pvs")


def test_another_index_changes_nothing_else(tmp_path: Path) -> None:
    source, settings = random_scene(4), CompileSettings((20, 12, 24), 80.0)
    write_scenes(tmp_path / "one.pvs", [source])
    stored = open_scenes(tmp_path / "one.pvs")[0]
    write_scenes(tmp_path / "wide.pvs", [reindex(stored, settings)], settings)
    wide = open_scenes(tmp_path / "wide.pvs")[0]
    for name, values in stored.sections.items():
        same = len(values) == len(wide.sections[name]) and bool(
            (values == wide.sections[name]).all()
        )
        assert same == (name not in ("cells", "candidates")), name
    assert bytes(wide.data) == compile_scene(source, settings).data
