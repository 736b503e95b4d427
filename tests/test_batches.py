# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Batches (puffervec/vec/settings.py, any_order.py): in whatever order they come, each env's own
results are the same bytes.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import puffervec
from puffervec._ffi import lib
from puffervec.errors import CallOrderError, ConfigError
from puffervec.vec.settings import check_settings
from puffervec.vec.vector_env import VectorEnv
from tests.helpers import ManyInOne
from tests.mock_envs import MULTI, SINGLE
from tests.python_envs import Counting

pytestmark = pytest.mark.usefixtures("no_leaks")

ENVS, TURNS, SEED = 12, 25, 8

CASES: dict[str, tuple[Any, dict[str, Any]]] = {
    "probe": ("probe", {"num_agents": 2, "leave": 1, "end_kind": 2, "episode_length": 4}),
    "two groups": ("probe", {"mode": 1, "num_agents": 2, "episode_length": 3}),
    "Python": (SINGLE["mixed-dict"], {}),
    "parallel": (next(factory for name, factory in MULTI.items() if name.endswith("leaving")), {}),
}

IN_ORDER = [{"zero_copy": True}, {"zero_copy": False}]
FREE = [{"sync_traj": False}, {"sync_traj": False, "zero_copy": False}]
LAYOUTS: list[dict[str, Any]] = [
    # PufferLib's settings: all workers, blocks of workers, one worker, whoever is ready
    *({"num_workers": workers, **order} for workers in (1, 3) for order in IN_ORDER),
    *(
        {"num_workers": 6, "batch_size": size, **order}
        for size in (2, 4, 6)
        for order in [*IN_ORDER, *FREE]
    ),
    {"num_workers": 12, "batch_size": 1, "sync_traj": False},
    {
        "num_workers": 4,
        "batch_size": 9,
        "sync_traj": False,
        "zero_copy": False,
    },  # no divisor of the number of envs
    # our own: any number of buffers, by workers or by envs
    *({"num_workers": 6, "num_buffers": buffers} for buffers in (2, 3, 6)),
    *(
        {"num_workers": workers, "num_buffers": buffers, "split": "envs"}
        for workers, buffers in ((1, 3), (2, 4), (3, 4), (1, 12))
    ),
]


def own_actions(vec: VectorEnv) -> dict[str, np.ndarray]:
    """Return {group: (TURNS, envs, agents, ...)}: what each env is given at its own turns."""
    found = {}
    for g, group in enumerate(vec.spec.groups):
        rng = np.random.default_rng(g)
        space = group.action_space
        space.seed(int(rng.integers(1000)))
        drawn = np.array([space.sample() for _ in range(TURNS * vec.num_envs * group.agents)])
        found[group.name] = drawn.reshape(TURNS, vec.num_envs, group.agents, *drawn.shape[1:])
    return found


def by_group(value: Any, vec: VectorEnv) -> dict[str, Any]:
    return value if vec.num_groups > 1 else {vec.spec.groups[0].name: value}


def leaf_rows(rows: Any, picked: slice) -> bytes:
    """Return the bytes of some rows of an array, or of a dict of arrays."""
    if isinstance(rows, dict):
        return b"".join(leaf_rows(part, picked) for part in rows.values())
    return bytes(np.ascontiguousarray(rows[picked]).tobytes())


def of_env(vec: VectorEnv, result: Any, position: int) -> bytes:
    """Return all that a result says about the env at a position of the batch."""
    said = b""
    for array in (*result[:4], *result[5:]):
        for name, rows in by_group(array, vec).items():
            agents = next(group.agents for group in vec.spec.groups if group.name == name)
            said += leaf_rows(rows, slice(position * agents, (position + 1) * agents))
    env = int(vec.env_ids[position])
    if isinstance(result[4].episodes, np.ndarray) and len(result[4].episodes):
        said += b"".join(
            sorted(record.tobytes() for record in result[4].episodes if record["env"] == env)
        )
    return said + repr(sorted(result[4].per_env(len(vec.env_ids))[position].items())).encode()


