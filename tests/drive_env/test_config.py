# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Settings: bounds and help."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import json
import re
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

from drive_env import config as module
from drive_env.config import CHOICES, PLAYERS, DriveConfig
from drive_env.env import DRIVER_NAME, ENV, PRESET, REWARDS, TRAINED
from drive_env.evaluate.baselines import BASELINES, baseline
from puffervec.contract.native import c_fields, pack_config
from puffervec.errors import ConfigError
from puffervec.train.config.flags import apply_flags, build_config
from puffervec.train.config.ranges import build_space, with_values
from puffervec.train.config.sections import TrainConfig
from puffervec.train.config.tables import replace_from_table


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("num_agents", 0, "num_agents is 0; it must be from 1 to 4096"),
        ("num_agents", 2.5, "num_agents is 2.5; it must be a whole number"),
        ("num_agents", True, "num_agents is True; it must be a number"),
        ("num_agents", float("inf"), "num_agents is inf; it must be from 1 to 4096"),
        ("num_agents", 10**400, "000; it must be from 1 to 4096"),
        ("partners", -2, "partners is -2; it must be from 0 to 64"),
        ("lanes", 65, "lanes is 65; it must be from 0 to 64"),
        ("range_m", float("nan"), "range_m is nan; it must be a number"),
        ("range_m", 0.5, "range_m is 0.5; it must be from 1 to 500"),
        ("simplify_m", 2.1, "simplify_m is 2.1; it must be from 0 to 2"),
        ("placement_seed", 2**31, "placement_seed is 2147483648; it must be from 0 to 2.147"),
        ("vehicles_per_km", 0.09, "vehicles_per_km is 0.09; it must be from 0.1 to 200"),
        ("vehicles_per_km", 201.0, "vehicles_per_km is 201.0; it must be from 0.1 to 200"),
        ("window_s", 1001.0, "window_s is 1001.0; it must be from 0 to 1000"),
        ("window_s", 0.15, "it must be 0 (scenes are driven whole) or at least 0.2"),
        ("raster", 15, "raster is 15; it must be 0 (none) or at least 16"),
        ("raster_alone", 1, "raster_alone is 1, but raster is 0"),
        ("raster_channels", "traffic", "raster_channels is traffic, but raster is 0"),
        ("goal_behavior", 2, "goal_behavior is 2; it must be one of drive_on, remove"),
        ("goal_behavior", -1, "goal_behavior is -1; it must be one of drive_on, remove"),
        ("control_ids", (2**31,), "it must be a list of whole numbers"),
        ("control_ids", (-(2**31) - 1,), "it must be a list of whole numbers"),
        ("control_ids", "12", "it must be a list of whole numbers"),
        ("split", "half", "split is 'half'; it must be one of all, train, validation, test"),
        ("scenes", 3, "scenes is 3; it must be "),
        ("control", 2, "control is 2; it must be one of moving, valid, all, predict, sdc, ids"),
        ("control", True, "control is True; it must be one of moving, valid"),
        ("control", "movin", "control is 'movin'; it must be one of moving, valid"),
        ("reward_goal", "1", "reward_goal is '1'; it must be a number"),
        (
            "scenes",
            "generated=0",
            "the weight of generated is 0; it must be above 0, or leave the set out",
        ),
        (
            "scenes",
            "",
            'scenes is \'\'; it must be "generated", "generated:N" (N from 1 to 99999), '
            '"held-out", the same with ',
        ),
    ],
)
def test_values_out_of_bounds_are_named(name: str, value: Any, text: str) -> None:
    with pytest.raises(ConfigError, match="drive: ") as caught:
        DriveConfig(**{name: value})
    assert text in str(caught.value)


def test_bounds_include_their_ends() -> None:
    for name, (low, high) in module._BOUNDS.items():
        for value in (low, high):
            assert getattr(DriveConfig(**{"raster": 64, name: value}), name) == value


