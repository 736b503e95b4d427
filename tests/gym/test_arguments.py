# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Rules of Gymnasium's vector API: seeds, options, the reset mask (puffervec/gym/arguments.py)."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import puffervec.gym
from puffervec.errors import ConfigError
from puffervec.gym import arguments
from tests.gym.envs import Count, counts, telling
from tests.gym.kinds import DISABLED, OURS, Kind, kind_fixture

kind = kind_fixture()
ours = kind_fixture(OURS, "ours")


def draw(seed: int) -> int:
    """What a Count observes after a reset with this seed."""
    return int(np.random.default_rng(seed).integers(1000))


def drawn(envs: Any, **arguments: Any) -> list[int]:
    """Reset, and return what each env drew."""
    return [int(value) for value in envs.reset(**arguments)[0][:, 1]]


def test_a_number_seeds_env_i_with_seed_plus_i(kind: Kind) -> None:
    envs = kind(counts())
    assert drawn(envs, seed=7) == [draw(7), draw(8), draw(9)]
    assert envs.np_random_seed == (7, 8, 9)


def test_a_sequence_has_one_seed_per_env(kind: Kind) -> None:
    envs = kind(counts())
    assert drawn(envs, seed=[5, 3, 5]) == [draw(5), draw(3), draw(5)]
    with pytest.raises(ValueError, match="num_envs=3 but got length=2"):
        envs.reset(seed=[1, 2])


def test_none_leaves_an_env_its_seed(kind: Kind) -> None:
    envs = kind(counts())
    envs.reset(seed=0)
    found = drawn(envs, seed=[5, None, 6])
    generator = np.random.default_rng(1)
    generator.integers(1000)
    assert found == [draw(5), int(generator.integers(1000)), draw(6)]
    envs.reset(seed=None)
    assert envs.np_random_seed == (5, 1, 6)


def seeded(seed: int) -> Count:
    """An env that was seeded by whoever made it."""
    env = Count()
    env.reset(seed=seed)
    return env


def test_the_constructor_does_not_reseed(kind: Kind) -> None:
    envs = kind([functools.partial(seeded, seed) for seed in (11, 12)])
    assert envs.np_random_seed == (11, 12)
    envs.reset()
    assert envs.np_random_seed == (11, 12)


def test_unseeded_envs_differ(kind: Kind) -> None:
    envs = kind(counts())
    envs.reset()
    assert len(set(envs.np_random_seed)) == 3


def test_numpy_integers_are_seeds_too() -> None:
    assert arguments.env_seeds(np.int64(3), 2) == [3, 4]
    assert arguments.env_seeds(np.array([3, 9]), 2) == [3, 9]
    assert arguments.env_seeds((None, np.uint8(4)), 2) == [None, 4]
    with pytest.raises(TypeError, match="whole number"):
        arguments.env_seeds(1.5, 2)
    with pytest.raises(TypeError, match="whole number"):
        arguments.env_seeds("ab", 2)


