# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Rules of Gymnasium's vector API: the form of infos (puffervec/gym/infos.py)."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import data_equivalence

from puffervec.core.infos import Infos
from puffervec.gym.infos import batch_infos
from tests.gym.envs import Count, telling
from tests.gym.kinds import NEXT, OURS, SAME, Kind, kind_fixture

kind = kind_fixture()
ours = kind_fixture(OURS, "ours")


def on_step(info: dict[str, Any]) -> Any:
    """Tell this in the first step of each episode, nothing else."""
    return lambda when, step: info if when == "step" and step == 1 else {}


def nothing(when: str, step: int) -> dict[str, Any]:
    return {}


def first_step(kind: Kind, *tells: Any, **settings: Any) -> dict[str, Any]:
    """Return the infos of the first step."""
    envs = kind(telling(*tells), **settings)
    assert envs.reset()[1] == {}
    return envs.step([0] * len(tells))[4]  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (7, np.array([7, 0, 0])),
        (0.5, np.array([0.5, 0, 0])),
        (True, np.array([True, False, False])),
    ],
    ids=["int", "float", "bool"],
)
def test_numbers_become_arrays_with_a_mask(kind: Kind, value: Any, expected: Any) -> None:
    infos = first_step(kind, on_step({"k": value}), nothing, nothing)
    assert set(infos) == {"k", "_k"}
    assert infos["k"].dtype == expected.dtype and np.array_equal(infos["k"], expected)
    assert infos["_k"].dtype == np.bool_ and infos["_k"].tolist() == [True, False, False]


@pytest.mark.parametrize(
    "value", [np.float64(0.25), np.float32(0.25), np.int32(3), np.uint8(200), np.bool_(True)]
)
def test_numpy_scalars_count_as_numbers(kind: Kind, value: Any) -> None:
    infos = first_step(kind, nothing, on_step({"k": value}))
    assert infos["k"].tolist() == [type(value.item())(0), value.item()] or infos["k"][1] == value
    assert infos["_k"].tolist() == [False, True]


def test_arrays_are_stacked(kind: Kind) -> None:
    infos = first_step(kind, on_step({"k": np.arange(6, dtype=np.int16).reshape(2, 3)}), nothing)
    assert infos["k"].dtype == np.int16 and infos["k"].tolist() == [
        [[0, 1, 2], [3, 4, 5]],
        [[0, 0, 0], [0, 0, 0]],
    ]
    assert infos["_k"].tolist() == [True, False]


def test_other_things_stand_in_object_arrays(kind: Kind) -> None:
    infos = first_step(kind, on_step({"text": "a", "list": [1, 2], "none": None}), nothing)
    for key, value in (("text", "a"), ("list", [1, 2]), ("none", None)):
        assert infos[key].dtype == object and infos[key].tolist() == [value, None]
        assert infos[f"_{key}"].tolist() == [True, False]


def test_dicts_are_batched_in_depth(kind: Kind) -> None:
    one = {"a": {"n": 1, "b": {"x": 2.5, "s": "t"}}}
    infos = first_step(kind, on_step(one), nothing, on_step({"a": {"n": 3}}))
    expected = {
        "a": {
            "n": np.array([1, 0, 3]), "_n": np.array([True, False, True]),
            "b": {
                "x": np.array([2.5, 0, 0]), "_x": np.array([True, False, False]),
                "s": np.array(["t", None, None], object), "_s": np.array([True, False, False]),
            },
            "_b": np.array([True, False, False]),
        },
        "_a": np.array([True, False, True]),
    }  # fmt: skip
    assert data_equivalence(infos, expected)


def test_empty_infos_are_an_empty_dict(kind: Kind) -> None:
    envs = kind(telling(on_step({"k": 1}), nothing))
    assert envs.reset()[1] == {}
    assert set(envs.step([0, 0])[4]) == {"k", "_k"}
    assert envs.step([0, 0])[4] == {}


def test_infos_of_resets(kind: Kind) -> None:
    envs = kind(
        telling(
            *[lambda when, step: {"new": step} if when == "reset" else {"at": step}] * 2, length=2
        )
    )
    assert data_equivalence(envs.reset()[1], {"new": np.zeros(2, int), "_new": np.ones(2, bool)})
    envs.step([0, 0])
    envs.step([0, 0])
    assert set(envs.step([0, 0])[4]) == {"new", "_new"}


def at_the_end(when: str, step: int) -> dict[str, Any]:
    """Numbers and others, in resets and in steps, with a key in common."""
    if when == "reset":
        return {"both": -1, "fresh": "yes"}
    return {"both": step, "deep": {"x": step, "s": str(step)}}


def test_final_info(kind: Kind) -> None:
    envs = kind(telling(at_the_end, at_the_end), autoreset_mode=SAME)
    envs.set_attr("length", [2, 5])
    envs.reset()
    envs.step([0, 0])
    infos = envs.step([0, 0])[4]
    first = np.array([True, False])
    expected = {
        "final_info": {
            "both": np.array([2, 0]), "_both": first,
            "deep": {"x": np.array([2, 0]), "_x": first, "s": np.array(["2", None], object),
                     "_s": first},
            "_deep": first,
        },
        "_final_info": first,
        "both": np.array([-1, 2]), "_both": np.array([True, True]),
        "fresh": np.array(["yes", None], object), "_fresh": first,
        "deep": {
            "x": np.array([0, 2]), "_x": ~first, "s": np.array([None, "2"], object), "_s": ~first,
        },
        "_deep": ~first,
    }  # fmt: skip
    final = infos.pop("final_obs")
    assert final[0].shape == (2,) and final[1] is None
    assert infos.pop("_final_obs").tolist() == [True, False]
    assert data_equivalence(infos, expected)


