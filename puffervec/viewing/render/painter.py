# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Paints moments of an episode with Pillow: a picture with title and legend, and sheets of several.
Runs in the learner.

Everything is painted at twice its size and then made smaller, which smooths its edges. All sizes in
names are of the result.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

from PIL import Image, ImageColor, ImageDraw, ImageFont

from puffervec.contract.drawing import INK, Box, Circle, Drawing, Event, Line, Polygon, Shape, Text
from puffervec.viewing.render.episode import Moment, Point

Item = TypeVar("Item")
PAPER = "#FBFAF7"
WIDTH_PX, LEAST_PX, MARGIN_PX, GAP_PX = 640, 160, 12, 16
LINE_PX = 24  # Of text above a picture.
TITLE_PX, FONT_PX = 17, 15
WIDEST, GAP = "0.0000", ",  "  # number of a caption, and what stands between two
SAMPLE_PX = 16  # height of a sample in a legend
TRAIL_SHADES = (0.12, 0.22, 0.34, 0.48)  # Shares of the colour, from the oldest quarter on.
FADED = 0.35  # Likewise.
NEW_STEPS, OLD = 10, 0.55  # Events are shown large for some steps, and then smaller and paler.
FINER = 2
SEAMS_PX = 8  # width of lines from which on their joints are painted
PANELS_ACROSS = 4
PANEL_PX = 440


def size_of(drawing: Drawing) -> tuple[int, int]:
    """Width and height of the world in a picture, in pixels: both even, as films need it."""
    left, bottom, right, top = drawing.view
    height = WIDTH_PX * (top - bottom) / (right - left)
    return WIDTH_PX, 2 * round(min(max(height, LEAST_PX), WIDTH_PX) / 2)


@dataclass(frozen=True)
class Sample:
    """An entry of a legend. shapes: within (0, 0) and (width, 16), in pixels."""

    label: str
    shapes: tuple[Shape, ...]
    width: int = 12


def picture_of(drawing: Drawing, moment: Moment, title: str, size: tuple[int, int]) -> Image.Image:
    """Return a picture with a head: title, step and numbers, legend. Args: size: of the world, in
    pixels.
    """
    words, legends = captions(drawing, moment, size[0]), samples_of(drawing, size[0])
    return headed(world_of(drawing, moment, size), title, words, legends, drawing.colours)


def frame_of(drawing: Drawing, moment: Moment, title: str, size: tuple[int, int]) -> Image.Image:
    """Return the same as `picture_of` in a picture of a given size. Args: size: of all of it, in
    pixels.
    """
    width = size[0] - 2 * MARGIN_PX
    words, legends = captions(drawing, moment, width), samples_of(drawing, width)
    height = size[1] - (1 + len(words) + len(legends)) * LINE_PX - 2 * MARGIN_PX
    return headed(
        world_of(drawing, moment, (width, max(height, LEAST_PX))),
        title,
        words,
        legends,
        drawing.colours,
    )


def title_of(title: str, drawing: Drawing) -> str:
    """Return a title with the name of what the episode is of."""
    return f"{title}, {drawing.title}" if drawing.title else title


def headed(
    world: Image.Image,
    title: str,
    words: Sequence[str],
    legends: Sequence[Sequence[Sample]],
    colours: Mapping[str, str],
    scale: float = 1.0,
) -> Image.Image:
    """Return a picture of the world below its title, lines of words, and a line for each legend.
    Args: scale: of the head.
    """
    line, top, width = round(scale * LINE_PX), round(scale * (MARGIN_PX - 4)), world.width
    head = (1 + len(words) + len(legends)) * line + MARGIN_PX
    picture = Image.new("RGB", (width + 2 * MARGIN_PX, world.height + head + MARGIN_PX), PAPER)
    draw = ImageDraw.Draw(picture)
    for number, (text, font_px) in enumerate(
        [(title, round(scale * TITLE_PX)), *((text, round(scale * FONT_PX)) for text in words)]
    ):
        draw.text(
            (MARGIN_PX, top + number * line), _shortened(text, font_px, width), INK, _font(font_px)
        )
    for number, samples in enumerate(legends, 1 + len(words)):
        _draw_legend(picture, samples, colours, (MARGIN_PX, top + number * line), scale)
    picture.paste(world, (MARGIN_PX, head))
    return picture


