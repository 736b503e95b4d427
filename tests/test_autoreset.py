# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The three autoreset modes (csrc/core/autoreset.c, csrc/core/worker.c,
puffervec/workers/python/cells.py) tell one and the same story.

A run is cut into events per env: "reset" with its first rows, "step" with what it led to. Whatever
the mode, the events are equal, if each env gets the same actions at its own steps. Only the turn in
which they show differs.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import puffervec
from puffervec.core.spec import AUTORESET_MODES
from puffervec.errors import CallOrderError, ConfigError
from puffervec.vec.vector_env import VectorEnv
from tests.cases import missing_from
from tests.drive_env.conftest import make_tree
from tests.helpers import ManyInOne, action_table, actions_of, raw_rows, serial, slow_but, thinned
from tests.mock_envs import MULTI, SINGLE
from tests.python_envs import Counting

pytestmark = pytest.mark.usefixtures("no_leaks")

ENVS, TURNS, SEED = 4, 60, 31
OTHERS = ("same_step", "disabled")


@dataclass(frozen=True)
class Case:
    """An env; `blank` sets what may differ between modes in observations, (rows, bytes) uint8, to
    zero.
    """

    env: Any
    kwargs: dict[str, Any] = field(default_factory=dict)
    blank: Callable[[np.ndarray], None] = lambda rows: None


def without_clock(rows: np.ndarray) -> None:
    """The probe's eighth number counts turns, in which the modes differ."""
    rows[:, 28:32] = 0


PROBE = {"num_agents": 4, "leave": 1, "end_kind": 2, "episode_length": 5}
CASES = {
    "probe": Case("probe", PROBE, without_clock),
    "probe, all leave together": Case(
        "probe", {**PROBE, "leave": 0, "episode_length": 3}, without_clock
    ),
    "probe, episodes of one step": Case(
        "probe", {"episode_length": 1, "end_kind": 2}, without_clock
    ),
    "probe, two groups": Case("probe", {**PROBE, "mode": 1, "num_agents": 3}),
    "tag": Case(
        "tag_grid", {"num_taggers": 3, "grid_length": 3, "episode_length": 9, "random_starts": True}
    ),
    "tag continuous": Case(
        "tag_continuous",
        {
            "num_taggers": 2,
            "num_runners": 4,
            "grid_length": 3.0,
            "episode_length": 9,
            "tagging_distance": 0.1,
        },
    ),
    "cartpole": Case("cartpole", {"max_episode_steps": 13}),
    "covid": Case("covid", {"episode_length": 9, "action_cooldown_period": 2}),
    "drive": Case("drive", {"num_agents": 2, "max_steps": 9, "control": 1}),
    "mock": Case(SINGLE["mixed-dict"]),
    "Counting": Case(Counting),
}
PLAIN = missing_from(CASES.values())
CASES |= {env: Case(env) for env in PLAIN}
NATIVE = ["probe", "probe, two groups", "tag", "tag continuous", "cartpole", "covid", *PLAIN]
PARALLEL = {name: Case(factory) for name, factory in list(MULTI.items())[::12]}


@pytest.fixture
def scenes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A folder with one scene of two cars."""
    monkeypatch.setenv("PUFFERVEC_CACHE", str(tmp_path / "cache"))
    (tmp_path / "scenes").mkdir()
    (tmp_path / "scenes" / "tiny.json").write_text(json.dumps(make_tree()))
    return str(tmp_path / "scenes")


# ---- events --------------------------------------------------------------------------------------


def array_of(vec: VectorEnv, array: str, group: str) -> np.ndarray:
    """Return the bytes of an array of half 0 as (rows, bytes per row)."""
    at = vec.halves[0]
    if array == "final_observations":
        g = list(at.groups).index(group)
        spec = at.groups[group].spec
        size = at.groups[group].rows * spec.observation_bytes
        return np.frombuffer(
            vec.rows.buffer, np.uint8, size, vec.rows.slab.halves[0].groups[g].final_observations
        ).reshape(-1, spec.observation_bytes)
    return raw_rows(vec, 0, array, group)


def rows_of(
    vec: VectorEnv, array: str, env: int, blank: Callable[[np.ndarray], None]
) -> list[np.ndarray]:
    """Return copies of an env's rows of an array, by group."""
    found = []
    for group in vec.spec.groups:
        if array == "action_masks" and not group.action_mask_size:
            continue
        rows = array_of(vec, array, group.name)[
            env * group.agents : (env + 1) * group.agents
        ].copy()
        if array.endswith("observations") and rows.size:
            blank(rows)
        found.append(rows)
    return found


