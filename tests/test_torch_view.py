# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The rows as torch tensors (puffervec/torch_view.py): the same bytes, in every half, flat, mixed
or nested.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces

import puffervec
from puffervec.torch_view import TorchView

ARRAYS = ("rewards", "terminals", "truncations", "masks", "agent_types", "actions", "agent_ids")
TWO_GROUPS: dict[str, Any] = {"mode": 1, "num_agents": 3, "episode_length": 4}


class Nested(gymnasium.Env[dict[str, Any], dict[str, Any]]):
    """Observations in a nested Dict of mixed types; each step counts up."""

    observation_space = spaces.Dict(
        {
            "camera": spaces.Box(0, 255, (2, 3), np.uint8),
            "body": spaces.Tuple((spaces.Discrete(9), spaces.Box(-1, 99, (2,), np.float32))),
        }
    )
    action_space = spaces.MultiDiscrete([3, 4])

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        self.at = 0
        return self.look(), {}

    def step(self, action: np.ndarray) -> Any:
        self.at += 1
        self.last = action
        return self.look(), float(10 * action[0] + action[1]), False, False, {}

    def look(self) -> dict[str, Any]:
        return {
            "camera": np.full((2, 3), self.at, np.uint8),
            "body": (self.at % 9, np.full(2, self.at, np.float32)),
        }


def same_memory(tensor: torch.Tensor, array: np.ndarray) -> bool:
    """Whether both show the same bytes in the same order and type."""
    return (
        tensor.data_ptr() == array.ctypes.data
        and tuple(tensor.shape) == array.shape
        and tensor.stride() == tuple(step // array.itemsize for step in array.strides)
        and tensor.numpy().dtype == array.dtype
    )


@pytest.mark.parametrize("half", [0, 1])
@pytest.mark.parametrize(
    ("env", "kwargs"), [("tag_grid", {}), ("probe", {"num_agents": 2})], ids=["tag_grid", "probe"]
)  # fmt: skip
def test_every_array_is_the_same_memory(env: str, kwargs: dict[str, Any], half: int) -> None:
    with puffervec.make(
        env, env_kwargs=kwargs, backend="serial", num_envs=4, num_buffers=2, split="envs"
    ) as vec:
        view = TorchView.halves(vec)[half]
        rows = next(iter(vec.halves[half].groups.values()))
        assert view.half == half and len(TorchView.halves(vec)) == 2
        assert (
            same_memory(view.observations, rows.observations)
            and view.native_observations is view.observations
        )
        for name in ARRAYS:
            assert same_memory(getattr(view, name), getattr(rows, name)), name
        assert view.action_masks is None and view.final_observations is None
        assert same_memory(view.block, vec.halves[half].block)
        first, size = vec.halves[half].offsets[rows.spec.name, "rewards"], 4 * rows.rows
        assert (
            view.block[first : first + size].view(torch.float32).data_ptr()
            == view.rewards.data_ptr()
        )


def test_several_groups_are_dicts() -> None:
    with puffervec.make("probe", env_kwargs=TWO_GROUPS, backend="serial", num_envs=2) as vec:
        view, groups = TorchView(vec), vec.halves[0].groups
        assert (
            list(view.observations)
            == list(view.rewards)
            == list(view.groups)
            == ["scouts", "towers"]
        )
        assert same_memory(view.observations["scouts"], groups["scouts"].observations)
        for field in ("lights", "gauges"):
            assert same_memory(
                view.observations["towers"][field], groups["towers"].observations[field]
            )
        assert same_memory(view.action_masks["scouts"], groups["scouts"].action_masks)  # type: ignore[arg-type]
        assert view.action_masks["towers"] is None
        assert view.groups["towers"].actions is view.actions["towers"] and view.actions[
            "towers"
        ].shape == (2, 2)


@pytest.mark.parametrize("backend", ["serial", "multiprocessing"])
def test_actions_written_into_the_view_are_taken(backend: str) -> None:
    """The probe's reward is step + 0.25 * agent + action / 16."""
    kwargs = {"num_agents": 2, "episode_length": 9}
    with puffervec.make(
        "probe", env_kwargs=kwargs, backend=backend, num_envs=2, num_workers=1
    ) as vec:
        view = TorchView(vec)
        vec.reset(seed=0)
        before = view.observations.clone()
        for step in (1, 2):
            view.actions.copy_(torch.arange(4))
            vec.send(None)
            vec.recv()
            expected = step + torch.tensor([0.0, 0.25, 0.0, 0.25]) + torch.arange(4) / 16
            torch.testing.assert_close(view.rewards, expected)
            assert (view.observations[:, 2] == step).all() and (before[:, 2] == 0).all()


def test_tensors_outlive_the_vector_env() -> None:
    vec = puffervec.make("tag_grid", backend="serial", num_envs=2)
    vec.reset(seed=0)
    view = TorchView(vec)
    kept = view.observations.clone()
    vec.close()
    del vec
    assert torch.equal(view.observations, kept)
    view.observations.zero_()


@pytest.mark.parametrize(
    "settings", [{"backend": "serial"}, {"num_workers": 1, "start_method": "fork"}], ids=str
)
def test_nested_observations_are_shown_natively(settings: dict[str, Any]) -> None:
    with puffervec.make(Nested, num_envs=3, **settings) as vec:
        view = TorchView(vec)
        vec.reset(seed=0)
        rows = vec.halves[0].groups["agents"]
        assert (
            same_memory(view.observations, rows.observations)
            and view.observations.dtype == torch.uint8
        )
        plan = rows.spec.observation_plan
        assert plan is not None
        views = plan.views(rows.observations)
        assert same_memory(view.native_observations["camera"], views["camera"])
        assert isinstance(view.native_observations["body"], tuple)
        for part in (0, 1):
            assert same_memory(view.native_observations["body"][part], views["body"][part])
        view.actions.copy_(torch.tensor([[0, 0], [1, 2], [2, 3]]))
        vec.send(None)
        vec.recv()
        assert view.rewards.tolist() == [0.0, 12.0, 23.0]
        assert (view.native_observations["camera"] == 1).all() and view.native_observations["body"][
            0
        ].tolist() == [1, 1, 1]


def test_final_observations_exist_in_same_step_mode() -> None:
    kwargs = {"num_agents": 2, "episode_length": 2}
    with puffervec.make(
        "probe", env_kwargs=kwargs, backend="serial", num_envs=2, autoreset_mode="same_step"
    ) as vec:
        view = TorchView(vec)
        rows = vec.halves[0].groups["agents"]
        assert same_memory(view.final_observations, rows.final_observations)
        vec.reset(seed=0)
        for _ in range(2):
            vec.step(np.zeros(4, np.int32))
        assert (
            view.terminals.all()
            and (view.final_observations[:, 2] == 2).all()
            and (view.observations[:, 2] == 0).all()
        )
