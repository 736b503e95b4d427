# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Evaluations count what the records say, run every scene as often as asked, and draw."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drive_env.config import HELD_OUT_SCENES, DriveConfig
from drive_env.evaluate import evaluate as module
from drive_env.evaluate.baselines import action_of, baseline
from drive_env.evaluate.evaluate import (
    EVALUATION,
    RATES,
    SUITES,
    draw,
    evaluate,
    held_out,
    summarise,
)
from drive_env.evaluate.intervals import cluster_interval, wilson
from puffervec.errors import ConfigError, SceneError

MakeTree = Callable[..., dict[str, Any]]


class Straight:
    """Drives straight on at the speed it has."""

    def reset(self, vec: Any) -> None:
        self.resets = getattr(self, "resets", 0) + 1

    def act(self, obs: Any, vec: Any) -> np.ndarray:
        return np.full(
            len(obs), action_of(np.zeros(1, np.float32), np.zeros(1, np.float32))[0], np.int32
        )


@pytest.fixture
def folder(tiny_tree: MakeTree, tmp_path: Path, cache: Path) -> Path:
    """Scenes with a known outcome for `Straight`.

    a: two cars reach their goals. b: one reaches its goal, one's goal is on the other lane. c: a
    standing car is in the way of one. d: nobody to control. e: one car drives into the edge.
    """
    path = tmp_path / "scenes"
    path.mkdir()
    trees = {name: tiny_tree(frames=40, cars=2) for name in "abc"}
    trees["b"]["objects"][1]["goalPosition"]["y"] = -1.75
    standing = trees["c"]["objects"][1]
    standing["position"] = [{"x": 15.0, "y": -1.75, "z": 0.0}] * 40
    standing["goalPosition"] = {"x": 15.0, "y": -1.75, "z": 0.0}
    trees["d"] = tiny_tree(speed_mps=0.0)
    trees["e"] = tiny_tree(frames=40, cars=1)
    trees["e"]["objects"][0]["heading"] = [-0.5] * 40
    for name, tree in trees.items():
        (path / f"{name}.json").write_text(json.dumps(tree))
    return path


def test_known_outcomes(folder: Path) -> None:
    result = evaluate(Straight(), DriveConfig(scenes=str(folder)))
    found = {
        scene.name: (scene.agents, *(scene.counts[rate] for rate in RATES))
        for scene in result.scenes
    }
    assert found == {  # agents, score, goal, collision, off-road
        "a.json": (2, 2, 2, 0, 0),
        "b.json": (2, 1, 1, 0, 0),
        "c.json": (1, 0, 1, 1, 0),
        "d.json": (0, 0, 0, 0, 0),
        "e.json": (1, 0, 0, 0, 1),
    }
    total = result.total
    assert (total.agents, total.episodes, total.counts["score"]) == (6, 4, 3)
    assert result.scenes[0].mean_return == pytest.approx(1.0)  # shaping is off
    assert result.scenes[2].mean_return == pytest.approx(0.5)
    assert result.scenes[4].mean_return == pytest.approx(-0.5)
    assert result.scenes[1].mean_length == 39 and result.scenes[0].mean_length < 39
    assert total.intervals["score"] == cluster_interval(
        np.array([2.0, 1, 0, 0, 0]), np.array([2.0, 2, 1, 0, 1])
    )


def test_every_scene_runs_as_often_as_asked(folder: Path) -> None:
    config = DriveConfig(scenes=str(folder))
    once = evaluate(baseline("random"), config)
    thrice = evaluate(baseline("random"), config, episodes=3)
    assert [scene.episodes for scene in thrice.scenes] == [3, 3, 3, 0, 3]
    assert thrice.total.agents == 3 * once.total.agents
    assert not any("the same one" in remark for remark in thrice.remarks)


