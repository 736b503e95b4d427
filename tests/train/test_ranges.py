# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
from __future__ import annotations

from typing import Any

import pytest

import puffervec
from puffervec.envs import BUILT_IN
from puffervec.errors import ConfigError
from puffervec.train.config import algorithms, flags, ranges
from puffervec.train.config.ranges import Choices, Range
from puffervec.train.config.sections import TrainConfig
from puffervec.train.config.target import env_spec


class Middle:
    """An optuna trial that takes the middle."""

    def suggest_categorical(self, key: str, options: list[str]) -> str:
        return options[len(options) // 2]

    def suggest_int(self, key: str, low: int, high: int, log: bool) -> int:
        return (low + high) // 2

    def suggest_float(self, key: str, low: float, high: float, log: bool) -> float:
        return (low * high) ** 0.5 if log else (low + high) / 2


@pytest.mark.parametrize(
    ("key", "text", "found"),
    [
        ("train.lr", "1e-4:1e-2:log", Range(1e-4, 1e-2, True, False)),
        ("train.gamma", "0.9:1", Range(0.9, 1.0, False, False)),
        ("train.horizon", "8:64:log", Range(8, 64, True, True)),
        ("train.update_epochs", "1/2/4", Choices(("1", "2", "4"))),
        ("train.anneal_lr", "true/false", Choices(("true", "false"))),
        ("train.optimizer", "adam/muon", Choices(("adam", "muon"))),
        ("policy.hidden", "64,64/128", Choices(("64,64", "128"))),
        ("env.episode_length", "2:9", Range(2, 9, False, True)),
    ],
)
def test_ranges(key: str, text: str, found: Any) -> None:
    config = TrainConfig.of("probe")
    assert ranges.parse(config, key, text) == found
    assert ranges.parse(config, key, ranges.as_text(found)) == found
    ends = found.options if isinstance(found, Choices) else (found.low, found.high)
    assert [ranges.place(found, end) for end in (ends[0], ends[-1])] == [0.0, 1.0]
    ranges.with_values(config, {key: ends[0]}).check()


def test_values_become_settings() -> None:
    config = TrainConfig.of("probe")
    space = ranges.build_space(
        config,
        {
            "train.lr": "1e-4:1e-2:log",
            "train.horizon": "8:64",
            "policy.hidden": "8/64,64/9",
            "train.anneal_lr": "true/false",
            "train.optimizer": "adam/muon",
        },
    )
    values = ranges.draw(Middle(), space)
    made = ranges.with_values(config, values)
    assert (
        made.train.lr == pytest.approx(1e-3)
        and made.train.horizon == 36
        and made.policy.hidden == (64, 64)
    )
    assert made.train.anneal_lr is False and made.train.optimizer == "muon"
    assert ranges.place(space["train.lr"], values["train.lr"]) == pytest.approx(0.5)


def test_settings_of_python_envs_are_what_they_look_like() -> None:
    config = TrainConfig.of("CartPole-v1")
    assert ranges.parse(config, "env.size", "2:8") == Range(2, 8, False, True)
    assert ranges.parse(config, "env.size", "2.0:8.0") == Range(2, 8, False, False)
    assert ranges.with_values(config, {"env.kind": "b", "env.size": "3"}).env == {
        "kind": "b",
        "size": 3,
    }


def test_parameters_choose_among_usual_and_given() -> None:
    config = TrainConfig.of("probe")
    assert list(ranges.build_space(config, {"train.clip": "0.1:0.2"})) == ["train.clip"]
    found = ranges.build_space(config, {"train.horizon": "8/16"}, ["train.horizon", "train.lr"])
    assert list(found) == ["train.horizon", "train.lr"]
    with pytest.raises(ConfigError, match="train.lrr, which has no range: did you mean train.lr"):
        ranges.build_space(config, {}, ["train.lrr"])


@pytest.mark.parametrize(
    ("key", "text", "words"),
    [
        ("train.lr", "3", "give LOW:HIGH"),
        ("train.lr", "3/3", "give LOW:HIGH"),
        ("train.lr", "1e-2:1e-4", "LOW must be below HIGH"),
        ("train.lr", "0:1:log", "above 0"),
        ("train.lr", "1:2:lin", "LOW:HIGH or LOW:HIGH:log"),
        ("train.lr", "a:b", "only a number"),
        ("train.lr", "a/b", "train.lr is 'a'"),
        ("train.horizon", "1.5:3", "whole numbers"),
        ("train.optimizer", "1:2", "only a number"),
        ("train.gamma", "0.9:1.5", "gamma is 1.5"),
        ("train.lrr", "1:2", "unknown setting lrr: did you mean lr"),
        ("lr", "1:2", "SECTION.NAME"),
        ("log.name", "a/b", "do not affect learning"),
    ],
)
def test_bad_ranges(key: str, text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        ranges.build_space(TrainConfig.of("probe"), {key: text})


def test_flags_are_taken_out() -> None:
    argv = ["--sweep.train.update-epochs", "1/2", "--seed", "3", "--sweep.train.lr=1:2"]
    assert flags.take_prefixed(argv, ranges.PREFIX) == {
        "train.update_epochs": "1/2",
        "train.lr": "1:2",
    }
    assert argv == ["--seed", "3"]
    with pytest.raises(ConfigError, match="--sweep.train.lr: expected one argument"):
        flags.take_prefixed(["--sweep.train.lr"], ranges.PREFIX)


@pytest.mark.parametrize("target", [*BUILT_IN, "CartPole-v1"])
def test_settings_ranges_and_rates_fit_their_env(target: str) -> None:
    scenes = (
        {"env": {"scenes": "generated:2"}} if target == "drive" else {}
    )  # the preset has thousands
    config = TrainConfig.of(target, **scenes)
    config.check()
    training = puffervec.envs.get(target).training if target in BUILT_IN else puffervec.Training()
    algorithm = algorithms.get(config.train.algorithm)
    assert list(ranges.build_space(config, {})) == list(
        dict.fromkeys([*ranges.DEFAULT_SPACE, *algorithm.search, *training.search])
    )
    assert set(training.rates.values()) <= set(env_spec(config).record_names)


def test_drives_further_rates_are_of_what_its_metrics_record() -> None:
    training = puffervec.envs.get("drive").training
    config = TrainConfig.of("drive", env={"metrics": 1, "scenes": "generated:2"})
    records = {record for of in training.more_rates.values() for record in of.split("/")}
    assert records <= set(env_spec(config).record_names) and not set(training.more_rates) & set(
        training.rates
    )


def test_a_setting_of_one_policy_is_searched() -> None:
    config = TrainConfig.of("probe", policies={"a": {"hidden": [3]}})
    given = {"policies.a.lr": "1e-4:1e-2:log", "policies.a.hidden": "4,4/8"}
    assert list(ranges.build_space(config, given)) == list(given)
    found = ranges.with_values(config, {"policies.a.lr": 1e-3, "policies.a.hidden": "4,4"})
    assert found.policies == {"a": {"hidden": [4, 4], "lr": 1e-3}}
    with pytest.raises(ConfigError, match="unknown setting lrr: did you mean lr"):
        ranges.build_space(config, {"policies.a.lrr": "1:2"})
