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
from puffervec.viewing.web.record import Played, play

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


def test_a_long_episode_is_left() -> None:
    assert len(played(most_steps=3).moments) == 4


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
