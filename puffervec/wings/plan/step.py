# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""A gradient step with planned memory: `plan.compile_step(policy, loss, optimizer, batch)`.

    batch, noise  --[ forward | loss | backward ]-->  gradients  --[ clip | optimizer ]-->  weights

The first brackets are one graph (joint.py) in one arena: activations that the backward pass needs,
gradients and all intermediate tensors have lifetimes and share memory. The optimizer works in
place, on gradients that are in the arena.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

from puffervec.wings.plan import draw, report
from puffervec.wings.plan.arena import place
from puffervec.wings.plan.arguments import Arguments
from puffervec.wings.plan.build import PlanError
from puffervec.wings.plan.executor import PolicyExecutor
from puffervec.wings.plan.joint import Joint, Loss, trace_joint
from puffervec.wings.plan.policy import TOLERANCES, difference


class Optimizer(Protocol):
    """An optimizer that updates parameters in place, of `torch.optim` or the trainer."""

    def step(self) -> Any:
        """Take a step."""


class StepPlan:
    """A gradient step in planned memory, for batches of fixed shapes.

    Attributes:
        inputs: the batch as fixed tensors, to be written before each run; their memory is reused
            once they have been read.
        outputs: the loss's results, as fixed tensors that the next run overwrites.
        gradients: fixed tensors by parameter; each run sets the parameters' `grad` to them.
        grad_norm: () norm over all gradients before clipping; None without clipping.
        difference: the largest difference of loss and gradients from eager mode when the plan was
            made, relative to numbers above 1.
    """

    def __init__(
        self,
        policy: nn.Module,
        joint: Joint,
        optimizer: Optimizer,
        batch: Any,
        max_grad_norm: float | None,
        generator: torch.Generator | None,
    ) -> None:
        """See `compile_step`."""
        self.policy, self.joint, self.optimizer, self.generator = (
            policy,
            joint,
            optimizer,
            generator,
        )
        self.difference = 0.0
        self.graph = joint.graph
        self.arena = place(joint.graph)
        self.runner = PolicyExecutor(joint.graph, self.arena, self._parameters)
        self._arguments = Arguments("batch", batch)
        leaves, spec = tree_flatten(batch)
        fixed = iter(self.runner.inputs)  # The tensors of the batch, then the noise.
        self.inputs = tree_unflatten(
            [next(fixed) if isinstance(leaf, Tensor) else leaf for leaf in leaves], spec
        )
        self._noise = [(noise, self.runner.tensors[noise.name]) for noise in joint.noise]
        self._clip = (
            None if max_grad_norm is None else _Clip(list(self.gradients.values()), max_grad_norm)
        )
        self.write(batch)

    def _parameters(self) -> dict[str, Tensor]:
        known = {**dict(self.policy.named_parameters()), **dict(self.policy.named_buffers())}
        return {name: known[source] for name, source in self.joint.sources.items()}

    @property
    def outputs(self) -> Any:
        """See the class."""
        count = self.joint.loss_spec.num_leaves
        return tree_unflatten(self.runner.outputs[:count], self.joint.loss_spec)

    @property
    def gradients(self) -> dict[str, Tensor]:
        """See the class."""
        return dict(
            zip(
                self.joint.gradients,
                self.runner.outputs[self.joint.loss_spec.num_leaves :],
                strict=True,
            )
        )

    @property
    def grad_norm(self) -> Tensor | None:
        """See the class."""
        return None if self._clip is None else self._clip.norm

    @property
    def nbytes(self) -> int:
        """Return the bytes of the arena."""
        return self.arena.bytes

    def __call__(self, batch: Any) -> Any:
        """Write a batch into `inputs`, take a step with it and return `outputs`."""
        self.write(batch)
        self.run()
        return self.outputs

    @torch.no_grad()
    def write(self, batch: Any) -> None:
        """Copy a batch into `inputs`; dict entries are matched by key.

        Raises:
            PlanError: the batch has another shape, dtype, key or value; the inputs are unchanged.
        """
        for target, value in zip(
            tree_leaves(self.inputs), self._arguments.leaves(batch), strict=True
        ):
            if isinstance(target, Tensor) and target is not value:
                target.copy_(value)

    def run(self) -> None:
        """Take a gradient step with the current `inputs` and new random numbers."""
        self.differentiate()
        gradients = self.gradients
        for name, parameter in self.policy.named_parameters():
            parameter.grad = gradients.get(name)
        if self._clip is not None:
            self._clip.run()
        self.optimizer.step()

    def differentiate(self) -> None:
        """Compute `outputs` and `gradients`; the weights do not change."""
        for noise, tensor in self._noise:
            noise.draw(tensor, self.generator)
        self.runner.run()

    def check(self, loss: Loss, batch: Any) -> dict[str, float]:
        """Return, by name, how far loss and gradients for a batch differ from eager mode.

        Differences are relative to numbers above 1. If the step draws random numbers, they are from
        the graph run by torch, since a policy cannot be made to draw particular numbers.
        """
        self.write(batch)
        drawn = [torch.empty_like(tensor) for _, tensor in self._noise]
        for (noise, tensor), numbers in zip(self._noise, drawn, strict=True):
            noise.draw(numbers, self.generator)
            tensor.copy_(numbers)
        self.runner.run()
        wanted = self._by_torch(batch, drawn) if drawn else self._eager(loss, batch)
        names = ["the loss", *(f"the gradient of {name}" for name in self.gradients)]
        got = [tree_leaves(self.outputs)[0], *self.gradients.values()]
        away = {name: difference(a, b) for name, a, b in zip(names, wanted, got, strict=True)}
        self.write(batch)
        return away

    def _eager(self, loss: Loss, batch: Any) -> list[Tensor]:
        known = dict(self.policy.named_parameters())
        value = tree_leaves(loss(self.policy, batch))[0]
        return [
            value.detach().view(()),
            *torch.autograd.grad(value, [known[name] for name in self.joint.gradients]),
        ]

    def _by_torch(self, batch: Any, drawn: list[Tensor]) -> list[Tensor]:
        leaves = self._arguments.leaves(batch)
        tensors = iter([*(leaf for leaf in leaves if isinstance(leaf, Tensor)), *drawn])
        known, names = (
            self._parameters(),
            [node.name for node in self.joint.module.graph.nodes if node.op == "placeholder"],
        )
        with torch.no_grad():
            results = self.joint.module(
                *(known[name] if name in known else next(tensors) for name in names)
            )
        return [results[0], *results[self.joint.loss_spec.num_leaves :]]

    def tables(self) -> dict[str, Any]:
        """Return the plan as JSON values: nodes, tensors, blocks of memory, bytes."""
        return report.tables(self.graph, self.arena) | {
            "difference": self.difference,
            "held_bytes": self.nbytes,
        }

    def describe(self, form: str = "table") -> str:
        """Return the plan as text: a `table` for people, or `json`."""
        if form not in ("table", "json"):
            raise PlanError(f"describe({form!r}): use table or json")
        return json.dumps(self.tables()) if form == "json" else report.text(self.graph, self.arena)

    def draw(self, path: Path | str) -> None:
        """Write an SVG of the graph and its memory over time."""
        Path(path).write_text(
            draw.svg(self.graph, self.arena, f"a gradient step of {type(self.policy).__name__}")
        )


