# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""A plan as text: what `describe()` and `puffer-train plan` print."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from puffervec.wings.plan.arena import Arena
from puffervec.wings.plan.ir import PARAMETER, Graph, Node, short

WIDEST = 44  # Largest number of characters of a column.


def summary(graph: Graph, arena: Arena) -> str:
    """Return the totals in a few lines."""
    views = sum(node.view for node in graph.nodes)
    planned = [tensor for tensor in graph.tensors.values() if tensor.kind != PARAMETER]
    blocks = sum(map(len, arena.blocks.values()))
    aliases = sum(len(block.tensors) - 1 for blocks in arena.blocks.values() for block in blocks)
    ratio = arena.bytes / arena.bound if arena.bound else 1.0
    copied = f"; {len(arena.copies)} copied into a state at the end" if arena.copies else ""
    lines = [
        f"{len(graph.nodes)} nodes, {views} of them views; {len(planned)} tensors in {blocks} "
        f"blocks of memory, {aliases} of them aliases{copied}",
        f"one buffer per tensor  {size(arena.separate):>10}",
        f"aliases only           {size(arena.aliased):>10}",
        f"with lifetime reuse    {size(arena.bytes):>10}   {ratio:.3f} x the bound",
        f"bound of live bytes    {size(arena.bound):>10}",
    ]
    if len(arena.buffers) > 1:
        lines.append(
            "buffers: "
            + ", ".join(f"{name} {size(count)}" for name, count in arena.buffers.items())
        )
    lines += [f"no rule for {node.op} at {node.name} ({node.place})" for node in graph.unplanned]
    return "\n".join(lines)


def text(graph: Graph, arena: Arena) -> str:
    """Return nodes, tensors and totals as tables."""
    nodes = [["step", "node", "operation", "reads", "writes", "attributes", "workspace"]]
    nodes += [_node_row(step, node) for step, node in enumerate(graph.nodes, start=1)]
    tensors = [["tensor", "kind", "dtype", "shape", "buffer", "offset", "bytes", "steps"]]
    for tensor in graph.tensors.values():
        if tensor.kind == PARAMETER and not tensor.is_view:
            continue
        where = tensor.buffer or f"in {arena.inside.get(tensor.name, tensor.base)}"
        at = f"{tensor.offset:,}" if tensor.buffer else ""
        shape = " x ".join(map(str, tensor.shape)) or "1"
        steps = f"{tensor.first}-{tensor.last}" if tensor.last >= 0 else f"{tensor.first}"
        tensors.append(
            [
                tensor.name,
                tensor.kind,
                short(tensor.dtype),
                shape,
                where,
                at,
                f"{tensor.nbytes:,}",
                steps,
            ]
        )
    return "\n\n".join([align_columns(nodes), align_columns(tensors), summary(graph, arena)])


def tables(graph: Graph, arena: Arena) -> dict[str, Any]:
    """Return graph and arena as JSON values."""
    return graph.tables() | {"arena": arena.table()}


def _node_row(step: int, node: Node) -> list[str]:
    attrs = ", ".join(f"{key}={value}" for key, value in node.attrs.items())
    op = str(node.op) + (" (view)" if node.view else "" if node.planned else " (no rule)")
    workspace = size(node.workspace_bytes) if node.workspace_bytes else ""
    return [
        str(step),
        node.name,
        op,
        ", ".join(node.inputs),
        ", ".join(node.outputs),
        attrs,
        workspace,
    ]


def align_columns(rows: Sequence[Sequence[str]]) -> str:
    """Return rows of text as aligned columns."""
    cut = [
        [cell if len(cell) <= WIDEST else cell[: WIDEST - 3] + "..." for cell in row]
        for row in rows
    ]
    widths = [max(map(len, column)) for column in zip(*cut, strict=True)]
    return "\n".join(
        "  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in cut
    )


def size(count: int) -> str:
    """Return a number of bytes in a readable unit.

    >>> size(512), size(41 * 2**20)
    ('512 B', '41.0 MiB')
    """
    return (
        f"{count / 2**20:.1f} MiB"
        if count >= 2**20
        else f"{count / 2**10:.1f} KiB"
        if count >= 2**10
        else f"{count} B"
    )
