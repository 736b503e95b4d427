# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""bench/presets.py: which settings are compared, and how. Times are measured here but not judged."""

from __future__ import annotations

import pytest

from bench import presets, runs

SMALL = {"vec": {"num_envs": 8}, "train": {"horizon": 4}, "policy": {"hidden": (8,)}}


def test_all_backends_splits_buffers_and_threads_are_there() -> None:
    found = list(presets.settings().values())
    assert found[0] == presets.Setting({}, False)
    assert {s.vec["backend"] for s in found[1:]} == {"serial", "threading", "multiprocessing"}
    assert {(s.vec["num_buffers"], s.vec.get("split")) for s in found[1:] if s.vec["backend"] == "multiprocessing"} == {
        (1, None),
        (2, "workers"),
        (2, "envs"),
    }
    assert sum(s.one_thread for s in found[1:]) == len(found[1:]) / 2


@pytest.mark.slow
def test_every_setting_trains() -> None:
    for setting in presets.settings().values():
        assert presets.sample(runs.Run("probe", SMALL), setting, 0.01)["agent_steps_per_s"] > 0


def test_one_thread_is_for_roll_outs_only() -> None:
    seen = {}
    config = runs.config_of(runs.Run("probe", SMALL), "cpu").merged({"vec": {"backend": "serial"}, "train": {"threads": 2}})

    def prepare(trainer: runs.Trainer) -> None:
        presets.one_thread(trainer)
        seen["threads"] = (trainer.collector.rollout.team.count, trainer.team.count)

    assert runs.trained(config, 0.0, prepare)["agent_steps_per_s"] > 0
    assert seen["threads"] == (1, 2)


def test_the_fastest_comes_first_and_all_are_compared_with_auto() -> None:
    rates = {presets.AUTO: [2.0, 4.0], "a": [1.0, 2.0], "b": [4.0, 8.0]}
    samples = {
        label: [{"agent_steps_per_s": rate, "facts": {"description": f"{label} {i}"}} for i, rate in enumerate(found)]
        for label, found in rates.items()
    }
    rows = presets.rows(samples)
    assert [(row["label"], row["over_auto"].median) for row in rows] == [("b", 2.0), (presets.AUTO, 1.0), ("a", 0.5)]
    assert rows[0]["runs"] == ["b 0", "b 1"]
