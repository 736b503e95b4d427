# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Log replay is the log: agents under replay_log=1 and bodies under others=log are within 1 mm of
what the file says.

The files are read here with json and struct, so that a mistake of the readers, of the compiler or
of the env shows alike.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import puffervec
from drive_env.config import CONTROLS, DriveConfig
from drive_env.evaluate.observation import ObservationReader
from drive_env.prepare import prepare_scenes
from drive_env.scenes import write_scenes
from drive_env.scenes.bin_scene import bin_bytes
from drive_env.scenes.bin_v3 import VARIANTS
from drive_env.scenes.reader import read_scene
from puffervec.errors import ConfigError, SceneError
from tests.drive_env.bins import v3_bytes

MOST_M, MOST_RAD = 1e-3, 1e-4
RANGE_M, PARTNERS = 500.0, 64  # as far and as many as a row can show
C_FILE = "scenes/tfrecord-00002-of-01000_407.json"


@dataclass(frozen=True)
class Logged:
    """One object as its file has it. Arrays (T,); metres and radians."""

    kind: str
    id: int | None
    expert: bool
    goal: tuple[float, float]
    x: np.ndarray
    y: np.ndarray
    heading: np.ndarray
    valid: np.ndarray


@dataclass(frozen=True)
class Raw:
    """What a file says of who is where."""

    objects: list[Logged]
    to_predict: frozenset[int] = frozenset()
    sdc: int = -1

    def agents(self, control: str, ids: tuple[int, ...]) -> list[int]:
        """Who is an agent, by the rules of docs/drive.md."""
        chosen = {
            "predict": self.to_predict,
            "sdc": {self.sdc},
            "ids": {o for o, it in enumerate(self.objects) if it.id in ids},
        }
        if control in chosen:
            return sorted(o for o in chosen[control] if o >= 0 and self.objects[o].valid[0])
        there = [
            o
            for o, it in enumerate(self.objects)
            if it.valid[0] and (control == "all" or it.kind == "vehicle")
        ]
        ways = {
            o: np.hypot(it.goal[0] - it.x[0], it.goal[1] - it.y[0])
            for o, it in enumerate(self.objects)
        }
        return [
            o for o in there if ways[o] > 2 and not (control == "moving" and self.objects[o].expert)
        ]


def from_json(text: str, degrees: bool = False) -> Raw:
    tree = json.loads(text)
    found = []
    for item in tree["objects"]:
        x, y = ([point[axis] for point in item["position"]] for axis in "xy")
        heading = np.radians(item["heading"]) if degrees else np.array(item["heading"], float)
        goal = item["goalPosition"]["x"], item["goalPosition"]["y"]
        found.append(Logged(
            item["type"], item.get("id"), bool(item.get("mark_as_expert")), goal,
            np.array(x, float), np.array(y, float), heading, np.array(item["valid"], bool),
        ))  # fmt: skip
    metadata = tree.get("metadata") or {}
    listed = frozenset(track["track_index"] for track in metadata.get("tracks_to_predict", ()))
    return Raw(found, listed, metadata.get("sdc_track_index", -1))


def from_bin(data: bytes, tracks: bool, head: str) -> Raw:
    """head: the ints before each object, of which "t" is the type, "n" the frames, "i" the id and
    "." is passed over.
    """
    ints = struct.unpack_from(f"<{len(data) // 4}i", data)
    at = 2 + ints[1] if tracks else 0
    sdc, to_predict = (ints[0], frozenset(ints[2:at])) if tracks else (-1, frozenset())
    count, at = ints[at], at + 2
    found = []
    for _ in range(count):
        values = dict(zip(head, ints[at : at + len(head)], strict=True))
        at, n = at + len(head), values["n"]
        columns = np.array(struct.unpack_from(f"<{7 * n}f", data, 4 * at)).reshape(7, n)
        valid, tail = (
            np.array(ints[at + 7 * n : at + 8 * n], bool),
            struct.unpack_from("<6f", data, 4 * (at + 8 * n)),
        )
        expert, at = bool(ints[at + 8 * n + 6]), at + 8 * n + 7
        kind = {1: "vehicle", 2: "pedestrian", 3: "cyclist"}[values["t"]]
        found.append(
            Logged(
                kind, values.get("i"), expert, tail[3:5], columns[0], columns[1], columns[6], valid
            )
        )
    ids = [item.id for item in found]
    if len(set(ids)) < len(ids):  # they tell nothing apart: docs/scenes.md
        found = [Logged(**{**vars(item), "id": None}) for item in found]
    return Raw(found, to_predict, sdc)


# ---- the same scene in all formats ----


