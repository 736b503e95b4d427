# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The contract of csrc/contract/env.h as tests that any C env can inherit.

A test module makes one class per env and settings, and gets all tests below:

    class TestMyEnv(EnvContract):
        env = "my_env"
        settings = {"agents": 3}

Set `random = False` where the env draws nothing, so that another seed shows the same bytes;
`settable = False` where its state cannot be set.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import pytest

import puffervec
from puffervec import envs
from puffervec._ffi import ffi, lib
from puffervec.core.spec import Field, GroupSpec
from puffervec.errors import ConfigError
from puffervec.vec.vector_env import HELD, VectorEnv
from tests.helpers import (
    WRITTEN,
    ManyInOne,
    Recorder,
    action_table,
    actions_of,
    raw_rows,
    run,
    slow_but,
)

FLAGS = ("terminals", "truncations", "masks")


class EnvContract:
    """Inherit, set `env` and `settings`. Tests run in this process; backends are compared
    elsewhere.
    """

    env: ClassVar[str]
    settings: ClassVar[dict[str, Any]] = {}
    random: ClassVar[bool] = True
    settable: ClassVar[bool] = True
    num_envs: ClassVar[int] = 4
    steps: ClassVar[int] = 5_000
    """Env-steps of the longest test, over all envs."""

    def make(self, backend: Any = "serial", **changes: Any) -> VectorEnv:
        """Make the env under test."""
        settings = {"backend": backend, "num_envs": self.num_envs, **changes}
        return puffervec.make(self.env, env_kwargs=self.settings, **settings)

    @pytest.fixture
    def vec(self) -> Iterator[VectorEnv]:
        with self.make() as made:
            yield made

    # ---- what the spec says ----------------------------------------------------------------------

    def test_fields_lie_in_the_row_and_apart(self, vec: VectorEnv) -> None:
        assert len({group.name for group in vec.spec.groups}) == len(vec.spec.groups)
        layouts = [(group.fields, group.observation_bytes) for group in vec.spec.groups]
        for fields, size in [*layouts, (vec.spec.state_fields, vec.spec.state_bytes)]:
            assert len({field.name for field in fields}) == len(fields)
            used = np.zeros(size, int)
            for field in fields:
                assert field.name.isidentifier()
                assert field.offset % field.dtype.itemsize == 0
                end = field.offset + field.size * field.dtype.itemsize
                assert end <= size
                used[field.offset : end] += 1
                assert np.isfinite([field.low, field.high, field.scale]).all()
                assert field.low <= field.high
                assert field.scale > 0
            assert used.max(initial=0) <= 1

    def test_rows_can_be_aligned_for_every_field(self, vec: VectorEnv) -> None:
        for group in vec.spec.groups:
            assert all(
                group.observation_bytes % field.dtype.itemsize == 0 for field in group.fields
            )

    def test_actions_are_declared_whole(self, vec: VectorEnv) -> None:
        for group in vec.spec.groups:
            assert group.agents >= 1
            assert group.action_dims >= 1
            if group.action_kind == "continuous":
                assert (np.array(group.action_low) < np.array(group.action_high)).all()
                assert np.isfinite([group.action_low, group.action_high]).all()
                assert all(
                    low <= 0 <= high
                    for low, high in zip(group.action_low, group.action_high, strict=True)
                )  # 0 is the no-op
            else:
                assert min(group.action_sizes) >= 1
            if group.action_kind == "discrete":
                assert group.action_dims == 1
            assert group.action_mask_size in (0, sum(group.action_sizes))

    def test_names_of_records_and_counters_are_unique(self, vec: VectorEnv) -> None:
        for names in (vec.spec.record_names, vec.spec.counter_names):
            assert len(set(names)) == len(names)
            assert all(name.isidentifier() for name in names)

    def test_the_python_defaults_make_an_env(self) -> None:
        env = envs.get(self.env)
        assert env.configure(None) == env.config()

    # ---- what the rows hold ----------------------------------------------------------------------

    def test_random_steps_stay_in_bounds(self, vec: VectorEnv) -> None:
        """Wild actions too; NaN is out of all bounds."""
        table = action_table(vec, 200, invalid=0.05)
        vec.reset(seed=1)
        for step in range(self.steps // self.num_envs):
            for group in vec.spec.groups:
                check_bounds(vec, group)
            vec.step(actions_of(vec, table, step, 0))
        assert vec.counters()["invalid_actions"] > 0

    def test_rows_keep_their_rules(self, vec: VectorEnv) -> None:
        """Masks, flags, rewards and reset rows; see "Rows" in csrc/contract/env.h."""
        table = action_table(vec, 500, seed=3)
        vec.reset(seed=2)
        rules = {group.name: RowRules(vec, group) for group in vec.spec.groups}
        for step in range(self.steps // self.num_envs // 2):
            vec.step(actions_of(vec, table, step, 0))
            for rule in rules.values():
                rule.check()
        assert any(rule.ended for rule in rules.values()), (
            "no episode ended: let the test run longer, or make episodes shorter"
        )

    def test_records_name_an_env_and_are_finite(self, vec: VectorEnv) -> None:
        table = action_table(vec, 300, seed=4)
        vec.set_tasks([0], [0])
        vec.reset(seed=3)
        found = []
        for step in range(self.steps // self.num_envs // 2):
            found += [
                record.copy() for record in vec.step(actions_of(vec, table, step, 0))[4].episodes
            ]
        assert found
        used = len(vec.spec.record_names)
        for record in found:
            assert 0 <= record["env"] < self.num_envs
            assert record["length"] >= 1
            assert record["task"] >= -1
            assert np.isfinite(record["return"])
            assert np.isfinite(record["values"]).all()
            assert not record["values"][used:].any()
        assert [int(record["task"]) for record in found if record["env"] == 0][0] == 0

    # ---- seeds and state -------------------------------------------------------------------------

    def test_same_seed_same_bytes(self) -> None:
        shown = []
        for _ in range(2):
            with self.make() as vec:
                shown.append(run(vec, 200, action_table(vec, 200), seed=11, every=20))
        assert shown[0] == shown[1]

    def test_a_second_reset_equals_the_first(self, vec: VectorEnv) -> None:
        """Nothing of the episodes before shows after a seeded reset, but for counters."""
        table = action_table(vec, 150)
        first, second = (run(vec, 150, table, seed=11, every=10) for _ in range(2))
        assert first["digests"] == second["digests"]
        assert first["episodes"] == second["episodes"]

    def test_another_seed_shows_other_bytes(self) -> None:
        shown = []
        for seed in (11, 1_000_011):
            with self.make() as vec:
                shown.append(run(vec, 50, action_table(vec, 50), seed=seed, every=50)["digests"])
        assert (shown[0] != shown[1]) == self.random

    def test_an_env_knows_nothing_of_its_place(self) -> None:
        """Env 3 of seed 10 equals a single env with seed 13, whatever the others do."""
        with self.make() as many, self.make(num_envs=1) as one:
            table = action_table(many, 120, seed=9)
            many.reset(seed=10)
            one.reset(seed=13)
            for step in range(120):
                for group in many.spec.groups:
                    mine = slice(3 * group.agents, 4 * group.agents)
                    for array in WRITTEN:
                        if (group.name, array) in many.halves[0].offsets:
                            a, b = (
                                raw_rows(many, 0, array, group.name, mine),
                                raw_rows(one, 0, array, group.name),
                            )
                            assert (a == b).all(), f"{group.name}.{array} at step {step}"
                many.step(actions_of(many, table, step, 0))
                own = {
                    g.name: table[g.name][:, 3 * g.agents : 4 * g.agents] for g in many.spec.groups
                }
                one.step(actions_of(one, own, step, 0))

    @pytest.mark.parametrize("when", slow_but([50, "at an end"], [0, 1, 50, 133, "at an end"]))
    def test_save_and_load_equal_never_saved(self, when: int | str) -> None:
        """Also between a last step and its reset, where an env must remember that it is over."""
        with self.make() as first, self.make(ManyInOne, num_workers=3) as second:
            table = action_table(first, 400, seed=6)
            first.reset(seed=21)
            steps = 0
            while steps < 300 if when == "at an end" else steps < int(when):
                first.step(actions_of(first, table, steps, 0))
                steps += 1
                if when == "at an end" and envs_that_are_over(first).any():
                    break
            second.load(first.save())
            second.recv()
            recorders = [Recorder(vec, every=1) for vec in (first, second)]
            for step in range(steps, steps + 100):
                for vec, recorder in zip((first, second), recorders, strict=True):
                    recorder.add(vec.step(actions_of(vec, table, step, 0))[4])
            digests = [recorder.result() for recorder in recorders]
            for at, (a, b) in enumerate(
                zip(digests[0]["digests"], digests[1]["digests"], strict=True)
            ):
                assert a == b, f"{at} steps after the load"
            assert digests[0]["episodes"] == digests[1]["episodes"]

    def test_peek_shows_the_declared_state_and_changes_nothing(self, vec: VectorEnv) -> None:
        table = action_table(vec, 40)
        vec.reset(seed=5)
        for step in range(40):
            before, saved = vec.halves[0].block.copy(), vec.save()
            state = vec.peek(step % self.num_envs)
            assert set(state) == {field.name for field in vec.spec.state_fields}
            for field in vec.spec.state_fields:
                value = state[field.name]
                assert (value.shape, value.dtype) == (field.shape, field.dtype)
                assert np.isfinite(value).all()
                assert (value >= field.low).all() and (value <= field.high).all()
            assert (vec.halves[0].block == before).all()
            assert vec.save() == saved
            vec.step(actions_of(vec, table, step, 0))

    # ---- setting the state -----------------------------------------------------------------------

    @pytest.fixture
    def pair(self) -> Iterator[tuple[VectorEnv, VectorEnv]]:
        if not self.settable:
            pytest.skip("the type has no poke")
        with self.make() as first, self.make() as second:
            yield first, second

    def test_a_state_that_was_read_can_be_set_and_changes_nothing(
        self, pair: tuple[VectorEnv, VectorEnv]
    ) -> None:
        """Nothing but the env's rewards, which are 0; also where its episode has ended."""
        table, size = action_table(pair[0], 120, seed=12), pair[0].spec.save_bytes
        seen_over = 0
        for vec in pair:
            vec.reset(seed=4)
        for step in range(120):
            env = step % self.num_envs
            seen_over += int(envs_that_are_over(pair[0])[env])
            state = pair[0].peek(env)
            for group in pair[0].spec.groups:  # what stands in these rows does not matter
                rows = pair[0].halves[0].groups[group.name]
                mine = slice(env * group.agents, (env + 1) * group.agents)
                rows.rewards[mine], rows.terminals[mine], rows.truncations[mine] = 9.0, True, True
            pair[0].poke(env, state)
            assert_same_state(pair[0].peek(env), state)
            assert not pair[1].spec.save_bytes or [s[-size:] for s in pair[0].save()] == [
                s[-size:] for s in pair[1].save()
            ]
            for group in pair[0].spec.groups:
                mine = slice(env * group.agents, (env + 1) * group.agents)
                assert not raw_rows(pair[0], 0, "rewards", group.name, mine).any()
                pair[1].halves[0].groups[group.name].rewards[mine] = 0.0
                assert_same_rows(pair, group.name, slice(None), f"step {step}")
            for vec in pair:
                vec.step(actions_of(vec, table, step, 0))
        assert seen_over or self.env == "drive"  # whose env of many scenes ends seldom

    def test_the_state_of_another_env_brings_its_trajectory(
        self, pair: tuple[VectorEnv, VectorEnv]
    ) -> None:
        """For as long as neither begins another episode: its start may hang on seed and episode
        number.
        """
        table = action_table(pair[0], 120, seed=13)
        for vec, seed in zip(pair, (4, 1_000_004), strict=True):
            vec.set_tasks([0], 0)
            vec.reset(seed=seed)
        tied, seen = False, 0
        for step in range(120):
            if envs_that_are_over(pair[0])[0]:
                tied = False
            elif step % 3 == 0:
                pair[1].poke(0, pair[0].peek(0))
                tied = True
            for vec in pair:
                vec.step(actions_of(vec, table, step, 0))
            for group in pair[0].spec.groups if tied else ():
                assert_same_rows(pair, group.name, slice(0, group.agents), f"step {step}")
            seen += tied
        assert seen > 15

    def test_a_finished_env_goes_on_from_a_state_that_ends_nothing(
        self, pair: tuple[VectorEnv, VectorEnv]
    ) -> None:
        """It would have begun anew at its next step."""
        table = action_table(pair[0], 600, seed=14)
        for vec in pair:
            vec.reset(seed=5)
        start = pair[1].peek(0)
        step = 0
        while not envs_that_are_over(pair[0])[0]:
            pair[0].step(actions_of(pair[0], table, step, 0))
            step += 1
        pair[0].poke(0, start)
        for at in range(2):
            for group in pair[0].spec.groups:
                assert_same_rows(
                    pair, group.name, slice(0, group.agents), f"{at} steps after the start"
                )
            for vec in pair:
                vec.step(actions_of(vec, table, 0, 0))

    def test_a_last_state_ends_the_episode(self, pair: tuple[VectorEnv, VectorEnv]) -> None:
        """In same-step mode the next one begins at once, and the observation of the state is the
        final one.
        """
        vec, table = pair[0], action_table(pair[0], 600, seed=15)
        vec.reset(seed=6)
        with self.make(autoreset_mode="same_step") as other:
            other.reset(seed=6)
            step = 0
            while not envs_that_are_over(vec)[0]:
                vec.step(actions_of(vec, table, step, 0))
                step += 1
            other.step(
                actions_of(other, table, step - 1, 0)
            )  # observations may show the last action
            last = vec.peek(0)
            other.poke(0, last)
            ended = 0
            for group in vec.spec.groups:
                mine = slice(0, group.agents)
                rows, theirs = vec.halves[0].groups[group.name], other.halves[0].groups[group.name]
                done = (rows.terminals | rows.truncations)[mine]
                assert (theirs.terminals[mine] == rows.terminals[mine]).all()
                assert (theirs.truncations[mine] == rows.truncations[mine]).all()
                for shown, final in leaves(rows.observations, theirs.final_observations):
                    assert (shown[mine][done] == final[mine][done]).all()
                ended += int(done.sum())
            assert ended
            now = other.peek(0)
            assert any((now[name] != value).any() for name, value in last.items())
            other.step(actions_of(other, table, 0, 0))

    def test_states_that_cannot_be_are_refused_and_change_nothing(
        self, pair: tuple[VectorEnv, VectorEnv]
    ) -> None:
        vec, table = pair[0], action_table(pair[0], 3)
        vec.reset(seed=8)
        vec.step(actions_of(vec, table, 0, 0))
        before, rows = vec.save(), vec.halves[0].block.copy()
        for bad, word in list(bad_states(vec)):
            with pytest.raises(ConfigError, match="^poke: ") as caught:
                vec.poke(1, bad)
            assert word in str(caught.value)
            assert vec.save() == before and (vec.halves[0].block == rows).all()
        vec.step(actions_of(vec, table, 1, 0))

    # ---- whose memory ----------------------------------------------------------------------------

    @pytest.mark.parametrize("buffers", [1, 2])
    def test_a_worker_writes_only_what_is_its_own(self, buffers: int) -> None:
        """Every other byte of the slab is a guard: it must be the same after each step, peek, poke
        and save of one worker.
        """
        with self.make(ManyInOne, num_workers=2, num_buffers=buffers, split="workers") as vec:
            table = action_table(vec, 60, seed=8)
            worker = half = (
                buffers - 1
            )  # of one half's two workers the first; of two halves' workers the second
            vec.async_reset(31)
            for _ in range(buffers):
                vec.recv()
            slab = np.frombuffer(vec.rows.buffer, np.uint8)
            allowed = own_bytes(vec, worker)
            fill_guards(vec, slab, allowed)
            # Sending writes actions and command lines, so the worker's turn comes after the first
            # look
            vec.serving = False
            for step in range(60):
                vec.turns.send_half = half
                vec.send(actions_of(vec, table, step, half))
                before = slab.copy()
                lib.pv_worker_serve(vec.workers.opened + worker, half)
                assert_only_allowed(slab, before, allowed)
                vec.turns.state[half] = HELD  # the other worker never runs
            vec.serving = True
            allowed |= bytes_of_line(vec, lib.pv_command_line(vec.rows.slab, worker, half))
            before = slab.copy()
            state = vec.peek(int(vec.halves[half].env_ids[0]))
            if self.settable:
                vec.poke(int(vec.halves[half].env_ids[0]), state)
            vec.turns.command_one(worker, half, lib.PV_SAVE, int(vec.halves[half].env_ids[0]), 1)
            assert_only_allowed(slab, before, allowed)

    def test_a_reset_writes_every_byte_of_its_rows(self) -> None:
        """Rows are not cleared for an env: a slab full of ones must show the same as one full of
        zeros.
        """
        shown = []
        for fill in (0, 0xFF):
            with self.make() as vec:
                for half in vec.halves:
                    half.block[:] = fill
                shown.append(run(vec, 60, action_table(vec, 60), seed=1, every=10))
        assert shown[0] == shown[1]


def envs_that_are_over(vec: VectorEnv) -> np.ndarray:
    """Return (envs,) bool: no row of the env goes on, so that its next step is a reset."""
    rows = vec.halves[0].groups.values()
    done = [(r.terminals | r.truncations | ~r.masks).reshape(vec.num_envs, -1) for r in rows]
    return np.concatenate(done, axis=1).all(axis=1)


def assert_same_state(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> None:
    """Compare what `peek` returns, bit by bit."""
    assert {name: value.tobytes() for name, value in one.items()} == {
        name: value.tobytes() for name, value in other.items()
    }


def assert_same_rows(pair: tuple[VectorEnv, VectorEnv], group: str, part: slice, when: str) -> None:
    """Compare a part of the rows of two vector envs, array by array, bit by bit."""
    for array in WRITTEN:
        if (group, array) in pair[0].halves[0].offsets:
            a, b = (raw_rows(vec, 0, array, group, part) for vec in pair)
            assert (a == b).all(), f"{group}.{array}, {when}"


def leaves(one: Any, other: Any) -> list[tuple[Any, Any]]:
    """Return pairs of arrays of two observations, which are arrays or dicts of arrays."""
    return [(one[name], other[name]) for name in one] if isinstance(one, dict) else [(one, other)]


def bad_states(vec: VectorEnv) -> Iterator[tuple[Any, str]]:
    """Yield (what is no state of the env, what the error has to name)."""
    good, fields = vec.peek(1), vec.spec.state_fields
    yield [1], fields[0].name
    yield {"no such name": 1}, fields[-1].name
    for field in fields:
        yield {field.name: np.zeros((*field.shape, 2), field.dtype)}, str(field.shape)
        yield {field.name: np.full(field.shape, "text")}, str(field.dtype)
        yield {field.name: [[1], [2, 3]]}, field.name
        wrong: list[Any] = [np.nan] if field.dtype.kind == "f" else [0.5]
        wrong += [
            value
            for value in (field.low - 1 - abs(field.low), 2 * field.high + 1)
            if abs(value) < 1e18
        ]
        for value in wrong:
            changed = good[field.name].astype(
                np.asarray(value).dtype if field.dtype.kind != "f" else field.dtype
            )
            changed.reshape(-1)[-1] = value
            yield {field.name: changed}, field.name


class RowRules:
    """The rules that tie a row to the one before it."""

    def __init__(self, vec: VectorEnv, group: GroupSpec) -> None:
        self.vec, self.group = vec, group
        self.rows = vec.halves[0].groups[group.name]
        self.ended = 0
        self.before = {name: getattr(self.rows, name).copy() for name in FLAGS}
        self.check_row_alone()
        assert (
            not self.rows.terminals.any()
            and not self.rows.truncations.any()
            and not self.rows.rewards.any()
        )

    def check_row_alone(self) -> None:
        rows, name = self.rows, self.group.name
        for flag in FLAGS:
            assert raw_rows(self.vec, 0, flag, name).max() <= 1, f"{flag} are 0 or 1"
        empty = ~rows.masks
        assert not (rows.terminals & rows.truncations).any(), "an end is a terminal or a truncation"
        assert not ((rows.terminals | rows.truncations) & empty).any(), "an empty row ends nothing"
        assert not rows.rewards[empty].any(), "an empty row has no reward"
        assert np.isfinite(rows.rewards).all()
        if rows.action_masks is not None:
            assert raw_rows(self.vec, 0, "action_masks", name).max() <= 1
            for dim in np.split(rows.action_masks, np.cumsum(self.group.action_sizes)[:-1], axis=1):
                assert dim[rows.masks].any(axis=1).all(), "a live row has a choice"

    def check(self) -> None:
        self.check_row_alone()
        rows, before = self.rows, self.before
        done = before["terminals"] | before["truncations"]
        goes_on = before["masks"] & ~done
        assert rows.masks[goes_on].all(), "the successor of a valid transition is live"
        begins = rows.masks & ~goes_on  # after an end, or after an empty row
        assert not rows.rewards[begins].any(), "a reset row has no reward"
        assert not (rows.terminals | rows.truncations)[begins].any(), "a reset row ends nothing"
        self.ended += int(done.sum())
        self.before = {name: getattr(rows, name).copy() for name in FLAGS}


def check_bounds(vec: VectorEnv, group: GroupSpec) -> None:
    """All fields of all rows lie within what the spec declares."""
    raw = raw_rows(vec, 0, "observations", group.name)
    for field in group.fields:
        values = values_of(raw, field)
        if field.dtype.kind == "f":
            assert np.isfinite(values).all(), f"{group.name}.{field.name} is not finite"
        low, high = values.min(), values.max()
        assert low >= field.low and high <= field.high, (
            f"{group.name}.{field.name}: {low} to {high} of {field.low} to {field.high}"
        )


def values_of(raw: np.ndarray, field: Field) -> np.ndarray:
    """Return (rows, elements) of a field from raw rows."""
    return np.ascontiguousarray(
        raw[:, field.offset : field.offset + field.size * field.dtype.itemsize]
    ).view(field.dtype)


def own_bytes(vec: VectorEnv, worker: int) -> np.ndarray:
    """Return (bytes of the slab,) bool: what a worker may write in a turn of its last half."""
    slab, half = vec.rows.slab, vec.num_buffers - 1
    allowed = bytes_of_line(vec, lib.pv_status_line(slab, worker, half))
    span = lib.pv_slab_span(slab, worker, half)
    first = span.first_env - slab.halves[half].first_env
    for g, group in enumerate(vec.spec.groups):
        for array in WRITTEN:
            if (group.name, array) in vec.halves[half].offsets:
                width = raw_rows(vec, half, array, group.name).shape[1] * group.agents
                begin = getattr(slab.halves[half].groups[g], array) + first * width
                allowed[begin : begin + span.env_count * width] = True
    lane = lib.pv_slab_lane(slab, worker, half)
    for begin, size in (
        (slab.counters_offset + lane * lib.PV_COUNTERS * 8, lib.PV_COUNTERS * 8),
        (slab.records_offset + lane * slab.record_area_bytes, slab.record_area_bytes),
        (slab.transfers_offset + worker * slab.transfer_bytes, slab.transfer_bytes),
    ):
        allowed[begin : begin + size] = True
    return allowed


def bytes_of_line(vec: VectorEnv, line: Any) -> np.ndarray:
    """Return (bytes of the slab,) bool: a command or status line."""
    begin = int(ffi.cast("uintptr_t", line)) - int(ffi.cast("uintptr_t", vec.rows.slab))
    found = np.zeros(vec.rows.slab.bytes, bool)
    found[begin : begin + lib.PV_LINE_BYTES] = True
    return found


def fill_guards(vec: VectorEnv, slab: np.ndarray, allowed: np.ndarray) -> None:
    """Fill the halves' blocks with a pattern, but for the worker's rows and the actions: other
    rows, gaps between arrays.
    """
    for half in vec.halves:
        begin = vec.rows.slab.halves[half.index].offset
        block = slice(begin, begin + len(half.block))
        gaps = ~allowed[block]
        for group in vec.spec.groups:
            at = half.offsets[group.name, "actions"]
            gaps[at : at + raw_rows(vec, half.index, "actions", group.name).size] = False
        slab[block][gaps] = 0xA5


def assert_only_allowed(slab: np.ndarray, before: np.ndarray, allowed: np.ndarray) -> None:
    changed = np.flatnonzero((slab != before) & ~allowed)
    assert changed.size == 0, (
        f"{changed.size} byte(s) outside were written, the first at {changed[0]}"
    )
