# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""A policy, or any module, with planned memory: `plan.compile_policy(policy, batch, mode="arena")`.

    mode                 what runs                                            where
    eager                the module itself                                    anywhere
    arena                its nodes, each writing into its view of one arena,  CPU, CUDA
                         without allocations
    compile              the module through torch.compile                     with a compiler
    cudagraph            the module, recorded once and replayed               CUDA
    compile+cudagraph    the compiled module, recorded once and replayed      CUDA

All modes have the same interface: fixed buffers that the caller writes (`inputs`) and reads
(`outputs`), and `run()` in between. The outputs are compared with the module's when the plan is
made.
"""

from __future__ import annotations

import copy
import json
import warnings
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import TreeSpec, tree_flatten, tree_leaves, tree_map, tree_unflatten

from puffervec.train.policies.protocol import Policy
from puffervec.wings.plan import draw, report
from puffervec.wings.plan.arena import Arena, place
from puffervec.wings.plan.arguments import Arguments
from puffervec.wings.plan.build import PlanError
from puffervec.wings.plan.capture import CapturedRunner, Runner
from puffervec.wings.plan.executor import PolicyExecutor
from puffervec.wings.plan.ir import Graph
from puffervec.wings.plan.tracing import Carry, TracedModule, trace

MODES = ("eager", "arena", "compile", "cudagraph", "compile+cudagraph")
POLICY_CARRY: Carry = (1, 2)  # Argument and output of a policy that hold its state.
MOST_COMPILED = 256  # Largest number of plans of one class in mode compile.
TOLERANCES = {torch.float64: 1e-10, torch.float32: 1e-5, torch.float16: 1e-2, torch.bfloat16: 3e-2}


class ModuleRunner:
    """A callable with fixed buffers around it. Torch allocates its other tensors in each run."""

    def __init__(
        self, call: Callable[..., Any], args: tuple[Any, ...], carry: Carry | None
    ) -> None:
        """Args: call: maps trees of tensors to trees of tensors; carry: see `compile_policy`."""
        self._call, self._carry = call, carry
        self._args = tree_map(_buffer, args)
        self.inputs = tree_leaves(self._args)
        with torch.no_grad():
            self._outputs = tree_map(_buffer, call(*args))
        self.outputs = tree_leaves(self._outputs)

    @property
    def nbytes(self) -> int:
        """Return the bytes of the fixed buffers."""
        return sum(
            leaf.nbytes for leaf in (*self.inputs, *self.outputs) if isinstance(leaf, Tensor)
        )

    def run(self) -> None:
        """See Runner."""
        with torch.no_grad():
            for out, result in zip(self.outputs, tree_leaves(self._call(*self._args)), strict=True):
                if isinstance(out, Tensor):
                    out.copy_(result)
            if self._carry is not None:
                at, back = self._carry
                for old, new in zip(
                    tree_leaves(self._args[at]), tree_leaves(self._outputs[back]), strict=True
                ):
                    old.copy_(new)


def _buffer(leaf: Any) -> Any:
    return leaf.detach().clone() if isinstance(leaf, Tensor) else leaf


class PolicyPlan:
    """A module with planned memory, for inputs of fixed shapes.

    Attributes:
        mode: one of MODES.
        inputs, outputs: trees of fixed tensors, like the module's arguments and results. `run`
            reads the former and overwrites the latter. Inputs must be written before each run: in
            mode arena their memory is reused once they have been read. A recurrent state is the
            exception: it is kept, and the next run continues from it.
        difference: the largest difference from the module's own outputs when the plan was made; 0.0
            means that they were equal.
        tolerance: limit of the difference, relative to numbers above 1.
    """

    def __init__(
        self,
        module: nn.Module,
        args: tuple[Any, ...],
        mode: str,
        carry: Carry | None,
        tolerance: float | None = None,
    ) -> None:
        """See `compile_policy`."""
        self.module, self.mode, self.carry = module, mode, carry
        self._args, self._arguments = args, Arguments("args", args)
        self.runner = self._make_runner(args)
        self.inputs = tree_unflatten(self.runner.inputs, tree_flatten(args)[1])
        expected, out_spec = self._run_module(args)
        self.outputs = tree_unflatten(self.runner.outputs, out_spec)
        self.tolerance = _tolerance(expected) if tolerance is None else tolerance
        self.difference = self._check(args, expected)
        self._write(args)

    def twin(self) -> PolicyPlan:
        """Return another plan of the same graph, with separate memory."""
        other = copy.copy(self)
        other.runner = other._make_runner(self._args)
        other.inputs = tree_unflatten(other.runner.inputs, tree_flatten(self._args)[1])
        other.outputs = tree_unflatten(other.runner.outputs, tree_flatten(self.outputs)[1])
        other._write(self._args)
        return other

    # ---- running

    def _make_runner(self, args: tuple[Any, ...]) -> Runner:
        base, _, graph = self.mode.partition("+")
        device = _device(args)
        if "cudagraph" in self.mode and device.type != "cuda":
            raise PlanError(
                f"mode {self.mode} needs a GPU, the inputs are on {device}: use eager, arena or "
                "compile"
            )
        runner: Runner
        if base == "arena":
            runner = PolicyExecutor(self.graph, self.arena, self.traced.parameters)
        elif base == "compile":
            runner = self._compile(args)
        else:
            runner = ModuleRunner(self.module, args, self.carry)
        return (
            CapturedRunner(runner, device, watch=base != "compile")
            if "cudagraph" in self.mode
            else runner
        )

    def _compile(self, args: tuple[Any, ...]) -> Runner:
        try:
            # Each plan is compiled once; torch would mistake many plans of one class for a function
            # that is recompiled too often.
            with (
                warnings.catch_warnings(),
                torch._dynamo.config.patch(recompile_limit=MOST_COMPILED),
            ):
                warnings.simplefilter("ignore")  # torch's own modules warn when they are imported.
                return ModuleRunner(self._compiled_module, args, self.carry)
        except Exception as error:
            first = str(error).strip().partition("\n")[0]
            raise PlanError(
                f"mode compile: torch.compile failed: {type(error).__name__}: {first}"
            ) from error

    @cached_property
    def _compiled_module(self) -> Callable[..., Any]:
        return torch.compile(self.module, dynamic=False)

    def _run_module(self, args: tuple[Any, ...]) -> tuple[list[Any], TreeSpec]:
        """Return the leaves and the structure of the module's own results."""
        with torch.no_grad():
            leaves, spec = tree_flatten(self.module(*tree_map(_buffer, args)))
        return leaves, spec

    def _check(self, args: tuple[Any, ...], expected: list[Any]) -> float:
        """Return the largest difference from the module's results.

        Raises:
            PlanError: the difference exceeds the tolerance.
        """
        self._write(args)
        self.run()
        worst = 0.0
        for index, (wanted, got) in enumerate(zip(expected, self.runner.outputs, strict=True)):
            if isinstance(wanted, Tensor):
                away = difference(wanted, got)
                worst = max(worst, away)
                if not away <= self.tolerance:
                    hint = (
                        "; it is in train mode: call .eval() first" if self.module.training else ""
                    )
                    raise PlanError(
                        f"mode {self.mode} of {type(self.module).__name__}: output {index} "
                        f"differs by {away:.1e} from the module's own, more than "
                        f"{self.tolerance:.0e}{hint}"
                    )
        return worst

    @torch.no_grad()
    def _write(self, args: tuple[Any, ...]) -> None:
        for target, value in zip(self.runner.inputs, self._arguments.leaves(args), strict=True):
            if isinstance(target, Tensor) and value is not target:
                target.copy_(value)

    def run(self) -> None:
        """Read `inputs`, write `outputs`, and replace the state by the new one."""
        self.runner.run()

    def __call__(self, *args: Any) -> Any:
        """Write the arguments into `inputs`, run, and return `outputs`.

        The next run overwrites the outputs.

        Args:
            args: arguments of the module, with the shapes, dtypes and other values that the plan
                was made for, on any device; dict entries are matched by key. An argument that is
                the plan's own input is not copied.

        Raises:
            PlanError: the arguments do not match; the inputs are unchanged.
        """
        self._write(args)
        self.run()
        return self.outputs

    # ---- description

    @cached_property
    def traced(self) -> TracedModule:
        """The module as a graph."""
        return trace(self.module, self._args, self.carry)

    @property
    def graph(self) -> Graph:
        """Nodes and tensors, see ir.py. In modes that need no graph it is made on first access."""
        self.arena  # noqa: B018  (gives the tensors their addresses)
        return self.traced.graph

    @cached_property
    def arena(self) -> Arena:
        """The addresses of the tensors, see arena.py."""
        return place(self.traced.graph)

    @property
    def nbytes(self) -> int:
        """Bytes that the plan holds: its arena, or the fixed buffers of the other modes."""
        return self.runner.nbytes

    @property
    def exact(self) -> bool:
        """Whether the outputs equalled the module's bit for bit."""
        return self.difference == 0.0

    def tables(self) -> dict[str, Any]:
        """Return the plan as JSON values: nodes, tensors, blocks of memory, bytes."""
        return report.tables(self.graph, self.arena) | {
            "mode": self.mode,
            "difference": self.difference,
            "tolerance": self.tolerance,
            "held_bytes": self.nbytes,
        }

    def describe(self, form: str = "table") -> str:
        """Return the plan as text: a `table` for people, or `json`."""
        if form == "json":
            return json.dumps(self.tables())
        if form != "table":
            raise PlanError(f"describe({form!r}): use table or json")
        return report.text(self.graph, self.arena)

    def draw(self, path: Path | str) -> None:
        """Write an SVG of the graph and its memory over time."""
        Path(path).write_text(draw.svg(self.graph, self.arena, type(self.module).__name__))


