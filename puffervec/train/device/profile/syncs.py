# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Finds places where the learner waits for its device, on any machine.

`Syncs` notes what reads a number back from a tensor (on a GPU: waits for everything before it) and what takes a tensor to
another device, but for the copies that are meant. `fake_cuda` makes tensors that claim to be on a GPU and have no contents:
whatever asks for a number fails, and what leaves the device is seen. Streams, events and graphs are stand-ins there.
"""

from __future__ import annotations

import traceback
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

READS = (
    "aten::_local_scalar_dense", "aten::nonzero", "aten::masked_select", "aten::_unique2", "aten::equal", "aten::is_nonzero",
)  # fmt: skip
# They read a CPU's tensor where it stands, without an operation, so that only the call shows it.
CALLS = ("cpu", "tolist", "numpy", "__array__", "__dlpack__")
OURS = tuple(f"{Path(__file__).parents[4] / folder}/" for folder in ("puffervec", "tests"))  # whose lines are named


class Sync(NamedTuple):
    """An operation that waits, and who asked for it."""

    op: str
    file: str
    function: str
    line: str


Meant = tuple[str, str, str]  # operation, file, function
# The rows and the actions of a half, from and to page-locked memory; an event says when they are there.
COPIES: tuple[Meant, ...] = (
    ("copy to the device", "device_turn.py", "launch"),
    ("copy to the host", "device_turn.py", "_copy_out"),
)  # fmt: skip
_active: list[Syncs] = []


class Syncs(TorchDispatchMode):
    """While active, `found` collects what waits, and `meant` what was asked for and not found faulty."""

    def __init__(self, expected: Collection[Meant] = ()) -> None:
        """Args: expected: what is no offence, also in what those functions call; copies only where they are non_blocking."""
        super().__init__()
        self.expected = tuple(expected)
        self.found: list[Sync] = []
        self.meant: list[Sync] = []
        self._calls = _Calls()

    def __enter__(self) -> Syncs:
        _active.append(self)
        self._calls.__enter__()
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self._calls.__exit__(*error)
        _active.remove(self)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = func._schema.name
        indices = args[1] if name in ("aten::index", "aten::index_put_", "aten::index_put") else ()
        by_mask = any(index is not None and index.dtype in (torch.bool, torch.uint8) for index in indices)
        if name in READS or by_mask:
            self.note(name)
        out = func(*args, **kwargs)
        self._note_crossing(name, _tensors((args, kwargs)), _tensors(out), _non_blocking(func, args, kwargs))
        return out

    def _note_crossing(self, name: str, taken: list[torch.Tensor], made: list[torch.Tensor], free: bool) -> None:
        """Note an operation that takes numbers from one device to the other."""
        # Single numbers of the CPU may go into any operation: they are arguments of its kernel.
        here = any(x.device.type == "cpu" and x.dim() for x in taken)
        there = any(x.device.type == "cuda" for x in taken)
        if there and any(x.device.type == "cpu" for x in made):
            self.note("copy to the host" if name == "aten::copy_" and free else name)
        elif here and any(x.device.type == "cuda" for x in made):
            self.note("copy to the device" if name == "aten::copy_" and free else name)

    def note(self, op: str) -> None:
        """Note an operation, as meant or as found."""
        ours = [f for f in traceback.extract_stack() if f.filename.startswith(OURS)]
        frames = [f for f in ours if not f.filename.endswith("/syncs.py")]
        asked = [Sync(op, f.filename.rpartition("/")[2], f.name, f.line or "") for f in frames]
        meant = [sync for sync in asked if sync[:3] in self.expected]
        (self.meant if meant else self.found).append((meant or asked)[-1])


class _Calls(TorchFunctionMode):
    """Notes calls that read without an operation."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        if name in CALLS and getattr(torch.Tensor, name, None) is func:
            _note_all(f"Tensor.{name}")
        return func(*args, **(kwargs or {}))


def _note_all(op: str) -> None:
    for syncs in _active:
        syncs.note(op)


def _tensors(tree: Any) -> list[torch.Tensor]:
    return [x for x in tree_leaves(tree) if isinstance(x, torch.Tensor)]


def _non_blocking(func: Any, args: Any, kwargs: Any) -> bool:
    names = [argument.name for argument in func._schema.arguments]
    return bool((dict(zip(names, args, strict=False)) | kwargs).get("non_blocking", False))


# ---- a GPU's tensors without a GPU ----------------------------------------------------------------------------


