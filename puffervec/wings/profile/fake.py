# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Prove on any machine, with fake CUDA tensors, that code does not wait for the device.

`fake_cuda` makes tensors that claim to be on a GPU and have shapes but no contents. Reading a
number fails, and `Syncs` sees what leaves the device. Streams, events and graphs are stand-ins. It
works with a build of torch without CUDA.
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
    """Raised if code cannot run on fake CUDA tensors, so nothing can be proved about it."""


def _copy(self: torch.Tensor, source: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
    """Call copy_ through the dispatcher; the method itself would need torch's CUDA runtime."""
    copied: torch.Tensor = torch.ops.aten.copy_.default(self, source, non_blocking)
    return copied


_to_of_torch, _as_tensor_of_torch = torch.Tensor.to, torch.as_tensor


def _to(self: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
    """Call `to` through the dispatcher."""
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
    """Index through the dispatcher."""
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
    """Write to an index through the dispatcher; tensors cannot be mixed with other indices."""
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
    """Return a method that reads a number through the dispatcher, where `Syncs` sees it.

    A fake tensor has no number to return.
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
    """Call `contiguous` through the dispatcher."""
    if self.is_contiguous(memory_format=memory_format):
        return self
    copied: torch.Tensor = torch.ops.aten.clone.default(self, memory_format=memory_format)
    return copied


@contextmanager
def _modules_that_move() -> Iterator[None]:
    """Let `nn.Module.to` and the like replace parameters and buffers until the end of the block.

    Otherwise torch would swap the contents of old and new tensors, which it refuses for tensors
    that a fake mode has seen, and which would leave the caller's module without values.
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
    """Implements operations that CUDA has but for which torch has no shape function."""

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
    """Stand-in for a stream or an event, which is always done; waits of the host are recorded."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def wait_stream(self, other: Any) -> None:
        """Do nothing: this waits on the device."""

    def wait_event(self, event: Any) -> None:
        """Do nothing: this waits on the device."""

    def record(self, stream: Any = None) -> None:
        """Do nothing: this records on the device."""

    def query(self) -> bool:
        """Return True, since all work is done."""
        return True

    def synchronize(self) -> None:
        """Record that the host waits."""
        note_all(SYNCHRONIZE)


class Graph:
    """Stand-in for a CUDA graph; its replay only counts, as fake tensors have no contents."""

    replays = 0

    def register_generator_state(self, generator: torch.Generator) -> None:
        """Do nothing."""

    def replay(self) -> None:
        """Count the replay."""
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
    """Make new tensors in the block have device "cuda", and shapes but no contents."""
    device = torch.device("cuda")
    with ExitStack() as stack:
        methods: dict[str, Any] = {
            "copy_": _copy,
            "to": _to,
            "__getitem__": _getitem,
            "__setitem__": _setitem,
        }
        methods |= {
            name: _number(name)
            for name in ("item", "__float__", "__bool__", "__int__", "__index__")
        }
        methods |= {"data_ptr": lambda _: 0}  # Only passed to the stand-in for the runtime.
        methods |= {
            "contiguous": _contiguous,
            "cuda": lambda self, *args, **kwargs: _to(self, device),
        }
        stack.enter_context(mock.patch.multiple(torch.Tensor, **methods))
        stack.enter_context(mock.patch.object(torch, "as_tensor", _as_tensor))
        stack.enter_context(
            mock.patch.object(torch.backends.cudnn, "is_acceptable", lambda _: False)
        )
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
    """Keep gradients off in the block even if code such as torch.distributions switches them on.

    A torch without CUDA would end the process when autograd meets a CUDA tensor.
    """
    switch = torch._C._set_grad_enabled
    with (
        torch.no_grad(),
        mock.patch.object(torch._C, "_set_grad_enabled", lambda on: switch(False)),
    ):
        yield


def _as_tensor(data: Any, dtype: torch.dtype | None = None, device: Any = None) -> torch.Tensor:
    """Call `as_tensor` through the dispatcher."""
    tensor = data if isinstance(data, torch.Tensor) else _as_tensor_of_torch(data, device="cpu")
    return _to(tensor, torch.device(device or "cuda"), dtype or tensor.dtype)


def prove_no_syncs(make: Callable[[], Callable[[], Any]]) -> SyncReport:
    """Run code on fake CUDA tensors and return what waits for the device.

    An empty report is a proof for the path that was taken. Gradients are off, as in a rollout: the
    code must not call `backward`.

    Args:
        make: called without arguments in a block in which new tensors and modules are on the fake
            device; returns the work, which is called once. `make` itself is not checked.

    Returns: the operations that wait. The first one that needs a number ends the work, as there is
    no number to return.

    Raises:
        ProofError: the code cannot run on fake tensors for another reason, which is its cause.
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
