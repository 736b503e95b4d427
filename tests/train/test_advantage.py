# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Advantages (puffervec/train/learn/advantage.py): two implementations against the definition in
plain Python.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from puffervec.train.device.graphs import WARM_UPS
from puffervec.train.learn.advantage import (
    DeviceAdvantage,
    Discount,
    Steps,
    advantage,
    advantage_c,
    advantage_scan,
)
from tests.train.streams import Cuda, cuda

__all__ = ["cuda"]
RUNS = [advantage_c, advantage_scan, advantage]


def twin(steps: Steps, d: Discount) -> tuple[np.ndarray, np.ndarray]:
    """Row by row in float64: the definition."""
    rewards, values, terminals, truncations, masks = (
        getattr(steps, name).numpy()
        for name in ("rewards", "values", "terminals", "truncations", "masks")
    )
    horizon, rows = rewards.shape[0] - 1, rewards.shape[1]
    out, valid = np.zeros((horizon, rows)), np.zeros((horizon, rows), np.uint8)
    for row in range(rows):
        following = 0.0
        for k in reversed(range(horizon)):
            if (
                not masks[k, row]
                or terminals[k, row]
                or truncations[k, row]
                or not masks[k + 1, row]
            ):
                following = 0.0
                continue
            bootstrap = 0.0 if terminals[k + 1, row] else float(values[k + 1, row])
            error = float(rewards[k + 1, row]) + d.gamma * bootstrap - float(values[k, row])
            ratio = 1.0 if steps.ratios is None else float(steps.ratios[k, row])
            rho, c = (
                (ratio, ratio)
                if steps.ratios is None
                else (min(d.rho_clip, ratio), min(d.c_clip, ratio))
            )
            following = rho * error + d.gamma * d.gae_lambda * c * following
            out[k, row], valid[k, row] = following, 1
    return out, valid


def random_steps(seed: int, horizon: int = 13, rows: int = 37, vtrace: bool = False) -> Steps:
    r = torch.Generator().manual_seed(seed)
    shape = (horizon + 1, rows)
    flags = [(torch.rand(shape, generator=r) < p).to(torch.uint8) for p in (0.1, 0.1, 0.8)]
    ratios = torch.rand(horizon, rows, generator=r) * 3 if vtrace else None
    return Steps(torch.randn(shape, generator=r), torch.randn(shape, generator=r), *flags, ratios)


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("vtrace", [False, True], ids=["gae", "vtrace"])
@pytest.mark.parametrize("horizon", [1, 2, 7, 8, 13])
def test_agrees_with_the_twin(run: object, vtrace: bool, horizon: int) -> None:
    steps, discount = (
        random_steps(horizon, horizon, vtrace=vtrace),
        Discount(0.97, 0.9, rho_clip=1.0, c_clip=0.8),
    )
    got, valid = run(steps, discount)  # type: ignore[operator]
    expected, expected_valid = twin(steps, discount)
    np.testing.assert_array_equal(valid.numpy(), expected_valid)
    np.testing.assert_allclose(got.numpy(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("run", RUNS)
def test_three_steps_by_hand(run: object) -> None:
    """Rewards 1, 2, 3; values 10, 20, 30, 40; the episode ends at step 3: as a terminal, as a
    truncation, not at all.
    """
    rewards = torch.tensor([[0.0] * 3, [1.0] * 3, [2.0] * 3, [3.0] * 3])
    values = torch.tensor([[10.0] * 3, [20.0] * 3, [30.0] * 3, [40.0] * 3])
    terminals, truncations = (
        torch.zeros(4, 3, dtype=torch.uint8),
        torch.zeros(4, 3, dtype=torch.uint8),
    )
    terminals[3, 0] = truncations[3, 1] = 1
    masks = torch.ones(4, 3, dtype=torch.uint8)
    got, valid = run(Steps(rewards, values, terminals, truncations, masks), Discount(0.5, 0.5))  # type: ignore[operator]
    delta = [1 + 0.5 * 20 - 10, 2 + 0.5 * 30 - 20]
    last = {0: 3 - 30, 1: 3 + 0.5 * 40 - 30, 2: 3 + 0.5 * 40 - 30}
    for row in range(3):
        a2 = last[row]
        a1 = delta[1] + 0.25 * a2
        a0 = delta[0] + 0.25 * a1
        assert got[:, row].tolist() == [a0, a1, a2]
    assert valid.all()


@pytest.mark.parametrize("run", RUNS)
def test_vtrace_without_a_change_of_policy_is_gae(run: object) -> None:
    steps, discount = random_steps(3), Discount(0.97, 0.9)
    ones = dataclasses.replace(steps, ratios=torch.ones(13, 37))
    torch.testing.assert_close(run(ones, discount)[0], run(steps, discount)[0])  # type: ignore[operator]


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("vtrace", [False, True], ids=["gae", "vtrace"])
def test_nothing_leaks_across_a_done_or_a_filler_row(run: object, vtrace: bool) -> None:
    """What stands in rows after a done, or in absent rows, changes no valid advantage."""
    steps, discount = random_steps(7, vtrace=vtrace), Discount(0.97, 0.9)
    before, valid = run(steps, discount)  # type: ignore[operator]
    # A row's value is read as its own (if its transition is valid) or as the bootstrap of a valid
    # one before it.
    used = torch.zeros_like(steps.masks, dtype=torch.bool)
    used[:-1] |= valid != 0
    used[1:] |= (valid != 0) & (steps.terminals[1:] == 0)
    for anything in (1e6, float("nan")):
        values = torch.where(used, steps.values, anything)
        after, _ = run(dataclasses.replace(steps, values=values), discount)  # type: ignore[operator]
        torch.testing.assert_close(before, after)


@pytest.mark.parametrize("vtrace", [False, True], ids=["gae", "vtrace"])
def test_again_and_again_in_the_same_buffers(vtrace: bool) -> None:
    steps, discount = random_steps(1, vtrace=vtrace), Discount(0.97, 0.9, c_clip=0.8)
    run, places = DeviceAdvantage(discount, torch.device("cpu")), []
    for seed in range(3):
        new = random_steps(seed, vtrace=vtrace)
        for name in ("rewards", "values", "terminals", "truncations", "masks"):
            getattr(steps, name).copy_(getattr(new, name))
        found = run(dataclasses.replace(steps, ratios=new.ratios))
        for got, wanted in zip(found, advantage_scan(new, discount), strict=True):
            assert torch.equal(got, wanted)
        places.append([x.data_ptr() for x in found])
    assert places[0] == places[1] == places[2]


def test_on_a_gpu_it_becomes_one_graph(cuda: Cuda) -> None:
    run, vtrace, gae = (
        DeviceAdvantage(Discount(0.97, 0.9), torch.device("cuda")),
        random_steps(2, vtrace=True),
        random_steps(2),
    )
    for _ in range(WARM_UPS + 3):
        run(vtrace)
    replays = [note for note in cuda.notes if note[1] == "replays"]
    assert len(replays) == 3 and len(set(replays)) == 1
    run(gae)
    assert (
        len([note for note in cuda.notes if note[1] == "replays"]) == 3
    )  # another one, still warming up
