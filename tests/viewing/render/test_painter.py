# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from puffervec.contract.drawing import INK, Box, Circle, Drawing, Event, Line, Shape, Text
from puffervec.viewing.render.episode import Moment
from tests.contract.test_drawing import drawing

pytest.importorskip("PIL")
from PIL import ImageColor

from puffervec.viewing.render import painter

RED, GREEN = "#FF0000", "#00FF00"
SIZE = (160, 80)  # pixels of a world of 4 x 2 units: 40 each


def world(*shapes: Shape, **parts: Any) -> np.ndarray:
    drawn = drawing(colours={"red": RED, "green": GREEN})
    return np.asarray(painter.world_of(drawn, Moment(0, shapes, **parts), SIZE))


def at(picture: np.ndarray, x: float, y: float) -> str:
    """The colour at a place of the world, whose y points up."""
    return "#{:02X}{:02X}{:02X}".format(*picture[int(SIZE[1] - 40 * y), int(40 * x)])


@pytest.mark.parametrize(
    ("shape", "inside", "outside"),
    [
        (
            Circle(1, 0.5, 0.4, role="red"),
            [(1, 0.5), (1.3, 0.5), (1, 0.8)],
            [(1.38, 0.88), (1, 1.5)],
        ),
        (Circle(1, 0.5, 0.4, role="red", filled=False), [(1.39, 0.5)], [(1, 0.5)]),
        (Circle(1, 0.5, 0.0, role="red"), [(1, 0.5)], [(1.2, 0.5)]),
        (Box(2, 1, 2, 0.4, role="red"), [(1.1, 1), (2.9, 1.1)], [(2, 1.3), (2, 0.7)]),
        (Box(2, 1, 2, 0.4, 0.7854, role="red"), [(2.6, 1.6), (1.4, 0.4)], [(1.1, 1), (1.4, 1.6)]),
        (
            Line(((0.5, 0.5), (3.5, 0.5), (3.5, 1.5)), 0.2, role="red"),
            [(2, 0.45), (3.5, 1)],
            [(2, 1)],
        ),
    ],
)
def test_shapes_are_where_they_belong(shape: Shape, inside: list[Any], outside: list[Any]) -> None:
    picture = world(shape)
    assert picture.shape == (80, 160, 3)
    assert painter.PAPER not in {at(picture, *place) for place in inside}
    assert {at(picture, *place) for place in outside} == {painter.PAPER}


def test_what_comes_later_covers_what_came_before() -> None:
    assert at(world(Circle(1, 1, 0.5, role="red"), Circle(1, 1, 0.5, role="green")), 1, 1) == GREEN
    below = drawing(colours={"red": RED, "green": GREEN}, still=[Box(2, 1, 4, 2, role="green")])
    assert (
        at(
            np.asarray(painter.world_of(below, Moment(0, (Circle(1, 1, 0.5, role="red"),)), SIZE)),
            1,
            1,
        )
        == RED
    )


def test_roles_without_a_colour_are_ink_and_faded_ones_pale() -> None:
    assert at(world(Circle(1, 1, 0.5, role="else")), 1, 1) == INK
    pale = ImageColor.getrgb(at(world(Circle(1, 1, 0.5, role="red", faded=True)), 1, 1))
    assert pale[0] > 200 and all(120 < part < 200 for part in pale[1:])


def test_a_trail_fades_with_age() -> None:
    dot = Circle(3.5, 1, 0.1, role="red", name="dot", trail=4)
    picture = world(dot, trails=((dot, ((0.5, 1), (1.2, 1), (1.9, 1), (2.6, 1), (3.3, 1))),))
    greens = [ImageColor.getrgb(at(picture, x, 1))[1] for x in (0.85, 1.55, 2.25, 2.95)]
    assert greens == sorted(greens, reverse=True) and len(set(greens)) == 4


def test_events_and_words_are_seen() -> None:
    new, old = (
        world(events=((step, Event(1, 1, role="red")),)) for step in (0, -painter.NEW_STEPS)
    )
    assert at(new, 1, 1) == RED and at(old, 1, 1) not in (RED, painter.PAPER)
    assert (world(Text(2, 1, "here", role="red")) != world()).any()