class _Clip:
    """Scales gradients down to a norm over all of them, in place and without allocations.

    It computes what torch.nn.utils.clip_grad_norm_ computes.
    """

    def __init__(self, gradients: list[Tensor], limit: float) -> None:
        self._gradients = gradients
        self._norms = gradients[0].new_zeros(len(gradients))
        self._each = list(self._norms.unbind())
        self.norm, self._scale = (gradients[0].new_zeros(()) for _ in range(2))
        self._small, self._limit, self._one = (
            gradients[0].new_tensor(value) for value in (1e-6, limit, 1.0)
        )

    def run(self) -> None:
        for gradient, norm in zip(self._gradients, self._each, strict=True):
            torch.linalg.vector_norm(gradient, out=norm)
        torch.linalg.vector_norm(self._norms, out=self.norm)
        torch.add(self.norm, self._small, out=self._scale)
        torch.div(self._limit, self._scale, out=self._scale)
        torch.minimum(self._scale, self._one, out=self._scale)
        for gradient in self._gradients:
            gradient.mul_(self._scale)


def compile_step(
    policy: nn.Module,
    loss: Loss,
    optimizer: Optimizer,
    batch: Any,
    *,
    max_grad_norm: float | None = None,
    generator: torch.Generator | None = None,
    tolerance: float = TOLERANCES[torch.float32],
) -> StepPlan:
    """Plan the memory of a whole gradient step: forward pass, loss, backward pass and optimizer.

    Args:
        policy: policy whose parameters are read and updated in place.
        loss: `loss(policy, batch)` returns a tensor with one number to minimize, or a tuple that
            begins with it.
        optimizer: optimizer of the policy's parameters; its `step()` must work in place. Memory
            that it allocates itself is not planned; the trainer's own optimizers, SGD and the fused
            ones of torch.optim allocate none.
        batch: example inputs: a tree of tensors (tuples, lists, dicts, registered dataclasses).
        max_grad_norm: largest norm over all gradients; larger ones are scaled down to it. None: do
            not scale.
        generator: generator from which dropout and sampling draw in each run; None: torch's own.
        tolerance: how far loss and gradients may be from eager mode, relative to numbers above 1.

    Returns: the plan.

    Raises:
        PlanError: an operation cannot be traced or has no rule (the message names it and its
            place), or numbers differ from eager mode.
    """
    plan = StepPlan(
        policy, trace_joint(policy, loss, batch), optimizer, batch, max_grad_norm, generator
    )
    for name, away in plan.check(loss, batch).items():
        plan.difference = max(plan.difference, away)
        if not away <= tolerance:
            raise PlanError(f"{name} differs by {away:.1e} from eager, more than {tolerance:.0e}")
    return plan
