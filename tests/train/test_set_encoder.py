# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
from __future__ import annotations

import pytest
import torch

from puffervec.train.policies import object_set
from puffervec.train.policies.object_set import (
    HIDDEN,
    NARROW,
    WIDE,
    encode_set,
    encode_set_plain,
    encode_sets,
    max_over_objects,
)


def weights(
    features: int, hidden: int = HIDDEN, width: int = WIDE
) -> tuple[torch.Tensor, torch.Tensor]:
    r = torch.Generator().manual_seed(1)
    return (
        torch.randn(hidden, features + 1, generator=r).requires_grad_(),
        torch.randn(width, hidden, generator=r).requires_grad_(),
    )


def objects(*shape: int) -> torch.Tensor:
    """Random objects, a third of the slots empty."""
    r = torch.Generator().manual_seed(2)
    x = torch.randn(*shape, generator=r)
    x[torch.rand(shape[:-1], generator=r) < 0.33] = 0
    return x


@pytest.mark.parametrize("width", [NARROW, WIDE])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", [(7, 5, 3), (1, 1, 1), (33, 64, 31), (2, 9, 6, 7), (3, 4)])
def test_kernel_equals_the_plain_form(
    width: int, dtype: torch.dtype, shape: tuple[int, ...]
) -> None:
    x = objects(*shape).to(dtype)
    fused, plain = weights(shape[-1], width=width), weights(shape[-1], width=width)
    out, expected = encode_set(x, *fused), encode_set_plain(x, *plain)
    assert out.shape == (*shape[:-2], width) and "Fused" in type(out.grad_fn).__name__ + str(
        out.grad_fn.next_functions
    )
    torch.testing.assert_close(out, expected, rtol=1e-4, atol=1e-4)
    grad = torch.randn(out.shape, generator=torch.Generator().manual_seed(3))
    out.backward(grad)
    expected.backward(grad)
    for got, want in zip(fused, plain, strict=True):
        torch.testing.assert_close(got.grad, want.grad, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float16, torch.bfloat16, torch.uint8, torch.int16]
)
def test_rows_of_any_data_type_take_the_kernel(
    dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As they stand, scaled where they are read: the same as float32 rows of the scaled numbers."""
    whole = not dtype.is_floating_point
    stored = (objects(7, 5, 3).abs() * 60).to(dtype) if whole else objects(7, 5, 3).to(dtype)
    factor = 1 / 255 if whole else 1.0
    assert (stored != 0).any() and (stored == 0).all(-1).any()
    expected = encode_set_plain(stored.float() * factor, *(w.detach() for w in weights(3)))
    monkeypatch.setattr(object_set, "encode_set_plain", None)  # Calling it would fail.
    first, second = weights(3)
    out = encode_set(stored, first, second, factor)
    torch.testing.assert_close(out, expected, rtol=1e-4, atol=1e-4)
    out.sum().backward()
    assert first.grad is not None and bool(first.grad.any())


@pytest.mark.parametrize(("width", "other"), [(WIDE, WIDE), (NARROW, NARROW), (WIDE, 16)])
def test_fields_in_one_call_are_those_of_separate_calls(width: int, other: int) -> None:
    """Also where one of them has a width that only the plain form supports."""
    shapes, widths = ((4, 3), (1, 9), (16, 2)), (width, other, width)
    wide = objects(5, sum(n * k for n, k in shapes))
    parts = [
        part.view(5, *shape)
        for part, shape in zip(wide.split([n * k for n, k in shapes], dim=1), shapes, strict=True)
    ]
    factors = [1.0, 0.5, 1.0]

    def made() -> list[tuple[torch.Tensor, torch.Tensor]]:
        return [weights(k, width=width) for (_, k), width in zip(shapes, widths, strict=True)]

    together, alone = made(), made()
    outs = encode_sets(parts, [w[0] for w in together], [w[1] for w in together], factors)
    wanted = [
        encode_set(part, *own, factor)
        for part, own, factor in zip(parts, alone, factors, strict=True)
    ]
    for scale, got, want in zip((1.0, 2.0, 3.0), outs, wanted, strict=True):
        torch.testing.assert_close(got, want, rtol=0, atol=0)
        (scale * got.sin()).sum().backward(retain_graph=True)
        (scale * want.sin()).sum().backward()
    for own, other in zip(together, alone, strict=True):
        for got, want in zip(own, other, strict=True):
            torch.testing.assert_close(got.grad, want.grad, rtol=1e-5, atol=1e-5)


def test_fields_of_different_widths() -> None:
    """Encode those that are as wide as the first one by the kernel, the others without it."""
    parts = [objects(5, 4, 3), objects(5, 2, 3)]
    both = [weights(3, width=width) for width in (NARROW, WIDE)]
    outs = encode_sets(parts, [w[0] for w in both], [w[1] for w in both], [1.0, 1.0])
    for part, own, out in zip(parts, both, outs, strict=True):
        torch.testing.assert_close(out, encode_set_plain(part, *own), rtol=1e-4, atol=1e-4)


def test_no_fields_at_all() -> None:
    assert encode_sets([], [], [], []) == []


def test_a_slice_of_a_wide_row() -> None:
    """Fields are parts of longer rows: the kernel reads them where they are."""
    wide = objects(6, 2 + 4 * 3 + 5)
    part = wide[:, 2:14].view(6, 4, 3)
    torch.testing.assert_close(
        encode_set(part, *weights(3)), encode_set_plain(part, *weights(3)), rtol=1e-4, atol=1e-4
    )


def test_no_rows_and_no_gradient() -> None:
    first, second = weights(3)
    assert encode_set(objects(0, 4, 3), first, second).shape == (0, WIDE)
    with torch.no_grad():
        out = encode_set(objects(5, 4, 3), first, second)
    assert not out.requires_grad
    torch.testing.assert_close(
        out, encode_set_plain(objects(5, 4, 3), first, second), rtol=1e-4, atol=1e-4
    )


def test_other_widths_take_the_plain_form(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_set._Fused, "apply", None)  # Calling it would fail.
    first, second = weights(3, hidden=8, width=16)
    assert encode_set(objects(5, 4, 3), first, second).shape == (5, 16)
    assert encode_set(objects(5, 4, 3).requires_grad_(), *weights(3)).shape == (5, WIDE)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_pool_gradient_is_that_of_amax(dtype: torch.dtype) -> None:
    x = torch.randn(5, 7, 3, dtype=torch.float64).to(dtype)
    x[0, 1] = x[0, 4] = 9.0  # a tie: the two share the gradient
    grad = torch.randn(5, 3, dtype=torch.float64).to(dtype)
    ours, reference = x.clone().requires_grad_(), x.clone().requires_grad_()
    max_over_objects(ours).backward(grad)
    reference.amax(-2).backward(grad)
    torch.testing.assert_close(ours.grad, reference.grad)


def test_pool_twice_backward() -> None:
    """Saved tensors are not overwritten by the backward pass."""
    x = torch.randn(2, 3, 4, requires_grad=True)
    pooled = max_over_objects(x)
    first = torch.autograd.grad(pooled.sum(), x, retain_graph=True)[0]
    second = torch.autograd.grad(pooled.sum(), x)[0]
    torch.testing.assert_close(first, second)
