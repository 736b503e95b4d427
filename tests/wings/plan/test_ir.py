# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The representation (puffervec/wings/plan/ir.py)."""

from __future__ import annotations

import json

import torch

from puffervec.wings.plan.ir import Node, Ref, TensorDesc, refs, substitute
from tests.wings.plan.graphs import planned


def test_bytes_of_a_tensor_count_its_gaps() -> None:
    def desc(shape: tuple[int, ...], stride: tuple[int, ...]) -> int:
        return TensorDesc(
            "x", shape, stride, torch.float32, torch.device("cpu"), "input", "x"
        ).nbytes

    assert [desc((), ()), desc((3, 4), (4, 1)), desc((3, 2), (4, 1)), desc((3, 0), (1, 1))] == [
        4,
        48,
        40,
        0,
    ]


def test_arguments_of_an_operation_without_a_schema_are_numbered() -> None:
    assert Node("n", len, ((Ref("a"), 3), {}), ("a",), ("n",)).attrs == {"1": 3}


def test_what_no_step_reads_has_no_last_step() -> None:
    graph, _ = planned(lambda x: x.max(1).values, torch.randn(2, 3))
    values, indices = (graph.tensors[name] for name in graph.nodes[0].outputs)
    assert (values.last, indices.last) == (graph.end, -1)


def test_refs_are_found_and_substitute_in_nested_arguments() -> None:
    argument = ([Ref("a"), 1], {"k": (Ref("b"), None)})
    assert [ref.name for ref in refs(argument)] == ["a", "b"]
    assert substitute(argument, {"a": 5, "b": 6}) == ([5, 1], {"k": (6, None)})


def test_a_graph_is_json() -> None:
    graph, arena = planned(
        lambda x: torch.cat([x, x * 2], dim=-1).amax(-1, keepdim=True), torch.randn(2, 3)
    )
    found = json.loads(json.dumps(graph.tables() | arena.table()))
    assert [node["op"] for node in found["nodes"]] == [
        "aten.mul.Tensor",
        "aten.cat.default",
        "aten.amax.default",
    ]
    assert found["nodes"][2]["attrs"] == {"dim": [-1], "keepdim": True}
    assert found["nodes"][1]["inputs"] == [found["inputs"][0], "mul"]
    tensors = {tensor["name"]: tensor for tensor in found["tensors"]}
    assert (
        tensors["cat"]["shape"] == [2, 6]
        and tensors["cat"]["bytes"] == 48
        and tensors["cat"]["dtype"] == "float32"
    )
    assert (tensors["mul"]["first"], tensors["mul"]["last"]) == (1, 2)
    given = tensors[found["inputs"][0]]
    assert (given["first"], given["last"]) == (0, 2)
    assert tensors["amax"]["kind"] == "output" and tensors["amax"]["last"] == graph.end
