# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""No action of any value corrupts memory or yields a non-finite observation: every C env, every
dtype, thousands of steps.

The rules one by one stand in tests/test_actions.py; here they meet all envs, and an env with
continuous actions (drift.c of the golden hashes; no built-in env has them).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from puffervec.core.spec import GroupSpec
from puffervec.errors import ActionError
from puffervec.vec.vector_env import VectorEnv
from tests.env_contract import check_bounds
from tests.golden.cases import BY_NAME, FIRST

SEED = int(os.environ.get("PV_SEED", "0"))
NAMES = sorted(
    {*FIRST.values(), "probe, two groups", "tag_continuous, nearest", "drive, same step"}
)
INTEGERS = [np.dtype(name) for name in ("u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8")]
REALS = [np.dtype(name) for name in ("f4", "f8", "f2")]
HOSTILE_REALS = [np.nan, np.inf, -np.inf, 1e-40, -1e-40, 5e-324, 1e30, -1e30, 1e300, -0.0, 0.5]


def hostile(group: GroupSpec, rows: int, rng: np.random.Generator) -> tuple[np.ndarray, int]:
    """Return a batch of some dtype, most of which is out of range, and how many of its values are
    to be counted.
    """
    shape = (rows,) if group.action_kind == "discrete" else (rows, group.action_dims)
    if group.action_kind == "continuous":
        dtype = REALS[rng.integers(len(REALS))]
        with np.errstate(over="ignore", under="ignore"):
            batch = rng.choice(HOSTILE_REALS, shape).astype(dtype)
        return batch, int(np.count_nonzero(~np.isfinite(batch)))
    dtype = INTEGERS[rng.integers(len(INTEGERS))]
    limits = np.iinfo(dtype)
    edges = [
        limits.min,
        limits.max,
        limits.max // 2 + 1,
        max(limits.min, -1),
        *group.action_sizes,
        0,
        1,
    ]
    batch = rng.choice(np.array(edges, object), shape).astype(dtype)
    sizes = np.array(group.action_sizes).reshape(shape[1:] or ())
    return batch, int(
        np.count_nonzero((batch.astype(object) < 0) | (batch.astype(object) >= sizes))
    )


def attack(vec: VectorEnv, steps: int) -> None:
    """Step with hostile batches; each row shown must be finite and within the declared bounds, each
    bad value counted.
    """
    rng, counted = np.random.default_rng(SEED), 0
    batches = []
    for _ in range(50):
        drawn = {
            g.name: hostile(g, vec.halves[0].groups[g.name].rows, rng) for g in vec.spec.groups
        }
        given = {name: batch for name, (batch, _) in drawn.items()}
        batches.append(
            (
                given if len(given) > 1 else next(iter(given.values())),
                sum(bad for _, bad in drawn.values()),
            )
        )
    vec.reset(seed=SEED)
    for step in range(steps):
        given, bad = batches[step % len(batches)]
        vec.step(given)
        counted += bad
        for group in vec.spec.groups:
            check_bounds(vec, group)
            assert np.isfinite(vec.halves[0].groups[group.name].rewards).all()
    assert counted > 0
    assert vec.counters()["invalid_actions"] == counted, (
        f"replay: PV_SEED={SEED} python -m pytest {__file__}"
    )


@pytest.mark.parametrize("steps", [1000, pytest.param(10_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", NAMES)
def test_rows_stay_finite_and_in_bounds(name: str, steps: int) -> None:
    with BY_NAME[name].make(num_envs=2) as vec:
        attack(vec, steps)


# ---- floats: what is taken, what is refused ------------------------------------------------------


@pytest.fixture
def drift() -> Iterator[VectorEnv]:
    """Three rows of two floats in [-1, 1]."""
    with BY_NAME["drift"].make(num_envs=3) as vec:
        vec.reset(seed=0)
        yield vec


VALUES = np.array([[0.5, -0.25], [0.0, 1.0], [-1.0, 0.75]])


def tensor(*args: Any, **kwargs: Any) -> Any:
    import torch

    return torch.tensor(*args, **kwargs)


def read_only(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    "make",
    [
        lambda: VALUES.astype(np.float32), lambda: VALUES, lambda: VALUES.astype(np.float16),
        lambda: VALUES.tolist(), lambda: tuple(map(tuple, VALUES)),
        lambda: np.asfortranarray(VALUES.astype(np.float32)),
        lambda: np.repeat(VALUES, 2, axis=0)[::2], lambda: VALUES[::-1].copy()[::-1],
        lambda: read_only(VALUES.copy()), lambda: memoryview(VALUES), lambda: tensor(VALUES),
        lambda: tensor(VALUES.T.copy()).T, lambda: [*VALUES],
    ],
    ids=["f4", "f8", "f2", "list", "tuple", "Fortran", "strided", "reversed", "read-only",
         "memoryview", "tensor", "tensor, transposed", "list of rows"],
)  # fmt: skip
def test_floats_that_are_taken(drift: VectorEnv, make: Any) -> None:
    drift.step(make())
    assert (drift.halves[0].groups["agents"].actions == VALUES.astype(np.float32)).all()
    assert drift.counters()["invalid_actions"] == 0


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: VALUES.astype(">f4"), [">f4", "floats"]),
        (lambda: VALUES.astype(">f8"), [">f8", "floats"]),
        (lambda: VALUES.astype(np.longdouble), ["float128", "floats"]),
        (lambda: VALUES.astype(complex), ["complex128"]),
        (lambda: VALUES > 0, ["bool", "floats"]),
        (lambda: VALUES.astype(object), ["object"]),
        (lambda: VALUES.astype(str), ["<U"]),
        (lambda: np.float32(0.5), ["()", "(3, 2)"]),
        (lambda: np.array(0.5), ["()", "(3, 2)"]),
        (lambda: VALUES[0], ["(2,)", "(3, 2)"]),
        (lambda: VALUES.T, ["(2, 3)", "(3, 2)"]),
        (lambda: VALUES[:2], ["(2, 2)", "(3, 2)"]),
        (lambda: VALUES[None], ["(1, 3, 2)"]),
        (lambda: VALUES.reshape(-1), ["(6,)", "(3, 2)"]),
        (lambda: [[0.5, 1.0], [0.5]], ["not an array", "(3, 2)"]),
        (lambda: tensor(VALUES, requires_grad=True), ["not an array", "detach", "(3, 2)"]),
        (lambda: tensor([1, 2, 3]), ["(3,)", "(3, 2)"]),
    ],
    ids=lambda given: "" if callable(given) else str(given[0]),
)
def test_floats_that_are_refused(drift: VectorEnv, make: Any, words: list[str]) -> None:
    before = drift.halves[0].block.copy()
    with pytest.raises(ActionError) as caught:
        drift.send(make())
    for word in ["'agents'", *words]:
        assert word in str(caught.value)
    assert (drift.halves[0].block == before).all()
    drift.step(VALUES)  # still in order


def test_values_out_of_bounds_are_clipped_and_no_numbers_are_the_no_op(drift: VectorEnv) -> None:
    drift.step([[1e30, -1e30], [np.nan, np.inf], [1e-40, -0.0]])
    expected = np.array([[1, -1], [0, 0], [1e-40, 0]], np.float32)
    assert (drift.halves[0].groups["agents"].actions == expected).all()
    assert drift.counters()["invalid_actions"] == 2
