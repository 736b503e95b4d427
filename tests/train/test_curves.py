# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""puffervec/train/metrics/curves.py: what is smoothed, joined and put on one axis."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from puffervec.errors import ConfigError
from puffervec.train.metrics import curves


def run(
    name: str,
    env: str = "probe",
    steps: int = 5,
    config: dict[str, Any] | None = None,
    **values: Any,
) -> curves.Run:
    """Steps of 10; a metric is a number or a function of the step. `env__score` is env/score."""
    lines = []
    for step in range(10, 10 * steps + 1, 10):
        metrics = {
            key.replace("__", "/"): value(step) if callable(value) else value
            for key, value in values.items()
        }
        lines.append(
            {"step": step, "elapsed_s": step / 10, "update": step // 10, "span_s": 1.0, **metrics}
        )
    return curves.Run(name, env, tuple(lines), config or {})


def seeds(seed: int, lr: float = 0.1) -> dict[str, Any]:
    """A config of that seed; how the machine did the work differs too."""
    return {
        "train": {"seed": seed, "lr": lr, "precision": "bf16" if seed % 2 else "fp32"},
        "log": {"name": str(seed)},
    }


def test_what_is_unknown_is_left_out() -> None:
    holes = run(
        "a",
        env__x=lambda step: None if step == 30 else float("nan") if step == 40 else step,
        env__on=True,
    )
    xs, ys = holes.curve("steps", "env/x")
    assert xs.tolist() == ys.tolist() == [10, 20, 50]
    assert holes.curve("minutes", "env/x")[0].tolist() == [1, 2, 5]
    assert holes.keys() == ["env/x"] and holes.curve("steps", "none")[0].size == 0


def test_smoothing_is_a_centred_mean_that_keeps_lines_and_ends() -> None:
    xs = np.array([0.0, 1, 2, 3, 4, 10, 20])
    np.testing.assert_allclose(curves.smoothed(xs, 2 * xs, 0), 2 * xs)
    ys = np.array([0.0, 9, 0, 0, 9, 3, 5])
    got = curves.smoothed(xs, ys, 2.0)  # at most 1 away
    np.testing.assert_allclose(got, [0, 3, 3, 3, 4.5, 3, 5])
    even = np.arange(50.0)
    np.testing.assert_allclose(
        curves.smoothed(even, 3 * even, 11.0), 3 * even
    )  # a straight line stays one


def test_long_curves_are_averaged() -> None:
    count = 3 * curves.MOST_POINTS
    xs, ys = curves.thinned(np.arange(count), np.arange(count))
    assert ys.tolist() == xs.tolist() == [3 * i + 1 for i in range(curves.MOST_POINTS)]


def test_seeds_are_joined_to_mean_and_band() -> None:
    runs = [
        run(
            f"pole-s{seed}",
            config=seeds(seed),
            steps=3 + seed,
            env__x=lambda step, s=seed: step + 30 * s,
        )
        for seed in (1, 2)
    ]
    other = run("pole-fast", config=seeds(3, lr=0.5), env__x=0.0)
    bare = run("old", env__x=1.0)
    series = curves.join_seeds([*runs, other, bare, bare])
    assert [(one.name, len(one.runs)) for one in series] == [
        ("pole, 2 seeds", 2),
        ("pole-fast", 1),
        ("old", 1),
        ("old", 1),
    ]
    found = curves.curve_of(series[0], "steps", "env/x", 0.0, 1.0)
    assert found is not None and found.band is not None and found.raw is None
    assert (found.xs[0], found.xs[-1]) == (10, 40)  # what all of them have
    np.testing.assert_allclose(found.ys, found.xs + 45)
    np.testing.assert_allclose(found.band, [found.xs + 30, found.xs + 60])
    alone = curves.curve_of(series[1], "steps", "env/x", 0.5, 10.0)
    assert (
        alone is not None
        and alone.raw is not None
        and alone.band is None
        and alone.xs.tolist() == [1, 2, 3, 4, 5]
    )
    assert curves.curve_of(series[1], "steps", "env/y", 0.0, 1.0) is None


def test_the_same_seed_twice_is_no_band() -> None:
    again = [run(name, config=seeds(1), env__x=1.0) for name in ("a", "b")]
    assert [one.name for one in curves.join_seeds(again)] == ["a", "b"]
    elsewhere = [run("a", config=seeds(1)), run("b", "drive", config=seeds(2))]
    assert len(curves.join_seeds(elsewhere)) == 2


def test_panels_are_in_the_order_of_the_env() -> None:
    one = run("one", env__zeal=5.0, env__age=7.0, env__miles=9.0)
    found = [keys for _, keys in panels([one]) if keys[0].startswith("env/")]
    assert found == [("env/zeal",), ("env/age",), ("env/miles",)]


def panels(runs: list[curves.Run], metrics: str | None = None) -> list[tuple[str, tuple[str, ...]]]:
    return [(panel.env, panel.keys) for panel in curves.panels_of(curves.join_seeds(runs), metrics)]


def test_no_axis_has_two_envs() -> None:
    """Nor has one records of different units, unless it was asked for."""
    values: dict[str, Any] = {
        "env__goal": 0.5,
        "env__score": 0.1,
        "env__far_m": 30.0,
        "episode__return": 3.0,
    }
    two = [
        run("a", "drive", **values),
        run("b", "tag", episode__return=1.0, losses__one__value=1.0, losses__two__value=2.0),
    ]
    assert panels(two) == [
        ("drive", ("env/goal", "env/score")),
        ("drive", ("episode/return",)),
        ("drive", ("env/far_m",)),
        ("drive", ("time",)),
        ("tag", ("episode/return",)),
        ("tag", ("losses/value",)),
        ("tag", ("time",)),
    ]
    rates, *_, distance, _ = curves.panels_of(curves.join_seeds(two[:1]), None)
    assert (
        rates.is_share
        and rates.unit.startswith("share")
        and (distance.unit, distance.is_share) == ("m", False)
    )
    several = [two[0], run("c", "drive", env__goal=1.0)]
    assert panels(several)[:2] == [
        ("drive", ("env/goal",)),
        ("drive", ("env/score",)),
    ]  # a panel each: colours are the runs'


@pytest.mark.parametrize(
    ("metrics", "expected"),
    [
        ("score", [("env/score",)]),
        ("env/goal,return", [("env/goal",), ("episode/return",)]),
        ("goal+score, time", [("env/goal", "env/score"), ("time",)]),
        ("env/*", [("env/goal",), ("env/score",)]),
        ("env/*+return", [("env/goal", "env/score", "episode/return")]),
        ("losses/policy", [("losses/policy",)]),
    ],
)
def test_metrics_are_chosen(metrics: str, expected: list[tuple[str, ...]]) -> None:
    one = run("a", env__goal=0.5, env__score=0.1, episode__return=3.0, losses__scouts__policy=1.0)
    assert [keys for _, keys in panels([one], metrics)] == expected


def test_a_metric_that_no_run_has() -> None:
    runs = [run("a", env__score=0.5), run("b", "tag", episode__return=0.5)]
    assert panels(runs, "score,return") == [("probe", ("env/score",)), ("tag", ("episode/return",))]
    with pytest.raises(
        ConfigError, match=r"--metrics env/scor: no run has it: did you mean env/score\?"
    ):
        panels(runs, "score,env/scor")
