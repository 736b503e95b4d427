# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The training settings, metrics and search ranges that suit an env.

The trainer reads them. Imports nothing of puffervec.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

RETURN = "episode/return"


@dataclass(frozen=True)
class Training:
    """The training defaults of an env.

    Attributes:
        preset: settings by table and key, as in a `--config` file, used where the user sets
            nothing. Empty: the settings for unknown envs.
        metric: the metric that measures how good a run is.
        rates: for envs whose episode records stand for several agents and hold sums over them: name
            in the log -> name of the summed value. It is logged per agent, divided by the value
            `agents`, the number of agents of the record; "sum/count" divides by another value.
        more_rates: the same, for values that only some settings produce.
        meanings: the meaning of each of these numbers, by its name in the log, in a few words.
        search: additional settings that `puffer-train sweep` searches, by name: "LOW:HIGH",
            "LOW:HIGH:log" or "ONE/TWO/...".
        warpdrive: names in WarpDrive's run configs that mean this env, each with the settings that
            the name implies.
        notes: what a user should know before a run, such as settings that have no effect, a line
            each; shown by `--help`, and counted at the start of a run.
        solved_after: number of agent-steps after which the preset was observed to do well, for an
            estimate of the time; 0: unknown.
    """

    preset: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    metric: str = RETURN
    rates: Mapping[str, str] = field(default_factory=dict)
    more_rates: Mapping[str, str] = field(default_factory=dict)
    search: Mapping[str, str] = field(default_factory=dict)
    warpdrive: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    solved_after: int = 0
    notes: tuple[str, ...] = ()
    meanings: Mapping[str, str] = field(default_factory=dict)
