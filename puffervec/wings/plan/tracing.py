# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Traces a module with example arguments to a graph of ir.py, by `torch.export`."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.export.graph_signature import InputKind, OutputKind
from torch.utils._pytree import TreeSpec, tree_leaves

from puffervec.train.policies.whole import keep_whole
from puffervec.wings.plan.build import PlanError, from_graph
from puffervec.wings.plan.ir import PARAMETER, STATE, Graph

Carry = tuple[int, int]  # Positions of an argument and of the output that replaces it.


@dataclasses.dataclass(frozen=True)
class TracedModule:
    """A module as a graph.

    Attributes:
        module: the original.
        graph: the graph, whose tensors have no addresses yet.
        out_spec: tree structure of the outputs.
        sources: for each parameter's name in the graph, its path in the module.
        constants: parameters that the graph holds, by name.
    """

    module: nn.Module
    graph: Graph
    out_spec: TreeSpec
    sources: Mapping[str, str]
    constants: Mapping[str, Tensor]

    def parameters(self) -> dict[str, Tensor]:
        """Return the current tensors of kind parameter by name."""
        tensors = dict(self.constants)
        for name, target in self.sources.items():
            owner, _, last = target.rpartition(".")
            tensors[name] = getattr(self.module.get_submodule(owner), last)
        return tensors


def _fused_lstm_cell(
    input_gates: Tensor,
    hidden_gates: Tensor,
    cell: Tensor,
    input_bias: Tensor | None = None,
    hidden_bias: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Compute `aten._thnn_fused_lstm_cell`, the operation of an LSTM cell on CUDA.

    Returns:
        Output and cell (rows, hidden), and the activated gates (rows, 4 hidden), in the order
        input, forget, cell, output.
    """
    gates = input_gates + hidden_gates
    for bias in (input_bias, hidden_bias):
        gates = gates if bias is None else gates + bias
    i, f, g, o = gates.chunk(4, 1)
    i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    after = f * cell + i * g
    return o * after.tanh(), after, torch.cat((i, f, g, o), 1)


# Operations without an `out=` kernel, in terms of ones that have one.
DECOMPOSITIONS = {torch.ops.aten._thnn_fused_lstm_cell.default: _fused_lstm_cell}


def trace(module: nn.Module, args: tuple[Any, ...], carry: Carry | None = None) -> TracedModule:
    """Return the graph of `module(*args)` for these shapes.

    Args:
        module: module to trace.
        args: example arguments.
        carry: the argument that an output replaces for the next call.

    Raises:
        PlanError: torch cannot export the module.
    """
    try:
        with warnings.catch_warnings(), torch.no_grad(), keep_whole():
            warnings.simplefilter("ignore")
            table = {**torch.export.default_decompositions(), **DECOMPOSITIONS}
            program = torch.export.export(module, args).run_decompositions(table)
    except Exception as error:
        first = str(error).strip().partition("\n")[0]
        raise PlanError(
            f"torch.export cannot make a graph of {type(module).__name__}: {first}"
        ) from error
    signature = program.graph_signature
    kinds: dict[str, str] = {}
    sources: dict[str, str] = {}
    constants: dict[str, Tensor] = {}
    for spec in signature.input_specs:
        if spec.kind in (InputKind.PARAMETER, InputKind.BUFFER):
            kinds[spec.arg.name], sources[spec.arg.name] = PARAMETER, str(spec.target)
        elif spec.kind == InputKind.CONSTANT_TENSOR:
            kinds[spec.arg.name], constants[spec.arg.name] = (
                PARAMETER,
                program.constants[str(spec.target)],
            )
    carried, mutations = _find_carried(program, args, carry)
    kinds |= dict.fromkeys(carried.values(), STATE) if carry else {}
    kinds |= {name: PARAMETER for name in sources}
    graph = from_graph(program.graph_module, kinds, carried)
    graph.outputs = graph.outputs[mutations:]
    _refuse_train_mode(module, graph)
    spec = program.call_spec.out_spec
    assert spec is not None
    return TracedModule(module, graph, spec, sources, constants)


def _refuse_train_mode(module: nn.Module, graph: Graph) -> None:
    """Raise PlanError if train mode has left dropout or batch statistics in the graph."""
    if not any(part.training for part in module.modules()):
        return
    for node in graph.unplanned:
        draws = torch.Tag.nondeterministic_seeded in getattr(node.op, "tags", ())
        if draws or "batch_norm" in str(node.op):
            raise PlanError(
                f"{type(module).__name__} is in train mode, in which {node.op} ({node.place}) has "
                "no plan: call .eval() first"
            )


def _find_carried(
    program: Any, args: tuple[Any, ...], carry: Carry | None
) -> tuple[dict[str, str], int]:
    """Return the input that each output replaces, and how many outputs serve only for that."""
    signature = program.graph_signature
    carried: dict[str, str] = {}
    by_target = {
        str(spec.target): spec.arg.name for spec in signature.input_specs if spec.target is not None
    }
    mutations = 0
    for spec in signature.output_specs:
        if spec.kind == OutputKind.USER_OUTPUT:
            continue
        mutations += 1
        target = str(spec.target)
        carried[spec.arg.name] = by_target.get(target, target)
    if carry is not None:
        at, back = carry
        begin = len(tree_leaves(args[:at]))
        inputs = [
            spec.arg.name for spec in signature.input_specs if spec.kind == InputKind.USER_INPUT
        ]
        old = inputs[begin : begin + len(tree_leaves(args[at]))]
        users = [
            spec.arg.name for spec in signature.output_specs if spec.kind == OutputKind.USER_OUTPUT
        ]
        new = _part(program.call_spec.out_spec, users, back)
        if len(old) != len(new):
            raise PlanError(
                f"output {back} has {len(new)} tensors, argument {at}, which it is to replace, "
                f"has {len(old)}"
            )
        carried |= dict(zip(new, old, strict=True))
    return carried, mutations


def _part(spec: TreeSpec, leaves: list[str], index: int) -> list[str]:
    """Return the leaves of one output."""
    sizes = [child.num_leaves for child in spec.children()]
    if index >= len(sizes):
        raise PlanError(f"output {index} does not exist: the module returns {len(sizes)}")
    begin = sum(sizes[:index])
    return leaves[begin : begin + sizes[index]]
