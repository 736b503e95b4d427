# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""A plan in words (puffervec/wings/plan/report.py)."""

from __future__ import annotations

import torch

from puffervec.wings.plan import report
from tests.wings.plan.graphs import planned


def test_figures_and_operations_without_a_rule() -> None:
    graph, arena = planned(
        lambda x: torch.relu(x * 2).view(-1).sort().values, torch.randn(1000, 300)
    )
    text = report.summary(graph, arena)
    assert "4 nodes, 1 of them views; 6 tensors in 3 blocks of memory, 3 of them aliases" in text
    assert (
        "one buffer per tensor     8.0 MiB" in text
        and "buffers: float32 2.3 MiB, int64 2.3 MiB" in text
    )
    assert text.splitlines()[-1].startswith("no rule for aten.sort.default at sort (")


def test_tables_have_a_row_for_each_node_and_tensor() -> None:
    graph, arena = planned(lambda x: x.split(2)[1] @ x.t(), torch.randn(4, 3))
    nodes, tensors, _ = report.text(graph, arena).split("\n\n")
    assert [line.split()[1] for line in nodes.splitlines()[1:]] == ["split", "t", "mm"]
    assert [line.split()[0] for line in tensors.splitlines()[1:]] == list(graph.tensors)
    assert "split_size=2" in nodes and "2 x 4" in tensors


def test_long_cells_are_cut() -> None:
    assert report.align_columns([["a", "b" * 50], ["cc", "d"]]) == f"a   {'b' * 41}...\ncc  d"
