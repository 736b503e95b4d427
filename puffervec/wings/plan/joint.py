# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Traces a policy and a loss to one graph of forward pass, loss and backward pass.

AOTAutograd does the tracing. Operations without a rule are decomposed into ones that have one, if
torch has a decomposition; all others stay whole, so the plan runs the same operations as eager
mode. Random numbers become inputs: see `Noise`.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch._decomp import core_aten_decompositions
from torch._functorch.aot_autograd import aot_export_module
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import TreeSpec, tree_flatten, tree_unflatten

from puffervec.train.device.syncs import stack_of_callers
from puffervec.train.policies.whole import keep_whole
from puffervec.wings.plan.build import PlanError, from_graph
from puffervec.wings.plan.ir import INPUT, PARAMETER, SAVED, TEMPORARY, Graph
from puffervec.wings.plan.rules import find, is_view

aten = torch.ops.aten
Loss = Callable[[Any, Any], Any]


@dataclasses.dataclass(frozen=True)
class Noise:
    """An input of the graph that is filled with random numbers before each run.

    Attributes:
        name: name of the input.
        normal: whether to draw from the standard normal distribution, or uniformly from [0, 1).
    """

    name: str
    normal: bool

    def draw(self, into: Tensor, generator: torch.Generator | None) -> None:
        """Fill the input with new numbers."""
        if self.normal:
            into.normal_(generator=generator)
        else:
            into.uniform_(generator=generator)


@dataclasses.dataclass(frozen=True)
class Joint:
    """Forward pass, loss and backward pass.

    Attributes:
        graph: its outputs are the leaves of the loss's results, then one gradient per name in
            `gradients`.
        module: the graph as a torch module, for comparisons.
        sources: for each parameter's name in the graph, the name in the policy (a parameter or
            buffer).
        gradients: names of the policy's parameters, in the order of their gradients.
        noise: the inputs that come after those of the batch.
        loss_spec: tree structure of the loss's results.
    """

    graph: Graph
    module: fx.GraphModule
    sources: Mapping[str, str]
    gradients: tuple[str, ...]
    noise: tuple[Noise, ...]
    loss_spec: TreeSpec


class _Both(nn.Module):
    """A policy and its loss as one module whose inputs and outputs are tensors."""

    def __init__(self, policy: nn.Module, loss: Loss, batch: Any) -> None:
        super().__init__()
        self.policy, self._loss = policy, loss
        self._leaves, self._spec = tree_flatten(batch)
        self.loss_spec: TreeSpec | None = None

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        rest = iter(tensors)
        leaves = [next(rest) if isinstance(leaf, Tensor) else leaf for leaf in self._leaves]
        results, self.loss_spec = tree_flatten(
            self._loss(self.policy, tree_unflatten(leaves, self._spec))
        )
        if not results or not isinstance(results[0], Tensor) or results[0].numel() != 1:
            raise PlanError(
                "the loss must return a tensor with one number, or a tuple that begins with it"
            )
        return results[0].view(()), *(leaf.detach().clone() for leaf in results[1:])


def trace_joint(policy: nn.Module, loss: Loss, batch: Any) -> Joint:
    """Return the graph of a gradient step without the optimizer, for a batch of this shape.

    Args:
        policy: policy that has parameters.
        loss: called with the policy and the batch; returns a number to minimize, or a tuple that
            begins with it, as tensors.
        batch: example inputs.

    Raises:
        PlanError: torch cannot trace the step, or random numbers cannot become inputs.
    """
    both = _Both(policy, loss, batch)
    tensors = [leaf.detach() for leaf in tree_flatten(batch)[0] if isinstance(leaf, Tensor)]
    unused, places = _run_once(both, tensors)
    try:
        for parameter in unused:  # AOTAutograd requires a gradient for each parameter.
            parameter.requires_grad_(False)
        module, signature = _trace(both, tensors)
    finally:
        for parameter in unused:
            parameter.requires_grad_(True)
    noise = tuple(_noise_as_inputs(module, places))
    backward = signature.backward_signature
    assert backward is not None and both.loss_spec is not None
    sources = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
    if signature.buffers_to_mutate:
        raise PlanError(
            "the policy writes to its buffers "
            f"({', '.join(signature.buffers_to_mutate.values())}): freeze them"
        )
    kinds = dict.fromkeys(sources, PARAMETER) | dict.fromkeys(signature.user_inputs, INPUT)
    graph = from_graph(module, kinds)
    _mark(graph, backward.loss_output, places)
    names = {
        node: name.removeprefix("policy.")
        for node, name in backward.gradients_to_parameters.items()
    }
    return Joint(
        graph,
        module,
        {node: name.removeprefix("policy.") for node, name in sources.items()},
        tuple(names[output] for output in _outputs(module) if output in names),
        noise,
        both.loss_spec,
    )


def _outputs(module: fx.GraphModule) -> list[str]:
    return [
        node.name for node in next(iter(reversed(module.graph.nodes))).args[0] if node is not None
    ]


# ---- tracing -------------------------------------------------------------------------------------


