# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Rules of other benchmarks: what they set, what wins over them, and what they count
(drive_env/rules.py, drive_env/evaluate/nuplan.py).
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from drive_env.config import DriveConfig
from drive_env.env import ENV
from drive_env.evaluate import nuplan
from drive_env.evaluate.evaluate import evaluate
from drive_env.rules import RULES, remarks_on_rules
from puffervec.errors import ConfigError
from puffervec.train.config.flags import build_config
from puffervec.train.config.sections import TrainConfig
from puffervec.train.config.tables import replace_from_table
from tests.drive_env.worlds import Straight

MakeTree = Callable[..., dict[str, Any]]
BENCHMARKS = [name for name in RULES if name != "none"]


@pytest.mark.parametrize("rules", BENCHMARKS)
def test_rules_are_set_wherever_settings_are(rules: str) -> None:
    """In Python, on the command line over the preset's values, and over those of a trained run."""
    configs = [
        ENV.configure({"rules": rules}),
        build_config(TrainConfig.of("drive"), ["--env.rules", rules]).env,
        replace_from_table(TrainConfig.of("drive").env, {"rules": rules}, "env"),
    ]
    for config in configs:
        assert {name: getattr(config, name) for name in RULES[rules]} == RULES[rules]
        assert remarks_on_rules(config) == [f"counted by the rules of {rules}"]


@pytest.mark.parametrize("rules", BENCHMARKS)
def test_settings_given_with_rules_win(rules: str) -> None:
    given = {"rules": rules, "goal_radius_m": 7.0, "dynamics": "car"}
    flags = ["--env.rules", rules, "--env.goal-radius-m", "7", "--env.dynamics", "car"]
    for config in (ENV.configure(given), build_config(TrainConfig.of("drive"), flags).env):
        assert (config.goal_radius_m, config.dynamics) == (7.0, "car")
        assert config.box_scale == RULES[rules]["box_scale"]
        (remark,) = remarks_on_rules(config)
        assert remark.startswith(f"counted by the rules of {rules}, but with ")
        assert "goal_radius_m=7.0" in remark and "dynamics=car" in remark


def test_a_saved_config_keeps_what_was_set_by_hand() -> None:
    config = build_config(
        TrainConfig.of("drive"), ["--env.rules", "pufferdrive", "--env.max-steps", "55"]
    )
    assert TrainConfig.of("drive").merged(config.tables()).env == config.env


def test_no_rules_set_nothing() -> None:
    assert remarks_on_rules(DriveConfig()) == []
    assert ENV.configure({"rules": "none"}) == DriveConfig()


@pytest.mark.parametrize("value", ["waymax", 3, ["nuplan"]])
def test_unknown_rules_are_refused(value: Any) -> None:
    with pytest.raises(
        ConfigError, match="rules is .*; it must be one of none, gpudrive, pufferdrive, nuplan"
    ):
        ENV.configure({"rules": value})


@pytest.mark.parametrize(("aside_m", "touched"), [(1.0, {1.0, 0.7}), (1.6, {1.0}), (2.2, set())])
def test_boxes_touch_with_a_share_of_their_size(
    tiny_tree: MakeTree, tmp_path: Path, cache: Path, aside_m: float, touched: set[float]
) -> None:
    """A car drives past a standing one whose centre is this far beside its path; both are 2 m
    wide, so boxes of 0.7 touch up to 1.4 m.
    """
    tree = tiny_tree(frames=40, cars=2)
    y = tree["objects"][0]["position"][0]["y"] + aside_m
    standing = tree["objects"][1]
    standing["position"] = [{"x": 15.0, "y": y, "z": 0.0}] * 40
    standing["goalPosition"] = {"x": 15.0, "y": y, "z": 0.0}
    tree["roads"] = [road for road in tree["roads"] if road["type"] == "lane"]
    (tmp_path / "one.json").write_text(json.dumps(tree))
    for scale in (1.0, 0.7):
        config = DriveConfig(scenes=str(tmp_path / "one.json"), box_scale=scale)
        assert evaluate(Straight(), config).total.counts["collision"] == (scale in touched)


