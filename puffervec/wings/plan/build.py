# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Conversion of a torch graph to the representation in ir.py: `from_graph(graph_module)`.

The input is any functional `torch.fx.GraphModule` of ATen operations whose nodes have their shapes
in `meta["val"]`: from `torch.export.export(...).run_decompositions()`, from `make_fx`, or a joint
graph of AOTAutograd. The only operation that may write to an input is `aten.copy_` into a
placeholder, which replaces that input for the next run.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, fx
from torch.utils._pytree import tree_leaves

from puffervec.errors import PuffervecError
from puffervec.wings.plan.calls import Rule
from puffervec.wings.plan.ir import (
    INPUT,
    OUTPUT,
    PARAMETER,
    STATE,
    TEMPORARY,
    WORKSPACE,
    Graph,
    Node,
    Ref,
    TensorDesc,
    refs,
)
from puffervec.wings.plan.rules import find, is_view

aten = torch.ops.aten


class PlanError(PuffervecError):
    """A module cannot be planned, or its plan's results differ from the module's."""


def from_graph(
    graph_module: fx.GraphModule,
    kinds: Mapping[str, str] | None = None,
    carried: Mapping[str, str] | None = None,
) -> Graph:
    """Return the nodes and tensors of a graph, with lifetimes; `arena.place` gives them addresses.

    Args:
        graph_module: graph module of ATen operations.
        kinds: kinds of tensors (see `TensorDesc`) by the name of their node. By default
            placeholders are inputs, and other tensors temporaries or outputs.
        carried: for each node, the placeholder that its output replaces for the next run.

    Raises:
        PlanError: a size is not known, or an operation writes to its inputs; the message names the
            place.
    """
    return _Builder(graph_module, dict(kinds or {}), dict(carried or {})).build()


