# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
from __future__ import annotations

import torch

from puffervec.train.config import PolicySection
from puffervec.train.object_set import ObjectEncoder, has_object_sets
from puffervec.train.policy import build_policy
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


def test_what_counts_as_a_set() -> None:
    assert has_object_sets(group(("cars", (5, 3))))
    assert not has_object_sets(group(("ego", (5,))))