def joined(parts: list[np.ndarray]) -> np.ndarray:
    return np.concatenate([part[:, 0] for part in parts]).astype(bool)


class Story:
    """The events of each env, as bytes."""

    def __init__(self, vec: VectorEnv, blank: Callable[[np.ndarray], None]) -> None:
        self.vec, self.blank = vec, blank
        self.events: list[list[tuple[str, bytes]]] = [[] for _ in range(vec.num_envs)]
        self.live = [np.zeros(0, bool)] * vec.num_envs

    def rows(self, array: str, env: int) -> list[np.ndarray]:
        return rows_of(self.vec, array, env, self.blank)

    def reset(self, env: int) -> None:
        """The rows of `env` are the first of an episode."""
        arrays = ("observations", "masks", "agent_types", "action_masks")
        self.events[env].append(
            ("reset", b"".join(part.tobytes() for name in arrays for part in self.rows(name, env)))
        )
        self.live[env] = joined(self.rows("masks", env))

    def step(self, env: int, over: bool | None) -> bool:
        """`env` took a step. Returns whether it is over; `over` says so where agents join and rows
        alone cannot tell.
        """
        done = joined(self.rows("terminals", env)) | joined(self.rows("truncations", env))
        over = bool(done[self.live[env]].all()) if over is None else over
        there = self.live[env] if over else joined(self.rows("masks", env))
        last = (
            self.rows("final_observations", env) if self.vec.autoreset_mode == "same_step" else []
        )
        seen = []
        first = 0
        for g, rows in enumerate(self.rows("observations", env)):
            span = slice(first, first + len(rows))
            if last:
                rows[done[span]] = last[g][done[span]]
            rows[~there[span]] = 0  # empty rows: of the next episode already, where that has begun
            seen.append(rows)
            first += len(rows)
        flags = [
            part
            for name in ("rewards", "terminals", "truncations")
            for part in self.rows(name, env)
        ]
        self.events[env].append(("step", b"".join(part.tobytes() for part in [*flags, *seen])))
        self.live[env] = there & ~done
        return over


def own_actions(vec: VectorEnv, seed: int = 3) -> Callable[[list[int]], Any]:
    """Return a function of each env's own step number that gives the actions of a turn."""
    plan = vec.spec.groups[0].action_plan
    if plan is not None:
        vec.single_action_space.seed(seed)
        drawn = np.array(
            [
                [vec.single_action_space.sample() for _ in range(vec.num_agents)]
                for _ in range(TURNS)
            ]
        )
        drawn = drawn.reshape(TURNS, vec.num_envs, -1, *plan.row_shape)
        return lambda steps: np.concatenate([drawn[step, env] for env, step in enumerate(steps)])
    table = action_table(vec, TURNS, seed)

    def of(steps: list[int]) -> Any:
        given = {}
        for group in vec.spec.groups:
            rows = table[group.name].reshape(TURNS, vec.num_envs, group.agents, -1)
            chosen = np.concatenate([rows[step, env] for env, step in enumerate(steps)])
            given[group.name] = chosen[:, 0] if group.action_kind == "discrete" else chosen
        return given if len(given) > 1 else next(iter(given.values()))

    return of


