# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Runs a golden case and turns all that it shows into hashes; compares hashes and says where the
first difference is.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from puffervec.core.slab import RECORD_DTYPE
from puffervec.core.spec import GroupSpec
from puffervec.vec.vector_env import VectorEnv
from tests.golden.cases import HERE, Case
from tests.helpers import WRITTEN, actions_of, raw_rows

HASHES = HERE / "hashes.json"
CHECKPOINTS = (1, 10, 50, 100, 200, 400, 1000, 2000, 4000, 7000, 10_000)
WILD = np.array([-1, 1000, -(2**31), 2**31 - 1], np.int32)
WILD_REALS = np.array([np.nan, np.inf, -np.inf, 1e-40], np.float32)

Shown = dict[str, list[str]]


def run_name(case: Case, seed: int) -> str:
    """Return the key of a run in the file."""
    return f"{case.name}, seed {seed}"


def load() -> dict[str, Any]:
    """Return the committed file: {"log": [...], "runs": {name: {array: [hash per checkpoint]}}}."""
    found: dict[str, Any] = json.loads(HASHES.read_text())
    return found


# ---- actions: independent of NumPy's random streams, which may change from version to version ----


def _mixed(counter: np.ndarray) -> np.ndarray:
    """Return 64 random bits per counter. Source: Vigna, splitmix64.c."""
    z = counter * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def _drawn(group: GroupSpec, steps: int, rows: int, key: int) -> np.ndarray:
    """Return (steps, rows, D) actions; about one in 64 is out of range or no number."""
    dims = group.action_dims
    bits = _mixed(
        np.arange(1, steps * rows * dims + 1, dtype=np.uint64) + np.uint64(key << 40)
    ).reshape(steps, rows, dims)
    wild, which = (bits >> np.uint64(58)) == 0, (bits & np.uint64(3)).astype(np.intp)
    if group.action_kind == "continuous":
        share = (bits >> np.uint64(8) & np.uint64(0xFFFFFF)).astype(np.float32) * np.float32(
            2.0**-23
        )
        return np.where(wild, WILD_REALS[which], share - np.float32(1.0))
    chosen = (bits >> np.uint64(8) & np.uint64(0xFFFFFFFF)) % np.array(
        group.action_sizes, np.uint64
    )
    return np.where(wild, WILD[which], chosen.astype(np.int32))


def actions(vec: VectorEnv, steps: int, seed: int) -> dict[str, np.ndarray]:
    """Return {group: (steps, rows of all envs, D) int32 or float32}."""
    return {
        g.name: _drawn(g, steps, vec.num_envs * g.agents, 16 * seed + i)
        for i, g in enumerate(vec.spec.groups)
    }


# ---- running -------------------------------------------------------------------------------------


