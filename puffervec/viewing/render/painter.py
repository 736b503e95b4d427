# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Painter of the moments of an episode with Pillow: pictures with title and legend, and sheets.

Runs in the learner. Everything is painted at twice its size and then reduced, which smooths edges.
Sizes whose names end in `_px` or `_PX` are in pixels of the result.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

from PIL import Image, ImageColor, ImageDraw, ImageFont

from puffervec.contract.drawing import (
    INK,
    PAPER,
    Box,
    Circle,
    Drawing,
    Event,
    Line,
    Polygon,
    Shape,
    Text,
)
from puffervec.viewing.render.episode import Moment, Point

Item = TypeVar("Item")
WIDTH_PX, LEAST_PX, MARGIN_PX, GAP_PX = 640, 160, 12, 16
LINE_PX = 24  # height of a line of text above a picture
TITLE_PX, FONT_PX = 17, 15
WIDEST, GAP = "0.0000", ",  "  # the widest number in a caption, and the separator of numbers
SAMPLE_PX = 16  # height of a sample in a legend
TRAIL_SHADES = (0.12, 0.22, 0.34, 0.48)  # shares of the colour, from the oldest quarter on
FADED = 0.35  # share of the colour of faded shapes
NEW_STEPS, OLD = 10, 0.55  # Events are large for NEW_STEPS steps, then smaller and paler by OLD.
FINER = 2
SEAMS_PX = 8  # Joints are painted on lines that are wider than this.
PANELS_ACROSS = 4
PANEL_PX = 440


def size_of(drawing: Drawing) -> tuple[int, int]:
    """Return the size of the world in a picture, in pixels; both sides are even, as films need."""
    left, bottom, right, top = drawing.view
    height = WIDTH_PX * (top - bottom) / (right - left)
    return WIDTH_PX, 2 * round(min(max(height, LEAST_PX), WIDTH_PX) / 2)


@dataclass(frozen=True)
class Sample:
    """An entry of a legend; its shapes lie within (0, 0) and (width, SAMPLE_PX), in pixels."""

    label: str
    shapes: tuple[Shape, ...]
    width: int = 12


def picture_of(drawing: Drawing, moment: Moment, title: str, size: tuple[int, int]) -> Image.Image:
    """Return a picture with a header above it: title, step, numbers and legend.

    Args:
        drawing: drawing of the episode.
        moment: the moment to paint.
        title: title of the picture.
        size: width and height of the world, in pixels, without the header.
    """
    words, legends = captions(drawing, moment, size[0]), samples_of(drawing, size[0])
    return add_head(world_of(drawing, moment, size), title, words, legends, drawing.colours)


def frame_of(drawing: Drawing, moment: Moment, title: str, size: tuple[int, int]) -> Image.Image:
    """Return a picture like `picture_of`, but of the given total size in pixels."""
    width = size[0] - 2 * MARGIN_PX
    words, legends = captions(drawing, moment, width), samples_of(drawing, width)
    height = size[1] - (1 + len(words) + len(legends)) * LINE_PX - 2 * MARGIN_PX
    return add_head(
        world_of(drawing, moment, (width, max(height, LEAST_PX))),
        title,
        words,
        legends,
        drawing.colours,
    )


def title_of(title: str, drawing: Drawing) -> str:
    """Return a title followed by the title of the drawing, if it has one."""
    return f"{title}, {drawing.title}" if drawing.title else title


