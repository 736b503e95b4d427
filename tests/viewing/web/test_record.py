# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""puffervec/viewing/web/record.py and puffervec/viewing/web/observed.py: what is kept of an
episode, beside what the env did.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest

import puffervec
from puffervec.contract.drawing import Circle, Drawing, Line, Shape, State
from puffervec.contract.evaluation import progress_to
from puffervec.envs import get
from puffervec.errors import ConfigError
from puffervec.train.act.evaluate import RandomActor
from puffervec.viewing.web import observed
from puffervec.viewing.web.columns import Stream
from puffervec.viewing.web.observed import ObservedShapes
from puffervec.viewing.web.record import Played, play
from puffervec.viewing.web.shapes import Looks
from tests.viewing.web.test_columns import read

TAG = {"num_taggers": 3, "grid_length": 6, "episode_length": 20}
NAMES = ("tagger_0", "tagger_1", "tagger_2", "runner_0")


def told(config: Any, state: State) -> Drawing:
    """A drawing that tells all that a drawing can tell. The runner sees the taggers, where they
    are.
    """

    def shapes(state: State, before: State | None) -> Iterator[Shape]:
        for name, x, y in zip(NAMES, state["x"].tolist(), state["y"].tolist(), strict=True):
            yield Circle(x, y, 0.4, role=name[:6], name=name)

    def observed(rows: Mapping[str, Any], state: State) -> dict[str, list[Shape]]:
        assert rows["x"].shape == (4, 4) and rows["time"].shape == (4, 1)
        places = zip(*(state[n][:3].tolist() for n in "xy"), strict=True)
        return {"runner_0": [Line(((x, y), (6, 6)), role="sight") for x, y in places]}

    return Drawing(
        (0, 0, 6, 6),
        shapes,
        title="a field",
        agents=NAMES,
        facts=lambda state: {
            name: {"x": float(x)} for name, x in zip(NAMES, state["x"], strict=True) if x != 3
        },
        actions=lambda rows: {"twice": 2 * rows},
        observed=observed,
    )


def played(seed: int = 5, **changes: Any) -> Played:
    env = dataclasses.replace(get("tag_grid"), drawing=changes.pop("drawing", told))
    return play(env, TAG, RandomActor(seed), seed=seed, **changes)


def test_a_record_is_what_the_env_did() -> None:
    found, actor = played(), RandomActor(5)
    with puffervec.make("tag_grid", env_kwargs=TAG, backend="serial", seed=5) as vec:
        obs = vec.reset(5)[0]
        assert np.isnan(found.series["reward"][0]).all()
        for step in range(len(found.moments) - 1):
            actions = actor.act(obs, vec)
            assert np.array_equal(found.series["twice"][step], 2.0 * actions)
            obs, rewards, terminals, truncations, _ = vec.step(actions)
            assert found.series["reward"][step + 1] == pytest.approx(rewards, abs=0)
            x = vec.peek(0)["x"]
            assert np.array_equal(
                found.series["x"][step + 1], np.where(x == 3, np.nan, x), equal_nan=True
            )
            shown = [
                shape.x for shape in found.moments[step + 1].shapes if isinstance(shape, Circle)
            ]
            assert shown == x.tolist()
            assert found.seen.at(3, step + 1) == len(
                set(zip(*(vec.peek(0)[n][:3].tolist() for n in "xy"), strict=True))
            )
        assert (terminals | truncations).all(), "to the end of the episode"
    assert np.isnan(found.series["twice"][-1]).all(), "nobody acts at the end"
    assert found.episode_return == pytest.approx(np.nansum(found.series["reward"], axis=0).mean())


def test_agents_have_an_order_by_their_returns_and_names() -> None:
    found = played(most_steps=1)
    rewards = np.array([[np.nan] * 4, [3.0, -1.0, 2.0, np.nan], [-9.0, 4.0, 0.0, np.nan]])
    found = dataclasses.replace(found, series={"reward": rewards})
    assert found.worst_first() == [0, 2, 1] and found.episode_return == pytest.approx(-1 / 3)
    assert found.agent_named("worst") == "tagger_0" and found.agent_named("tagger_1") == "tagger_1"
    for wrong in ("nobody", "runner_0"):  # That one took no part.
        with pytest.raises(ConfigError, match="the agents of a field are tagger_0, tagger_1"):
            found.agent_named(wrong)
    found.episode.drawing = dataclasses.replace(found.episode.drawing, agents=("", "one"))
    assert found.agent_named("worst") == "one"
    found.episode.drawing = dataclasses.replace(found.episode.drawing, agents=(), title="")
    with pytest.raises(ConfigError, match="the agents of the episode are without names"):
        found.agent_named("worst")
    nobody = dataclasses.replace(found, series={"reward": np.full((3, 4), np.nan)})
    assert nobody.episode_return == 0.0 and nobody.worst_first() == []


def test_a_long_episode_is_left() -> None:
    found = play(get("tag_grid"), TAG, RandomActor(0), most_steps=3)
    assert len(found.moments) == 4
    again = play(get("tag_grid"), TAG, RandomActor(0), seed=0, most_steps=3)
    assert [moment.shapes for moment in found.moments] == [one.shapes for one in again.moments]


@pytest.mark.slow
def test_the_seed_chooses_the_task_where_none_is_given() -> None:
    env = get("drive")
    config = env.configure({"scenes": "generated:3"})
    titles = [
        play(env, config, RandomActor(0), seed=seed, task=task, most_steps=1).episode.drawing.title
        for seed, task in ((4, None), (0, 1), (0, None))
    ]
    assert titles[0] == titles[1] != titles[2]


