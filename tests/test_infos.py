# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Infos of a batch (puffervec/core/infos.py), and how those of Python envs come there: numbers
without the mailbox.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import puffervec
from puffervec.core import info_area
from puffervec.core.infos import NO_INFOS, Infos
from puffervec.errors import WorkerError
from puffervec.vec.vector_env import VectorEnv
from puffervec.workers.python import mailbox
from tests.helpers import ManyInOne, serial

pytestmark = pytest.mark.usefixtures("no_leaks")

# ---- what is no info -----------------------------------------------------------------------------


class Odd(gymnasium.Env[Any, Any]):
    """Its info is something odd, from its second step on."""

    observation_space, action_space = spaces.Box(-1, 1, (1,)), spaces.Discrete(2)

    def __init__(self, info: Callable[[], Any] | None = None) -> None:
        self.info, self.t = info, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        self.t = 0
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> Any:
        self.t += 1
        return (
            np.zeros(1, np.float32),
            0.0,
            False,
            False,
            self.info() if self.info is not None and self.t == 2 else {},
        )


class Explodes:
    """Can be pickled, and not made again."""

    def __reduce__(self) -> Any:
        return int, ("not a number",)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["serial", "multiprocessing"])
@pytest.mark.parametrize(
    ("info", "words"),
    [(lambda: [{"a": 1}], r"info is \[\{'a': 1\}\] \(list\)"), (lambda: "text", "info is 'text'")],
)
def test_an_info_that_is_no_dict_names_its_env(
    info: Callable[[], Any], words: str, backend: str
) -> None:
    envs = [Odd, Odd, functools.partial(Odd, info), Odd]
    with puffervec.make(
        envs,
        num_envs=4,
        backend=backend,
        num_workers="auto" if backend == "serial" else 2,
        start_method="fork",
    ) as vec:
        vec.reset(seed=0)
        vec.step([0] * 4)
        with pytest.raises(WorkerError, match=f"env 2, step 2: TypeError: {words}") as caught:
            vec.step([0] * 4)
        assert caught.value.env == 2


def test_an_info_that_the_learner_cannot_read_names_its_env_and_a_reset_helps() -> None:
    envs = [
        Odd,
        functools.partial(Odd, lambda: {"fine": "text"}),
        functools.partial(Odd, lambda: {"odd": Explodes()}),
        Odd,
    ]
    with puffervec.make(envs, num_envs=4, num_workers=1, start_method="fork") as vec:
        vec.reset(seed=0)
        vec.step([0] * 4)
        vec.send([0] * 4)
        for _ in range(2):
            with pytest.raises(
                WorkerError,
                match="worker 0, env 2: its info was sent, but cannot be read.*ValueError",
            ) as caught:
                vec.recv()
            assert caught.value.env == 2 and isinstance(caught.value.__cause__, ValueError)
        vec.reset(seed=0)
        assert not vec.step([0] * 4)[4]


def test_an_answer_that_the_learner_cannot_read_is_a_named_error() -> None:
    with puffervec.make(
        functools.partial(Odd, Explodes), num_envs=2, num_workers=1, start_method="fork"
    ) as vec:
        vec.reset(seed=0)
        with pytest.raises(
            WorkerError, match="worker 0: the answers of its envs 0 to 1 cannot be read"
        ):
            vec.call("info")
        vec.step([0, 0])


# ---- the object ----------------------------------------------------------------------------------


def columns(
    **given: tuple[list[Any], list[int]],
) -> dict[tuple[str, ...], tuple[np.ndarray, np.ndarray]]:
    return {
        tuple(name.split("__")): (np.array(v), np.array(p, np.bool_))
        for name, (v, p) in given.items()
    }


def test_nothing_is_false_empty_and_equal_to_an_empty_list() -> None:
    for infos in (NO_INFOS, Infos()):
        assert not infos and len(infos) == 0 and list(infos) == [] and infos == []
        assert infos.numeric == {} and len(infos.episodes) == 0 and not infos.others
        assert infos.per_env(3) == [{}, {}, {}] and repr(infos) == "[]"
    assert not NO_INFOS.episodes.flags.writeable