def add_head(
    world: Image.Image,
    title: str,
    words: Sequence[str],
    legends: Sequence[Sequence[Sample]],
    colours: Mapping[str, str],
    scale: float = 1.0,
) -> Image.Image:
    """Return a picture of the world below its title, lines of words and lines of legends.

    Args:
        world: picture of the world.
        title: title of the picture.
        words: lines of text.
        legends: samples of each line of the legend.
        colours: colours by role.
        scale: factor on the sizes in the header.
    """
    line, top, width = round(scale * LINE_PX), round(scale * (MARGIN_PX - 4)), world.width
    head = (1 + len(words) + len(legends)) * line + MARGIN_PX
    picture = Image.new("RGB", (width + 2 * MARGIN_PX, world.height + head + MARGIN_PX), PAPER)
    draw = ImageDraw.Draw(picture)
    for number, (text, font_px) in enumerate(
        [(title, round(scale * TITLE_PX)), *((text, round(scale * FONT_PX)) for text in words)]
    ):
        draw.text(
            (MARGIN_PX, top + number * line), _shorten(text, font_px, width), INK, _font(font_px)
        )
    for number, samples in enumerate(legends, 1 + len(words)):
        _draw_legend(picture, samples, colours, (MARGIN_PX, top + number * line), scale)
    picture.paste(world, (MARGIN_PX, head))
    return picture


def samples_of(drawing: Drawing, width: int) -> list[list[Sample]]:
    """Return the legend of a drawing, its colours and their roles, as lines of samples.

    Args:
        drawing: drawing of the episode.
        width: width of a line, in pixels.
    """
    samples = [Sample(role, (Box(6, 6.5, 12, 12, role=role),)) for role in drawing.colours]
    return _break_lines(samples, [_width_of(sample) for sample in samples], GAP_PX, width)


def _break_lines(
    items: Sequence[Item], widths: Sequence[float], gap: float, width: float
) -> list[list[Item]]:
    """Return items as lines in which they fit next to each other, with gaps between."""
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
    """Return a grid of moments, each under its step and numbers, with one title and legend."""
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
    draw.text((MARGIN_PX, MARGIN_PX), _shorten(title, TITLE_PX, width), INK, _font(TITLE_PX))
    for line, samples in enumerate(legends, 1):
        _draw_legend(sheet, samples, drawing.colours, (MARGIN_PX, MARGIN_PX + line * LINE_PX))
    for number, moment in enumerate(moments):
        x, y = MARGIN_PX + number % across * (PANEL_PX + GAP_PX), head + number // across * row_px
        for line, text in enumerate(captions(drawing, moment, PANEL_PX)):
            draw.text(
                (x, y + line * LINE_PX), _shorten(text, FONT_PX, PANEL_PX), INK, _font(FONT_PX)
            )
        sheet.paste(world_of(drawing, moment, panel), (x, y + lines * LINE_PX))
    return sheet


