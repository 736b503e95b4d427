# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""C envs as PettingZoo parallel envs: the library's own checks, and the rows of the core beneath
(puffervec/pettingzoo.py).
"""

from __future__ import annotations

import copy
import importlib
import importlib.util
import json
import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import puffervec
from puffervec.errors import ActionError, CallOrderError, ClosedError, ConfigError
from tests.drive_env.conftest import make_tree

adapter = pytest.importorskip("puffervec.pettingzoo", exc_type=ImportError)
parallel_env = adapter.parallel_env

TAG: dict[str, Any] = {"num_taggers": 3, "grid_length": 4, "episode_length": 25}
TWO_GROUPS: dict[str, Any] = {
    "mode": 1,
    "num_agents": 3,
    "leave": 1,
    "end_kind": 2,
    "episode_length": 5,
}


@pytest.fixture(scope="module")
def checks() -> Any:
    """PettingZoo's own checks, whose import of one of its games warns of its age."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return importlib.import_module("pettingzoo.test")


@pytest.fixture
def scenes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A folder with two scenes of three cars, of 12 and 20 frames, and a cache of its own."""
    monkeypatch.setenv("PUFFERVEC_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "scenes"
    folder.mkdir()
    for name, frames in (("a", 12), ("b", 20)):
        (folder / f"{name}.json").write_text(
            json.dumps({**make_tree(frames=frames, cars=3), "name": f"{name}.json"})
        )
    return str(folder)


@pytest.fixture(params=["tag", "tag partial", "probe", "two groups", "drive"])
def case(request: pytest.FixtureRequest, scenes: str) -> tuple[str, dict[str, Any]]:
    """An env and its settings; every agent slot is used."""
    return {
        "tag": ("tag_grid", TAG),
        "tag partial": ("tag_grid", {**TAG, "use_full_observation": False, "random_starts": True}),
        "probe": ("probe", {"num_agents": 3, "leave": 1, "end_kind": 1, "episode_length": 6}),
        "two groups": ("probe", TWO_GROUPS),
        "drive": ("drive", {"scenes": scenes, "num_agents": 6}),
    }[request.param]


def draw_actions(env: Any) -> dict[str, Any]:
    return {agent: env.action_space(agent).sample() for agent in env.agents}


def first_row(value: Any, row: int) -> Any:
    """One row of an array or of a dict of arrays."""
    return (
        {name: array[row] for name, array in value.items()}
        if isinstance(value, dict)
        else value[row]
    )


# ---- PettingZoo's own checks ---------------------------------------------------------------------


def test_it_is_a_parallel_env(case: tuple[str, dict[str, Any]], checks: Any) -> None:
    env = parallel_env(case[0], **case[1])
    assert isinstance(env, importlib.import_module("pettingzoo").ParallelEnv)
    checks.parallel_api_test(env, num_cycles=1000)
    env.close()


def test_it_is_the_same_for_the_same_seed(case: tuple[str, dict[str, Any]], checks: Any) -> None:
    checks.parallel_seed_test(lambda: parallel_env(case[0], **case[1]), num_cycles=500)


def test_it_turns_into_an_aec_env(checks: Any) -> None:
    env = importlib.import_module("pettingzoo.utils").parallel_to_aec(
        parallel_env("tag_grid", **TAG)
    )
    checks.api_test(env, num_cycles=100)


# ---- agents and spaces ---------------------------------------------------------------------------


def test_agents_are_called_after_their_type_or_group(scenes: str) -> None:
    assert parallel_env("tag_grid", num_taggers=2).possible_agents == [
        "tagger_0",
        "tagger_1",
        "runner_0",
    ]
    assert parallel_env("probe", mode=1, num_agents=2).possible_agents == [
        "scout_0",
        "scout_1",
        "tower_0",
    ]
    assert parallel_env("drive", scenes=scenes, num_agents=6).possible_agents == [
        f"agent_{i}" for i in range(6)
    ]


def test_every_agent_has_spaces_of_its_own() -> None:
    env = parallel_env("probe", **TWO_GROUPS)
    for agent in env.possible_agents:
        assert env.observation_space(agent) is env.observation_space(agent)
        assert env.action_space(agent) is env.action_space(agent)
    assert (
        len({id(env.action_space(agent)) for agent in env.possible_agents})
        == len(env.possible_agents)
        == env.max_num_agents
    )
    assert env.action_space("scout_0") != env.action_space("tower_0")
    with pytest.raises(ConfigError, match="'scout_9'.*'scout_0'"):
        env.observation_space("scout_9")


def test_rows_of_padding_are_no_agents(scenes: str) -> None:
    env = parallel_env("drive", scenes=scenes, num_agents=8)
    assert env.possible_agents == [f"agent_{i}" for i in range(8)]
    observations, infos = env.reset(seed=0)
    assert (
        env.agents == list(observations) == list(infos) == [f"agent_{i}" for i in range(6)]
        and env.num_agents == 6
    )
    seen: set[str] = set()
    while env.agents:
        seen |= set(env.step(draw_actions(env))[0])
    assert seen == {f"agent_{i}" for i in range(6)}


# ---- trajectories --------------------------------------------------------------------------------


def test_trajectories_are_the_rows_of_the_core(case: tuple[str, dict[str, Any]]) -> None:
    """Every number that an agent sees until its first done is the core's, with next-step autoreset
    there.
    """
    env = parallel_env(case[0], **case[1])
    with puffervec.make(case[0], env_kwargs=case[1], backend="serial", num_envs=1) as vec:
        for episode in range(3):
            observations, infos = env.reset(seed=11 + episode)
            vec.reset(seed=11 + episode)
            groups = vec.halves[0].groups
            seats = dict(
                zip(
                    env.possible_agents,
                    [(g, i) for g, rows in groups.items() for i in range(rows.rows)],
                    strict=True,
                )
            )
            living = list(env.agents)
            assert set(living) == {agent for agent, (g, i) in seats.items() if groups[g].masks[i]}
            while living:
                actions = draw_actions(env)
                for agent, (g, i) in seats.items():
                    groups[g].actions[i] = actions.get(agent, 0)
                vec.send(None)
                vec.recv()
                observations, rewards, terminations, truncations, infos = env.step(actions)
                shown = (observations, rewards, terminations, truncations, infos)
                assert all(list(part) == living for part in shown)
                for agent in living:
                    g, i = seats[agent]
                    rows = groups[g]
                    np.testing.assert_equal(observations[agent], first_row(rows.observations, i))
                    assert rewards[agent] == rows.rewards[i]
                    assert (terminations[agent], truncations[agent]) == (
                        rows.terminals[i],
                        rows.truncations[i],
                    )
                    if rows.action_masks is not None:
                        np.testing.assert_array_equal(
                            infos[agent]["action_mask"], rows.action_masks[i]
                        )
                living = [
                    agent for agent in living if not (terminations[agent] or truncations[agent])
                ]
                assert env.agents == living


def test_a_scene_that_ends_early_does_not_begin_again(scenes: str) -> None:
    """The scene of 12 frames is over long before the one of 20; its cars stay away."""
    env = parallel_env("drive", scenes=scenes, num_agents=6, control=1, goal_behavior="drive_on")
    env.reset(seed=0)
    counts = []
    while env.agents:
        env.step({agent: 0 for agent in env.agents})
        counts.append(env.num_agents)
    assert counts == sorted(counts, reverse=True) and set(counts) == {6, 3, 0}


def test_what_is_returned_is_a_copy() -> None:
    env = parallel_env("probe", **TWO_GROUPS)
    observations, infos = env.reset(seed=0)
    kept = json.dumps(
        [{k: str(v) for k, v in observations.items()}, {k: str(v) for k, v in infos.items()}]
    )
    env.step({agent: env.action_space(agent).sample() for agent in env.agents})
    env.step({agent: env.action_space(agent).sample() for agent in env.agents})
    assert kept == json.dumps(
        [{k: str(v) for k, v in observations.items()}, {k: str(v) for k, v in infos.items()}]
    )


def test_action_masks_are_such_as_sample_takes() -> None:
    env = parallel_env("probe", **TWO_GROUPS)
    _, infos = env.reset(seed=0)
    assert infos["scout_0"]["action_mask"].tolist() == [1, 1, 1] and infos["tower_0"] == {}
    infos = env.step(
        {
            agent: env.action_space(agent).sample(mask=None) if agent == "tower_0" else 1
            for agent in env.agents
        }
    )[4]
    assert infos["scout_0"]["action_mask"].tolist() == [1, 0, 1]
    assert {
        env.action_space("scout_0").sample(infos["scout_0"]["action_mask"]) for _ in range(50)
    } == {0, 2}


def test_records_of_the_core_are_at_hand() -> None:
    env = parallel_env("tag_grid", **TAG)
    env.reset(seed=0)
    total = 0.0
    while env.agents:
        assert len(env.episodes) == 0
        total += env.step(draw_actions(env))[1]["runner_0"]
    assert env.episodes["agent_type"].tolist() == [0, 1]
    assert env.episodes["return"][1] == pytest.approx(total, abs=1e-4)
    env.reset()
    assert len(env.episodes) == 0


# ---- seeds and options ---------------------------------------------------------------------------


def starts(env: Any, seed: int | None = None, **options: Any) -> bytes:
    observations, _ = env.reset(seed=seed, options=options or None)
    return b"".join(np.asarray(observations[agent]).tobytes() for agent in env.agents)


def test_seeds() -> None:
    settings: dict[str, Any] = {**TAG, "grid_length": 1000, "random_starts": True}
    env, other = parallel_env("tag_grid", **settings), parallel_env("tag_grid", **settings)
    assert starts(env) != starts(other), "without a seed, each env draws its own"
    first, second = starts(env, 5), starts(env)
    assert first != second, "without a seed, the next episode"
    assert (starts(other, 5), starts(other)) == (first, second)
    assert starts(other, 6) != first


def test_a_task_picks_the_start() -> None:
    layouts = {
        "starting_location_x": [[0, 0, 0, 4], [1, 1, 1, 3]],
        "starting_location_y": [[0, 0, 0, 4], [1, 1, 1, 3]],
    }
    env = parallel_env("tag_grid", **TAG, **layouts)
    assert [starts(env, 0, task=task) for task in (0, 1, 0)] == [
        starts(env, 9, task=task) for task in (0, 1, 0)
    ]
    assert starts(env, 0, task=0) != starts(env, 0, task=1)
    assert len({starts(env) for _ in range(20)}) == 2, "without a task the env draws again"


def test_a_task_picks_the_scene(scenes: str) -> None:
    env = parallel_env("drive", scenes=scenes, num_agents=6)
    for task in (0, 1):
        env.reset(seed=0, options={"task": task})
        assert env.agents == ["agent_0", "agent_1", "agent_2"]
        assert env.vec.peek(0)["slot_scene"][0] == task


# ---- refusals ------------------------------------------------------------------------------------


def test_bad_actions_step_nothing() -> None:
    env = parallel_env("tag_grid", **TAG)
    env.reset(seed=0)
    good = dict.fromkeys(env.agents, 1)
    before = env.state()
    for bad, words in (
        ({agent: 1 for agent in env.agents[1:]}, "'tagger_0'"),
        ({**good, "tagger_7": 1}, "'tagger_7'"),
        ({**good, "tagger_1": 5}, "out of range"),
        ({**good, "tagger_1": 0.5}, "float64"),
        ({**good, "tagger_1": [1, 2]}, "not an array"),
        (None, "actions are a NoneType: give a dict.*'tagger_0'"),
        (np.zeros(4, int), "actions are a ndarray: give a dict"),
        ([1, 1, 1, 1], "actions are a list"),
    ):
        with pytest.raises(ActionError, match=words):
            env.step(bad)
        np.testing.assert_array_equal(env.state(), before)
    env.step(good)
    assert (env.state() != before).any()


def test_actions_of_the_absent_are_ignored() -> None:
    env = parallel_env("probe", num_agents=3, leave=1, episode_length=9)
    env.reset(seed=0)
    env.step(dict.fromkeys(env.possible_agents, 1))
    assert env.agents == ["agent_0", "agent_2"]
    assert set(env.step(dict.fromkeys(env.possible_agents, 1))[0]) == {"agent_0", "agent_2"}


def test_calls_out_of_order() -> None:
    env = parallel_env("tag_grid", **{**TAG, "episode_length": 1})
    for call in (lambda: env.step({}), env.state):
        with pytest.raises(CallOrderError, match="reset"):
            call()
    env.reset(seed=0)
    env.step(draw_actions(env))
    with pytest.raises(CallOrderError, match="reset"):
        env.step(dict.fromkeys(env.possible_agents, 0))
    env.reset()
    env.close()
    env.close()
    with pytest.raises(ClosedError):
        env.step(draw_actions(env))


def test_a_step_after_the_last_end_is_empty() -> None:
    """Wrappers that keep dead agents in their list take such a step."""
    env = parallel_env("tag_grid", **{**TAG, "episode_length": 1})
    env.reset(seed=0)
    env.step(draw_actions(env))
    assert env.agents == [] and len(env.episodes) > 0
    assert env.step({}) == ({}, {}, {}, {}, {})
    assert env.agents == [] and len(env.episodes) == 0


@pytest.mark.parametrize(
    "copied",
    [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))],
    ids=["deepcopy", "pickle"],
)
def test_a_copy_is_an_env_of_its_own_with_the_same_settings(copied: Any) -> None:
    env = parallel_env("tag_grid", **TAG, render_mode="rgb_array")
    env.reset(seed=3)
    other = copied(env)
    assert (other.possible_agents, other.render_mode) == (env.possible_agents, "rgb_array")
    with pytest.raises(CallOrderError, match="reset"):
        other.step({})
    other.reset(seed=3)
    for _ in range(5):
        actions = draw_actions(env)
        env.step(actions)
        other.step(actions)
    assert np.array_equal(env.state(), other.state())
    env.close()
    other.step(draw_actions(other))


@pytest.mark.needs("SuperSuit")
def test_wrappers_of_supersuit() -> None:
    import supersuit

    env = supersuit.black_death_v3(parallel_env("tag_grid", **{**TAG, "episode_length": 2}))
    for _ in range(3):
        env.reset(seed=0)
        while env.agents:
            assert set(env.step(draw_actions(env))[0]) == set(env.possible_agents)
    rows = supersuit.concat_vec_envs_v1(
        supersuit.pettingzoo_env_to_vec_env_v1(env), 2, base_class="gymnasium"
    )
    observations, _ = rows.reset(seed=0)
    assert len(observations) == rows.num_envs == 2 * len(env.possible_agents)


def test_settings_are_checked() -> None:
    with pytest.raises(ConfigError, match="num_tagger"):
        parallel_env("tag_grid", num_tagger=3)
    with pytest.raises(ConfigError, match="no env is called"):
        parallel_env("tag_gird")
    with pytest.raises(ConfigError, match="render_mode is 'human'"):
        parallel_env("tag_grid", render_mode="human")
    with pytest.raises(ConfigError, match="task"):
        parallel_env("tag_grid").reset(options={"task": "first"})


@pytest.mark.parametrize(
    "options", [{"typo": 1}, {"task": 0, "reset_mask": np.ones(1, bool)}, 5, "task"]
)
def test_unknown_options_reset_nothing(options: Any) -> None:
    env = parallel_env("tag_grid", **TAG)
    env.reset(seed=0)
    env.step(draw_actions(env))
    before = env.state()
    name = "typo|reset_mask" if isinstance(options, dict) else f"options are {options!r}"
    with pytest.raises(ConfigError, match=f"{name}.*'task'"):
        env.reset(options=options)
    np.testing.assert_array_equal(env.state(), before)
    env.reset(options={})


# ---- pictures ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_drive_is_drawn(scenes: str) -> None:
    pytest.importorskip("matplotlib")
    env = parallel_env("drive", scenes=scenes, num_agents=6, render_mode="rgb_array")
    with pytest.raises(CallOrderError):
        env.render()
    env.reset(seed=0)
    first = env.render()
    for _ in range(8):
        env.step({agent: 45 for agent in env.agents})
    later = env.render()
    assert first is not None and later is not None
    for picture in (first, later):
        assert (
            picture.ndim == 3
            and picture.shape[2] == 3
            and picture.dtype == np.uint8
            and picture.std() > 10
        )
    assert first.shape == later.shape and (first != later).any()
    while env.agents:
        env.step(draw_actions(env))
    last = env.render()
    assert last is not None and last.shape == first.shape  # whatever the cars have done
    env.reset(seed=3)
    again = env.render()
    assert again is not None and again.shape == first.shape