def test_envs_come_in_order_with_numbers_and_others_merged() -> None:
    infos = Infos(
        numeric=columns(
            a=([1, 0, 3], [1, 0, 1]),
            n__x=([0.0, 2.5, 4.5], [0, 1, 1]),
            b=([True, False, False], [1, 0, 0]),
        ),
        others=[(2, {"n": {"s": "text"}, "list": [1]}), (0, {"o": None})],
    )
    per_env = [
        {"a": 1, "b": True, "o": None},
        {"n": {"x": 2.5}},
        {"a": 3, "n": {"x": 4.5, "s": "text"}, "list": [1]},
    ]
    assert infos.per_env(3) == per_env and infos.per_env(4) == [*per_env, {}]
    assert (
        infos
        and len(infos) == 3
        and list(infos) == per_env
        and infos[1] == per_env[1]
        and infos[-2:] == per_env[1:]
    )
    assert (
        infos == per_env
        and infos == Infos(numeric=infos.numeric, others=infos.others)
        and infos != per_env[:2]
    )
    assert [type(infos[0]["a"]), type(infos[0]["b"]), type(infos[1]["n"]["x"])] == [
        int,
        bool,
        float,
    ]


def test_merging_changes_nothing_that_an_env_holds() -> None:
    """In one process the dict is the env's own."""
    inner = {"s": "x"}
    own = {"n": inner, "array": np.zeros(2)}
    infos = Infos(numeric=columns(n__x=([1], [1])), others=[(0, own)])
    assert infos.per_env(1)[0]["n"] == {"s": "x", "x": 1}
    assert inner == {"s": "x"} and infos.per_env(1)[0]["array"] is own["array"]


def test_two_dicts_of_an_env_are_one() -> None:
    infos = Infos(
        others=[(0, {"final_info": {"why": "a"}}), (0, {"start": "b", "final_info": {"how": "c"}})]
    )
    assert list(infos) == [{"final_info": {"why": "a", "how": "c"}, "start": "b"}]


def test_lists_of_dicts_follow_each_other() -> None:
    infos = Infos(
        others=[(1, [{"score": 1.0}, {"score": 2.0}]), (0, [{"lap": 3}])],
        numeric=columns(k=([0, 0, 7], [0, 0, 1])),
    )
    assert list(infos) == [{"lap": 3}, {"score": 1.0}, {"score": 2.0}, {"k": 7}]


def test_episodes_of_a_c_env() -> None:
    with serial("probe", {"episode_length": 2, "num_agents": 2}, num_envs=3) as vec:
        assert vec.reset(seed=0)[1] is NO_INFOS
        assert vec.step([0] * 6)[4] is NO_INFOS
        infos = vec.step([0] * 6)[4]
        assert [info["env"] for info in infos] == [0, 1, 2] == infos.episodes["env"].tolist()
        assert all(info["episode_length"] == 2 for info in infos) and infos.numeric == {}


# ---- from Python envs ----------------------------------------------------------------------------


class Telling(gymnasium.Env[Any, Any]):
    """Says at each step what it was told to, by the number of the step; reset is step 0."""

    observation_space, action_space = spaces.Box(0, 1, (1,)), spaces.Discrete(2)

    def __init__(self, told: Callable[[int], Any]) -> None:
        self.told, self.at = told, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, Any]:
        self.at = 0
        return np.zeros(1, np.float32), self.told(0)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, Any]:
        self.at += 1
        return np.zeros(1, np.float32), 0.0, False, False, self.told(self.at)


def telling(*told: Callable[[int], Any], **settings: Any) -> VectorEnv:
    """A vec env with one env for each of the functions."""
    creators = [functools.partial(Telling, one) for one in told]
    return puffervec.make(
        creators, num_envs=len(told), **{"backend": ManyInOne, "num_workers": 1, **settings}
    )


