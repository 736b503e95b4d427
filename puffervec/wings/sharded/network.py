# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The forward pass of a network over columns, traced by torch.fx and run step by step.

A step follows its rule (rules.py) while it works on columns, and runs unchanged after a global
mean, Flatten or Gather. The weights stay the network's own. Runs in the learner of each rank.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import threading
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.utils.checkpoint import checkpoint

from puffervec.wings.sharded.columns import WidthError
from puffervec.wings.sharded.layers import Columns
from puffervec.wings.sharded.rules import FUNCTIONS, LAYERS, CannotShard, Pass

NO_RULE = (
    "it has no rule for columns: put a Gather() in front of it, after which each rank has whole "
    "pictures"
)
_TRACING = threading.Lock()


class _Tracer(fx.Tracer):
    """A tracer that ignores calls of other threads.

    This is needed because, while it traces, torch.fx changes nn.Module for all threads.
    """

    def trace(self, root: Any, concrete_args: dict[str, Any] | None = None) -> fx.Graph:
        self._thread = threading.get_ident()
        with _TRACING:
            return super().trace(root, concrete_args)

    def call_module(self, m: nn.Module, forward: Any, args: Any, kwargs: Any) -> Any:
        ours = threading.get_ident() == self._thread
        return super().call_module(m, forward, args, kwargs) if ours else forward(*args, **kwargs)

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Any]) -> Any:
        ours = threading.get_ident() == self._thread
        return super().getattr(attr, attr_val, parameter_proxy_cache) if ours else attr_val

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return type(m) in LAYERS or super().is_leaf_module(m, module_qualified_name)


@dataclasses.dataclass(frozen=True)
class _Segment:
    """Steps of a network that run together.

    Attributes:
        steps: in order.
        needs: nodes of earlier segments whose values this segment uses.
        gives: nodes whose values later segments use.
        last_use: the last user of each value in the whole network.
        from_pictures: nodes of the whole network that depend on the pictures, not only on weights.
    """

    steps: tuple[fx.Node, ...]
    needs: tuple[fx.Node, ...]
    gives: tuple[fx.Node, ...]
    last_use: Mapping[fx.Node, fx.Node]
    from_pictures: frozenset[fx.Node]


class Network:
    """The steps of a module's forward pass, which work on columns or on whole tensors."""

    def __init__(self, module: nn.Module, keep_every: int) -> None:
        """Trace the forward pass.

        Args:
            module: the network.
            keep_every: 0: keep all activations for the backward pass; otherwise recompute them in
                segments of at least that many steps.

        Raises:
            CannotShard: the forward pass cannot be traced.
        """
        self.module, self.keep_every = module, keep_every
        # By the module's train mode, which its forward pass may read.
        self._segments: dict[bool, list[_Segment]] = {}
        self.segments()

    def segments(self) -> list[_Segment]:
        """Return the segments of the forward pass; trace it when the mode is new."""
        training, name = self.module.training, type(self.module).__name__
        if training not in self._segments:
            try:
                graph = _Tracer().trace(self.module)
            except Exception as error:
                raise CannotShard(
                    f"{name}: torch.fx cannot follow its forward ({type(error).__name__}: "
                    f"{str(error).splitlines()[0]}): shard the part of it that is convolutions "
                    "alone, such as an nn.Sequential"
                ) from error
            if sum(node.op == "placeholder" for node in graph.nodes) != 1:
                raise CannotShard(
                    f"{name}: its forward takes several arguments: shard the part that takes "
                    "pictures alone"
                )
            self._segments[training] = _cut(graph, self.keep_every)
        return self._segments[training]

    def run(self, run: Pass, x: Columns) -> Any:
        """Return the network's result for columns, which is columns or whole tensors."""
        values: dict[fx.Node, Any] = {}
        *before, last = self.segments()
        for segment in before:
            known = {node: values[node] for node in segment.needs}
            forward = functools.partial(self._steps, run, segment, known, x)
            results = (
                checkpoint(forward, use_reentrant=False) if torch.is_grad_enabled() else forward()
            )
            values.update(zip(segment.gives, results, strict=True))
        return self._steps(run, last, values, x)[0]

    def _steps(
        self, run: Pass, segment: _Segment, known: Mapping[fx.Node, Any], x: Columns
    ) -> tuple[Any, ...]:
        values = dict(known)
        for node in segment.steps:
            with _name_layer(self.module, node):
                values[node] = (
                    x
                    if node.op == "placeholder"
                    else self._step(run, node, values, segment.from_pictures)
                )
            for used in node.all_input_nodes:  # Free values after their last use.
                if used not in segment.gives and segment.last_use.get(used) is node:
                    values.pop(used, None)
        return tuple(values[node] for node in segment.gives)

    def _step(
        self,
        run: Pass,
        node: fx.Node,
        values: Mapping[fx.Node, Any],
        from_pictures: frozenset[fx.Node],
    ) -> Any:
        def value(of: fx.Node) -> Any:
            return values[of] if of.op != "get_attr" else _attribute(self.module, str(of.target))

        args, kwargs = fx.node.map_arg((node.args, dict(node.kwargs)), value)
        if node.op == "output":
            return args[0]
        on_columns = any(isinstance(values.get(of), Columns) for of in node.all_input_nodes)
        if node.op == "call_module":
            layer = self.module.get_submodule(str(node.target))
            if not on_columns:
                return layer(*args, **kwargs)
            if type(layer) not in LAYERS:
                raise CannotShard(NO_RULE)
            return LAYERS[type(layer)](run, layer, node.target, *args, **kwargs)
        if not on_columns:
            function: Any = (
                getattr(type(args[0]), str(node.target))
                if node.op == "call_method"
                else node.target
            )
            return function(*args, **kwargs)
        if node.target not in FUNCTIONS:
            raise CannotShard(NO_RULE)

        def whole_value(of: fx.Node) -> Any:
            whole = run.parameter(str(of.target)) if _is_parameter(self.module, of) else value(of)
            if not isinstance(whole, Tensor):
                return whole
            if of in from_pictures and not run.region.takes_whole:
                raise CannotShard(
                    "combines columns with values of whole pictures, which is impossible where "
                    "each rank has separate rows"
                )
            return run.share_grad(whole)

        args, kwargs = fx.node.map_arg((node.args, dict(node.kwargs)), whole_value)
        return FUNCTIONS[node.target](run, *args, **kwargs)


