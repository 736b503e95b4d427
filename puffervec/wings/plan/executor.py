# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Runs a placed graph: every node writes into its view of the arena.

The calls are bound once, with their tensors, and each run makes them in order. Nothing is allocated
after the first run. Parameters are read in place, so an optimizer that updates them in place needs
no new plan; if a parameter's memory has changed, the calls are bound again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from puffervec.wings.plan.arena import Arena
from puffervec.wings.plan.build import PlanError, refuse_unplanned
from puffervec.wings.plan.calls import Call, Rule, Work, copy_work
from puffervec.wings.plan.ir import Graph, Node, TensorDesc, substitute
from puffervec.wings.plan.rules import find

POISON = 0xFF  # In each byte: NaN as a float, -1 as a signed whole number.


class PolicyExecutor:
    """A graph with memory.

    Attributes:
        tensors: every tensor of the graph by name, as a view on its buffer or parameter.
        inputs: tensors that the caller writes before each run, in the order of `graph.inputs` (None
            for an input that is not a tensor).
        outputs: results of a run, in the order of `graph.outputs`; the next run overwrites them.
        buffers: the memory as bytes, by the name of the buffer.
    """

    def __init__(
        self, graph: Graph, arena: Arena, parameters: Callable[[], Mapping[str, Tensor]] = dict
    ) -> None:
        """Allocate the buffers and bind the calls.

        Args:
            graph: graph whose tensors have addresses (`arena.place`).
            arena: arena from `arena.place`.
            parameters: returns the current tensors of kind parameter by name.

        Raises:
            PlanError: operations have no rule; the message names each with its place.
        """
        refuse_unplanned(graph)
        self.graph, self.arena, self._parameters = graph, arena, parameters
        # torch aligns memory to at least arena.ALIGNMENT bytes.
        self.buffers = {
            name: torch.zeros(
                size, dtype=torch.uint8, device=graph.tensors[arena.blocks[name][0].name].device
            )
            for name, size in arena.buffers.items()
        }
        self._bind()

    @property
    def nbytes(self) -> int:
        """Bytes of all buffers."""
        return self.arena.bytes

    def _bind(self) -> None:
        """Make the tensors and the calls.

        Each call runs once, so that libraries set up what they need.
        """
        parameters = {**self.graph.constants, **self._parameters()}
        self._held = {name: parameters[name] for name in self.graph.parameters}
        self._pointers = {name: tensor.data_ptr() for name, tensor in self._held.items()}
        self.tensors = {name: self._view(tensor) for name, tensor in self.graph.tensors.items()}
        self.inputs = [None if name is None else self.tensors[name] for name in self.graph.inputs]
        self.outputs = [substitute(value, self.tensors) for value in self.graph.outputs]
        written = {name: self._held[name].detach() for name in set(self.arena.inside.values())}
        before = {name: tensor.clone() for name, tensor in written.items()}
        with torch.no_grad():
            self._work = [self._bind_node(node) for node in self.graph.nodes]
        for name, tensor in written.items():
            tensor.copy_(before[name])
        for raw in self.buffers.values():
            raw.zero_()
        pairs = (
            (self.tensors[target], self.tensors[output])
            for output, target in self.arena.copies.items()
        )
        self._copies = [work for target, source in pairs for work in copy_work(target, source)]
        self._calls = [call for work in (*self._work, self._copies) for call in work]

    def _view(self, tensor: TensorDesc) -> Tensor:
        """Return a tensor as a view on its memory."""
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
        return (
            flat.narrow(0, begin, tensor.nbytes)
            .view(tensor.dtype)
            .as_strided(tensor.shape, tensor.stride, begin // tensor.dtype.itemsize)
        )

    def _bind_node(self, node: Node) -> list[Work]:
        """Return the work of a node in each run."""
        if node.view:
            return []
        args, kwargs = substitute(node.arguments, self.tensors)
        out = tuple(self.tensors[name] for name in node.outputs)
        call = Call(
            node.op, out, tuple(args), kwargs, tuple(self.tensors[name] for name in node.workspace)
        )
        rule = find(node.op, out[0].device)
        assert isinstance(rule, Rule)
        try:
            work = list(rule.bind(call))
            for part in work:
                part()
        except (RuntimeError, TypeError, ValueError, NotImplementedError) as error:
            raise PlanError(f"{node.op} at {node.name} ({node.place}): {error}") from error
        return work

    def run(self) -> None:
        """Run all calls once: read `inputs`, write `outputs`."""
        for name, pointer in self._pointers.items():
            if self._held[name].data_ptr() != pointer:
                self._bind_again()
                break
        for call in self._calls:
            call()

    def _bind_again(self) -> None:
        """Bind again after a parameter's memory has changed; the inputs keep their values."""
        inputs = {
            name: self.tensors[name].clone() for name in self.graph.inputs if name is not None
        }
        self._bind()
        for name, value in inputs.items():
            self.tensors[name].copy_(value)

    def run_poisoned(self) -> None:
        """Run with every unneeded byte overwritten before each node.

        The outputs must equal those of `run`.
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
