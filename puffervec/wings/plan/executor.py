# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Runs a placed graph: every node writes into its view of the arena, nothing is allocated after the
first run.

The calls are bound once, with their tensors; a run goes through the list. Parameters are read where
they stand, so an optimizer that updates them in place needs no new plan; where one has been given
other memory since, the calls are bound anew.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from puffervec.wings.plan.arena import ALIGNMENT, Arena
from puffervec.wings.plan.build import PlanError, refuse_unplanned
from puffervec.wings.plan.calls import Call, Rule, Work, copying
from puffervec.wings.plan.ir import Graph, Node, TensorDesc, replaced
from puffervec.wings.plan.rules import find

POISON = 0xFF  # In each byte: NaN as a float, -1 as a signed whole number.


class PolicyExecutor:
    """A graph in memory of its own.

    Attributes:
        tensors: every tensor of the graph by name, as a view on its buffer or parameter.
        inputs: what the caller writes before each run, in the order of `graph.inputs` (None where
        no tensor is taken).
        outputs: what it reads after it, in the order of `graph.outputs`; overwritten by the next
        run.
        buffers: the memory, bytes, by the name of the buffer.
    """

    def __init__(
        self, graph: Graph, arena: Arena, parameters: Callable[[], Mapping[str, Tensor]] = dict
    ) -> None:
        """Args: arena: of `arena.place`; parameters: returns the tensors of kind parameter by name,
            as they are now.

        Raises: PlanError: operations without a rule, each with its place.
        """
        refuse_unplanned(graph)
        self.graph, self.arena, self._parameters = graph, arena, parameters
        self.buffers = {
            name: _memory(size, graph.tensors[arena.blocks[name][0].name])
            for name, size in arena.buffers.items()
        }
        self._bind()

    @property
    def nbytes(self) -> int:
        """Bytes of all buffers."""
        return self.arena.bytes

    def _bind(self) -> None:
        """Make the tensors and the calls; each call runs once, so that what libraries set up is set
        up.
        """
        given = {**self.graph.constants, **self._parameters()}
        self._held = {name: given[name] for name in self.graph.parameters}
        self._pointers = {name: tensor.data_ptr() for name, tensor in self._held.items()}
        self.tensors = {name: self._view(tensor) for name, tensor in self.graph.tensors.items()}
        self.inputs = [None if name is None else self.tensors[name] for name in self.graph.inputs]
        self.outputs = [replaced(value, self.tensors) for value in self.graph.outputs]
        written = {name: self._held[name].detach() for name in set(self.arena.inside.values())}
        kept = {name: tensor.clone() for name, tensor in written.items()}
        with torch.no_grad():
            self._work = [self._bind_node(node) for node in self.graph.nodes]
        for name, tensor in written.items():
            tensor.copy_(kept[name])
        for raw in self.buffers.values():
            raw.zero_()
        pairs = (
            (self.tensors[target], self.tensors[output])
            for output, target in self.arena.copies.items()
        )
        self._copies = [work for target, source in pairs for work in copying(target, source)]
        self._calls = [call for work in (*self._work, self._copies) for call in work]

    def _view(self, tensor: TensorDesc) -> Tensor:
        """Return a tensor in its memory."""
        parameter = self._held.get(self.arena.inside.get(tensor.name, tensor.base))
        if parameter is not None:
            memory = parameter.detach()
            if tensor.base == tensor.name:
                return memory
            begin = memory.storage_offset() * memory.element_size() + tensor.start
            flat = torch.empty(0, dtype=torch.uint8, device=memory.device).set_(
                memory.untyped_storage()
            )
        else:
            flat, begin = self.buffers[tensor.buffer], tensor.offset
        return flat.narrow(0, begin, tensor.nbytes).view(tensor.dtype).as_strided(
            tensor.shape, tensor.stride, (flat.storage_offset() + begin) // tensor.dtype.itemsize
        )  # fmt: skip

    def _bind_node(self, node: Node) -> list[Work]:
        """Return what a node does in a run."""
        if node.view:
            return []
        args, kwargs = replaced(node.arguments, self.tensors)
        out = tuple(self.tensors[name] for name in node.outputs)
        call = Call(
            node.op, out, tuple(args), kwargs, tuple(self.tensors[name] for name in node.workspace)
        )
        found = find(node.op, out[0].device)
        assert isinstance(found, Rule)
        try:
            work = list(found.bind(call))
            for part in work:
                part()
        except (RuntimeError, TypeError, ValueError, NotImplementedError) as error:
            raise PlanError(f"{node.op} at {node.name} ({node.place}): {error}") from error
        return work

    def run(self) -> None:
        """Do everything once: inputs as they stand, outputs into `outputs`."""
        for name, pointer in self._pointers.items():
            if self._held[name].data_ptr() != pointer:
                self._bind_again()
                break
        for call in self._calls:
            call()

    def _bind_again(self) -> None:
        """A parameter has other memory now. What the caller has written stays: binding runs every
        call once.
        """
        kept = {name: self.tensors[name].clone() for name in self.graph.inputs if name is not None}
        self._bind()
        for name, value in kept.items():
            self.tensors[name].copy_(value)

    def run_poisoned(self) -> None:
        """Run with every byte that nobody needs overwritten before each node: the outputs must be
        as those of `run`.
        """
        for step, work in enumerate((*self._work, self._copies), start=1):
            for name, raw in self.buffers.items():
                needed = torch.zeros(len(raw), dtype=torch.bool, device=raw.device)
                for block in self.arena.blocks[name]:
                    if block.first <= step <= block.last:
                        needed[block.offset : block.offset + block.size] = True
                raw.masked_fill_(~needed, POISON)
            for call in work:
                call()


def _memory(size: int, owner: TensorDesc) -> Tensor:
    """Return zeroed bytes that begin on a multiple of ALIGNMENT. Args: owner: a tensor that will
    lie there.
    """
    raw = torch.zeros(size + ALIGNMENT, dtype=torch.uint8, device=owner.device)
    return raw.narrow(0, -raw.data_ptr() % ALIGNMENT, size)
