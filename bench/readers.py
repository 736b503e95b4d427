# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Measure how fast `puffer-scenes convert` reads a tfrecord of WOMD, and how much memory it takes.

    python bench/readers.py                     1,000 scenarios of generated streets
    python bench/readers.py --scenes FOLDER     of the scenes of a folder, over and over

The scenes are written as `Scenario` messages to one file, which is converted to .pvs in as many
processes as there are cores. Memory is the largest sum of the private memory (USS) of the command
and its processes, sampled ten times a second.
"""

from __future__ import annotations

import contextlib
import itertools
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import psutil

from bench import common
from drive_env.generate.streets import street_scene
from drive_env.scenes import tfrecord, womd
from drive_env.scenes.reader import read_scene, scene_files
from drive_env.scenes.schema import OBJECT_TYPES, Road, Scene
from puffervec.system.cores import usable_cores

LEAST_RATE, MOST_MIB = 20.0, 1000.0
STREETS = 32  # Different scenes, which are repeated.


def scenario(scene: Scene) -> bytes:
    """Return a scene as a Scenario message, as far as the reader reads it."""
    message = womd.scenario_class()()
    message.scenario_id = scene.name
    message.timestamps_seconds.extend(0.1 * frame for frame in range(scene.frame_count))
    for item in scene.objects:
        track = message.tracks.add(
            id=item.id, object_type=womd.TYPES.index(OBJECT_TYPES[item.type])
        )
        for frame in range(scene.frame_count):
            x, y, z = item.position_m[frame].tolist()
            vx, vy = item.velocity_mps[frame].tolist()
            track.states.add(
                center_x=x, center_y=y, center_z=z, heading=item.heading_rad[frame],
                velocity_x=vx, velocity_y=vy, valid=bool(item.valid[frame]),
                length=item.length_m, width=item.width_m, height=item.height_m,
            )  # fmt: skip
    for road in scene.roads:
        add_feature(message, road)
    return bytes(message.SerializeToString())


def add_feature(message: Any, road: Road) -> None:
    """Add a road to a Scenario; stop signs are left out."""
    if road.type == "stop_sign":
        return
    part = getattr(message.map_features.add(id=road.id), road.type)
    points = part.polygon if road.type in womd.AREAS else part.polyline
    if road.type not in womd.AREAS:
        part.type = max(0, road.map_element_id - womd.ELEMENTS[road.type][0])
    for x, y, z in road.points_m.tolist():
        points.add(x=x, y=y, z=z)


def write_file(path: Path, records: Iterable[bytes]) -> None:
    """Write records as a TFRecord file."""
    with path.open("wb") as file:
        for data in records:
            head = len(data).to_bytes(8, "little")
            file.write(head + tfrecord.TAIL.pack(tfrecord.masked_crc(head)))
            file.write(data + tfrecord.TAIL.pack(tfrecord.masked_crc(data)))


def scenes_of(folder: Path | None) -> Iterator[Scene]:
    """Yield the scenes that the file repeats."""
    if folder is None:
        yield from (street_scene(1, index) for index in range(STREETS))
        return
    for path in scene_files(folder):
        with contextlib.suppress(ValueError):
            yield read_scene(path)


def convert(path: Path, out: Path) -> tuple[float, float]:
    """Convert a file; return the seconds it took and the most memory in MiB."""
    command = [sys.executable, "-m", "drive_env.cli", "convert", str(path), "--out", str(out)]
    begin, most = time.perf_counter(), 0
    with subprocess.Popen(command, cwd=common.ROOT, stdout=subprocess.DEVNULL) as process:
        parent = psutil.Process(process.pid)
        while process.poll() is None:
            with contextlib.suppress(psutil.Error):
                family = [parent, *parent.children(recursive=True)]
                most = max(most, sum(one.memory_full_info().uss for one in family))
            time.sleep(0.1)
    if process.returncode:
        sys.exit(f"puffer-scenes convert ended with {process.returncode}")
    return time.perf_counter() - begin, most / 2**20


@common.command
def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; its status is 1 if scenes are missing or a limit is exceeded."""
    flags = common.parser(__doc__)
    flags.add_argument("--scenes", type=Path, help="a folder (default: generated streets)")
    flags.add_argument("--scenarios", type=int, default=1000)
    common.add_json(flags, "readers")
    options = flags.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="puffervec-readers-") as scratch:
        path = Path(scratch) / "training.tfrecord-00000-of-00001"
        records = [scenario(scene) for scene in scenes_of(options.scenes)]
        write_file(path, itertools.islice(itertools.cycle(records), options.scenarios))
        size = path.stat().st_size
        (seconds, most), foreign = common.foreign_load(lambda: convert(path, Path(scratch) / "out"))
        written = len(list((Path(scratch) / "out").rglob("*.pvs")))
    rate = options.scenarios / seconds
    results = {
        "scenarios": options.scenarios,
        "written": written,
        "mib": size / 2**20,
        "seconds": seconds,
        "scenarios_per_s": rate,
        "most_mib": most,
    }
    facts = common.machine()
    row = [f"{options.scenarios:,}", f"{size / 2**20:.0f}", f"{rate:.1f}", f"{most:.0f}"]
    columns = ("scenarios", "MiB in the file", "a second", "most memory, MiB")
    common.print_table(f"WOMD to .pvs on {usable_cores()} cores", columns, [row])
    common.finish("readers", options, facts, foreign, results)
    return 0 if written == options.scenarios and rate >= LEAST_RATE and most < MOST_MIB else 1


if __name__ == "__main__":
    sys.exit(main())
