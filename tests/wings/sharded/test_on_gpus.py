# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""On GPUs, over NCCL: one rank on one GPU; two ranks where there are two."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from puffervec.wings.sharded import peak_bytes, shard_cnn
from tests.docs.pages import ROOT
from tests.wings.sharded.split import far, gradients, numbers
from tests.wings.sharded.test_cnn import NETWORKS, made

pytestmark = pytest.mark.gpu
CUDA = torch.device("cuda")


@pytest.fixture
def mesh() -> Iterator[DeviceMesh]:
    torch.cuda.set_device(0)
    dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)
    try:
        yield init_device_mesh("cuda", (1,))
    finally:
        dist.destroy_process_group()


@pytest.mark.parametrize("keep_every", [0, 4])
@pytest.mark.parametrize("name", NETWORKS)
def test_one_rank_over_nccl_is_one_process(name: str, keep_every: int, mesh: DeviceMesh) -> None:
    if (name, keep_every) == ("pooled", 4):
        pytest.skip("computing a BatchNorm again moves its statistics twice")
    module, shape = made(name).to(CUDA), NETWORKS[name][1]
    x = numbers((2, *shape), torch.float64).to(CUDA)
    split = shard_cnn(copy.deepcopy(module), mesh, shape, keep_every)
    wanted, found = module(x), split(x)
    for y in (wanted, found):
        y.square().sum().backward()
    assert far(found, wanted) < 1e-10
    assert max(far(a, b) for a, b in zip(gradients(split), gradients(module), strict=True)) < 1e-10


def test_bf16_and_less_memory_where_steps_are_computed_again(mesh: DeviceMesh) -> None:
    module = made("convnext", torch.float32).to(CUDA)
    x = numbers((8, 3, 64, 128), torch.float32).to(CUDA)
    peaks = []
    for keep_every in (0, 4):
        split = shard_cnn(copy.deepcopy(module), mesh, (3, 64, 128), keep_every)

        def step(split: torch.nn.Module = split) -> None:
            with torch.autocast("cuda", torch.bfloat16):
                y = split(x)
            y.float().square().sum().backward()  # type: ignore[no-untyped-call]

        step()
        assert all(bool(grad.isfinite().all()) for grad in gradients(split))
        peaks.append(peak_bytes(step, CUDA))
    assert peaks[1] < peaks[0]


@pytest.mark.skipif(
    torch.cuda.device_count() < 2, reason="two GPUs are needed: NCCL takes one rank of each"
)
def test_ranks_over_nccl_are_one_process() -> None:
    ranks = 4 if torch.cuda.device_count() >= 4 else 2
    torchrun = [
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--local-addr",
        "127.0.0.1",
        "--nproc-per-node",
        str(ranks),
    ]
    found = subprocess.run(
        [sys.executable, *torchrun, "-m", "tests.wings.sharded.mesh_job"],
        cwd=ROOT, env={**os.environ, "SHARDED_DEVICE": "cuda"}, capture_output=True, text=True,
        timeout=300,
    )  # fmt: skip
    assert found.returncode == 0, found.stderr
    assert max(json.loads(found.stdout.splitlines()[-1]).values()) < 1e-10