@cache
def expected(name: str) -> list[list[bytes]]:
    """What each env shows, turn by turn, in one batch in this process."""
    env, kwargs = CASES[name]
    with puffervec.make(env, env_kwargs=kwargs, backend="serial", num_envs=ENVS) as vec:
        table, told = own_actions(vec), []
        vec.async_reset(SEED)
        for turn in range(TURNS):
            result = vec.recv()
            told.append([of_env(vec, result, position) for position in range(ENVS)])
            given = {
                group: rows[turn].reshape(-1, *rows.shape[3:]) for group, rows in table.items()
            }
            vec.send(given if vec.num_groups > 1 else next(iter(given.values())))
        vec.recv()
    return told


def play(vec: VectorEnv, name: str, batches: int) -> list[int]:
    """Receive that many batches, compare each env with `expected`; return how many turns each env
    has had.
    """
    table, turns = own_actions(vec), [0] * ENVS
    vec.async_reset(SEED)
    for _ in range(batches):
        result = vec.recv()
        for position, env in enumerate(vec.env_ids.tolist()):
            assert of_env(vec, result, position) == expected(name)[turns[env]][env], (
                f"env {env}, turn {turns[env]}"
            )
        ids = np.sort(
            np.concatenate([np.ravel(part) for part in by_group(result[5], vec).values()])
        )
        agents = vec.spec.agents
        assert ids.tolist() == sorted(
            env * agents + slot for env in vec.env_ids.tolist() for slot in range(agents)
        )
        assert len(ids) == vec.agents_per_batch
        given = {}
        for group, rows in table.items():
            chosen = np.concatenate([rows[min(turns[env], TURNS - 1), env] for env in vec.env_ids])
            given[group] = chosen
        for env in vec.env_ids:
            turns[env] += 1
        if max(turns) == TURNS:
            break
        vec.send(given if vec.num_groups > 1 else next(iter(given.values())))
    return turns


def cases() -> list[Any]:
    """Every third layout with one kind of envs; all with all four where slow tests run."""
    kinds = ("probe", "Python", "two groups", "parallel")
    return [
        pytest.param(
            name,
            layout,
            id=" ".join([name, *(f"{key}={value}" for key, value in layout.items())]),
            marks=[pytest.mark.slow] if i % 3 or (i + k) % 4 else [],
        )
        for i, layout in enumerate(LAYOUTS)
        for k, name in enumerate(kinds)
    ]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "layout"), cases())
