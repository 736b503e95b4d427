# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from puffervec.errors import ConfigError
from puffervec.train.config import sections as cfg
from puffervec.train.config.sections import TrainConfig


def test_preset_lies_under_the_given_tables() -> None:
    config = TrainConfig.of("tag_grid", train={"lr": 0.5}, env={"num_taggers": 4})
    assert config.train.lr == 0.5
    assert config.env.num_taggers == 4
    assert config.policy.hidden == (32, 32)  # from the preset
    assert TrainConfig.of("probe").policy.hidden == cfg.PolicySection().hidden


def test_tables_round_trip_through_json() -> None:
    config = TrainConfig.of(
        "tag_grid", policy={"hidden": [3, 4]}, log={"folder": "elsewhere"}, vec={"num_workers": 2}
    )
    back = TrainConfig.of("tag_grid").merged(json.loads(json.dumps(config.tables())))
    assert back == config
    assert back.log.folder == Path("elsewhere")


@pytest.mark.parametrize(
    ("tables", "words"),
    [
        ({"trian": {}}, ["unknown table", "trian", "train"]),
        ({"train": {"learning-rate": 1}}, ["train.learning-rate"]),
        ({"train": {"horizn": 1}}, ["train.horizn", "did you mean horizon"]),
        ({"train": {"lr": "fast"}}, ["train.lr", "'fast'", "a number"]),
        ({"train": {"horizon": 1.5}}, ["train.horizon", "1.5", "an integer"]),
        ({"train": {"horizon": True}}, ["train.horizon", "True"]),
        ({"train": {"anneal_lr": 1}}, ["train.anneal_lr", "true or false"]),
        ({"train": {"horizon": float("inf")}}, ["train.horizon", "inf"]),
        ({"vec": {"backend": "ray"}}, ["vec.backend", "'ray'", "serial"]),
        ({"vec": {"num_workers": "all"}}, ["vec.num_workers", "'auto'"]),
        ({"policy": {"hidden": 64}}, ["policy.hidden", "a list"]),
        ({"train": 3}, ["train is 3: must be a table"]),
        ({"policies": 3}, ["policies is 3: must be a table"]),
        ({"policies": {"a": 3}}, ["policies.a is 3: must be a table"]),
        ({"policies": {"a": {"lrr": 1}}}, ["policies.a.lrr", "did you mean lr"]),
        ({"policies": {"a": {"lr": "fast"}}}, ["policies.a.lr", "'fast'", "a number"]),
        (
            {"policies": {"a": {"seed": 3}}},
            ["policies.a.seed", "the same for all policies", "train.seed"],
        ),
        ({"policies": {"a": {"map": ["b=0"]}}}, ["policies.a.map", "policy.map"]),
        ({"policies": {"a": {"algorithm": "magic"}}}, ["magic", "ppo"]),
        (
            {"policies": {"a": {"to_train": True, "opponent": "runs/x"}}},
            ["policies.a.to_train", "opponent"],
        ),
    ],
)
def test_bad_tables_are_named(tables: dict[str, object], words: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        TrainConfig.of("probe").merged(tables)  # type: ignore[arg-type]
    for word in words:
        assert word in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_policy_has_its_own_settings_over_those_of_all() -> None:
    tables = {
        "a": {"lr": 1, "hidden": [3], "clip": 0.3},
        "b": {"to-train": False},
        "c": {"opponent": "runs/x"},
    }
    config = TrainConfig.of("probe", train={"lr": 0.5, "gamma": 0.5}, policies=tables)
    a, b, c = (config.of_policy(name) for name in "abc")
    assert (a.train.lr, a.train.gamma, a.train.clip, a.policy.hidden) == (1.0, 0.5, 0.3, (3,))  # type: ignore[attr-defined]
    assert (b.train, b.policy, b.role.learns) == (config.train, config.policy, False)
    assert (
        c.role.opponent == ("runs/x",) and not c.role.learns and config.of_policy("d").role.learns
    )
    assert TrainConfig.of("probe").merged(json.loads(json.dumps(config.tables()))) == config
    with pytest.raises(ConfigError, match="policies.a: train.lr is -1.0: must be above 0"):
        config.merged({"policies": {"a": {"lr": -1}}}).check()


def test_what_is_given_later_wins_over_a_policy_s_own() -> None:
    own = {"a": {"lr": 1.0, "hidden": [3]}, "b": {"lr": 2.0}}
    config = TrainConfig.of("probe", policy={"map": ["a=0", "b=1"]}, policies=own)
    assert config.merged({"train": {"lr": 0.1}}).policies == {"a": {"hidden": [3]}}
    assert (
        config.merged({"train": {"lr": 0.1}, "policies": {"b": {"lr": 3.0}}})
        .of_policy("b")
        .train.lr
        == 3.0
    )
    assert config.merged({"policy": {"map": ["b=0", "c=1"]}}).policies == {"b": {"lr": 2.0}}
    assert (
        config.merged({"policy": {"map": ["a=0", "b=1"]}}) == config.merged({"log": {}}) == config
    )


def test_whole_floats_and_ints_convert_and_nothing_else() -> None:
    config = TrainConfig.of("probe", train={"total_timesteps": 1e6, "lr": 1})
    assert config.train.total_timesteps == 1_000_000 and isinstance(
        config.train.total_timesteps, int
    )
    assert isinstance(config.train.lr, float)


@pytest.mark.parametrize(
    ("section", "key", "value"),
    [
        ("vec", "num_envs", 0),
        ("vec", "num_buffers", 3),
        ("vec", "num_envs", 3),
        ("vec", "num_workers", 0),
        ("vec", "timeout_s", 0.0),
        ("train", "horizon", 0),
        ("train", "lr", 0.0),
        ("train", "lr", float("nan")),
        ("train", "gamma", 1.5),
        ("train", "seed", -1),
        ("train", "seed", 2**64),
        ("policy", "memory_layers", 2),
        ("policy", "memory_layers", -1),
        ("policy", "memory_layers", 17),
        ("train", "time_limit_s", -1.0),
        ("policy", "hidden", []),
        ("policy", "hidden", [0]),
        ("log", "keep_checkpoints", 0),
    ],
)
def test_values_that_cannot_work_are_refused(section: str, key: str, value: object) -> None:
    config = TrainConfig.of("probe").merged({section: {key: value}})
    with pytest.raises(ConfigError, match=key):
        config.check()
    TrainConfig.of("probe").check()


def test_minibatch_must_divide() -> None:
    config = TrainConfig.of("probe", train={"horizon": 10, "minibatch_size": 60})
    assert config.check_batch(12) == 2
    with pytest.raises(ConfigError, match=r"13 x 10 = 130.*26"):
        config.check_batch(13)
    assert TrainConfig.of("probe").check_batch(13) == 8


def test_every_field_has_one_sentence() -> None:
    from puffervec.commands.settings_help import field_sentences

    for kind in (cfg.VecSection, cfg.TrainSection, cfg.PolicySection, cfg.LogSection):
        sentences = field_sentences(kind)
        for field in dataclasses.fields(kind):
            assert sentences.get(field.name, "").endswith("."), field.name


def test_unknown_envs_have_one_preset_in_c_and_in_python() -> None:
    found = [TrainConfig.of(target).tables() for target in ("CartPole-v1", "cartpole", "probe")]
    assert found[0]["train"]["scale_rewards"] and found[0]["policy"]["normalize"]
    assert found[0] | {"env": None} == found[1] | {"env": None} == found[2] | {"env": None}


def test_python_envs_have_free_env_settings() -> None:
    config = TrainConfig.of("CartPole-v1", env={"sutton-barto_reward": True}, train={"horizon": 4})
    assert (
        config.python and config.env == {"sutton_barto_reward": True} and config.train.horizon == 4
    )
    back = TrainConfig.bare("CartPole-v1").merged(json.loads(json.dumps(config.tables())))
    assert back == config and config.tables()["env"] is not config.env
    assert not TrainConfig.of("probe").python


def test_settings_of_python_envs_can_be_kept() -> None:
    TrainConfig.of("CartPole-v1", env={"a": [1, "x", None, {"b": 2.5}]}).check()
    with pytest.raises(ConfigError, match=r"env\.made is .*object.*partial"):
        TrainConfig.of("CartPole-v1", env={"made": object()}).check()


def test_auto_backend() -> None:
    for python, envs, expected in (
        (True, 7, ("serial", 1)), (True, 8, ("multiprocessing", 2)),
        (False, 2, ("multiprocessing", 2)),
    ):  # fmt: skip
        found = cfg.VecSection(num_envs=envs).resolved(python)
        assert (found.backend, found.num_buffers) == expected
    for asked in (
        {"num_workers": 2},
        {"num_buffers": 2},
        {"batch_size": 2},
    ):  # Nobody asked for the serial backend.
        assert cfg.VecSection(num_envs=4, **asked).resolved(True).backend == "multiprocessing"
    assert (
        cfg.VecSection(num_envs=4, num_buffers=1).resolved(True).backend == "serial"
    )  # As a run that goes on has it.
    assert cfg.VecSection(backend="threading", num_envs=2).resolved(True).backend == "threading"
    TrainConfig.of("CartPole-v1", vec={"num_envs": 7}).check()
    with pytest.raises(ConfigError, match="vec.num_buffers, 2 .*vec.num_buffers 1"):
        TrainConfig.of("CartPole-v1", vec={"num_envs": 9}).check()
    with pytest.raises(ConfigError, match="vec.batch_size, 5"):
        TrainConfig.of("CartPole-v1", vec={"num_envs": 9, "batch_size": 5}).check()


@pytest.mark.parametrize("policy", [{"kind": "module:Class"}, {"memory": "lstm"}])
def test_only_a_policy_with_a_memory_has_memory_layers(policy: dict[str, str]) -> None:
    """A policy class of the user's own may have a memory whatever `policy.memory` says."""
    config = TrainConfig.of("probe", policy={**policy, "memory_layers": 2})
    config.check()
    assert config.policy.memory_layers == 2
    with pytest.raises(ConfigError, match="policy.memory_layers is 2, but policy.memory is none"):
        TrainConfig.of("probe", policy={"kind": "mlp", "memory_layers": 2}).check()
