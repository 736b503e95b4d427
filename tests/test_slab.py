# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The slab's layout (csrc/core/slab.c) against a twin in Python, and the views on it
(puffervec/core/slab.py).
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from puffervec._ffi import ffi, lib
from puffervec.core import slab
from puffervec.core.shared_memory import PAGE
from puffervec.core.slab import Request, layout
from puffervec.core.spec import AUTORESET_MODES, EnvSpec, read_spec
from puffervec.errors import ConfigError
from tests.helpers import WRITTEN, serial


def twin_bytes(spec: EnvSpec, request: Request) -> int:
    """The size of the slab, computed without C: the twin of pv_slab_layout."""
    at: int = ffi.sizeof("pv_slab")

    def take(size: int, alignment: int = 64) -> None:
        nonlocal at
        at = -(-at // alignment) * alignment + size

    halves = request.num_buffers
    envs = request.num_envs // halves
    by_workers = request.split == "workers"
    workers_per_half = request.num_workers // halves if by_workers else request.num_workers
    most_envs = max(1, -(-envs // workers_per_half))
    lanes = request.num_workers * (1 if by_workers else halves)
    kept = int(request.autoreset == "same_step")  # final_observations
    row_bytes = sum(
        g.agents * ((1 + kept) * g.observation_bytes + 8 + g.action_mask_size) for g in spec.groups
    )
    take(request.config_bytes)
    take(request.params_bytes)
    for width in (8, 8, 1):  # tasks, seeds, reset masks
        take(request.num_envs * width)
    take((2 * lanes + 1) * lib.PV_LINE_BYTES, lib.PV_LINE_BYTES)
    take(lanes * 8 * lib.PV_COUNTERS, lib.PV_LINE_BYTES)
    record_area = 64 + most_envs * spec.records_per_turn * slab.RECORD_DTYPE.itemsize
    take(lanes * (-(-record_area // 64) * 64))
    take(request.num_workers * ffi.sizeof("pv_error_slot"))
    widest = max(spec.save_bytes + row_bytes, spec.state_bytes)
    transfer_envs = min(max(1, (1 << 20) // widest), most_envs)
    take(request.num_workers * (-(-widest * transfer_envs // 64) * 64))
    take(lanes * (-(-request.info_bytes // 64) * 64))
    for _ in range(halves):
        take(0, PAGE)
        for group in spec.groups:
            rows = envs * group.agents
            for width in (
                group.observation_bytes,
                4,
                1,
                1,
                1,
                1,
                group.action_mask_size,
                kept * group.observation_bytes,
            ):
                if width:
                    take(rows * width)
        for group in spec.groups:
            take(envs * group.agents * group.action_bytes)
        take(0, PAGE)
    return at


def random_spec(rng: np.random.Generator) -> tuple[Any, EnvSpec]:
    """A spec such as no env has."""
    c_spec = ffi.new("pv_spec*")
    c_spec.group_count = rng.integers(1, lib.PV_MAX_GROUPS + 1)
    for g in range(c_spec.group_count):
        group = c_spec.groups[g]
        group.name = f"group{g}".encode()
        group.agents, group.observation_bytes = rng.integers(1, 9), 4 * rng.integers(1, 300)
        group.field_count = 1
        group.fields[0] = {
            "name": b"x",
            "dtype": lib.PV_F32,
            "ndim": 1,
            "shape": [group.observation_bytes // 4],
        }
        group.action_dims = rng.integers(1, 5)
        for d in range(group.action_dims):
            group.action_sizes[d] = rng.choice([1, 2, 8, 255, 256], p=[0.3, 0.3, 0.2, 0.1, 0.1])
        group.action_kind = lib.PV_DISCRETE if group.action_dims == 1 else lib.PV_MULTI_DISCRETE
        group.action_mask_size = sum(group.action_sizes) if rng.random() < 0.5 else 0
    c_spec.state_bytes, c_spec.save_bytes = rng.integers(1, 5000), rng.integers(1, 100_000)
    c_spec.records_per_turn = rng.integers(1, 40)
    return c_spec, read_spec(c_spec, "slab")


def random_request(rng: np.random.Generator) -> Request:
    buffers, split = int(rng.choice([1, 2, 2, 3, 7, 16])), str(rng.choice(["workers", "envs"]))
    per_half = int(rng.integers(1, 9 if buffers < 3 else 4))
    workers = per_half * (buffers if split == "workers" else 1)
    return Request(
        int(rng.integers(per_half, 90)) * buffers,
        workers,
        buffers,
        split,
        int(rng.integers(0, 400)),
        int(rng.integers(16, 9000)),
        str(rng.choice(list(AUTORESET_MODES))),
        bool(rng.random() < 0.5),
        int(rng.choice([0, 8, 1000])),
    )


def ranges(head: Any, spec: EnvSpec, request: Request) -> list[tuple[int, int, int, str]]:
    """Return (begin, end, alignment, name) of everything in a slab, from the head's own numbers."""
    lanes = request.num_workers * (request.num_buffers if request.split == "envs" else 1)
    kept = request.autoreset == "same_step"
    found = [
        (0, ffi.sizeof("pv_slab"), 1, "head"),
        (head.config_offset, head.config_offset + request.config_bytes, 64, "config"),
        (head.params_offset, head.params_offset + request.params_bytes, 64, "params"),
        (head.tasks_offset, head.tasks_offset + 8 * request.num_envs, 64, "tasks"),
        (head.seeds_offset, head.seeds_offset + 8 * request.num_envs, 64, "seeds"),
        (head.reset_masks_offset, head.reset_masks_offset + request.num_envs, 64, "reset masks"),
        (
            head.lines_offset,
            head.lines_offset + (2 * lanes + 1) * lib.PV_LINE_BYTES,
            lib.PV_LINE_BYTES,
            "lines and a doorbell",
        ),
        (
            head.counters_offset,
            head.counters_offset + lanes * 8 * lib.PV_COUNTERS,
            lib.PV_LINE_BYTES,
            "counters",
        ),
        (head.records_offset, head.records_offset + lanes * head.record_area_bytes, 64, "records"),
        (
            head.errors_offset,
            head.errors_offset + request.num_workers * ffi.sizeof("pv_error_slot"),
            8,
            "errors",
        ),
        (
            head.transfers_offset,
            head.transfers_offset + request.num_workers * head.transfer_bytes,
            64,
            "transfers",
        ),
        (head.infos_offset, head.infos_offset + lanes * head.info_bytes, 64, "infos"),
    ]
    assert head.info_bytes % 64 == 0 and 0 <= head.info_bytes - request.info_bytes < 64
    for h in range(request.num_buffers):
        half = head.halves[h]
        for g, group in enumerate(spec.groups):
            at, rows = half.groups[g], half.env_count * group.agents
            widths = {
                "observations": group.observation_bytes,
                "rewards": 4,
                "actions": group.action_bytes,
            }
            widths |= dict.fromkeys(("terminals", "truncations", "masks", "agent_types"), 1)
            if group.action_mask_size:
                widths["action_masks"] = group.action_mask_size
            if kept:
                widths["final_observations"] = group.observation_bytes
            assert at.rows == rows
            assert bool(at.final_observations) == kept and bool(at.action_masks) == bool(
                group.action_mask_size
            )
            for array, width in widths.items():
                begin = getattr(at, array)
                assert half.offset <= begin and begin + rows * width <= half.offset + half.bytes, (
                    array
                )
                found.append((begin, begin + rows * width, 64, f"half {h} {group.name} {array}"))
    return sorted(found)


@pytest.mark.parametrize("seed", range(60))
def test_everything_lies_apart_aligned_and_inside(seed: int) -> None:
    rng = np.random.default_rng(seed)
    c_spec, spec = random_spec(rng)
    request = random_request(rng)
    head = layout(c_spec, request)
    assert head.bytes == twin_bytes(spec, request)
    found = ranges(head, spec, request)
    for (_, end, _, name), (begin, _, _, following) in itertools.pairwise(found):
        assert end <= begin, f"{name} reaches into {following}"
    assert found[-1][1] <= head.bytes
    assert all(begin % alignment == 0 for begin, _, alignment, _ in found)
    for h in range(request.num_buffers):
        half = head.halves[h]
        assert half.offset % PAGE == half.bytes % PAGE == 0
        assert (half.first_env, half.env_count) == (
            h * request.num_envs // request.num_buffers,
            request.num_envs // request.num_buffers,
        )
        last = max(
            end for begin, end, _, _ in found if half.offset <= begin < half.offset + half.bytes
        )
        assert half.offset + half.bytes - last < PAGE  # no page is wasted


@pytest.mark.parametrize("split", ["workers", "envs"])
def test_the_doorbell_of_any_order_is_one_line_behind_all_others(split: str) -> None:
    """In strict order each worker and half has a doorbell of its own in its status line."""
    c_spec, _ = random_spec(np.random.default_rng(0))
    lanes = [
        (worker, half)
        for worker in range(4)
        for half in range(4)
        if split == "envs" or worker == half
    ]
    for any_order in (False, True):
        request = Request(8, 4, 4, split, 0, 16, any_order=any_order)
        head = layout(c_spec, request)
        memory = ffi.new("uint64_t[]", head.bytes // 8 + 1)
        made = ffi.cast("pv_slab*", memory)
        ffi.memmove(made, head, ffi.sizeof("pv_slab"))
        base = int(ffi.cast("uintptr_t", made))
        doorbells = {
            int(ffi.cast("uintptr_t", lib.pv_learner_doorbell(made, *lane))) - base
            for lane in lanes
        }
        lines = {
            int(ffi.cast("uintptr_t", lib.pv_status_line(made, *lane))) - base for lane in lanes
        }
        within = ffi.offsetof("pv_line", "doorbell")
        if any_order:
            assert doorbells == {made.lines_offset + 2 * len(lanes) * lib.PV_LINE_BYTES + within}
        else:
            assert doorbells == {line + within for line in lines} and len(doorbells) == len(lanes)


@pytest.mark.parametrize("seed", range(40))
def test_spans_share_out_the_envs_in_order(seed: int) -> None:
    rng = np.random.default_rng(1000 + seed)
    c_spec, spec = random_spec(rng)
    request = random_request(rng)
    head = layout(c_spec, request)
    envs, served = [], []
    for half in range(request.num_buffers):
        workers = lib.pv_slab_workers(head, half)
        shares = []
        for worker in range(request.num_workers):
            span = lib.pv_slab_span(head, worker, half)
            inside = workers.first_env <= worker < workers.first_env + workers.env_count
            assert (span.env_count > 0) == inside
            if inside:
                envs += range(span.first_env, span.first_env + span.env_count)
                shares.append(span.env_count)
                served.append(worker)
        assert max(shares) - min(shares) <= 1
    assert envs == list(range(request.num_envs))
    assert sorted(set(served)) == list(range(request.num_workers))
    by_workers = request.split == "workers"
    assert len(served) == request.num_workers * (1 if by_workers else request.num_buffers)
    for worker in range(request.num_workers):
        home = lib.pv_control_half(head, worker)
        assert lib.pv_slab_span(head, worker, home).env_count > 0


@pytest.mark.parametrize("seed", range(20))
def test_blocks_point_into_the_halves(seed: int) -> None:
    """pv_slab_block: a worker's rows are the rows of its envs, and those of all workers are all
    rows.
    """
    rng = np.random.default_rng(2000 + seed)
    c_spec, spec = random_spec(rng)
    request = random_request(rng)
    head = layout(c_spec, request)
    memory = ffi.new("uint64_t[]", head.bytes // 8 + 1)
    made = ffi.cast("pv_slab*", memory)
    ffi.memmove(made, head, ffi.sizeof("pv_slab"))
    base = int(ffi.cast("uintptr_t", made))

    def offset(pointer: Any) -> int:
        return int(ffi.cast("uintptr_t", pointer)) - base

    for half, g in itertools.product(range(request.num_buffers), range(len(spec.groups))):
        group, at = spec.groups[g], made.halves[half].groups[g]
        covered = 0
        for worker in range(request.num_workers):
            span = lib.pv_slab_span(made, worker, half)
            if not span.env_count:
                continue
            block = ffi.new("pv_block*")
            lib.pv_slab_block(made, worker, half, block)
            rows, first = (
                block.rows[g],
                (span.first_env - made.halves[half].first_env) * group.agents,
            )
            assert (block.first_env, block.env_count, rows.count) == (
                span.first_env,
                span.env_count,
                span.env_count * group.agents,
            )
            assert offset(rows.observations) == at.observations + first * group.observation_bytes
            assert offset(rows.rewards) == at.rewards + 4 * first
            for array in ("terminals", "truncations", "masks", "agent_types"):
                assert offset(getattr(rows, array)) == getattr(at, array) + first
            if request.autoreset == "same_step":
                assert (
                    offset(rows.final_observations)
                    == at.final_observations + first * group.observation_bytes
                )
            else:
                assert rows.final_observations == ffi.NULL
            lane = lib.pv_slab_lane(made, worker, half)
            assert (
                lib.pv_slab_infos(made, worker, half) == made.infos_offset + lane * made.info_bytes
            )
            assert offset(rows.actions) == at.actions + group.action_bytes * first
            assert rows.indices == (
                ffi.NULL
                if group.action_row_dtype == np.uint8
                else ffi.cast("int32_t*", rows.actions)
            )
            assert rows.values == ffi.NULL
            if group.action_mask_size:
                assert offset(rows.action_masks) == at.action_masks + first * group.action_mask_size
            else:
                assert rows.action_masks == ffi.NULL
            assert offset(block.tasks) == made.tasks_offset + 8 * span.first_env
            assert offset(block.record_count) == made.records_offset + lane * made.record_area_bytes
            assert offset(block.records) == offset(block.record_count) + 64
            assert offset(block.counters) == made.counters_offset + lane * 8 * lib.PV_COUNTERS
            assert block.record_capacity >= span.env_count * spec.records_per_turn
            covered += rows.count
        assert covered == at.rows


def test_sizes_that_overflow_are_refused() -> None:
    c_spec, _ = random_spec(np.random.default_rng(0))
    for change in ({"num_envs": 2**32 - 2}, {"config_bytes": 2**63}, {"params_bytes": 2**64 - 1}):
        values: dict[str, Any] = {
            "num_envs": 4,
            "num_workers": 1,
            "num_buffers": 1,
            "split": "workers",
            "config_bytes": 0,
            "params_bytes": 16,
        }
        with pytest.raises(ConfigError, match="of shared memory.*use fewer envs"):
            layout(c_spec, Request(**{**values, **change}))
    wraps_to_0 = ffi.new(
        "pv_slab_request*", {"num_envs": 4, "num_workers": 4, "num_buffers": 1, "info_bytes": 2**62}
    )
    assert lib.pv_slab_layout(c_spec, wraps_to_0, ffi.new("pv_slab*")) == 0
    c_spec.groups[0].agents, c_spec.groups[0].observation_bytes = 2**31, 2**31
    assert (
        lib.pv_slab_layout(c_spec, ffi.new("pv_slab_request*", [1, 1, 1]), ffi.new("pv_slab*")) == 0
    )


def test_records_are_read_with_the_structs_offsets() -> None:
    record = ffi.new(
        "pv_record*",
        {
            "episode": 1,
            "task": -2,
            "env": 3,
            "slot": 4,
            "agent_type": 5,
            "length": 6,
            "episode_return": 7.5,
        },
    )
    record.values[0], record.values[15] = 8.5, 9.5
    read = np.frombuffer(ffi.buffer(record), slab.RECORD_DTYPE)[0]
    fields = ("episode", "task", "env", "slot", "agent_type", "length", "return")
    assert [read[name].item() for name in fields] == [1, -2, 3, 4, 5, 6, 7.5]
    assert (read["values"][0], read["values"][15]) == (8.5, 9.5)


def test_views_are_views_on_the_block_at_the_declared_offsets() -> None:
    with serial("probe", {"mode": 1, "num_agents": 2}, num_envs=6, num_buffers=2) as vec:
        for half in vec.halves:
            for (group, array), offset in half.offsets.items():
                view = getattr(half.groups[group], array)
                for leaf in view.values() if isinstance(view, dict) else [view]:
                    assert np.shares_memory(leaf, half.block)
                    if not isinstance(view, dict):
                        assert leaf.ctypes.data - half.block.ctypes.data == offset
            assert set(half.offsets) == {
                (group, array)
                for group in ("scouts", "towers")
                for array in (*WRITTEN, "actions")
                if array != "action_masks" or group == "scouts"
            }
            assert half.block.ctypes.data % PAGE == 0
            assert half.env_ids.tolist() == [3 * half.index, 3 * half.index + 1, 3 * half.index + 2]