def compile_policy(
    policy: nn.Module,
    batch: Any,
    mode: str = "arena",
    *,
    carry: Carry | None = None,
    tolerance: float | None = None,
) -> PolicyPlan:
    """Plan the memory of a policy, or of any module, for a batch of this shape.

    Args:
        policy: a policy or module.
        batch: example inputs. For a policy (see puffervec.train.policies.protocol): observations, a
            tensor (rows, ...) or a dict of such tensors by field, or all four arguments as a tuple.
            For another module: a tuple of its arguments, or its only argument.
        mode: one of MODES.
        carry: (argument, output) by position: the output replaces the argument for the next run, as
            a policy's state does.
        tolerance: how far outputs may be from the module's own, relative to numbers above 1; None:
            1e-5 for float32.

    Returns: the plan. It has separate memory: use one per thread, or per stream of a GPU.

    Raises:
        PlanError: an operation has no rule (the message names it and its place), outputs differ, or
            the mode cannot run here.
    """
    check_mode(mode)
    if isinstance(policy, Policy):
        args = batch if isinstance(batch, tuple) else (batch, *_initial_arguments(policy, batch))
        carry = carry or POLICY_CARRY
    else:
        args = batch if isinstance(batch, tuple) else (batch,)
    return PolicyPlan(policy, args, mode, carry, tolerance)


