# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The turn of a half for the rungs of the ladder that need a GPU.

Each rung can be switched on separately; the trainer's own turn
(puffervec/train/collect/device_turn.py) has all of them.

    slab --copies--> device: rows into the memory of the rollout, policy, sample --copy--> slab

Runs in the learner, called by bench/loops.py. In tests the same code runs on a CPU, without the
features of CUDA.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from puffervec.core.spec import GroupSpec
from puffervec.train.collect.device_turn import PAUSE_S, WARM_UPS
from puffervec.train.collect.storage import rows_of
from puffervec.train.device.streams import pin
from puffervec.train.policies.leaves import ROW

TAKEN = ("obs", "rewards", "terminals", "truncations", "masks")
DRAWN = ("actions", "log_probs", "values")


@dataclasses.dataclass(frozen=True)
class Parts:
    """The features of CUDA that a turn uses, besides a page-locked slab; see `loops.Ways`."""

    one_copy: bool
    event: bool
    graph: bool


class DeviceHalf:
    """The turns of one half.

    Attributes:
        graph: None until it is captured.
    """

    def __init__(
        self,
        half: Any,
        group: GroupSpec,
        store: Mapping[str, Tensor],
        columns: slice,
        act: Callable[[Tensor], tuple[Tensor, Tensor, Tensor]],
        generator: torch.Generator,
        parts: Parts,
    ) -> None:
        """Page-lock the half.

        Args:
            half: one of `vec.halves`.
            store: tensors (T + 1, R, ...) by name, on the device.
            columns: the columns of R that belong to the half.
            act: maps observations to actions, log-probabilities and values, with random numbers
                from `generator`.
        """
        self.store, self.columns, self.act, self.generator, self.parts = (
            store,
            columns,
            act,
            generator,
            parts,
        )
        self.device = store["obs"].device
        self.cuda = self.device.type == "cuda"
        self.block = torch.from_numpy(half.block)
        if self.cuda:
            pin(self.block, self)
        self.staging = (
            torch.empty_like(self.block, device=self.device) if parts.one_copy else self.block
        )
        self.rows = rows_of(self.staging, half, group)
        self.step = torch.zeros(1, dtype=torch.int64, device=self.device)
        self.actions = torch.zeros_like(self.rows.actions, device=self.device)
        self.stream: Any = torch.cuda.Stream(self.device) if self.cuda and parts.event else None  # type: ignore[no-untyped-call]
        self.arrived: Any = torch.cuda.Event() if self.cuda and parts.event else None  # type: ignore[no-untyped-call]
        self.graph: torch.cuda.CUDAGraph | None = None
        self._turns = 0

    def begin(self) -> None:
        """Make the half's stream wait, on the device, for the last update.

        Called before the first turn of a rollout.
        """
        if self.stream is not None:
            self.stream.wait_stream(torch.cuda.current_stream(self.device))

    def turn(self, t: int) -> None:
        """Act on the received rows, store them at step `t`, and wait until the slab has actions."""
        with self._on_stream():
            self.step.fill_(t)
            if self.parts.one_copy:
                self.staging.copy_(self.block, non_blocking=True)
            if self.graph is not None:
                self.graph.replay()
            else:
                self.compute()
        self._hand_over()
        self._turns += 1
        if self.cuda and self.parts.graph and self._turns == WARM_UPS:
            self._capture()

    def resend(self) -> None:
        """Write the actions of step 0, which the previous rollout sampled last, to the slab."""
        with self._on_stream():
            self.actions.copy_(self.store["actions"][0, self.columns])
        self._hand_over()

    @torch.no_grad()
    def compute(self) -> None:
        """Run the part of a turn that a graph can contain."""
        source_rows = {
            name: self.rows.obs[ROW] if name == "obs" else getattr(self.rows, name)
            for name in TAKEN
        }
        rows = {name: part.to(self.device, non_blocking=True) for name, part in source_rows.items()}
        rows["obs"] = rows["obs"].to(self.store["obs"].dtype)
        outputs = dict(zip(DRAWN, self.act(rows["obs"]), strict=True))
        for name, source in (rows | outputs).items():
            target = self.store[name].narrow(
                1, self.columns.start, self.columns.stop - self.columns.start
            )
            target.index_copy_(0, self.step, source.to(target.dtype).unsqueeze(0))
        self.actions.copy_(outputs["actions"])

    def _hand_over(self) -> None:
        """Copy the actions into the slab and wait for them."""
        with self._on_stream():
            self.rows.actions.copy_(self.actions, non_blocking=True)
            if self.arrived is not None:
                self.arrived.record(self.stream)
        if self.arrived is not None:
            while not self.arrived.query():
                time.sleep(PAUSE_S)
        elif self.cuda:
            torch.cuda.synchronize(self.device)

    def _capture(self) -> None:
        """Record `compute` without running it."""
        torch.cuda.synchronize(self.device)
        graph = torch.cuda.CUDAGraph()
        graph.register_generator_state(self.generator)
        with torch.cuda.graph(graph, stream=self.stream, capture_error_mode="thread_local"):
            self.compute()
        self.graph = graph

    def _on_stream(self) -> Any:
        return contextlib.nullcontext() if self.stream is None else torch.cuda.stream(self.stream)