def samples_of(drawing: Drawing, width: int) -> list[list[Sample]]:
    """Return the legend of a drawing, its colours and what they stand for, as lines. Args: width:
    in pixels.
    """
    samples = [Sample(role, (Box(6, 6.5, 12, 12, role=role),)) for role in drawing.colours]
    return _in_lines(samples, [_width_of(sample) for sample in samples], GAP_PX, width)


def _in_lines(
    items: Sequence[Item], widths: Sequence[float], gap: float, width: float
) -> list[list[Item]]:
    """Put items side by side, with gaps between, into as many lines as they need."""
    lines: list[list[Item]] = []
    used = math.inf
    for item, needed in zip(items, widths, strict=True):
        if used + gap + needed > width:
            lines.append([])
            used = -gap
        lines[-1].append(item)
        used += gap + needed
    return lines


def sheet_of(drawing: Drawing, moments: Sequence[Moment], title: str) -> Image.Image:
    """Return moments side by side, each under its step and numbers, with one title and legend."""
    width, height = size_of(drawing)
    panel = PANEL_PX, round(PANEL_PX * height / width)
    across = min(PANELS_ACROSS, len(moments))
    rows = -(-len(moments) // across)
    lines = len(captions(drawing, moments[0], PANEL_PX))
    row_px = panel[1] + lines * LINE_PX + GAP_PX
    width = across * (PANEL_PX + GAP_PX) - GAP_PX
    legends = samples_of(drawing, width)
    head = (1 + len(legends)) * LINE_PX + 2 * MARGIN_PX
    sheet = Image.new("RGB", (width + 2 * MARGIN_PX, head + rows * row_px), PAPER)
    draw = ImageDraw.Draw(sheet)
    draw.text((MARGIN_PX, MARGIN_PX), _shortened(title, TITLE_PX, width), INK, _font(TITLE_PX))
    for line, samples in enumerate(legends, 1):
        _draw_legend(sheet, samples, drawing.colours, (MARGIN_PX, MARGIN_PX + line * LINE_PX))
    for number, moment in enumerate(moments):
        x, y = MARGIN_PX + number % across * (PANEL_PX + GAP_PX), head + number // across * row_px
        for line, text in enumerate(captions(drawing, moment, PANEL_PX)):
            draw.text(
                (x, y + line * LINE_PX), _shortened(text, FONT_PX, PANEL_PX), INK, _font(FONT_PX)
            )
        sheet.paste(world_of(drawing, moment, panel), (x, y + lines * LINE_PX))
    return sheet


def captions(drawing: Drawing, moment: Moment, width: int) -> list[str]:
    """Return step and numbers as lines of words: as many lines for every moment of an episode.
    Args: width: in pixels.
    """
    texts, widths = [f"step {moment.step}"], [_font(FONT_PX).getlength("step 0000")]
    if drawing.step_s:
        texts.insert(0, f"{moment.step * drawing.step_s:.{digits_of(drawing.step_s)}f} s")
        widths.insert(0, _font(FONT_PX).getlength("000.00 s"))
    for name, value in moment.numbers.items():
        of = f" of {drawing.wholes[name]:.4g}" if name in drawing.wholes else ""
        texts.append(f"{name} {value:.4g}{of}")
        widths.append(_font(FONT_PX).getlength(f"{name} {WIDEST}{of}"))
    return [
        GAP.join(line) for line in _in_lines(texts, widths, _font(FONT_PX).getlength(GAP), width)
    ]


def digits_of(step_s: float) -> int:
    """Return how many digits after the point tell the times of steps apart.

    >>> digits_of(0.1), digits_of(0.02), digits_of(1.0)
    (1, 2, 0)
    """
    return max(0, math.ceil(-math.log10(step_s) - 1e-6))


def scale_bar(left: float, bottom: float, width: float, px: float, unit: str = "m") -> list[Shape]:
    """Return a bar of a round length in the lower left corner, an eighth of the picture's width at
    most, with its length.

    Args: left, bottom, width: of the view, in world units. px: world units of a pixel.
    """
    power = 10.0 ** math.floor(math.log10(width / 8))
    length = power * next(part for part in (5, 2, 1) if part * power <= width / 8)
    x, y = left + 0.02 * width, bottom + 0.02 * width
    ends = [(x, y + 6 * px), (x, y), (x + length, y), (x + length, y + 6 * px)]
    bars = [Line(ends, wide * px, role=role) for wide, role in ((7.0, "paper"), (3.0, ""))]
    return [*bars, Text(x + length / 2, y + 16 * px, f"{length:g} {unit}")]


def world_of(drawing: Drawing, moment: Moment, size: tuple[int, int]) -> Image.Image:
    """Return the world without a head. Args: size: in pixels."""
    brush = _Brush(drawing, size)
    for shape in drawing.still:
        brush.paint(shape)
    for shape, places in moment.trails:
        brush.paint_trail(shape, places)
    for shape in (shape for shape in moment.shapes if shape.faded):
        brush.paint(shape)
    for event in (event for step, event in moment.events if moment.step - step >= NEW_STEPS):
        brush.paint_event(event, OLD)
    for shape in (shape for shape in moment.shapes if not shape.faded):
        brush.paint(shape)
    for event in (event for step, event in moment.events if moment.step - step < NEW_STEPS):
        brush.paint_event(event)
    if drawing.unit:
        left, bottom, width, px = brush.seen()
        for shape in scale_bar(left, bottom, width, px, drawing.unit):
            brush.paint(shape)
    return brush.image.reduce(FINER)


class _Brush:
    """Paints shapes in world units. Pixels are those of the finer picture."""

    def __init__(self, drawing: Drawing, size: tuple[int, int]) -> None:
        self.image = Image.new("RGB", (FINER * size[0], FINER * size[1]), PAPER)
        self._draw = ImageDraw.Draw(self.image)
        self._colours = {"paper": PAPER, **drawing.colours}
        left, bottom, right, top = drawing.view
        self._scale = min(
            self.image.width / (right - left), self.image.height / (top - bottom)
        )  # pixels per unit
        self._left = self.image.width / 2 - self._scale * (left + right) / 2
        self._bottom = self.image.height / 2 + self._scale * (bottom + top) / 2

    def seen(self) -> tuple[float, float, float, float]:
        """Return left, bottom and width of what the picture shows, and the size of one of its
        pixels, in world units.
        """
        width = self.image.width / self._scale
        return (
            -self._left / self._scale,
            (self._bottom - self.image.height) / self._scale,
            width,
            FINER / self._scale,
        )

    def paint(self, shape: Shape) -> None:
        colour = mixed(self._colours.get(shape.role, INK), FADED if shape.faded else 1.0)
        match shape:
            case Circle():
                (x, y), radius = (
                    self._at((shape.x, shape.y)),
                    max(shape.radius * self._scale, 2.5 * FINER),
                )
                box = (x - radius, y - radius, x + radius, y + radius)
                self._draw.ellipse(box, **self._look(shape, colour))
            case Box():
                self._draw.polygon(
                    [self._at(corner) for corner in _corners(shape)], **self._look(shape, colour)
                )
                if shape.front:
                    screen = Box(
                        *_ahead(shape, 0.2), 0.15 * shape.width, 0.7 * shape.height, shape.angle_rad
                    )
                    self._draw.polygon([self._at(corner) for corner in _corners(screen)], PAPER)
            case Polygon():
                self._draw.polygon(
                    [self._at(point) for point in shape.points], **self._look(shape, colour)
                )
            case Line():
                width = max(round(shape.width * self._scale), round(1.2 * FINER))
                points = [self._at(point) for point in shape.points]
                self._draw.line(points, colour, width, joint="curve")
                if width > SEAMS_PX * FINER:  # Pillow leaves gaps between the pieces of wide lines.
                    half = width / 2
                    for x, y in points[1:-1]:
                        if min(math.dist((x, y), end) for end in (points[0], points[-1])) > half:
                            self._draw.ellipse((x - half, y - half, x + half, y + half), colour)
            case Text():
                size = round(shape.height * self._scale) if shape.height else FONT_PX * FINER
                at, font = self._at((shape.x, shape.y)), _font(max(size, 1))
                self._draw.text(
                    at,
                    shape.text,
                    colour,
                    font,
                    anchor="mm",
                    stroke_width=2 * FINER,
                    stroke_fill=PAPER,
                )

    def paint_event(self, event: Event, size: float = 1.0) -> None:
        """Args: size: a share of the largest one, and of the colour."""
        (x, y), unit = self._at((event.x, event.y)), size * FINER
        colour = mixed(self._colours.get(event.role, INK), size)
        for arm, width, paint in (
            (8 * unit, round(6 * unit), PAPER),
            (7 * unit, round(3 * unit), colour),
        ):
            self._draw.line((x - arm, y - arm, x + arm, y + arm), paint, width)
            self._draw.line((x - arm, y + arm, x + arm, y - arm), paint, width)

    def paint_trail(self, shape: Shape, places: Sequence[Point]) -> None:
        """The older, the paler."""
        if all(place == places[0] for place in places):
            return
        points, colour = [self._at(place) for place in places], self._colours.get(shape.role, INK)
        quarter = max(1, math.ceil(shape.trail / len(TRAIL_SHADES)))
        for age, share in enumerate(reversed(TRAIL_SHADES)):
            end = len(points) - age * quarter
            part = points[max(0, end - quarter - 1) : max(0, end)]
            if len(part) > 1:
                self._draw.line(part, mixed(colour, share), round(2.5 * FINER))

    def _look(self, shape: Shape, colour: str) -> dict[str, Any]:
        """A filled shape has a pale edge, which keeps it apart from what lies under it."""
        if shape.filled:
            return {"fill": colour, "outline": PAPER, "width": FINER // 2}
        return {"outline": colour, "width": round(1.2 * FINER)}

    def _at(self, point: Point) -> Point:
        """Pixels of a point of the world."""
        return self._left + float(point[0]) * self._scale, self._bottom - float(
            point[1]
        ) * self._scale


def _corners(box: Box) -> list[Point]:
    cos, sin = math.cos(box.angle_rad), math.sin(box.angle_rad)
    halves = [
        (sx * box.width / 2, sy * box.height / 2) for sx, sy in ((1, 1), (-1, 1), (-1, -1), (1, -1))
    ]
    return [(box.x + x * cos - y * sin, box.y + x * sin + y * cos) for x, y in halves]


def _ahead(box: Box, share: float) -> Point:
    """The place that lies that share of the width ahead of the middle."""
    return box.x + share * box.width * math.cos(
        box.angle_rad
    ), box.y + share * box.width * math.sin(box.angle_rad)


def _draw_legend(
    picture: Image.Image,
    samples: Sequence[Sample],
    colours: Mapping[str, str],
    at: tuple[int, int],
    scale: float = 1.0,
) -> None:
    """As many samples as one line has room for."""
    (x, y), font_px = at, round(scale * FONT_PX)
    for sample in samples:
        end, size = (
            x + _width_of(sample, scale),
            (round(scale * sample.width), round(scale * SAMPLE_PX)),
        )
        if end > picture.width:
            return
        drawing = Drawing((0, 0, sample.width, SAMPLE_PX), lambda state, before: (), colours)
        picture.paste(world_of(drawing, Moment(0, sample.shapes), size), (x, y + 1))
        ImageDraw.Draw(picture).text(
            (x + size[0] + round(5 * scale), y), _label_of(sample, scale), INK, _font(font_px)
        )
        x = end + round(scale * GAP_PX)


def _width_of(sample: Sample, scale: float = 1.0) -> int:
    """Pixels of a sample with its label."""
    words: float = _font(round(scale * FONT_PX)).getlength(_label_of(sample, scale))
    return round(scale * sample.width) + round(5 * scale) + round(words)


def _label_of(sample: Sample, scale: float) -> str:
    return _shortened(sample.label, round(scale * FONT_PX), round(scale * WIDTH_PX / 3))


def _shortened(text: str, font_px: int, width: int) -> str:
    """Return as much of a text as fits in one line, with its beginning and its end."""
    text = " ".join(text.split())
    if _font(font_px).getlength(text) <= width:
        return text
    for kept in range(len(text) // 2, 0, -1):
        short = f"{text[:kept]}...{text[-kept:]}"
        if _font(font_px).getlength(short) <= width:
            return short
    return "..."


@cache
def _font(size_px: int) -> Any:
    return ImageFont.load_default(size_px)


@cache
def mixed(colour: str, share: float) -> str:
    """Return a colour, mixed with paper. Args: share: of the colour."""
    parts = zip(ImageColor.getrgb(colour)[:3], ImageColor.getrgb(PAPER)[:3], strict=True)
    return "#" + "".join(f"{round(share * own + (1 - share) * paper):02x}" for own, paper in parts)