@pytest.mark.parametrize("how", [{"episodes": 3}, {"seeds": 2}, {"episodes": 3, "seeds": 2}])
def test_episodes_that_repeat_each_other_count_once(folder: Path, how: dict[str, int]) -> None:
    config = DriveConfig(scenes=str(folder))
    once, often = evaluate(Straight(), config), evaluate(Straight(), config, **how)
    found = [outcome.report().to_json() for outcome in (once, often)]
    assert {**found[0], "remarks": []} == {**found[1], "remarks": []}
    assert often.total.agents == 6
    count = how.get("episodes", 1) * how.get("seeds", 1)
    said = f"all {count} episodes of each scene are equal, so one of each is counted"
    assert often.remarks[0].startswith(said) and not any("same" in text for text in once.remarks)


def test_intervals_of_a_scene_are_of_its_distinct_episodes() -> None:
    """Ten times the same episode of one scene, and ten different ones of another."""
    columns = ("agents", "goals", "collisions", "offroads", "score")
    alike = [(9, 0.5, np.array([2.0, 1, 0, 0, 1])) for _ in range(10)]
    apart = [(number, 0.5, np.array([2.0, 1, 0, 0, 1])) for number in range(10)]
    result = summarise(["alike", "apart"], {0: alike, 1: apart}, columns)
    assert [scene.agents for scene in result.scenes] == [20, 20]
    assert [scene.intervals["score"] for scene in result.scenes] == [wilson(1, 2), wilson(10, 20)]


def test_seeds_are_driven_one_after_another(folder: Path) -> None:
    config = DriveConfig(scenes=str(folder))
    once, twice = (evaluate(baseline("random"), config, seeds=seeds) for seeds in (1, 2))
    assert twice.total.agents == 2 * once.total.agents and [
        scene.episodes for scene in twice.scenes
    ] == [2, 2, 2, 0, 2]
    assert {(row["seed"], row["episode"]) for row in twice.agents} == {(0, 0), (1, 1)}
    drawn = evaluate(baseline("random"), config, seeds=2, episodes=2)
    assert drawn.total.agents == 4 * once.total.agents and not any(
        "same" in remark or "alike" in remark for remark in drawn.remarks
    )
    with pytest.raises(ConfigError, match="seeds is 0; it must be a whole number"):
        evaluate(Straight(), config, seeds=0)


def table(actor: Any, config: DriveConfig, **how: Any) -> dict[str, Any]:
    """The rates of all scenes, as JSON-like data."""
    return evaluate(actor, config, **how).report().to_json()