def _copy(self: torch.Tensor, source: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
    """copy_ by way of the dispatcher: the method itself asks a torch without CUDA to choose the device."""
    copied: torch.Tensor = torch.ops.aten.copy_.default(self, source, non_blocking)
    return copied


_to_of_torch = torch.Tensor.to


def _to(self: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
    """to, likewise."""
    words = [*args, *(kwargs.get(name) for name in ("device", "dtype"))]
    dtype = next((word for word in words if isinstance(word, torch.dtype)), self.dtype)
    place = next((word for word in words if isinstance(word, torch.device | str)), self.device)
    if torch.device(place).type != self.device.type:
        moved: torch.Tensor = torch.ops.aten._to_copy.default(self, dtype=dtype, device=torch.device(place))
        return moved
    if dtype == self.dtype:
        return _to_of_torch(self, **kwargs) if "memory_format" in kwargs else self
    changed: torch.Tensor = torch.ops.aten.to.dtype(self, dtype)
    return changed


def _getitem(self: torch.Tensor, index: Any) -> torch.Tensor:
    """Indexing, likewise."""
    words = index if isinstance(index, tuple) else (index,)
    width = sum(word is not None and word is not Ellipsis for word in words)
    if Ellipsis in [word for word in words if not isinstance(word, torch.Tensor)]:
        where = [word is Ellipsis for word in words].index(True)
        words = (*words[:where], *[slice(None)] * (self.dim() - width), *words[where + 1 :])
    out, dim, by_tensor = self, 0, {}
    for word in words:
        if word is None:
            out = out.unsqueeze(dim)
        elif isinstance(word, torch.Tensor):
            by_tensor[dim] = word
        elif isinstance(word, slice):
            out = torch.ops.aten.slice.Tensor(out, dim, word.start, word.stop, word.step or 1)
        else:
            out, dim = out.select(dim, word), dim - 1
        dim += 1
    if not by_tensor:
        return out
    picked: torch.Tensor = torch.ops.aten.index.Tensor(out, [by_tensor.get(d) for d in range(max(by_tensor) + 1)])
    return picked


def _setitem(self: torch.Tensor, index: Any, value: Any) -> None:
    """Writing to an index, likewise; not where the index is a tensor."""
    part = _getitem(self, index)
    if isinstance(value, torch.Tensor):
        _copy(part, value)
    else:
        part.fill_(value)


class _Kernels(TorchDispatchMode):
    """Operations that CUDA has and that no one has told the shapes of."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten._fused_adam_.tensor_lr:
            assert all(x.device.type == "cuda" for x in _tensors((args, kwargs)))
            return None
        return func(*args, **(kwargs or {}))


class Waiting:
    """Stands for a stream or an event: everything has always happened; asking to wait for it is noted."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def wait_stream(self, other: Any) -> None:
        """On the device."""

    def wait_event(self, event: Any) -> None:
        """On the device."""

    def record(self, stream: Any = None) -> None:
        """On the device."""

    def query(self) -> bool:
        """It has happened."""
        return True

    def synchronize(self) -> None:
        """Wait on the host."""
        _note_all("synchronize")


class Graph:
    """Stands for a CUDA graph: its replay runs nothing, as fake tensors have nothing to be run on."""

    replays = 0

    def register_generator_state(self, generator: torch.Generator) -> None:
        """Nothing to be kept."""

    def replay(self) -> None:
        """Count."""
        Graph.replays += 1


class _Runtime:
    @staticmethod
    def cudaHostRegister(pointer: int, size: int, flags: int) -> int:
        return 0

    @staticmethod
    def cudaHostUnregister(pointer: int) -> int:
        return 0


@contextmanager
def fake_cuda() -> Iterator[torch.device]:
    """In the block, new tensors are on "cuda" and have shapes but no contents."""
    device = torch.device("cuda")
    with ExitStack() as stack:
        ways: dict[str, Any] = {"copy_": _copy, "to": _to, "__getitem__": _getitem, "__setitem__": _setitem}
        ways |= {"data_ptr": lambda _: 0}  # Only the stand-in for the runtime is told.
        stack.enter_context(mock.patch.multiple(torch.Tensor, **ways))
        stand_ins: dict[str, Any] = {"Stream": Waiting, "Event": Waiting, "CUDAGraph": Graph, "cudart": _Runtime}
        stand_ins |= {"current_stream": Waiting, "synchronize": lambda *_: _note_all("synchronize")}
        stand_ins |= {"stream": nullcontext, "graph": lambda *args, **kwargs: nullcontext()}
        stack.enter_context(mock.patch.multiple(torch.cuda, **stand_ins))
        stack.enter_context(FakeTensorMode(allow_non_fake_inputs=True))
        stack.enter_context(_Kernels())
        stack.enter_context(device)
        yield device
