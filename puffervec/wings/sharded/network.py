# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The forward pass of a network over columns, written down by torch.fx and worked off step by step.

A step follows its rule (rules.py) while it works on columns, and is called as it stands behind a
global mean, Flatten or Gather. The weights stay the network's own. Runs in the learner of each
rank.
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
from torch.utils.checkpoint import checkpoint as recomputed

from puffervec.wings.sharded.columns import WidthError
from puffervec.wings.sharded.layers import Columns
from puffervec.wings.sharded.rules import FUNCTIONS, LAYERS, CannotShard, Pass

NO_RULE = (
    "it has no rule for columns: put a Gather() in front of it, behind which each rank has whole "
    "pictures"
)
_TRACING = threading.Lock()


class _Tracer(fx.Tracer):
    """While it traces, torch.fx changes nn.Module for all threads; those of others go on as if it
    had not.
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
class _Stretch:
    """Steps of a network that are worked off together.

    needs: values of earlier ones; gives: those that later ones need; of the whole network:
    last_use: of each value; fed: what is made of the pictures, and not of weights alone.
    """

    steps: tuple[fx.Node, ...]
    needs: tuple[fx.Node, ...]
    gives: tuple[fx.Node, ...]
    last_use: Mapping[fx.Node, fx.Node]
    fed: frozenset[fx.Node]


class Network:
    """What a module's forward does, step by step, with columns or without."""

    def __init__(self, module: nn.Module, keep_every: int) -> None:
        """Write down the forward pass.

        Args: keep_every: 0: keep what backward needs; else compute it again, in stretches of at
        least so many steps.
        Raises: CannotShard where forward cannot be written down.
        """
        self.module, self.keep_every = module, keep_every
        self._stretches: dict[
            bool, list[_Stretch]
        ] = {}  # By whether the module trains: forward may ask for that.
        self.stretches()

    def stretches(self) -> list[_Stretch]:
        """Return the steps of forward; written down anew when the module is first used in its other
        mode.
        """
        training, name = self.module.training, type(self.module).__name__
        if training not in self._stretches:
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
            self._stretches[training] = _cut(graph, self.keep_every)
        return self._stretches[training]

    def run(self, run: Pass, x: Columns) -> Any:
        """Return what the network makes of columns: columns, or whole numbers."""
        values: dict[fx.Node, Any] = {}
        *before, last = self.stretches()
        for stretch in before:
            known = {node: values[node] for node in stretch.needs}
            forward = functools.partial(self._steps, run, stretch, known, x)
            found = (
                recomputed(forward, use_reentrant=False) if torch.is_grad_enabled() else forward()
            )
            values.update(zip(stretch.gives, found, strict=True))
        return self._steps(run, last, values, x)[0]

    def _steps(
        self, run: Pass, stretch: _Stretch, known: Mapping[fx.Node, Any], x: Columns
    ) -> tuple[Any, ...]:
        values = dict(known)
        for node in stretch.steps:
            with _named(self.module, node):
                values[node] = (
                    x if node.op == "placeholder" else self._step(run, node, values, stretch.fed)
                )
            for used in node.all_input_nodes:  # What nobody needs any more is not kept.
                if used not in stretch.gives and stretch.last_use.get(used) is node:
                    values.pop(used, None)
        return tuple(values[node] for node in stretch.gives)

    def _step(
        self, run: Pass, node: fx.Node, values: Mapping[fx.Node, Any], fed: frozenset[fx.Node]
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

        def beside(of: fx.Node) -> Any:
            found = run.parameter(str(of.target)) if _is_parameter(self.module, of) else value(of)
            if not isinstance(found, Tensor):
                return found
            if of in fed and not run.region.beside:
                raise CannotShard(
                    "takes numbers of whole pictures beside columns, which ranks with rows of "
                    "their own cannot"
                )
            return run.beside(found)

        args, kwargs = fx.node.map_arg((node.args, dict(node.kwargs)), beside)
        return FUNCTIONS[node.target](run, *args, **kwargs)


def _cut(graph: fx.Graph, keep_every: int) -> list[_Stretch]:
    """Return the steps of a graph in stretches, between which one value alone crosses."""
    steps = [node for node in graph.nodes if node.op != "get_attr"]
    last_use = {used: node for node in steps for used in node.all_input_nodes}
    place = {node: index for index, node in enumerate(steps)}
    fed: set[fx.Node] = set()
    for node in steps:
        if node.op == "placeholder" or not fed.isdisjoint(node.all_input_nodes):
            fed.add(node)
    found: list[_Stretch] = []
    begin = 0
    needs: tuple[fx.Node, ...] = ()
    for index, node in enumerate(steps):
        if node.op == "output":
            found.append(_Stretch(tuple(steps[begin:]), needs, (node,), last_use, frozenset(fed)))
        elif keep_every and index - begin >= keep_every:
            crossing = tuple(
                n for n in steps[: index + 1] if n in last_use and place[last_use[n]] > index
            )
            if len(crossing) == 1:
                found.append(
                    _Stretch(
                        tuple(steps[begin : index + 1]), needs, crossing, last_use, frozenset(fed)
                    )
                )
                begin, needs = index + 1, crossing
    return found


def _attribute(module: nn.Module, name: str) -> Any:
    owner, _, last = name.rpartition(".")
    return getattr(module.get_submodule(owner), last)


def _is_parameter(module: nn.Module, node: fx.Node) -> bool:
    return node.op == "get_attr" and isinstance(_attribute(module, str(node.target)), nn.Parameter)


@contextlib.contextmanager
def _named(module: nn.Module, node: fx.Node) -> Iterator[None]:
    """Say at which layer a network cannot be split."""
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
