# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Addresses for the tensors of a graph: which of them share memory, and their offsets in a buffer.

    graph  --share-->  blocks: tensors in one memory, with a first and a last step
           --pack-->   offsets, one buffer per dtype

Sharing: a view lies in its base. The output of an in-place operation takes the memory of an input
that is no longer needed. The new value of a state is written straight into that state if the old
value is no longer needed by then; otherwise it is copied there at the end.

Packing: two blocks may overlap if no step needs both. The blocks that a step needs cannot overlap,
so no buffer can be smaller than the largest sum of their sizes in any step. `Arena.bound` reports
this lower bound. Best fit places blocks one after another, each into the smallest gap that holds
it. The order decides how good the result is, so several orders are tried, and blocks that extend
above the bound are moved to the front until none does (or `EFFORT` is spent). Finding the best
offsets is NP-complete ("dynamic storage allocation", Garey and Johnson 1979, SR2). Pure Python over
ir.py.
"""

from __future__ import annotations

import dataclasses
import operator
import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from puffervec.wings.plan.ir import (
    INPUT,
    PARAMETER,
    STATE,
    WORKSPACE,
    Graph,
    Node,
    TensorDesc,
    short,
)

ALIGNMENT = 64  # Bytes: a cache line, and the alignment of vector loads.
EFFORT = 2_000_000  # Limit of the search for a better order, in comparisons of two blocks.


@dataclasses.dataclass
class Block:
    """Tensors that share memory.

    Attributes:
        name: name of the tensor that owns the memory.
        tensors: names of all tensors in it.
        buffer: name of the buffer.
        size: bytes, a multiple of ALIGNMENT.
        first, last: the steps between which the bytes are needed, both included.
        offset: offset in the buffer, in bytes.
    """

    name: str
    tensors: list[str]
    buffer: str
    size: int
    first: int
    last: int
    offset: int = -1

    def meets(self, other: Block) -> bool:
        """Return whether both blocks are needed in the same step."""
        return self.first <= other.last and other.first <= self.last


@dataclasses.dataclass
class Arena:
    """The addresses of a graph's tensors.

    Attributes:
        blocks: blocks by buffer, in the order of their first step.
        buffers: size in bytes of each buffer.
        bounds: per buffer, the most bytes that any one step needs: a lower bound of its size.
        separate: bytes that a separate buffer per tensor would need, views included, workspaces
            not.
        aliased: bytes that sharing without reuse over time would need, workspaces not included.
        copies: outputs that are copied into the state that they replace at the end of a run.
        inside: for each tensor that is written straight into a parameter that it replaces, the name
            of that parameter.
    """

    blocks: dict[str, list[Block]]
    buffers: dict[str, int]
    bounds: dict[str, int]
    separate: int
    aliased: int
    copies: dict[str, str]
    inside: dict[str, str]

    @property
    def bytes(self) -> int:
        """Return the total size in bytes of all buffers."""
        return sum(self.buffers.values())

    @property
    def bound(self) -> int:
        """Return the lower bound of the total size in bytes."""
        return sum(self.bounds.values())

    def table(self) -> dict[str, Any]:
        """Return the arena as JSON values."""
        return {
            "bytes": self.bytes,
            "bound": self.bound,
            "separate_bytes": self.separate,
            "aliased_bytes": self.aliased,
            "buffers": dict(self.buffers),
            "copies": dict(self.copies),
            "blocks": [
                dataclasses.asdict(block) for blocks in self.blocks.values() for block in blocks
            ],
        }


def place(graph: Graph) -> Arena:
    """Assign a buffer and an offset to every tensor of the graph.

    Args:
        graph: from `build.from_graph`; the addresses are written to its tensors.

    Returns: the arena.
    """
    sharing = _Sharing(graph)
    blocks = sharing.blocks()
    buffers: dict[str, list[Block]] = {}
    for block in sorted(blocks, key=lambda block: (block.first, block.name)):
        buffers.setdefault(block.buffer, []).append(block)
    sizes = {name: pack(members) for name, members in buffers.items()}
    for block in blocks:
        for name in block.tensors:
            tensor = graph.tensors[name]
            tensor.buffer, tensor.offset = block.buffer, block.offset + tensor.start
    own = [
        tensor
        for tensor in graph.tensors.values()
        if tensor.kind not in (PARAMETER, WORKSPACE) or tensor.is_view
    ]
    return Arena(
        blocks=buffers,
        buffers=sizes,
        bounds={name: most_at_once(members) for name, members in buffers.items()},
        separate=sum(align(tensor.nbytes) for tensor in own),
        aliased=sum(block.size for block in blocks if graph.tensors[block.name].kind != WORKSPACE),
        copies=sharing.copies,
        inside=sharing.inside(),
    )


def align(size: int) -> int:
    """Return a number of bytes rounded up to a multiple of ALIGNMENT.

    >>> align(0), align(1), align(64)
    (0, 64, 64)
    """
    return -(-size // ALIGNMENT) * ALIGNMENT


# ---- sharing -------------------------------------------------------------------------------------


class _Sharing:
    """Groups of tensors that share memory, each named after the tensor that owns it."""

    def __init__(self, graph: Graph) -> None:
        """Find the groups of a graph."""
        self.graph = graph
        self.group = {name: name for name in graph.tensors}
        self.members = {name: [name] for name in graph.tensors}
        self.last = {name: tensor.last for name, tensor in graph.tensors.items()}
        self.copies: dict[str, str] = {}
        for name, tensor in graph.tensors.items():
            if tensor.is_view:
                self._join(name, tensor.base)
        for output, target in graph.carried.items():
            if not self._carry(output, target):
                self.copies[output] = target
        for step, node in enumerate(graph.nodes, start=1):
            if len(node.outputs) == 1 and self.group[node.outputs[0]] == node.outputs[0]:
                self._in_place(step, node)

    def _join(self, name: str, into: str) -> None:
        """Merge the group of a tensor into that of another."""
        old, new = self.group[name], self.group[into]
        for member in self.members.pop(old):
            self.group[member] = new
            self.members[new].append(member)
        self.last[new] = max(self.last[new], self.last.pop(old))

    def _kind(self, group: str) -> str:
        return self.graph.tensors[group].kind

    def _in_place(self, step: int, node: Node) -> None:
        """Let an output take the memory of an input that is last needed at this step."""
        tensors, out = self.graph.tensors, self.graph.tensors[node.outputs[0]]
        for name in node.in_place:
            group, source = self.group[name], tensors[name]
            taken = [tensors[other] for other in node.inputs if self.group[other] == group]
            if (
                self._kind(group) not in (PARAMETER, STATE)
                and self.last[group] == step
                and all(_same_layout(other, out) for other in taken)
                and self._covers(source, group)
            ):
                self._join(out.name, name)
                return

    def _covers(self, tensor: TensorDesc, group: str) -> bool:
        """Return whether a tensor fills all of its memory."""
        return tensor.start == 0 and tensor.nbytes == self.graph.tensors[group].nbytes

    def _carry(self, output: str, target: str) -> bool:
        """Write an output straight into the tensor that it replaces, if that is possible.

        Returns: False if the old value is still needed at that step, or is the output.
        """
        tensors, group, old = self.graph.tensors, self.group[output], self.group[target]
        root, held = tensors[group], tensors[target]
        fits = _same_layout(tensors[output], held) and _same_layout(root, held) and held.name == old
        if group == old or not fits or root.kind in (PARAMETER, STATE, INPUT):
            return False
        reader = self.graph.nodes[root.first - 1]
        read = [tensors[name] for name in reader.inputs if self.group[name] == old]
        at_once = all(part.name in reader.in_place and _same_layout(part, root) for part in read)
        if self.last[old] > root.first or (self.last[old] == root.first and not at_once):
            return False
        self._join(group, target)
        return True

    def inside(self) -> dict[str, str]:
        """See Arena."""
        known = self.graph.tensors
        groups = [
            (group, names)
            for group, names in self.members.items()
            if known[group].kind == PARAMETER
        ]
        return {
            name: group for group, names in groups for name in names if known[name].base != group
        }

    def blocks(self) -> list[Block]:
        """Return the blocks to place: all tensors except parameters and tensors inside them."""
        graph = self.graph
        for output in (*self.copies, *graph.output_names()):
            self.last[self.group[output]] = graph.end
        blocks = []
        for group, names in self.members.items():
            root = graph.tensors[group]
            if root.kind == PARAMETER:
                continue
            first = min(graph.tensors[name].first for name in names)
            last = max(self.last[group], root.first)
            if root.kind == STATE:
                first, last = 0, graph.end
            size = align(
                max(
                    tensor.start + tensor.nbytes
                    for tensor in (graph.tensors[name] for name in names)
                )
            )
            blocks.append(Block(group, names, buffer_of(root), size, first, last))
        return blocks


def buffer_of(tensor: TensorDesc) -> str:
    """Return the name of a tensor's buffer: its dtype, and the device if that is not the CPU."""
    dtype = short(tensor.dtype)
    return dtype if tensor.device.type == "cpu" else f"{dtype} on {tensor.device}"


