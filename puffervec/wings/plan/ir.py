# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The intermediate representation of a plan: what runs, and which memory it touches. Pure data:
`build.py` makes it from a graph of torch, `arena.py` fills in the addresses, `executor.py` runs it.

    step 0            1          2     ...   len(nodes)      len(nodes) + 1
    inputs written    node 0     node 1      the last node   outputs read

A tensor is born at the step that writes it and is last used at the last step that reads it. A view
is a tensor too: its `base` says in whose memory it lies.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import torch

INPUT, STATE, OUTPUT, PARAMETER = "input", "state", "output", "parameter"
SAVED, TEMPORARY, WORKSPACE = "saved", "temporary", "workspace"
KINDS = (INPUT, STATE, OUTPUT, PARAMETER, SAVED, TEMPORARY, WORKSPACE)


@dataclasses.dataclass(frozen=True)
class Ref:
    """Stands for a tensor among the arguments of a node."""

    name: str


@dataclasses.dataclass
class TensorDesc:
    """One tensor.

    Attributes:
        shape, stride: in numbers. dtype, device: where and what.
        kind: input (the caller writes it before each run), state (stays from run to run), output,
            parameter (memory of its own, outside of the plan), saved (for the backward pass),
            temporary, or workspace (of one node).
        base: the tensor in whose memory it lies: itself, unless it is a view. start: its first byte
        there.
        buffer, offset: where arena.py put it: the name of a buffer ("" for what lies in a
        parameter), and bytes in it.
        first, last: the steps between which its own numbers are needed; `last` is -1 where nobody
            reads it.
    """

    name: str
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device
    kind: str
    base: str
    start: int = 0
    buffer: str = ""
    offset: int = -1
    first: int = 0
    last: int = -1

    @property
    def nbytes(self) -> int:
        """Bytes from the first number to the last, gaps between them counted."""
        if 0 in self.shape:
            return 0
        reach = 1 + sum(
            (size - 1) * step for size, step in zip(self.shape, self.stride, strict=True)
        )
        return reach * self.dtype.itemsize

    @property
    def is_view(self) -> bool:
        """True where another tensor's memory is shown."""
        return self.base != self.name

    def table(self) -> dict[str, Any]:
        """As JSON values."""
        found = dataclasses.asdict(self) | {
            "dtype": short(self.dtype),
            "device": str(self.device),
            "bytes": self.nbytes,
        }
        return {
            key: list(value) if isinstance(value, tuple) else value for key, value in found.items()
        }


@dataclasses.dataclass
class Node:
    """One operation.

    Attributes:
        op: what torch calls it. arguments: positional and by name, with a `Ref` for each tensor.
        inputs, outputs: tensors, by name; parameters: those of the inputs that are parameters.
        in_place: inputs whose memory the output may take, if nobody needs them afterwards.
        view: nothing runs, the output shows an input's memory. planned: a rule says how it runs.
        workspace: tensors that only this node uses.
        place: who asked for it: the module, and the line of source where that is known.
    """

    name: str
    op: Any
    arguments: tuple[tuple[Any, ...], dict[str, Any]]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    parameters: tuple[str, ...] = ()
    in_place: tuple[str, ...] = ()
    view: bool = False
    planned: bool = True
    workspace: tuple[str, ...] = ()
    workspace_bytes: int = 0
    place: str = ""

    @property
    def attrs(self) -> dict[str, Any]:
        """Arguments that are no tensors, by the names that the operation has for them."""
        args, kwargs = self.arguments
        names = (
            [argument.name for argument in self.op._schema.arguments]
            if hasattr(self.op, "_schema")
            else []
        )
        named = {
            names[i] if i < len(names) else str(i): value for i, value in enumerate(args)
        } | kwargs
        return {name: value for name, value in named.items() if not any(True for _ in refs(value))}

    def table(self) -> dict[str, Any]:
        """As JSON values."""
        plain = {
            key: getattr(self, key)
            for key in ("name", "view", "planned", "workspace_bytes", "place")
        }
        lists = {key: list(getattr(self, key)) for key in ("inputs", "outputs", "parameters")}
        return (
            plain
            | lists
            | {
                "op": str(self.op),
                "attrs": {key: _plain(value) for key, value in self.attrs.items()},
            }
        )


@dataclasses.dataclass
class Graph:
    """Nodes in the order in which they run, and their tensors.

    Attributes:
        inputs: what the caller writes, in the order of the graph's placeholders; None for those
        that are no tensors.
        outputs: what it reads: tensors, or constants.
        carried: by output: the input or parameter that it replaces for the next run.
        constants: parameters that the graph itself holds, by name.
    """

    nodes: list[Node]
    tensors: dict[str, TensorDesc]
    inputs: list[str | None]
    outputs: list[Any]
    carried: dict[str, str] = dataclasses.field(default_factory=dict)
    constants: dict[str, torch.Tensor] = dataclasses.field(default_factory=dict)

    @property
    def end(self) -> int:
        """The step after the last node."""
        return len(self.nodes) + 1

    @property
    def parameters(self) -> list[str]:
        """Names of tensors whose memory is not the plan's, views left out."""
        return [
            name
            for name, tensor in self.tensors.items()
            if tensor.kind == PARAMETER and not tensor.is_view
        ]

    def root(self, name: str) -> TensorDesc:
        """The tensor whose memory a tensor shows."""
        return self.tensors[self.tensors[name].base]

    @property
    def unplanned(self) -> list[Node]:
        """Nodes without a rule."""
        return [node for node in self.nodes if not node.planned]

    def output_names(self) -> list[str]:
        """The outputs that are tensors."""
        return [ref.name for value in self.outputs for ref in refs(value)]

    def tables(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "nodes": [node.table() for node in self.nodes],
            "tensors": [tensor.table() for tensor in self.tensors.values()],
            "inputs": list(self.inputs),
            "outputs": [_plain(value) for value in self.outputs],
            "carried": dict(self.carried),
        }


def refs(value: Any) -> Iterator[Ref]:
    """Yield the tensors in an argument."""
    if isinstance(value, Ref):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from refs(item)
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from refs(item)


def replaced(value: Any, tensors: Mapping[str, Any]) -> Any:
    """Return an argument with what `tensors` has in the place of each `Ref`."""
    if isinstance(value, Ref):
        return tensors[value.name]
    if isinstance(value, (list, tuple)):
        return type(value)([replaced(item, tensors) for item in value])
    if isinstance(value, dict):
        return {key: replaced(item, tensors) for key, item in value.items()}
    return value


def short(dtype: torch.dtype) -> str:
    """`float32` instead of `torch.float32`."""
    return str(dtype).removeprefix("torch.")


def _plain(value: Any) -> Any:
    """A JSON value that says the same."""
    if isinstance(value, Ref):
        return value.name
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)