def test_what_is_just_allowed_is_taken() -> None:
    ids = (2**31 - 1, -(2**31), 5, 5)
    assert DriveConfig(control_ids=ids).control_ids == (-(2**31), 5, 2**31 - 1)
    shares = DriveConfig(traffic_idm=0.5, traffic_log=0.5, window_s=0.2, raster=16)
    assert (shares.traffic_idm, shares.window_s, shares.raster) == (0.5, 0.2, 16)
    old = DriveConfig(control=0, goal_behavior=0)  # as runs from before the names say it
    assert (old.control, old.goal_behavior) == ("moving", "drive_on")
    far = DriveConfig(observation="far")
    assert (far.segments, DriveConfig().segments) == ("spread", "nearest")


def test_defaults_of_rewards_are_those_of_the_page() -> None:
    page = (Path(__file__).parents[2] / "docs" / "drive.md").read_text()
    listed = re.findall(r"^\| `(reward_\w+)` \| (-?[0-9.]+) \|", page, re.MULTILINE)
    rewards = {item.name for item in dataclasses.fields(DriveConfig)} - {"reward_ranges"}
    assert {name for name, _ in listed} == {n for n in rewards if n.startswith("reward_")}
    assert {name: getattr(DriveConfig(), name) for name, _ in listed} == {
        name: float(value) for name, value in listed
    }


def test_the_preset_is_what_the_driver_that_comes_with_the_env_was_trained_with() -> None:
    """Its record is older than the code: other values would make another driver. It had half an
    hour instead of seven minutes.
    """
    kept = json.loads((TRAINED / DRIVER_NAME / "manifest.json").read_text())["config"]
    now = json.loads(json.dumps(TrainConfig.of("drive").tables()))
    assert len(kept["env"]) > 80 and {name: now["env"][name] for name in kept["env"]} == kept["env"]
    for section, values in PRESET.items():
        for name in values:
            if (section, name) not in (("train", "time_limit_s"), ("train", "total_timesteps")):
                assert now[section][name] == kept[section][name], name


