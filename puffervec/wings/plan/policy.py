# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""A policy, or any module, with its memory planned: `plan.compile_policy(policy, batch,
mode="arena")`.

    mode                 what runs                                                            where
    eager                the module, as it stands                                             anywhere
    arena                its nodes, each into its view of one arena: nothing is allocated     CPU, CUDA
    compile              the module through torch.compile                                     where there is a compiler
    cudagraph            the module, recorded once and replayed                               CUDA
    compile+cudagraph    what torch.compile makes of it, likewise                             CUDA

All have the same surface: fixed buffers that the caller writes (`inputs`) and reads (`outputs`),
and `run()` in between. What comes out is compared with the module itself when the plan is made.
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
from puffervec.wings.plan.capture import Captured, Runner
from puffervec.wings.plan.executor import PolicyExecutor
from puffervec.wings.plan.ir import Graph
from puffervec.wings.plan.tracing import Carry, Traced, trace

MODES = ("eager", "arena", "compile", "cudagraph", "compile+cudagraph")
POLICY_CARRY: Carry = (1, 2)  # Argument and output of a policy that hold its state.
MOST_COMPILED = 256  # Plans of one class in mode compile.
TOLERANCES = {torch.float64: 1e-10, torch.float32: 1e-5, torch.float16: 1e-2, torch.bfloat16: 3e-2}


class ModuleRunner:
    """A callable with fixed buffers round it. Its own tensors are allocated by torch in each run."""

    def __init__(
        self, call: Callable[..., Any], args: tuple[Any, ...], carry: Carry | None
    ) -> None:
        """Args: call: takes and returns trees of tensors."""
        self._call, self._carry = call, carry
        self._args = tree_map(_buffer, args)
        self.inputs = tree_leaves(self._args)
        with torch.no_grad():
            self._outputs = tree_map(_buffer, call(*args))
        self.outputs = tree_leaves(self._outputs)

    @property
    def nbytes(self) -> int:
        """Of the fixed buffers."""
        return sum(
            leaf.nbytes for leaf in (*self.inputs, *self.outputs) if isinstance(leaf, Tensor)
        )

    def run(self) -> None:
        """See Runner."""
        with torch.no_grad():
            for kept, found in zip(self.outputs, tree_leaves(self._call(*self._args)), strict=True):
                if isinstance(kept, Tensor):
                    kept.copy_(found)
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
        mode: of MODES.
        inputs, outputs: trees as the module takes and returns, of fixed tensors. `run` reads the
            former and overwrites the latter. Inputs must be written before each run: in mode arena
            their memory serves others once they have been read. A state (a policy's memory) is the
            exception: it stays, and the next run goes on from it.
        difference: the largest from the module's own outputs, when the plan was made; 0.0 means
        that they were the same.
        tolerance: what it was allowed to be, relative to numbers above 1.
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
        expected, out_spec = self._expected(args)
        self.outputs = tree_unflatten(self.runner.outputs, out_spec)
        self.tolerance = _tolerance(expected) if tolerance is None else tolerance
        self.difference = self._check(args, expected)
        self._write(args)

    def twin(self) -> PolicyPlan:
        """Return another plan of the same graph, with memory of its own."""
        other = copy.copy(self)
        other.runner = other._make_runner(self._args)
        other.inputs = tree_unflatten(other.runner.inputs, tree_flatten(self._args)[1])
        other.outputs = tree_unflatten(other.runner.outputs, tree_flatten(self.outputs)[1])
        other._write(self._args)
        return other

    # ---- what runs

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
            runner = self._compiled(args)
        else:
            runner = ModuleRunner(self.module, args, self.carry)
        return (
            Captured(runner, device, watch=base != "compile")
            if "cudagraph" in self.mode
            else runner
        )

    def _compiled(self, args: tuple[Any, ...]) -> Runner:
        try:
            # Each plan is compiled once; torch would take many plans of one class for a function
            # that never settles.
            with (
                warnings.catch_warnings(),
                torch._dynamo.config.patch(recompile_limit=MOST_COMPILED),
            ):
                warnings.simplefilter("ignore")  # of torch's own modules, when they are imported
                return ModuleRunner(self._compiled_module, args, self.carry)
        except Exception as error:
            first = str(error).strip().partition("\n")[0]
            raise PlanError(
                f"mode compile: torch.compile failed: {type(error).__name__}: {first}"
            ) from error

    @cached_property
    def _compiled_module(self) -> Callable[..., Any]:
        return torch.compile(self.module, dynamic=False)

    def _expected(self, args: tuple[Any, ...]) -> tuple[list[Any], TreeSpec]:
        """What the module itself returns."""
        with torch.no_grad():
            leaves, spec = tree_flatten(self.module(*tree_map(_buffer, args)))
        return leaves, spec

    def _check(self, args: tuple[Any, ...], expected: list[Any]) -> float:
        """Return the largest difference from what the module returns. Raises: PlanError: it is more
        than the tolerance.
        """
        self._write(args)
        self.run()
        worst = 0.0
        for index, (wanted, found) in enumerate(zip(expected, self.runner.outputs, strict=True)):
            if isinstance(wanted, Tensor):
                away = difference(wanted, found)
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
        for kept, given in zip(self.runner.inputs, self._arguments.leaves(args), strict=True):
            if isinstance(kept, Tensor) and given is not kept:
                kept.copy_(given)

    def run(self) -> None:
        """Do everything once: read `inputs`, write `outputs`, and replace the state by what the
        module returned for it.
        """
        self.runner.run()

    def __call__(self, *args: Any) -> Any:
        """Write the arguments into `inputs`, run, and return `outputs`, which the next run
        overwrites.

        Args: as of the module, with the shapes, dtypes and other values that the plan was made for,
            on any device; entries of a dict are matched by key. An argument that is the plan's own
            input is not copied.
        Raises: PlanError: anything else; the inputs are as they were.
        """
        self._write(args)
        self.run()
        return self.outputs

    # ---- what it is

    @cached_property
    def traced(self) -> Traced:
        """The module as a graph."""
        return trace(self.module, self._args, self.carry)

    @property
    def graph(self) -> Graph:
        """Nodes and tensors, see ir.py. Modes that need no graph make one when it is asked for."""
        self.arena  # noqa: B018  (gives the tensors their addresses)
        return self.traced.graph

    @cached_property
    def arena(self) -> Arena:
        """Where the tensors lie, see arena.py."""
        return place(self.traced.graph)

    @property
    def nbytes(self) -> int:
        """Bytes that the plan holds: its arena, or the fixed buffers of the other modes."""
        return self.runner.nbytes

    @property
    def exact(self) -> bool:
        """True where the outputs were the module's own to the bit."""
        return self.difference == 0.0

    def tables(self) -> dict[str, Any]:
        """The plan as JSON values: nodes, tensors, blocks of memory, bytes."""
        return report.tables(self.graph, self.arena) | {
            "mode": self.mode, "difference": self.difference, "tolerance": self.tolerance, "held_bytes": self.nbytes,
        }  # fmt: skip

    def describe(self, form: str = "table") -> str:
        """Return the plan as text: a `table` for people, or `json`."""
        if form == "json":
            return json.dumps(self.tables())
        if form != "table":
            raise PlanError(f"describe({form!r}): use table or json")
        return report.text(self.graph, self.arena)

    def draw(self, path: Path | str) -> None:
        """Write an SVG: the graph, and its memory over time."""
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
        batch: example inputs. For a policy (see puffervec.train.policies.protocol): observations, a
            tensor (rows, ...) or a dict of them by field, or all four arguments as a tuple. For
            another module: a tuple of its arguments, or the only one.
        mode: one of MODES.
        carry: (argument, output) by position: the output replaces the argument for the next run, as
        a policy's state does.
        tolerance: how far outputs may be from the module's own, relative to numbers above 1; None:
            1e-5 for float32.
    Returns: the plan. Its memory is its own: use one per thread, or per stream of a GPU.
    Raises: PlanError: an operation without a rule (named with its place), outputs that differ, a
        mode that cannot run here.
    """
    check_mode(mode)
    if isinstance(policy, Policy):
        args = batch if isinstance(batch, tuple) else (batch, *_fresh(policy, batch))
        carry = carry or POLICY_CARRY
    else:
        args = batch if isinstance(batch, tuple) else (batch,)
    return PolicyPlan(policy, args, mode, carry, tolerance)


def check_mode(mode: str) -> None:
    """Raise PlanError unless the mode is one of MODES."""
    if mode not in MODES:
        raise PlanError(f"mode is {mode!r}: use one of {', '.join(MODES)}")


def _fresh(policy: Policy, obs: Tensor | Mapping[str, Tensor]) -> tuple[Any, ...]:
    """Return state, reset and action mask for rows that begin."""
    first = obs if isinstance(obs, Tensor) else next(iter(obs.values()))
    state = tuple(part.to(first.device) for part in policy.initial_state(len(first)))
    reset = torch.ones(len(first), dtype=torch.bool, device=first.device) if state else None
    return state, reset, None


def difference(wanted: Tensor, found: Tensor) -> float:
    """Return the largest difference of two tensors, relative to numbers above 1; NaN where only one
    of them is NaN.
    """
    if wanted.numel() == 0 or torch.equal(wanted, found):
        return 0.0
    a, b = wanted.double(), found.double()
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