def test_one_size_for_all_pictures_and_a_head_that_fits() -> None:
    """The title of a run may be long; it loses its middle, not its end."""
    drawn, size = (
        drawing(numbers=lambda state: {"left": 3.0}, wholes={"left": 4.0}),
        painter.size_of(drawing()),
    )
    first, second = (
        painter.picture_of(drawn, Moment(step, (), numbers={"left": 3.0}), title, size)
        for step, title in ((0, "short"), (7, "long/" * 60 + "\nend"))
    )
    assert (
        first.size == second.size == (664, 320 + 24 + 3 * 24)
        and first.width % 2 == first.height % 2 == 0
    )
    edge = np.asarray(second)[:, -painter.MARGIN_PX + 1 :]
    assert (edge == ImageColor.getrgb(painter.PAPER)).all()
    assert painter.captions(drawn, Moment(7, (), numbers={"left": 3.0}), 640) == [
        "step 7,  left 3 of 4"
    ]


def test_numbers_and_colours_take_as_many_lines_as_they_need() -> None:
    """None is lost, and all pictures of an episode have one size."""
    names = [f"a number of length {n}" for n in range(7)]
    drawn = drawing(colours={f"the role of number {n}": "#D55E00" for n in range(9)})
    sizes = []
    for value in (0.0, 0.12345, 100.0):
        moment = Moment(900, (), numbers=dict.fromkeys(names, value))
        lines = painter.captions(drawn, moment, 640)
        assert painter.GAP.join(lines) == painter.GAP.join(
            ["step 900", *(f"{name} {value:.4g}" for name in names)]
        )
        sizes.append(
            (len(lines), painter.picture_of(drawn, moment, "title", painter.size_of(drawn)).size)
        )
    assert len(set(sizes)) == 1 and sizes[0][0] == 3
    lines = painter.samples_of(drawn, 640)
    assert [sample.label for line in lines for sample in line] == list(drawn.colours) and len(
        lines
    ) == 3
    assert painter.samples_of(drawing(colours={}), 640) == []
    edge = np.asarray(painter.picture_of(drawn, moment, "title", painter.size_of(drawn)))[
        :, -painter.MARGIN_PX + 1 :
    ]
    assert (edge == ImageColor.getrgb(painter.PAPER)).all()
    sheet = np.asarray(painter.sheet_of(drawn, [moment], "title"))
    assert (
        sheet.shape[0] > 0
        and (sheet[:, -painter.MARGIN_PX + 1 :] == ImageColor.getrgb(painter.PAPER)).all()
    )


@pytest.mark.parametrize(
    ("view", "height"), [((0, 0, 1, 9), 640), ((0, 0, 9, 1), 160), ((0, 0, 3, 2), 426)]
)
def test_pictures_are_even_and_neither_too_high_nor_too_flat(view: Any, height: int) -> None:
    assert painter.size_of(Drawing(view=view, shapes=lambda state, before: ())) == (640, height)


def test_a_sheet_has_a_panel_for_each_moment() -> None:
    moments = [Moment(step, (Circle(2, 1, 0.5, role="dot"),)) for step in range(5)]
    one, four, five = (
        np.asarray(painter.sheet_of(drawing(), moments[:count], "title")) for count in (1, 4, 5)
    )
    counts = []
    for row in (four[four.shape[0] // 2 + 20], five[-120]):
        blue = np.r_[False, (row == (0, 0x72, 0xB2)).all(-1)].astype(int)
        counts.append(np.count_nonzero(np.diff(blue) == 1))
    assert counts == [4, 1]
    assert one.shape[1] < four.shape[1] == five.shape[1] and five.shape[0] > four.shape[0]


def test_the_bar_is_as_long_as_it_says() -> None:
    for width, length, words in ((100.0, 10.0, "10 m"), (470.0, 50.0, "50 m"), (3.0, 0.2, "0.2 m")):
        shapes = painter.scale_bar(5.0, 6.0, width, width / 1500)
        bar, word = shapes[1], shapes[2]
        assert isinstance(bar, Line) and isinstance(word, Text)
        assert bar.points[2][0] - bar.points[1][0] == pytest.approx(length) and word.text == words


def test_a_frame_has_the_size_that_is_asked_for_a_clock_and_a_scale() -> None:
    def plain(**more: Any) -> Drawing:
        return Drawing((0, 0, 30, 10), lambda state, before: (), {"car": "#0072B2"}, **more)

    clock = plain(step_s=0.1, unit="m")
    assert painter.captions(clock, Moment(23, ()), 600) == ["2.3 s,  step 23"] and painter.captions(
        plain(), Moment(23, ()), 600
    ) == ["step 23"]
    frame = painter.frame_of(clock, Moment(23, ()), "a scene", (640, 360))
    assert frame.size == (640, 360)
    lower = np.asarray(frame)[200:, 12:200]
    assert (lower < 100).any() and not (
        np.asarray(painter.frame_of(plain(), Moment(23, ()), "a scene", (640, 360)))[200:] < 100
    ).any()
