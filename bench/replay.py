# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Measure the page of `puffer-train render`: time to write it, its size, and frames per second.

    python bench/replay.py

A scene of 91 steps and more than 128 agents is played with random actions, so that all agents stay
to the end: four copies of a generated street next to each other. Frames per second are those of a
Chromium without a window and without a GPU, which shows at most 60.
"""

from __future__ import annotations

import dataclasses
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np

from bench import common
from drive_env.generate.streets import street_scene
from drive_env.scenes.pvs import write_scenes
from drive_env.scenes.schema import Scene
from puffervec.envs import get
from puffervec.train.act.evaluate import RandomActor
from puffervec.viewing.web.page import replay_page
from puffervec.viewing.web.record import play
from puffervec.viewing.web.replay import replay_of
from tests.viewing.web.browser import Browser, Page, find

STREET = 52  # The number of a generated street of seed 1 with many cars.
APART_M = 170.0
# Milliseconds between frames, over some seconds.
FRAMES = """new Promise((done) => {
    const stamps = [], until = performance.now() + 1000 * SECONDS;
    const tick = (now) => {
        stamps.push(now);
        if (now < until) requestAnimationFrame(tick); else done(stamps);
    };
    requestAnimationFrame(tick);
})"""


def crowded_scene() -> Scene:
    """Return a scene of four copies of a street, next to each other."""
    street = street_scene(1, STREET)
    objects, roads = [], []
    for copy in range(4):
        away = np.array([APART_M * (copy % 2), APART_M * (copy // 2), 0.0])
        for item in street.objects:
            moved = {
                "position_m": item.position_m + away,
                "goal_m": item.goal_m + away,
                "id": item.id + 1000 * copy,
            }
            objects.append(dataclasses.replace(item, **moved))
        for road in street.roads:
            roads.append(
                dataclasses.replace(
                    road, points_m=road.points_m + away, id=road.id + 10_000 * copy, links=None
                )
            )
    return dataclasses.replace(
        street, name="crowded", objects=tuple(objects), roads=tuple(roads), controls=None
    )


def frames_of(page: Page, seconds: float) -> float:
    """Measure the frames per second while the page plays from its start."""
    page.press("Home")
    page.press(" ")
    gaps_ms = np.diff(page.eval(FRAMES.replace("SECONDS", str(seconds))))
    page.press("Home")
    return 1000 / float(gaps_ms.mean())


def play_page(path: Path, repeats: int, seconds: float) -> dict[str, list[float]]:
    """Measure the seconds until the page has loaded, and frames per second.

    The latter are measured for the whole view, with all paths, and following an agent with its
    observation.
    """
    chromium = find()
    if chromium is None:
        sys.exit("no Chromium: apt-get install chromium")
    samples: dict[str, list[float]] = {
        "open_s": [],
        "whole_fps": [],
        "all_ways_fps": [],
        "following_fps": [],
    }
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as profile:
            browser = Browser(chromium, Path(profile))
            start = time.perf_counter()
            page = browser.open(path.as_uri(), 1280, 800)
            page.wait("document.querySelector('[data-ready]') !== null")
            samples["open_s"].append(time.perf_counter() - start)
            for _ in range(3):  # An episode must last longer than the measurement.
                page.press("[")
            for name, keys in (("whole_fps", ""), ("all_ways_fps", "a"), ("following_fps", "anf")):
                for key in keys:
                    page.press(key)
                samples[name].append(frames_of(page, seconds))
            browser.close()
    return samples


def measure(repeats: int, seconds: float, out: Path | None) -> dict[str, Any]:
    """Write a page, play it and return the figures."""
    with tempfile.TemporaryDirectory() as folder:
        write_scenes(Path(folder) / "crowded.pvs", [crowded_scene()])
        env, path = get("drive"), out or Path(folder) / "replay.html"
        config = env.configure(
            {
                "scenes": f"{folder}/crowded.pvs",
                "observation": "driver",
                "dynamics": "car",
                "metrics": 1,
            }
        )
        start = time.perf_counter()
        episode = play(env, config, RandomActor(0), task=0)
        recorded = time.perf_counter()
        replay = replay_of(episode)
        packed = time.perf_counter()
        path.write_text(replay_page([replay], "a crowded street"))
        sizes = {"steps": replay.steps + 1, "agents": replay.agents, "bytes": path.stat().st_size}
        figures = {
            name: asdict(common.figure(samples))
            for name, samples in play_page(path.absolute(), repeats, seconds).items()
        }
        return {**sizes, "record_s": recorded - start, "pack_s": packed - recorded, **figures}


def main() -> None:
    """Measure, print and write the results."""
    flags = common.parser(__doc__)
    flags.add_argument("--repeats", type=int, default=5)
    flags.add_argument(
        "--seconds",
        type=float,
        default=3.0,
        help="seconds of each measurement of frames (default: %(default)s)",
    )
    flags.add_argument("--out", type=Path, help="keep the page in this file")
    common.add_json(flags, "replay")
    options = flags.parse_args()
    facts = common.machine()
    results, foreign = common.foreign_load(
        lambda: measure(options.repeats, options.seconds, options.out)
    )
    rows = [
        (name, str(common.Figure(**value)) if isinstance(value, dict) else common.number(value))
        for name, value in results.items()
    ]
    common.print_table("a replay of drive", ("what", "figure"), rows)
    common.finish("replay", options, facts, foreign, results)


if __name__ == "__main__":
    main()
