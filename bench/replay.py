# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The page of `puffer-train render`: how long it takes to write, how large it is, and how smoothly a browser plays it.

    python bench/replay.py [--seconds 4] [--out replay.html]

A scene of 91 steps and more than 128 agents is played at random, so that all of them are there to the end: four copies of a
generated street beside each other. Frames per second are those of a Chromium without a window and without a GPU.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import tempfile
import time
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
from puffervec.web.page import replay_page
from puffervec.web.record import play
from puffervec.web.replay import replay_of
from tests.web.browser import Browser, Page, find

STREET = 52  # of the generated ones with seed 1, one with many cars
APART_M = 170.0
# Milliseconds between frames, over some seconds.
FRAMES = """new Promise((done) => {
    const stamps = [], until = performance.now() + 1000 * SECONDS;
    const tick = (now) => { stamps.push(now); if (now < until) requestAnimationFrame(tick); else done(stamps); };
    requestAnimationFrame(tick);
})"""


def crowded() -> Scene:
    """Four copies of a street, beside each other."""
    street = street_scene(1, STREET)
    objects, roads = [], []
    for copy in range(4):
        away = np.array([APART_M * (copy % 2), APART_M * (copy // 2), 0.0])
        for item in street.objects:
            moved = {"position_m": item.position_m + away, "goal_m": item.goal_m + away, "id": item.id + 1000 * copy}
            objects.append(dataclasses.replace(item, **moved))
        for road in street.roads:
            roads.append(dataclasses.replace(road, points_m=road.points_m + away, id=road.id + 10_000 * copy, links=None))
    return dataclasses.replace(street, name="crowded", objects=tuple(objects), roads=tuple(roads), controls=None)


def frames_of(page: Page, seconds: float) -> dict[str, float]:
    """Frames per second and the longest waits for a frame while the page plays."""
    page.press("Home")
    page.press(" ")
    gaps_ms = np.diff(page.eval(FRAMES.replace("SECONDS", str(seconds))))
    page.press("Home")
    return {
        "frames_per_s": round(1000 / float(gaps_ms.mean()), 1),
        "p95_ms": round(float(np.percentile(gaps_ms, 95)), 1),
        "longest_ms": round(float(gaps_ms.max()), 1),
    }


def played(path: Path, seconds: float) -> dict[str, Any]:
    """What a browser makes of the page: whole, with all ways, and following an agent with what it observes."""
    chromium = find()
    if chromium is None:
        return {"frames": "no Chromium: apt-get install chromium"}
    with tempfile.TemporaryDirectory() as profile:
        browser = Browser(chromium, Path(profile))
        start = time.perf_counter()
        page = browser.open(path.as_uri(), 1280, 800)
        page.wait("document.querySelector('[data-ready]') !== null")
        found: dict[str, Any] = {"open_s": round(time.perf_counter() - start, 2)}
        for _ in range(3):  # as slow as a whole measurement is long
            page.press("[")
        found["whole"] = frames_of(page, seconds)
        page.press("a")
        found["all ways"] = frames_of(page, seconds)
        page.press("a")
        page.press("n")
        page.press("f")
        found["following"] = frames_of(page, seconds)
        browser.close()
    return found


def main() -> None:
    """Print one line of JSON."""
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--seconds", type=float, default=4.0)
    flags.add_argument("--out", type=Path)
    given = flags.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        write_scenes(Path(folder) / "crowded.pvs", [crowded()])
        env = get("drive")
        config = env.configure({"scenes": f"{folder}/crowded.pvs", "observation": "driver", "dynamics": "car", "metrics": 1})
        start = time.perf_counter()
        episode = play(env, config, RandomActor(0), task=0)
        recorded = time.perf_counter()
        replay = replay_of(episode)
        packed = time.perf_counter()
        path = given.out or Path(folder) / "replay.html"
        path.write_text(replay_page([replay], "a crowded street"))
        found = {"steps": replay.steps + 1, "agents": replay.agents, "bytes": path.stat().st_size}
        found |= {
            "record_s": round(recorded - start, 2),
            "pack_s": round(packed - recorded, 2),
            **played(path.absolute(), given.seconds),
        }
    print(json.dumps({**found, **common.host()} if hasattr(common, "host") else found))


if __name__ == "__main__":
    main()
