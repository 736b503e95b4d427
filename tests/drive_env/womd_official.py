# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Reads a TFRecord file of WOMD with TensorFlow and Waymo's own messages, for
test_womd_official.py; run by another interpreter (see there).

Usage: womd_official.py FILE OUT.json
"""

from __future__ import annotations

import json
import sys
from typing import Any

import tensorflow as tf  # type: ignore[import-not-found]
from waymo_open_dataset.protos import scenario_pb2  # type: ignore[import-not-found]

STATE = ("center_x", "center_y", "center_z", "heading", "velocity_x", "velocity_y")


def points(listed: Any) -> list[list[float]]:
    return [[item.x, item.y, item.z] for item in listed]


def feature(item: Any) -> dict[str, Any]:
    kind = item.WhichOneof("feature_data")
    value = getattr(item, kind)
    out: dict[str, Any] = {"kind": kind, "id": item.id}
    if kind == "stop_sign":
        return {**out, "lanes": list(value.lane), "points": points([value.position])}
    if kind in ("crosswalk", "speed_bump", "driveway"):
        return {**out, "points": points(value.polygon)}
    out |= {"type": value.type, "points": points(value.polyline)}
    if kind == "lane":
        out |= {
            "exits": list(value.exit_lanes),
            "entries": list(value.entry_lanes),
            "limit_mph": value.speed_limit_mph,
        }
    return out


def scenario(message: Any) -> dict[str, Any]:
    return {
        "scenario_id": message.scenario_id,
        "frames": len(message.timestamps_seconds),
        "sdc": message.sdc_track_index,
        "to_predict": [item.track_index for item in message.tracks_to_predict],
        "of_interest": list(message.objects_of_interest),
        "tracks": [
            {
                "id": track.id,
                "type": track.object_type,
                "valid": [state.valid for state in track.states],
                "states": [[getattr(state, name) for name in STATE] for state in track.states],
                "sizes": [[state.width, state.length, state.height] for state in track.states],
            }
            for track in message.tracks
        ],
        # A kind of feature that these messages do not know has none.
        "features": [
            feature(item) for item in message.map_features if item.WhichOneof("feature_data")
        ],
        "lights": [
            [
                [light.lane, light.state, *points([light.stop_point])[0]]
                for light in frame.lane_states
            ]
            for frame in message.dynamic_map_states
        ],
    }


def main() -> None:
    source, out = sys.argv[1:]
    records = [
        scenario(scenario_pb2.Scenario.FromString(bytes(record.numpy())))
        for record in tf.data.TFRecordDataset(source)
    ]
    with open(out, "w", encoding="utf-8") as file:
        json.dump(records, file)


main()
