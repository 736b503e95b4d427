# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Policies whose memory is planned: `from puffervec.train import plan`; docs/plan.md shows how.

module  --tracing.py, build.py-->  graph (ir.py)  --arena.py-->  addresses  --executor.py-->  runs
        rules.py, kernels.py, calls.py: how each operation runs in planned memory
        policy.py: `compile_policy`, all modes; capture.py: CUDA graphs; cache.py: a plan per batch size
        joint.py, step.py: `compile_step`, a whole gradient step; gradients.py: the rules of backward passes
        report.py, draw.py: a plan as text and as a picture
"""

from puffervec import extras

extras.require("puffervec.train.plan", *extras.TRAINER)

from puffervec.train.plan.arena import Arena, place  # noqa: E402
from puffervec.train.plan.build import PlanError, from_graph  # noqa: E402
from puffervec.train.plan.cache import PlanCache  # noqa: E402
from puffervec.train.plan.capture import CaptureError  # noqa: E402
from puffervec.train.plan.executor import Executor as PolicyExecutor  # noqa: E402
from puffervec.train.plan.ir import Graph, Node, TensorDesc  # noqa: E402
from puffervec.train.plan.policy import MODES, PolicyPlan, compile_policy  # noqa: E402
from puffervec.train.plan.rules import rule  # noqa: E402
from puffervec.train.plan.step import StepPlan, compile_step  # noqa: E402

__all__ = [
    "MODES", "Arena", "CaptureError", "Graph", "Node", "PlanCache", "PlanError", "PolicyExecutor", "PolicyPlan", "StepPlan",
    "TensorDesc", "compile_policy", "compile_step", "from_graph", "place", "rule",
]  # fmt: skip
