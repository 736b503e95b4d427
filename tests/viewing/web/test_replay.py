# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""puffervec/viewing/web/replay.py and puffervec/viewing/web/shapes.py: episodes as bytes, and the
page that plays them, beside the episode.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from puffervec.contract.drawing import Box, Circle, Drawing, Event, Line, Shape, State, Text
from puffervec.envs import get
from puffervec.train.act.evaluate import RandomActor
from puffervec.viewing.render.episode import Moment
from puffervec.viewing.web import replay
from puffervec.viewing.web.columns import exponent_of
from puffervec.viewing.web.page import replay_page
from puffervec.viewing.web.record import Played, play
from puffervec.viewing.web.replay import replay_of
from puffervec.viewing.web.shapes import Looks, things_of
from tests.viewing.web.browser import Browser, Page
from tests.viewing.web.test_columns import read
from tests.viewing.web.test_page import HOSTILE

TAG = {"num_taggers": 2, "num_runners": 6, "grid_length": 10.0, "episode_length": 40}


@pytest.fixture(scope="module")
def chase() -> Played:
    return play(get("tag_continuous"), TAG, RandomActor(1), seed=1)


def opened(
    browser: Browser, folder: Path, played: Played, title: str = "a run", **how: object
) -> Page:
    path = folder / "replay.html"
    path.write_text(replay_page([replay_of(played, title=title)], title))
    page = browser.open(path.as_uri(), **how)  # type: ignore[arg-type]
    page.wait("document.querySelector('[data-ready]') !== null")
    page.press("Escape")  # The page opens on an agent.
    return page


def step_of(page: Page) -> int:
    """The step that the page says it shows."""
    return int(re.findall(r"step (\d+) of \d+$", page.text(".step"))[0])


def facts(page: Page) -> dict[str, str]:
    """What the page says of the chosen agent."""
    return dict(zip(page.texts(".facts dt"), page.texts(".facts dd"), strict=True))


def test_a_replay_says_what_it_is(chase: Played) -> None:
    found = replay_of(chase)
    assert (found.steps, found.agents, found.measure) == (len(chase.moments) - 1, 8, "return")
    assert found.score == pytest.approx(np.nansum(chase.series["reward"], axis=0).mean())
    assert replay_of(chase, title="one", score=0.5).score == 0.5
    assert len(found.data) < 12_000, "8 agents, 40 steps"


def test_a_replay_has_what_the_drawing_tells() -> None:
    """Events of the whole episode, rows without names, and numbers of any size."""

    def drawing(config: Any, state: State) -> Drawing:
        def shapes(state: State, before: State | None) -> Iterator[Shape]:
            yield Circle(1, 1, 1, name="b")
            yield Event(1, 1, role="bump")
            yield Event(1, 1)

        ticks = itertools.count()
        return Drawing(
            (0, 0, 2, 2),
            shapes,
            title="a field",
            agents=("a", "b"),
            facts=lambda _: {"a": {"low": 0.01}},
            numbers=lambda _: {"ticks": 1000.0 * next(ticks)},
        )

    env = dataclasses.replace(get("tag_grid"), drawing=drawing)
    found = replay_of(play(env, {"num_taggers": 3}, RandomActor(0), most_steps=2))
    assert (found.title, found.steps, found.events) == ("a field", 2, {"bump": 3, "event": 3})
    head, _ = read(found.data)
    assert [agent["name"] for agent in head["agents"]] == ["a", "b", "", ""]
    assert [event[0] for event in head["events"]] == [0, 0, 1, 1, 2, 2] and head["first"] == 1
    assert next(one["e"] for one in head["series"] if one["name"] == "low") == exponent_of(0.01)
    assert [one["e"] for one in head["numbers"]] == [exponent_of(2000.0)]


def test_a_replay_opens_with_the_worst_agent_that_is_drawn() -> None:
    drawing = Drawing((0, 0, 2, 2), lambda state, before: (), agents=("a", "b", "c"))
    things = [{"name": "b"}, {"name": "a"}]
    assert replay._first(drawing, [3, 2, 1, 0], things) == 1
    assert replay._first(drawing, [2, 3], things) is None


