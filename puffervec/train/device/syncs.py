# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Find the places where code waits for its device, and name their source lines.

Three levels:

    cuda_syncs       on a GPU: torch's own sync debug mode, which sees what really waits
    find_syncs       on any machine: `Syncs` sees every operation that reads a number back
    prove_no_syncs   without a GPU (fake.py): on tensors that report a GPU and hold no numbers

`Syncs` notes every operation that reads a number back from a tensor (on a GPU it waits for all work
before it) or moves a tensor to another device, except for expected copies.
"""

from __future__ import annotations

import dataclasses
import sysconfig
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

# These return a number to the host, or the host must know how many numbers there will be.
READS = (
    "aten::_local_scalar_dense", "aten::nonzero", "aten::masked_select", "aten::equal",
    "aten::is_nonzero", "aten::_unique", "aten::_unique2", "aten::unique_dim",
    "aten::unique_consecutive", "aten::unique_dim_consecutive", "aten::bincount",
    "aten::repeat_interleave",
)  # fmt: skip
INDEXING = ("aten::index", "aten::index_put", "aten::index_put_")
# These read a CPU tensor in place, without an operation, so that only the call is visible.
CALLS = ("cpu", "tolist", "numpy", "__array__", "__dlpack__")
SYNCHRONIZE, TO_HOST, TO_DEVICE = "synchronize", "copy to the host", "copy to the device"
# Files whose lines are never reported.
_HIDDEN = {__file__}
_TORCH = f"{Path(torch.__file__).parent}/"
_STDLIB = f"{sysconfig.get_path('stdlib')}/"
# The text comes from c10/cuda/CUDAFunctions.cpp, warn_or_error_on_sync.
_DEBUG_WARNING = "called a synchronizing CUDA operation"


class Sync(NamedTuple):
    """An operation that waits, and the line that called it.

    Attributes:
        op: Name of the operation.
        file: Name of the file, without folders.
        function: Name of the function.
        line: Text of the line.
        path: Path of the file.
        number: Line number.
    """

    op: str
    file: str
    function: str
    line: str
    path: str = ""
    number: int = 0

    def __str__(self) -> str:
        """Return one line: operation, file and line number, function, text."""
        return f"{self.op}  {self.file}:{self.number} in {self.function}: {self.line}"


Expected = tuple[str, str, str]  # Operation, file, function.


@dataclasses.dataclass(frozen=True)
class SyncReport:
    """The operations that wait for the device, in the order in which they happened.

    Attributes:
        found: The operations.
        level: How they were detected.
        ended: False if the work could not continue, so that only the operations before are known.
        note: Why it could not continue, or why nothing could be detected; "" if the work asked for
            a number that does not exist.
    """

    found: tuple[Sync, ...]
    level: str
    ended: bool = True
    note: str = ""

    def __str__(self) -> str:
        """Return the number of synchronisations, then a line with a count for each place."""
        if self.note and not self.found:
            return f"{self.level}: {self.note}"
        ending = "" if self.ended else f", where the work ended: {self.note or 'it needs a number'}"
        counted = Counter(self.found)
        return "\n".join(
            [
                f"{self.level}: {count_of(len(self.found))}{ending}",
                *(f"  {n} x {s}" for s, n in counted.items()),
            ]
        )

    def as_json(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        places = [{**sync._asdict(), "count": count} for sync, count in Counter(self.found).items()]
        return {
            "level": self.level,
            "ended": self.ended,
            "count": len(self.found),
            "places": places,
            "note": self.note,
        }


def count_of(number: int) -> str:
    """Return "no synchronisation", "1 synchronisation", "11 synchronisations"."""
    return f"{number or 'no'} synchronisation{'s' if number > 1 else ''}"


_active: list[Syncs] = []


class Syncs(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A mode that collects operations which wait for the device.

    Attributes:
        found: Operations that wait.
        allowed: Operations that wait and are expected to.
        operations: Number of operations that compute, each at least one kernel on a GPU. Views
            compute nothing.
    """

    def __init__(self, expected: Collection[Expected] = ()) -> None:
        """Prepare the mode.

        Args:
            expected: Operations that may wait in a function, or in functions that it calls. Copies
                are expected only if they are non_blocking.
        """
        super().__init__()  # type: ignore[no-untyped-call]
        self.expected = tuple(expected)
        self.found: list[Sync] = []
        self.allowed: list[Sync] = []
        self.operations = 0
        self._calls = _Calls()

    def __enter__(self) -> Syncs:
        _active.append(self)
        self._calls.__enter__()  # type: ignore[no-untyped-call]
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)  # type: ignore[no-untyped-call]
        self._calls.__exit__(*error)  # type: ignore[no-untyped-call]
        _active.remove(self)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = func._schema.name
        if self._reads(name, args, kwargs):
            self.note(name)
        elif not func.is_view:
            self.operations += 1
        out = func(*args, **kwargs)
        self._note_crossing(
            name, tensors((args, kwargs)), tensors(out), _non_blocking(func, args, kwargs)
        )
        return out

    def _reads(self, name: str, args: Any, kwargs: Any) -> bool:
        """Return whether an operation waits for a number."""
        if name == "aten::repeat_interleave":
            return kwargs.get("output_size") is None
        if name not in INDEXING:
            return name in READS
        # Only the device knows how many elements of a mask are set. A single number from the host
        # is filled in without asking.
        filled = name != "aten::index" and (
            self._calls.fills or (args[2].device.type == "cpu" != args[0].device.type)
        )
        by_mask = any(
            index is not None and index.dtype in (torch.bool, torch.uint8) for index in args[1]
        )
        return by_mask and not (filled and args[2].numel() == 1)

    def _note_crossing(
        self, name: str, inputs: list[torch.Tensor], outputs: list[torch.Tensor], free: bool
    ) -> None:
        """Note an operation that moves numbers between devices."""
        # A single number on the CPU may enter any operation: it is an argument of the kernel.
        here = any(x.device.type == "cpu" and (x.dim() or name == "aten::_to_copy") for x in inputs)
        there = any(x.device.type == "cuda" for x in inputs)
        if there and any(x.device.type == "cpu" for x in outputs):
            self.note(TO_HOST if name == "aten::copy_" and free else name)
        elif here and any(x.device.type == "cuda" for x in outputs):
            self.note(TO_DEVICE if name == "aten::copy_" and free else name)

    def note(self, op: str) -> None:
        """Note an operation, as expected or as found."""
        callers = [_sync(op, frame) for frame in stack_of_callers()]
        allowed = [sync for sync in callers if sync[:3] in self.expected]
        (self.allowed if allowed else self.found).append((allowed or callers)[-1])

    @property
    def copies_out(self) -> int:
        """Return how often numbers went to the host, read back or copied."""
        return sum(sync.op not in (SYNCHRONIZE, TO_DEVICE) for sync in (*self.found, *self.allowed))