class _Builder:
    """Reads a torch graph into a `Graph`."""

    def __init__(
        self, graph_module: fx.GraphModule, kinds: dict[str, str], carried: dict[str, str]
    ) -> None:
        self.module, self.kinds, self.carried = graph_module, kinds, carried
        self.graph = Graph([], {}, [], [])
        self.values: dict[fx.Node, Any] = {}  # By node: a Ref, a list of these, or a constant.
        # Each tensor on the device meta, from which the layout of views is computed.
        self.ghosts: dict[str, Tensor] = {}

    def build(self) -> Graph:
        """Read the nodes in order, then set lifetimes."""
        needed = _needed_nodes(self.module.graph)
        for node in self.module.graph.nodes:
            if node.op == "placeholder":
                self._placeholder(node)
            elif node.op == "get_attr":
                self._constant(node)
            elif node.op == "output":
                self.graph.outputs = [self._value(leaf) for leaf in tree_leaves(node.args[0])]
            elif node in needed:
                self._call(node)
        self._carry()
        self._live()
        return self.graph

    # ---- tensors

    def _add(self, name: str, like: Tensor, kind: str) -> Ref:
        """Add a tensor with separate memory. Args: like: a tensor with its shape and layout."""
        stride = tuple(like.stride()) if _dense(like) else _in_order(like.shape)
        self._describe(
            TensorDesc(name, tuple(like.shape), stride, like.dtype, like.device, kind, name)
        )
        self.ghosts[name] = torch.empty_strided(like.shape, stride, dtype=like.dtype, device="meta")
        return Ref(name)

    def _describe(self, tensor: TensorDesc) -> None:
        """Add a tensor that the next node writes, or that exists before the first node."""
        tensor.first = (
            len(self.graph.nodes) + 1
            if tensor.kind not in (INPUT, STATE, PARAMETER) or tensor.is_view
            else 0
        )
        self.graph.tensors[tensor.name] = tensor

    def _placeholder(self, node: fx.Node) -> None:
        value = node.meta.get("val")
        if not isinstance(value, Tensor):
            self.values[node] = value
            self.graph.inputs.append(None)
            return
        _check_sizes(node, value)
        kind = self.kinds.get(node.name, INPUT)
        self.values[node] = self._add(node.name, value, kind)
        if kind != PARAMETER:
            self.graph.inputs.append(node.name)

    def _constant(self, node: fx.Node) -> None:
        value = operator.attrgetter(str(node.target))(self.module)
        if not isinstance(value, Tensor):
            raise PlanError(
                f"{node.name} ({place_of(node)}): a graph within the graph cannot be planned"
            )
        self.graph.constants[node.name] = value.detach()
        self.values[node] = self._add(node.name, value, PARAMETER)

    def _value(self, argument: Any) -> Any:
        """Return an argument with a Ref for each tensor."""
        if isinstance(argument, fx.Node):
            return self.values[argument]
        if isinstance(argument, (list, tuple)):
            items = [self._value(item) for item in argument]
            return tuple(items) if isinstance(argument, tuple) else items
        if isinstance(argument, Mapping):
            return {key: self._value(item) for key, item in argument.items()}
        return argument

    def _ghost(self, argument: Any) -> Any:
        """Return an argument with a meta tensor for each Ref."""
        if isinstance(argument, Ref):
            return self.ghosts[argument.name]
        if isinstance(argument, (list, tuple)):
            return type(argument)(self._ghost(item) for item in argument)
        return argument

    # ---- operations

    def _call(self, node: fx.Node) -> None:
        args, kwargs = self._value(node.args), self._value(node.kwargs)
        if node.target is operator.getitem:
            self.values[node] = args[0][args[1]]
        elif node.target is aten.copy_.default and self._is_placeholder(args[0]):
            self.graph.carried[args[1].name] = args[0].name
            self.values[node] = args[1]
        elif is_view(node.target):
            self._view(node, args, kwargs)
        else:
            self._operation(node, args, kwargs)

    def _is_placeholder(self, value: Any) -> bool:
        return isinstance(value, Ref) and value.name in {
            n.name for n in self.values if n.op == "placeholder"
        }

    def _view(self, node: fx.Node, args: Any, kwargs: Any) -> None:
        """Add a view, or several, of the first argument's memory."""
        target: Any = node.target
        base = self.graph.root(args[0].name)
        try:
            views = target(*self._ghost(args), **kwargs)
        except RuntimeError as error:
            raise PlanError(f"{node.name} ({place_of(node)}): {error}") from error
        several = isinstance(views, (list, tuple))
        results = []
        for index, ghost in enumerate(views if several else [views]):
            name, layout = (
                f"{node.name}_{index}" if several else node.name,
                (tuple(ghost.shape), tuple(ghost.stride())),
            )
            kind, start = (
                self.kinds.get(name, base.kind),
                ghost.storage_offset() * ghost.dtype.itemsize,
            )
            self._describe(
                TensorDesc(name, *layout, ghost.dtype, base.device, kind, base.name, start)
            )
            self.ghosts[name] = ghost
            results.append(Ref(name))
        self._append(node, args, kwargs, [ref.name for ref in results], view=True)
        self.values[node] = results if several else results[0]

    def _operation(self, node: fx.Node, args: Any, kwargs: Any) -> None:
        """Add an operation that returns new tensors."""
        value, target = node.meta.get("val"), node.target
        results = list(value) if isinstance(value, (list, tuple)) else [value]
        if not results or not all(isinstance(x, Tensor) or x is None for x in results):
            raise PlanError(
                f"{node.name} ({place_of(node)}): {target} does not return tensors, so it cannot "
                "be planned"
            )
        if (schema := getattr(target, "_schema", None)) is not None and schema.is_mutable:
            raise PlanError(
                f"{node.name} ({place_of(node)}): {target} writes to its inputs: use a functional "
                "graph"
            )
        names = []
        for index, tensor in enumerate(results):
            if tensor is not None:
                _check_sizes(node, tensor)
                names.append(
                    f"{node.name}_{index}" if isinstance(value, (list, tuple)) else node.name
                )
                self._add(names[-1], tensor, self.kinds.get(names[-1], TEMPORARY))
        self._append(node, args, kwargs, names)
        left = iter(names)
        refs_or_none = [None if tensor is None else Ref(next(left)) for tensor in results]
        self.values[node] = refs_or_none if isinstance(value, (list, tuple)) else refs_or_none[0]

    def _append(
        self, node: fx.Node, args: Any, kwargs: Any, outputs: list[str], view: bool = False
    ) -> None:
        inputs = tuple(dict.fromkeys(ref.name for ref in refs((args, kwargs))))
        device = self.graph.tensors[outputs[0]].device
        rule = None if view else find(node.target, device)
        step = len(self.graph.nodes) + 1
        spaces = [] if rule is None else self._workspace(rule, args, kwargs)
        workspace = tuple(f"{node.name}.workspace{index}" for index in range(len(spaces)))
        for name, space in zip(workspace, spaces, strict=True):
            self._add(name, space, WORKSPACE)
            added = self.graph.tensors[name]
            added.device, added.last = device, step
        in_place = () if rule is None else rule.in_place
        self.graph.nodes.append(
            Node(
                node.name,
                node.target,
                (args, kwargs),
                inputs,
                tuple(outputs),
                parameters=tuple(n for n in inputs if self.graph.root(n).kind == PARAMETER),
                in_place=tuple(args[i].name for i in in_place if _is_ref(args, i)),
                view=view,
                planned=view or rule is not None,
                workspace=workspace,
                workspace_bytes=sum(self.graph.tensors[name].nbytes for name in workspace),
                place=place_of(node),
            )
        )

    def _workspace(self, rule: Rule, args: Any, kwargs: Any) -> list[Tensor]:
        return (
            list(rule.workspace(*self._ghost(args), **self._ghost_kwargs(kwargs)))
            if rule.workspace is not None
            else []
        )

    def _ghost_kwargs(self, kwargs: Mapping[str, Any]) -> dict[str, Any]:
        return {key: self._ghost(value) for key, value in kwargs.items()}

    # ---- lifetimes

    def _carry(self) -> None:
        """Copy a new value to separate memory if it is a view of an input that is replaced."""
        graph = self.graph
        names = {
            node.name: value.name for node, value in self.values.items() if isinstance(value, Ref)
        }
        graph.carried |= {names[output]: names[target] for output, target in self.carried.items()}
        replaced = {graph.root(target).name for target in graph.carried.values()}
        for index, value in enumerate(graph.outputs):
            if isinstance(value, Ref) and graph.root(value.name).name in replaced:
                graph.outputs[index] = Ref(self._clone(value.name))
        for output, target in list(graph.carried.items()):
            if graph.root(output).name in replaced and output != target:
                del graph.carried[output]
                graph.carried[self._clone(output)] = target
            elif output == target:
                del graph.carried[output]

    def _clone(self, name: str) -> str:
        """Add a node that copies a tensor; return the name of the copy."""
        graph, copy = self.graph, f"{name}_copy"
        if copy not in graph.tensors:
            source = self.graph.tensors[name]
            stride = _in_order(source.shape)
            self._describe(
                TensorDesc(copy, source.shape, stride, source.dtype, source.device, TEMPORARY, copy)
            )
            graph.nodes.append(Node(copy, aten.clone.default, ((Ref(name),), {}), (name,), (copy,)))
        return copy

    def _live(self) -> None:
        """Set the last step of each tensor, and the kind of outputs."""
        graph = self.graph
        for step, node in enumerate(graph.nodes, start=1):
            for name in () if node.view else node.inputs:
                graph.tensors[name].last = step
        for name in graph.output_names():
            graph.tensors[name].last = graph.end
            root = graph.root(name)
            for tensor in (root, graph.tensors[name]):
                if tensor.kind == TEMPORARY and tensor.name not in self.kinds:
                    tensor.kind = OUTPUT
        for target in graph.carried.values():
            if graph.tensors[target].kind == INPUT:
                graph.tensors[target].kind = STATE


