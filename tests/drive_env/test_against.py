# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The suite `traffic` counts the cars of the policy, against each kind of traffic and others."""

from __future__ import annotations

import dataclasses
import doctest
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drive_env.config import DriveConfig
from drive_env.evaluate import against as module
from drive_env.evaluate.against import RATES, report_of, row_of, traffics
from drive_env.evaluate.baselines import baseline
from drive_env.evaluate.evaluate import SUITES, evaluate, held_out, same_task
from drive_env.kinds import kinds
from drive_env.prepare import prepare_scenes
from puffervec.contract.evaluation import Interval, Report
from puffervec.errors import ConfigError
from tests.drive_env.worlds import Straight


@pytest.fixture
def folder(tiny_tree: Callable[..., dict[str, Any]], tmp_path: Path, cache: Path) -> Path:
    """Two scenes of two cars, of which the first is the self-driving one; all goals lie ahead."""
    path = tmp_path / "scenes"
    path.mkdir()
    for name in "ab":
        tree = tiny_tree(frames=40, cars=2)
        tree["metadata"]["sdc_track_index"] = 0
        (path / f"{name}.json").write_text(json.dumps(tree))
    return path


def report(folder: Path, driver: Any, **how: Any) -> Report:
    suite = SUITES["traffic"]
    assert suite.settings is not None and suite.options == ("against",)
    return suite.evaluate(driver, suite.settings(DriveConfig(scenes=str(folder))), **how)


@pytest.mark.slow
def test_rates_are_those_of_separate_evaluations(folder: Path) -> None:
    found = {row["traffic"]: row for row in report(folder, baseline("random", 3)).rows}
    assert list(found) == ["log", *kinds()]
    drivers = baseline("random", 3)
    for name, settings in traffics().items():
        config = DriveConfig(scenes=str(folder), control="sdc", **settings)
        expected = evaluate(drivers, config).total.row()
        assert found[name]["agents"] == expected["agents"] == 2
        for rate in RATES:
            one, other = found[name][rate], expected[rate]
            assert isinstance(one, Interval) and isinstance(other, Interval)
            assert dataclasses.astuple(one) == pytest.approx(dataclasses.astuple(other)), rate


def test_another_driver_has_all_cars_but_the_self_driving_one(folder: Path) -> None:
    """`stop` brakes; straight on lies each car's goal."""
    for driver, other, goal in (
        (Straight(), baseline("stop"), 1.0),
        (baseline("stop"), Straight(), 0.0),
    ):
        found = report(folder, driver, against={"other": other})
        row = found.rows[-1]
        assert row["traffic"] == "other" and row["agents"] == 2
        assert isinstance(row["goal"], Interval) and row["goal"].value == goal
        assert found.total is not None and found.total["agents"] == 2 * len(found.rows)
        assert len(found.tables["agents"]) == 2 * len(found.rows)


def test_another_driver_must_act_in_the_same_env(folder: Path) -> None:
    with pytest.raises(ConfigError, match="--against: log needs the setting replay_log=1, but"):
        report(folder, Straight(), against={"log": baseline("log")})
    with pytest.raises(ConfigError, match="--against: the driver needs the setting idm_agents=1"):
        report(folder, baseline("idm"), against={"other": Straight()})


def agent(scene: str, **cells: Any) -> dict[str, Any]:
    steps = dict.fromkeys(("goal_step", "contact_step", "departure_step"))
    return {"scene": scene, "seed": 0, "why": "", "starts_at_goal": 0, **steps, **cells}


def test_rates_of_agents() -> None:
    """One arrives; one arrives and then touches something; one leaves the road first."""
    agents = [
        agent("a", goal_step=9),
        agent("b", goal_step=9, contact_step=10, why="collision (at fault)"),
        agent("c", goal_step=9, departure_step=9),
        agent("c", contact_step=3, why="collision, no goal"),
    ]
    row = row_of("some", agents)
    shares = {name: row[name].value for name in RATES}  # type: ignore[union-attr]
    assert shares == {
        "score": 0.5,
        "goal": 0.75,
        "collision": 0.5,
        "at_fault": 0.25,
        "offroad": 0.25,
    }
    assert row_of("none", []) == {"traffic": "none", "agents": 0, **dict.fromkeys(RATES)}
    assert doctest.testmod(module).failed == 0


def test_remarks_name_the_traffic_that_they_are_about() -> None:
    found = report_of(
        {"log": [agent("a")], "late": [agent("a", goal_step=3)]},
        {"log": ("both", "own"), "late": ("both",)},
    )
    assert [line for line in found.remarks if "both" in line or "own" in line] == [
        "both",
        "log: own",
    ]
    assert found.names() == ["log", "late"] and found.worst(1) == ["log"]


def test_evaluations_have_plain_drivers_unless_the_user_names_others() -> None:
    trained = DriveConfig(traffic_idm=0.5, traffic_kinds="hasty")
    assert held_out(trained).traffic_kinds == ""
    named = dataclasses.replace(held_out(trained), traffic_kinds="late")
    assert same_task(named, trained).traffic_kinds == "late"


def test_rows_of_both_are_found_in_each_env(folder: Path) -> None:
    class Constant:
        def __init__(self, value: int) -> None:
            self.value = value

        def reset(self, vec: Any) -> None:
            pass

        def act(self, obs: Any, vec: Any) -> np.ndarray:
            return np.full(len(obs), self.value, np.int32)

    class Checked(module.Against):
        def act(self, obs: Any, vec: Any) -> np.ndarray:
            actions = super().act(obs, vec)
            mine = np.concatenate([vec.peek(env)["object"] == 0 for env in range(vec.num_envs)])
            assert (actions == np.where(mine, 45, 6)).all() and mine.sum() == vec.num_envs
            return actions

    config = DriveConfig(scenes=str(folder))
    actor = Checked(Constant(45), Constant(6), prepare_scenes(config).scenes)
    assert evaluate(actor, config).total.agents == 4
