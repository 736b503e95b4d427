# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Packs an episode into the bytes that the page plays (static/scene.js). Runs in the learner."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from puffervec.contract.drawing import Drawing, Event
from puffervec.viewing.web.columns import Stream, exponent_of, put_column
from puffervec.viewing.web.pictures import MOST_BYTES
from puffervec.viewing.web.record import Played
from puffervec.viewing.web.shapes import Looks, put_still, things_of

FIRST = ("reward", "value")  # The first series of each agent.


@dataclass(frozen=True)
class Replay:
    """An episode, packed for a page.

    Attributes:
        title: title of the scene.
        steps: steps of the episode.
        agents: number of agents that took part.
        data: the packed data that the page plays.
        score: score of the episode; None if it is unknown.
        measure: the name of the score.
        events: number of events by role.
        pictures: see `Pictures.to_json`.
    """

    title: str
    steps: int
    agents: int
    data: bytes
    score: float | None = None
    measure: str = "score"
    events: Mapping[str, int] = field(default_factory=dict)
    pictures: Mapping[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the replay in the form that static/replay.js reads."""
        return {
            "title": self.title,
            "steps": self.steps,
            "agents": self.agents,
            "score": self.score,
            "measure": self.measure,
            "events": dict(self.events),
            "data": base64.b64encode(self.data).decode(),
            "pictures": self.pictures,
        }


def replay_of(
    played: Played,
    *,
    title: str = "",
    score: float | None = None,
    measure: str = "score",
    picture_bytes: int = MOST_BYTES,
) -> Replay:
    """Pack an episode.

    Args:
        played: the recording.
        title: title of the scene; "" for the drawing's own.
        score: score of the episode; None for the mean return of its agents.
        measure: the name of the score.
        picture_bytes: limit on the bytes of the pictures that agents observe.
    """
    if score is None:
        score, measure = played.episode_return, "return"
    drawing, moments = played.episode.drawing, played.moments
    events = Counter(event.role or "event" for _, event in moments[-1].events)
    agents = int(np.isfinite(played.series["reward"]).any(axis=0).sum())
    name = title or drawing.title
    pictures = played.pictures.to_json(played.worst_first(), picture_bytes)
    return Replay(name, len(moments) - 1, agents, pack(played), score, measure, events, pictures)


def pack(played: Played) -> bytes:
    """Return zlib data: a head as JSON and a stream of numbers, in the order of the calls below."""
    drawing, moments, looks, place = (
        played.episode.drawing,
        played.moments,
        played.looks,
        played.place,
    )
    stream, count = Stream(), len(moments)
    still = put_still(stream, looks, drawing.still, place)
    things = [thing.put(stream, count, place) for thing in things_of(moments, looks)]
    worst_first = played.worst_first()
    rows = sorted(worst_first)
    head = {
        "view": list(drawing.view),
        "fps": drawing.fps,
        **clock_and_scale(drawing),
        "count": count,
        "place": place,
        "still": still,
        "things": things,
        "agents": [
            {"row": row, "name": drawing.agents[row] if row < len(drawing.agents) else ""}
            for row in rows
        ],
        "first": _first(played.episode.drawing, worst_first, things),
        "series": _put_series(stream, played, rows),
        "numbers": _put_numbers(stream, played),
        "seen": played.seen.put(stream, count, worst_first),
        "events": [event_of(step, event, looks) for step, event in moments[-1].events],
    }
    head["roles"] = [[role, looks.colours.get(role, "")] for role in looks.roles]
    head["styles"] = [list(style) for style in looks.styles]
    return stream.pack(head)


def clock_and_scale(drawing: Drawing) -> dict[str, Any]:
    """Return the page's settings of time and lengths."""
    return {"step_s": drawing.step_s, "unit": drawing.unit, "close": drawing.close}


def event_of(step: int, event: Event, looks: Looks) -> list[Any]:
    """Return an event as static/scene.js reads it."""
    words = event.of, event.did, event.other, event.how
    return [step, looks.role(event.role), float(event.x), float(event.y), *words]


def _first(
    drawing: Drawing, worst_first: Sequence[int], things: Sequence[Mapping[str, Any]]
) -> int | None:
    """Return the row that the page opens with: the drawn agent with the lowest return."""
    drawn, names = {thing.get("name") for thing in things}, drawing.agents
    return next((row for row in worst_first if row < len(names) and names[row] in drawn), None)


def _put_series(stream: Stream, played: Played, rows: list[int]) -> list[dict[str, Any]]:
    names = sorted(
        played.series, key=lambda name: FIRST.index(name) if name in FIRST else len(FIRST)
    )
    listed = []
    for name in names:
        table = played.series[name][:, rows]
        most = float(np.nanmax(np.abs(table), initial=0.0))
        exponent = exponent_of(most)
        words = played.episode.drawing.words.get(name)
        columns = [put_column(stream, column, exponent) for column in table.T]
        listed.append(
            {
                "name": name,
                "e": exponent,
                "rows": columns,
                **({"words": list(words)} if words else {}),
            }
        )
    return listed


def _put_numbers(stream: Stream, played: Played) -> list[dict[str, Any]]:
    wholes, listed = played.episode.drawing.wholes, []
    for name in played.moments[0].numbers:
        values = np.array([moment.numbers[name] for moment in played.moments])
        exponent = exponent_of(float(np.abs(values).max()))
        listed.append(
            {
                "name": name,
                "e": exponent,
                "whole": wholes.get(name),
                "column": put_column(stream, values, exponent),
            }
        )
    return listed