def captions(drawing: Drawing, moment: Moment, width: int) -> list[str]:
    """Return step and numbers as lines of text, equally many for every moment of an episode.

    Args:
        drawing: drawing of the episode.
        moment: the moment to describe.
        width: width of a line, in pixels.
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
        GAP.join(line) for line in _break_lines(texts, widths, _font(FONT_PX).getlength(GAP), width)
    ]


def digits_of(step_s: float) -> int:
    """Return the number of decimals that are needed to tell the times of steps apart.

    >>> digits_of(0.1), digits_of(0.02), digits_of(1.0)
    (1, 2, 0)
    """
    return max(0, math.ceil(-math.log10(step_s) - 1e-6))


def scale_bar(left: float, bottom: float, width: float, px: float, unit: str = "m") -> list[Shape]:
    """Return a bar in the lower left corner, labelled with its length.

    The length is a round number, at most an eighth of the picture's width.

    Args:
        left: left edge of the view, in world units.
        bottom: lower edge of the view, in world units.
        width: width of the view, in world units.
        px: size of a pixel, in world units.
        unit: name of the world's unit.
    """
    power = 10.0 ** math.floor(math.log10(width / 8))
    length = power * next(part for part in (5, 2, 1) if part * power <= width / 8)
    x, y = left + 0.02 * width, bottom + 0.02 * width
    ends = [(x, y + 6 * px), (x, y), (x + length, y), (x + length, y + 6 * px)]
    bars = [Line(ends, wide * px, role=role) for wide, role in ((7.0, "paper"), (3.0, ""))]
    return [*bars, Text(x + length / 2, y + 16 * px, f"{length:g} {unit}")]


def world_of(drawing: Drawing, moment: Moment, size: tuple[int, int]) -> Image.Image:
    """Return a picture of the world without a header; `size` is in pixels."""
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
        left, bottom, width, px = brush.visible()
        for shape in scale_bar(left, bottom, width, px, drawing.unit):
            brush.paint(shape)
    return brush.image.reduce(FINER)


class _Brush:
    """A painter of shapes in world units; its pixels are those of the larger picture."""

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

    def visible(self) -> tuple[float, float, float, float]:
        """Return left, bottom and width of the visible world and the size of a pixel.

        All are in world units.
        """
        width = self.image.width / self._scale
        return (
            -self._left / self._scale,
            (self._bottom - self.image.height) / self._scale,
            width,
            FINER / self._scale,
        )

    def paint(self, shape: Shape) -> None:
        """Paint a shape; shapes that are painted later cover it."""
        colour = mix(self._colours.get(shape.role, INK), FADED if shape.faded else 1.0)
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
        """Paint a cross; `size` is the share of the full size and of the colour."""
        (x, y), unit = self._at((event.x, event.y)), size * FINER
        colour = mix(self._colours.get(event.role, INK), size)
        for arm, width, paint in (
            (8 * unit, round(6 * unit), PAPER),
            (7 * unit, round(3 * unit), colour),
        ):
            self._draw.line((x - arm, y - arm, x + arm, y + arm), paint, width)
            self._draw.line((x - arm, y + arm, x + arm, y - arm), paint, width)

    def paint_trail(self, shape: Shape, places: Sequence[Point]) -> None:
        """Paint a trail through the past positions of a shape; older parts are paler."""
        if all(place == places[0] for place in places):
            return
        points, colour = [self._at(place) for place in places], self._colours.get(shape.role, INK)
        quarter = max(1, math.ceil(shape.trail / len(TRAIL_SHADES)))
        for age, share in enumerate(reversed(TRAIL_SHADES)):
            end = len(points) - age * quarter
            part = points[max(0, end - quarter - 1) : max(0, end)]
            if len(part) > 1:
                self._draw.line(part, mix(colour, share), round(2.5 * FINER))

    def _look(self, shape: Shape, colour: str) -> dict[str, Any]:
        """Return fill and outline of a shape; filled shapes have a pale edge around them."""
        if shape.filled:
            return {"fill": colour, "outline": PAPER, "width": FINER // 2}
        return {"outline": colour, "width": round(1.2 * FINER)}

    def _at(self, point: Point) -> Point:
        """Return the pixel coordinates of a point of the world."""
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
    """Return the point ahead of the box's centre by `share` of the box's width."""
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
    """Draw as many samples as fit into one line."""
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
    """Return the width of a sample with its label, in pixels."""
    words: float = _font(round(scale * FONT_PX)).getlength(_label_of(sample, scale))
    return round(scale * sample.width) + round(5 * scale) + round(words)


def _label_of(sample: Sample, scale: float) -> str:
    return _shorten(sample.label, round(scale * FONT_PX), round(scale * WIDTH_PX / 3))


def _shorten(text: str, font_px: int, width: int) -> str:
    """Return a text that fits into one line; its middle is left out if it is too long."""
    text = " ".join(text.split())
    if _font(font_px).getlength(text) <= width:
        return text
    for length in range(len(text) // 2, 0, -1):
        short = f"{text[:length]}...{text[-length:]}"
        if _font(font_px).getlength(short) <= width:
            return short
    return "..."


@cache
def _font(size_px: int) -> Any:
    return ImageFont.load_default(size_px)


@cache
def mix(colour: str, share: float) -> str:
    """Return a colour mixed with that of paper; `share` is the share of the former."""
    parts = zip(ImageColor.getrgb(colour)[:3], ImageColor.getrgb(PAPER)[:3], strict=True)
    return "#" + "".join(f"{round(share * own + (1 - share) * paper):02x}" for own, paper in parts)
