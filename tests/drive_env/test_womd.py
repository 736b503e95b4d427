# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""WOMD's tfrecords (drive_env/scenes/tfrecord.py, womd.py), and how they pass through `--scenes`
and `puffer-scenes convert`. With them drive_env/scenes/wire.py and drive_env/scenes/logged.py.
"""

from __future__ import annotations

import json
import math
import random
import struct
from pathlib import Path

import numpy as np
import pytest

from drive_env import cli
from drive_env.config import DriveConfig
from drive_env.convert import load, scenes_in
from drive_env.prepare import prepare_scenes
from drive_env.scenes.controls import controls_of
from drive_env.scenes.reader import read_scene, record_name
from drive_env.scenes.schema import GREEN, RED, UNKNOWN, Scene
from drive_env.scenes.tfrecord import begins_with_record, list_records, read_record
from drive_env.scenes.womd import parse_scenario
from puffervec.errors import SceneError
from puffervec.system import extras
from tests.drive_env import womd_files as wire

FRAMES = 12
LANE = [(float(x), 0.0, 1.0) for x in range(0, 80, 2)]
OTHER = [(float(x), 3.5, 1.0) for x in range(0, 80, 2)]


def crossing(seed: int = 0) -> bytes:
    """A Scenario with every kind of thing: a car that comes late, one that stays, a walker."""
    shift = float(seed)
    moving = [wire.ABSENT] * 2 + [
        wire.state(shift + frame, 0.25, 1.0, 7.0, 10.0, 0.5) for frame in range(2, FRAMES)
    ]
    parked = [wire.state(30.0, 3.5, 1.0, -0.5, 0.0, 0.0, length=9.0)] * FRAMES
    walker = [wire.state(5.0, 8.0 + 0.1 * frame, 1.0, 1.5, 0.0, 1.0) for frame in range(FRAMES)]
    never = [wire.ABSENT] * FRAMES
    lane = (
        wire.double(1, 45.0) + wire.integer(2, 2) + wire.integer(3, 1) + wire.polyline(LANE, 8)
        + wire.packed_integers(9, [70, 71]) + wire.integer(10, 72)
        + wire.block(11, wire.neighbor(201, 0, 3)) + wire.block(11, wire.neighbor(101, 0, 30))
        + wire.block(13, b"") * 2
    )  # fmt: skip
    features = [
        wire.feature(100, 3, lane),
        wire.feature(101, 3, wire.integer(2, 1) + wire.polyline(OTHER, 8)),
        wire.feature(102, 4, wire.integer(1, 8) + wire.polyline(LANE)),
        wire.feature(103, 5, wire.integer(1, 2) + wire.polyline(OTHER)),
        wire.feature(
            104, 7, wire.packed_integers(1, [100, 101]) + wire.block(2, wire.point(40, -3, 1))
        ),
        wire.feature(105, 8, wire.polyline(LANE[:4], 1)),
        wire.feature(106, 9, wire.polyline(LANE[:4], 1)),
        wire.feature(107, 10, wire.polyline(LANE[:4], 1)),
        wire.feature(108, 15, b""),  # of a kind that is not known
    ]
    steps = [
        [wire.light(100, 4 if frame < 6 else 3, (60.0, 0.0, 1.0))] if frame else []
        for frame in range(FRAMES)
    ]
    rest = (
        wire.integer(6, 1) + wire.integer(10, 3) + wire.packed_integers(4, [7, 9])
        + wire.block(11, wire.integer(1, 0) + wire.integer(2, 1)) + wire.block(12, b"") * 3
    )  # fmt: skip
    tracks = [
        wire.track(7, 1, moving),
        wire.track(8, 1, parked),
        wire.track(9, 2, walker),
        wire.track(10, 3, never),
    ]
    return wire.scenario(tracks, features, steps, frames=FRAMES, rest=rest)


def test_all_of_a_scenario_is_read() -> None:
    scene = parse_scenario(crossing(), "here", "one")
    assert (scene.name, scene.scenario_id, scene.frame_count) == ("one", "abc123", FRAMES)
    car, parked, walker, never = scene.objects
    assert [item.type for item in scene.objects] == [0, 0, 1, 2]
    assert [item.id for item in scene.objects] == [7, 8, 9, 10]
    assert car.valid.tolist() == [False] * 2 + [True] * 10 and not never.valid.any()
    assert car.position_m[5].tolist() == [5.0, 0.25, 1.0] and car.goal_m.tolist() == [11, 0.25, 1]
    assert car.velocity_mps[5].tolist() == [10.0, 0.5]
    assert car.heading_rad[5] == pytest.approx(7.0 - 2 * math.pi)
    assert (parked.length_m, parked.width_m, parked.height_m) == (9.0, 2.0, 1.5)
    assert scene.sdc == 1 and scene.to_predict == {0} and scene.of_interest == {7, 9}
    assert scene.metadata["current_time_index"] == 3
    kinds = [(road.type, road.map_element_id, road.id) for road in scene.roads]
    assert kinds == [
        ("lane", 2, 100), ("lane", 1, 101), ("road_line", 13, 102), ("road_edge", 16, 103),
        ("crosswalk", 18, 105), ("speed_bump", 19, 106), ("driveway", 20, 107),
    ]  # fmt: skip
    assert scene.roads[0].points_m.tolist() == [list(item) for item in LANE]
    links = scene.roads[0].links
    assert links is not None
    assert (links.exits, links.entries, links.left, links.right) == ((72,), (70, 71), 101, -1)
    assert links.speed_limit_mps == pytest.approx(20.1168)
    first, second, signal = controls_of(scene)
    assert [first.lane_id, second.lane_id, signal.lane_id] == [100, 101, 100]
    assert first.position_m.tolist() == [40, -3, 1] and signal.position_m.tolist() == [60, 0, 1]
    colours = (signal.states & 7).tolist()
    assert colours == [UNKNOWN] + [RED] * 5 + [GREEN] * 6
    assert scene.left_out == {
        "boundaries of lanes": 2,
        "further neighbours of lanes": 1,
        "map features of unknown kinds": 1,
        "frames of lidar": 3,
    }


@pytest.mark.parametrize(
    "data, message",
    [
        (b"\xff\xff", "bytes that protobuf cannot read"),
        (wire.scenario([], frames=0), "timestamps_seconds: expected 1 to"),
        (wire.scenario([], frames=9, step_s=0.7), "steps of 0.02 to 0.5 s, got 0.7"),
        (
            wire.scenario([wire.track(1, 1, [wire.ABSENT])], frames=2),
            "tracks[0].states: expected 2",
        ),
        (
            wire.scenario([wire.track(1, 9, [wire.ABSENT])], frames=1),
            "tracks[0].object_type: expected 0 to 4, got 9",
        ),
        (
            wire.scenario([wire.track(1, 1, [wire.state(0, math.nan, 0, 0, 0, 0)])], frames=1),
            "tracks[0].states[0].center_y: expected a number between -100000 and 100000, got nan",
        ),
        (
            wire.scenario([wire.track(1, 1, [wire.state(0, 0, 0, 0, 0, 0, width=0.0)])], frames=1),
            "tracks[0].states[0].width",
        ),
        (wire.scenario([wire.track(3, 1, [wire.ABSENT])] * 2, frames=1), "objects[1].id"),
        (
            wire.scenario([], [wire.feature(1, 3, wire.integer(2, 7))], frames=1),
            "map_features[0].lane.type: expected 0 to 3, got 7",
        ),
        (
            wire.scenario([], [wire.feature(1, 4, wire.polyline([(1e9, 0, 0)]))], frames=1),
            "map_features[0].road_line.polyline[0].x",
        ),
        (
            wire.scenario([], [wire.feature(2**40, 3, b"")], frames=1),
            "map_features[0].id: expected a whole number of at most 32 bits",
        ),
        (
            wire.scenario([], (), [[wire.light(1, 9, (0, 0, 0))]], frames=1),
            "dynamic_map_states[0].lane_states[0].state: expected 0 to 8, got 9",
        ),
        (
            wire.scenario([], frames=1, rest=wire.block(11, wire.integer(1, 4))),
            "tracks_to_predict[0].track_index",
        ),
        (wire.scenario([], frames=1, rest=wire.integer(6, -5)), "sdc_track_index: expected"),
    ],
)
def test_a_bad_value_is_named(data: bytes, message: str) -> None:
    with pytest.raises(SceneError) as error:
        parse_scenario(data, "here", "one")
    assert str(error.value).startswith("here: ") and message in str(error.value)


def test_mutated_scenarios_are_scenes_or_scene_errors() -> None:
    rng, sound = random.Random(5), crossing()
    read = refused = 0
    for _ in range(400):
        data = bytearray(sound)
        for _ in range(rng.randint(1, 4)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        cut = bytes(data[: rng.randrange(len(data))] if rng.random() < 0.3 else data)
        try:
            assert isinstance(parse_scenario(cut, "here", "one"), Scene)
            read += 1
        except SceneError as error:
            assert str(error).startswith("here: ") and "\n" not in str(error)
            refused += 1
    assert read > 20 and refused > 100


# ---- the file ------------------------------------------------------------------------------------


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "training.tfrecord-00003-of-01000"
    path.write_bytes(wire.tfrecord([crossing(seed) for seed in range(3)]))
    return path


def test_records_are_those_that_were_written(file: Path) -> None:
    assert wire.crc32c(b"123456789") == 0xE3069283
    records = list_records(file)
    contents = [read_record(file, record) for record in records]
    assert contents == [crossing(seed) for seed in range(3)]
    assert begins_with_record(file.read_bytes()[:12]) and not begins_with_record(b'{"objects": ')


def test_every_cut_and_every_flipped_bit_is_noticed(file: Path) -> None:
    sound = file.read_bytes()
    ends = {0}
    for record in list_records(file):
        ends.add(record.begin + 12 + record.length + 4)
    rng = random.Random(3)
    for size in sorted(rng.sample(range(1, len(sound)), 60)):
        file.write_bytes(sound[:size])
        if size not in ends:
            with pytest.raises(SceneError, match=r"byte \d+: (expected the length|record \d)"):
                list_records(file)
    for _ in range(60):
        data = bytearray(sound)
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        file.write_bytes(data)
        with pytest.raises(SceneError, match=r"byte \d+"):
            for record in list_records(file):
                read_record(file, record)


def test_a_length_that_fits_its_checksum_but_not_the_file(tmp_path: Path) -> None:
    for length, message in ((2**62, "at most 67108864 bytes"), (1000, "it is cut off")):
        head = struct.pack("<Q", length)
        path = tmp_path / "a.tfrecord"
        path.write_bytes(head + struct.pack("<I", wire.masked(head)) + b"abcd")
        with pytest.raises(SceneError, match=message):
            list_records(path)
    path.write_bytes(b"")
    with pytest.raises(SceneError, match="the file is empty"):
        list_records(path)


def test_without_the_extra_one_line_says_what_to_install(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(extras, "installed", lambda module: module != "google_crc32c")
    assert cli.main(["info", str(file)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert file.name in line and "pip install 'puffervec[womd]'" in line


# ---- as scenes -----------------------------------------------------------------------------------


def test_scenes_are_driven_from_the_file_and_from_a_folder(
    file: Path, shared_cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PUFFERVEC_CACHE", str(shared_cache))
    direct = prepare_scenes(DriveConfig(scenes=str(file), control="sdc"))
    assert direct.scenes.names == [f"tfrecord-00003-of-01000_{index}" for index in range(3)]
    # A folder of mixed formats; one record is damaged, the others are used.
    folder = tmp_path / "mixed"
    folder.mkdir()
    data = bytearray(file.read_bytes())
    data[list_records(file)[1].begin + 40] ^= 1
    (folder / file.name).write_bytes(data)
    assert cli.main(["convert", str(file), "--out", str(folder), "--to", "json"]) == 0
    mixed = prepare_scenes(DriveConfig(scenes=str(folder), control="sdc"))
    assert len(mixed.scenes) == 5
    (left_out,) = mixed.left_out
    assert left_out.path.name == file.name and "do not fit their checksum" in left_out.reason


def test_converting_writes_every_scene_and_says_what_it_left_out(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert cli.main(["convert", str(file), "--out", str(out), "--to", "json"]) == 0
    shown = capsys.readouterr().out
    assert "frames of lidar" in shown and "boundaries of lanes" in shown
    written = sorted(out.rglob("*.json"))
    assert [path.stem for path in written] == [name for name, _ in scenes_in(file)]
    for index, path in enumerate(written):
        one, other = load(file, index), read_scene(path)
        for a, b in zip(one.objects, other.objects, strict=True):
            np.testing.assert_array_equal(a.position_m[a.valid], b.position_m[b.valid])
        assert len(other.roads) == len(one.roads) + 1  # JSON has the stop sign among the roads
        assert json.loads(path.read_text())["scenario_id"] == "abc123"


def test_a_file_that_is_replaced_meanwhile_is_not_taken_for_damaged(file: Path) -> None:
    from drive_env.sources import ReplacedError, sources_of

    (source,) = sources_of(str(file))
    file.write_bytes(wire.tfrecord([crossing(9)]))
    with pytest.raises(ReplacedError):
        source.items[0].load()


def test_names_are_those_that_converters_give() -> None:
    name = record_name(Path("uncompressed_scenario_training.tfrecord-00000-of-01000"), 325)
    assert name == "tfrecord-00000-of-01000_325"


def test_maps_of_another_writer() -> None:
    """roadgen writes WOMD's messages with prost, from Waymo's own schema."""
    roadgen = pytest.importorskip("roadgen")
    map_ = roadgen.Map()
    lanes = [roadgen.Lane(width=3.5), roadgen.Lane(width=3.5)]
    map_.add_road(start=(0.0, 0.0, 10.0), end=(100.0, 0.0, 12.0), lanes=lanes)
    scene = parse_scenario(map_.to_womd_bytes(scenario_id="town-1"), "here", "one")
    assert (scene.scenario_id, scene.frame_count, len(scene.objects)) == ("town-1", 91, 0)
    assert {"lane", "road_edge"} <= {road.type for road in scene.roads}
    lengths = [
        float(np.linalg.norm(np.diff(road.points_m, axis=0), axis=1).sum())
        for road in scene.roads
        if road.type == "lane"
    ]
    assert lengths and all(99.0 < length < 101.0 for length in lengths)