def _same_layout(a: TensorDesc, b: TensorDesc) -> bool:
    return (a.shape, a.stride, a.dtype, a.device) == (b.shape, b.stride, b.dtype, b.device)


# ---- packing -------------------------------------------------------------------------------------

Key = Callable[[Block], tuple[float, ...]]
ORDERS: tuple[Key, ...] = (
    lambda block: (-block.size, block.first),
    lambda block: (-block.size * (block.last - block.first + 1), block.first),
    lambda block: (block.first, -block.size),
    lambda block: (-block.last, -block.size),
    lambda block: (-(block.last - block.first), -block.size),
)


def pack(blocks: Sequence[Block]) -> int:
    """Assign an offset to each block of one buffer; return the size of the buffer in bytes."""
    bound = most_at_once(blocks)
    tried: list[tuple[int, list[int], list[Block]]] = []
    for key in ORDERS:
        order = sorted(blocks, key=key)
        size = _best_fit(order)
        if size == bound:
            return size
        tried.append((size, [block.offset for block in blocks], order))
    best_size, best, best_order = min(tried, key=operator.itemgetter(0))
    searched = _search(blocks, best_order, best_size, bound)
    if searched is not None:
        best_size, best = searched
    for block, offset in zip(blocks, best, strict=True):
        block.offset = offset
    return best_size


