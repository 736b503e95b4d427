# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""One scene of a .pvs file, as its sections and as a `Scene`.

docs/pvs.md lists what the file stores and what it does not.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drive_env.scenes import packed
from drive_env.scenes.controls import TRAFFIC_LIGHT, light_tree, roads_with_signs
from drive_env.scenes.schema import (
    AREA_TYPES,
    OBJECT_TYPES,
    SEGMENT_TYPES,
    Control,
    Floats,
    LaneLinks,
    Road,
    Scene,
    SceneObject,
)


@dataclass(frozen=True)
class StoredScene:
    """A checked scene of a file. All arrays alias the file and are read-only.

    Attributes:
        name: file name of the source.
        head: a record of packed.SCENE.
        sections: arrays by name, see packed.SECTIONS; places are metres relative to `origin_m`.
        data: all its bytes.
        entry: its record in the table (packed.ENTRY).
    """

    name: str
    head: Any
    sections: dict[str, NDArray[Any]]
    data: memoryview
    entry: Any

    @property
    def moving_vehicles(self) -> int:
        """Return the number of agents under control=moving."""
        return int(self.entry["moving_vehicles"])

    @property
    def valid_vehicles(self) -> int:
        """Return the number of agents under control=valid."""
        return int(self.entry["valid_vehicles"])

    @property
    def object_count(self) -> int:
        """Return the number of objects that are present in some frame."""
        return int(self.head["object_count"])

    @property
    def frame_count(self) -> int:
        """Return the number of frames of the log, 0.1 s apart."""
        return int(self.head["frame_count"])

    @property
    def origin_m(self) -> Floats:
        """Return the scene's origin in the world frame, (3,)."""
        return np.array([self.head["origin_x"], self.head["origin_y"], self.head["origin_z"]])

    @property
    def has_height(self) -> bool:
        """Return whether heights are known."""
        return bool(self.head["flags"] & packed.HAS_HEIGHT)

    @cached_property
    def text(self) -> dict[str, Any]:
        """Return the section `text`: names, metadata, and what the compiler kept and dropped."""
        return _parse(self.sections["text"])

    @property
    def counts(self) -> dict[str, int]:
        """Return the numbers of lanes, and of objects, segments, controls and areas by kind."""
        kinds = np.bincount(self.sections["objects"]["type"], minlength=len(OBJECT_TYPES))
        areas = np.bincount(self.sections["areas"]["kind"], minlength=len(AREA_TYPES))
        segments = {
            f"{name} segments": int(n)
            for name, n in zip(SEGMENT_TYPES, self.head["segment_count"], strict=True)
        }
        lights = int((self.sections["controls"]["kind"] == TRAFFIC_LIGHT).sum())
        return {
            **{name: int(n) for name, n in zip(OBJECT_TYPES, kinds, strict=False)},
            "lanes": len(self.sections["lanes"]),
            **segments,
            "signs": len(self.sections["controls"]) - lights,
            "lights": lights,
            **{name: int(n) for name, n in zip(AREA_TYPES, areas, strict=False)},
        }

    def scene(self) -> Scene:
        """Return the scene with its own arrays, in the world frame, as far as the file stores it.

        Polylines are the simplified ones; lines and edges have no id; velocities lie along the
        headings.
        """
        ids = self._lane_ids()
        controls = tuple(self._control(item, ids) for item in self.sections["controls"])
        roads = (*self._lanes(ids), *self._polylines(), *self._areas())
        scene = Scene(
            name=self.name,
            scenario_id=str(self.text.get("scenario_id", "")),
            frame_count=self.frame_count,
            objects=tuple(self._object(item) for item in self.sections["objects"]),
            roads=roads,
            traffic_lights=light_tree(controls, roads, self.frame_count),
            metadata=self._metadata(),
            has_height=self.has_height,
            controls=controls,
        )
        return dataclasses.replace(scene, roads=roads_with_signs(scene))

    def _metadata(self) -> dict[str, Any]:
        """Return the metadata of the source, with indices among the stored objects."""
        stored = self.text.get("metadata")
        metadata = stored if isinstance(stored, dict) else {}
        flags = self.sections["objects"]["flags"]
        difficulties = self._difficulties(metadata.get("tracks_to_predict"))
        tracks = [
            {"track_index": int(index), "difficulty": difficulties.get(int(index), 0)}
            for index in np.flatnonzero(flags & packed.TO_PREDICT)
        ]
        interest = self.sections["objects"]["id"][flags & packed.OF_INTEREST > 0].tolist()
        return {
            **metadata,
            "sdc_track_index": int(self.head["sdc"]),
            "tracks_to_predict": tracks,
            "objects_of_interest": interest,
        }

    def _difficulties(self, listed: Any) -> dict[int, int]:
        """Return the difficulty of tracks to predict by index among the stored objects."""
        counts = self.text.get("objects")
        dropped = counts.get("dropped") if isinstance(counts, dict) else None
        gone = (
            set(dropped)
            if isinstance(dropped, list) and all(type(index) is int for index in dropped)
            else set()
        )
        items = (
            [item for item in listed if isinstance(item, dict)] if isinstance(listed, list) else []
        )
        pairs = [(item.get("track_index"), item.get("difficulty")) for item in items]
        return {
            index - sum(other < index for other in gone): difficulty
            for index, difficulty in pairs
            if type(index) is int and type(difficulty) is int
        }

    def _object(self, item: Any) -> SceneObject:
        frames = self.sections["frames"][int(item["frames_index"]) :][: int(item["frame_count"])]
        span = slice(int(item["frame_first"]), int(item["frame_first"]) + len(frames))
        position, velocity = np.zeros((self.frame_count, 3)), np.zeros((self.frame_count, 2))
        heading, valid = np.zeros(self.frame_count), np.zeros(self.frame_count, dtype=np.bool_)
        valid[span] = there = frames["speed"] != packed.FRAME_INVALID
        axes = (
            np.stack([frames[name] for name in ("x_m", "y_m", "z_m")], axis=-1).astype(np.float64)
            + self.origin_m
        )
        position[span] = np.where(there[:, None], axes, 0.0)
        heading[span] = np.where(there, frames["heading"] / packed.HEADING_SCALE, 0.0)
        speed = np.where(there, frames["speed"] / packed.SPEED_SCALE, 0.0)
        velocity[span] = speed[:, None] * np.stack(
            [np.cos(heading[span]), np.sin(heading[span])], axis=-1
        )
        goal = (
            np.array([item["goal_x_m"], item["goal_y_m"], item["goal_z_m"]], dtype=np.float64)
            + self.origin_m
        )
        return SceneObject(
            type=int(item["type"]),
            id=int(item["id"]),
            width_m=float(item["width_m"]),
            length_m=float(item["length_m"]),
            height_m=float(item["height_m"]),
            expert=bool(item["flags"] & packed.EXPERT),
            position_m=position,
            velocity_mps=velocity,
            heading_rad=heading,
            valid=valid,
            goal_m=goal,
        )

    def _points(self, segments: slice) -> Floats:
        """Return the points of a polyline in the world frame, (n, 3)."""
        x, y, z, ux, uy, slope, half = (
            self.sections[name][segments].astype(np.float64)
            for name in ("x", "y", "z", "ux", "uy", "slope", "half")
        )
        middle, along = (
            np.stack([x, y, z], axis=-1),
            np.stack([ux, uy, slope], axis=-1) * half[:, None],
        )
        return np.concatenate([(middle - along)[:1], middle + along]) + self.origin_m

    def _lane_ids(self) -> list[int]:
        """Return unique ids of lanes: the source's, or their numbers if those are not unique."""
        ids: list[int] = self.sections["lanes"]["id"].tolist()
        return (
            ids if len({item for item in ids if item != -1}) == len(ids) else list(range(len(ids)))
        )

    def _lanes(self, ids: list[int]) -> list[Road]:
        links, roads = self.sections["links"], []
        inferred = bool(self.head["flags"] & packed.LANES_INFERRED)
        for number, lane in zip(ids, self.sections["lanes"], strict=True):
            first = int(lane["first_segment"])
            exits, entries = (
                tuple(ids[link] for link in links[int(lane[start]) :][: int(lane[count])])
                for start, count in (("exits", "exit_count"), ("entries", "entry_count"))
            )
            left, right = (
                -1 if lane[side] == packed.NO_LANE else ids[int(lane[side])]
                for side in ("left", "right")
            )
            known = (
                None
                if inferred
                else LaneLinks(exits, entries, left, right, float(lane["speed_limit_mps"]))
            )
            points = self._points(slice(first, first + int(lane["segment_count"])))
            roads.append(Road("lane", _element(lane["kind"]), number, points, known))
        return roads

    def _polylines(self) -> list[Road]:
        """Return lines and edges."""
        first, roads = int(self.head["segment_count"][0]), []
        for name, count in zip(SEGMENT_TYPES[1:], self.head["segment_count"][1:], strict=True):
            numbers = self.sections["polyline"][first : first + int(count)]
            starts = first + np.flatnonzero(np.diff(numbers, prepend=-1.0))
            ends = [*starts[1:].tolist(), first + int(count)]
            for start, end in zip(starts.tolist(), ends, strict=False):
                roads.append(
                    Road(
                        name,
                        _element(self.sections["kind"][start]),
                        -1,
                        self._points(slice(start, end)),
                    )
                )
            first += int(count)
        return roads

    def _areas(self) -> list[Road]:
        points = (
            np.stack([self.sections[f"points_{axis}"] for axis in "xyz"], axis=-1).astype(
                np.float64
            )
            + self.origin_m
        )
        elements = {"crosswalk": 18, "speed_bump": 19, "driveway": 20}
        return [
            Road(
                AREA_TYPES[item["kind"]],
                elements[AREA_TYPES[item["kind"]]],
                int(item["id"]),
                points[int(item["first"]) :][: int(item["count"])],
            )
            for item in self.sections["areas"]
        ]

    def _control(self, item: Any, ids: list[int]) -> Control:
        x, y, z = self.origin_m
        line = np.array(
            [
                [item["line_x0_m"] + x, item["line_y0_m"] + y, z],
                [item["line_x1_m"] + x, item["line_y1_m"] + y, z],
            ]
        )
        line[:, 2] += item["z_m"]
        states = self.sections["states"][int(item["states"]) :][: int(item["state_count"])]
        return Control(
            kind=int(item["kind"]),
            position_m=np.array([item["x_m"] + x, item["y_m"] + y, item["z_m"] + z]),
            lane_id=-1 if item["lane"] == packed.NO_LANE else ids[int(item["lane"])],
            states=states.copy(),
            id=int(item["id"]),
            heading_rad=float(item["heading"]),
            stop_line_m=line,
        )


def name_in(text: NDArray[np.uint8]) -> str | None:
    """Return the scene's full name from a section `text`; None if there is none."""
    name = _parse(text).get("name")
    return name if isinstance(name, str) else None


def _parse(text: NDArray[np.uint8]) -> dict[str, Any]:
    try:
        content = json.loads(text.tobytes())
    except (ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def _element(kind: Any) -> int:
    return -1 if kind == packed.KIND_NONE else int(kind)
