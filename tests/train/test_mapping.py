# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Several policies (`policy.map`, puffervec/train/policies/mapping.py), from the config to the
exported file.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import puffervec
from puffervec.commands.eval import EvalRequest, run_evaluation
from puffervec.errors import CheckpointError, ConfigError
from puffervec.train import TrainConfig, Trainer, load_policy
from puffervec.train.policies.mapping import places
from puffervec.train.policies.run_spec import RunSpec
from puffervec.train.run.rundir import config_from_tables
from puffervec.wings.export.exporting import export_run
from tests.train import envs
from tests.train.test_turn import Always

Small = Callable[..., TrainConfig]
CHASE = ("taggers=tagger", "runner=runner")
TWO = {"mode": 1, "num_agents": 2}


def mapped(
    target: Any, entries: tuple[str, ...], **env: Any
) -> dict[str, tuple[str, int, tuple[int, ...] | None]]:
    config = TrainConfig.of(target, env=env, policy={"map": entries})
    rows = RunSpec.of(config).rows
    return {name: (own.group.name, own.group.agents, own.agents) for name, own in rows.items()}


def test_a_map_gives_each_policy_its_agents() -> None:
    by_type = {"taggers": ("agents", 3, (0, 1, 2)), "runner": ("agents", 1, (3,))}
    assert mapped("tag_grid", CHASE, num_taggers=3) == by_type
    assert mapped("tag_grid", ("taggers=0,1,2", "runner=3"), num_taggers=3) == by_type, "by row"
    assert mapped(envs.Leavers, ("a=third,first", "b=second")) == {
        "a": ("agents", 2, (0, 2)),
        "b": ("agents", 1, (1,)),
    }
    assert mapped("probe", ("a=scouts", "b=2"), **TWO) == {
        "a": ("scouts", 2, None),
        "b": ("towers", 1, None),
    }, "by group"
    assert mapped("tag_grid", ("all=agents",)) == {"all": ("agents", 11, None)}
    assert places((0, 2), 3, 6).tolist() == [0, 2, 3, 5]


def sides(agent: int | str) -> str:
    return "a" if agent in ("third", "first", 3) else "b"


def numbers(agent: int) -> int:
    return agent


def test_a_function_gives_each_agent_its_policy(small: Small) -> None:
    own = (f"{__name__}:sides",)
    assert mapped(envs.Leavers, own) == {"a": ("agents", 2, (0, 2)), "b": ("agents", 1, (1,))}
    found = mapped("tag_grid", own, num_taggers=4)
    assert found == {"b": ("agents", 4, (0, 1, 2, 4)), "a": ("agents", 1, (3,))}
    with Trainer(small("tag_grid", env={"num_taggers": 3}), policy_map=sides) as trainer:
        assert trainer.config.policy.map == ("b=0,1,2", "a=3") and list(trainer.policies) == [
            "b",
            "a",
        ]
        trainer.train()
        folder = trainer.folder
    assert list(load_policy(folder).policies) == ["b", "a"], "nothing needs the function any more"
    with pytest.raises(ConfigError, match="policy map is 'os:getcwd', code that would be imported"):
        config_from_tables({"target": "tag_grid", "policy": {"map": ["os:getcwd"]}})


def test_each_policy_learns_with_its_own_settings(small: Small) -> None:
    own = {
        "taggers": {"lr": 0.5, "hidden": [4], "entropy_coef": 0.3, "gamma": 0.5},
        "runner": {"memory": "lstm", "lr": 0.25},
    }
    config = small(
        "tag_grid",
        env={"num_taggers": 3},
        policy={"map": CHASE},
        policies=own,
        train={"scale_rewards": True},
    )
    with Trainer(config) as trainer:
        updaters = trainer.learner.updaters
        assert [updaters[name].section.entropy_coef for name in own] == [
            0.3,
            config.train.entropy_coef,
        ]
        assert [updater.memory for updater in updaters.values()] == [False, True]
        assert [scale.gamma for scale in trainer.collector.return_scales.values()] == [
            0.5,
            config.train.gamma,
        ]
        metrics = trainer.train()
        assert (
            metrics["charts/learning_rate/taggers"]
            == 2 * metrics["charts/learning_rate/runner"]
            > 0
        )
        assert [updater.optimizer.parts[0].lr for updater in updaters.values()] == [0.5, 0.25], (
            "before the step size fell"
        )
        folder = trainer.folder
    sizes = [
        sum(p.numel() for p in policy.parameters())
        for policy in load_policy(folder).policies.values()
    ]
    assert sizes[0] < sizes[1]


def test_a_policy_that_is_not_to_be_trained_stays_as_it_is(small: Small) -> None:
    config = small(
        "tag_grid",
        policy={"map": CHASE, "normalize": True},
        policies={"runner": {"to_train": False}},
    )
    with Trainer(config) as trainer:
        before = {name: tensor.clone() for name, tensor in trainer.saver.state()["runner"].items()}
        metrics = trainer.train()
        assert "losses/taggers/policy" in metrics and not any("runner" in key for key in metrics)
        after = trainer.saver.state()
        assert all(torch.equal(before[name], tensor) for name, tensor in after["runner"].items())
        assert not any(key.startswith("runner") for key in after["optimizer"])
        assert metrics["step"] % 10 == 0 and list(trainer.slots) == ["taggers", "runner"], (
            "steps of ten taggers"
        )
        path = trainer.save()
    with Trainer(
        config.merged({"policies": {"runner": {"to_train": True}}}), checkpoint=path
    ) as trainer:
        trainer.collect()
        assert "losses/runner/policy" in trainer.update(), (
            "it may begin to learn when the run goes on"
        )
    with pytest.raises(ConfigError, match="none of the policies taggers, runner learns"):
        Trainer(config.merged({"policies": {"taggers": {"to_train": False}}}))
    with pytest.raises(
        ConfigError,
        match="policies.runners: this run has no policy of that name: did you mean runner",
    ):
        Trainer(config.merged({"policies": {"runners": {"lr": 1.0}}}))