def _cut(graph: fx.Graph, keep_every: int) -> list[_Segment]:
    """Cut the steps of a graph into segments, with only one value passed between two of them."""
    steps = [node for node in graph.nodes if node.op != "get_attr"]
    last_use = {used: node for node in steps for used in node.all_input_nodes}
    place = {node: index for index, node in enumerate(steps)}
    from_pictures: set[fx.Node] = set()
    for node in steps:
        if node.op == "placeholder" or not from_pictures.isdisjoint(node.all_input_nodes):
            from_pictures.add(node)
    segments: list[_Segment] = []
    begin = 0
    needs: tuple[fx.Node, ...] = ()

    def add(end: int, gives: tuple[fx.Node, ...]) -> None:
        segments.append(
            _Segment(tuple(steps[begin:end]), needs, gives, last_use, frozenset(from_pictures))
        )

    for index, node in enumerate(steps):
        if node.op == "output":
            add(len(steps), (node,))
        elif keep_every and index - begin >= keep_every:
            crossing = tuple(
                n for n in steps[: index + 1] if n in last_use and place[last_use[n]] > index
            )
            if len(crossing) == 1:
                add(index + 1, crossing)
                begin, needs = index + 1, crossing
    return segments


def _attribute(module: nn.Module, name: str) -> Any:
    owner, _, last = name.rpartition(".")
    return getattr(module.get_submodule(owner), last)


def _is_parameter(module: nn.Module, node: fx.Node) -> bool:
    return node.op == "get_attr" and isinstance(_attribute(module, str(node.target)), nn.Parameter)


@contextlib.contextmanager
def _name_layer(module: nn.Module, node: fx.Node) -> Iterator[None]:
    """Add the layer's name to errors about splitting it."""
    try:
        yield
    except (CannotShard, WidthError) as error:
        if node.op == "call_module":
            where = f"layer {node.target} ({type(module.get_submodule(str(node.target))).__name__})"
        else:
            name = (
                node.target
                if isinstance(node.target, str)
                else getattr(node.target, "__name__", str(node.target))
            )
            stack = list(node.meta.get("nn_module_stack", {}))
            where = f"{name} in {stack[-1] if stack and stack[-1] else 'forward'}"
        raise type(error)(f"{where}: {error}") from None
