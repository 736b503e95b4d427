# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The page of a drive: what it shows beside the rollout's own numbers; keys, mouse and fingers;
all sizes and colours.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from puffervec.contract.drawing import Box, Event
from puffervec.envs import get
from puffervec.train.act.evaluate import RandomActor
from puffervec.viewing.web.page import replay_page
from puffervec.viewing.web.record import Played, play
from puffervec.viewing.web.replay import Replay, replay_of
from tests.viewing.web.browser import Browser, Page
from tests.viewing.web.test_replay import facts, step_of

SCENES = {
    "scenes": "streets:3",
    "num_agents": 64,
    "observation": "driver",
    "dynamics": "car",
    "metrics": 1,
}


class Judge(RandomActor):
    """Acts at random, and expects something of each row at each step."""

    values: dict[str, np.ndarray] = {}
    step = 0

    def act(self, obs: Any, vec: Any) -> Any:
        self.step += 1
        self.values = {"agents": (self.step + np.arange(vec.num_agents) / 8).astype(np.float32)}
        return super().act(obs, vec)


@pytest.fixture(scope="module")
def ride() -> Played:
    return play(get("drive"), SCENES, Judge(2), task=1, seed=2)


@pytest.fixture(scope="module")
def written(ride: Played, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("replay") / "replay.html"
    other = Replay("a better scene", 1, 1, replay_of(ride).data, score=99.0)
    path.write_text(replay_page([other, replay_of(ride)], "a ride"))
    return path


@pytest.fixture
def look(browser: Browser, written: Path) -> Iterator[Any]:
    """Opens the page: look(width, height, dark=..., touch=...). In the end nothing was requested,
    and nothing went wrong.
    """
    pages: list[Page] = []

    def open_page(width: int = 1280, height: int = 800, **how: bool) -> Page:
        page = browser.open(written.as_uri(), width, height, **how)
        page.wait("document.querySelector('[data-ready]') !== null")
        for key in ("Escape", "0"):  # It opens on an agent, from near.
            page.press(key)
        pages.append(page)
        return page

    yield open_page
    for page in pages:
        assert (page.requests, page.sockets, page.errors) == ([written.as_uri()], [], [])
        page.close()


def canvas(page: Page) -> str:
    """The picture of the scene."""
    return str(page.eval("document.querySelector('canvas.stage').toDataURL()"))


def assert_facts(page: Page, ride: Played, name: str, step: int) -> None:
    """What the page says of an agent is what the rollout was."""
    row, said = list(ride.episode.drawing.agents).index(name), facts(page)
    body = next(shape for shape in ride.moments[step].shapes if shape.name == name)
    assert isinstance(body, Box)
    assert [float(part) for part in said["at"].split(", ")] == pytest.approx(
        [body.x, body.y], abs=0.011
    )
    shown = {
        "reward": 6e-4,
        "value": 6e-4,
        "speed m/s": 6e-4,
        "goal m": 6e-3,
        "action: acceleration m/s2": 6e-4,
    }
    for series, error in shown.items():
        number = ride.series[series][step][row]
        assert (
            said[series] == "-"
            if np.isnan(number)
            else float(said[series]) == pytest.approx(number, abs=error)
        ), series
    assert said["sees"] == f"{ride.seen.at(row, step)} things"


@pytest.mark.slow
def test_steps_of_an_agent(look: Any, ride: Played) -> None:
    page = look()
    names = [name for name in ride.episode.drawing.agents if name]
    assert page.texts("select option")[1:] == names and page.texts(".facts dt") == []
    page.press("n")
    for step in (1, 2, 3):
        page.press("ArrowRight")
        assert step_of(page) == step
        assert_facts(page, ride, names[0], step)
    page.press("n")
    page.press("ArrowLeft")
    assert_facts(page, ride, names[1], 2)
    page.press("End")
    assert step_of(page) == len(ride.moments) - 1 and facts(page)["value"] == "-", (
        "nobody acts at the end"
    )


@pytest.mark.slow
def test_scrubbing(look: Any, ride: Played) -> None:
    page = look()
    page.press("n")
    left, top, width, height = page.place(".scrub")
    page.drag((left + 9, top + height / 2), (left + 0.4 * width, top + height / 2))
    step = step_of(page)
    assert step == pytest.approx(0.4 * (len(ride.moments) - 1), abs=2)
    assert_facts(page, ride, page.texts("select option")[1], step)


@pytest.mark.slow
def test_playing(look: Any, ride: Played) -> None:
    page = look()
    page.press("]")
    assert page.text(".speed") == "2\u00d7"
    page.press(" ")
    page.wait("Number(document.querySelector('.step').textContent.split(' ')[3]) > 4")
    page.press(" ")
    step = step_of(page)
    page.eval("new Promise(done => setTimeout(done, 300))")
    assert step_of(page) == step
    page.click(".play")
    last = len(ride.moments) - 1
    page.wait(f"document.querySelector('.step').textContent.endsWith('step {last} of {last}')")
    assert page.text(".play") == "\u25b6"


@pytest.mark.slow
def test_a_click_chooses_whom_it_hits(look: Any, ride: Played) -> None:
    page = look()
    page.press("n")
    page.press("f")
    name = page.texts("select option")[1]
    assert page.eval("document.querySelector('.follow').getAttribute('aria-pressed')") == "true"
    page.press("Escape")
    assert page.texts(".facts dt") == []
    page.click("canvas.stage")
    assert page.eval("document.querySelector('select').selectedOptions[0].textContent") == name
    assert_facts(page, ride, name, 0)
    page.click("canvas.stage", across=0.01, down=0.01)
    assert page.texts(".facts dt") == [], "nobody is there"


@pytest.mark.slow
def test_a_drag_moves_the_picture_and_chooses_nobody(look: Any) -> None:
    page = look()
    before = canvas(page)
    page.drag((500, 300), (620, 380))
    moved = canvas(page)
    assert moved != before and page.texts(".facts dt") == []
    page.press("0")
    assert canvas(page) == before
    page.press("+")
    assert canvas(page) not in (before, moved)


def sentence(event: Event) -> str:
    words = f"{event.of} {event.did} {event.other}".strip()
    return f"{words}: {event.how}" if event.how else words


@pytest.mark.slow
def test_events_on_the_time_line(look: Any, ride: Played) -> None:
    page = look()
    events = [f"{step / 10:.1f} s: {sentence(event)}" for step, event in ride.moments[-1].events]
    assert len(events) > 2 and page.texts(".events button") == events
    assert page.eval("document.querySelectorAll('.mark').length") == len(events)
    page.click(".events li:nth-child(2) button")
    step, event = ride.moments[-1].events[1]
    assert step_of(page) == step
    assert_facts(page, ride, event.of, step)
    page.press("e")
    later = next(other for other, _ in ride.moments[-1].events if other > step)
    assert step_of(page) == later
    page.click(".mark")
    assert step_of(page) == ride.moments[-1].events[0][0]


@pytest.mark.slow
def test_it_opens_on_the_agent_with_the_lowest_return_from_near(
    browser: Browser, written: Path, ride: Played
) -> None:
    returns = np.nansum(ride.series["reward"], axis=0)
    rows = [row for row, name in enumerate(ride.episode.drawing.agents) if name]
    worst = ride.episode.drawing.agents[min(rows, key=lambda row: float(returns[row]))]
    page = browser.open(written.as_uri())
    page.wait("document.querySelector('[data-ready]') !== null")
    assert page.eval("document.querySelector('select').selectedOptions[0].textContent") == worst
    assert_facts(page, ride, worst, 0)
    assert page.eval("document.querySelector('.follow').getAttribute('aria-pressed')") == "true"
    near = canvas(page)
    page.press("0")
    assert canvas(page) != near
    page.press("f")
    assert canvas(page) == near
    page.close()


@pytest.mark.slow
def test_an_address_names_a_moment(browser: Browser, written: Path, ride: Played) -> None:
    step, event = ride.moments[-1].events[1]
    assert ride.episode.drawing.agents.count(event.of) == 1
    page = browser.open(
        f"{written.as_uri()}#episode=2&step={step}&agent={event.of.replace(' ', '+')}"
    )
    page.wait("document.querySelector('[data-ready=\"1\"]') !== null")
    assert step_of(page) == step
    assert_facts(page, ride, event.of, step)
    page.press("ArrowRight")
    wanted = f"#episode=2&step={step + 1}&agent={event.of.replace(' ', '+')}"
    page.wait(f"location.hash === {wanted!r}")
    assert page.eval("document.querySelector('.step').getAttribute('href')") == wanted
    page.eval("void (location.hash = '#episode=1&step=7')")
    page.wait(
        "document.querySelector('[data-ready=\"0\"]') !== null && "
        "document.querySelector('.step').text.includes('step 7 of')"
    )
    for odd in ("#episode=x&step=-1&agent=nobody", "#episode=99&step=999999", "#%zz"):
        page.eval(f"void (location.hash = {odd!r})")
        page.wait("document.querySelector('[data-ready]') !== null")
    assert page.errors == [] and page.requests == [page.requests[0]]
    page.close()


def test_nothing_moves_the_canvas(look: Any) -> None:
    """Neither a role that is hidden, nor a step, an agent or another episode."""
    page = look()
    page.press("n")

    def box() -> Any:
        return page.eval(
            "(() => { const r = document.querySelector('canvas.stage').getBoundingClientRect();"
            " return [r.left, r.top, r.width, r.height]; })()"
        )

    before = box()
    for selector in (
        ".legend button",
        ".legend button:last-child",
        ".events button",
        ".scenes li:nth-child(2) button",
    ):
        page.click(selector)
        assert box() == before, selector
    page.wait("document.querySelector('[data-ready=\"1\"]') !== null")
    for key in ("End", "n", "Home", "Escape"):
        page.press(key)
        assert box() == before, key


@pytest.mark.slow
@pytest.mark.parametrize("dark", [False, True])
def test_colours_that_lie_on_each_other_differ(look: Any, dark: bool) -> None:
    """What is observed is drawn over lines, and crosses over both: by their distance in the colour
    space CIELAB.
    """
    page = look(dark=dark)
    script = """(() => {
        const buttons = [...document.querySelectorAll('.legend button')];
        const names = ['agent', 'observed', 'yellow line', 'off-road', 'collision', 'at goal',
                       'log', 'kerb', 'white line'];
        return names
            .map((name) => [name, buttons.find((one) => one.innerText.trim() === name)])
            .filter(([, one]) => one)
            .map(([name, one]) => [name, getComputedStyle(one.querySelector('i')).backgroundColor]);
    })()"""
    colours = {
        name: lab(*map(int, re.findall(r"\d+", colour)[:3])) for name, colour in page.eval(script)
    }
    assert {"agent", "observed", "yellow line", "off-road"} <= set(colours)
    for (one, a), (other, b) in itertools.combinations(colours.items(), 2):
        assert np.linalg.norm(a - b) > 20, f"{one} and {other} look alike"


def lab(*rgb: int) -> np.ndarray:
    """CIELAB of an sRGB colour, D65."""
    part = np.array(rgb) / 255
    linear = np.where(part <= 0.04045, part / 12.92, ((part + 0.055) / 1.055) ** 2.4)
    matrix = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    share = (matrix @ linear) / np.array([0.9505, 1.0, 1.089])
    root = np.where(share > 0.008856, np.cbrt(share), 7.787 * share + 16 / 116)
    return np.array([116 * root[1] - 16, 500 * (root[0] - root[1]), 200 * (root[1] - root[2])])


@pytest.mark.slow
def test_the_list_of_episodes(look: Any) -> None:
    page = look()
    first, second = page.texts(".scenes b")
    assert (
        second == "a better scene"
        and first.startswith("street-")
        and "return" in page.text(".scenes small")
    )
    page.press("End")
    page.click(".scenes li:nth-child(2) button")
    page.wait("document.querySelector('[data-ready=\"1\"]') !== null")
    assert step_of(page) == 0


def test_an_episode_of_other_shapes_follows(browser: Browser, ride: Played, tmp_path: Path) -> None:
    """Nothing of the agent that was chosen before is painted with the looks of the new episode."""
    other = replay_of(play(get("cartpole"), {}, RandomActor(0)))
    path = tmp_path / "replay.html"
    path.write_text(replay_page([replay_of(ride), other], "two"))
    page = browser.open(f"{path.as_uri()}#episode=1")
    page.wait("document.querySelector('[data-ready=\"0\"]') !== null")
    page.eval("void (location.hash = '#episode=2')")
    page.wait("document.querySelector('[data-ready=\"1\"]') !== null")
    assert page.errors == []
    page.close()


@pytest.mark.slow
def test_roles_can_be_hidden(look: Any) -> None:
    page = look()
    before = canvas(page)
    names = page.texts(".legend button")
    assert {"agent", "goal", "road", "kerb", "lane", "observed"} <= set(names)
    page.click(f".legend button:nth-child({names.index('kerb') + 1})")
    assert canvas(page) != before
    page.click(f".legend button:nth-child({names.index('kerb') + 1})")
    assert canvas(page) == before


@pytest.mark.slow
def test_what_an_agent_observes_can_be_hidden(look: Any) -> None:
    page = look()
    page.press("n")
    page.press("f")
    seeing = canvas(page)
    page.press("o")
    blind = canvas(page)
    assert blind != seeing
    page.press("a")
    assert canvas(page) != blind


@pytest.mark.slow
def test_fingers(look: Any, ride: Played) -> None:
    page = look(360, 740, touch=True)
    page.press("n")
    page.press("f")
    name = page.texts("select option")[1]
    page.press("Escape")
    page.tap("canvas.stage")
    assert_facts(page, ride, name, 0)
    near = canvas(page)
    left, top, width, height = page.place("canvas.stage")
    x, y = left + width / 2, top + height / 2
    for apart in (20, 40, 60, 80):
        points = [{"x": x - apart, "y": y, "id": 0}, {"x": x + apart, "y": y, "id": 1}]
        page.call(
            "Input.dispatchTouchEvent",
            type="touchStart" if apart == 20 else "touchMove",
            touchPoints=points,
        )
    page.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])
    assert canvas(page) != near
    assert_facts(page, ride, name, 0)


