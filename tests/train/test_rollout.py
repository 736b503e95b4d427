# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import puffervec
from puffervec.train import TrainConfig, Trainer
from puffervec.train.policies.distributions import log_prob_entropy
from puffervec.train.policies.leaves import ROW, policy_input
from tests.train.fakes import Remembering

Small = Callable[..., TrainConfig]


def collected(config: TrainConfig, rollouts: int) -> list[dict[str, dict[str, np.ndarray]]]:
    """Collect some rollouts without updates; copies of all storages."""
    found = []
    with Trainer(config) as trainer:
        for _ in range(rollouts):
            assert trainer.collect()
            found.append(
                {
                    n: {k: v.clone().numpy() for k, v in slot.storage.tensors().items()}
                    for n, slot in trainer.slots.items()
                }
            )
    return found


@pytest.mark.parametrize(
    "vec",
    [
        {"backend": "serial", "num_buffers": 1},
        {"backend": "serial", "num_buffers": 2},
        {"backend": "threading", "num_buffers": 2, "num_workers": 2, "split": "workers"},
        {"backend": "threading", "num_buffers": 2, "num_workers": 1, "split": "envs"},
        {"backend": "multiprocessing", "num_buffers": 2, "num_workers": 2, "split": "workers"},
    ],
)
def test_storage_holds_what_the_env_wrote(small: Small, vec: dict[str, Any]) -> None:
    """Replaying the stored actions in a plain serial env gives every stored row, across the seam of
    two rollouts.
    """
    env = {"num_agents": 3, "episode_length": 5, "end_kind": 2, "leave": 1}
    config = small(env=env, vec=vec, train={"scale_rewards": False})
    first, second = (found["default"] for found in collected(config, 2))
    joined = {k: np.concatenate([first[k], second[k][1:]]) for k in first}
    for k in first:
        np.testing.assert_array_equal(first[k][-1], second[k][0], err_msg=k)
    with puffervec.make(
        "probe", env_kwargs=env, backend="serial", num_envs=4, seed=config.train.seed
    ) as vec_env:
        vec_env.async_reset(config.train.seed)
        for step in range(len(joined["rewards"])):
            obs, rewards, terminals, truncations, _, _, masks = vec_env.recv()
            expected = {
                "obs": obs,
                "rewards": rewards,
                "terminals": terminals,
                "truncations": truncations,
                "masks": masks,
            }
            for name, rows in expected.items():
                np.testing.assert_array_equal(joined[name][step], rows, err_msg=f"{name} at {step}")
            vec_env.send(joined["actions"][step][:, 0])


def test_values_and_log_probs_are_the_policies(small: Small) -> None:
    config = small(vec={"num_buffers": 2})
    with Trainer(config) as trainer:
        trainer.collect()
        slot = trainer.slots["default"]
        heads, value, _ = slot.policy(policy_input(slot.storage.obs), (), None, None)
        chosen = heads[0].log_softmax(-1).gather(-1, slot.storage.actions.long()).squeeze(-1)
        torch.testing.assert_close(slot.storage.values, value.detach())
        torch.testing.assert_close(slot.storage.log_probs, chosen.detach())


def test_two_groups_with_a_mask_and_mixed_rows(small: Small) -> None:
    config = small(env={"mode": 1, "num_agents": 2, "episode_length": 4})
    (found,) = collected(config, 1)
    assert set(found) == {"scouts", "towers"}
    scouts, towers = found["scouts"], found["towers"]
    assert scouts["obs"].shape == (9, 8, 6) and scouts["actions"].shape == (9, 8, 1)
    assert towers["actions"].shape == (9, 4, 2)
    assert {k for k in towers if k.startswith("obs.")} == {f"obs.{k}" for k in tower_fields()}
    allowed = np.take_along_axis(scouts["action_masks"], scouts["actions"], -1)[..., 0]
    live = (scouts["masks"] != 0) & (scouts["terminals"] == 0)
    assert allowed[live & (scouts["action_masks"].sum(-1) > 0)].all()
    with puffervec.make(
        "probe",
        env_kwargs={"mode": 1, "num_agents": 2, "episode_length": 4},
        backend="serial",
        num_envs=4,
    ) as vec:
        vec.async_reset(config.train.seed)
        obs = vec.recv()[0]
        np.testing.assert_array_equal(scouts["obs"][0], obs["scouts"])
        for name, rows in obs["towers"].items():
            np.testing.assert_array_equal(towers[f"obs.{name}"][0], rows)