def test_things_are_the_same_ones_in_all_moments() -> None:
    """By name, else by their number among those of their role; what came later stands behind what
    it was drawn after.
    """
    steps: list[tuple[Shape, ...]] = [
        (Circle(0, 0, 1, name="a"), Line(((0, 0), (1, 1)), role="ray"), Box(5, 5, 1, 1, name="b")),
        (Box(5, 5, 1, 1, name="b"), Circle(0, 0, 1, name="a"), Circle(9, 9, 1, name="late")),
        (
            Circle(1, 0, 1, name="a"),
            Circle(9, 9, 1, name="new"),
            Line(((0, 0), (2, 2)), role="ray"),
            Box(6, 5, 1, 1, name="b"),
        ),
        (Box(7, 5, 1, 1, name="b"), Circle(2, 0, 1, name="a", faded=True)),
    ]
    things = things_of([Moment(step, shapes) for step, shapes in enumerate(steps)], Looks({}))
    assert [(thing.first.name, thing.steps) for thing in things] == [
        ("a", [0, 1, 2, 3]),
        ("new", [2]),
        ("", [0, 2]),
        ("b", [0, 1, 2, 3]),
        ("late", [1]),
    ]
    assert things[0].numbers == [(0, 0, 1), (0, 0, 1), (1, 0, 1), (2, 0, 1)]
    assert len(set(things[0].styles)) == 2


@pytest.mark.slow
def test_the_page_says_what_the_episode_was(
    chase: Played, browser: Browser, tmp_path: Path
) -> None:
    page = opened(browser, tmp_path, chase)
    assert page.text(".step") == f"step 0 of {len(chase.moments) - 1}"
    page.press("n")
    for step in (1, 2, 3):
        page.press("ArrowRight")
        assert page.text(".step").startswith(f"step {step} of ")
        assert float(facts(page)["reward"]) == pytest.approx(
            chase.series["reward"][step][0], abs=6e-4
        )
        assert float(facts(page)["acceleration"]) == pytest.approx(
            chase.series["acceleration"][step][0], abs=6e-4
        )
        assert facts(page)["still in the game"] == (
            "yes" if chase.series["still in the game"][step][0] else "no"
        )
        left = chase.moments[step].numbers["runners left"]
        assert page.text(".numbers") == f"runners left {left:.0f} of 6"
    assert (page.errors, len(page.requests)) == ([], 1)


@pytest.mark.slow
def test_hostile_names_of_agents_and_roles_are_text(browser: Browser, tmp_path: Path) -> None:
    def drawing(config: Any, state: State) -> Drawing:
        def shapes(state: State, before: State | None) -> Iterator[Shape]:
            yield Circle(1, 1, 1, role=HOSTILE, name=HOSTILE)
            yield Text(1, 1, HOSTILE, role=HOSTILE)
            yield Event(1, 1, role=HOSTILE, of=HOSTILE)

        facts = {HOSTILE: {HOSTILE: 1.0}}
        names = {HOSTILE: 0.5}
        return Drawing(
            (0, 0, 2, 2),
            shapes,
            {HOSTILE: "#0072B2"},
            agents=[HOSTILE],
            facts=lambda _: facts,
            numbers=lambda _: names,
        )

    env = dataclasses.replace(get("tag_grid"), drawing=drawing)
    page = opened(browser, tmp_path, play(env, {"episode_length": 3}, RandomActor(0)))
    page.press("n")
    words = " ".join(HOSTILE.split())
    for selector in (
        "select option:nth-child(2)",
        ".legend button",
        ".events button",
        ".numbers",
        "small",
    ):
        assert words in " ".join(page.text(selector).split()), selector
    assert words in [" ".join(name.split()) for name in page.texts(".facts dt")]
    assert page.eval("document.scripts.length") == 2 and page.errors == []


@pytest.mark.slow
def test_hostile_names_are_text(chase: Played, browser: Browser, tmp_path: Path) -> None:
    page = opened(browser, tmp_path, chase, title=HOSTILE)
    words = HOSTILE.replace("\u2028", "").split()
    assert (
        page.text("h1").replace("\u2028", "").split() == words
        and page.text(".scenes b").replace("\u2028", "").split() == words
    )
    assert page.eval("document.scripts.length") == 2 and page.errors == []