def _needed_nodes(graph: fx.Graph) -> set[fx.Node]:
    """Return the nodes that an output needs, and those that write to a placeholder."""
    pending = [
        node for node in graph.nodes if node.op == "output" or node.target is aten.copy_.default
    ]
    needed: set[fx.Node] = set()
    while pending:
        node = pending.pop()
        if node not in needed:
            needed.add(node)
            pending.extend(node.all_input_nodes)
    return needed


def _dense(tensor: Tensor) -> bool:
    """Return whether the elements fill their memory, in any order."""
    steps = sorted(
        (step, size) for size, step in zip(tensor.shape, tensor.stride(), strict=True) if size != 1
    )
    reach = 1
    for step, size in steps:
        if step != reach:
            return False
        reach *= size
    return True


def _in_order(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the strides of a contiguous tensor."""
    return tuple(torch.empty(tuple(shape), device="meta").stride())


def _is_ref(args: Any, index: int) -> bool:
    return index < len(args) and isinstance(args[index], Ref)


def _check_sizes(node: fx.Node, tensor: Tensor) -> None:
    """Raise PlanError if a size is not a number."""
    if not all(type(size) is int for size in (*tensor.shape, *tensor.stride())):
        raise PlanError(
            f"{node.name} ({place_of(node)}): its shape {tuple(tensor.shape)} is not fixed: use "
            "one plan per size"
        )


_FRAME = re.compile(r'File "([^"]+)", line (\d+), in (\S+)\n\s*(.*)')


def place_of(node: fx.Node) -> str:
    """Return where an operation comes from: module path and source line, as far as torch knows."""
    parts = []
    stack = node.meta.get("nn_module_stack") or {}
    paths = [str(entry[0]) for entry in stack.values() if entry[0]]
    if paths:
        parts.append(paths[-1].removeprefix("L['self']").strip("."))
    frames = _FRAME.findall(node.meta.get("stack_trace") or "")
    if frames:
        file, line, _, code = frames[-1]
        parts.append(f"{file}:{line}: {code.strip()}")
    return ", ".join(part for part in parts if part) or "no source known"


def refuse_unplanned(graph: Graph) -> None:
    """Raise PlanError with a line per operation that has no rule, and its place."""
    if graph.unplanned:
        lines = [f"  {node.op} at {node.name} ({node.place})" for node in graph.unplanned]
        head = (
            "these operations have no rule to run in planned memory; plan.rule adds one, mode "
            "eager needs none:"
        )
        raise PlanError("\n".join([head, *lines]))
