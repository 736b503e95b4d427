# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The memory of a rollout (puffervec/train/collect/storage.py): shapes, dtypes, bytes, and the
seam of two rollouts.
"""

from __future__ import annotations

import torch

import puffervec
from puffervec.train.collect.storage import Storage, rows_of, step_bytes
from puffervec.train.policies.leaves import ROW
from tests.train.fakes import group

CPU = torch.device("cpu")


def test_shapes_and_dtypes() -> None:
    storage = Storage(group(("x", (3,)), sizes=(2, 4)), 5, 6, CPU, torch.bfloat16)
    assert (storage.obs[ROW].shape, storage.obs[ROW].dtype) == ((6, 6, 3), torch.bfloat16)
    assert storage.actions.shape == (6, 6, 2)
    assert all(
        x.shape == (6, 6)
        for x in (storage.rewards, storage.values, storage.log_probs, storage.masks)
    )


def test_step_bytes_are_those_of_a_storage() -> None:
    spec = group(("x", (3,)), sizes=(2, 4))
    for dtype in (None, torch.bfloat16):
        whole = sum(tensor.nbytes for tensor in Storage(spec, 4, 6, CPU, dtype).tensors().values())
        assert step_bytes(spec, 6, dtype) * 5 == whole


def test_the_last_step_is_the_first_of_the_next_roll_out() -> None:
    storage = Storage(group(("x", (3,))), 2, 4, CPU, None)
    for number, tensor in enumerate(storage.tensors().values()):
        tensor[-1].fill_(number + 1)
    storage.last_states = {0: (torch.ones(4, 2),)}
    storage.carry_over()
    for number, tensor in enumerate(storage.tensors().values()):
        assert (tensor[0] == number + 1).all()
    assert storage.first_states[0][0].shape == (4, 2)


def test_rows_are_views_on_the_slab() -> None:
    with puffervec.make(
        "probe", env_kwargs={"mode": 1, "num_agents": 2}, backend="serial", num_envs=3
    ) as vec:
        block = torch.from_numpy(vec.halves[0].block)
        rows = {spec.name: rows_of(block, vec.halves[0], spec) for spec in vec.spec.groups}
        vec.reset(0)
        scouts, towers = rows["scouts"], rows["towers"]
        assert scouts.obs[ROW][:, 3].tolist() == [0, 1] * 3
        assert towers.obs["gauges"].shape == (3, 3)
        assert scouts.action_masks is not None and scouts.action_masks.shape == (6, 3)
        scouts.actions.fill_(2)
        assert (vec.halves[0].groups["scouts"].actions == 2).all()


def test_valid_transitions() -> None:
    storage = Storage(group(("x", (3,))), 3, 2, torch.device("cpu"), None)
    storage.masks[:, 0] = 1
    storage.terminals[1, 0], storage.truncations[2, 0] = 1, 1
    assert storage.valid().tolist() == [[True, False], [False, False], [False, False]]
