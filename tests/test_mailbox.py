# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The side channel (puffervec/workers/python/mailbox.py, puffervec/system/memory_file.py): messages
of any size, pickled or not.
"""

from __future__ import annotations

import os
import sys
import threading
import types
from typing import Any

import numpy as np
import pytest

from puffervec.workers.python import mailbox
from puffervec.workers.python.mailbox import Mailbox, SharedSlot, Slot
from tests.python_envs import TwoPartsError

pytestmark = pytest.mark.usefixtures("no_leaks")

SLOTS = pytest.mark.parametrize("kind", [Slot, SharedSlot])


@SLOTS
def test_a_message_is_taken_once(kind: type[Any]) -> None:
    slot = kind()
    assert slot.take() is None
    slot.post({"a": [1, 2]})
    assert slot.take() == {"a": [1, 2]}
    assert slot.take() is None


@SLOTS
def test_a_new_message_replaces_the_old_one(kind: type[Any]) -> None:
    slot = kind()
    for message in ("a long message " * 1000, "short", "a longer one"):
        slot.post(message)
    assert slot.take() == "a longer one" and slot.take() is None
    slot.post(None)
    assert slot.take() is None


def test_in_one_process_messages_are_references() -> None:
    slot, message = Slot(), object()
    slot.post(message)
    assert slot.take() is message


def test_between_processes_messages_are_copies_of_any_size() -> None:
    slot = SharedSlot()
    for size in (0, 1, 4096, 5_000_000, 10):
        message = np.random.default_rng(size).integers(0, 255, size, np.uint8)
        slot.post([message])
        found = slot.take()
        assert (found[0] == message).all() and found[0] is not message


def test_reads_and_writes_may_come_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel may do less than it was asked to."""
    slot, real_write, real_read = SharedSlot(), os.pwrite, os.pread
    monkeypatch.setattr(
        mailbox.os, "pwrite", lambda fd, data, at: real_write(fd, bytes(data)[:777], at)
    )
    monkeypatch.setattr(mailbox.os, "pread", lambda fd, size, at: real_read(fd, min(size, 555), at))
    slot.post(b"x" * 10_000)
    assert slot.take() == b"x" * 10_000


def test_a_message_that_was_cut_short_is_an_error() -> None:
    slot = SharedSlot()
    slot.post(b"x" * 10_000)
    os.ftruncate(slot.fd, 100)
    with pytest.raises(OSError, match="a message of .* bytes ends after"):
        slot.take()


def test_functions_of_a_script_go_by_value() -> None:
    """Plain pickle cannot: they have no importable name."""
    slot, factor = SharedSlot(), 3
    slot.post({"f": lambda x: factor * x})
    assert slot.take()["f"](5) == 15


def test_classes_of_a_script_reach_a_process_with_another_main_module(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Plain pickle would name them by reference. The worker can pickle them in turn, and the script
    gets its own class back.
    """
    script, worker = types.ModuleType("__main__"), types.ModuleType("__main__")
    exec(
        "class Option:\n    def value(self):\n        return 7\n    def more(self):\n        "
        "return lambda: helper()\n",
        vars(script),
    )
    exec("def helper():\n    return 8\n", vars(script))
    there, back = SharedSlot(), SharedSlot()
    monkeypatch.setitem(sys.modules, "__main__", script)
    there.post(script.Option())
    monkeypatch.setitem(sys.modules, "__main__", worker)
    arrived = there.take()
    assert arrived.value() == 7
    own, helper = script.Option.value, script.helper
    monkeypatch.setattr(back, "_maker", -1)  # the worker's end
    back.post(arrived)
    monkeypatch.setitem(sys.modules, "__main__", script)
    assert type(back.take()) is script.Option and script.Option.value is own
    monkeypatch.setitem(sys.modules, "__main__", worker)
    back.post(arrived.more())  # plain pickle cannot; the script's function stays its own here, too
    monkeypatch.setitem(sys.modules, "__main__", script)
    assert back.take()() == 8 and script.helper is helper
    monkeypatch.delitem(sys.modules, "__mp_main__", raising=False)


def test_what_cannot_be_pickled_leaves_the_slot_as_it_was() -> None:
    slot = SharedSlot()
    slot.post("before")
    with pytest.raises(TypeError, match="lock"):
        slot.post(threading.Lock())
    assert slot.take() == "before"


def test_a_slot_closes_its_file() -> None:
    before = len(os.listdir("/proc/self/fd"))
    slots = [SharedSlot() for _ in range(5)]
    assert len(os.listdir("/proc/self/fd")) == before + 5
    del slots
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("shared", [False, True])
def test_an_exception_is_found_in_whatever_half_it_is_and_all_answers_are_dropped(
    shared: bool,
) -> None:
    box = Mailbox([0, 1, 2], shared)
    assert box.exception() is None
    box.answers[0].post([(0, {"an": "info"})])
    box.answers[2].post(ValueError("third"))
    found = box.exception()
    assert isinstance(found, ValueError) and found.args == ("third",)
    assert [answer.take() for answer in box.answers.values()] == [None] * 3
    box.answers[1].post(TwoPartsError("this", "that"))  # in another process it cannot be made again
    assert isinstance(box.exception(), type(None) if shared else TwoPartsError)


@pytest.mark.parametrize(("shared", "kind"), [(False, Slot), (True, SharedSlot)])
def test_a_mailbox_has_a_question_and_an_answer_per_half(shared: bool, kind: type[Any]) -> None:
    box = Mailbox([1, 3], shared)
    slots = [*box.questions.values(), *box.answers.values()]
    assert list(box.questions) == list(box.answers) == [1, 3] and all(
        type(slot) is kind for slot in slots
    )
    for i, slot in enumerate(slots):
        slot.post(i)
    assert [slot.take() for slot in slots] == [0, 1, 2, 3]