@pytest.mark.parametrize(
    ("seed", "error", "text"),
    [
        ([1.5, 2.7], TypeError, r"seed\[0\] is 1.5"),
        (np.array(3), TypeError, "whole number"),
        (b"ab", TypeError, "whole number"),
        (
            2**70,
            ConfigError,
            r"seed is 1180591620717411303424: seeds of envs have 63 bits, use 0 to 2\*\*63 - 2",
        ),
        (-1, ConfigError, "seed is -1.*63 bits"),
        (
            [0, 2**63],
            ConfigError,
            r"seed\[1\] is 9223372036854775808: .*63 bits, use 0 to 2\*\*63 - 1",
        ),
    ],
)
def test_other_seeds_are_refused(seed: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        arguments.env_seeds(seed, 2)


@pytest.mark.parametrize("seed", [[1.5, 2.7, 3], 2**70])
def test_seeds_are_refused_before_anything_is_reset(ours: Kind, seed: Any) -> None:
    envs = ours(counts())
    envs.reset(seed=1)
    with pytest.raises((TypeError, ValueError)):
        envs.reset(seed=seed)
    assert envs.get_attr("resets") == (1, 1, 1)
    assert drawn(envs, seed=2**63 - 3) == [draw(2**63 - 3), draw(2**63 - 2), draw(2**63 - 1)]


def test_options_reach_every_env(kind: Kind) -> None:
    envs = kind(counts())
    envs.reset(options={"a": [1, 2]})
    assert envs.get_attr("options") == ({"a": [1, 2]},) * 3
    envs.reset(options={})
    assert envs.get_attr("options") == ({},) * 3
    envs.reset()
    assert envs.get_attr("options") == (None,) * 3


def test_a_mask_resets_only_the_envs_it_names(kind: Kind) -> None:
    envs = kind(counts((5, 5, 5)), autoreset_mode=DISABLED)
    envs.reset(seed=0)
    envs.step([0, 0, 0])
    mask = np.array([False, True, False])
    observations, infos = envs.reset(seed=[9, 20, 9], options={"reset_mask": mask, "a": 1})
    assert observations.tolist() == [[1, draw(0)], [0, draw(20)], [1, draw(2)]]
    assert infos == {}
    assert envs.get_attr("options") == (None, {"a": 1}, None)
    assert envs.get_attr("resets") == (1, 2, 1)
    assert mask.tolist() == [False, True, False]
    assert envs.step([0, 0, 0])[0][:, 0].tolist() == [2, 1, 2]


@pytest.mark.parametrize("modes", ["NextStep", "SameStep", "Disabled"])
def test_a_mask_of_all_envs_can_come_first(kind: Kind, modes: str) -> None:
    envs = kind(counts((5, 5, 5)), autoreset_mode=modes)
    observations, _ = envs.reset(seed=1, options={"reset_mask": np.array([True, True, True])})
    assert observations[:, 0].tolist() == [0, 0, 0]
    assert envs.step([0, 0, 0])[0][:, 0].tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("mask", "error", "text"),
    [
        (
            [True, False, False],
            TypeError,
            r"`options\['reset_mask'\]` must be a numpy array, got <class 'list'>",
        ),
        (
            np.array([True]),
            ValueError,
            r"`options\['reset_mask'\]` must have shape `\(3,\)`, got \(1,\)",
        ),
        (np.ones((1, 3), bool), ValueError, r"must have shape `\(3,\)`, got \(1, 3\)"),
        (
            np.array([1, 0, 0]),
            TypeError,
            r"`options\['reset_mask'\]` must have `dtype=np.bool_`, got int64",
        ),
        (
            np.zeros(3, bool),
            ValueError,
            r"must contain a boolean array with at least one True value, got reset_mask=\[False",
        ),
    ],
)
def test_other_masks_are_refused(kind: Kind, mask: Any, error: type[Exception], text: str) -> None:
    envs = kind(counts(), autoreset_mode=DISABLED)
    envs.reset()
    with pytest.raises(error, match=text):
        envs.reset(options={"reset_mask": mask})
    envs.reset()  # nothing was begun


@pytest.mark.parametrize("options", [5, "text", ["reset_mask"]])
def test_options_are_a_dict(ours: Kind, options: Any) -> None:
    envs = ours(counts())
    with pytest.raises(TypeError, match=r"options is .*: must be a dict, or None"):
        envs.reset(options=options)
    envs.reset()


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (Count, "env_fns is <class .*Count'>: must be a list of functions"),
        (Count(), "env_fns is <.*Count object.*: must be a list of functions"),
        ("CartPole-v1", "env_fns is 'CartPole-v1': must be a list"),
        (None, "env_fns is None"),
        (
            [Count, Count()],
            r"env_fns\[1\] is <.*Count object.*: an env: use the function that makes it",
        ),
        ([5], r"env_fns\[0\] is 5: must be a function"),
    ],
)
@pytest.mark.parametrize("made", [puffervec.gym.SyncVectorEnv, puffervec.gym.AsyncVectorEnv])
def test_env_fns_are_functions(made: Any, given: Any, text: str) -> None:
    with pytest.raises(TypeError, match=text):
        made(given)


@pytest.mark.parametrize("masked", [True, False])
def test_options_and_infos_of_envs_with_and_without_a_seed(kind: Kind, masked: bool) -> None:
    tells = [functools.partial(told, name) for name in "abc"]
    envs = kind(telling(*tells), autoreset_mode=DISABLED)
    envs.reset(seed=0)
    envs.step([0, 0, 0])
    mask = np.array([True, True, not masked])
    _, infos = envs.reset(seed=[5, None, 6], options={"o": 1, "reset_mask": mask})
    assert envs.get_attr("options") == ({"o": 1}, {"o": 1}, None if masked else {"o": 1})
    assert infos["who"].tolist() == ["a", "b", None if masked else "c"]
    assert infos["_step"].tolist() == infos["_who"].tolist() == mask.tolist()


def told(name: str, when: str, step: int) -> dict[str, Any]:
    """A number and a text."""
    return {"who": name, "step": step}
