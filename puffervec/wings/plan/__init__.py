# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Policies with planned memory: `from puffervec.wings import plan`; docs/plan.md shows how.

    module  --tracing.py, build.py-->  graph (ir.py)  --arena.py-->  addresses  --executor.py--> run

    rules.py, kernels.py, calls.py     how each operation runs in planned memory
    policy.py                          `compile_policy`, all modes
    capture.py                         CUDA graphs
    cache.py                           a plan per batch size
    joint.py, step.py                  `compile_step`, a whole gradient step
    gradients.py                       the rules of backward passes
    report.py, draw.py                 a plan as text and as a picture

Names are loaded, and torch with them, at first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from puffervec.system import lazy

if TYPE_CHECKING:
    from puffervec.wings.plan.arena import Arena, place
    from puffervec.wings.plan.build import PlanError, from_graph
    from puffervec.wings.plan.cache import PlanCache
    from puffervec.wings.plan.capture import CaptureError
    from puffervec.wings.plan.executor import PolicyExecutor
    from puffervec.wings.plan.ir import Graph, Node, TensorDesc
    from puffervec.wings.plan.policy import MODES, PolicyPlan, compile_policy
    from puffervec.wings.plan.rules import rule
    from puffervec.wings.plan.step import StepPlan, compile_step

_HOMES = {
    "puffervec.wings.plan.arena": (
        "Arena",
        "place",
    ),
    "puffervec.wings.plan.build": (
        "PlanError",
        "from_graph",
    ),
    "puffervec.wings.plan.cache": ("PlanCache",),
    "puffervec.wings.plan.capture": ("CaptureError",),
    "puffervec.wings.plan.executor": ("PolicyExecutor",),
    "puffervec.wings.plan.ir": (
        "Graph",
        "Node",
        "TensorDesc",
    ),
    "puffervec.wings.plan.policy": (
        "MODES",
        "PolicyPlan",
        "compile_policy",
    ),
    "puffervec.wings.plan.rules": ("rule",),
    "puffervec.wings.plan.step": (
        "StepPlan",
        "compile_step",
    ),
}

__all__ = [
    "MODES",
    "Arena",
    "CaptureError",
    "Graph",
    "Node",
    "PlanCache",
    "PlanError",
    "PolicyExecutor",
    "PolicyPlan",
    "StepPlan",
    "TensorDesc",
    "compile_policy",
    "compile_step",
    "from_graph",
    "place",
    "rule",
]

__getattr__ = lazy.loader(__name__, _HOMES)
