# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Finds what happens to agents in a step: contacts, departures from the road, goals, red lights.

A contact is one event for both parties. Runs in the learner, on two readable states. The env counts
the contacts of each agent; the other party follows from the boxes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drive_env.drawing.objects import Objects
from drive_env.evaluate.contacts import STANDS_MPS, Body, angle_of
from puffervec.contract.drawing import Event, State

# An event begins when a count grows or, where the settings count nothing, a flag rises; the third
# column is the verb.
BEGINS = {
    "off-road": ("departures", "offroad", "left the road"),
    "at goal": ("goal_step", "reached", "arrived"),
    "ran a red light": ("red_lights", None, "ran a red light"),
}
NEAR_M = 0.02  # the env computes in float32, where boxes this close may touch


@dataclass(frozen=True)
class Party:
    """A body in a step.

    Attributes:
        before, now: its boxes before and after the step; before is None if it was not present.
        row: the row of an agent, None for other bodies.
    """

    name: str
    number: int
    before: Body | None
    now: Body
    row: int | None = None

    @property
    def was(self) -> Body:
        """Return the box before the step with the speed after it, as the env records a contact."""
        return self.before or self.now


class Events:
    """Finds the events of an episode.

    Args:
        rows, agents: rows of the agents, and the objects that they move.
    """

    def __init__(
        self, objects: Objects, rows: NDArray[Any], agents: NDArray[np.int64], dt_s: float
    ) -> None:
        self._objects, self._dt_s = objects, dt_s
        self._rows = dict(zip(rows.tolist(), agents.tolist(), strict=True))

    def of(self, state: State, before: State | None) -> Iterator[Event]:
        """Yield the events that begin in the step between two states.

        Args:
            before: None at the start, where nothing has happened yet.
        """
        if before is None:
            return
        yield from self._contacts(state, before)
        for role, (count, flag, verb) in BEGINS.items():
            key = count if count in state else flag
            if key is None or key not in state:
                continue
            for row, number in self._rows.items():
                if state[key][row] > before[key][row]:
                    at = float(state["x"][row]), float(state["y"][row])
                    yield Event(*at, role=role, of=self._objects.names[number], did=verb)

    def _contacts(self, state: State, before: State) -> Iterator[Event]:
        key = "contacts" if "contacts" in state else "collided"
        begun = {row: int(state[key][row]) - int(before[key][row]) for row in self._rows}
        begun = {row: count for row, count in begun.items() if count > 0}
        if not begun:
            return
        parties = {party.number: party for party in self._parties(state, before)}
        pairs: dict[frozenset[int], None] = {}
        for row, count in begun.items():
            own = parties[self._rows[row]]
            found = self._new_contacts(own, count, parties, _first_object(state, before, row))
            pairs |= dict.fromkeys(
                frozenset((own.number, other)) for other in found or [own.number]
            )
        faults = {
            self._rows[row]: _fault(state, before, row, count) for row, count in begun.items()
        }
        for pair in pairs:
            yield _collision(
                [parties[number] for number in sorted(pair, key=lambda n: parties[n].row is None)],
                faults,
            )

    def _parties(self, state: State, before: State) -> Iterator[Party]:
        """Yield the bodies that are present after a step, and the agents that took part in it."""
        for row, number in self._rows.items():
            if before["active"][row]:
                size = float(state["length"][row]), float(state["width"][row])
                speed = float(state["speed"][row])
                was, now = (
                    _body([float(one[key][row]) for key in ("x", "y", "heading")], speed, size)
                    for one in (before, state)
                )
                yield Party(self._objects.names[number], number, was, now, row)
        old = {number: pose for number, *pose in self._objects.others(before)}
        for number, *pose in self._objects.others(state):
            item = self._objects.records[number]
            size = float(item["length_m"]), float(item["width_m"])
            gone = old.get(number)
            speed = _advance_m(gone, pose) / self._dt_s if gone else 0.0
            box = _body(gone, speed, size) if gone else None
            yield Party(self._objects.names[number], number, box, _body(pose, speed, size))

    @staticmethod
    def _new_contacts(
        own: Party, count: int, parties: Mapping[int, Party], first: int | None
    ) -> list[int]:
        """Return the numbers of the objects that an agent begins to touch in this step.

        Args:
            count: how many contacts begin, according to the env.
            first: the object of the agent's first contact; None where the env does not record it.
        """
        gaps = []
        for number, other in parties.items():
            if number == own.number or gap_m(own.now, other.now) > NEAR_M:
                continue
            touched = (
                own.before is not None
                and other.before is not None
                and gap_m(own.before, other.before) < -NEAR_M
            )
            gaps.append((number != first, touched, gap_m(own.now, other.now), number))
        return [number for *_, number in sorted(gaps)[:count]]


