# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""From a graph of torch to the representation in ir.py: `from_graph(graph_module)`.

Any functional `torch.fx.GraphModule` of ATen operations whose nodes know their shapes
(`meta["val"]`) will do: that of `torch.export.export(...).run_decompositions()`, of `make_fx`, or a
joint graph of AOTAutograd. The one operation that may write to an input is `aten.copy_` into a
placeholder: it says what replaces that input for the next run.
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
    """Something that cannot be planned, or gives other numbers than it should."""


def from_graph(
    graph_module: fx.GraphModule,
    kinds: Mapping[str, str] | None = None,
    carried: Mapping[str, str] | None = None,
) -> Graph:
    """Return the nodes and tensors of a graph, with lifetimes; `arena.place` gives them addresses.

    Args:
        kinds: of tensors by the name of their node, see `TensorDesc`; placeholders are inputs and
            other tensors temporaries (or outputs) where it says nothing.
        carried: by node: the placeholder that its output replaces for the next run.
    Raises: PlanError: sizes that are not known, or an operation that writes to its inputs, each
        with its place.
    """
    return _Builder(graph_module, dict(kinds or {}), dict(carried or {})).build()


class _Builder:
    """Reads one graph."""

    def __init__(
        self, graph_module: fx.GraphModule, kinds: dict[str, str], carried: dict[str, str]
    ) -> None:
        self.module, self.kinds, self.carried = graph_module, kinds, carried
        self.graph = Graph([], {}, [], [])
        self.values: dict[
            fx.Node, Any
        ] = {}  # what a node's result is: a Ref, a list of these, or a constant
        self.ghosts: dict[
            str, Tensor
        ] = {}  # each tensor without memory, so that views can be asked for their layout

    def build(self) -> Graph:
        """Read the nodes in order, then set lifetimes."""
        used = _used(self.module.graph)
        for node in self.module.graph.nodes:
            if node.op == "placeholder":
                self._placeholder(node)
            elif node.op == "get_attr":
                self._constant(node)
            elif node.op == "output":
                self.graph.outputs = [self._value(leaf) for leaf in tree_leaves(node.args[0])]
            elif node in used:
                self._call(node)
        self._carry()
        self._live()
        return self.graph

    # ---- tensors

    def _add(self, name: str, like: Tensor, kind: str) -> Ref:
        """Add a tensor with memory of its own. Args: like: has its shape and layout."""
        stride = tuple(like.stride()) if _dense(like) else _in_order(like.shape)
        self._describe(
            TensorDesc(name, tuple(like.shape), stride, like.dtype, like.device, kind, name)
        )
        self.ghosts[name] = torch.empty_strided(like.shape, stride, dtype=like.dtype, device="meta")
        return Ref(name)

    def _describe(self, tensor: TensorDesc) -> None:
        """Add a tensor that the next node makes, or that is there before the first."""
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
        _known(node, value)
        kind = self.kinds.get(node.name, INPUT)
        self.values[node] = self._add(node.name, value, kind)
        if kind != PARAMETER:
            self.graph.inputs.append(node.name)

    def _constant(self, node: fx.Node) -> None:
        value = operator.attrgetter(str(node.target))(self.module)
        if not isinstance(value, Tensor):
            raise PlanError(
                f"{node.name} ({place_of(node)}): a graph inside of the graph cannot be planned"
            )
        self.graph.constants[node.name] = value.detach()
        self.values[node] = self._add(node.name, value, PARAMETER)

    def _value(self, argument: Any) -> Any:
        """An argument with a Ref for each tensor."""
        if isinstance(argument, fx.Node):
            return self.values[argument]
        if isinstance(argument, (list, tuple)):
            items = [self._value(item) for item in argument]
            return tuple(items) if isinstance(argument, tuple) else items
        if isinstance(argument, Mapping):
            return {key: self._value(item) for key, item in argument.items()}
        return argument

    def _ghost(self, argument: Any) -> Any:
        """The same with tensors that have no memory."""
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
        """A tensor, or several, in the memory of the first argument."""
        target: Any = node.target
        base = self.graph.root(args[0].name)
        try:
            shown = target(*self._ghost(args), **kwargs)
        except RuntimeError as error:
            raise PlanError(f"{node.name} ({place_of(node)}): {error}") from error
        several = isinstance(shown, (list, tuple))
        found = []
        for index, ghost in enumerate(shown if several else [shown]):
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
            found.append(Ref(name))
        self._append(node, args, kwargs, [ref.name for ref in found], view=True)
        self.values[node] = found if several else found[0]

    def _operation(self, node: fx.Node, args: Any, kwargs: Any) -> None:
        """An operation that makes new tensors."""
        value, target = node.meta.get("val"), node.target
        made = list(value) if isinstance(value, (list, tuple)) else [value]
        if not all(isinstance(tensor, Tensor) or tensor is None for tensor in made) or not made:
            raise PlanError(
                f"{node.name} ({place_of(node)}): {target} does not give tensors: it cannot be "
                "planned"
            )
        if (schema := getattr(target, "_schema", None)) is not None and schema.is_mutable:
            raise PlanError(
                f"{node.name} ({place_of(node)}): {target} writes to its inputs: give a "
                "functional graph"
            )
        names = []
        for index, tensor in enumerate(made):
            if tensor is not None:
                _known(node, tensor)
                names.append(
                    f"{node.name}_{index}" if isinstance(value, (list, tuple)) else node.name
                )
                self._add(names[-1], tensor, self.kinds.get(names[-1], TEMPORARY))
        self._append(node, args, kwargs, names)
        left = iter(names)
        results = [None if tensor is None else Ref(next(left)) for tensor in made]
        self.values[node] = results if isinstance(value, (list, tuple)) else results[0]

    def _append(
        self, node: fx.Node, args: Any, kwargs: Any, outputs: list[str], view: bool = False
    ) -> None:
        taken = tuple(dict.fromkeys(ref.name for ref in refs((args, kwargs))))
        device = self.graph.tensors[outputs[0]].device
        rule = None if view else find(node.target, device)
        step = len(self.graph.nodes) + 1
        spaces = [] if rule is None else self._workspace(rule, args, kwargs)
        workspace = tuple(f"{node.name}.workspace{index}" for index in range(len(spaces)))
        for name, space in zip(workspace, spaces, strict=True):
            self._add(name, space, WORKSPACE)
            added = self.graph.tensors[name]
            added.device, added.last = device, step
        self.graph.nodes.append(
            Node(
                node.name, node.target, (args, kwargs), taken, tuple(outputs),
                parameters=tuple(name for name in taken if self.graph.root(name).kind == PARAMETER),
                in_place=() if rule is None else tuple(args[i].name for i in rule.in_place if _is_ref(args, i)),
                view=view,
                planned=view or rule is not None,
                workspace=workspace,
                workspace_bytes=sum(self.graph.tensors[name].nbytes for name in workspace),
                place=place_of(node),
            )
        )  # fmt: skip

    def _workspace(self, rule: Rule, args: Any, kwargs: Any) -> list[Tensor]:
        return (
            list(rule.workspace(*self._ghost(args), **self._ghost_words(kwargs)))
            if rule.workspace is not None
            else []
        )

    def _ghost_words(self, kwargs: Mapping[str, Any]) -> dict[str, Any]:
        return {key: self._ghost(value) for key, value in kwargs.items()}

    # ---- lifetimes

    def _carry(self) -> None:
        """Give what replaces an input memory of its own, where it would show an input's that is
        replaced itself.
        """
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
        """Add a node that copies a tensor; return the copy."""
        graph, copy = self.graph, f"{name}_copy"
        if copy not in graph.tensors:
            given = graph.tensors[name]
            stride = _in_order(given.shape)
            self._describe(
                TensorDesc(copy, given.shape, stride, given.dtype, given.device, TEMPORARY, copy)
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


def _used(graph: fx.Graph) -> set[fx.Node]:
    """Return the nodes that an output needs, and those that write to a placeholder."""
    wanted = [
        node for node in graph.nodes if node.op == "output" or node.target is aten.copy_.default
    ]
    found: set[fx.Node] = set()
    while wanted:
        node = wanted.pop()
        if node not in found:
            found.add(node)
            wanted.extend(node.all_input_nodes)
    return found


def _dense(tensor: Tensor) -> bool:
    """True where the numbers fill their memory, in whatever order."""
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
    """The steps of a contiguous tensor."""
    return tuple(torch.empty(tuple(shape), device="meta").stride())


def _is_ref(args: Any, index: int) -> bool:
    return index < len(args) and isinstance(args[index], Ref)


def _known(node: fx.Node, tensor: Tensor) -> None:
    """Raise PlanError where a size is not a number."""
    if not all(type(size) is int for size in (*tensor.shape, *tensor.stride())):
        raise PlanError(
            f"{node.name} ({place_of(node)}): its shape {tuple(tensor.shape)} is not fixed: use "
            "one plan per size"
        )


_FRAME = re.compile(r'File "([^"]+)", line (\d+), in (\S+)\n\s*(.*)')


def place_of(node: fx.Node) -> str:
    """Return who asked for an operation: the module's path and the line of source, as far as torch
    has kept them.
    """
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
    """Raise PlanError where operations have no rule: one line each, with its place."""
    if graph.unplanned:
        lines = [f"  {node.op} at {node.name} ({node.place})" for node in graph.unplanned]
        words = (
            "no rule says how these operations run in planned memory; plan.rule adds one, mode "
            "eager needs none:"
        )
        raise PlanError("\n".join([words, *lines]))