def test_paths_that_exist_are_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever they are called; but a name of generated scenes is never one."""
    for name in ("a=2", "b", "generated"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path)
    assert module.sets_of("a=2,b=3,c=.5") == [("a=2", None), ("b", 3.0), ("c", 0.5)]
    assert module.sets_of("a=2") == [("a=2", None)]
    scenes = DriveConfig(scenes="a=2,b=3,generated:5=2,generated").scenes
    assert scenes == f"{tmp_path}/a=2,{tmp_path}/b=3,generated:5=2,generated"


def test_every_field_has_bounds_and_a_sentence_of_help() -> None:
    fields = {item.name for item in dataclasses.fields(DriveConfig)}
    assert set(module._BOUNDS) | set(CHOICES) == fields - {
        "scenes",
        "split",
        "traffic_kinds",
        "reward_ranges",
        "control_ids",
        "action_values",
        "rules",
    }
    body = next(
        node for node in ast.parse(inspect.getsource(module)).body if isinstance(node, ast.ClassDef)
    ).body
    described = {
        node.target.id
        for node, after in zip(body, body[1:], strict=False)
        if isinstance(node, ast.AnnAssign)
        and isinstance(node.target, ast.Name)
        and isinstance(after, ast.Expr)
        and isinstance(after.value, ast.Constant)
        and str(after.value.value).strip().endswith(".")
    }
    assert described == fields


@pytest.mark.parametrize("setting", list(CHOICES))
def test_a_name_is_its_place_in_c(setting: str) -> None:
    at = 4 * [item.name for item in c_fields(DriveConfig)].index(setting)
    for number, name in enumerate(CHOICES[setting]):
        given = {
            "actions": "continuous",
            "raster": 16,
            setting: name,
        }  # what all models of dynamics take, and a view
        blob = pack_config(DriveConfig(**given))
        assert int.from_bytes(blob[at : at + 4], "little") == number


def test_names_are_taken_wherever_settings_are() -> None:
    config = TrainConfig.bare("drive")
    assert config.env.control == "moving"
    for given in (1, "valid"):  # 1: as runs from before the names say it
        assert config.merged({"env": {"control": given}}).env.control == "valid"
        assert build_config(config, ["--env.control", str(given)]).env.control == "valid"
        assert ENV.configure({"control": given}).control == "valid"
    kept = build_config(config, ["--env.control", "valid"]).tables()
    assert (
        kept["env"]["control"] == "valid"
        and TrainConfig.bare("drive").merged(kept).env.control == "valid"
    )
    space = build_space(config, {"env.control": "moving/valid"}, ["env.control"])
    assert with_values(config, {"env.control": "valid"}).env.control == "valid" and space
    for refused in (lambda: config.merged({"env": {"control": "x"}}),
                    lambda: ENV.configure({"control": "x"}),
                    lambda: build_config(config, ["--env.control", "x"])):  # fmt: skip
        with pytest.raises(ConfigError, match="control.*moving.*valid"):
            refused()


def test_a_table_that_chooses_another_preset_gets_all_of_it() -> None:
    """Of a config that has already taken its values from one, as those of a run have."""
    driver = {
        "route": 8,
        "controls": 4,
        "partner_types": 1,
        "observe_motion": 1,
        "max_lateral_mps2": 4.0,
    }
    preset = TrainConfig.of("drive").env
    assert {name: getattr(preset, name) for name in driver} == driver
    given = {"observation": "pufferdrive", "dynamics": "classic_pufferdrive", "lines": 3}
    config = TrainConfig.of("drive", env=given).env
    assert config == DriveConfig(
        **{**{name: getattr(config, name) for name in ("scenes", *REWARDS)}, **given}
    )
    assert (config.partners, config.lanes, config.lines, config.roads, config.max_lateral_mps2) == (
        63,
        0,
        3,
        200,
        0.0,
    )
    flags = [
        "--env.observation",
        "pufferdrive",
        "--env.dynamics",
        "classic_pufferdrive",
        "--env.lines",
        "3",
    ]
    assert build_config(TrainConfig.of("drive"), flags).env == config
    far = replace_from_table(DriveConfig(observation="far"), {"observation": "compact"}, "env")
    assert far == DriveConfig()


def test_a_flag_may_choose_a_model_that_refuses_the_limits_of_the_one_before() -> None:
    """Flags are read over what was given, not over what the preset's model made of it."""
    posed = apply_flags(TrainConfig.of("drive"), ["--env.dynamics", "delta_local"]).env
    assert (posed.dynamics, posed.max_lateral_mps2, posed.max_steering_rate_radps) == (
        "delta_local",
        0.0,
        0.0,
    )
    with pytest.raises(
        ConfigError, match="max_lateral_mps2 is 3.0, but dynamics=delta_local sets poses"
    ):
        apply_flags(
            TrainConfig.of("drive"),
            ["--env.dynamics", "delta_local", "--env.max-lateral-mps2", "3"],
        )


@pytest.mark.parametrize("setting", list(CHOICES))
def test_types_of_settings_name_the_choices_of_the_core(setting: str) -> None:
    numbers = range(module.NUMBERED.get(setting, 0))
    assert get_args(get_type_hints(DriveConfig)[setting]) == (*CHOICES[setting], *numbers)


@pytest.mark.parametrize("other", ["idm_agents", "expert_actions"])
def test_one_thing_alone_drives_the_agents(other: str) -> None:
    with pytest.raises(
        ConfigError,
        match=f"drive: replay_log and {other} are 1, but each drives .* set only one of them",
    ):
        DriveConfig(replay_log=1, **{other: 1})


@pytest.mark.parametrize("name", list(BASELINES))
def test_a_baseline_drives_whatever_drove_in_the_run(name: str) -> None:
    """Its overrides switch off what drove the agents, and leave at most its own player."""
    overrides = getattr(baseline(name), "overrides", {})
    own = {player: overrides.get(player, 0) for player in PLAYERS}
    assert sum(own.values()) <= 1
    for player in PLAYERS:
        config = dataclasses.replace(DriveConfig(**{player: 1}), **overrides)
        assert {player: getattr(config, player) for player in PLAYERS} == own