@pytest.mark.parametrize("mode", [NEXT, SAME])
def test_episode_statistics_of_the_sub_envs(kind: Kind, mode: Any) -> None:
    envs = kind(
        [lambda: gymnasium.wrappers.RecordEpisodeStatistics(Count(2))] * 2, autoreset_mode=mode
    )
    envs.reset()
    envs.step([1, 2])
    infos = envs.step([3, 4])[4]
    if mode is SAME:
        infos = infos["final_info"]
    episode = infos["episode"]
    assert infos["_episode"].tolist() == [True, True]
    assert (episode["r"].tolist(), episode["l"].tolist()) == ([4.0, 6.0], [2, 2])
    assert (episode["t"] >= 0).all() and episode["_t"].all()


# ---- where ours does better ----------------------------------------------------------------------


def test_values_that_do_not_fit_together_become_objects(ours: Kind) -> None:
    infos = first_step(
        ours,
        on_step({"k": 1, "a": np.zeros(2)}),
        on_step({"k": None, "a": np.ones(3)}),
        on_step({"k": 2}),
    )
    assert infos["k"].dtype == object and infos["k"].tolist() == [1, None, 2]
    assert infos["_k"].tolist() == [True, True, True]
    assert [None if entry is None else entry.tolist() for entry in infos["a"]] == [
        [0, 0],
        [1, 1, 1],
        None,
    ]


MIXED = {"x": 1, "y": {"n": 2.5, "z": "t"}}


@pytest.mark.parametrize("order", [(0, 1, 2), pytest.param((2, 1, 0), marks=pytest.mark.slow)])
@pytest.mark.parametrize("other", [5, 0.5, True, "text", None, np.arange(3)], ids=str)
def test_a_dict_where_others_have_something_else_is_an_object(
    ours: Kind, other: Any, order: tuple[int, ...]
) -> None:
    """Gymnasium fails for some orders, and mixes numbers of envs with keys for others."""
    reported = [MIXED, other, {"x": 2}]
    infos = first_step(ours, *[on_step({"k": reported[which]}) for which in order])
    assert infos["k"].dtype == object and infos["_k"].tolist() == [True, True, True]
    assert data_equivalence(list(infos["k"]), [reported[which] for which in order])


@pytest.mark.parametrize("first", [0, 1])
def test_dicts_and_numbers_further_down(ours: Kind, first: int) -> None:
    reported = [{"deep": {"k": {"x": 1, "s": "t"}}, "n": 1}, {"deep": {"k": 7}, "n": 2}]
    infos = first_step(ours, on_step(reported[first]), on_step(reported[1 - first]), nothing)
    assert infos["deep"]["k"].tolist() == [
        each["deep"]["k"] for each in (reported[first], reported[1 - first])
    ] + [None]
    assert (
        infos["deep"]["_k"].tolist()
        == infos["_deep"].tolist()
        == infos["_n"].tolist()
        == [True, True, False]
    )


def test_numbers_and_texts_of_one_dict_stay_together() -> None:
    """They travel apart: the numbers of env 0 have come before the number of env 1 makes objects of
    both.
    """
    present = np.array([[True, False], [False, True]])
    numeric = {
        ("k", "a", "n"): (np.array([4, 0]), present[0]),
        ("k",): (np.array([0, 9]), present[1]),
    }
    batch = batch_infos(Infos(numeric=numeric, others=[(0, {"k": {"a": {"s": "t"}, "b": "u"}})]), 2)
    assert batch["k"].tolist() == [{"a": {"n": 4, "s": "t"}, "b": "u"}, 9]
    assert batch["_k"].tolist() == [True, True]


@pytest.mark.slow
@pytest.mark.parametrize("value", [7, 0.5, "text", {"n": 3}, np.arange(2)], ids=str)
def test_a_key_that_looks_like_a_mask_is_kept(ours: Kind, value: Any) -> None:
    """Gymnasium writes the mask of k over it, or it over the mask."""
    for told in ({"_k": value, "k": 2}, {"k": 2, "_k": value}):
        infos = first_step(ours, on_step(told), nothing)
        assert infos["k"].tolist() == [2, 0] and infos["__k"].tolist() == [True, False]
        kept = infos["_k"]["n"] if isinstance(value, dict) else infos["_k"]
        assert np.array_equal(kept[0], value["n"] if isinstance(value, dict) else value)


def test_numbers_too_large_for_an_array_are_objects(ours: Kind) -> None:
    infos = first_step(ours, on_step({"k": 2**70}), on_step({"k": 3}))
    assert infos["k"].dtype == object and infos["k"].tolist() == [2**70, 3]


def test_final_observations_of_an_env_are_objects(kind: Kind) -> None:
    infos = first_step(kind, on_step({"final_obs": {"n": 1}}), nothing)
    assert infos["final_obs"].tolist() == [{"n": 1}, None] and infos["_final_obs"].tolist() == [
        True,
        False,
    ]
