# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""How many agents failed by which cause: tables made of the lines of agents (failures.py). Runs in
the learner.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from drive_env.evaluate.intervals import clustered
from drive_env.scenes.schema import Floats
from puffervec.contract.evaluation import Cell, Interval, Row

GROUPED = ("other", "driver", "angle", "rule")


def causes_of(agents: Sequence[Row]) -> list[Row]:
    """A line per cause, the most frequent first, and one for all: agents, their share with its 95 %
        interval, at fault.

    Args: agents: a line per agent and episode, with its cause, None where it did not fail.
    """
    return _shares(agents, [row for row in agents if row["cause"]], ("cause",))


def contacts_of(agents: Sequence[Row]) -> list[Row]:
    """A line per kind of collision: with whom, who moved it, at which angle, under which rule.
    Likewise.
    """
    return _shares(agents, [row for row in agents if row["cause"] == "collision"], GROUPED)


def _shares(agents: Sequence[Row], failed: Sequence[Row], by: Sequence[str]) -> list[Row]:
    if not failed:
        return []
    places = [
        {key: at for at, key in enumerate(dict.fromkeys(row[name] for row in agents))}
        for name in ("seed", "scene")
    ]

    def counted(own: Sequence[Row]) -> Floats:
        found = np.zeros([len(of) for of in places])
        for row in own:
            found[places[0][row["seed"]], places[1][row["scene"]]] += 1
        return found

    counts = counted(agents)

    def line(named: dict[str, Cell], own: Sequence[Row]) -> Row:
        share = Interval(len(own) / len(agents), *clustered(counted(own), counts))
        return {
            **named,
            "agents": len(own),
            "share": share,
            "at_fault": sum(row["at_fault"] == 1 for row in own),
        }

    keys = [tuple(row[name] for name in by) for row in failed]
    ranked = [key for key, _ in Counter(keys).most_common()]
    lines = [line(dict(zip(by, key, strict=True)), [row for row, at in zip(failed, keys, strict=True) if at == key])
             for key in ranked]  # fmt: skip
    return [*lines, line({**dict.fromkeys(by), by[0]: "any"}, failed)]
