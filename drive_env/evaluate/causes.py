# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Counts agents by the cause of their failure, from the rows of agents (failures.py).

Runs in the learner.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from drive_env.evaluate.intervals import cluster_interval
from drive_env.scenes.schema import Floats
from puffervec.contract.evaluation import Cell, Interval, Row

GROUPED = ("other", "driver", "angle", "rule")


def causes_of(agents: Sequence[Row]) -> list[Row]:
    """Return a row per cause, the most frequent first, and one for all failures.

    A row has the number of agents, their share with its 95 % interval, and how many were at fault.

    Args:
        agents: a row per agent and episode, with the cause of its failure or None.
    """
    return _shares(agents, [row for row in agents if row["cause"]], ("cause",))


def contacts_of(agents: Sequence[Row]) -> list[Row]:
    """Return a row per kind of collision, the most frequent first, and one for all collisions.

    A kind is a combination of the other object, its driver, the angle, and the rule.
    """
    return _shares(agents, [row for row in agents if row["cause"] == "collision"], GROUPED)


def _shares(agents: Sequence[Row], failed: Sequence[Row], by: Sequence[str]) -> list[Row]:
    if not failed:
        return []
    places = [
        {key: at for at, key in enumerate(dict.fromkeys(row[name] for row in agents))}
        for name in ("seed", "scene")
    ]

    def count_cells(own: Sequence[Row]) -> Floats:
        cells = np.zeros([len(of) for of in places])
        for row in own:
            cells[places[0][row["seed"]], places[1][row["scene"]]] += 1
        return cells

    counts = count_cells(agents)

    def line(named: dict[str, Cell], own: Sequence[Row]) -> Row:
        share = Interval(len(own) / len(agents), *cluster_interval(count_cells(own), counts))
        return {
            **named,
            "agents": len(own),
            "share": share,
            "at_fault": sum(row["at_fault"] == 1 for row in own),
        }

    keys = [tuple(row[name] for name in by) for row in failed]
    ranked = [key for key, _ in Counter(keys).most_common()]
    lines = []
    for key in ranked:
        rows = [row for row, at in zip(failed, keys, strict=True) if at == key]
        lines.append(line(dict(zip(by, key, strict=True)), rows))
    return [*lines, line({**dict.fromkeys(by), by[0]: "any"}, failed)]
