# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""puffervec/viewing/web/pictures.py: pictures that agents are given, as bytes, and on the page
(static/pictures.js).
"""

from __future__ import annotations

import base64
import dataclasses
import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from puffervec.contract.drawing import Drawing, State
from puffervec.envs import get
from puffervec.errors import ConfigError
from puffervec.train.act.evaluate import RandomActor
from puffervec.viewing.render.sight import Picture
from puffervec.viewing.web.page import replay_page
from puffervec.viewing.web.pictures import Pictures, shrink
from puffervec.viewing.web.record import Played, play
from puffervec.viewing.web.replay import replay_of
from tests.viewing.web.browser import Browser, Page
from tests.viewing.web.test_record import NAMES, TAG, told

CLOSE = 9  # of 255: five bits of each colour


def read(told: dict[str, Any], row: int) -> np.ndarray:
    """(steps, height, width, 3): the pictures of a row, as the page reads them."""
    data = zlib.decompress(base64.b64decode(told["rows"][row]["data"]))
    colours = np.frombuffer(data[1:], np.uint8, 3 * (data[0] + 1)).reshape(-1, 3)
    places = np.frombuffer(data[1 + colours.size :], np.uint8)
    return colours[places].reshape(-1, told["height"], told["width"], 3)


def noise(seed: int, *shape: int) -> Picture:
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def test_pictures_of_few_colours_keep_them() -> None:
    pictures, palette = Pictures(), noise(0, 200, 3)
    frames = [palette[noise(step, 9, 7) % 200] for step in range(1, 4)]
    for step, frame in enumerate(frames):
        pictures.add(step, {2: frame})
    found = pictures.to_json([2])
    assert found is not None and (found["height"], found["width"], found["all"]) == (9, 7, True)
    assert found["rows"][2]["steps"] == [0, 1, 2] and found["rows"][2]["every"] == 1
    assert np.abs(read(found, 2).astype(int) - np.array(frames)).max() < CLOSE


def test_pictures_of_many_colours_have_at_most_256(tmp_path: Path) -> None:
    pictures = Pictures()
    frame = noise(0, 64, 64, 3)
    pictures.add(0, {0: frame})
    found = pictures.to_json([0])
    assert found is not None
    shown = read(found, 0)[0]
    assert 60 < len(np.unique(shown.reshape(-1, 3), axis=0)) <= 256 and shown.max() == 255
    assert np.corrcoef(shown.reshape(-1), frame.reshape(-1))[0, 1] > 0.9
    grey = Pictures()
    grey.add(0, {0: np.arange(64, dtype=np.uint8).reshape(8, 8) * 4})
    alike = grey.to_json([0])
    assert alike is not None and np.ptp(read(alike, 0), axis=3).max() == 0


def test_large_pictures_are_made_smaller() -> None:
    pictures = Pictures()
    frame = np.zeros((300, 90, 3), np.uint8)
    frame[150:, :] = 240
    pictures.add(0, {0: frame})
    found = pictures.to_json([0])
    assert found is not None and max(pictures.size or ()) <= 128
    shown = read(found, 0)[0]
    assert shown.shape == (100, 30, 3) and shown[:50].max() == 0 and shown[50:].min() > 240 - CLOSE


@pytest.mark.parametrize(
    ("shape", "small"),
    [((128, 3), (128, 3)), ((129, 3), (64, 1)), ((1, 256), (1, 128)), ((256, 1, 3), (128, 1, 3))],
)
def test_sides_have_at_most_128_pixels(shape: tuple[int, ...], small: tuple[int, ...]) -> None:
    frame = np.indices(shape).sum(axis=0).astype(np.uint8)
    found = shrink(frame)
    assert found.shape == small and found.reshape(-1)[0] in (0, 1)


def test_as_many_bits_of_each_colour_are_kept_as_256_colours_allow() -> None:
    """All five where they are enough; from black to white."""
    levels = np.arange(32, dtype=np.uint8) * 8
    plane = np.zeros((32, 32, 3), np.uint8)
    plane[:, :, 0], plane[:, :, 1] = levels[:, None], levels
    part = plane[:8]
    more = np.concatenate([part, np.full((1, 32, 3), 8, np.uint8)])
    for frame, count, error in ((part, 256, 7), (more, 64, 15), (plane, 256, 15)):
        pictures = Pictures()
        pictures.add(0, {0: frame})
        found = pictures.to_json([0])
        assert found is not None
        shown = read(found, 0)[0]
        assert len(np.unique(shown.reshape(-1, 3), axis=0)) == count
        assert np.abs(shown.astype(int) - frame).max() == error
        assert shown.max() == 255


def test_bytes_are_bounded() -> None:
    """The lowest returns come first; of the first row every n-th step is kept where all of them are
    too many.
    """
    pictures = Pictures()
    for step in range(8):
        pictures.add(step, {row: noise(step + 100 * row, 32, 32) for row in range(3)})
    whole = pictures.to_json([0, 1, 2])
    assert whole is not None and sorted(whole["rows"]) == [0, 1, 2] and whole["all"]
    size = len(base64.b64decode(whole["rows"][2]["data"]))
    two = pictures.to_json([2, 0, 1], int(2.2 * size))
    assert two is not None and sorted(two["rows"]) == [0, 2] and not two["all"]
    exact = pictures.to_json([2], size)
    assert exact is not None and exact["rows"][2]["every"] == 1
    both = sum(len(base64.b64decode(whole["rows"][row]["data"])) for row in (2, 0))
    exact = pictures.to_json([2, 0, 1], both)
    assert exact is not None and sorted(exact["rows"]) == [0, 2]
    part = pictures.to_json([2, 0, 1], size // 3)
    assert part is not None and list(part["rows"]) == [2]
    assert part["rows"][2]["steps"] == [0, 4] and part["rows"][2]["every"] == 4
    assert len(base64.b64decode(part["rows"][2]["data"])) <= size // 3
    np.testing.assert_array_equal(read(part, 2), read(whole, 2)[::4])
    least = pictures.to_json([2, 0, 1], 1)
    assert least is not None and list(least["rows"]) == [2], (
        "of the first row there is always a picture"
    )
    assert least["rows"][2]["steps"] == [0] and least["rows"][2]["every"] == 8


def test_no_pictures_and_several_sizes() -> None:
    pictures = Pictures()
    assert pictures.to_json([0]) is None
    pictures.add(0, {0: noise(0, 8, 8)})
    with pytest.raises(
        ConfigError, match=r"\(8, 8\) and of \(9, 8\) pixels: all must have one size"
    ):
        pictures.add(1, {1: noise(0, 9, 8)})


def picture_at(step: int, agent: int) -> Picture:
    frame = np.zeros((6, 10, 3), np.uint8)
    frame[:, :, 0], frame[agent, :, 1], frame[0, :, 2] = 8 * step, 248, 16 * np.arange(10)
    return frame


@pytest.fixture
def played() -> Played:
    """A game in which the first three agents are given pictures, the last one none."""
    steps = iter(range(1000))

    def pictures(rows: Any, state: State) -> dict[str, Picture]:
        assert rows["x"].shape == (4, 4)
        step = next(steps)
        return {
            name: picture_at(step, agent)
            for agent, name in enumerate(NAMES[:3])
            if step != 2 or agent
        }

    def drawing(config: Any, state: State) -> Drawing:
        return dataclasses.replace(told(config, state), pictures=pictures)

    return play(dataclasses.replace(get("tag_grid"), drawing=drawing), TAG, RandomActor(5), seed=5)


def test_pictures_have_their_steps(played: Played) -> None:
    found, steps = played.pictures.to_json(range(4)), list(range(len(played.moments)))
    assert found is not None
    assert {row: one["steps"] for row, one in found["rows"].items()} == {
        0: [step for step in steps if step != 2], 1: steps, 2: steps,
    }  # fmt: skip


def shown(page: Page) -> np.ndarray:
    script = """(() => {
        const canvas = document.querySelector(".given canvas"), {width, height} = canvas;
        return [height, width, ...canvas.getContext("2d").getImageData(0, 0, width, height).data];
    })()"""
    height, width, *data = page.eval(script)
    return np.array(data).reshape(height, width, 4)[:, :, :3]


def choose(page: Page, name: str, step: int) -> None:
    page.eval(f"""(() => {{
        const choice = document.querySelector(".agent"), scrub = document.querySelector(".scrub");
        choice.value = [...choice.options].find((one) => one.text === {json.dumps(name)}).value;
        choice.dispatchEvent(new Event("change"));
        scrub.value = {step};
        scrub.dispatchEvent(new Event("input"));
    }})()""")


@pytest.mark.slow
def test_the_page_shows_what_the_chosen_agent_is_given(
    browser: Browser, played: Played, tmp_path: Path
) -> None:
    path = tmp_path / "replay.html"
    path.write_text(replay_page([replay_of(played)], "a run"))
    page = browser.open(path.as_uri(), width=360, height=700, dark=True)
    page.wait("document.querySelector('[data-ready]') !== null")
    assert not page.eval("document.querySelector('.given').hidden"), "it opens on an agent"
    for agent, step in ((0, 3), (2, 1), (2, 0), (1, 3)):
        choose(page, NAMES[agent], step)
        page.wait("!document.querySelector('.given canvas').hidden")
        wanted = picture_at(step, agent)
        assert np.abs(shown(page).astype(int) - wanted).max() < CLOSE, (agent, step)
        assert page.text(".given figcaption") == "its picture, 10 × 6"
    choose(page, NAMES[0], 2)
    assert page.text(".given figcaption") == "no picture at this step" and page.eval(
        "document.querySelector('.given canvas').hidden"
    )
    choose(page, NAMES[3], 2)
    assert page.text(".given figcaption") == "no picture"
    page.press("Escape")
    assert page.eval("document.querySelector('.given').hidden")
    assert page.errors == [] and page.eval("document.documentElement.scrollWidth") == 360


@pytest.mark.slow
def test_the_page_says_what_was_not_kept(browser: Browser, played: Played, tmp_path: Path) -> None:
    whole = replay_of(played).pictures
    assert whole is not None
    size = min(len(base64.b64decode(kept["data"])) for kept in whole["rows"].values())
    only = replay_of(played, picture_bytes=int(0.8 * size))
    assert only.pictures is not None and len(only.pictures["rows"]) == 1
    ((row, kept),) = only.pictures["rows"].items()
    assert kept["every"] > 1 and len(kept["steps"]) > 1
    path = tmp_path / "replay.html"
    path.write_text(replay_page([only], "a run"))
    page = browser.open(path.as_uri())
    page.wait("document.querySelector('[data-ready]') !== null")
    choose(page, NAMES[row], kept["steps"][1] + 1)
    assert (
        page.text(".given figcaption")
        == f"its picture of step {kept['steps'][1]}: not all were recorded"
    )
    choose(page, NAMES[(row + 1) % 3], 3)
    assert (
        page.text(".given figcaption")
        == "its pictures were not recorded: the file would be too large"
    )