@pytest.mark.slow
@pytest.mark.parametrize("width", [360, 700, 1100, 1600])
def test_it_fits_any_width(look: Any, width: int) -> None:
    page = look(width, 800)
    page.press("n")
    assert page.eval("document.documentElement.scrollWidth") <= width
    assert page.eval("document.querySelector('canvas.stage').clientWidth") > 0.4 * width
    texts = page.eval(
        "[...document.querySelectorAll('.buttons *')].every(e => e.scrollWidth <= e.clientWidth + "
        "1)"
    )
    assert texts, "no label is cut off"


@pytest.mark.slow
def test_light_and_dark(look: Any) -> None:
    def grounds(page: Page) -> str:
        return str(page.eval("getComputedStyle(document.querySelector('.replay')).backgroundColor"))

    light, dark = look(), look(dark=True)
    assert grounds(light) == "rgb(251, 250, 247)" and grounds(dark) == "rgb(21, 23, 27)"
    assert canvas(light) != canvas(dark)
    for theme in ("light", "dark", "auto"):
        dark.press("t")
        assert dark.text(".theme") == f"theme: {theme}"
        assert grounds(dark) == ("rgb(251, 250, 247)" if theme == "light" else "rgb(21, 23, 27)")


def test_a_usual_file_is_small(written: Path, ride: Played) -> None:
    """Two copies of an episode and the scripts, of which uPlot is 50 kB."""
    assert len(replay_of(ride).data) < 60_000
    assert written.stat().st_size < 250_000


