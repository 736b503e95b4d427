# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The channel's protocol cannot get stuck, each part of it is needed, and csrc/channel.c does things in this order."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.model.channel_model import Protocol, one_bell, two_ends

SOURCE = Path(__file__).resolve().parents[2] / "csrc/channel.c"
HEADER = SOURCE.with_suffix(".h")


@pytest.mark.parametrize(("halves", "turns"), [(1, 1), (1, 3), (2, 1), (2, 2)])
def test_nothing_gets_stuck_and_every_turn_runs_once(halves: int, turns: int) -> None:
    result = two_ends(halves, turns, Protocol()).search()
    assert result.states > 100 * halves * turns
    assert (result.stuck, result.wrong) == (0, 0)


@pytest.mark.parametrize("missing", ["recheck", "turn_seq_cst", "sleeping_seq_cst", "bump", "flag_first"])
def test_the_search_finds_what_each_part_is_for(missing: str) -> None:
    result = two_ends(1, 2, Protocol(**{missing: False})).search()
    assert result.stuck > 0


def test_a_bell_that_one_rings_needs_no_atomic_increment() -> None:
    result = two_ends(1, 3, Protocol(atomic=False)).search()
    assert (result.stuck, result.wrong) == (0, 0)


# ---- any order: several senders, one sleeper, one bell -----------------------------------------------------


@pytest.mark.parametrize("turns", [(1, 1), (1, 2), (2, 2), pytest.param((1, 1, 1), marks=pytest.mark.slow)], ids=str)
def test_the_shared_bell_wakes_whoever_rings(turns: tuple[int, ...]) -> None:
    result = one_bell(turns, Protocol()).search()
    assert result.states > 100 * sum(turns)
    assert (result.stuck, result.wrong) == (0, 0)


def test_a_plain_store_to_the_shared_bell_loses_a_wake_up() -> None:
    """A slow sender puts back an old count: it takes one with a turn and another with two."""
    assert one_bell((1, 2), Protocol(atomic=False)).search().stuck > 0


@pytest.mark.parametrize("missing", ["recheck", "turn_seq_cst", "sleeping_seq_cst", "bump", "flag_first"])
def test_each_part_is_needed_with_the_shared_bell_too(missing: str) -> None:
    assert one_bell((1, 2), Protocol(**{missing: False})).search().stuck > 0


# ---- the source --------------------------------------------------------------------------------------------


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
    """The model checks the protocol; this ties it to the code, where a test at random would miss a change."""
    in_order(
        body("pv_publish"),
        "line->semaphore = semaphore",
        "pv_store_seq_cst(&line->turn, turn)",
        "pv_load_seq_cst(&bell->sleeping)",
        "pv_increment(&bell->word)",
        "bell_wake(bell)",
    )
    in_order(
        body("pv_wait"),
        "pv_load_acquire(&bell->word)",
        "pv_store_seq_cst(&bell->sleeping, 1)",
        "look_seq_cst(watches, count)",
        "if (changed < 0)",
        "bell_sleep(bell, seen, slice_ns)",
        "pv_store_seq_cst(&bell->sleeping, 0)",
    )
    assert "pv_load_seq_cst(&watches[i].line->turn)" in body("look_seq_cst")
    assert "FUTEX_WAIT, seen" in body("bell_sleep")
    assert "pv_increment(uint32_t* word) { __atomic_fetch_add(word, 1, __ATOMIC_RELEASE); }" in HEADER.read_text()
