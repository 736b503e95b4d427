# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""A plan in words (puffervec/wings/plan/report.py)."""

from __future__ import annotations

import torch

from puffervec.wings.plan import report
from puffervec.wings.plan.ir import PARAMETER
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
    rows = [line.split() for line in nodes.splitlines()[1:]]
    assert [row[:2] for row in rows] == [["1", "split"], ["2", "t"], ["3", "mm"]]
    assert [line.split()[0] for line in tensors.splitlines()[1:]] == list(graph.tensors)
    assert "split_size=2" in nodes and "2 x 4" in tensors


def test_long_cells_are_cut() -> None:
    assert report.align_columns([["a", "b" * 50], ["cc", "d"]]) == f"a   {'b' * 41}...\ncc  d"
    assert report.align_columns([["b" * 44]]) == "b" * 44


def test_totals_of_one_buffer_and_of_none() -> None:
    one, none = (report.summary(*planned(lambda x: x + 1, torch.randn(size))) for size in (3, 0))
    assert "buffers:" not in one and "1.000 x the bound" in one and "1.000 x the bound" in none


def test_views_of_parameters_are_listed_and_parameters_are_not() -> None:
    graph, arena = planned(
        lambda w, x: w.t() @ x, torch.randn(3, 3), torch.randn(3, 3), kinds={"w_1": PARAMETER}
    )
    tensors = report.text(graph, arena).split("\n\n")[1].splitlines()[1:]
    assert [line.split()[0] for line in tensors] == [x for x in graph.tensors if x != "w_1"]
    assert [line for line in tensors if "in w_1" in line and line.startswith("t ")]


def test_sizes_for_people() -> None:
    sizes = [report.size(count) for count in (1023, 1024, 2**20 - 1, 2**20)]
    assert sizes == ["1023 B", "1.0 KiB", "1024.0 KiB", "1.0 MiB"]
