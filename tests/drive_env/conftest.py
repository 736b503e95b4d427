# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""What the tests of drive_env share: a tiny scene, a private cache, the real scenes, the slow twin
of the index.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

REAL_SCENES = Path(__file__).resolve().parents[3] / "shared" / "data" / "scenes"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder of its own."""
    monkeypatch.setenv("PUFFERVEC_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(scope="session")
def shared_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache folder that the tests of a session share; a test must point PUFFERVEC_CACHE at it."""
    return tmp_path_factory.mktemp("shared-cache")


@pytest.fixture
def real_scenes() -> Path:
    """The folder of real scenes, or a skip."""
    if not REAL_SCENES.is_dir():
        pytest.skip(f"no real scenes at {REAL_SCENES}")
    return REAL_SCENES


@pytest.fixture
def real_data() -> Path:
    """The folder of real scenes in all formats, or a skip."""
    if not REAL_SCENES.is_dir():
        pytest.skip(f"no real scenes at {REAL_SCENES}")
    return REAL_SCENES.parent


@pytest.fixture(scope="session")
def index_twin() -> ModuleType:
    """The slow cell index (cell_index_numpy.py beside this file)."""
    path = Path(__file__).with_name("cell_index_numpy.py")
    spec = importlib.util.spec_from_file_location("cell_index_numpy", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def tiny_tree() -> Callable[..., dict[str, Any]]:
    """A function that makes the smallest useful scene as JSON-like data; see `make_tree`."""
    return make_tree


def make_tree(frames: int = 30, cars: int = 2, speed_mps: float = 5.0) -> dict[str, Any]:
    """A straight road of two lanes along +x with an edge on either side; car i starts at x = 12 i
    in lane i % 2.
    """
    objects = []
    for index in range(cars):
        x0, y = 12.0 * index, -1.75 if index % 2 == 0 else 1.75
        xs = [x0 + speed_mps * 0.1 * frame for frame in range(frames)]
        objects.append(
            {
                "position": [{"x": x, "y": y, "z": 0.0} for x in xs],
                "velocity": [{"x": speed_mps, "y": 0.0} for _ in xs],
                "heading": [0.0 for _ in xs],
                "valid": [True for _ in xs],
                "width": 2.0,
                "length": 4.5,
                "height": 1.5,
                "goalPosition": {"x": xs[-1], "y": y, "z": 0.0},
                "type": "vehicle",
                "id": 100 + index,
                "mark_as_expert": False,
            }
        )
    ys = {"lane": (-1.75, 1.75), "road_line": (0.0,), "road_edge": (-4.5, 4.5)}
    elements = {"lane": 2, "road_line": 6, "road_edge": 15}
    roads = [
        {
            "geometry": [{"x": 0.5 * step - 20.0, "y": y, "z": 0.0} for step in range(281)],
            "type": kind,
            "map_element_id": elements[kind],
            "id": 10 * number + side,
        }
        for number, kind in enumerate(ys)
        for side, y in enumerate(ys[kind])
    ]
    return {
        "name": "tiny.json",
        "scenario_id": "0000000000000001",
        "objects": objects,
        "roads": roads,
        "tl_states": {},
        "metadata": {"sdc_track_index": 0, "tracks_to_predict": [], "objects_of_interest": []},
    }