def check_mode(mode: str) -> None:
    """Raise PlanError unless the mode is one of MODES."""
    if mode not in MODES:
        raise PlanError(f"mode is {mode!r}: use one of {', '.join(MODES)}")


def _initial_arguments(policy: Policy, obs: Tensor | Mapping[str, Tensor]) -> tuple[Any, ...]:
    """Return state, reset and action mask for rows at the start of an episode."""
    first = obs if isinstance(obs, Tensor) else next(iter(obs.values()))
    state = tuple(part.to(first.device) for part in policy.initial_state(len(first)))
    reset = torch.ones(len(first), dtype=torch.bool, device=first.device) if state else None
    return state, reset, None


def difference(wanted: Tensor, got: Tensor) -> float:
    """Return the largest difference of two tensors, relative to numbers above 1.

    It is NaN if an element is NaN in only one of them.
    """
    if wanted.numel() == 0 or torch.equal(wanted, got):
        return 0.0
    a, b = wanted.double(), got.double()
    same = (a == b) | (a.isnan() & b.isnan())
    away = (a - b).abs() / a.abs().clamp_min(1.0)
    return float(torch.where(same, 0.0, away).max())


def _tolerance(leaves: list[Any]) -> float:
    return max(
        (TOLERANCES.get(leaf.dtype, 0.0) for leaf in leaves if isinstance(leaf, Tensor)),
        default=0.0,
    )


def _device(args: Any) -> torch.device:
    return next(
        (leaf.device for leaf in tree_leaves(args) if isinstance(leaf, Tensor)), torch.device("cpu")
    )