def _best_fit(order: Iterable[Block]) -> int:
    """Place blocks in order, each in the smallest gap among blocks that it `meets`, or on top.

    Returns: the size in bytes.
    """
    placed: list[Block] = []
    top = 0
    for block in order:
        met = sorted(
            (other.offset, other.offset + other.size) for other in placed if other.meets(block)
        )
        end = 0
        gaps: list[tuple[int, int]] = []  # Size and offset of the gaps that hold the block.
        for begin, stop in met:
            if begin - end >= block.size:
                gaps.append((begin - end, end))
            end = max(end, stop)
        block.offset = min(gaps)[1] if gaps else end
        top = max(top, block.offset + block.size)
        placed.append(block)
    return top


def _search(
    blocks: Sequence[Block], start: list[Block], size: int, bound: int
) -> tuple[int, list[int]] | None:
    """Search for an order that needs fewer bytes.

    Blocks that extend above the bound are placed earlier, and sometimes two others are swapped. The
    search is reproducible.

    Returns: bytes and offsets of the best order, or None if no order needs fewer bytes.
    """
    draw = random.Random(0)
    order, found, best = list(start), None, size
    _best_fit(order)
    for _ in range(min(2000, EFFORT // (1 + len(blocks) ** 2))):
        too_high = [block for block in order if block.offset + block.size > bound]
        moved = {id(block) for block in too_high}
        trial = [*too_high, *(block for block in order if id(block) not in moved)]
        if draw.random() < 0.5 or trial == order:
            a, b = draw.randrange(len(trial)), draw.randrange(len(trial))
            trial[a], trial[b] = trial[b], trial[a]
        reached = _best_fit(trial)
        if reached < best:
            best, found = reached, (reached, [block.offset for block in blocks])
        if reached == bound:
            break
        if reached <= best * 1.05:
            order = trial
        else:
            _best_fit(order)
    return found


def most_at_once(blocks: Iterable[Block]) -> int:
    """Return the largest number of bytes that any one step needs.

    >>> blocks = [Block("a", [], "", 64, 0, 1), Block("b", [], "", 128, 1, 2)]
    >>> most_at_once([*blocks, Block("c", [], "", 64, 2, 2)])
    192
    """
    blocks = list(blocks)
    return max(
        sum(b.size for b in blocks if b.first <= step <= b.last)
        for step in {b.first for b in blocks}
    )
