# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""What makes an env (puffervec/workers/python/creators.py): callables, names, lists of them, their
arguments, and PufferLib's buf and seed.
"""

from __future__ import annotations

import functools
import gc
import sys
import weakref
from pathlib import Path
from typing import Any

import gymnasium
import pytest

import puffervec
from puffervec.errors import ConfigError
from puffervec.workers.python.creators import Creator, creators, resolve
from tests.python_envs import Counting

pytestmark = pytest.mark.usefixtures("no_leaks")


def given(**named: Any) -> dict[str, Any]:
    """Return what a factory was called with."""
    return named


def plain(*args: Any) -> Any:
    return args


def named(a: int = 0, *, buf: Any = None, seed: Any = None) -> Any:
    return (a, buf, seed)


def open_ended(**kwargs: Any) -> Any:
    return kwargs


def seed_and_more(seed: Any = 0, **kwargs: Any) -> Any:
    return seed, kwargs


class Base:
    def __init__(self, buf: Any = None, seed: Any = 0) -> None:
        self.got = (buf, seed)


class Passing(Base):
    def __init__(self, size: int = 1, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.size = size


class NoHash:
    """A callable that cannot be a key."""

    __hash__ = None  # type: ignore[assignment]

    def __call__(self, seed: Any = None) -> Any:
        return seed


# ---- one creator ---------------------------------------------------------------------------------


def test_buf_and_seed_go_to_whom_names_them() -> None:
    assert Creator(named, (7,)).make(seed=5, buf="rows") == (7, "rows", 5)
    assert Creator(named).make() == (0, None, None)
    assert Creator(plain, (1, 2)).make(seed=5, buf="rows") == (1, 2)
    assert Creator(open_ended, (), {"x": 1}).make(seed=5, buf="rows") == {
        "x": 1
    }  # a function that takes anything is not asked
    assert Creator(NoHash()).make(seed=4) == 4
    assert Creator(dict, (), {"x": 1}).make(seed=5) == {"x": 1}


def test_pufferlibs_creators_always_get_both() -> None:
    assert Creator(open_ended, (), {"x": 1}, always=True).make(seed=5) == {
        "x": 1,
        "buf": None,
        "seed": 5,
    }
    assert Creator(open_ended, (), {"seed": 1}, always=True).make(seed=5, buf="rows") == {
        "seed": 1,
        "buf": "rows",
    }
    assert Creator(functools.partial(open_ended, seed=2), always=True).make(seed=5) == {
        "seed": 2,
        "buf": None,
    }
    assert Creator(seed_and_more, (8,), always=True).make(seed=5, buf="rows") == (
        8,
        {"buf": "rows"},
    )
    assert Creator(seed_and_more, always=True).make(seed=5, buf="rows") == (5, {"buf": "rows"})
    assert Creator(named, (7,), always=True).make() == (7, None, None)
    assert Creator(plain, (1,), always=True).make(seed=5, buf="rows") == (
        1,
    )  # a function that takes neither
    kwargs = Creator(Passing, (), {"size": 3}, always=True).make(seed=None)
    assert kwargs.got == (None, None)


def test_a_class_that_passes_keywords_on_is_looked_through() -> None:
    made = Creator(Passing, (), {"size": 3}).make(seed=5, buf="rows")
    assert (made.size, made.got) == (3, ("rows", 5))


def test_what_the_user_gives_counts_more() -> None:
    assert Creator(named, (), {"seed": 1}).make(seed=5) == (0, None, 1)
    assert Creator(functools.partial(named, seed=2)).make(seed=5, buf="rows") == (0, "rows", 2)
    assert Creator(functools.partial(named, 9)).make(seed=5) == (9, None, 5)


# ---- one per env ---------------------------------------------------------------------------------


def test_lists_give_each_env_its_own() -> None:
    made = creators([named, plain, named], [[1], [2, 3], []], [{"seed": 9}, {}, {}], 3)
    assert [creator.make() for creator in made] == [(1, None, 9), (2, 3), (0, None, None)]
    shared = creators(
        [named, named], [5], {"seed": 2}, 2
    )  # one argument list and one mapping for both
    assert [creator.make() for creator in shared] == [(5, None, 2)] * 2
    assert [creator.make() for creator in creators((plain, plain), None, None, 2)] == [(), ()]


@pytest.mark.parametrize(
    ("creator", "args", "kwargs", "message"),
    [
        (
            [named],
            None,
            None,
            r"list of env creators has length 1 for num_envs=2: give one per env, or a single one",
        ),
        (
            [named] * 2,
            [[1], [2], [3]],
            None,
            r"env_args has 3 entries for 2 env creators: give one per env",
        ),
        ([named] * 2, None, [{}], r"env_kwargs has 1 entries for 2"),
        (named, None, [{}, {}], r"env_kwargs is \[\{\}, \{\}\]: give a mapping"),
        (named, 5, None, r"env_args is 5: give a list of positional arguments"),
        (named, None, 5, r"env_kwargs is 5"),
        (
            3,
            None,
            None,
            r"env creator 3 is int: give a callable that makes one env, or an env's name",
        ),
        (Counting(), None, None, r"env creator .* is Counting: give a callable"),
    ],
)
def test_what_makes_no_env_is_refused(creator: Any, args: Any, kwargs: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        creators(creator, args, kwargs, 2)
    with pytest.raises(ConfigError, match=message):
        puffervec.make(creator, args, kwargs, backend="serial", num_envs=2)


# ---- names ---------------------------------------------------------------------------------------


def test_a_gymnasium_id() -> None:
    env = resolve("CartPole-v1")(max_episode_steps=7)
    assert env.spec.id == "CartPole-v1" and env.spec.max_episode_steps == 7
    env.close()
    with puffervec.make(
        "CartPole-v1", env_kwargs={"sutton_barto_reward": True}, backend="serial", num_envs=2
    ) as vec:
        vec.reset(seed=0)
        assert vec.step([0, 1])[1].tolist() == [0, 0]
        assert vec.env.name == "CartPole-v1"


def test_module_and_factory() -> None:
    assert resolve("tests.test_creators:named") is sys.modules[__name__].named
    with puffervec.make(
        "tests.python_envs:Counting", env_kwargs={"label": "x"}, backend="serial", num_envs=2
    ) as vec:
        assert vec.get_attr("label") == ("x", "x")


@pytest.mark.slow
def test_a_module_of_the_current_folder_that_registers_an_id_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (
        "import gymnasium\ngymnasium.register('own/Env-v0', "
        "entry_point='tests.python_envs:Counting')\n"
    )
    (tmp_path / "my_own_registering_module.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    try:
        with puffervec.make(
            "my_own_registering_module:own/Env-v0", num_envs=2, num_workers=1
        ) as vec:
            assert vec.env.name == "own/Env-v0" and vec.reset(seed=4)[0][:, 0].tolist() == [4, 5]
    finally:
        gymnasium.registry.pop("own/Env-v0", None)
        sys.modules.pop("my_own_registering_module", None)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "no_such_module:make",
            r"'no_such_module:make': No module named 'no_such_module'.*give module:factory",
        ),
        (
            "tests.test_creators:nothing",
            r"'tests.test_creators:nothing': module 'tests.test_creators' has no 'nothing'",
        ),
        ("sys:path", r"'sys:path' is list: give a callable that makes one env"),
        ("CartPole-v99", r"no env is called 'CartPole-v99'"),
        ("cartpol", r"'cartpol'.*or give a Gymnasium id, module:factory, or a callable"),
    ],
)
def test_a_name_that_nobody_knows(name: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        puffervec.make(name, backend="serial")


def test_a_seed_that_is_given_by_position_is_not_given_again() -> None:
    def make(seed: int, scale: int = 1) -> tuple[int, int]:
        return seed, scale

    assert Creator(make, (3,)).make(seed=9) == (3, 1)
    assert Creator(functools.partial(make, 4)).make(seed=9) == (4, 1)
    assert Creator(make).make(seed=9) == (9, 1)


def test_what_a_creator_holds_is_freed_with_it() -> None:
    class Held:
        pass

    held = Held()
    gone = weakref.ref(held)
    Creator(lambda seed, held=held: held).make(seed=1)
    del held
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("ALE/Nothing-v9", "give ale_py:ALE/Nothing-v9"),
        ("NoSuch/Env-v1", "give PACKAGE:NoSuch/Env-v1"),
        ("folder/my_envs.py:Make", "give folder.my_envs:Make"),
    ],
)
def test_names_that_are_nearly_right_are_answered_with_the_right_one(name: str, words: str) -> None:
    with pytest.raises(ConfigError) as raised:
        resolve(name)
    assert words in str(raised.value)
