# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""puffervec/train/policies/pool.py: each row is answered by its own member, and who plays is drawn
per episode.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch

import puffervec
from puffervec.train import TrainConfig
from puffervec.train.collect.rollout import Rollout
from puffervec.train.collect.storage import Slot, Storage
from puffervec.train.device.device import ThreadPool
from puffervec.train.policies import pool as pools
from puffervec.train.policies.pool import Pool, newest
from puffervec.train.policies.run_spec import RunSpec

AGENTS, ENVS = 3, 40


def made(memory: str = "none", **env: Any) -> tuple[Pool, Any]:
    config = TrainConfig.of(
        "probe", policy={"memory": memory, "hidden": [4]}, env={"num_agents": AGENTS, **env}
    )
    (rows,) = RunSpec.of(config).rows.values()
    return Pool([rows.build().eval() for _ in range(3)], AGENTS, seed=5), rows.group


@pytest.mark.parametrize("on_cpu", [True, False])
@pytest.mark.parametrize("memory", ["none", "lstm"])
@torch.no_grad()
def test_each_row_has_its_own_member(
    memory: str, on_cpu: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pools, "in_pieces", lambda device: on_cpu)
    pool, group = made(memory)
    rows = AGENTS * ENVS
    obs, reset = torch.randn(rows, *group.flat_shape), torch.rand(rows) < 0.5
    first = pool.draw_members(pool.initial_state(rows), torch.ones(rows, dtype=torch.bool), 0)
    state = (*(torch.randn_like(part) for part in first[:-2]), *first[-2:])
    heads, value, after = pool(obs, state, reset, None)
    assert [part.shape[0] for part in after] == [rows] * len(state)
    for row, member in enumerate(state[-2].tolist()):
        own = [part[row : row + 1] for part in (obs, reset)]
        found, worth, then = pool.members[member](
            own[0], tuple(part[row : row + 1] for part in state[:-2]), own[1], None
        )
        torch.testing.assert_close([part[row : row + 1] for part in heads], list(found))
        torch.testing.assert_close(
            (value[row : row + 1], *(part[row : row + 1] for part in after[:-2])), (worth, *then)
        )


def test_who_plays_is_drawn_where_all_rows_of_an_env_begin() -> None:
    pool, _ = made()
    rows = AGENTS * ENVS
    everywhere, nowhere = torch.ones(rows, dtype=torch.bool), torch.zeros(rows, dtype=torch.bool)
    state = pool.draw_members(pool.initial_state(rows), everywhere, 0)
    assert sorted(set(state[0].tolist())) == [0, 1, 2] and state[1].tolist() == [0] * rows
    assert torch.equal(
        state[0].view(ENVS, AGENTS), state[0].view(ENVS, AGENTS)[:, :1].expand(ENVS, AGENTS)
    )
    assert all(
        torch.equal(kept, part)
        for kept, part in zip(state, pool.draw_members(state, nowhere, 0), strict=True)
    )
    some = nowhere.clone()
    some[: AGENTS - 1] = True
    assert all(
        torch.equal(kept, part)
        for kept, part in zip(state, pool.draw_members(state, some, 0), strict=True)
    ), "one goes on"
    drawn = [state := pool.draw_members(state, everywhere, 0) for _ in range(300)]
    shares = torch.stack([each[0] for each in drawn]).flatten().bincount() / (300 * rows)
    assert bool(((shares - 1 / 3).abs() < 0.02).all())
    half = pool.draw_members(pool.initial_state(rows // 2), everywhere[: rows // 2], ENVS // 2)
    whole = pool.draw_members(pool.initial_state(rows), everywhere, 0)
    assert torch.equal(half[0], whole[0][rows // 2 :]), (
        "the env decides, not the half that it is in"
    )
    assert newest(pool) is pool.members[-1] and newest(pool.members[0]) is pool.members[0]


def played(device_turns: bool, monkeypatch: pytest.MonkeyPatch) -> tuple[list[int], float]:
    """Who plays at the end of a rollout, and the sum of its values."""
    monkeypatch.setattr(pools, "in_pieces", lambda device: not device_turns)
    torch.manual_seed(3)
    pool, group = made("mingru", episode_length=5)
    cpu = torch.device("cpu")
    with puffervec.make(
        "probe",
        env_kwargs={"num_agents": AGENTS, "episode_length": 5},
        backend="serial",
        num_envs=8,
    ) as vec:
        slots = {
            "default": Slot(
                "default",
                pool,
                vec.spec.groups[0],
                Storage(vec.spec.groups[0], 16, 8 * AGENTS, cpu, None),
            )
        }
        generator = torch.Generator().manual_seed(1)
        rollout = Rollout(
            vec, slots, cpu, False, generator, ThreadPool(1), device_turns=device_turns
        )
        rollout.begin(1)
        assert rollout.collect()
        who, episodes = rollout.turns[0].states["default"][-2:]
        assert set(who.tolist()) == {0, 1, 2} and min(episodes.tolist()) > 0
        return who.tolist(), slots["default"].storage.values.double().sum().item()


def test_a_pool_plays_in_the_turns_of_a_device_as_on_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    (who, values), (also, same) = (
        played(device_turns, monkeypatch) for device_turns in (True, False)
    )
    assert who == also and values == pytest.approx(same, abs=1e-4)
