# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

from puffervec.errors import ConfigError
from puffervec.wings.sharded import shard_cnn
from tests.docs.pages import ROOT
from tests.wings.sharded.split import far, numbers


@pytest.fixture
def mesh() -> Iterator[DeviceMesh]:
    """A mesh of this process alone."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        yield init_device_mesh("cpu", (1, 1), mesh_dim_names=("data", "tensor"))
    finally:
        dist.destroy_process_group()


def test_a_dtensor_goes_in_and_one_comes_out(mesh: DeviceMesh) -> None:
    layers = nn.Sequential(nn.Conv2d(3, 4, 3, 1, 1), nn.GELU()).double()
    split, x = shard_cnn(layers, mesh["tensor"], (3, 5, 9)), numbers((2, 3, 5, 9), torch.float64)
    assert split.network.keep_every == 0
    y = split(distribute_tensor(x, mesh, [Shard(0), Shard(3)]))
    assert (
        isinstance(y, DTensor)
        and y.placements == (Shard(0), Shard(3))
        and y.shape == (2, 4, 5, 9)
        and far(y.to_local(), layers(x)) < 1e-12
    )
    y = split(distribute_tensor(x, mesh, [Replicate(), Shard(3)]))
    assert y.placements == (Replicate(), Shard(3)) and y.shape == (2, 4, 5, 9)
    for placements in ([Replicate(), Shard(2)], [Shard(2), Shard(3)]):
        with pytest.raises(ConfigError, match=r"use Shard\(3\) on the mesh dimension"):
            split(distribute_tensor(x, mesh, placements))
    with pytest.raises(ConfigError, match=r'use one of them, such as mesh\["tensor"\]'):
        shard_cnn(layers, mesh, (3, 5, 9))


def torchrun(*args: str) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--local-addr",
        "127.0.0.1",
        "--nproc-per-node",
        "4",
    ]
    return subprocess.run(
        [*command, "-m", "tests.wings.sharded.mesh_job", *args],
        cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True,
        timeout=120,
    )  # fmt: skip


@pytest.mark.slow
def test_four_processes_on_a_mesh_are_one_process() -> None:
    found = torchrun()
    assert found.returncode == 0, found.stderr
    differences = json.loads(found.stdout.splitlines()[-1])
    assert set(differences) == {"data_and_tensor_parallel", "dtensors", "pictures", "masks"}
    assert max(differences.values()) < 1e-10, differences


@pytest.mark.slow
def test_a_rank_that_dies_ends_the_others_with_its_name() -> None:
    found = torchrun("--lose")
    assert found.returncode != 0
    named = re.findall(r"^RankLost rank (\d) of 4 lost (.*?) while", found.stderr, re.MULTILINE)
    assert named and all("rank 2 (process" in words and "is gone" in words for _, words in named), (
        found.stderr
    )
