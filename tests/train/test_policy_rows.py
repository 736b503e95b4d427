# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Several policies within a row group (`policy.map`), from the config to the exported file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import puffervec
from puffervec.errors import CheckpointError, ConfigError
from puffervec.train import TrainConfig, Trainer, load_policy
from puffervec.train.config.sections import PolicySection
from puffervec.train.config.target import env_spec
from puffervec.train.policies.registry import places, policy_rows
from puffervec.train.verbs.eval import EvalRequest, run_evaluation
from puffervec.train.verbs.exporting import export_run
from tests.train import envs
from tests.train.test_turn import Always

Small = Callable[..., TrainConfig]
CHASE = ("taggers=tagger", "runner=runner")
TWO = {"mode": 1, "num_agents": 2}


def mapped(target: Any, entries: tuple[str, ...], **env: Any) -> dict[str, tuple[str, int, tuple[int, ...] | None]]:
    rows = policy_rows(env_spec(TrainConfig.of(target, env=env)), PolicySection(map=entries))
    return {name: (own.group.name, own.group.agents, own.agents) for name, own in rows.items()}


def test_a_map_gives_each_policy_its_agents() -> None:
    by_type = {"taggers": ("agents", 3, (0, 1, 2)), "runner": ("agents", 1, (3,))}
    assert mapped("tag_grid", CHASE, num_taggers=3) == by_type
    assert mapped("tag_grid", ("taggers=0,1,2", "runner=3"), num_taggers=3) == by_type, "by row"
    assert mapped(envs.Leavers, ("a=third,first", "b=second")) == {"a": ("agents", 2, (0, 2)), "b": ("agents", 1, (1,))}
    assert mapped("probe", ("a=scouts", "b=2"), **TWO) == {"a": ("scouts", 2, None), "b": ("towers", 1, None)}, "by group"
    assert mapped("tag_grid", ("all=agents",)) == {"all": ("agents", 11, None)}
    assert places((0, 2), 3, 6).tolist() == [0, 2, 3, 5]


@pytest.mark.parametrize(
    ("target", "env", "entries", "words"),
    [
        ("tag_grid", {}, ("a=tagger",), r"no policy acts for agent 10 of agents \(runner\): give it to one of a"),
        ("tag_grid", {}, (*CHASE, "b=10"), r"agent 10 of agents \(runner\) is given to 'runner' and 'b'"),
        ("tag_grid", {}, ("a=hare",), r"'a' is to act for 'hare': this env has tagger, agents, runner, and rows 0 to 10"),
        ("tag_grid", {}, ("tagger",), "policy.map has 'tagger': give NAME=AGENT,AGENT"),
        ("tag_grid", {}, ("a=tagger", "a=runner"), "has 'a=runner': .*each name once"),
        ("probe", TWO, ("a=scouts,towers",), "'a' is to act for scouts and towers, whose rows differ"),
        ("tag_grid", {}, ("optimizer=agents",), "'optimizer' has a name that its weights cannot be saved under"),
    ],
)
def test_a_map_that_does_not_fit_is_refused(small: Small, target: str, env: Any, entries: tuple[str, ...], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        Trainer(small(target, env=env, policy={"map": entries}))


@pytest.mark.parametrize("policy", [{}, {"memory": "mingru"}])
def test_two_policies_of_one_group_from_training_to_the_file(small: Small, tmp_path: Path, policy: dict[str, Any]) -> None:
    config = small("tag_grid", env={"num_taggers": 3}, policy={"map": CHASE, **policy}, vec={"num_buffers": 2})
    with Trainer(config) as trainer:
        metrics = trainer.train()
        assert {"losses/taggers/policy", "losses/runner/policy"} <= metrics.keys()
        assert {n: s.storage.rows for n, s in trainer.slots.items()} == {"taggers": 12, "runner": 4}
        folder = trainer.folder
    run_evaluation(EvalRequest(str(folder), episodes=4, json=tmp_path / "found.json"))
    assert (tmp_path / "found.json").is_file()
    with pytest.raises(CheckpointError, match=r"policy.map is \[\], of the checkpoint \['taggers=tagger', 'runner=runner'\]"):
        Trainer(config.merged({"policy": {"map": ()}}), checkpoint=next((folder / "checkpoints").iterdir()))
    assert [(one.policy, one.path.name) for one in export_run(str(folder), "pt2")] == [
        ("taggers", "policy-taggers.pt2"),
        ("runner", "policy-runner.pt2"),
    ]
    loaded = load_policy(folder)
    with puffervec.make("tag_grid", env_kwargs={"num_taggers": 3}, backend="serial", num_envs=4) as vec:
        obs, _ = vec.reset(1)
        both = loaded.act(obs, vec)
        loaded.reset()
        rows = obs.reshape(4, 4, -1)
        apart = loaded.act({"taggers": rows[:, :3].reshape(12, -1), "runner": rows[:, 3]})
        np.testing.assert_array_equal(both.reshape(4, 4), np.column_stack([apart["taggers"].reshape(4, 3), apart["runner"]]))
        with pytest.raises(ConfigError, match=r"give a dict by policy, of \['taggers', 'runner'\]"):
            loaded.act(obs)


def test_each_policy_acts_for_its_own_agents(small: Small) -> None:
    policies = {"a": Always(1), "b": Always(4)}
    config = small("probe", env={"num_agents": 3}, policy={"map": ("a=0,2", "b=1")}, train={"asynchronous": True})
    with Trainer(config, policies=policies) as trainer:
        assert trainer.collect()
        for name, action in (("a", 1), ("b", 4)):
            assert bool((trainer.slots[name].storage.actions == action).all())
            agents = trainer.slots[name].storage.obs[""][0, :, 3].tolist()
            assert agents == {"a": [0, 2] * 4, "b": [1] * 4}[name]


def test_agents_of_a_parallel_env_have_policies_by_name(small: Small) -> None:
    with Trainer(small(envs.Leavers, policy={"map": ("a=third,first", "b=second")})) as trainer:
        assert {name: slot.storage.rows for name, slot in trainer.slots.items()} == {"a": 8, "b": 4}
        assert trainer.collector.rollout.collect()
        ended = np.concatenate(trainer.collector.rollout.episodes)
        assert set(ended["slot"].tolist()) == {0, 1, 2} and set(ended["env"].tolist()) == {0, 1, 2, 3}
        assert (ended["length"] == ended["slot"] + 1).all(), "agent i leaves after i + 1 steps"
        trainer.collector.rollout.episodes.clear()
        assert trainer.train()["step"] > 0
