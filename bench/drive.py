# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Measure drive on one core: agent-steps/s, also as a share of what one core could store.

    python bench/drive.py --scenes ../shared/data/scenes --only 407,325,792d65eb,a5c44223,Town01
    python bench/drive.py --peer DIR    # compared with PufferDrive's core, compiled from DIR

Each scene fills one env with the vehicles that move in it; all of them stay to the end, and actions
are random. Rates are by scene, preset and type of row, per second of CPU time of the single thread,
so that other programs disturb them less. A reset counts as a step, here and in the peer: it writes
all rows. In the peer, objects stand still unless a policy drives them or the data marks them as
expert; here they move. `stored` is the rate of a core that only stores rows of that size, one after
the other, in a buffer of 32 MiB, like the rows of many envs; `in cache` is the rate with a buffer
of 256 KiB, since the rows of one env stay in the core's cache.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import common
from bench.drive_peer import Peer, version
from bench.foreign import foreign_load
from bench.workloads import SEED, draw_actions, on_one_core
from drive_env.config import CHOICES
from drive_env.generate.generate import generate_tree
from drive_env.prepare import prepare_scenes
from drive_env.scenes.reader import read_scene
from puffervec import make
from puffervec._ffi import ffi, lib
from puffervec.envs import get
from puffervec.errors import ConfigError, PuffervecError
from puffervec.system.cores import affinity
from puffervec.vec.vector_env import VectorEnv

