# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
from __future__ import annotations

import itertools

import pytest
import torch

from puffervec.wings.sharded.columns import (
    WidthError,
    Window,
    as_dtensor,
    halos,
    messages_due,
    split,
)


def test_all_columns_are_somewhere_and_no_rank_is_without() -> None:
    for width, ranks in itertools.product(range(1, 40), range(1, 9)):
        if width < ranks:
            with pytest.raises(
                WidthError,
                match=f"width {width} cannot be split over {ranks} ranks: at most {width} fit",
            ):
                split(width, ranks)
            continue
        found = split(width, ranks)
        assert [column for part in found for column in range(*part)] == list(range(width))
        assert all(first < end for first, end in found) and found[0][1] == -(-width // ranks)
        chunks = [len(chunk) for chunk in torch.arange(width).chunk(ranks)]
        assert as_dtensor(width, ranks) == (len(chunks) == ranks)
        if as_dtensor(width, ranks):
            assert [end - first for first, end in found] == chunks


def test_what_is_sent_is_what_is_received_and_makes_what_a_window_sees() -> None:
    for kernel, stride, padding, dilation, width, ranks in itertools.product(
        (1, 2, 3, 7), (1, 2, 5), (0, 1, 3), (1, 2), (9, 14), (1, 2, 3, 4)
    ):
        window = Window(kernel, stride, padding, dilation)
        out = (width + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1
        if out < ranks:
            continue
        plans = halos(window, width, out, ranks)
        parts = split(width, ranks)
        for rank, plan in enumerate(plans):
            seen = list(range(*window.sees(split(out, ranks)[rank])))
            columns = [
                c for other, sender in enumerate(plans) for c in _given(parts, sender, other, rank)
            ]
            assert [-1] * plan.left + columns + [-1] * plan.right == [
                c if 0 <= c < width else -1 for c in seen
            ]
            assert plan.receives == tuple(
                end - first for first, end in (plans[o].sends[rank] for o in range(ranks))
            )
        assert messages_due(window, width, out, ranks) == any(any(plan.receives) for plan in plans)


def _given(parts: tuple[tuple[int, int], ...], sender: object, other: int, rank: int) -> list[int]:
    first, end = sender.own if other == rank else sender.sends[rank]  # type: ignore[attr-defined]
    return [parts[other][0] + column for column in range(first, end)]


def test_neighbours_of_aligned_windows_send_nothing() -> None:
    assert not messages_due(Window(1), 16, 16, 4) and not messages_due(Window(2, 2), 16, 8, 4)
    assert messages_due(Window(3, 1, 1), 16, 16, 4) and messages_due(Window(2, 2), 14, 7, 2)
