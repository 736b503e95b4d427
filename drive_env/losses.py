# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Counts what a scene loses when it is written in another format.

A format drops what it cannot store, and simplifies what it stores with less detail. `puffer-scenes
convert` sums this up.
"""

from __future__ import annotations

from collections import Counter

from drive_env.scenes.bin_scene import BY_NAME, OBJECT_CODES
from drive_env.scenes.controls import STATES, WORDS, controls_of, light_tree, lights_of
from drive_env.scenes.schema import CONTROL_KINDS, OBJECT_TYPES, SEGMENT_TYPES, Scene
from drive_env.scenes.stored import StoredScene

# Metadata that layouts may be able to store
NAMED = ("sdc_track_index", "tracks_to_predict", "objects_of_interest")
Losses = tuple[Counter[str], Counter[str]]


def losses(
    scene: Scene,
    format: str,
    layout: str = "v2",
    written: StoredScene | None = None,
    simplify_m: float = 0.0,
) -> Losses:
    """Return counts of what is dropped and of what is simplified when a scene is written.

    Args:
        format: "json", "bin" or "pvs".
        layout: layout of a .bin file.
        written: the scene as read from its .pvs file.
        simplify_m: the largest deviation of its simplified roads.
    """
    if written is not None:
        dropped, simplified = _of_pvs(scene, written, simplify_m)
    elif format == "bin":
        dropped, simplified = _of_bin(scene, layout)
    else:
        dropped, simplified = _of_json(scene)
    return +dropped, +simplified


def _of_json(scene: Scene) -> Losses:
    dropped: Counter[str] = Counter()
    dropped["links of lanes"] = sum(road.links is not None for road in scene.roads)
    controls = scene.controls or ()  # None: they derive from fields that JSON stores
    kinds = _kinds(scene) if scene.controls else Counter[str]()
    dropped["yield signs"] = kinds["yield_sign"]
    dropped["stop lines"] = sum(item.stop_line_m is not None for item in controls)
    lights = len(light_tree(controls, scene.roads, scene.frame_count))
    dropped["traffic lights of a lane that has another"] = kinds["traffic_light"] - lights
    nameless = sum(
        int(state) not in WORDS for item in controls for state in set(item.states.tolist())
    )
    return dropped, Counter({"states of traffic lights": nameless})


def _of_bin(scene: Scene, layout: str) -> Losses:
    form, known = BY_NAME[layout], set(OBJECT_CODES.values())
    stored = [item for item in scene.objects if OBJECT_TYPES[item.type] in known]
    kinds = _kinds(scene)
    dropped: Counter[str] = Counter()
    dropped["objects of other types"] = len(scene.objects) - len(stored)
    dropped["traffic lights"] = kinds["traffic_light"] + _placeless(scene)
    dropped["yield signs"] = kinds["yield_sign"]
    dropped["links of lanes"] = sum(road.links is not None for road in scene.roads)
    dropped["stop lines"] = sum(
        item.stop_line_m is not None
        for item in controls_of(scene)
        if _kind(item.kind) == "stop_sign"
    )
    dropped["scenario ids"] = int(bool(scene.scenario_id))
    dropped["objects of interest"] = len(scene.of_interest)
    dropped["other metadata"] = sum(name not in NAMED for name in scene.metadata)
    if not form.tracks:
        dropped["self-driving cars"] = int(scene.sdc >= 0)
        dropped["tracks to predict"] = len(scene.to_predict)
    else:
        dropped["difficulties of tracks"] = _difficulties(scene)
    with_id = [item.id for item in stored if item.id != -1]
    if "id" not in form.head:
        dropped["ids of roads"] = sum(road.id != -1 for road in scene.roads)
    # An object without an id is written with id 0; if two ids are equal, readers ignore all.
    if "id" not in form.head or len(stored) - len(set(with_id)) > 1:
        dropped["ids of objects"] = len(with_id)
    return dropped, Counter(
        {"subtypes of roads": sum(road.type in SEGMENT_TYPES for road in scene.roads)}
    )


def _of_pvs(scene: Scene, stored: StoredScene, simplify_m: float) -> Losses:
    dropped: Counter[str] = Counter()
    simplified: Counter[str] = Counter()
    lines = [road for road in scene.roads if road.type in SEGMENT_TYPES]
    roads = stored.text["roads"]
    before = sum(len(road.points_m) for road in lines)
    simplified[f"points of roads (within {simplify_m:g} m)"] = before - int(
        stored.head["segment_count"].sum()
    )
    simplified["unknown states of traffic lights"] = _wordless(scene)
    dropped["objects that are never present"] = len(scene.objects) - stored.object_count
    dropped["roads without length"] = sum(
        roads[name]["roads"] - roads[name]["kept"] for name in SEGMENT_TYPES
    )
    dropped["ids of lines and edges"] = sum(road.id != -1 for road in lines if road.type != "lane")
    dropped["traffic lights without a place"] = _placeless(scene)
    dropped["metadata"] = int(bool(scene.metadata) and stored.text["metadata"] is None)
    return dropped, simplified


def _difficulties(scene: Scene) -> int:
    """Return the number of tracks to predict whose difficulty is known."""
    listed = scene.metadata.get("tracks_to_predict")
    items = [item for item in listed if isinstance(item, dict)] if isinstance(listed, list) else []
    return sum(bool(item.get("difficulty")) for item in items)


def _kind(number: int) -> str:
    return CONTROL_KINDS[number]


def _kinds(scene: Scene) -> Counter[str]:
    return Counter(_kind(item.kind) for item in controls_of(scene))


def _placeless(scene: Scene) -> int:
    """Return the number of traffic lights of a JSON scene that have no position in any frame."""
    return len(scene.traffic_lights) - len(lights_of(scene)) if scene.controls is None else 0


def _wordless(scene: Scene) -> int:
    """Return the number of light states of a JSON scene that are not known words."""
    lights = [
        light
        for light in scene.traffic_lights.values()
        if isinstance(light, dict) and scene.controls is None
    ]
    words = [
        word for light in lights if isinstance(light.get("state"), list) for word in light["state"]
    ]
    return sum(not isinstance(word, str) or word not in STATES for word in words)
