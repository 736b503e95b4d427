# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Pictures: what must be in them is, at the right place, and a missing matplotlib is named."""

from __future__ import annotations

import struct
import sys
from pathlib import Path

import numpy as np
import pytest

from drive_env import render
from drive_env.render import Roads, Tracks, draw_png, long_axis_rad, picture_bounds, require_matplotlib, turned
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
        width_m=np.array([2.0, 2.0]), agent=np.array([True, False]), goal_m=np.array([[48.0, 36.0], [30.0, 20.0]]),
        reached=np.array([True, False]), collided=collided, offroad=offroad,
    )  # fmt: skip


ROADS = Roads(
    lanes=[np.array([[-20.0, -15.0], [80.0, 60.0]])],
    lines=[(9, np.array([[-20.0, -12.0], [80.0, 63.0]])), (7, np.array([[-20.0, -18.0], [80.0, 57.0]]))],
    edges=[(15, np.array([[-20.0, -10.0], [80.0, 65.0]]))],
)


def picture_size(path: Path) -> tuple[int, int]:
    width, height = struct.unpack(">II", path.read_bytes()[16:24])
    return width, height


def test_a_picture_is_written_and_is_landscape(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    draw_png(tmp_path / "a.png", "a scene", ROADS, make_tracks())
    width, height = picture_size(tmp_path / "a.png")
    assert width == 1500 and 0.3 * width < height < 0.6 * width


def test_marks_and_colours_are_in_the_picture(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    from matplotlib.image import imread

    draw_png(tmp_path / "a.png", "a scene", ROADS, make_tracks())
    pixels = imread(tmp_path / "a.png")[120:, :, :3]  # below the heading and its legend

    def count(colour: str) -> int:
        wanted = np.array([int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)])
        return int((np.abs(pixels - wanted).max(axis=-1) < 0.03).sum())

    for colour in (render.ASPHALT, render.EDGE, render.CRASH, render.OFFROAD, render.COLOURS[0], render.OTHER_CAR):
        assert count(colour) > 30, colour
    assert count("#ff00ff") == 0


def test_the_action_is_turned_across_and_stays_what_it_was() -> None:
    tracks = make_tracks()
    angle = long_axis_rad(tracks)
    assert angle == pytest.approx(np.arctan2(0.6, 0.8))
    roads, flat = turned(ROADS, tracks, -angle)
    assert np.ptp(flat.y_m[:, 0]) < 1e-9 and np.ptp(flat.x_m[:, 0]) == pytest.approx(60.0)
    np.testing.assert_allclose(flat.heading_rad, 0.0, atol=1e-12)
    np.testing.assert_allclose(flat.goal_m[0], [60.0, 0.0], atol=1e-9)
    np.testing.assert_allclose(np.hypot(*np.diff(roads.lanes[0], axis=0).T), 125.0)


def test_bounds_hold_all_agents_and_goals() -> None:
    tracks = make_tracks()
    low, high = picture_bounds(tracks)
    assert (low <= [-14.0, -14.0]).all() and (high >= [62.0, 50.0]).all()
    width, height = high - low
    assert height <= width + 1e-9 and width <= 3 * height + 1e-9


def test_scenes_without_agents_can_be_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    import dataclasses

    nobody = dataclasses.replace(make_tracks(), agent=np.array([False, False]))
    draw_png(tmp_path / "n.png", "nobody", Roads([], [], []), nobody)
    gone = dataclasses.replace(nobody, there=np.zeros_like(nobody.there))
    draw_png(tmp_path / "g.png", "gone", Roads([], [], []), gone)
    assert picture_size(tmp_path / "g.png")[0] == 1500


def test_missing_matplotlib_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'puffervec\[plot\]'"):
        require_matplotlib()
    with pytest.raises(MissingExtraError):
        draw_png(tmp_path / "a.png", "a", ROADS, make_tracks())
    assert not (tmp_path / "a.png").exists()
