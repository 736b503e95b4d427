# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Tables of objects that are pooled by attention (policy.object_attention)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from puffervec.errors import ConfigError
from puffervec.train.config.sections import PolicySection
from puffervec.train.policies import object_set
from puffervec.train.policies.attention import HEADS, ObjectAttention
from puffervec.train.policies.registry import build_policy
from puffervec.wings.export import exporting as export
from tests.train.fakes import group

GROUP = group(("ego", (3,)), ("cars", (5, 4)), ("roads", (6, 2)))
SECTION = PolicySection(hidden=(8,), object_attention=("cars",))


def some(rows: int = 6) -> tuple[ObjectAttention, Tensor, Tensor]:
    """An encoder, objects of which some are missing (in row 0 all, in row 1 none), and who asks."""
    torch.manual_seed(0)
    objects = torch.randn(rows, 5, 3)
    objects[torch.rand(rows, 5) < 0.4] = 0.0
    objects[0], objects[1] = 0.0, torch.randn(5, 3)
    return ObjectAttention(3, 7, 16, 8, factor=0.5), objects, torch.randn(rows, 7)


def slow(encoder: ObjectAttention, objects: np.ndarray, asked_by: np.ndarray) -> np.ndarray:
    """What one row gives, by the formula: softmax(q x / sqrt(d)) x over the objects that are there,
    and nobody.
    """
    first, bias, queries, last = (
        x.detach().double().numpy() for x in encoder.state_dict().values()
    )
    seen = [np.zeros(encoder.hidden)] + [
        np.maximum(first @ (x * encoder.factor) + bias, 0) for x in objects if x.any()
    ]
    out = []
    for query in (queries @ asked_by).reshape(HEADS, encoder.hidden):
        weights = np.exp([query @ x / np.sqrt(encoder.hidden) for x in seen])
        out.append(weights / weights.sum() @ np.array(seen))
    found: np.ndarray = np.maximum(last @ np.concatenate(out), 0)
    return found


def test_attention_equals_its_formula() -> None:
    encoder, objects, asked_by = some()
    found = encoder(objects, asked_by).detach().numpy()
    for row, values in enumerate(found):
        np.testing.assert_allclose(
            values, slow(encoder, objects[row].double().numpy(), asked_by[row].numpy()), atol=1e-5
        )
    assert (found[1:] != 0).any()


def test_a_row_without_objects_gives_zeros_and_gradients_are_finite() -> None:
    encoder, objects, asked_by = some()
    found = encoder(objects, asked_by)
    assert not found[0].any()
    found.sum().backward()
    assert all(
        bool(torch.isfinite(x.grad).all()) and bool(x.grad.any()) for x in encoder.parameters()
    )


def test_order_and_empty_slots_count_for_nothing() -> None:
    encoder, objects, asked_by = some()
    shuffled = torch.cat([torch.zeros(6, 4, 3), objects[:, torch.randperm(5)]], 1)
    torch.testing.assert_close(encoder(shuffled, asked_by), encoder(objects, asked_by))


def test_the_query_is_asked_by_the_plain_fields() -> None:
    """Of two objects the answer depends on who asks."""
    encoder, objects, asked_by = some()
    same = objects[1:2].expand(6, 5, 3)
    assert encoder(same, asked_by).std(dim=0).max() > 1e-3


def test_sequences_give_what_their_rows_give() -> None:
    policy, rows = build_policy(GROUP, SECTION), torch.randn(6, 35)
    torch.testing.assert_close(policy(rows.view(2, 3, 35))[0][0].view(6, 5), policy(rows)[0][0])


@pytest.mark.parametrize("dtype", ["f2", "u1"])
def test_rows_may_be_of_any_type(dtype: str) -> None:
    policy = build_policy(group(("ego", (3,)), ("cars", (5, 4)), dtype=dtype), SECTION)
    rows = torch.randint(0, 2, (6, 23)).to(torch.uint8 if dtype == "u1" else torch.float16)
    assert policy(rows)[0][0].dtype == torch.float32


def test_the_fused_kernel_is_for_maxima_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    pooled: list[tuple[int, ...]] = []
    kernel = object_set.encode_sets

    def counted(objects: list[Tensor], *args: Any) -> list[Tensor]:
        pooled.extend(tuple(part.shape) for part in objects)
        return kernel(objects, *args)

    monkeypatch.setattr(object_set, "encode_sets", counted)
    build_policy(GROUP, SECTION)(torch.randn(4, 35))
    assert pooled == [(4, 6, 2)]


@pytest.mark.slow
@pytest.mark.parametrize("autocast", [False, True])
def test_a_compiler_sees_one_graph(autocast: bool) -> None:
    torch._dynamo.reset()
    policy, rows = build_policy(GROUP, SECTION), torch.randn(6, 35)
    whole = torch.compile(policy, backend="aot_eager", fullgraph=True)
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        torch.testing.assert_close(whole(rows)[0][0], policy(rows)[0][0], atol=1e-4, rtol=1e-4)


@pytest.mark.slow
def test_an_export_holds_torchs_own_operations(tmp_path: Path) -> None:
    graph = export.ActingPolicy(build_policy(GROUP, SECTION), GROUP)
    program = export.exported_program(graph)
    kinds = {
        str(node.target).partition(".")[0]
        for node in program.graph.nodes
        if node.op == "call_function"
    }
    assert kinds <= {
        "aten",
        "wrap_with_autocast",
        "<built-in function getitem>",
        "<built-in function mul>",
    }
    pytest.importorskip("onnxscript")
    export._write_onnx(graph, program, tmp_path / "policy.onnx", "{}")
    rows = torch.randn(6, 35)
    rows[0, 3:23] = 0.0
    found = export._load_onnx(tmp_path / "policy.onnx")({"obs": rows.numpy()})
    np.testing.assert_allclose(
        found["logits"], graph.policy(rows)[0][0].detach().numpy(), atol=1e-5
    )


@pytest.mark.parametrize(
    ("fields", "section", "text"),
    [
        (
            GROUP,
            {"object_attention": ("ego",)},
            "policy.object_attention has 'ego'; the tables of objects are cars, roads",
        ),
        (
            group(("cars", (5, 4))),
            {"object_attention": ("cars",)},
            "every field is a table of objects, so there is no input for",
        ),
    ],
)
def test_fields_that_cannot_be_attended_to_are_refused(
    fields: Any, section: dict[str, Any], text: str
) -> None:
    with pytest.raises(ConfigError, match=text):
        build_policy(fields, PolicySection(hidden=(8,), **section))