def gap_m(a: Body, b: Body) -> float:
    """Return the gap between two boxes along the side that separates them most, in m.

    It is negative where they overlap.

    >>> gap_m(Body(0, 0, 0, 0, 4, 2), Body(5, 0, 0, 0, 4, 2))
    1.0
    """
    return max(_apart(a, b), _apart(b, a))


def _apart(a: Body, b: Body) -> float:
    c, s, turn = math.cos(a.heading), math.sin(a.heading), b.heading - a.heading
    dx, dy = b.x - a.x, b.y - a.y
    ct, st = abs(math.cos(turn)), abs(math.sin(turn))
    along = abs(dx * c + dy * s) - (a.length + b.length * ct + b.width * st) / 2
    across = abs(dy * c - dx * s) - (a.width + b.length * st + b.width * ct) / 2
    return max(along, across)


def _body(pose: Sequence[float], speed: float, size: tuple[float, float]) -> Body:
    """Return a body for contacts.py, headed in the direction in which it moves."""
    x, y, heading = pose
    return Body(x, y, heading + math.pi * (speed < -STANDS_MPS), abs(speed), *size)


def _advance_m(was: Sequence[float], now: Sequence[float]) -> float:
    """Return the distance that a body moved along its heading, in m."""
    return (now[0] - was[0]) * math.cos(now[2]) + (now[1] - was[1]) * math.sin(now[2])


def _first_object(state: State, before: State, row: int) -> int | None:
    """Return the object of an agent's first contact.

    Returns None if that contact is not in this step, or the env does not record it.
    """
    if (
        "contact_object" not in state
        or before["contact_object"][row]
        or not state["contact_object"][row]
    ):
        return None
    return int(state["contact_object"][row]) - 1


def _fault(state: State, before: State, row: int, count: int) -> bool | None:
    """Return whether an agent is at fault in the contacts of a step; None if unknown."""
    if "faults" not in state:
        return None
    faults = int(state["faults"][row]) - int(before["faults"][row])
    return {0: False, count: True}.get(faults)


def _collision(pair: list[Party], faults: Mapping[int, bool | None]) -> Event:
    """Return the event of one or two parties, the first of which is an agent."""
    if len(pair) == 1:
        return Event(
            pair[0].now.x, pair[0].now.y, role="collision", of=pair[0].name, did="collided"
        )
    angle = angle_of(pair[0].was, pair[1].was)
    if angle == "rear-ended" or (
        angle != "rear-end" and faults.get(pair[1].number) and not faults.get(pair[0].number)
    ):
        pair, angle = pair[::-1], angle.removesuffix("ed")
    own, other = pair
    known = {party.name: faults.get(party.number) for party in pair if party.row is not None}
    how = ", ".join(filter(None, (angle, _blame(known))))
    at = (own.now.x + other.now.x) / 2, (own.now.y + other.now.y) / 2
    return Event(*at, role="collision", of=own.name, did="hit", other=other.name, how=how)


def _blame(known: Mapping[str, bool | None]) -> str:
    """Return a text that tells which of two parties that are agents was at fault.

    >>> _blame({"car 1": True, "car 2": False}), _blame({"car 1": False}), _blame({"car 1": None})
    ('car 1 at fault', 'car 1 not at fault', '')
    """
    if None in known.values():
        return ""
    guilty = [name for name, fault in known.items() if fault]
    if len(guilty) == 2:
        return "both at fault"
    if guilty:
        return f"{guilty[0]} at fault"
    return "neither at fault" if len(known) == 2 else f"{next(iter(known))} not at fault"
