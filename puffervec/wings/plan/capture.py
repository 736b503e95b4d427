# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""A plan as a CUDA graph: recorded once, replayed with one launch. device/graphs.py records.

A replay repeats the launches on the device, in the same memory, and nothing else. So anything that
the host does in between is lost, or breaks the recording. `Watch` detects it while the work still
runs normally, and names the line.
"""

from __future__ import annotations

import contextlib
import traceback
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from puffervec.train.device.graphs import WARM_UPS, Recorded
from puffervec.train.device.syncs import READS, Syncs, stack_of_callers, tensors
from puffervec.wings.plan.build import PlanError

_HERE = str(Path(__file__).parent)


class CaptureError(PlanError):
    """An operation that a CUDA graph cannot hold."""


class Watch(Syncs):  # type: ignore[no-untyped-call]
    """While active, turns operations that a CUDA graph cannot hold into errors that name the line.

    Such operations are: reading numbers back (the host would wait), copies from pageable memory
    (the driver would wait), and creating tensors on the host (a replay would not make them again).
    """

    def note(self, op: str) -> None:
        """See Syncs. Raises: CaptureError."""
        reason = (
            "reads a number back"
            if op in READS or op.startswith("aten::index")
            else "crosses to or from the host"
        )
        raise CaptureError(f"{op} {reason}, for which the host waits: {_line()}")

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, inputs = func._schema.name, tensors((args, kwargs))
        out = super().__torch_dispatch__(func, types, args, kwargs)
        known = {id(x) for x in inputs}
        new = [x for x in tensors(out) if x.device.type == "cpu" and x.dim() and id(x) not in known]
        if new and not any(x.device.type == "cuda" for x in inputs):
            raise CaptureError(
                f"{name} allocates on the host, which a replay would not do again: {_line()}"
            )
        return out

    def _note_crossing(
        self, name: str, taken: list[Tensor], made: list[Tensor], free: bool
    ) -> None:
        """Allow copies from page-locked memory, which can be recorded; raise for others."""
        here = [x for x in taken if x.device.type == "cpu" and x.dim()]
        if here and any(x.device.type == "cuda" for x in made):
            if not free or not all(x.is_pinned() for x in here):
                raise CaptureError(
                    f"{name} copies from pageable memory: pin it, or allocate it on the device: "
                    f"{_line()}"
                )
        else:
            super()._note_crossing(name, taken, made, free)


class CapturedRunner:
    """A runner recorded as a CUDA graph.

    The graph has a memory pool of its own, because graphs that run simultaneously must not share
    one.
    """

    def __init__(self, runner: Runner, device: torch.device, watch: bool = True) -> None:
        """Warm up on a separate stream, and record.

        Args:
            runner: the runner to record.
            device: a GPU.
            watch: whether to run under `Watch` first; torch.compile does not work under it.

        Raises:
            CaptureError: see `Watch`; also for errors of CUDA.
        """
        self._runner = runner
        self.inputs, self.outputs = runner.inputs, runner.outputs
        self._recorded = Recorded(runner.run, device, capture=True)
        before = [(part, part.clone()) for part in self.inputs if part is not None]
        for turn in range(WARM_UPS + 1):
            try:
                with Watch() if watch and turn == 0 else contextlib.nullcontext():
                    self._recorded.play()
            except CaptureError:
                raise
            except RuntimeError as error:
                raise CaptureError(
                    f"{str(error).strip().partition(chr(10))[0]}: {_line(error)}"
                ) from error
        for part, value in before:
            part.copy_(value)

    @property
    def nbytes(self) -> int:
        """Return the bytes of the fixed buffers, without the graph's pool, which torch owns."""
        return self._runner.nbytes

    def run(self) -> None:
        """Replay the graph."""
        self._recorded.play()


class Runner(Protocol):
    """Work on fixed buffers: the leaves of the arguments and of the outputs, in order."""

    inputs: list[Tensor | None]
    outputs: list[Any]

    @property
    def nbytes(self) -> int:
        """Number of bytes that the runner holds."""

    def run(self) -> None:
        """Read the inputs, write the outputs, and replace the states."""


def _line(error: BaseException | None = None) -> str:
    """Return the source line of the innermost frame outside torch and this package."""
    frames = (
        stack_of_callers() if error is None else list(traceback.extract_tb(error.__traceback__))
    )
    frame = [frame for frame in frames if not frame.filename.startswith(_HERE)][-1]
    return f"{frame.filename}:{frame.lineno}: {frame.line}"
