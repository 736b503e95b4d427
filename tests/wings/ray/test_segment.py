# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Rollouts as they travel (puffervec/wings/ray/segment.py): bytes, numbers, columns."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch

from puffervec.core.spec import EnvSpec
from puffervec.train import TrainConfig
from puffervec.train.collect.storage import Storage
from puffervec.train.config.target import env_spec
from puffervec.train.run.tally import Counted
from puffervec.wings.ray.segment import Segment, pack_storage, store_segment, unpack

CPU = torch.device("cpu")
HORIZON, ROWS = 5, 6


def spec_of(target: str) -> EnvSpec:
    return env_spec(TrainConfig.of(target))


def filled(target: str, rows: int = ROWS, memory: bool = False, seed: int = 1) -> Storage:
    """A rollout of random numbers."""
    storage = Storage(spec_of(target).groups[0], HORIZON, rows, CPU, None)
    torch.manual_seed(seed)
    for tensor in storage.tensors().values():
        if tensor.is_floating_point():
            tensor.copy_(torch.randn(tensor.shape) * 3 + 1)
        else:
            tensor.copy_(torch.randint(0, 2, tensor.shape))
    storage.first_states[0] = (torch.randn(rows, 3),) if memory else ()
    return storage


def sent(storage: Storage, kind: str) -> Segment:
    """A segment as it arrives: its arrays are read-only."""
    states = tuple(part.numpy() for part in storage.first_state())
    segment = Segment(
        3,
        "incarnation",
        {"default": pack_storage(storage, kind)},
        {"default": states},
        Counted(b"", b"", {}),
        1,
        1.0,
    )
    found: Segment = pickle.loads(pickle.dumps(segment))
    for part in found.arrays["default"].values():
        part.data.flags.writeable = False
    return found


@pytest.mark.parametrize("memory", [False, True])
@pytest.mark.parametrize("target", ["cartpole", "CartPole-v1", "tag_grid"])
def test_a_roll_out_arrives_as_it_was(target: str, memory: bool) -> None:
    parts = [filled(target, memory=memory, seed=seed) for seed in (1, 2)]
    learned = Storage(spec_of(target).groups[0], HORIZON, 2 * ROWS, CPU, None)
    for place, part in enumerate(parts):
        store_segment(sent(part, "exact"), {"default": learned}, place)
    for name, tensor in learned.tensors().items():
        if name == "values" or (name == "resets" and not memory):
            assert not tensor.any()  # Not sent.
        else:
            assert torch.equal(
                tensor, torch.cat([part.tensors()[name] for part in parts], dim=1)
            ), name
    assert len(learned.first_state()) == memory
    if memory:
        assert torch.equal(
            learned.first_state()[0], torch.cat([part.first_state()[0] for part in parts])
        )


@pytest.mark.parametrize(("kind", "share"), [("bf16", 1 / 2), ("uint8", 1 / 4)])
def test_observations_travel_in_fewer_bytes(kind: str, share: float) -> None:
    storage = filled("cartpole")
    exact, fewer = pack_storage(storage, "exact"), pack_storage(storage, kind)
    (key,) = storage.obs
    name = "obs" if "obs" in exact else f"obs.{key}"
    assert fewer[name].data.nbytes == share * exact[name].nbytes
    wanted = storage.tensors()[name]
    found = torch.empty_like(wanted)
    unpack(fewer[name], found)
    spread = float(wanted.amax() - wanted.amin())
    bound = 2**-8 * float(wanted.abs().amax()) if kind == "bf16" else spread / 255 / 2 * 1.001
    assert 0 < float((found - wanted).abs().amax()) <= bound
    others = {key for key in exact if key != name}
    assert all(
        np.array_equal(fewer[key].data, exact[key].data) for key in others
    )  # Only observations are rounded.


def test_a_number_that_never_changes_travels_as_a_byte() -> None:
    storage = filled("cartpole")
    (observations,) = storage.obs.values()
    observations.fill_(2.5)
    (part,) = [part for part in pack_storage(storage, "uint8").values() if part.kind == "uint8"]
    found = torch.empty_like(observations)
    unpack(part, found)
    assert torch.equal(found, observations)


def test_bytes_are_those_of_all_arrays() -> None:
    storage = filled("cartpole", memory=True)
    segment = sent(storage, "exact")
    wanted = (
        sum(t.nbytes for name, t in storage.tensors().items() if name != "values")
        + storage.first_state()[0].nbytes
    )
    assert segment.nbytes == wanted
    assert (
        sent(storage, "uint8").nbytes
        == wanted - 3 * storage.obs[next(iter(storage.obs))].numel() + 2 * 4 * 4
    )


def test_a_segment_of_other_rows_is_refused() -> None:
    learned = Storage(spec_of("cartpole").groups[0], HORIZON, 2 * ROWS, CPU, None)
    with pytest.raises(ValueError, match="has shape"):
        store_segment(sent(filled("cartpole", rows=ROWS + 1), "exact"), {"default": learned}, 1)