def test_batches_give_the_same(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = table(Straight(), DriveConfig(scenes=str(folder)))
    monkeypatch.setattr(module, "BATCH_ROWS", 6)
    actor = Straight()
    assert table(actor, DriveConfig(scenes=str(folder))) == whole
    assert actor.resets == 2  # three scenes of two rows, then one


def test_backends_agree(folder: Path) -> None:
    config = DriveConfig(scenes=str(folder))
    assert table(Straight(), config, backend="threading") == table(Straight(), config)


def test_shaping_does_not_matter(folder: Path) -> None:
    plain = table(Straight(), DriveConfig(scenes=str(folder), reward_progress=0.0, reward_step=0.0))
    shaped = table(
        Straight(),
        DriveConfig(scenes=str(folder), reward_progress=5.0, reward_step=-1.0, num_agents=64),
    )
    assert plain == shaped


def test_an_actor_may_ask_for_settings(folder: Path) -> None:
    class Logged(Straight):
        overrides = {"replay_log": 1}

    config = DriveConfig(scenes=str(folder))
    assert table(Logged(), config) == table(baseline("log"), config)


def test_the_report_lists_every_scene_and_a_total(folder: Path) -> None:
    (folder / "f.json").write_text("{")
    report = evaluate(Straight(), DriveConfig(scenes=str(folder))).report()
    assert report.names() == [f"{name}.json" for name in "abcde"]
    cells = report.cells()
    assert cells[0][:3] == ("scene", "agents", "score") and cells[-1][0] == "total of 4 scenes"
    assert cells[2][2] == "0.50 [0.09, 0.91]" and cells[4][1:3] == ("0", "-")
    assert any(remark.startswith("left out f.json: not JSON") for remark in report.remarks)
    assert report.worst(2) == ["c.json", "e.json"] and report.drawn == "a.json"
    assert "d.json" not in report.worst(9)  # nobody drives there


def test_suites_drive_other_cars_and_scenes(folder: Path) -> None:
    config = DriveConfig(scenes=str(folder), control="valid")
    found = {
        name: suite.settings(config) if suite.settings else config for name, suite in SUITES.items()
    }
    others = {name: own for name, own in found.items() if own.control != "valid"}
    assert {name: (own.control, own.others) for name, own in others.items()} == {
        "self-play": ("moving", "log"), "human-replay": ("sdc", "log"), "idm": ("sdc", "idm"),
        "traffic": ("sdc", "log"),
    }  # fmt: skip
    assert {name for name, own in found.items() if own.scenes != str(folder)} == {"generated"}
    assert found["generated"].scenes == HELD_OUT_SCENES
    for generated in ("held-out-streets", "generated:10"):
        own = dataclasses.replace(config, scenes=generated)
        assert SUITES["generated"].settings(own) == own  # type: ignore[misc]
        with pytest.raises(
            ConfigError,
            match=f"--suite real: the scenes '{generated}' are generated: use --scenes FOLDER",
        ):
            SUITES["real"].evaluate(Straight(), own)
    assert (
        SUITES["real"].evaluate(Straight(), config).names()
        == evaluate(Straight(), config).report().names()
    )


def test_no_records_no_rates() -> None:
    result = summarise(["x"], {}, ("agents", "goals", "collisions", "offroads", "score"))
    assert (
        result.total.agents == 0
        and math.isnan(result.total.rate("score"))
        and math.isnan(result.total.mean_return)
    )
    assert result.total.intervals["score"] == (0.0, 1.0)


@pytest.mark.parametrize("episodes", [0, -1, 1.5, True])
def test_bad_numbers_of_episodes(folder: Path, episodes: Any) -> None:
    with pytest.raises(
        ConfigError, match="episodes is .*; it must be a whole number of at least 1"
    ):
        evaluate(Straight(), DriveConfig(scenes=str(folder)), episodes=episodes)


@pytest.mark.slow
def test_drawing_a_scene(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("PIL", reason="Pillow is not installed")
    config = DriveConfig(scenes=str(folder))
    assert draw(tmp_path / "e.png", Straight(), config, scene="e.json") == "e.json"
    assert (tmp_path / "e.png").read_bytes().startswith(b"\x89PNG")
    assert draw(tmp_path / "most.png", Straight(), config) == "a.json"
    with pytest.raises(SceneError, match="there is no scene 'z.json'; there are 0 to 4: a.json"):
        draw(tmp_path / "z.png", Straight(), config, scene="z.json")
    with pytest.raises(SceneError, match="d.json has no agent"):
        draw(tmp_path / "d.png", Straight(), config, scene=3)
    assert not (tmp_path / "z.png").exists()


@pytest.mark.parametrize("control", ["moving", "valid"])
def test_parked_cars_are_never_successes(folder: Path, control: str) -> None:
    """A car whose goal lies within the goal radius of its start is no agent: it would count without
    having driven.
    """
    near = dataclasses.replace(DriveConfig(scenes=str(folder)), control=control, goal_radius_m=2.0)
    stopped = evaluate(baseline("stop"), near)
    assert {scene.name: scene.agents for scene in stopped.scenes} == dict(
        zip((f"{name}.json" for name in "abcde"), (2, 2, 1, 0, 1), strict=True)
    )
    assert stopped.total.counts["goal"] == stopped.total.counts["score"] == 0
    wide = evaluate(
        baseline("stop"), dataclasses.replace(near, goal_radius_m=19.6)
    )  # the cars' goals are 19.5 m ahead
    assert wide.total.agents == 1  # the one whose goal lies across


def test_runs_on_generated_scenes_are_evaluated_on_others(folder: Path) -> None:
    assert (
        held_out(DriveConfig(scenes="generated:5")).scenes
        == held_out(DriveConfig()).scenes
        == "held-out"
    )
    assert held_out(DriveConfig(scenes=str(folder))).scenes == str(folder)


def test_a_run_is_evaluated_on_scenes_that_it_has_not_seen(tmp_path: Path) -> None:
    tmp_path.joinpath("a.json").touch()
    for scenes, split, expected in (
        ("generated:50", "train", ("held-out", "all")),
        ("generated:50=2,generated", "all", ("held-out", "all")),
        (str(tmp_path), "train", (str(tmp_path), "validation")),
        (f"{tmp_path}=1,generated=3", "train", (str(tmp_path), "validation")),
        (f"{tmp_path},streets:9", "all", ("held-out-streets", "all")),
        (f"{tmp_path},streets:9", "test", (f"{tmp_path},streets:9", "test")),
        (str(tmp_path), "all", (str(tmp_path), "all")),
    ):
        found = held_out(DriveConfig(scenes=scenes, split=split))  # type: ignore[arg-type]
        assert (found.scenes, found.split) == expected


def test_an_evaluation_says_which_part_of_the_scenes_it_drives(folder: Path) -> None:
    said = "only the scenes of the split train are driven; --env.split all drives all scenes"
    assert said in evaluate(Straight(), DriveConfig(scenes=str(folder), split="train")).remarks
    assert not any(
        "split" in line for line in evaluate(Straight(), DriveConfig(scenes=str(folder))).remarks
    )


def test_files_have_every_reason(folder: Path) -> None:
    """Remarks name the first few files."""
    for number in range(9):
        (folder / f"z{number}.json").write_text("{")
    report = evaluate(Straight(), DriveConfig(scenes=str(folder))).report()
    found = report.to_json()["tables"]["left_out"]
    assert [Path(row["file"]).name for row in found] == [f"z{number}.json" for number in range(9)]
    assert all("not JSON" in row["reason"] for row in found) and "left_out" in report.unprinted
    assert any(remark.startswith("left out 4 more files") for remark in report.remarks)


def test_scenes_that_nobody_is_evaluated_in_are_told(folder: Path) -> None:
    (said,) = [
        line
        for line in evaluate(Straight(), DriveConfig(scenes=str(folder))).remarks
        if "NOT DRIVEN" in line
    ]
    assert "1 of the 5 scenes have no agent to evaluate (with control=moving): d.json" in said
    for name in "bcde":
        tree = json.loads((folder / f"{name}.json").read_text())
        tree["metadata"]["sdc_track_index"] = -1
        (folder / f"{name}.json").write_text(json.dumps(tree))
    marked = evaluate(Straight(), DriveConfig(scenes=str(folder), control="sdc"))
    (said,) = [line for line in marked.remarks if "NOT DRIVEN" in line]
    assert (
        "4 of the 5 scenes" in said
        and "no self-driving car is marked in them): b.json, c.json, d.json, ..." in said
    )
    assert marked.total.agents == 1


def test_evaluations_on_what_was_trained_on_are_marked(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    own, others = DriveConfig(scenes=str(folder)), DriveConfig(scenes=str(tmp_path / "other"))
    seen = EVALUATION.seen
    assert (
        seen is not None
        and "TRAINED ON THESE" in seen(own, held_out(own))
        and seen(own, others) == ""
    )
    train, validation = (dataclasses.replace(own, split=split) for split in ("train", "validation"))
    assert (
        seen(train, held_out(train)) == ""
        and seen(train, train)
        and seen(train, own)
        and not seen(train, validation)
    )
    generated = DriveConfig(scenes="generated:50")
    assert seen(generated, held_out(generated)) == "" and seen(
        generated, DriveConfig(scenes="generated:7")
    )


def test_objects_without_ids_are_named_by_their_place(folder: Path) -> None:
    tree = json.loads((folder / "c.json").read_text())
    for item in tree["objects"]:
        item.pop("id", None)
    (folder / "c.json").write_text(json.dumps(tree))
    found = evaluate(Straight(), DriveConfig(scenes=str(folder / "c.json"))).failures
    assert [(row["id"], row["other_id"]) for row in found] == [("#0", "#1")]
