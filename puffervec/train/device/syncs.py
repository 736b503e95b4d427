# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Finds the places where code waits for its device, and names their source lines. Three levels:

    cuda_syncs       on a GPU: torch's own sync debug mode, which sees what really waits
    find_syncs       on any machine: `Syncs` sees every operation that reads a number back
    prove_no_syncs   without a GPU (fake.py): on tensors that claim to be on one and have no numbers to give

`Syncs` notes what reads a number back from a tensor (on a GPU: waits for everything before it) and
what takes a tensor to another device, except for the copies that are meant.
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

# They return a number to the host, or ask there how many numbers there will be.
READS = (
    "aten::_local_scalar_dense", "aten::nonzero", "aten::masked_select", "aten::equal", "aten::is_nonzero", "aten::_unique",
    "aten::_unique2", "aten::unique_dim", "aten::unique_consecutive", "aten::unique_dim_consecutive", "aten::bincount",
    "aten::repeat_interleave",
)  # fmt: skip
INDEXING = ("aten::index", "aten::index_put", "aten::index_put_")
# They read a CPU's tensor where it stands, without an operation, so that only the call shows it.
CALLS = ("cpu", "tolist", "numpy", "__array__", "__dlpack__")
SYNCHRONIZE, TO_HOST, TO_DEVICE = "synchronize", "copy to the host", "copy to the device"
# Whose lines are never the ones that are looked for.
_HIDDEN = {__file__}
_TORCH = f"{Path(torch.__file__).parent}/"
_STDLIB = f"{sysconfig.get_path('stdlib')}/"
# C10/cuda/CUDAFunctions.cpp, warn_or_error_on_sync.
_DEBUG_WARNING = "called a synchronizing CUDA operation"


class Sync(NamedTuple):
    """An operation that waits, and who asked for it: name of the file, function, text of the line,
    path and line number.
    """

    op: str
    file: str
    function: str
    line: str
    path: str = ""
    number: int = 0

    def __str__(self) -> str:
        """One line: operation, file and line number, function, text."""
        return f"{self.op}  {self.file}:{self.number} in {self.function}: {self.line}"


Meant = tuple[str, str, str]  # operation, file, function


@dataclasses.dataclass(frozen=True)
class SyncReport:
    """What waits for the device, in the order in which it happened.

    Attributes:
        level: who looked.
        ended: False where the work could not go on, so that only what came before is known.
        note: why it could not, or why nobody could look; "" where a number was asked for and there
            is none.
    """

    found: tuple[Sync, ...]
    level: str
    ended: bool = True
    note: str = ""

    def __str__(self) -> str:
        """The number of synchronisations, then a line for each place that waits, with how often."""
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
        """For a report file."""
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
    """While active, `found` collects what waits, `meant` what was asked for and not found faulty,
    and `operations` counts what
    computes: on a GPU at least a kernel each. Views compute nothing.
    """

    def __init__(self, expected: Collection[Meant] = ()) -> None:
        """Args: expected: what is no offence, also in what those functions call; copies only where
        they are non_blocking.
        """
        super().__init__()  # type: ignore[no-untyped-call]
        self.expected = tuple(expected)
        self.found: list[Sync] = []
        self.meant: list[Sync] = []
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
        # How many places a mask has, only the device knows. A single number of the host is filled
        # in without asking.
        filled = name != "aten::index" and (
            self._calls.fills or (args[2].device.type == "cpu" != args[0].device.type)
        )
        by_mask = any(
            index is not None and index.dtype in (torch.bool, torch.uint8) for index in args[1]
        )
        return by_mask and not (filled and args[2].numel() == 1)

    def _note_crossing(
        self, name: str, taken: list[torch.Tensor], made: list[torch.Tensor], free: bool
    ) -> None:
        """Note an operation that takes numbers from one device to the other."""
        # Single numbers of the CPU may go into any operation: they are arguments of its kernel.
        here = any(x.device.type == "cpu" and (x.dim() or name == "aten::_to_copy") for x in taken)
        there = any(x.device.type == "cuda" for x in taken)
        if there and any(x.device.type == "cpu" for x in made):
            self.note(TO_HOST if name == "aten::copy_" and free else name)
        elif here and any(x.device.type == "cuda" for x in made):
            self.note(TO_DEVICE if name == "aten::copy_" and free else name)

    def note(self, op: str) -> None:
        """Note an operation, as meant or as found."""
        asked = [_sync(op, frame) for frame in askers()]
        meant = [sync for sync in asked if sync[:3] in self.expected]
        (self.meant if meant else self.found).append((meant or asked)[-1])

    @property
    def copies_out(self) -> int:
        """How often numbers went to the host: read back, or copied."""
        return sum(sync.op not in (SYNCHRONIZE, TO_DEVICE) for sync in (*self.found, *self.meant))


def hide(file: str) -> None:
    """Never name a file of ours as the one that waits: its code stands in for torch's."""
    _HIDDEN.add(file)


def askers() -> list[traceback.FrameSummary]:
    """Return who is at work, the innermost last, without torch, the standard library and this
    package's detector.
    """
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
    """Notes calls that read without an operation. fills: `tensor[index] = number` is under way,
    with a number of Python's.
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
    """Note an operation in all detectors that are active."""
    for syncs in _active:
        syncs.note(op)


def tensors(tree: Any) -> list[torch.Tensor]:
    """Return the tensors in nested containers."""
    return [x for x in tree_leaves(tree) if isinstance(x, torch.Tensor)]


def _non_blocking(func: Any, args: Any, kwargs: Any) -> bool:
    names = [argument.name for argument in func._schema.arguments]
    return bool((dict(zip(names, args, strict=False)) | kwargs).get("non_blocking", False))


def find_syncs(work: Callable[[], Any], expected: Collection[Meant] = ()) -> SyncReport:
    """Call `work` once, on whatever device it uses, and return the operations in it that read
    numbers back.

    On a CPU a copy to the CPU is no operation and cannot be seen, except for a call of
    `Tensor.cpu`; `prove_no_syncs` sees it.
    Args: expected: as of `Syncs`.
    """
    with Syncs(expected) as syncs:
        work()
    return SyncReport(tuple(syncs.found), "operations")


def cuda_syncs(work: Callable[[], Any]) -> SyncReport:
    """Call `work` once under torch's sync debug mode and return the CUDA operations that waited.
    Needs a GPU.

    The mode is experimental and does not see torch.distributed and sparse tensors. Source:
        torch.cuda.set_sync_debug_mode.
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
        """Called where the warning is raised, so that the stack tells who asked."""
        if _DEBUG_WARNING in str(message):
            found.append(_sync(_DEBUG_WARNING.removeprefix("called a "), askers()[-1]))

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
