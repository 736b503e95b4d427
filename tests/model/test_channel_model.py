# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The channel's protocol cannot get stuck, each part of it is needed, and csrc/core/channel.c does
things in this order.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.model import channel_model
from tests.model.channel_model import LARGE, SABOTAGES, Protocol, Setup, machine
from tests.model.machine import Faults

SOURCE = Path(__file__).resolve().parents[2] / "csrc/core/channel.c"
HEADER = SOURCE.with_suffix(".h")
SMALL = [
    (Setup(turns=2), Faults(crashes=1, spurious=1, interrupts=1)),
    (Setup(halves=2), Faults(crashes=1, spurious=1, interrupts=1)),
    (Setup(workers=2, workers_sleep=False), Faults(crashes=1, spurious=1, interrupts=1)),
    (
        Setup(2, 2, 1, shared=False, any_order=True, workers_sleep=False),
        Faults(crashes=1, interrupts=1),
    ),
]


@pytest.mark.parametrize(
    ("setup", "faults"), SMALL, ids=[channel_model.describe(*case) for case in SMALL]
)
def test_every_run_ends_and_no_row_is_touched_out_of_turn(setup: Setup, faults: Faults) -> None:
    result = machine(setup, faults).search()
    assert result.states > 10_000
    assert (result.stuck, result.wrong) == (0, 0), "\n".join(result.trace)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("setup", "faults"), LARGE, ids=[channel_model.describe(*case) for case in LARGE]
)
def test_every_run_of_the_large_setups_ends(setup: Setup, faults: Faults) -> None:
    result = machine(setup, faults).search()
    assert result.states > 100_000
    assert (result.stuck, result.wrong) == (0, 0), "\n".join(result.trace)


@pytest.mark.slow
@pytest.mark.parametrize("name", SABOTAGES)
def test_the_search_finds_what_each_part_is_for(name: str) -> None:
    """And finds nothing in the same setup with the whole protocol."""
    setup, faults, protocol = SABOTAGES[name]
    result = machine(setup, faults, protocol).search(first_problem=True)
    assert result.stuck + result.wrong > 0
    assert len(result.trace) > 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "case", sorted({(case[0], case[1].crashes) for case in SABOTAGES.values()}, key=str), ids=str
)
def test_the_setups_of_the_sabotages_have_no_problem_themselves(case: tuple[Setup, int]) -> None:
    setup, crashes = case
    result = machine(setup, Faults(crashes=crashes)).search()
    assert (result.stuck, result.wrong) == (0, 0), "\n".join(result.trace)


def test_what_overtakes_is_found_by_its_data_and_what_waits_by_its_wait() -> None:
    """Each kind of problem is told from the other."""
    late = machine(Setup(turns=2), Faults(), Protocol(turn_last=False)).search()
    lost = machine(Setup(turns=2), Faults(), Protocol(recheck=False)).search()
    assert late.wrong and not lost.wrong and lost.stuck


def test_a_doorbell_that_one_rings_needs_no_atomic_increment() -> None:
    result = machine(Setup(turns=3), Faults(), Protocol(atomic=False)).search()
    assert (result.stuck, result.wrong) == (0, 0)


def test_a_trace_is_the_way_to_the_problem(capsys: pytest.CaptureFixture[str]) -> None:
    assert channel_model.main(["--trace", "no wake"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("store asked00")
    assert "asleep" in lines[-1]


# ---- the source ----------------------------------------------------------------------------------


def body(name: str) -> str:
    text = re.sub(r"//[^\n]*", "", SOURCE.read_text())
    match = re.search(rf"\b{name}\([^;{{]*\) \{{\n(.*?)\n\}}", text, re.DOTALL)
    assert match is not None, name
    return match.group(1)


def in_order(text: str, *parts: str) -> None:
    at = -1
    for part in parts:
        found = text.find(part, at + 1)
        assert found > at, f"{part!r} does not follow"
        at = found


def test_the_source_does_what_the_model_says() -> None:
    """The model checks the protocol; this ties it to the code, where a test at random would miss a
    change.
    """
    in_order(
        body("pv_publish"),
        "line->semaphore = semaphore",
        "pv_store_seq_cst(&line->turn, turn)",
        "pv_load_seq_cst(&doorbell->sleeping)",
        "pv_increment(&doorbell->word)",
        "doorbell_wake(doorbell)",
    )
    in_order(
        body("wait_asleep"),
        "pv_load_acquire(&doorbell->word)",
        "pv_store_seq_cst(&doorbell->sleeping, 1)",
        "look_seq_cst(watches, count)",
        "if (changed < 0)",
        "doorbell_wait(doorbell, seen, slice_ns)",
        "pv_store_seq_cst(&doorbell->sleeping, 0)",
    )
    assert "pv_load_seq_cst(&watches[i].line->turn)" in body("look_seq_cst")
    assert "FUTEX_WAIT, seen" in body("doorbell_wait")
    header = " ".join(HEADER.read_text().split())
    assert (
        "pv_increment(uint32_t* word) { __atomic_fetch_add(word, 1, __ATOMIC_RELEASE); }" in header
    )
