# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Comparison of two reports: times, launches, copies, synchronisations and actions."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping

import numpy as np

from puffervec.errors import ConfigError
from puffervec.system.output import table_lines
from puffervec.wings.profile.counts import KINDS
from puffervec.wings.profile.report import Report
from puffervec.wings.profile.sweep import Sweep
from puffervec.wings.profile.timing import Latency

TIMES = {"median": "p50", "p95": "p95", "p99": "p99"}
LINE = ("a", "b")
ACTIONS = "actions"
# The figures that may have a limit, and the unit of the limit.
LIMITS = {
    **dict.fromkeys((*LINE, *TIMES), "percent of growth"),
    **dict.fromkeys(KINDS, "more per call"),
    ACTIONS: "largest difference",
}
_SAME = ("device_name", "torch", "seed", "batch")  # Facts that should not differ.


@dataclasses.dataclass(frozen=True)
class Change:
    """A figure before and after. key: its key in LIMITS; what: its display name."""

    key: str
    what: str
    before: float
    after: float

    @property
    def percent(self) -> float:
        """The growth in percent; NaN if both are 0."""
        if self.before == 0:
            return math.nan if self.after == 0 else math.copysign(math.inf, self.after)
        return 100 * (self.after - self.before) / abs(self.before)

    @property
    def measured(self) -> float:
        """The value that a limit is compared with."""
        if self.key == ACTIONS:
            return self.after
        return self.after - self.before if self.key in KINDS else self.percent


@dataclasses.dataclass(frozen=True)
class Comparison:
    """All changes, and remarks about the comparison."""

    changes: tuple[Change, ...]
    remarks: tuple[str, ...]

    def __str__(self) -> str:
        """Return a table and the remarks."""
        rows: list[tuple[str, ...]] = [("", "before", "after", "change")]
        for change in self.changes:
            if change.key == ACTIONS:
                rows.append((change.what, "", "", f"{change.after:.3g}"))
                continue
            digits = "g" if change.key in KINDS else ".4f"
            growth = "" if math.isnan(change.percent) else f"{change.percent:+.1f} %"
            rows.append(
                (change.what, format(change.before, digits), format(change.after, digits), growth)
            )
        return "\n".join([*table_lines(rows), *(f"  note: {remark}" for remark in self.remarks)])

    def above(self, limits: Mapping[str, float]) -> list[str]:
        """Return a sentence for each figure that exceeds its limit.

        Args:
            limits: limits by key of LIMITS.

        Raises:
            ConfigError: the reports lack a figure, so its limit could never be exceeded.
        """
        sentences = []
        for key, limit in limits.items():
            changes = [change for change in self.changes if change.key == key]
            if not changes:
                known = ", ".join(dict.fromkeys(change.key for change in self.changes))
                raise ConfigError(
                    f"--limit {key}: the two reports do not both have it; both have {known}"
                )
            for change in changes:
                if not change.measured <= limit and not (
                    math.isnan(change.measured) and limit >= 0
                ):
                    sentences.append(
                        f"{change.what}: {change.measured:.3g} {LIMITS[key]}, the limit is "
                        f"{limit:g}"
                    )
        return sentences


def compare(before: Report, after: Report) -> Comparison:
    """Compare two reports of the same target.

    Raises:
        ConfigError: the reports have nothing in common.
    """
    changes, remarks = _line(before.sweep, after.sweep), _remarks(before, after)
    pairs = _pairs(before, after)
    for one, other in pairs:
        changes += _changes(one, other, one.name if len(pairs) > 1 else "")
    if not changes:
        raise ConfigError("the two reports have no call, phase or sweep in common")
    if not any(change.key == ACTIONS for change in changes):
        remarks.append("the actions are not compared: one of the reports has none")
    return Comparison(tuple(changes), tuple(remarks))


def _line(before: Sweep | None, after: Sweep | None) -> list[Change]:
    """Return the changes of a sweep's line, and the largest difference of actions at its points."""
    if before is None or after is None or before.knob != after.knob:
        return []
    knob, old, new = before.knob, before.fit, after.fit
    changes = [
        Change("a", "a, fixed, ms", old.a, new.a),
        Change("b", f"b, per {knob}, ms", old.b, new.b),
    ]
    points = {one.name: one.actions for one in after.points}
    pairs = [(one.actions, points.get(one.name)) for one in before.points]
    apart = [
        difference(one, other) for one, other in pairs if one is not None and other is not None
    ]
    return [
        *changes,
        *(
            [Change(ACTIONS, f"largest difference of the actions, any {knob}", 0.0, max(apart))]
            if apart
            else []
        ),
    ]


def _pairs(before: Report, after: Report) -> list[tuple[Latency, Latency]]:
    """Pair latencies of equal names; if both reports have only one, pair them in any case."""
    if len(before.latencies) == len(after.latencies) == 1:
        return [(before.latencies[0], after.latencies[0])]
    by_name = {one.name: one for one in after.latencies}
    return [(one, by_name[one.name]) for one in before.latencies if one.name in by_name]


def _changes(one: Latency, other: Latency, name: str) -> list[Change]:
    prefix = f"{name} " if name else ""
    clock = "device" if one.device and other.device else "wall"
    old, new = one.stats()[clock], other.stats()[clock]
    changes = [
        Change(key, f"{prefix}{key}, {clock} ms", old[column], new[column])
        for key, column in TIMES.items()
    ]
    if (
        one.counts is not None
        and other.counts is not None
        and one.counts.source == other.counts.source
    ):
        for kind in KINDS:
            changes.append(
                Change(kind, prefix + kind, getattr(one.counts, kind), getattr(other.counts, kind))
            )
    if one.actions is not None and other.actions is not None:
        changes.append(
            Change(
                ACTIONS,
                f"{prefix}largest difference of the actions",
                0.0,
                difference(one.actions, other.actions),
            )
        )
    return changes


def difference(before: tuple[float, ...], after: tuple[float, ...]) -> float:
    """Return the largest absolute difference.

    It is infinite if the lengths differ, or if only one of two numbers is NaN.

    >>> difference((1.0, 2.0), (1.0, 2.5)), difference((1.0,), ())
    (0.5, inf)
    """
    if len(before) != len(after):
        return math.inf
    old, new = np.asarray(before), np.asarray(after)
    same = (old == new) | (np.isnan(old) & np.isnan(new))
    with np.errstate(invalid="ignore"):
        apart = np.where(same, 0.0, np.abs(old - new))
    return float(np.nan_to_num(apart, nan=math.inf, posinf=math.inf).max(initial=0.0))


def _remarks(before: Report, after: Report) -> list[str]:
    return [
        f"{key} differs: {before.about.get(key)} before, {after.about.get(key)} after"
        for key in _SAME
        if before.about.get(key) != after.about.get(key)
    ]
