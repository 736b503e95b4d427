# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Run by torchrun in test_dtensor.py and test_on_gpus.py, in four processes (or two, on two GPUs):
a mesh of two dimensions, one row of it on two GPUs, DTensors, DistributedDataParallel, masks.

Prints one line of JSON from rank 0: how far all of it is from one process.
"""

from __future__ import annotations

import copy
import json
import os
import sys

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.nn.parallel import DistributedDataParallel

from puffervec.errors import ConfigError
from puffervec.wings.sharded import ConvNeXt, ShardedCNN, shard_cnn
from tests.wings.sharded.split import far, gradients, numbers

SHAPE = (3, 16, 24)
DEVICE = os.environ.get("SHARDED_DEVICE", "cpu")


def network(**settings: float) -> nn.Module:
    torch.manual_seed(1)
    return ConvNeXt(3, 5, (1, 1), (8, 12), patch=2, layer_scale=0.5, **settings).double().to(DEVICE)  # type: ignore[arg-type]


def mean_square(y: Tensor) -> Tensor:
    return y.square().sum(1).mean()


def stepped(cnn: nn.Module, x: Tensor, steps: int) -> list[Tensor]:
    optimizer = torch.optim.AdamW(cnn.parameters(), 1e-3)
    for _ in range(steps):
        optimizer.zero_grad()
        mean_square(cnn(x)).backward()
        optimizer.step()
    return [parameter.detach() for parameter in cnn.parameters()]


def data_and_tensor_parallel(mesh: dist.DeviceMesh) -> float:
    """Two rows of two ranks: each row has half of the batch, each rank half of the columns."""
    one, split = network(), shard_cnn(network(), mesh["tensor"], SHAPE, keep_every=4)
    x = numbers((4, *SHAPE), torch.float64).to(DEVICE)
    wanted = stepped(one, x, 5)
    row, each = mesh.get_local_rank("data"), 4 // mesh.size(0)
    parallel = DistributedDataParallel(split, process_group=mesh.get_group("data"))
    found = stepped(parallel, x[each * row : each * (row + 1)], 5)
    return max(far(a, b) for a, b in zip(found, wanted, strict=True))


def dtensors(mesh: dist.DeviceMesh) -> float:
    """A batch over data, columns over tensor, and the result back as a DTensor; gradients reach the
    input.
    """
    one, split = network(), shard_cnn(network(), mesh["tensor"], SHAPE)
    x = numbers((4, *SHAPE), torch.float64).to(DEVICE)
    given = distribute_tensor(x, mesh, [Shard(0), Shard(3)]).requires_grad_()
    whole = x.clone().requires_grad_()
    y, wanted = split(given), one(whole)
    assert (
        isinstance(y, DTensor)
        and y.placements == (Shard(0), Replicate())
        and y.shape == wanted.shape
    )
    y.full_tensor().square().sum().backward()
    wanted.square().sum().backward()
    assert given.grad is not None and whole.grad is not None
    return max(far(y.full_tensor(), wanted), far(given.grad.full_tensor(), whole.grad))


def pictures(mesh: dist.DeviceMesh) -> float:
    """A network that ends with pictures gives a DTensor that is split as they are; a width that
    DTensor has no words for.
    """
    layers = (
        nn.Sequential(nn.Conv2d(3, 4, 3, 1, 1), nn.GELU(), nn.Conv2d(4, 2, 4, 2, 1))
        .double()
        .to(DEVICE)
    )
    split = shard_cnn(copy.deepcopy(layers), mesh["all"], SHAPE)
    layers.load_state_dict(split.state_dict())
    x = numbers((2, *SHAPE), torch.float64).to(DEVICE)
    y = split(distribute_tensor(x, mesh["all"], [Shard(3)]))
    assert isinstance(y, DTensor) and y.placements == (Shard(3),)
    narrow = x[..., : 9 if mesh.size() == 4 else 1]  # 3, 3, 3 and none
    for wrong, placement in ((x, Replicate()), (narrow, Shard(3))):
        try:
            split(distribute_tensor(wrong.contiguous(), mesh["all"], [placement]))
        except ConfigError:
            continue
        raise AssertionError("not refused")
    return far(y.full_tensor(), layers(x))


def masks(mesh: dist.DeviceMesh) -> float:
    """Each process has a generator of its own; with other seeds the first rank's holds."""
    one, split = (
        network(drop_path=0.5),
        shard_cnn(network(drop_path=0.5), mesh["all"], SHAPE, keep_every=4),
    )
    x = numbers((4, *SHAPE), torch.float64).to(DEVICE)
    torch.manual_seed(7)
    mean_square(one(x)).backward()
    torch.manual_seed(7 + dist.get_rank())
    mean_square(split(x)).backward()
    return max(far(a, b) for a, b in zip(gradients(split), gradients(one), strict=True))


def main() -> None:
    if DEVICE == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl" if DEVICE == "cuda" else "gloo")
    size = dist.get_world_size()
    two = init_device_mesh(DEVICE, (size // 2, 2), mesh_dim_names=("data", "tensor"))
    line = init_device_mesh(DEVICE, (size,), mesh_dim_names=("all",))
    assert isinstance(shard_cnn(network(), line["all"], SHAPE), ShardedCNN)
    try:
        shard_cnn(network(), two, SHAPE)
    except ConfigError as error:
        assert 'mesh["tensor"]' in str(error)
    found = {work.__name__: work(two) for work in (data_and_tensor_parallel, dtensors)}
    found |= {work.__name__: work(line) for work in (pictures, masks)}
    worst: list[dict[str, float] | None] = [None] * size
    dist.all_gather_object(worst, found)
    if dist.get_rank() == 0:
        print(json.dumps({name: max(part[name] for part in worst if part) for name in found}))
    if "--lose" in sys.argv:
        split = shard_cnn(network(), line["all"], SHAPE)
        if dist.get_rank() == 2:
            os._exit(3)
        try:
            split(numbers((1, *SHAPE), torch.float64))
        except Exception as error:
            print(f"{type(error).__name__} {error}", file=sys.stderr, flush=True)
            os._exit(4)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
