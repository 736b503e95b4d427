# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Same seed, same bytes: 1,000 steps of all arrays, records and counters, whoever runs the envs and
in how many parts.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import puffervec
from tests.cases import CASES, Case, require
from tests.helpers import ManyInOne, action_table, run

ENVS, STEPS = 8, 1000

# In one process; with workers; the number of workers must be even where halves are split by
# workers.
THREADS: list[dict[str, Any]] = [
    *({"num_workers": workers} for workers in (1, 3)),
    *({"num_workers": workers, "num_buffers": 2, "split": "workers"} for workers in (2, 4)),
    *({"num_workers": workers, "num_buffers": 2, "split": "envs"} for workers in (1, 3, 4)),
]
PROCESSES = [
    {"num_workers": 3},
    *({"num_workers": 2, "num_buffers": 2, "split": split} for split in ("workers", "envs")),
]
WAYS: list[dict[str, Any]] = [
    {"backend": "serial", "num_buffers": 2, "split": "workers"},
    {"backend": "serial", "num_buffers": 2, "split": "envs"},
    {"backend": ManyInOne, "num_workers": 5},
    *({"backend": "threading", **layout} for layout in THREADS),
    {
        "backend": "multiprocessing",
        "num_workers": 2,
    },  # spawn, the default; forkserver starts faster
    *(
        {"backend": "multiprocessing", "start_method": "forkserver", **layout}
        for layout in PROCESSES
    ),
]


def name_of(way: dict[str, Any]) -> str:
    return " ".join(getattr(value, "__name__", str(value)) for value in way.values())


@cache
def expected(name: str) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The action table and what the serial backend shows; the oracle."""
    case = next(case for case in CASES if case.name == name)
    with puffervec.make(case.env, env_kwargs=case.kwargs, backend="serial", num_envs=ENVS) as vec:
        table = action_table(vec, STEPS, invalid=0.01)
        return table, run(vec, STEPS, table, seed=2026)


def pairs() -> list[Any]:
    """Every env in a way of its own; all pairs where slow tests run."""
    return [
        pytest.param(
            case,
            way,
            id=f"{case.name}-{name_of(way)}",
            marks=[pytest.mark.slow] if k != (3 + 5 * i) % len(WAYS) else [],
        )
        for i, case in enumerate(CASES)
        for k, way in enumerate(WAYS)
    ]


@pytest.mark.parametrize(("case", "way"), pairs())
def test_same_seed_same_bytes(case: Case, way: dict[str, Any], no_leaks: None) -> None:
    require(case)
    table, oracle = expected(case.name)
    with puffervec.make(case.env, env_kwargs=case.kwargs, num_envs=ENVS, **way) as vec:
        found = run(vec, STEPS, table, seed=2026)
    for at, (mine, its) in enumerate(zip(found["digests"], oracle["digests"], strict=True)):
        different = [array for array in its if mine[array] != its[array]]
        assert not different, f"within the first {(at + 1) * 100} steps"
    assert found == oracle
