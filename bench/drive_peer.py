# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Run PufferDrive's core, for bench/drive.py: compile its sources and write scenes for it.

The user provides the sources, which are not copied. Supported: `gpudrive.h` (June 2025, rows of
1847 floats), which reads maps without a version ("v0"). Its drawing code needs raylib's headers to
compile; it is linked without raylib and never called.
"""

from __future__ import annotations

import hashlib
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from drive_env.scenes.schema import Road, Scene, SceneObject
from puffervec.errors import ConfigError

HEADER = "gpudrive.h"
FLAGS = (
    "-O2",
    "-w",
    "-ffunction-sections",
)  # -O2 as in the project; drawing is left out.
FRAMES = 91
CODES = {
    "lane": 4,
    "road_line": 5,
    "road_edge": 6,
    "stop_sign": 7,
    "crosswalk": 8,
    "speed_bump": 9,
    "driveway": 10,
}
FEWEST_POINTS = 10  # Polylines with more points are thinned.
LEAST_AREA_M2 = 0.1


@dataclass(frozen=True)
class Rate:
    """The result of one run: agents of the scene, and agent-steps per second."""

    agents: int
    agent_steps_per_s: float


def version(folder: Path) -> str:
    """Return the file name and the first digits of the SHA-256 of a core, which has no version."""
    return f"{HEADER} {hashlib.sha256((folder / HEADER).read_bytes()).hexdigest()[:12]}"


class Peer:
    """The compiled core of PufferDrive.

    Raises: ConfigError: sources or raylib's headers are missing, or they do not compile.
    """

    def __init__(self, folder: Path, headers: Path | None) -> None:
        header = folder / HEADER
        if not header.is_file():
            raise ConfigError(
                f"--peer: {header} does not exist: name the folder of PufferDrive's C sources"
            )
        include = headers or next((path.parent for path in _around(folder)), None)
        if include is None:
            raise ConfigError(
                "--peer: no raylib.h was found near the sources: name its folder with "
                "--peer-headers"
            )
        self._folder = tempfile.TemporaryDirectory(prefix="puffervec-peer-")
        self.program = Path(self._folder.name) / "peer"
        command = [
            "gcc",
            *FLAGS,
            f'-DPEER_HEADER="{header}"',
            f"-I{include}",
            str(Path(__file__).with_name("peer_drive.c")),
        ]
        command += ["-o", str(self.program), "-lm", "-Wl,--gc-sections"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            self._folder.cleanup()
            raise ConfigError(
                f"--peer: the sources in {folder} do not compile: {done.stderr.strip()[:500]}"
            )

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the program and the maps."""
        self._folder.cleanup()

    def write(self, scene: Scene) -> Path:
        """Write a scene as a map and return its path."""
        path = Path(self._folder.name) / f"{abs(hash(scene.name))}.bin"
        path.write_bytes(map_bytes(scene))
        return path

    def run(self, path: Path, seconds: float, core: int) -> Rate:
        """Step a map on one core and return the rate."""
        command = ["taskset", "-c", str(core), str(self.program), str(path), str(seconds)]
        agents, steps, elapsed_s = subprocess.run(
            command, capture_output=True, text=True, check=True
        ).stdout.split()
        return Rate(int(agents), int(steps) / float(elapsed_s))


def _around(folder: Path) -> Sequence[Path]:
    return [
        path
        for up in (folder, *folder.parents[:3])
        for path in sorted(up.glob("raylib*/include/raylib.h"))
    ]


def map_bytes(scene: Scene) -> bytes:
    """Return a scene as a map of version 0: two counts, then objects, then roads."""
    objects = [_object(item) for item in scene.objects if item.type < 3]
    roads = [_road(road) for road in scene.roads if road.type in CODES]
    return np.array([len(objects), len(roads)], "<i4").tobytes() + b"".join(objects + roads)


def _object(item: SceneObject) -> bytes:
    frames = min(len(item.valid), FRAMES)
    valid = np.zeros(FRAMES, "<i4")
    valid[:frames] = item.valid[:frames]
    columns = np.zeros((7, FRAMES), "<f4")
    columns[:3, :frames] = item.position_m[:frames].T
    columns[3:5, :frames] = item.velocity_mps[:frames].T
    columns[6, :frames] = item.heading_rad[:frames]
    columns[:, valid == 0] = -10000
    head = np.array([item.type + 1, item.id, FRAMES], "<i4")
    tail = np.array([item.width_m, item.length_m, item.height_m, *item.goal_m], "<f4")
    return (
        head.tobytes()
        + columns.tobytes()
        + valid.tobytes()
        + tail.tobytes()
        + np.int32(item.expert).tobytes()
    )


def _road(road: Road) -> bytes:
    points = thin(road.points_m) if road.map_element_id <= 16 else road.points_m
    head = np.array([CODES[road.type], road.map_element_id, len(points)], "<i4")
    return head.tobytes() + points.T.astype("<f4").tobytes() + bytes(7 * 4)


def thin(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the points (n, 3) that PufferDrive's converter keeps.

    It removes the middle one of three successive points if their triangle is smaller than
    LEAST_AREA_M2, repeatedly.
    """
    result = points
    while len(points) > FEWEST_POINTS:
        before, stay, at = len(result), [0], 1
        while at < len(result) - 1:
            a, b, c = result[stay[-1]], result[at], result[at + 1]
            area = 0.5 * abs((b[0] - a[0]) * (c[1] - a[1]) - (c[0] - a[0]) * (b[1] - a[1]))
            if area < LEAST_AREA_M2:
                stay.append(at + 1)
                at += 2
            else:
                stay.append(at)
                at += 1
        if stay[-1] != len(result) - 1:
            stay.append(len(result) - 1)
        result = result[stay]
        if len(result) == before:
            break
    return result