def older(text: str, generation: str) -> str:
    """A scene of generation C as those before it: headings in degrees that go on past 360, keys
    that are not there.
    """
    tree = json.loads(text)
    dropped = {"id", "mark_as_expert", "metadata"} | (
        {"height", "map_element_id", "scenario_id", "z"} if generation == "A" else set()
    )

    def without(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: without(item) for key, item in value.items() if key not in dropped}
        return [without(item) for item in value] if isinstance(value, list) else value

    for number, item in enumerate(tree["objects"]):
        item["heading"] = [
            float(np.degrees(angle)) + 360.0 * (number % 2) for angle in item["heading"]
        ]
    return json.dumps(without(tree))


def rewritten(real: Path, folder: Path, form: str) -> tuple[Path, Raw]:
    """The file and the log of scene 407 in another format; of binary ones the log is that of the
    JSON file.
    """
    text, path = (real / C_FILE).read_text(), folder / f"scene.{form}"
    scene, raw = read_scene(real / C_FILE), from_json(text)
    if form in ("A", "B"):
        path.write_text(older(text, form))
        return path, from_json(path.read_text(), degrees=True)
    if form == "pvs":
        write_scenes(path, [scene])
        return path, raw
    v2 = bin_bytes(scene)
    data = {"v2b": bytes(16) + v2, "v3": v3_bytes(scene, VARIANTS[0]), "v2": v2}.get(
        form
    ) or bin_bytes(scene, form)
    path.write_bytes(data)
    known = form in ("v2", "v2b", "v3")
    objects = [
        Logged(**{**vars(item), "id": item.id if known or form == "v0" else None})
        for item in raw.objects
    ]
    # In v3 the ids are places, the car is the first object, and the tracks to predict are fixed.
    if form == "v3":
        objects = [Logged(**{**vars(item), "id": place}) for place, item in enumerate(objects)]
        return path, Raw(objects, frozenset({0, 1}), 0)
    return path, Raw(objects, raw.to_predict if known else frozenset(), raw.sdc if known else -1)


REAL: dict[str, Callable[[Path], Raw]] = {
    C_FILE: lambda path: from_json(path.read_text()),
    "scenes/tfrecord-00000-of-01000_325.json": lambda path: from_json(path.read_text()),
    "scenes/tfrecord-00005-of-00150_792d65eb579314db.json": lambda path: from_json(
        path.read_text()
    ),
    "scenes/tfrecord-00004-of-00150_a5c442237e79e506.json": lambda path: from_json(
        path.read_text()
    ),
    "scenes/tfrecord-00000-of-00150_2a173b334be3d32c.json": lambda path: from_json(
        path.read_text()
    ),
    "scenes/tfrecord-00001-of-01000_307.json": lambda path: from_json(
        path.read_text(), degrees=True
    ),
    "scenes/tfrecord-00000-of-00150_78.json": lambda path: from_json(path.read_text()),
    "scenes/carla_Town01_0.json": lambda path: from_json(path.read_text()),
    "bins/map_000_v1.bin": lambda path: from_bin(path.read_bytes(), tracks=False, head="tn"),
    "bins/map_000_v2.bin": lambda path: from_bin(path.read_bytes(), tracks=True, head=".tin"),
}
FORMS = ("A", "B", "v0", "v1", "v2", "v2b", "v3", "pvs")


# ---- the env beside it ----


def wrapped(angle: Any) -> Any:
    return (angle + np.pi) % (2 * np.pi) - np.pi