@pytest.mark.parametrize(("aside_m", "touched"), [(0.5, {1.0, 0.7}), (0.85, {1.0}), (1.2, set())])
def test_road_edges_touch_the_same_boxes(
    tiny_tree: MakeTree, tmp_path: Path, cache: Path, aside_m: float, touched: set[float]
) -> None:
    """A car drives along an edge that begins ahead of it, this far beside its path."""
    tree = tiny_tree(frames=40, cars=1)
    y = tree["objects"][0]["position"][0]["y"] + aside_m
    lanes = [road for road in tree["roads"] if road["type"] == "lane"]
    edge = {
        "type": "road_edge",
        "map_element_id": 15,
        "id": 99,
        "geometry": [{"x": x, "y": y, "z": 0.0} for x in (10.0, 100.0)],
    }
    (tmp_path / "one.json").write_text(json.dumps({**tree, "roads": [*lanes, edge]}))
    for scale in (1.0, 0.7):
        config = DriveConfig(scenes=str(tmp_path / "one.json"), box_scale=scale)
        assert evaluate(Straight(), config).total.counts["offroad"] == (scale in touched)


CLEAN = {
    "wrong_way": 0.0,
    "most_over_limit": 0.0,
    "speeding_steps": 0,
    "judged_steps": 80,
    "faults": 0,
    "departures": 0,
    "short_ttc_steps": 0,
    "comfortable_spans": 16,
    "spans": 16,
}


@pytest.mark.parametrize(
    ("change", "progress", "score"),
    [
        ({}, 1.0, 1.0),
        ({}, 0.6, (5 * 0.6 + 5 + 4 + 2) / 16),
        ({}, 0.19, 0.0),
        ({"faults": 1}, 1.0, 0.0),
        ({"departures": 2}, 1.0, 0.0),
        ({}, 0.2, (5 * 0.2 + 5 + 4 + 2) / 16),
        ({"wrong_way": 2.0}, 1.0, 1.0),
        ({"wrong_way": 2.1}, 1.0, 0.5),
        ({"wrong_way": 6.0}, 1.0, 0.5),
        ({"wrong_way": 6.1}, 1.0, 0.0),
        ({"short_ttc_steps": 3}, 1.0, 11 / 16),
        ({"comfortable_spans": 15}, 1.0, 14 / 16),
        # 40 of 80 steps at 2.23 m/s above the limit: half of what the score allows
        ({"speeding_steps": 40, "most_over_limit": 2.23}, 1.0, (5 + 5 + 2 + 2) / 16),
        ({"speeding_steps": 80, "most_over_limit": 9.0}, 1.0, 12 / 16),
    ],
)
def test_nuplan_scores_follow_its_formula(
    change: dict[str, Any], progress: float, score: float
) -> None:
    assert nuplan.metrics_of(CLEAN | change, progress)[nuplan.SCORE] == pytest.approx(score)


def test_nuplan_scores_are_tabulated(tiny_tree: MakeTree, tmp_path: Path, cache: Path) -> None:
    """A clean drive, and one into a standing car; a scene with two agents has no score."""
    folder = tmp_path / "scenes"
    folder.mkdir()
    trees = {"clean": tiny_tree(frames=40, cars=1), "hit": tiny_tree(frames=40, cars=2)}
    standing = trees["hit"]["objects"][1]
    standing["position"] = [{"x": 15.0, "y": -1.75, "z": 0.0}] * 40
    standing["goalPosition"] = {"x": 15.0, "y": -1.75, "z": 0.0}
    for name, tree in trees.items():
        (folder / f"{name}.json").write_text(json.dumps(tree))
    config = ENV.configure({"rules": "nuplan", "control": "moving", "scenes": str(folder)})
    report = evaluate(Straight(), config).report()
    values = {row["metric"]: row["mean"] for row in report.tables["nuplan"]}
    assert values["nuplan_score"].value == 0.5 and values["drivable_area"].value == 1.0
    assert values["no_at_fault_collision"].value == 0.5
    assert any("rules of nuplan, but with control=moving" in text for text in report.remarks)

    others = dataclasses.replace(config, rules="none")
    assert report.tables["nuplan"] and not evaluate(Straight(), others).report().tables["nuplan"]
