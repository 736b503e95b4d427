# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Pictures: what must be in them is, at the right place, and a missing matplotlib is named."""

from __future__ import annotations

import dataclasses
import io
import struct
import sys

import numpy as np
import pytest

from drive_env.render import render
from drive_env.render.render import (
    Roads,
    Tracks,
    interesting_points,
    long_axis_rad,
    png_of,
    require_matplotlib,
    turned,
)
from puffervec.errors import MissingExtraError


def make_tracks(frames: int = 30) -> Tracks:
    """One agent that drives 60 m along a slanted line and collides half-way, one that stands."""
    way = np.linspace(0.0, 60.0, frames)
    x = np.stack([0.8 * way, np.full(frames, 30.0)], axis=-1)
    y = np.stack([0.6 * way, np.full(frames, 20.0)], axis=-1)
    marks = np.zeros((frames, 2), dtype=bool)
    collided, offroad = marks.copy(), marks.copy()
    collided[frames // 2, 0] = True
    offroad[frames - 3, 0] = True
    return Tracks(
        x_m=x, y_m=y, heading_rad=np.full((frames, 2), np.arctan2(0.6, 0.8)), there=~marks, length_m=np.array([4.5, 5.0]),
        width_m=np.array([2.0, 2.0]), agent=np.array([True, False]), kind=np.array([0, 1]),
        log_x_m=x, log_y_m=y + 3.0, goal_radius_m=2.0, goal_m=np.array([[48.0, 36.0], [30.0, 20.0]]),
        reached=np.array([True, False]), collided=collided, offroad=offroad,
    )  # fmt: skip


ROADS = Roads(
    lanes=[np.array([[-20.0, -15.0], [80.0, 60.0]])],
    lines=[(9, np.array([[-20.0, -12.0], [80.0, 63.0]])), (7, np.array([[-20.0, -18.0], [80.0, 57.0]]))],
    edges=[(15, np.array([[-20.0, -10.0], [80.0, 65.0]]))],
    areas=[("crosswalk", np.array([[5.0, 0.0], [10.0, 0.0], [10.0, 8.0], [5.0, 8.0]]))],
    signals=[("green light", np.array([20.0, 20.0])), ("stop sign", np.array([30.0, 30.0]))],
)


def picture_size(png: bytes) -> tuple[int, int]:
    assert png.startswith(b"\x89PNG")
    width, height = struct.unpack(">II", png[16:24])
    return width, height


def test_marks_and_colours_are_in_the_picture() -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    from matplotlib.image import imread

    pixels = imread(io.BytesIO(png_of("a scene", ROADS, make_tracks())))[180:, :, :3]  # below the heading and its legend

    def count(colour: str) -> int:
        wanted = np.array([int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)])
        return int((np.abs(pixels - wanted).max(axis=-1) < 0.03).sum())

    for colour in (render.ASPHALT, render.EDGE, render.CRASH, render.OFFROAD, render.COLOURS[0], render.PEDESTRIAN_FACE,
                   render.AREAS["crosswalk"], render.LIGHTS["green light"], render.SIGNS["stop sign"]):  # fmt: skip
        assert count(colour) > 30, colour
    assert count("#ff00ff") == 0


def test_the_action_is_turned_across_and_stays_what_it_was() -> None:
    tracks = make_tracks()
    angle = long_axis_rad(interesting_points(tracks))
    assert angle == pytest.approx(np.arctan2(0.6, 0.8))
    roads, flat = turned(ROADS, tracks, -angle)
    assert np.ptp(flat.y_m[:, 0]) < 1e-9 and np.ptp(flat.x_m[:, 0]) == pytest.approx(60.0)
    np.testing.assert_allclose(flat.heading_rad, 0.0, atol=1e-12)
    np.testing.assert_allclose(flat.goal_m[0], [60.0, 0.0], atol=1e-9)
    np.testing.assert_allclose(np.hypot(*np.diff(roads.lanes[0], axis=0).T), 125.0)


def test_scenes_without_agents_can_be_drawn() -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    nobody = dataclasses.replace(make_tracks(), agent=np.array([False, False]))
    png_of("nobody", Roads([], [], []), nobody)
    gone = dataclasses.replace(nobody, there=np.zeros_like(nobody.there))
    assert picture_size(png_of("gone", Roads([], [], []), gone))[0] == 1500


def test_missing_matplotlib_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'puffervec\[plot\]'"):
        require_matplotlib()
    with pytest.raises(MissingExtraError):
        png_of("a", ROADS, make_tracks())