def _trace(both: _Both, tensors: list[Tensor]) -> tuple[fx.GraphModule, Any]:
    """Trace until every operation has a rule, or torch cannot decompose it further."""
    known = {**core_aten_decompositions(), **_RANDOM}
    table: dict[Any, Any] = dict(_RANDOM)
    while True:
        module, signature = _export(both, tensors, table)
        missing = {node.target for node in module.graph.nodes if _needs_rule(node)}
        if not (more := {op: known[op] for op in missing if op in known and op not in table}):
            return module, signature
        table |= more


def _export(
    both: _Both, tensors: list[Tensor], table: dict[Any, Any]
) -> tuple[fx.GraphModule, Any]:
    try:
        with (
            warnings.catch_warnings(),
            keep_whole(),
            sdpa_kernel(SDPBackend.MATH),
        ):  # Fused backward passes have no rule.
            warnings.simplefilter("ignore")
            traced = aot_export_module(
                both, tensors, trace_joint=True, output_loss_index=0, decompositions=table
            )
    except PlanError:
        raise
    except Exception as error:
        first = str(error).strip().partition("\n")[0]
        raise PlanError(
            f"torch cannot trace the training step of {type(both.policy).__name__}: {first}"
        ) from error
    module, signature = traced
    assert isinstance(module, fx.GraphModule)
    for node in list(module.graph.nodes):
        if node.target is aten._assert_tensor_metadata.default:
            module.graph.erase_node(node)
    module.graph.eliminate_dead_code()
    return module, signature


def _needs_rule(node: fx.Node) -> bool:
    op = node.target
    return (
        isinstance(op, torch._ops.OpOverload)
        and not is_view(op)
        and find(op, _device(node)) is None
    )


def _device(node: fx.Node) -> torch.device:
    leaves = tree_flatten(node.meta.get("val"))[0]
    return next((leaf.device for leaf in leaves if isinstance(leaf, Tensor)), torch.device("cpu"))


def _mark(graph: Graph, loss: str, places: Mapping[Any, str]) -> None:
    """Mark the tensors that are saved for the backward pass; set the places of operations."""
    end = next(step for step, node in enumerate(graph.nodes, start=1) if loss in node.outputs)
    for tensor in graph.tensors.values():
        if tensor.kind == TEMPORARY and tensor.first <= end < graph.root(tensor.name).last:
            tensor.kind = SAVED
    for step, node in enumerate(graph.nodes, start=1):
        node.place = places.get(node.op, "forward pass" if step <= end else "backward pass")


class _Places(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Records the source line that first called each operation, in `lines`."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.lines: dict[Any, str] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func not in self.lines:
            frame = [frame for frame in stack_of_callers() if frame.filename != __file__][-1]
            self.lines[func] = f"{frame.filename}:{frame.lineno}: {frame.line}"
        return func(*args, **(kwargs or {}))


def _run_once(both: _Both, tensors: list[Tensor]) -> tuple[list[nn.Parameter], dict[Any, str]]:
    """Run the loss once without a plan.

    Returns: the parameters that the loss does not depend on, and the source line of each operation.
    """
    with _Places() as places:
        loss = both(*tensors)[0]
    if not loss.requires_grad:
        raise PlanError("the loss depends on no parameter of the policy")
    parameters = [parameter for parameter in both.parameters() if parameter.requires_grad]
    grads = torch.autograd.grad(loss, parameters, allow_unused=True)
    return [
        parameter for parameter, grad in zip(parameters, grads, strict=True) if grad is None
    ], places.lines


# ---- random numbers ------------------------------------------------------------------------------


def _dropout(x: Tensor, p: float, train: bool | None) -> tuple[Tensor, Tensor]:
    mask = torch.rand_like(x) >= p
    return x * mask * (1.0 / (1.0 - p) if p < 1 else 0.0), mask


def _bernoulli(x: Tensor, p: float | None = None, *, generator: Any = None) -> Tensor:
    return (torch.rand_like(x) < (x if p is None else p)).to(x.dtype)


_RANDOM: dict[Any, Any] = {
    aten.native_dropout.default: _dropout,
    aten.bernoulli.default: _bernoulli,
    aten.bernoulli.p: _bernoulli,
}
_DRAWS = {
    aten.rand.default: False,
    aten.rand_like.default: False,
    aten.randn.default: True,
    aten.randn_like.default: True,
}


def _noise_as_inputs(module: fx.GraphModule, places: Mapping[Any, str]) -> Iterator[Noise]:
    """Replace random draws by placeholders that follow the others.

    Raises:
        PlanError: the graph has other kinds of random draws.
    """
    last = [node for node in module.graph.nodes if node.op == "placeholder"][-1]
    for node in list(module.graph.nodes):
        if (
            not isinstance(node.target, torch._ops.OpOverload)
            or torch.Tag.nondeterministic_seeded not in node.target.tags
        ):
            continue
        if node.target not in _DRAWS:
            place = places.get(node.target, "no source known")
            raise PlanError(
                f"{node.target} ({place}) draws random numbers that cannot be an input of the "
                "plan: use rand, randn, bernoulli or dropout, or make the numbers a part of the "
                "batch"
            )
        with module.graph.inserting_after(last):
            last = module.graph.placeholder(f"noise_{node.name}")
        last.meta["val"] = node.meta["val"]
        node.replace_all_uses_with(last)
        module.graph.erase_node(node)
        yield Noise(last.name, _DRAWS[node.target])
    module.recompile()
