# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from puffervec.core.spec import GroupSpec
from puffervec.train.config.sections import PolicySection
from puffervec.train.policies.leaves import ROW, flat_rows
from puffervec.train.policies.registry import build_policy
from puffervec.wings.export.exporting import GraphInputs, random_values
from puffervec.workers.python.emulation import ActionPlan, ObservationPlan
from tests.train.fakes import group

NESTED = spaces.Dict(
    a=spaces.Tuple((spaces.Discrete(3), spaces.Box(-1, 1, (2,)))), b=spaces.MultiBinary(4)
)
SPACES = [
    spaces.Box(-1, 1, (2, 3), np.float64),
    spaces.Box(
        np.array([-np.inf, 50, -np.inf], np.float32), np.array([np.inf, np.inf, -60], np.float32)
    ),
    spaces.Box(-3.4e38, 3.4e38, (4,), np.float32),
    spaces.Box(0, 255, (8, 8, 3), np.uint8),
    spaces.Box(-(2**62), 2**62, (2,), np.int64),
    spaces.Box(0, 1, (2,), np.bool_),
    spaces.Discrete(4, start=-1),
    spaces.MultiDiscrete([2, 3], start=[5, -5]),
    spaces.MultiBinary([2, 2]),
]


def python_group(space: Any) -> GroupSpec:
    plan, act = ObservationPlan(space), ActionPlan(spaces.Discrete(2))
    return GroupSpec(
        "agents", 1, (), plan.row_bytes, "discrete", (2,), (0.0,), (0.0,), 0, plan, act
    )


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_random_values_are_in_the_space(space: Any) -> None:
    drawn = random_values(space, 50, np.random.default_rng(0))
    assert drawn.dtype == space.dtype and len(np.unique(drawn)) > 1
    # of a Discrete a single number, which contains() takes too
    assert all(space.contains(value) for value in drawn)


@pytest.mark.parametrize(
    "space",
    [NESTED, spaces.Dict(a=spaces.Box(-1, 1, (2,)), b=spaces.Box(-1, 1, (1, 3))), SPACES[3]],
    ids=str,
)
def test_original_rows_are_what_an_env_writes(space: Any) -> None:
    found = python_group(space)
    observations = GraphInputs(found)
    drawn = observations.random(3, np.random.default_rng(0))
    plan = found.observation_plan
    assert plan is not None
    rows = np.zeros((3, *plan.row_shape), plan.row_dtype)
    for row, writer in enumerate(plan.writers(rows)):
        parts = iter(part[row] for part in drawn.values())
        writer(_native(space, parts))
    assert torch.equal(observations.trainer_observations(drawn)[ROW], flat_rows(plan, rows))


def _native(space: Any, parts: Any) -> Any:
    """The leaves put together again as an env gives them."""
    if isinstance(space, spaces.Dict):
        return {name: _native(part, parts) for name, part in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(_native(part, parts) for part in space.spaces)
    return next(parts)


def test_names_and_adapted_policy() -> None:
    found = python_group(NESTED)
    observations = GraphInputs(found)
    assert [i.name for i in observations.inputs] == [
        "obs.a.0",
        "obs.a.1",
        "obs.b",
    ] and not observations.one_dtype
    policy = build_policy(found, PolicySection(hidden=(4,)))
    drawn = observations.random(5, np.random.default_rng(1))
    adapted = observations.adapt(policy)
    seen = observations.assemble({name: torch.from_numpy(part) for name, part in drawn.items()})
    (wanted,), _, _ = policy(observations.trainer_observations(drawn))
    (logits,), _, _ = adapted(seen)
    assert adapted is not policy and torch.allclose(logits, wanted)


def test_names_that_would_be_alike() -> None:
    space = spaces.Dict({"a b": spaces.Discrete(2), "a_b": spaces.Discrete(2)})
    assert [i.name for i in GraphInputs(python_group(space)).inputs] == ["obs.a_b.0", "obs.a_b.1"]


def test_fields_of_c_envs() -> None:
    flat = GraphInputs(group(("ego", (3,)), ("cars", (4, 2))))
    drawn = flat.random(40, np.random.default_rng(2))
    assert [i.name for i in flat.inputs] == ["obs"] and drawn["obs"].shape == (40, 11)
    cars = drawn["obs"][:, 3:].reshape(-1, 2)
    empty = (cars == 0).all(1)
    assert 0.3 < empty.mean() < 0.7 and (drawn["obs"][:, :3] != 0).all()
    assert torch.equal(flat.trainer_observations(drawn)[ROW], torch.from_numpy(drawn["obs"]))
