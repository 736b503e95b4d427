# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Policies whose memory is planned: `from puffervec.train import plan`.

    module  --tracing.py, build.py-->  graph (ir.py)  --arena.py-->  addresses  --executor.py-->  runs
            rules.py, kernels.py, calls.py: how each operation runs in planned memory
"""

from puffervec import extras

extras.require("puffervec.train.plan", *extras.TRAINER)

from puffervec.train.plan.arena import Arena, place  # noqa: E402
from puffervec.train.plan.build import PlanError, from_graph  # noqa: E402
from puffervec.train.plan.executor import Executor as PolicyExecutor  # noqa: E402
from puffervec.train.plan.ir import Graph, Node, TensorDesc  # noqa: E402
from puffervec.train.plan.rules import rule  # noqa: E402

__all__ = ["Arena", "Graph", "Node", "PlanError", "PolicyExecutor", "TensorDesc", "from_graph", "place", "rule"]
