# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""csrc/learner/convolution.c against torch, and the bytes round its results."""

from __future__ import annotations

import pytest
import torch

from puffervec._ffi import ffi, lib

GUARD = 16  # floats

# images, groups, channels in and out per group, height and width, kernel, stride, padding, dilation
CASES = (
    (3, 1, 4, 32, (84, 84), (8, 8), (4, 4), (0, 0), (1, 1)),
    (2, 1, 32, 64, (20, 20), (4, 4), (2, 2), (0, 0), (1, 1)),
    (1, 1, 3, 5, (7, 9), (3, 2), (1, 2), (2, 1), (1, 1)),
    (2, 2, 2, 33, (9, 8), (3, 3), (2, 1), (1, 1), (2, 3)),
    (1, 6, 1, 1, (10, 11), (7, 7), (1, 1), (3, 3), (1, 1)),
    (2, 1, 5, 40, (1, 1), (1, 1), (1, 1), (0, 0), (1, 1)),
)


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("with_bias", [True, False])
def test_it_is_a_convolution(
    case: tuple[int, int, int, int, *tuple[tuple[int, int], ...]], with_bias: bool
) -> None:
    n, groups, into, out_of, size, kernel, stride, padding, dilation = case
    x = torch.randn(n, groups * into, *size)
    weight, bias = torch.randn(groups * out_of, into, *kernel), torch.randn(groups * out_of)
    wanted = torch.conv2d(x, weight, bias if with_bias else None, stride, padding, dilation, groups)
    shape = ffi.new(
        "pv_convolution*",
        (
            n,
            groups,
            groups * into,
            groups * out_of,
            *size,
            *wanted.shape[2:],
            kernel,
            stride,
            padding,
            dilation,
        ),
    )
    floats = int(lib.pv_convolution_workspace(shape))
    held = torch.full((GUARD + wanted.numel() + GUARD,), 7.0)
    workspace = torch.full((floats + GUARD,), float("nan"))
    pointers = [
        ffi.cast("float*", part.data_ptr()) for part in (x, weight, bias, workspace, held[GUARD:])
    ]
    lib.pv_convolve(
        shape,
        pointers[0],
        pointers[1],
        pointers[2] if with_bias else ffi.NULL,
        pointers[3],
        pointers[4],
    )
    torch.testing.assert_close(held[GUARD:-GUARD].view(wanted.shape), wanted, rtol=1e-4, atol=1e-4)
    assert (
        (held[:GUARD] == 7).all()
        and (held[-GUARD:] == 7).all()
        and workspace[floats:].isnan().all()
    )