def story(
    case: Case, mode: str, **settings: Any
) -> tuple[list[list[tuple[str, bytes]]], list[list[Any]]]:
    """Return the events of each env, and its episode records (C envs)."""
    settings = {"backend": "serial", "num_envs": ENVS, **settings}
    kwargs = case.kwargs or None
    with puffervec.make(case.env, env_kwargs=kwargs, autoreset_mode=mode, **settings) as vec:
        told, actions = Story(vec, case.blank), own_actions(vec)
        records: list[list[Any]] = [[] for _ in range(ENVS)]
        steps, over = [0] * ENVS, [False] * ENVS
        ended = parallel_ends(vec) if case.env in MULTI.values() else None
        vec.reset(seed=SEED)
        for env in range(ENVS):
            told.reset(env)
        for _ in range(TURNS):
            infos = vec.step(actions(steps))[4]
            for record in infos.episodes:
                records[record["env"]].append(
                    [record[name].item() for name in ("slot", "length", "return")]
                )
            for env in range(ENVS):
                if over[env] and mode == "next_step":
                    over[env] = False
                    told.reset(env)
                    continue
                over[env] = told.step(env, ended and ended(env))
                steps[env] += 1
                if over[env] and mode == "same_step":
                    told.reset(env)
            if mode == "disabled" and any(over):
                vec.reset(mask=np.array(over))
                for env in np.flatnonzero(over):
                    told.reset(env)
        return told.events, records


def parallel_ends(vec: VectorEnv) -> Callable[[int], bool]:
    """Return a function that tells whether a mock parallel env was over after its last step."""
    envs = vec.get_attr("unwrapped")  # in this process: the envs themselves
    seen = [0] * vec.num_envs

    def ended(env: int) -> bool:
        if vec.autoreset_mode != "same_step":
            return not envs[env].agents
        before, seen[env] = seen[env], envs[env].history.episode
        return seen[env] != before

    return ended


def compare(case: Case, mode: str, least_ends: int = 2) -> None:
    expected, expected_records = story(case, "next_step")
    found, records = story(case, mode)
    for env in range(ENVS):
        count = min(len(found[env]), len(expected[env]))
        assert found[env][:count] == expected[env][:count], f"env {env}"
        assert [kind for kind, _ in found[env][:count]].count("reset") > least_ends
        count = min(len(records[env]), len(expected_records[env]))
        assert records[env][:count] == expected_records[env][:count]


@pytest.mark.parametrize("mode", OTHERS)
@pytest.mark.parametrize("name", CASES)
def test_all_modes_tell_the_same_story(
    name: str, mode: str, request: pytest.FixtureRequest
) -> None:
    case = CASES[name]
    if name == "drive":
        case = Case("drive", {**case.kwargs, "scenes": request.getfixturevalue("scenes")})
    compare(case, mode)


@pytest.mark.parametrize("mode", OTHERS)
@pytest.mark.parametrize("name", thinned(3, PARALLEL))
def test_parallel_envs_tell_the_same_story(name: str, mode: str) -> None:
    pytest.importorskip("pettingzoo")
    compare(PARALLEL[name], mode)


# ---- final observations --------------------------------------------------------------------------


@pytest.mark.parametrize("copy", [False, True])
def test_final_observations_have_the_shape_of_the_observations(copy: bool) -> None:
    for env, kwargs in (("probe", {}), ("probe", {"mode": 1}), (Counting, None)):
        for mode in AUTORESET_MODES:
            with puffervec.make(
                env, None, kwargs, "serial", 3, autoreset_mode=mode, copy=copy
            ) as vec:
                observations = vec.reset(seed=0)[0]
                if mode != "same_step":
                    assert vec.final_observations is None
                    continue
                pairs = zip(leaves(observations), leaves(vec.final_observations), strict=True)
                for mine, last in pairs:
                    assert (mine.shape, mine.dtype) == (last.shape, last.dtype)
                    assert np.shares_memory(last, vec.halves[0].block) != copy