def tower_fields() -> list[str]:
    with puffervec.make("probe", env_kwargs={"mode": 1}, backend="serial") as vec:
        return [field.name for field in vec.spec.groups[1].fields]


def test_bf16_storage_is_the_rounded_row(small: Small) -> None:
    exact = collected(small(), 1)[0]["default"]["obs"]
    with Trainer(small(train={"precision": "bf16"})) as trainer:
        trainer.collect()
        obs = trainer.slots["default"].storage.obs[ROW]
        assert obs.dtype == torch.bfloat16
        # Columns that do not depend on the actions drawn: seed, episode, step, agent.
        torch.testing.assert_close(
            obs[..., :4].float(), torch.from_numpy(exact[..., :4]).bfloat16().float()
        )


def test_stop_inside_a_rollout(small: Small) -> None:
    with Trainer(small()) as trainer:
        calls = 0

        def stop() -> bool:
            nonlocal calls
            calls += 1
            return calls > 5

        assert not trainer.collector.rollout.collect(stop)
        assert not trainer.collector.rollout.full
        assert trainer.collect()  # It can go on: a fresh rollout from where the envs are.
        clock = trainer.slots["default"].storage.tensors()["obs"][:, 0, 7]
        assert (clock.diff() == 1).all()


def test_times_add_up_over_the_parts(small: Small) -> None:
    with Trainer(small()) as trainer:
        trainer.collect()
        times = trainer.collector.rollout.times
        assert min(times.env, times.copy, times.forward) > 0


@pytest.mark.parametrize("memory", ["mingru", "lstm"])
def test_masks_and_memory_together(small: Small, memory: str) -> None:
    """No forbidden choice is drawn, and a pass over the whole sequence gives the log-probabilities
    that were stored step by
    step: with the same masks, resets and first states.
    """
    config = small(
        env={"mode": 1, "num_agents": 2, "episode_length": 5},
        policy={"memory": memory, "joint": True},
    )
    with Trainer(config) as trainer:
        for _ in range(2):
            trainer.collect()
            for slot in trainer.slots.values():
                s, steps = slot.storage, slice(0, slot.storage.horizon)
                obs = policy_input({key: part[steps] for key, part in s.obs.items()})
                state = tuple(
                    torch.cat(parts)
                    for parts in zip(*(s.first_states[half] for half in (0, 1)), strict=True)
                )
                mask = None if s.action_masks is None else s.action_masks[steps]
                with torch.no_grad():
                    heads, values, _ = slot.policy(obs, state, s.resets[steps] != 0, mask)
                log_probs, _ = log_prob_entropy(s.spec, heads, s.actions[steps])
                torch.testing.assert_close(log_probs, s.log_probs[steps])
                torch.testing.assert_close(values, s.values[steps])
                if mask is not None:
                    alive = s.masks[steps] != 0
                    allowed = mask.gather(-1, s.actions[steps].long()).squeeze(-1)
                    assert bool(allowed[alive].all()) and not bool(mask[alive].all())


@pytest.mark.parametrize("buffers", [1, 2])
def test_memory_lasts_as_long_as_an_episode(small: Small, buffers: int) -> None:
    """Across the seam of two rollouts too; terminals and truncations end it alike."""
    config = small(
        env={"num_agents": 2, "episode_length": 5, "end_kind": 2}, vec={"num_buffers": buffers}
    )
    with Trainer(config, policies={"default": Remembering()}) as trainer:
        storage = trainer.slots["default"].storage
        ended = 0
        for _ in range(3):
            trainer.collect()
            torch.testing.assert_close(
                storage.values, storage.obs[ROW][..., 2] + 1
            )  # the env's own count of steps
            ended += int(storage.terminals.any()) + 2 * int(storage.truncations.any())
            trainer.update()
        assert ended >= 3
