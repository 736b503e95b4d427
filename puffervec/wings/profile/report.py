# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Reports of profiles: JSON files with which later reports are compared."""

from __future__ import annotations

import dataclasses
import json
import math
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from puffervec.commands.outputs import save_output
from puffervec.errors import ConfigError
from puffervec.wings.profile.counts import Counts
from puffervec.wings.profile.sweep import Sweep
from puffervec.wings.profile.timing import Latency, table

FORMAT = "puffervec profile 1"
MOST_BYTES = 1 << 28


@dataclasses.dataclass(frozen=True)
class Report:
    """The results of a profile.

    Attributes:
        about: facts about target and machine: text and numbers by name.
        latencies: latencies of calls or phases.
        sweep: the sweep; None if there was none.
    """

    about: Mapping[str, Any]
    latencies: tuple[Latency, ...] = ()
    sweep: Sweep | None = None

    def __str__(self) -> str:
        """Return the report as readable tables."""
        parts = [table(self.latencies)] if self.latencies else []
        return "\n".join([*parts, *([str(self.sweep)] if self.sweep is not None else [])])

    def save(self, path: str | Path) -> None:
        """Write the file. Raises: ConfigError: it cannot be written."""
        tables = {
            "format": FORMAT,
            "about": dict(self.about),
            "latencies": [_as_table(one) for one in self.latencies],
            "sweep": self._sweep_table(),
        }
        save_output(Path(path), json.dumps(tables, indent=1).encode())

    def _sweep_table(self) -> dict[str, Any] | None:
        if self.sweep is None:
            return None
        points = [_as_table(point) for point in self.sweep.points]
        fit = dataclasses.asdict(self.sweep.fit)
        return {
            "knob": self.sweep.knob,
            "values": list(self.sweep.values),
            "points": points,
            "fit": fit,
        }


def about(device: torch.device, **facts: Any) -> dict[str, Any]:
    """Return facts together with those of the machine."""
    name = (
        torch.cuda.get_device_name(device)
        if device.type == "cuda"
        else platform.processor() or platform.machine()
    )
    return {
        **facts,
        "device": str(device),
        "device_name": name,
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
    }


def _as_table(one: Latency) -> dict[str, Any]:
    # The statistics are for people who read the file; `read_report` computes them again.
    return {**dataclasses.asdict(one), "stats_ms": one.stats()}


def read_report(path: str | Path) -> Report:
    """Read a file that `Report.save` wrote.

    Raises:
        ConfigError: the file does not exist, or is something else.
    """
    try:
        with Path(path).open("rb") as file:
            data = file.read(MOST_BYTES + 1)
        tables = json.loads(data)
        if not isinstance(tables, dict) or tables.get("format") != FORMAT:
            raise ValueError(f"its format is not {FORMAT!r}")
        latencies = tuple(_latency(one) for one in tables["latencies"])
        table = tables["sweep"]
        points = None if table is None else tuple(_latency(one) for one in table["points"])
        sweep = (
            None
            if points is None
            else Sweep(str(table["knob"]), tuple(map(int, table["values"])), points)
        )
        if sweep is not None and (
            len(sweep.values) != len(sweep.points) or not math.isfinite(sweep.fit.b)
        ):
            raise ValueError("the sweep's values do not match its points")
        return Report(dict(tables["about"]), latencies, sweep)
    except OSError as error:
        raise ConfigError(
            f"{path}: {error.strerror}: give a file that puffer-train profile --json wrote"
        ) from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise ConfigError(
            f"{path} is not a report of puffer-train profile --json: {reason}"
        ) from error


def _latency(one: Mapping[str, Any]) -> Latency:
    def floats(key: str) -> tuple[float, ...] | None:
        return None if one[key] is None else tuple(map(float, one[key]))

    wall, counts, per = floats("wall"), one["counts"], one["per_iteration"]
    if not wall:
        raise ValueError(f"{one['name']!r} has no times")
    counts_or_none = None if counts is None else Counts(**counts)
    return Latency(
        str(one["name"]),
        wall,
        floats("device"),
        counts_or_none,
        floats("actions"),
        None if per is None else float(per),
    )