class Replay:
    """One env that plays one scene's log, and the file's log beside it."""

    def __init__(self, path: Path, raw: Raw, control: str, ids: tuple[int, ...]) -> None:
        self.expected, self.raw = raw.agents(control, ids), raw
        settings = {
            "scenes": str(path), "control": control, "control_ids": ids, "replay_log": 1,
            "goal_behavior": "drive_on", "num_agents": max(1, len(self.expected)),
            "partners": PARTNERS, "lanes": 0, "lines": 0, "edges": 0, "range_m": RANGE_M,
        }  # fmt: skip
        head, _ = prepare_scenes(DriveConfig(**settings)).scenes.scene(0)
        self.origin = np.array([float(head["origin_x"]), float(head["origin_y"])])
        self.present = [
            o for o, item in enumerate(raw.objects) if item.valid.any()
        ]  # the others are dropped
        self.vec = puffervec.make("drive", env_kwargs=settings, backend="serial", num_envs=1)
        self.reader = ObservationReader(self.vec)
        self.compared, self.worst_m = 0, 0.0

    def play(self) -> None:
        """Compare all frames."""
        last = max(
            int(np.flatnonzero(item.valid)[-1])
            for item in (self.raw.objects[o] for o in self.expected)
        )
        with self.vec as vec:
            rows, _ = vec.reset(seed=0)
            for t in range(last + 1):
                if t:
                    rows = vec.step(vec.action_space.sample() * 0)[0]
                self.compare(t, rows)

    def compare(self, t: int, rows: Any) -> None:
        state = self.vec.peek(0)
        assert int(state["slot_clock"][0]) == t
        objects = [self.present[o] for o in state["object"][state["object"] >= 0]]
        assert objects == self.expected
        at = np.stack([state["x"], state["y"]], -1) + self.origin
        for row, o in enumerate(objects):
            item = self.raw.objects[o]
            assert bool(state["active"][row]) == (t <= np.flatnonzero(item.valid)[-1]), (o, t)
            if state["active"][row] and item.valid[t]:
                self.note(float(np.hypot(*(at[row] - (item.x[t], item.y[t])))), (o, t))
                assert abs(wrapped(float(state["heading"][row]) - item.heading[t])) <= MOST_RAD, (
                    o,
                    t,
                )
        self.compare_seen(t, rows, state, at)

    def compare_seen(self, t: int, rows: Any, state: dict[str, np.ndarray], at: np.ndarray) -> None:
        """What each agent sees of the others are the bodies of this frame, and no others."""
        others = [
            item
            for o, item in enumerate(self.raw.objects)
            if o not in self.expected and item.valid[t]
        ]
        logged = np.array([(item.x[t], item.y[t]) for item in others]).reshape(-1, 2)
        live = np.flatnonzero(state["active"])
        seen = self.reader.read(rows)["partners"]
        for row in live:
            cosine, sine = (
                np.cos(float(state["heading"][row])),
                np.sin(float(state["heading"][row])),
            )
            x, y = (seen[axis][row][seen["there"][row]].astype(float) for axis in "xy")
            places = np.stack([x * cosine - y * sine, x * sine + y * cosine], -1) + at[row]
            bodies = np.concatenate([logged, at[live[live != row]]])
            near = np.sort(np.hypot(*(bodies - at[row]).T))
            assert len(places) == min(PARTNERS, int((near <= RANGE_M).sum())), (row, t)
            if not len(places):
                continue
            gaps = np.hypot(*(places[:, None] - bodies[None]).transpose(2, 0, 1))
            assert len(set(gaps.argmin(axis=1))) == len(places), (row, t)
            for gap in gaps.min(axis=1):
                self.note(float(gap), (row, t))

    def note(self, off_m: float, where: tuple[int, int]) -> None:
        assert off_m <= MOST_M, where
        self.worst_m = max(self.worst_m, off_m)
        self.compared += 1


def check(path: Path, raw: Raw, control: str) -> int:
    """Play a file's log. Returns how many poses were compared; 0 where there is no agent, which has
    to be said.
    """
    named = [item.id for item in raw.objects if item.id is not None and item.valid.any()]
    ids = tuple(named[::2]) if control == "ids" else ()
    if not raw.agents(control, ids):
        with pytest.raises(
            (SceneError, ConfigError), match="has an agent|set control_ids to the agents' track ids"
        ):
            Replay(path, raw, control, ids)
        return 0
    replay = Replay(path, raw, control, ids)
    replay.play()
    print(
        f"{path.name} {control}: {replay.compared} poses, at most {1000 * replay.worst_m:.2f} mm "
        "off"
    )
    return replay.compared


@pytest.fixture(autouse=True)
def _cache(shared_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PUFFERVEC_CACHE", str(shared_cache))


def test_a_real_scene_is_replayed_within_a_millimetre(real_data: Path) -> None:
    assert check(real_data / C_FILE, REAL[C_FILE](real_data / C_FILE), "moving") > 2500


@pytest.mark.slow
@pytest.mark.parametrize("control", CONTROLS)
@pytest.mark.parametrize("name", REAL)
def test_real_scenes_are_replayed_within_a_millimetre(
    real_data: Path, name: str, control: str
) -> None:
    raw = REAL[name](real_data / name)
    assert check(real_data / name, raw, control) or control in ("predict", "sdc", "ids")


@pytest.mark.slow
@pytest.mark.parametrize("control", CONTROLS)
@pytest.mark.parametrize("form", FORMS)
def test_all_formats_are_replayed_within_a_millimetre(
    real_data: Path, tmp_path: Path, form: str, control: str
) -> None:
    path, raw = rewritten(real_data, tmp_path, form)
    assert check(path, raw, control) or control in ("predict", "sdc", "ids")