def test_every_env_is_exact_whatever_the_order(name: str, layout: dict[str, Any]) -> None:
    if name == "parallel":
        pytest.importorskip("pettingzoo")
    env, kwargs = CASES[name]
    if isinstance(env, str):
        way = {"backend": "threading"}
    else:
        many = (
            layout["num_workers"] == 12 or layout.get("num_buffers") == 12
        )  # so many processes would only be slower
        way = (
            {"backend": ManyInOne}
            if many
            else {"backend": "multiprocessing", "start_method": "fork"}
        )
    with puffervec.make(env, env_kwargs=kwargs, num_envs=ENVS, **layout, **way) as vec:
        size = len(vec.halves[0].env_ids) * vec.settings.batch_halves
        turns = play(vec, name, 10 * ENVS // size)
        assert sum(turns) >= TURNS  # the quickest env may have had all of its turns
        if vec.settings.order == "strict":
            assert min(turns) == max(turns) == 10


def test_several_batches_may_be_held_and_are_sent_in_the_order_received() -> None:
    for order in (
        {"sync_traj": True},
        {"sync_traj": False},
        {"sync_traj": False, "zero_copy": False},
    ):
        with puffervec.make(
            "probe", num_envs=6, batch_size=2, num_workers=6, backend="threading", **order
        ) as vec:
            vec.async_reset(0)
            batches = []
            for _ in range(3):
                vec.recv()
                batches.append(vec.env_ids.tolist())
            assert sorted(sum(batches, [])) == list(range(6))
            with pytest.raises(CallOrderError, match="recv: .*call send first"):
                vec.recv()
            for batch in batches:
                vec.send([env % 5 for env in batch])
            with pytest.raises(CallOrderError, match="send: .*call recv first"):
                vec.send([0, 0])
            for _ in range(3):
                observations = vec.recv()[0]
                assert observations[:, 4].tolist() == [env % 5 for env in vec.env_ids]


@pytest.mark.slow
@pytest.mark.parametrize(
    "order",
    [{"sync_traj": True}, {"sync_traj": False}, {"sync_traj": False, "zero_copy": False}],
    ids=str,
)
@pytest.mark.parametrize("backend", ["serial", "threading", "multiprocessing"])
def test_calls_out_of_order(backend: str, order: dict[str, Any]) -> None:
    workers = {} if backend == "serial" else {"num_workers": 2}
    with puffervec.make(
        "probe", backend=backend, num_envs=4, batch_size=2, start_method="fork", **workers, **order
    ) as vec:  # fmt: skip
        with pytest.raises(CallOrderError, match="recv: .*call async_reset"):
            vec.recv()
        with pytest.raises(CallOrderError, match="send: .*call (async_reset|recv)"):
            vec.send([0, 0])
        for call in (lambda: vec.reset(0), lambda: vec.step([0, 0])):
            with pytest.raises(
                CallOrderError,
                match=r"needs num_buffers=1 \(batch_size=num_envs\), but num_buffers is 2: use",
            ):
                call()
        vec.async_reset(0)
        with pytest.raises(CallOrderError, match="send: .*call recv first"):
            vec.send([0, 0])
        vec.recv(), vec.recv()
        with pytest.raises(CallOrderError, match="recv: .*call send first"):
            vec.recv()
        vec.async_reset(5)  # drops both
        assert sorted([*vec.recv()[0][:, 0], *vec.recv()[0][:, 0]]) == [5, 6, 7, 8]


# ---- settings ------------------------------------------------------------------------------------


def settings(**given: Any) -> Any:
    return check_settings(**{"num_envs": 12, "num_workers": 6, **given})


@pytest.mark.parametrize(
    ("given", "order", "buffers", "workers", "halves"),
    [
        ({}, "strict", 1, 6, 1),
        ({"batch_size": 12}, "strict", 1, 6, 1),
        ({"batch_size": "auto"}, "strict", 2, 6, 1),
        ({"batch_size": 2}, "strict", 6, 6, 1),
        ({"batch_size": 2, "sync_traj": False}, "ready", 6, 6, 1),
        ({"batch_size": 2, "zero_copy": False}, "strict", 6, 6, 1),
        ({"batch_size": 4, "sync_traj": False, "zero_copy": False}, "first_come", 6, 6, 2),
        ({"batch_size": 10, "sync_traj": False, "zero_copy": False}, "first_come", 6, 6, 5),
        ({"batch_size": 4, "num_workers": 3}, "strict", 3, 3, 1),
        ({"batch_size": 3, "num_workers": "auto", "in_process": True}, "strict", 4, 4, 1),
        ({"num_workers": 3, "overwork": True}, "strict", 1, 3, 1),
    ],
    ids=str,
)
def test_what_pufferlibs_settings_come_to(
    given: dict[str, Any], order: str, buffers: int, workers: int, halves: int
) -> None:
    found = settings(**given)
    assert (found.order, found.num_buffers, found.num_workers, found.batch_halves) == (
        order,
        buffers,
        workers,
        halves,
    )
    assert found.copy == (not given.get("zero_copy", True))


@pytest.mark.parametrize("size", [1, 2, 3, 4, 6, 12, "auto", None])
@pytest.mark.parametrize("cores", [1, 2, 8])
def test_auto_workers_fit_every_batch_size(
    size: Any, cores: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("puffervec.vec.settings.usable_cores", lambda: cores)
    for order in (
        {"sync_traj": True},
        {"sync_traj": False},
        {"sync_traj": False, "zero_copy": False},
    ):
        for in_process in (False, True):
            found = check_settings(num_envs=12, batch_size=size, in_process=in_process, **order)
            assert 1 <= found.num_workers <= 12 and 12 % found.num_buffers == 0
            per_batch = 12 // found.num_buffers * found.batch_halves
            assert per_batch == {"auto": 6, None: 12}.get(size, size)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"batch_size": 0}, "batch_size is 0: use 1 to 12"),
        ({"batch_size": 13}, "batch_size is 13: use 1 to 12"),
        (
            {"batch_size": 5, "num_workers": 12},
            "num_envs is 12, not a multiple of batch_size 5: .*zero_copy=False with "
            "sync_traj=False",
        ),
        ({"batch_size": 8, "sync_traj": False}, "num_envs is 12, not a multiple of batch_size 8"),
        (
            {"batch_size": 4, "num_workers": 5},
            "num_envs is 12, not a multiple of num_workers 5: batches need the same",
        ),
        (
            {"batch_size": 3, "num_workers": 6},
            "batch_size is 3, not a multiple of the 2 envs of a worker",
        ),
        (
            {"batch_size": 5, "num_workers": 6, "zero_copy": False, "sync_traj": False},
            "batch_size is 5, not a multiple of the 2 envs",
        ),
        (
            {"batch_size": 6, "num_buffers": 2},
            "batch_size is 6 with num_buffers=2 .*use one or the other",
        ),
        ({"batch_size": 6, "split": "envs"}, "with num_buffers=1 and split='envs'"),
        ({"zero_copy": 1}, "zero_copy is 1: use True or False"),
        (
            {"num_buffers": 4, "split": "workers"},
            "num_workers is 6: use a multiple of the 4 buffers",
        ),
    ],
    ids=str,
)
def test_unusable_settings_say_why(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        settings(**given)


def test_as_many_buffers_as_there_may_be() -> None:
    with puffervec.make(
        "probe", num_envs=256, num_buffers=256, split="envs", num_workers=1, backend="threading"
    ) as vec:
        vec.async_reset(0)
        for step in range(2):
            for half in range(256):
                observations = vec.recv()[0]
                assert observations[0, [0, 2]].tolist() == [half, step]
                vec.send([0])
        for _ in range(256):
            vec.recv()


def test_masked_resets_of_two_halves_do_not_lose_each_other() -> None:
    """The second is asked for before the workers of the first have looked."""
    with puffervec.make(
        "probe", num_envs=4, backend=ManyInOne, num_buffers=2, num_workers=2, split="workers"
    ) as vec:
        vec.async_reset(0)
        vec.recv(), vec.recv()
        vec.serving = False
        vec.async_reset(mask=[True, True, False, False])
        vec.async_reset(mask=[False, False, True, True])
        for half in range(2):
            lib.pv_worker_serve(vec.workers.opened + half, half)
        vec.serving = True
        episodes = (
            [vec.peek(env)["episode"].item() for env in range(4)]
            if vec.recv() and vec.recv()
            else []
        )
        assert episodes == [1, 1, 1, 1]


def test_notify_waits_for_turns_that_are_under_way() -> None:
    class Told(Counting):
        told = 0

        def notify(self) -> None:
            self.told += 1

    with puffervec.make(Told, num_envs=4, backend="serial", num_buffers=2) as vec:
        vec.async_reset(0)
        vec.recv()
        vec.notify()  # half 1 is not received yet
        vec.send([0, 0])
        vec.recv()
        vec.send([0, 0])
        vec.recv(), vec.recv()
        assert vec.get_attr("told") == (1, 1, 1, 1)
