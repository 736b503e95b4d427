# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""A GPU's tensors without a GPU: a proof that code waits for nothing, on any machine.

`fake_cuda` makes tensors that claim to be on a GPU and have shapes but no contents: whatever asks
for a number fails, and what leaves the device is seen by `Syncs`. Streams, events and graphs are
stand-ins. It works with a build of torch without CUDA.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Any
from unittest import mock

import torch
from torch import nn
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
)
from torch.utils._python_dispatch import TorchDispatchMode

from puffervec.errors import PuffervecError
from puffervec.train.device.syncs import SYNCHRONIZE, SyncReport, Syncs, hide, note_all, tensors

FAKE = "fake CUDA"
hide(__file__)
_NO_NUMBER = (DataDependentOutputException, DynamicOutputShapeException)


class ProofError(PuffervecError, RuntimeError):
    """Code cannot run on fake CUDA tensors, so nothing is known of it."""


def _copy(self: torch.Tensor, source: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
    """copy_ by way of the dispatcher: the method itself asks a torch without CUDA to choose the
    device.
    """
    copied: torch.Tensor = torch.ops.aten.copy_.default(self, source, non_blocking)
    return copied


_to_of_torch, _as_tensor_of_torch = torch.Tensor.to, torch.as_tensor


def _to(self: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
    """to, likewise."""
    words = [*args, *(kwargs.get(name) for name in ("device", "dtype"))]
    dtype = next((word for word in words if isinstance(word, torch.dtype)), self.dtype)
    place = next((word for word in words if isinstance(word, torch.device | str)), self.device)
    if torch.device(place).type != self.device.type:
        moved: torch.Tensor = torch.ops.aten._to_copy.default(
            self, dtype=dtype, device=torch.device(place)
        )
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
        elif isinstance(word, torch.Tensor | list):
            by_tensor[dim] = torch.as_tensor(word, device=self.device)
        elif isinstance(word, slice):
            out = torch.ops.aten.slice.Tensor(out, dim, word.start, word.stop, word.step or 1)
        else:
            out, dim = out.select(dim, word), dim - 1
        dim += 1
    if not by_tensor:
        return out
    picked: torch.Tensor = torch.ops.aten.index.Tensor(
        out, [by_tensor.get(d) for d in range(max(by_tensor) + 1)]
    )
    return picked


def _setitem(self: torch.Tensor, index: Any, value: Any) -> None:
    """Writing to an index, likewise; tensors among the indices stand alone."""
    words = index if isinstance(index, tuple) else (index,)
    if all(isinstance(word, torch.Tensor) for word in words):
        value = (
            value
            if isinstance(value, torch.Tensor)
            else torch.scalar_tensor(value, dtype=self.dtype, device="cpu")
        )
        torch.ops.aten.index_put_.default(self, list(words), value)
        return
    part = _getitem(self, index)
    if isinstance(value, torch.Tensor):
        _copy(part, value)
    else:
        part.fill_(value)


def _number(method: str) -> Callable[[torch.Tensor], Any]:
    """float, bool and the like, by way of the dispatcher, where the detector sees them and there is
    no number to be given.
    """
    of_torch = getattr(torch.Tensor, method)

    def read(self: torch.Tensor) -> Any:
        return (
            of_torch(self)
            if self.device.type == "cpu"
            else torch.ops.aten._local_scalar_dense.default(self)
        )

    return read


def _contiguous(
    self: torch.Tensor, memory_format: torch.memory_format = torch.contiguous_format
) -> torch.Tensor:
    """contiguous, likewise."""
    if self.is_contiguous(memory_format=memory_format):
        return self
    copied: torch.Tensor = torch.ops.aten.clone.default(self, memory_format=memory_format)
    return copied


@contextmanager
def _modules_that_move() -> Iterator[None]:
    """Let `nn.Module.to` and its kin give a module new parameters and buffers, which it loses at
    the end of the block.

    torch would swap the contents of old and new tensors, which it refuses for those that a fake
    mode knows of, and which would leave a module of the caller's without numbers.
    """
    replaced: list[tuple[dict[str, Any], str, torch.Tensor]] = []

    def apply(
        self: nn.Module, fn: Callable[[torch.Tensor], torch.Tensor], recurse: bool = True
    ) -> nn.Module:
        for child in self.children() if recurse else ():
            child._apply(fn)  # type: ignore[no-untyped-call]
        tables: tuple[dict[str, Any], ...] = self._parameters, self._buffers
        for table in tables:
            for name, old in table.items():
                if old is not None:
                    new = fn(old)
                    replaced.append((table, name, old))
                    table[name] = (
                        nn.Parameter(new, old.requires_grad)
                        if isinstance(old, nn.Parameter)
                        else new
                    )
        return self

    try:
        with mock.patch.object(nn.Module, "_apply", apply):
            yield
    finally:
        for table, name, old in reversed(replaced):
            table[name] = old


class _Kernels(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Operations that CUDA has and that no one has told the shapes of."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten._fused_adam_.tensor_lr:
            assert all(x.device.type == "cuda" for x in tensors((args, kwargs)))
            return None
        if func is torch.ops.aten._thnn_fused_gru_cell.default:
            hidden = args[2]
            return hidden.new_empty(hidden.shape), hidden.new_empty(
                len(hidden), 5 * hidden.shape[1]
            )
        return func(*args, **(kwargs or {}))


class Waiting:
    """Stands for a stream or an event: everything has always happened; asking to wait for it is
    noted.
    """

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
        note_all(SYNCHRONIZE)


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
        ways: dict[str, Any] = {
            "copy_": _copy,
            "to": _to,
            "__getitem__": _getitem,
            "__setitem__": _setitem,
        }
        ways |= {
            name: _number(name)
            for name in ("item", "__float__", "__bool__", "__int__", "__index__")
        }
        ways |= {"data_ptr": lambda _: 0}  # Only the stand-in for the runtime is told.
        ways |= {"contiguous": _contiguous, "cuda": lambda self, *args, **kwargs: _to(self, device)}
        stack.enter_context(mock.patch.multiple(torch.Tensor, **ways))
        stack.enter_context(mock.patch.object(torch, "as_tensor", _as_tensor))
        stack.enter_context(
            mock.patch.object(torch.backends.cudnn, "is_acceptable", lambda _: False)
        )  # nor asked for
        stand_ins: dict[str, Any] = {
            "Stream": Waiting,
            "Event": Waiting,
            "CUDAGraph": Graph,
            "cudart": _Runtime,
        }
        stand_ins |= {"current_stream": Waiting, "synchronize": lambda *_: note_all(SYNCHRONIZE)}
        stand_ins |= {"stream": nullcontext, "graph": lambda *args, **kwargs: nullcontext()}
        stack.enter_context(mock.patch.multiple(torch.cuda, **stand_ins))
        stack.enter_context(FakeTensorMode(allow_non_fake_inputs=True))
        stack.enter_context(_modules_that_move())
        stack.enter_context(_Kernels())  # type: ignore[no-untyped-call]
        stack.enter_context(device)
        yield device


@contextmanager
def _no_gradients() -> Iterator[None]:
    """Gradients are off in the block and stay so, whoever asks for them (torch.distributions do): a
    torch without CUDA would end the process where autograd meets a CUDA tensor.
    """
    switch = torch._C._set_grad_enabled
    with (
        torch.no_grad(),
        mock.patch.object(torch._C, "_set_grad_enabled", lambda on: switch(False)),
    ):
        yield


def _as_tensor(data: Any, dtype: torch.dtype | None = None, device: Any = None) -> torch.Tensor:
    """as_tensor by way of the dispatcher."""
    made = data if isinstance(data, torch.Tensor) else _as_tensor_of_torch(data, device="cpu")
    return _to(made, torch.device(device or "cuda"), dtype or made.dtype)


def prove_no_syncs(make: Callable[[], Callable[[], Any]]) -> SyncReport:
    """Run code on fake CUDA tensors and return what waits for the device: nothing is a proof for
        the path that was taken.

    Gradients are off, as in a roll-out: the code must not call `backward`.
    Args: make: called without arguments where new tensors and modules are on the fake device;
        returns the work, which is called once. What `make` itself does is not looked at.
    Returns: the operations that were found. The first one that needs a number ends the work: there
    is none to be given.
    Raises: ProofError: the code cannot run there, and not because it needs a number; the cause is
        what it raised.
    """
    syncs = Syncs()
    with fake_cuda(), _no_gradients():
        try:
            work = make()
            with syncs:
                work()
        except Exception as error:
            what = " ".join(str(error).split())[:200]
            if not syncs.found:
                raise ProofError(
                    f"no proof: this code cannot run on fake CUDA tensors: {what}"
                ) from error
            asked = isinstance(error, _NO_NUMBER) or syncs.found[-1].op.startswith("Tensor.")
            return SyncReport(tuple(syncs.found), FAKE, ended=False, note="" if asked else what)
    return SyncReport(tuple(syncs.found), FAKE)