def test_a_single_action_has_no_number() -> None:
    def drawing(config: Any, state: State) -> Drawing:
        return dataclasses.replace(told(config, state), actions=None)

    assert {"action", "twice"} & played(drawing=drawing, most_steps=1).series.keys() == {"action"}


def test_what_agents_observe_is_stored_once_by_style(monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to a number of shapes, and always what the first agent observes."""
    one, two, three, four = (
        Circle(x, 2.0, 0.5, role=role)
        for x, role in ((1.0, "a"), (2.0, "b"), (3.0, "a"), (4.0, "b"))
    )
    seen = ObservedShapes(Looks({}), -2)
    assert seen.put(Stream(), 2, [0, 1]) is None
    seen.add(0, {0: [one, two, three], 1: [four, four]})
    seen.add(1, {0: [three, one]})
    assert [seen.at(row, step) for row, step in ((0, 0), (0, 1), (1, 0), (1, 1))] == [3, 2, 1, 0]
    for most, rows in ((6, [0, 1]), (5, [0]), (1, [0])):
        monkeypatch.setattr(observed, "MOST_SEEN", most)
        found = seen.put(Stream(), 2, [0, 1, 2])
        assert found is not None and (found["rows"], found["all"]) == (rows, most == 6)
    stream = Stream()
    found = seen.put(stream, 2, [0])
    assert found is not None and found["coarser"] == 5
    assert found["kinds"] == [{"s": 0, "n": 3, "count": 2}, {"s": 1, "n": 3, "count": 1}]
    # Columns x, y and radius of each style in 5 cm; then how many each moment has, and which.
    columns = [20, 40, 40, 0, 10, 0, 40, 40, 10]
    assert read(stream.pack({}))[1].tolist() == [*columns, 3, 2, 0, 1, 1, 0, 1]


def test_values_are_the_policys() -> None:
    class Judge(RandomActor):
        values: dict[str, np.ndarray] = {}

        def act(self, obs: Any, vec: Any) -> Any:
            self.values = {"agents": np.arange(4, dtype=np.float32)}
            return super().act(obs, vec)

    found = play(get("tag_grid"), TAG, Judge(0), seed=0)
    assert (
        found.series["value"][0].tolist() == [0, 1, 2, 3]
        and np.isnan(found.series["value"][-1]).all()
    )
    assert "value" not in played().series


def test_actions_of_groups_that_differ_are_kept_by_number() -> None:
    """Groups of the probe choose one number and two."""
    found = play(
        dataclasses.replace(
            get("probe"),
            drawing=lambda config, state: Drawing((0, 0, 1, 1), lambda state, before: []),
        ),
        {"mode": 1},
        RandomActor(5),
        seed=5,
    )
    with puffervec.make("probe", env_kwargs={"mode": 1}, backend="serial", seed=5) as vec:
        obs, actor = vec.reset(5)[0], RandomActor(5)
        for step in range(len(found.moments) - 1):
            actions = actor.act(obs, vec)
            parts = [np.asarray(part).reshape(len(part), -1) for part in actions.values()]
            for number in range(max(part.shape[1] for part in parts)):
                wanted = [
                    part[:, number] if number < part.shape[1] else np.full(len(part), np.nan)
                    for part in parts
                ]
                assert np.array_equal(
                    found.series[f"action {number}"][step], np.concatenate(wanted), equal_nan=True
                )
            obs = vec.step(actions)[0]


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        (
            {"facts": lambda state: {"nobody": {"x": 1.0}}},
            "names 'nobody', which is not one of its agents",
        ),
        ({"facts": lambda state: 1 / 0}, "its drawing failed: ZeroDivisionError"),
        ({"observed": lambda rows, state: rows["none"]}, "its drawing failed: KeyError: 'none'"),
        ({"actions": lambda rows: [].pop()}, "its drawing failed: IndexError"),
    ],
)
def test_a_drawing_that_fails_is_named(parts: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=f"tag_grid: .*{words}"):
        played(drawing=lambda config, state: dataclasses.replace(told(config, state), **parts))
    with pytest.raises(ConfigError, match="cannot be drawn"):
        played(drawing=None)


def test_the_policy_is_given_what_the_env_shows_and_progress_is_told() -> None:
    """Beside a vector env that is stepped with the same actions; the share that is done grows
    towards 1.
    """

    class Watcher(RandomActor):
        shown: list[Any] = []

        def act(self, obs: Any, vec: Any) -> Any:
            self.shown.append(copy.deepcopy(obs))
            return super().act(obs, vec)

    told_of: list[tuple[str, float]] = []
    with progress_to(lambda act, share: told_of.append((act, share))):
        moments = len(play(get("tag_grid"), TAG, Watcher(5), seed=5, most_steps=30).moments)
    assert [act for act, _ in told_of] == ["playing"] * (moments - 1)
    assert [share for _, share in told_of] == [(step + 2) / 31 for step in range(moments - 1)]
    actor = RandomActor(5)
    with puffervec.make("tag_grid", env_kwargs=TAG, backend="serial", num_envs=1, seed=5) as vec:
        obs = vec.reset(5)[0]
        for shown in Watcher.shown:
            assert np.array_equal(shown, obs)
            obs = vec.step(actor.act(obs, vec))[0]