def leaves(value: Any) -> list[np.ndarray]:
    return (
        [leaf for part in value.values() for leaf in leaves(part)]
        if isinstance(value, dict)
        else [value]
    )


def test_final_observations_are_those_of_the_batch_last_received() -> None:
    with puffervec.make("probe", env_kwargs={"episode_length": 2}, backend="serial", num_envs=4,
                        num_buffers=2, autoreset_mode="same_step") as vec:  # fmt: skip
        vec.async_reset(50)
        for _ in range(2 * 3):
            vec.recv()
            vec.send([1, 2])
        for _ in range(2):
            assert not vec.recv()[2].any()
        for _ in range(2):
            vec.send([1, 2])
        for half in range(2):
            observations, _, terminals, *_ = vec.recv()
            assert terminals.all() and vec.half == half
            assert vec.final_observations[:, [0, 2, 4]].tolist() == [
                [50 + 2 * half, 2, 1],
                [51 + 2 * half, 2, 2],
            ]
            assert observations[:, [0, 2, 4]].tolist() == [
                [50 + 2 * half, 0, 0],
                [51 + 2 * half, 0, 0],
            ]


# ---- equal bytes, whoever runs the envs ----------------------------------------------------------

WAYS: list[dict[str, Any]] = [
    {"backend": ManyInOne, "num_workers": 3},
    {"backend": "threading", "num_workers": 2},
    {"num_workers": 2, "start_method": "forkserver"},
    {"backend": "threading", "num_workers": 4, "num_buffers": 2},
    {"num_workers": 2, "num_buffers": 2, "split": "envs", "start_method": "forkserver"},
]


def digests(
    env: Any, kwargs: Any, mode: str, seed: int = 5, turns: int = 150, **way: Any
) -> Iterator[str]:
    """Yield hashes of each half's whole block, final observations included, turn after turn."""
    with puffervec.make(env, env_kwargs=kwargs, num_envs=6, autoreset_mode=mode, **way) as vec:
        yield from turns_of(vec, mode, seed, turns)


def turns_of(vec: VectorEnv, mode: str, seed: int | None, turns: int) -> Iterator[str]:
    table = action_table(vec, turns, invalid=0.01)
    if seed is not None:
        vec.async_reset(seed)
    for turn in range(turns):
        for half in range(vec.num_buffers):
            vec.recv()
            yield hashlib.sha256(vec.halves[half].block).hexdigest()
            if mode == "disabled":
                reset_done(vec)
            vec.send(actions_of(vec, table, turn, half))


def reset_done(vec: VectorEnv) -> None:
    """Reset the envs of the half last received that are done."""
    half, mask = vec.halves[vec.half], np.zeros(vec.num_envs, np.bool_)
    over = np.ones(len(half.env_ids), np.bool_)
    for rows in half.groups.values():
        over &= ~(rows.masks & ~rows.terminals & ~rows.truncations).reshape(len(over), -1).any(
            axis=1
        )
    mask[half.env_ids] = over
    if over.any():
        vec.async_reset(mask=mask)
        vec.recv()
        assert vec.halves[vec.half] is half


@pytest.mark.parametrize(
    ("name", "mode"),
    slow_but(
        [("probe, two groups", "same_step"), ("tag continuous", "disabled"), ("drive", "disabled")],
        itertools.product([*NATIVE, "drive"], OTHERS),
    ),
)
def test_same_seed_same_bytes_in_every_mode(
    name: str, mode: str, request: pytest.FixtureRequest
) -> None:
    kwargs = CASES[name].kwargs
    if name == "drive":  # several scenes per env, which restart one by one
        kwargs = {"num_agents": 6, "max_steps": 9, "control": 1, "resample_steps": 31}
        kwargs["scenes"] = request.getfixturevalue("scenes")
    env = CASES[name].env
    expected = {
        count: list(digests(env, kwargs, mode, backend="serial", num_buffers=count))
        for count in (1, 2)
    }
    assert len(set(expected[1])) > 10
    for way in WAYS:
        assert list(digests(env, kwargs, mode, **way)) == expected[way.get("num_buffers", 1)], way