BUFFER_BYTES = 1 << 25
CACHED_BYTES = 1 << 18
COLUMNS = (
    "scene", "agents", "preset", "type", "agent-steps/s", "GB/s",
    "of stored", "in cache", "peer", "ratio",
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Rate:
    """One line of the table; the last two fields are None without a peer."""

    scene: str
    agents: int
    preset: str
    dtype: str
    agent_steps_per_s: common.Figure
    bytes_per_s: float
    stored: float
    stored_in_cache: float
    peer: common.Figure | None
    ratio: common.Figure | None


@contextlib.contextmanager
def open_env(scene: str, **settings: Any) -> Iterator[VectorEnv]:
    """Yield an env that the agents of one scene fill, after a reset and a warm-up."""
    config = {"scenes": scene, "remove_at_goal": 0, **settings}
    roomy = get("drive").configure({**config, "num_agents": 4096})
    config["num_agents"] = int(prepare_scenes(roomy).scenes.agents(roomy).max())
    with make("drive", env_kwargs=config, backend="serial", num_envs=1) as vec, on_one_core():
        vec.async_reset(SEED)
        vec.recv()
        steps(vec, 200)
        yield vec


def steps(vec: VectorEnv, turns: int) -> float:
    """Return the CPU seconds of `turns` turns with random actions."""
    actions = draw_actions(vec.spec, vec.num_envs)[vec.spec.groups[0].name]
    worker = vec.workers.opened  # type: ignore[attr-defined]
    begin = time.thread_time()
    if lib.pv_bench_steps(worker, ffi.from_buffer("int32_t[]", actions), len(actions), turns) < 0:
        raise PuffervecError("the env reported a failure within the C loop")
    return time.thread_time() - begin


def rate(vec: VectorEnv, seconds: float) -> float:
    """Measure agent-steps (rows with a live agent) per second of CPU time."""
    turns = max(10, int(seconds / max(steps(vec, 10) / 10, 1e-7)))
    before = vec.counters()["active_rows"]
    elapsed_s = steps(vec, turns)
    return (vec.counters()["active_rows"] - before) / elapsed_s


def stored_rows(row_bytes: int, seconds: float, buffer_bytes: int) -> float:
    """Measure the rows per second of a core that only stores rows."""
    buffer = np.ones(buffer_bytes, np.uint8)
    with on_one_core():
        begin, count = time.thread_time(), 0
        while time.thread_time() - begin < seconds:
            buffer.fill(count & 1)
            count += 1
        return count * buffer_bytes / row_bytes / (time.thread_time() - begin)


def measure_scene(
    path: Path,
    presets: Sequence[str],
    dtypes: Sequence[str],
    repeats: int,
    seconds: float,
    peer: Peer | None,
) -> list[Rate]:
    """Measure all presets and types on one scene, taking turns with the peer."""
    rates = []
    world = peer.write(read_scene(path)) if peer else None
    for preset in presets:
        for dtype in dtypes:
            with open_env(str(path), observation=preset, row_dtype=dtype) as vec:
                agents, row_bytes = vec.num_agents, vec.spec.groups[0].observation_bytes
                ours, theirs = [], []
                for _ in range(repeats):
                    if peer and world:
                        theirs.append(peer.run(world, seconds, affinity()[0]).agent_steps_per_s)
                    ours.append(rate(vec, seconds))
            median = common.figure(ours)
            rates.append(Rate(
                path.stem, agents, preset, dtype, median, median.median * row_bytes,
                *(median.median / stored_rows(row_bytes, min(seconds, 0.3), size)
                  for size in (BUFFER_BYTES, CACHED_BYTES)),
                common.figure(theirs) if theirs else None,
                common.ratio(ours, theirs) if theirs else None,
            ))  # fmt: skip
    return rates


def scene_files(arguments: Sequence[str], only: str) -> list[Path]:
    """Return the JSON scenes of files and folders whose name contains a comma-separated part."""
    paths = [
        path
        for item in map(Path, arguments)
        for path in (sorted(item.glob("*.json")) if item.is_dir() else [item])
    ]
    parts = [part for part in only.split(",") if part]
    return [path for path in paths if not parts or any(part in path.name for part in parts)]


def write_generated(folder: Path) -> list[Path]:
    """Write two generated scenes as JSON, for machines without other scenes."""
    paths = []
    for index in range(2):
        paths.append(folder / f"generated_{index}.json")
        paths[-1].write_text(json.dumps(generate_tree(SEED, index)))
    return paths


def show(rates: Sequence[Rate]) -> None:
    """Print the table of rates."""
    common.print_table("agent-steps per second of CPU time of one core", COLUMNS, [
        (
            r.scene[-24:], str(r.agents), r.preset, r.dtype,
            str(r.agent_steps_per_s), f"{r.bytes_per_s / 1e9:.1f}",
            f"{100 * r.stored:.0f}%", f"{100 * r.stored_in_cache:.0f}%",
            str(r.peer) if r.peer else "-", f"{r.ratio.median:.2f}" if r.ratio else "-",
        )
        for r in rates
    ])  # fmt: skip


def run(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Measure and print the table; return the results."""
    presets = common.names("--presets", options.presets, CHOICES["observation"])
    dtypes = common.names("--dtypes", options.dtypes, CHOICES["row_dtype"])
    paths = scene_files(options.scenes, options.only) if options.scenes else write_generated(folder)
    if not paths:
        raise ConfigError(
            f"--scenes {' '.join(options.scenes)}: no scene in JSON whose name contains "
            f"{options.only}"
        )
    with contextlib.ExitStack() as stack:
        peer = (
            stack.enter_context(Peer(options.peer, options.peer_headers)) if options.peer else None
        )
        rates = [
            item
            for path in paths
            for item in measure_scene(path, presets, dtypes, options.repeats, options.seconds, peer)
        ]
    show(rates)
    return {"rates": [dataclasses.asdict(item) for item in rates]}


@common.command
def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command."""
    flags = common.parser(__doc__)
    flags.add_argument(
        "--scenes",
        nargs="*",
        default=[],
        help="JSON scenes or folders of them (default: two generated ones)",
    )
    flags.add_argument("--only", default="", help="comma-separated parts of file names")
    flags.add_argument(
        "--presets",
        default="compact,pufferdrive,gpudrive",
        help="presets of observations (default: %(default)s)",
    )
    flags.add_argument("--dtypes", default="float32", help="types of rows (default: %(default)s)")
    flags.add_argument("--peer", type=Path, help="folder of PufferDrive's C sources (gpudrive.h)")
    flags.add_argument(
        "--peer-headers",
        type=Path,
        help="folder of raylib's headers, if they do not lie near the sources",
    )
    common.add_flags(flags, "drive", 0.3)
    options = flags.parse_args(arguments)
    facts = common.machine()
    with tempfile.TemporaryDirectory(prefix="puffervec-drive-") as folder:
        results, foreign = foreign_load(lambda: run(options, Path(folder)))
    options.scenes = [
        Path(item).name for item in options.scenes
    ]  # The file contains no path of this machine.
    if options.peer is not None:
        facts["versions"] = {**facts["versions"], "PufferDrive": version(options.peer)}
    options.peer, options.peer_headers = options.peer is not None, None
    common.finish("drive", options, facts, foreign, results)


if __name__ == "__main__":
    sys.exit(main())