@pytest.fixture
def posts(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """Everything that is put into a mailbox of this process."""
    found: list[Any] = []
    post = mailbox.Slot.post

    def spy(self: mailbox.Slot, message: Any) -> None:
        found.append(message)
        post(self, message)

    monkeypatch.setattr(mailbox.Slot, "post", spy)
    yield found


def scored(step: int) -> dict[str, Any]:
    return {"turn": step, "deep": {"score": step / 2, "good": step > 1}}


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_numbers_cross_without_the_mailbox(posts: list[Any], workers: int) -> None:
    with telling(scored, lambda step: {}, lambda step: {"turn": -step}, num_workers=workers) as vec:
        vec.reset(seed=0)
        for step in (1, 2):
            infos = vec.step([0, 0, 0])[4]
            assert infos.per_env(3) == [scored(step), {}, {"turn": -step}]
            assert infos.numeric["turn",][0].tolist() == [step, 0, -step] and not infos.others
    assert posts == []


def test_nothing_reported_touches_neither_slab_nor_mailbox(
    posts: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with telling(lambda step: {}, lambda step: {}) as vec:
        vec.reset(seed=0)
        for name in ("put", "_put", "_number"):
            monkeypatch.setattr(
                info_area.InfoWriter, name, lambda *given: pytest.fail("an info was written")
            )
        monkeypatch.setattr(info_area, "gather", lambda *given: pytest.fail("infos were read"))
        assert vec.step([0, 0])[4] is NO_INFOS and vec.step([0, 0])[4] is NO_INFOS
    assert posts == []


def test_arrays_and_texts_cross_beside_numbers(posts: list[Any]) -> None:
    picture = np.arange(6).reshape(2, 3)
    with telling(
        lambda step: {"turn": step, "map": picture, "name": "left"}, lambda step: {"turn": 2 * step}
    ) as vec:
        vec.reset(seed=0)
        infos = vec.step([0, 0])[4]
        assert [position for position, _ in infos.others] == [0]
        found = infos.per_env(2)
        assert (
            (found[0]["map"] == picture).all()
            and found[0]["name"] == "left"
            and found[0]["turn"] == 1
        )
        assert found[1] == {"turn": 2}
    assert len(posts) == 2  # one for the reset, one for the step


@pytest.mark.parametrize(
    "layout",
    [{"num_workers": 2}, {"num_workers": 4, "num_buffers": 2}, {"num_buffers": 2, "split": "envs"}],
)
def test_positions_are_those_of_the_batch(layout: dict[str, Any]) -> None:
    told = [
        lambda step, env=env: {"env": env, "name": f"env {env}"} if env % 2 else {}
        for env in range(6)
    ]
    with telling(*told, **layout) as vec:
        vec.async_reset(0)
        for _ in range(2 * vec.num_buffers):
            infos = vec.recv()[4]
            expected = [{"env": i, "name": f"env {i}"} if i % 2 else {} for i in vec.env_ids]
            assert infos.per_env(len(vec.env_ids)) == expected and list(infos) == [
                info for info in expected if info
            ]
            vec.send(None)


def test_more_than_64_keys(posts: list[Any]) -> None:
    many = {f"key {i}": i for i in range(100)}
    with telling(lambda step: many) as vec:
        assert vec.reset(seed=0)[1] == [many]
        infos = vec.step([0])[4]
        assert infos == [many] and len(infos.numeric) == 64 and len(infos.others[0][1]) == 36
    assert len(posts) == 2


def test_kinds_that_change_from_step_to_step() -> None:
    told = [1, 2.5, "three", True, None, np.float32(4), {"x": 5}, {}, [6]]
    with telling(lambda step: {"k": told[step]}) as vec:
        found = [vec.reset(seed=0)[1][0]["k"], *(vec.step([0])[4][0]["k"] for _ in told[1:])]
    assert found == told and [type(k) for k in found[:5]] == [int, float, str, bool, type(None)]


@pytest.mark.slow
@pytest.mark.parametrize("method", ["forkserver"])
def test_infos_of_worker_processes_are_equal(method: str) -> None:
    """All kinds through the slab and the real mailbox; a big one through a pipe would not fit its
    buffer.
    """
    big = np.random.default_rng(0).integers(0, 255, 5_000_000, np.uint8)
    told = [mixed_infos, lambda step: {"big": big} if step == 2 else {}, lambda step: {}]
    with telling(*told, backend="multiprocessing", num_workers=2, start_method=method) as vec:
        assert list(vec.reset(seed=0)[1]) == [mixed_infos(0)]
        for step in range(1, 5):
            infos = vec.step([0, 0, 0])[4]
            found = infos.per_env(3)
            assert found[0] == mixed_infos(step) and found[2] == {}
            assert (found[1]["big"] == big).all() if step == 2 else found[1] == {}


def mixed_infos(step: int) -> dict[str, Any]:
    return {
        "turn": step,
        "nested": {"score": step / 3, "name": f"step {step}"},
        5: ("odd", step),
        "many": list(range(step)),
    }


def test_infos_of_a_dropped_turn_are_dropped() -> None:
    with telling(lambda step: {"step": step, "text": str(step)}) as vec:
        vec.reset(seed=0)
        vec.send([0])
        assert vec.reset()[1] == [{"step": 0, "text": "0"}]
        assert vec.step([0])[4] == [{"step": 1, "text": "1"}]


def test_a_masked_reset_reports_no_old_infos() -> None:
    """The worker without an env to reset is not asked, and what it said the turn before was told
    already.
    """
    told = [lambda step, env=env: {"step": step, "text": f"{env} {step}"} for env in range(4)]
    for workers in (1, 2, 4):
        with telling(*told, num_workers=workers, autoreset_mode="disabled") as vec:
            vec.reset(seed=0)
            vec.step([0] * 4)
            infos = vec.reset(mask=np.array([False, True, False, False]))[1]
            assert infos.per_env(4) == [{}, {"step": 0, "text": "1 0"}, {}, {}]
            infos = vec.step([0] * 4)[4]
            assert [info["step"] for info in infos.per_env(4)] == [2, 1, 2, 2]