@pytest.mark.parametrize("mode", OTHERS)
@pytest.mark.parametrize("name", NATIVE)
def test_save_and_load_in_every_mode(name: str, mode: str) -> None:
    case = CASES[name]
    with serial(case.env, case.kwargs, num_envs=6, autoreset_mode=mode) as vec:
        run = turns_of(vec, mode, 5, 40)
        for _ in range(22):
            next(run)  # a half is held, in the middle of episodes
        saved, before = (
            vec.save(),
            [leaf.copy() for leaf in leaves(vec.final_observations)] if mode == "same_step" else [],
        )
        vec.load(saved)
        table = action_table(vec, 40)

        def go_on(other: VectorEnv) -> list[str]:
            shown = []
            for turn in range(30):
                other.recv()
                end = min(
                    offset
                    for (_, array), offset in other.halves[0].offsets.items()
                    if array == "actions"
                )
                shown.append(hashlib.sha256(other.halves[0].block[:end]).hexdigest())
                if mode == "disabled":
                    reset_done(other)
                other.send(actions_of(other, table, turn, 0))
            other.recv()
            return shown

        expected = go_on(vec)
        assert len(set(expected)) > 10
        vec.load(saved)
        assert go_on(vec) == expected
    with puffervec.make(
        case.env, env_kwargs=case.kwargs, num_envs=6, autoreset_mode=mode, backend="threading"
    ) as other:
        other.load(saved)
        other.recv()
        assert (
            all(
                (x == y).all()
                for x, y in zip(leaves(other.final_observations), before, strict=True)
            )
            if before
            else True
        )
        other.load(saved)
        assert go_on(other) == expected


# ---- disabled ------------------------------------------------------------------------------------


@pytest.mark.parametrize("env", ["probe", Counting], ids=["C", "Python"])
def test_a_done_env_is_not_stepped(env: Any) -> None:
    """It is named, nothing is sent, and after its reset all goes on."""
    kwargs = {"episode_length": 3} if env == "probe" else {"length": 3}
    with puffervec.make(
        env, env_kwargs=kwargs, backend="serial", num_envs=4, autoreset_mode="disabled"
    ) as vec:
        vec.reset(seed=0)
        vec.step([0] * 4)
        vec.reset(mask=np.array([True, False, True, False]))
        vec.step([0] * 4)
        terminals = vec.step([1] * 4)[2]
        assert terminals.tolist() == [False, True, False, True]
        before = vec.halves[0].block.copy()
        for _ in range(2):
            with pytest.raises(
                CallOrderError,
                match=r"send: env 1 and 1 more is done.*'disabled': call reset\(mask=...\) first",
            ):
                vec.send([0] * 4)
        assert (vec.halves[0].block == before).all()
        vec.reset(mask=np.array([False, True, False, False]))
        with pytest.raises(CallOrderError, match="send: env 3 is done"):
            vec.step([0] * 4)
        vec.reset(mask=np.array([False, False, False, True]))
        vec.step([0] * 4)
    with puffervec.make(
        env, env_kwargs=kwargs, backend="serial", num_envs=4
    ) as vec:  # another mode asks for nothing
        vec.reset(seed=0)
        for _ in range(9):
            vec.step([0] * 4)


