# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Operations through their own `out=` variants (puffervec/wings/plan/calls.py); test_kernels.py
compares the numbers.
"""

from __future__ import annotations

import pytest
import torch

from puffervec.wings.plan.calls import Call, call_out, copy_work, out_rule, out_variant
from tests.wings.plan.memory import allocations

aten = torch.ops.aten


@pytest.mark.parametrize(
    ("op", "variant"),
    [
        (aten.add.Tensor, aten.add.out),
        (aten.addmm.default, aten.addmm.out),
        (aten.max.dim, aten.max.dim_max),
        (aten.sum.dim_IntList, aten.sum.IntList_out),
        (aten.relu.default, None),  # torch makes relu.out itself: it computes elsewhere and copies
        (aten.sort.default, None),
    ],
)
def test_only_variants_with_a_kernel_of_their_own_are_taken(op: object, variant: object) -> None:
    assert out_variant(op) is variant


def test_only_pointwise_operations_may_write_over_their_input() -> None:
    pointwise, product = out_rule(aten.mul.Tensor), out_rule(aten.mm.default)
    assert pointwise is not None and pointwise.in_place == (0, 1)
    assert product is not None and product.in_place == ()


def test_a_copy_of_a_transposed_matrix_allocates_nothing() -> None:
    source, target = torch.randn(100, 100).t(), torch.empty(100, 100)
    (copy,) = copy_work(target, source)
    assert allocations(copy) == [] and torch.equal(target, source)
    assert allocations(lambda: target.copy_(source)), "else `copy_work` is needless"


def test_a_variant_that_resizes_its_result_is_refused() -> None:
    """In an arena it would write over its neighbours."""
    x = torch.randn(4, 2)
    memory = torch.zeros(8)
    call = Call(aten.mse_loss.default, (memory[0],), (x, x + 1), {})
    with pytest.raises(NotImplementedError, match="resizes the result"):
        call_out(aten.mse_loss.out, call)
    assert not memory.any()
