# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""A plan as a CUDA graph: recorded once, replayed with one launch. device/graphs.py does the
recording.

A replay repeats what was launched on the device, in the same memory, and nothing else. So what the
host does in between is lost, or breaks the recording; `Watch` finds it while the work still runs by
itself, and names the line.
"""

from __future__ import annotations

import contextlib
import traceback
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from puffervec.train.device.graphs import WARM_UPS, Recorded
from puffervec.train.device.syncs import READS, Syncs, askers, tensors
from puffervec.wings.plan.build import PlanError

_HERE = str(Path(__file__).parent)


class CaptureError(PlanError):
    """Something that a CUDA graph cannot hold."""


class Watch(Syncs):  # type: ignore[no-untyped-call]
    """While active, what a CUDA graph cannot hold is an error that names the line: numbers that are
    read back (the host would wait), copies from pageable memory (the driver would wait), tensors on
    the host (a replay would not make them again).
    """

    def note(self, op: str) -> None:
        """See Syncs. Raises: CaptureError."""
        words = (
            "reads a number back"
            if op in READS or op.startswith("aten::index")
            else "crosses to or from the host"
        )
        raise CaptureError(f"{op} {words}, for which the host waits: {_line()}")

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, taken = func._schema.name, tensors((args, kwargs or {}))
        out = super().__torch_dispatch__(func, types, args, kwargs)
        given = {id(x) for x in taken}
        new = [x for x in tensors(out) if x.device.type == "cpu" and x.dim() and id(x) not in given]
        if new and not any(x.device.type == "cuda" for x in taken):
            raise CaptureError(
                f"{name} allocates on the host, which a replay would not do again: {_line()}"
            )
        return out

    def _note_crossing(
        self, name: str, taken: list[Tensor], made: list[Tensor], free: bool
    ) -> None:
        """A copy from page-locked memory can be recorded."""
        here = [x for x in taken if x.device.type == "cpu" and x.dim()]
        if here and any(x.device.type == "cuda" for x in made):
            if not free or not all(x.is_pinned() for x in here):
                raise CaptureError(
                    f"{name} copies from pageable memory: pin it, or keep it on the device: "
                    f"{_line()}"
                )
        else:
            super()._note_crossing(name, taken, made, free)


class Captured:
    """A runner recorded as a CUDA graph, with memory of its own (graphs that run beside each other
    must not share a pool).
    """

    def __init__(self, runner: Runner, device: torch.device, watch: bool = True) -> None:
        """Warm up on a stream of its own, and record.

        Args: watch: look with `Watch` first; torch.compile does not work under it.
        Raises: CaptureError: see `Watch`; also what CUDA refuses.
        """
        self._runner = runner
        self.inputs, self.outputs = runner.inputs, runner.outputs
        self._recorded = Recorded(runner.run, device, capture=True)
        kept = [None if part is None else part.clone() for part in self.inputs]
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
        for part, before in zip(self.inputs, kept, strict=True):
            if part is not None and before is not None:
                part.copy_(before)

    @property
    def nbytes(self) -> int:
        """Of the fixed buffers; the graph's pool is torch's."""
        return self._runner.nbytes

    def run(self) -> None:
        """Replay."""
        self._recorded.play()


class Runner(Protocol):
    """What runs in fixed buffers: leaves of the arguments and of the outputs, in order."""

    inputs: list[Tensor | None]
    outputs: list[Any]

    @property
    def nbytes(self) -> int:
        """Bytes that it holds."""

    def run(self) -> None:
        """Inputs as they stand, outputs into `outputs`, states replaced."""


def _line(error: BaseException | None = None) -> str:
    """Return the line that asked: the innermost one outside of torch and of this package."""
    frames = askers() if error is None else list(traceback.extract_tb(error.__traceback__))
    frame = [frame for frame in frames if not frame.filename.startswith(_HERE)][-1]
    return f"{frame.filename}:{frame.lineno}: {frame.line}"