@pytest.mark.parametrize(
    ("env", "kwargs"),
    [("probe", {"mode": 1, "num_agents": 2}), ("cartpole", {}), (Counting, {})],
    ids=str,
)
@pytest.mark.parametrize("seed", [None, 90, [None, 7, None, 8]], ids=str)
def test_a_masked_reset_leaves_all_other_bytes(env: Any, kwargs: Any, seed: Any) -> None:
    for workers in (1, 3):
        with puffervec.make(
            env, env_kwargs=kwargs, backend=ManyInOne, num_workers=workers, num_envs=4
        ) as vec:
            actions = (
                actions_of(vec, action_table(vec, 2), 0, 0) if isinstance(env, str) else [1] * 4
            )
            vec.reset(seed=20)
            vec.step(actions)
            before = vec.halves[0].block.copy()
            mask = np.array([False, True, False, False])
            vec.reset(seed, mask=mask)
            after = vec.halves[0].block.copy()
            changed = np.flatnonzero(before != after)
            allowed = np.zeros(len(before), bool)
            for (group, array), offset in vec.halves[0].offsets.items():
                width = (
                    raw_rows(vec, 0, array, group).shape[1]
                    if isinstance(env, str) or array != "actions"
                    else 8
                )
                agents = vec.halves[0].groups[group].spec.agents
                if array == "observations" and not isinstance(env, str):
                    width = 16
                allowed[offset + agents * width : offset + 2 * agents * width] = array != "actions"
            assert len(changed) and allowed[changed].all()


def test_seeds_of_masked_resets_and_none_entries() -> None:
    with serial("probe", {}, num_envs=4, seed=10) as vec:
        first = vec.reset(seed=[None, 5, None, 6])[0]
        assert first[:, :2].tolist() == [
            [10, 0],
            [5, 0],
            [12, 0],
            [6, 0],
        ]  # at the first reset the others take make's
        assert vec.reset(seed=[None, 7, None, None])[0][:, :2].tolist() == [
            [10, 1],
            [7, 0],
            [12, 1],
            [6, 1],
        ]
        mask = np.array([True, True, False, False])
        assert vec.reset(mask=mask)[0][:, :2].tolist() == [[10, 2], [7, 1], [12, 1], [6, 1]]
        assert vec.reset(seed=40, mask=mask)[0][:, :2].tolist() == [
            [40, 0],
            [41, 0],
            [12, 1],
            [6, 1],
        ]
        assert vec.reset(seed=[1, None, 2, None], mask=mask)[0][:, :2].tolist() == [
            [1, 0],
            [41, 1],
            [12, 1],
            [6, 1],
        ]
        assert vec.reset()[0][:, :2].tolist() == [[1, 1], [41, 2], [12, 2], [6, 2]]
    with serial("probe", {}, num_envs=2, seed=[None, 5]) as vec:
        seeds = vec.reset()[0][:, 0].tolist()
        assert seeds[1] == 5 and vec.peek(0)["seed"] > 0  # drawn


@pytest.mark.parametrize(
    ("mask", "words"),
    [
        ([True, False], r"mask has dtype bool and shape \(2,\): give \(4,\) bool, one per env"),
        ([0, 1, 0, 1], "mask has dtype int64"),
        (np.ones((4, 1), bool), r"shape \(4, 1\)"),
        ("all", "mask has dtype"),
        ([False] * 4, "mask has no True: name at least one env"),
    ],
    ids=str,
)
def test_unusable_masks_are_refused(mask: Any, words: str) -> None:
    with serial("probe", {}, num_envs=4) as vec:
        with pytest.raises(
            CallOrderError,
            match="reset with a mask: half 0 is not reset: call async_reset and recv first",
        ):
            vec.reset(mask=np.ones(4, bool))
        vec.reset(seed=0)
        before = vec.halves[0].block.copy()
        with pytest.raises(ConfigError, match=words):
            vec.reset(mask=mask)
        assert (vec.halves[0].block == before).all()
        vec.send([0] * 4)
        with pytest.raises(
            CallOrderError, match="reset with a mask: half 0 is sent: call recv first"
        ):
            vec.async_reset(mask=np.ones(4, bool))
        vec.recv()


def test_modes_that_are_unknown_are_refused() -> None:
    with pytest.raises(
        ConfigError, match="autoreset_mode is 'NextStep': use one of next_step, same_step, disabled"
    ):
        serial("probe", {}, autoreset_mode="NextStep")