@pytest.mark.slow
@pytest.mark.parametrize("dark", [False, True])
def test_things_that_overlap_are_kept_apart(browser: Browser, tmp_path: Path, dark: bool) -> None:
    """All taggers begin in one place: an edge shows that there are several."""

    def drawing(config: Any, state: State) -> Drawing:
        shapes = [Circle(5, 5, 2, role="one", name="a"), Circle(6.5, 5, 2, role="one", name="b")]
        return Drawing((0, 0, 10, 10), lambda state, before: shapes, {"one": "#D55E00"})

    env = dataclasses.replace(get("tag_grid"), drawing=drawing)
    page = opened(
        browser, tmp_path, play(env, {"episode_length": 5}, RandomActor(0), seed=0), dark=dark
    )
    script = """(() => {
        const canvas = document.querySelector(".stage"), {width, height} = canvas;
        const scale = Math.min(width, height) / 10, picture = canvas.getContext("2d");
        const at = (x) => picture.getImageData(
            Math.round(width / 2 + (x - 5) * scale), height / 2, 1, 1).data;
        return Array.from({length: 101}, (_, i) => [...at(3.6 + i * 0.04)]);
    })()"""
    colours = np.array(page.eval(script))
    edge = np.abs(colours - np.median(colours, axis=0)).max(axis=1) > 30
    assert (3.6 + 0.04 * np.flatnonzero(edge)).tolist() == pytest.approx(
        [4.5] * int(edge.sum()), abs=0.1
    ) and edge.any()


@pytest.mark.slow
def test_a_click_anywhere_in_a_box_chooses_its_agent(browser: Browser, tmp_path: Path) -> None:
    """Also far from its middle, and where another one's middle is nearer."""

    def drawing(config: Any, state: State) -> Drawing:
        shapes = [
            Box(5, 5, 1, 9.5, role="one", name="high"),
            Box(3, 5, 1, 9, -0.2, role="one", name="slanted"),
        ]
        shapes += [Box(5.9, 9, 0.4, 0.4, role="one", name="low")]
        return Drawing(
            (0, 0, 10, 10),
            lambda state, before: shapes,
            {"one": "#D55E00"},
            agents=("high", "slanted", "low"),
        )

    env = dataclasses.replace(get("tag_grid"), drawing=drawing)
    page = opened(
        browser,
        tmp_path,
        play(env, {"num_taggers": 2, "episode_length": 5}, RandomActor(0), seed=0),
    )
    left, top, width, height = page.place(".stage")
    scale = min(width, height) / 10
    for x, y, name in (
        (5.4, 9.2, "high"),
        (5.9, 9.0, "low"),
        (3.8, 8.9, "slanted"),
        (5.0, 0.5, "high"),
        (2.2, 1.0, "slanted"),
    ):
        page.click_at(left + width / 2 + (x - 5) * scale, top + height / 2 - (y - 5) * scale)
        assert page.eval("document.querySelector('.agent').selectedOptions[0].text") == name, (x, y)
    page.click_at(left + width / 2 + 3 * scale, top + height / 2)
    assert page.eval("document.querySelector('.agent').value") == "-1"


@pytest.mark.slow
def test_the_ring_of_the_chosen_agent_is_around_it(browser: Browser, tmp_path: Path) -> None:
    def drawing(config: Any, state: State) -> Drawing:
        shapes = [Circle(5, 5, 2, role="one", name="a")]
        return Drawing(
            (0, 0, 10, 10), lambda state, before: shapes, {"one": "#D55E00"}, agents=("a",)
        )

    env = dataclasses.replace(get("tag_grid"), drawing=drawing)
    page = opened(
        browser,
        tmp_path,
        play(env, {"num_taggers": 2, "episode_length": 5}, RandomActor(0), seed=0),
    )
    page.eval(
        "(() => { const one = document.querySelector('.agent'); one.value = 0; "
        "one.dispatchEvent(new Event('change')); })()"
    )
    script = """(() => {
        const canvas = document.querySelector(".stage"), {width, height} = canvas;
        const scale = Math.min(width, height) / 10, picture = canvas.getContext("2d");
        const at = (x) => picture.getImageData(
            Math.round(width / 2 + x * scale), height / 2, 1, 1).data;
        return Array.from({length: 101}, (_, i) => [...at(i * 0.04)]);
    })()"""
    colours = np.array(page.eval(script))[:, :3]
    dark = np.flatnonzero(colours.max(axis=1) < 120) * 0.04
    assert dark.tolist() == pytest.approx([2.6] * len(dark), abs=0.1) and len(dark)