def hide(file: str) -> None:
    """Never report lines of `file` as those that wait: its code stands in for torch's."""
    _HIDDEN.add(file)


def stack_of_callers() -> list[traceback.FrameSummary]:
    """Return the stack, innermost frame last, without torch, the standard library and this file."""
    frames = traceback.StackSummary.extract(traceback.walk_stack(None), lookup_lines=False)
    frames.reverse()
    return [frame for frame in frames if _counts(frame.filename)] or frames[-1:]


def _counts(file: str) -> bool:
    of_python = (
        file.startswith(_STDLIB) and "site-packages" not in file and "dist-packages" not in file
    )
    return not (of_python or file in _HIDDEN or file.startswith((_TORCH, "<frozen")))


def _sync(op: str, frame: traceback.FrameSummary) -> Sync:
    return Sync(
        op,
        Path(frame.filename).name,
        frame.name,
        frame.line or "",
        frame.filename,
        frame.lineno or 0,
    )


class _Calls(TorchFunctionMode):
    """A mode that notes calls that read a tensor without running an operation.

    Attributes:
        fills: True during `tensor[index] = number` with a Python number.
    """

    fills = False

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        if name in CALLS and getattr(torch.Tensor, name, None) is func:
            note_all(f"Tensor.{name}")
        self.fills = func is torch.Tensor.__setitem__ and isinstance(args[2], int | float)
        try:
            return func(*args, **(kwargs or {}))
        finally:
            self.fills = False


def note_all(op: str) -> None:
    """Note an operation in all active detectors."""
    for syncs in _active:
        syncs.note(op)


def tensors(tree: Any) -> list[torch.Tensor]:
    """Return the tensors in nested containers."""
    return [x for x in tree_leaves(tree) if isinstance(x, torch.Tensor)]


def _non_blocking(func: Any, args: Any, kwargs: Any) -> bool:
    names = [argument.name for argument in func._schema.arguments]
    return bool((dict(zip(names, args, strict=False)) | kwargs).get("non_blocking", False))


def find_syncs(work: Callable[[], Any], expected: Collection[Expected] = ()) -> SyncReport:
    """Call `work` once, on its own device, and return the operations in it that read numbers back.

    On a CPU a copy to the CPU is not an operation and remains invisible, except for a call of
    `Tensor.cpu`; `prove_no_syncs` sees it.

    Args:
        expected: See `Syncs`.
    """
    with Syncs(expected) as syncs:
        work()
    return SyncReport(tuple(syncs.found), "operations")


def cuda_syncs(work: Callable[[], Any]) -> SyncReport:
    """Call `work` once in torch's sync debug mode and return the CUDA operations that waited.

    Needs a GPU. The mode is experimental and does not see torch.distributed and sparse tensors.
    Source: torch.cuda.set_sync_debug_mode.
    """
    found: list[Sync] = []

    def show(
        message: Warning | str,
        category: Any,
        filename: str,
        lineno: int,
        file: Any = None,
        line: Any = None,
    ) -> None:
        """Note a warning where it is raised, so that the stack contains the caller."""
        if _DEBUG_WARNING in str(message):
            found.append(_sync(_DEBUG_WARNING.removeprefix("called a "), stack_of_callers()[-1]))

    before = torch.cuda.get_sync_debug_mode()
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = show
        torch.cuda.set_sync_debug_mode("warn")
        try:
            work()
        finally:
            torch.cuda.set_sync_debug_mode(before)
    return SyncReport(tuple(found), "CUDA's sync debug mode")