class Hashes:
    """Running hashes of each array, per half of the envs (also where the vec env has one buffer)
    and of the records.
    """

    def __init__(self, vec: VectorEnv) -> None:
        self._vec = vec
        self._parts: dict[str, list[Any]] = {}
        self._views: list[list[tuple[Any, np.ndarray]]] = [
            list(self._of_half(half)) for half in range(vec.num_buffers)
        ]
        self._records: list[bytes] = []
        self._values = max(
            16, len(vec.spec.record_names)
        )  # a record had room for 16 when the first hashes were taken

    def _of_half(self, half: int) -> Iterator[tuple[Any, np.ndarray]]:
        for group in self._vec.spec.groups:
            for array in WRITTEN:
                if (group.name, array) not in self._vec.halves[half].offsets:
                    continue
                rows = raw_rows(self._vec, half, array, group.name)
                for part in np.split(rows, 2 // self._vec.num_buffers):
                    digests = self._parts.setdefault(f"{group.name}.{array}", [])
                    digests.append(hashlib.sha256())
                    yield digests[-1], part

    def add(self, infos: Any) -> None:
        """Take in the half last received."""
        for digest, view in self._views[self._vec.half]:
            digest.update(view)
        if infos:
            behind = RECORD_DTYPE["values"].shape[0] - self._values
            self._records += [record.tobytes()[: -4 * behind or None] for record in infos.episodes]

    def now(self) -> dict[str, str]:
        """Return {array: 16 hex digits over all that was shown so far}; records in an order that no
        way of running changes.
        """
        found = {
            name: b"".join(part.digest() for part in parts) for name, parts in self._parts.items()
        }
        found["records"] = b"".join(sorted(self._records))
        return {name: hashlib.sha256(data).hexdigest()[:16] for name, data in found.items()}


def run(
    vec: VectorEnv, case: Case, seed: int, steps: int, table: dict[str, np.ndarray] | None = None
) -> Shown:
    """Step `vec` from a seeded reset and return {array: [hash at each checkpoint up to `steps`]}.
    table: other actions.
    """
    table, hashes = table or actions(vec, steps, seed), Hashes(vec)
    shown: Shown = {}
    vec.async_reset(seed)
    for _ in range(vec.num_buffers):
        hashes.add(vec.recv()[4])
        _restart_done(vec, case, hashes)
    for step in range(steps):
        # All halves are held here; a half is sent before the next is received, so that two buffers
        # overlap.
        for half in range(vec.num_buffers):
            vec.send(actions_of(vec, table, step, half))
        for _ in range(vec.num_buffers):
            hashes.add(vec.recv()[4])
            _restart_done(vec, case, hashes)
        if step + 1 in CHECKPOINTS:
            for name, value in hashes.now().items():
                shown.setdefault(name, []).append(value)
    return shown


def _restart_done(vec: VectorEnv, case: Case, hashes: Hashes) -> None:
    """Without autoreset: reset the envs that are over."""
    if case.autoreset != "disabled":
        return
    over = np.ones(vec.num_envs, np.bool_)
    for rows in vec.halves[0].groups.values():
        over &= ~(rows.masks & ~rows.terminals & ~rows.truncations).reshape(vec.num_envs, -1).any(
            axis=1
        )
    if over.any():
        vec.async_reset(mask=over)
        hashes.add(vec.recv()[4])


# ---- comparing -----------------------------------------------------------------------------------


def difference(name: str, expected: Shown, found: Shown, build: str, way: str) -> str | None:
    """Return what differs first, in words, or None. Step 0 is the reset."""
    if set(expected) != set(found):
        return (
            f"{name}: arrays {sorted(found)} were shown and {sorted(expected)} are on record "
            f"({build}; {way})"
        )
    first: dict[int, list[str]] = {}
    for array, values in found.items():
        for at, (mine, its) in enumerate(zip(values, expected[array], strict=False)):
            if mine != its:
                first.setdefault(at, []).append(array)
                break
    if not first:
        return None
    at = min(first)
    begin = CHECKPOINTS[at - 1] + 1 if at else 0
    return (
        f"{name}: {', '.join(sorted(first[at]))} differ(s) from the golden hashes between step "
        f"{begin} and {CHECKPOINTS[at]} ({build}; {way}). If that was meant: "
        'make golden REASON="why"'
    )


def write(path: Path, log: list[dict[str, Any]], runs: dict[str, Shown]) -> None:
    """Write the file, one array per line, so that a diff shows what changed."""
    lines = [
        '{\n "log": [\n'
        + ",\n".join("  " + json.dumps(entry) for entry in log)
        + '\n ],\n "runs": {\n'
    ]
    blocks = []
    for name, arrays in runs.items():
        rows = ",\n".join(
            f"   {json.dumps(array)}: {json.dumps(values)}" for array, values in arrays.items()
        )
        blocks.append(f"  {json.dumps(name)}: {{\n{rows}\n  }}")
    path.write_text("".join(lines) + ",\n".join(blocks) + "\n }\n}\n")
