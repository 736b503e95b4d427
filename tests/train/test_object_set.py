# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import torch

from puffervec.core.spec import Field
from puffervec.train.collect.storage import Storage
from puffervec.train.config.sections import PolicySection
from puffervec.train.policies.leaves import ROW, TORCH_DTYPES
from puffervec.train.policies.object_set import ObjectEncoder, factor_of, has_object_sets
from puffervec.train.policies.registry import build_policy
from tests.train.fakes import group


def test_order_of_objects_does_not_matter() -> None:
    policy = build_policy(group(("ego", (2,)), ("cars", (5, 3))), PolicySection(hidden=(8,)))
    ego, cars = torch.randn(4, 2), torch.randn(4, 5, 3)
    shuffled = cars[:, torch.randperm(5)]
    first = policy(torch.cat([ego, cars.flatten(1)], -1), (), None, None)[0][0]
    second = policy(torch.cat([ego, shuffled.flatten(1)], -1), (), None, None)[0][0]
    torch.testing.assert_close(first, second)


def test_empty_slots_count_for_nothing() -> None:
    encoder = ObjectEncoder(3, 16, 8)
    objects = torch.randn(6, 4, 3)
    padded = torch.cat([objects, torch.zeros(6, 3, 3)], 1)
    torch.testing.assert_close(encoder(objects), encoder(padded))
    assert (encoder(torch.zeros(2, 4, 3)) == 0).all()


def test_an_object_at_the_origin_is_told_from_an_empty_slot() -> None:
    """A filled slot has the extra column even where its other features are nearly all zero."""
    encoder = ObjectEncoder(3, 16, 8)
    objects = torch.zeros(1, 2, 3)
    objects[0, 0, 2] = 1e-3
    assert (encoder(objects) != 0).any()


@pytest.mark.parametrize("dtype", ["f4", "f2", "u1"])
def test_rows_are_read_as_they_are_stored(dtype: str) -> None:
    """Bytes are a fraction of 255; the same weights give the same for rows of floats."""
    high = 255.0 if dtype == "u1" else 1.0
    made = group(("ego", (2,)), ("cars", (5, 3)), dtype=dtype)
    fields = tuple(dataclasses.replace(field, low=0.0, high=high) for field in made.fields)
    torch.manual_seed(0)
    policy = build_policy(
        dataclasses.replace(made, fields=fields), PolicySection(hidden=(8,), kind="object_set")
    )
    torch.manual_seed(0)
    plain = build_policy(group(("ego", (2,)), ("cars", (5, 3))), PolicySection(hidden=(8,)))
    rows = (torch.rand(4, 17) * high).to(TORCH_DTYPES[np.dtype(dtype)])
    torch.testing.assert_close(policy(rows)[0], plain(rows.float() / high)[0], rtol=1e-4, atol=1e-4)
    storage = Storage(dataclasses.replace(made, fields=fields), 2, 4, torch.device("cpu"), None)
    assert storage.obs[ROW].dtype == rows.dtype, "and stored so"


def test_numbers_are_divided_by_the_largest_that_a_field_holds() -> None:
    def factor(dtype: str, low: float, high: float) -> float:
        return factor_of(Field("x", np.dtype(dtype), (2, 3), 0, "", low, high, 1.0))

    assert (
        factor("u1", 0, 255) == 1 / 255
        and factor("u1", 0, 100) == 1 / 100
        and factor("i1", -128, 127) == 1 / 128
    )
    assert (
        factor("u1", -math.inf, math.inf) == 1 / 255
        and factor("u1", 0, 0) == 1.0
        and factor("f4", 0, 100) == 1.0
    )


def test_what_counts_as_a_set() -> None:
    assert has_object_sets(group(("cars", (5, 3))))
    assert not has_object_sets(group(("ego", (5,))))