@pytest.mark.parametrize(
    ("target", "env", "entries", "words"),
    [
        (
            "tag_grid",
            {},
            ("a=tagger",),
            r"agent 10 of agents \(runner\) has no policy: give it one of a",
        ),
        (
            "tag_grid",
            {},
            (*CHASE, "b=10"),
            r"agent 10 of agents \(runner\) has two policies, 'runner' and 'b'",
        ),
        (
            "tag_grid",
            {},
            ("a=hare",),
            r"'a' has 'hare', but this env has tagger, agents, runner, and rows 0 to 10",
        ),
        ("tag_grid", {}, ("tagger",), "policy.map has 'tagger': give NAME=AGENT,AGENT"),
        ("tag_grid", {}, ("a=tagger", "a=runner"), "has 'a=runner': .*each name once"),
        (
            "probe",
            TWO,
            ("a=scouts,towers",),
            "'a' has agents of scouts and towers, whose rows differ",
        ),
        ("tag_grid", {}, ("tests.train.test_mapping:nobody",), "test_mapping' has no 'nobody'"),
        (
            "tag_grid",
            {},
            ("tests.train.test_mapping:numbers",),
            "the function returned 0 for agent 0: return the name of",
        ),
        (
            "tag_grid",
            {},
            ("optimizer=agents",),
            "'optimizer' has a name that cannot be a file name",
        ),
    ],
)
def test_a_map_that_does_not_fit_is_refused(
    small: Small, target: str, env: Any, entries: tuple[str, ...], words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        Trainer(small(target, env=env, policy={"map": entries}))


@pytest.mark.slow
@pytest.mark.parametrize("policy", [{"memory": "mingru"}, {}])
def test_two_policies_of_one_group_from_training_to_the_file(
    small: Small, tmp_path: Path, policy: dict[str, Any]
) -> None:
    config = small(
        "tag_grid", env={"num_taggers": 3}, policy={"map": CHASE, **policy}, vec={"num_buffers": 2}
    )
    with Trainer(config) as trainer:
        metrics = trainer.train()
        assert {"losses/taggers/policy", "losses/runner/policy"} <= metrics.keys()
        assert {n: s.storage.rows for n, s in trainer.slots.items()} == {"taggers": 12, "runner": 4}
        folder = trainer.folder
    run_evaluation(EvalRequest(str(folder), episodes=4, json=tmp_path / "found.json"))
    assert (tmp_path / "found.json").is_file()
    with pytest.raises(
        CheckpointError,
        match=r"policy.map is \[\], but \['taggers=tagger', 'runner=runner'\] in the checkpoint",
    ):
        Trainer(
            config.merged({"policy": {"map": ()}}),
            checkpoint=next((folder / "checkpoints").iterdir()),
        )
    assert [(one.policy, one.path.name) for one in export_run(str(folder), "pt2")] == [
        ("taggers", "policy-taggers.pt2"),
        ("runner", "policy-runner.pt2"),
    ]
    loaded = load_policy(folder)
    with puffervec.make(
        "tag_grid", env_kwargs={"num_taggers": 3}, backend="serial", num_envs=4
    ) as vec:
        obs, _ = vec.reset(1)
        both = loaded.act(obs, vec)
        loaded.reset()
        rows = obs.reshape(4, 4, -1)
        apart = loaded.act({"taggers": rows[:, :3].reshape(12, -1), "runner": rows[:, 3]})
        np.testing.assert_array_equal(
            both.reshape(4, 4), np.column_stack([apart["taggers"].reshape(4, 3), apart["runner"]])
        )
        with pytest.raises(ConfigError, match=r"give a dict by policy, of \['taggers', 'runner'\]"):
            loaded.act(obs)


def test_each_policy_acts_for_its_own_agents(small: Small) -> None:
    policies = {"a": Always(1), "b": Always(4)}
    config = small(
        "probe",
        env={"num_agents": 3},
        policy={"map": ("a=0,2", "b=1")},
        train={"asynchronous": True},
    )
    with Trainer(config, policies=policies) as trainer:
        assert trainer.collect()
        for name, action in (("a", 1), ("b", 4)):
            assert bool((trainer.slots[name].storage.actions == action).all())
            agents = trainer.slots[name].storage.obs[""][0, :, 3].tolist()
            assert agents == {"a": [0, 2] * 4, "b": [1] * 4}[name]


@pytest.mark.slow
def test_agents_of_a_parallel_env_have_policies_by_name(small: Small) -> None:
    with Trainer(small(envs.Leavers, policy={"map": ("a=third,first", "b=second")})) as trainer:
        assert {name: slot.storage.rows for name, slot in trainer.slots.items()} == {"a": 8, "b": 4}
        assert trainer.collector.rollout.collect()
        ended = np.concatenate(trainer.collector.rollout.episodes)
        assert set(ended["slot"].tolist()) == {0, 1, 2} and set(ended["env"].tolist()) == {
            0,
            1,
            2,
            3,
        }
        assert (ended["length"] == ended["slot"] + 1).all(), "agent i leaves after i + 1 steps"
        trainer.collector.rollout.episodes.clear()
        assert trainer.train()["step"] > 0
