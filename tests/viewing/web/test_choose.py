# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from puffervec.contract.evaluation import Interval, Report
from puffervec.errors import ConfigError
from puffervec.train.act.evaluate import RandomActor
from puffervec.train.config.sections import TrainConfig
from puffervec.viewing.web import choose as module
from puffervec.viewing.web.choose import Choice, check, choices_of, choose, play_choices

REPORT = Report(
    [
        {"scene": name, "score": score}
        for name, score in (("a.json", 0.5), ("b.json", None), ("c.json", Interval(0.1, 0, 1)))
    ],
    score="score",
    tasks=(4, 5, 6),
)


def test_parts_of_an_evaluation() -> None:
    a, c = Choice(14, "a.json", 4, 0.5), Choice(16, "c.json", 6, 0.1)
    assert choices_of(REPORT, "worst:1", seed=10) == [c] and choices_of(
        REPORT, "worst:9", seed=10
    ) == [
        c,
        a,
    ]
    assert choices_of(REPORT, "all", seed=10) == [a, c]
    assert choices_of(REPORT, "part:a", seed=10) == [a]
    assert choices_of(REPORT, "part:b.json") == [Choice(5, "b.json", 5, None)]
    with pytest.raises(ConfigError, match="there is no such part: use one of the 3 parts a.json"):
        choices_of(REPORT, "part:d")


def test_an_env_without_parts_is_played_with_other_seeds() -> None:
    config = TrainConfig.of("tag_grid", env={"episode_length": 6})
    choices = choose(config, RandomActor(0), "worst:3", seed=7)
    assert (
        choices
        == [Choice(7), Choice(8), Choice(9)]
        == choose(config, RandomActor(0), "first:3", seed=7)
    )
    found = [list(play_choices(config, RandomActor(0), choices[:2])) for _ in range(2)]
    assert found[0] == found[1] and found[0][0].data != found[0][1].data
    assert [replay.measure for replay in found[0]] == ["return", "return"]


def test_the_score_has_the_name_of_its_column() -> None:
    report = Report([{"scene": "a", "rate": 0.5}], score="rate", tasks=(4,))
    assert choices_of(report, "all") == [Choice(4, "a", 4, 0.5, "rate")]
    report = Report([{"scene": "a", "rate": 0.5}], tasks=(4,))
    assert choices_of(report, "part:a")[0].measure == "score"


def test_an_evaluation_of_one_episode_chooses_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not needed for the first ones."""
    asked: list[dict[str, int]] = []

    def evaluate(actor: Any, config: Any, **settings: int) -> Report:
        asked.append(settings)
        return REPORT

    own = SimpleNamespace(replay=lambda config: config, evaluate=evaluate)
    monkeypatch.setattr(module, "own_evaluation", lambda target: own)
    config, actor = TrainConfig.of("tag_grid"), RandomActor(0)
    assert choose(config, actor, "first:2", seed=3) == [Choice(3), Choice(4)] and asked == []
    assert choose(config, actor, "worst:1", seed=10) == [Choice(16, "c.json", 6, 0.1)]
    assert choose(config, actor, "worst:1") == [Choice(6, "c.json", 6, 0.1)]
    assert asked == [{"episodes": 1, "seed": 10}, {"episodes": 1, "seed": 0}]


@pytest.mark.parametrize(("count", "share"), [(1, 300_000), (2, 300_000), (6, 200_000)])
def test_the_pictures_of_a_page_share_its_bytes(
    monkeypatch: pytest.MonkeyPatch, count: int, share: int
) -> None:
    given: list[int] = []
    monkeypatch.setattr(module, "play", lambda *_, **__: None)
    monkeypatch.setattr(
        module, "replay_of", lambda _, picture_bytes, **__: given.append(picture_bytes)
    )
    choices = [Choice(seed) for seed in range(count)]
    list(play_choices(TrainConfig.of("tag_grid"), RandomActor(0), choices))
    assert given == [share] * count


@pytest.mark.parametrize(
    "which",
    ["", "worst", "worst:0", "worst:-1", "first:1e3", "part:", "some", "all:3", "worst:99999"],
)
def test_what_means_nothing_is_refused(which: str) -> None:
    with pytest.raises(ConfigError, match=f"--draw {which}: use part:NAME"):
        check(which, "drive")


@pytest.mark.parametrize("which", ["all", "part:a"])
def test_parts_of_an_env_without_them_are_refused(which: str) -> None:
    check(which, "drive")
    with pytest.raises(ConfigError, match="tag_grid has no evaluation by parts: use worst:N"):
        check(which, "tag_grid")
