# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The intermediate representation of a plan: the operations, and the memory that they use.

It is pure data: `build.py` makes it from a torch graph, `arena.py` fills in the addresses,
`executor.py` runs it.

    step 0            1          2     ...   len(nodes)      len(nodes) + 1
    inputs written    node 0     node 1      the last node   outputs read

A tensor's lifetime begins at the step that writes it and ends at the last step that reads it. A
view is a tensor too; its `base` is the tensor in whose memory it lies.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import torch

INPUT, STATE, OUTPUT, PARAMETER = "input", "state", "output", "parameter"
SAVED, TEMPORARY, WORKSPACE = "saved", "temporary", "workspace"


@dataclasses.dataclass(frozen=True)
class Ref:
    """Reference to a tensor among the arguments of a node."""

    name: str


@dataclasses.dataclass
class TensorDesc:
    """A tensor of a graph.

    Attributes:
        name: unique in the graph.
        shape, stride: in elements.
        dtype, device: as in torch.
        kind: input (the caller writes it before each run), state (kept from run to run), output,
            parameter (outside the plan's memory), saved (for the backward pass), temporary, or
            workspace (of one node).
        base: name of the tensor in whose memory this one lies: itself, unless it is a view.
        start: offset of its first byte in the base.
        buffer, offset: assigned by arena.py: the name of a buffer ("" for a tensor in a parameter),
            and the offset in bytes.
        first, last: the steps between which its own elements are needed; `last` is -1 if no step
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
        """Bytes from the first element to the last, gaps included."""
        if 0 in self.shape:
            return 0
        reach = 1 + sum(
            (size - 1) * step for size, step in zip(self.shape, self.stride, strict=True)
        )
        return reach * self.dtype.itemsize

    @property
    def is_view(self) -> bool:
        """Whether the tensor lies in another tensor's memory."""
        return self.base != self.name

    def table(self) -> dict[str, Any]:
        """Return the tensor as JSON values."""
        values = dataclasses.asdict(self) | {
            "dtype": short(self.dtype),
            "device": str(self.device),
            "bytes": self.nbytes,
        }
        return {
            key: list(value) if isinstance(value, tuple) else value for key, value in values.items()
        }


@dataclasses.dataclass
class Node:
    """An operation of a graph.

    Attributes:
        name: unique in the graph.
        op: torch's operation.
        arguments: positional and keyword arguments, with a `Ref` for each tensor.
        inputs, outputs: names of tensors.
        parameters: the inputs that are parameters.
        in_place: inputs whose memory the output may take, if no later step needs them.
        view: whether the output is a view of an input, so that nothing runs.
        planned: whether a rule exists.
        workspace: tensors that only this node uses.
        workspace_bytes: size of the workspace.
        place: the module, and the source line if it is known.
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
        """Arguments that are not tensors, by their names in the operation's schema."""
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
        """Return the node as JSON values."""
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
        nodes: in order.
        tensors: tensors by name.
        inputs: names of the tensors that the caller writes, in the order of the graph's
            placeholders; None for placeholders that are not tensors.
        outputs: results: tensors, or constants.
        carried: for each output, the input or parameter that it replaces for the next run.
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
        """Names of the tensors outside the plan's memory, without views."""
        return [
            name
            for name, tensor in self.tensors.items()
            if tensor.kind == PARAMETER and not tensor.is_view
        ]

    def root(self, name: str) -> TensorDesc:
        """Return the tensor in whose memory a tensor lies."""
        return self.tensors[self.tensors[name].base]

    @property
    def unplanned(self) -> list[Node]:
        """Nodes without a rule."""
        return [node for node in self.nodes if not node.planned]

    def output_names(self) -> list[str]:
        """Return the names of the outputs that are tensors."""
        return [ref.name for value in self.outputs for ref in refs(value)]

    def tables(self) -> dict[str, Any]:
        """Return the graph as JSON values."""
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


def substitute(value: Any, tensors: Mapping[str, Any]) -> Any:
    """Return an argument with each `Ref` replaced by the entry of `tensors` of that name."""
    if isinstance(value, Ref):
        return tensors[value.name]
    if isinstance(value, (list, tuple)):
        return type(value)([substitute(item, tensors) for item in value])
    if isinstance(value, dict):
        return {key: substitute(item, tensors) for key, item in value.items()}
    return value


def short(dtype: torch.dtype) -> str:
    """Return `float32` instead of `torch.float32`."""
    return str(dtype).removeprefix("torch.")


def _plain(value: Any) -> Any:
    """Return a value as JSON."""
    if isinstance(value, Ref):
        return value.name
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)