@pytest.mark.slow
def test_a_crowded_file_is_below_3_mb(tmp_path: Path) -> None:
    """More than 128 agents over 91 steps, all there to the end, each with what it observes."""
    from bench.replay import crowded_scene
    from drive_env.scenes.pvs import write_scenes

    write_scenes(tmp_path / "crowded.pvs", [crowded_scene()])
    found = replay_of(
        play(
            get("drive"),
            {**SCENES, "scenes": f"{tmp_path}/crowded.pvs", "num_agents": 256},
            Judge(0),
            task=0,
        )
    )
    assert found.agents >= 128 and found.steps == 90
    assert len(replay_page([found], "crowded")) < 3_000_000


@pytest.mark.slow
def test_a_scale_bar_has_a_round_length_that_fits_the_zoom(look: Any) -> None:
    page = look()
    page.eval(
        "(() => { window.bars = []; const brush = CanvasRenderingContext2D.prototype;"
        "const {fillText, stroke} = brush;"
        "let reach = 0; const {lineTo} = brush;"
        "brush.lineTo = function (x, y) { reach = x; lineTo.call(this, x, y); };"
        "brush.fillText = function (text, ...rest) {"
        "  if (/^[0-9.]+ m$/.test(text)) window.bars.push([text, reach - 12.5]);"
        "  fillText.call(this, text, ...rest); }; return 0; })()"
    )
    found = []
    for _ in range(4):
        page.press("+")
        page.wait("window.bars.length > 0")
        text, pixels = page.eval("window.bars.splice(0).at(-1)")
        length = float(text.split()[0])
        found.append(length / pixels)
        assert str(length).strip("0.")[:1] in "125" and len(str(length).strip("0.")) == 1
        assert 30 < pixels < 1280 / 5 + 1
    assert found == sorted(found, reverse=True) and found[0] > 1.5 * found[-1]
