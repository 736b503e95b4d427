# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""What a half is up to (puffervec/states.py): the words stand in errors, and each call moves it from one to the next."""

from __future__ import annotations

import numpy as np
import pytest

from puffervec import states
from puffervec.errors import CallOrderError, ClosedError
from puffervec.states import CLOSED, HELD, IDLE, PENDING, READY
from tests.helpers import ManyInOne, serial


def test_words_differ_and_read_well_in_a_sentence() -> None:
    words = [value for name, value in vars(states).items() if name.isupper()]
    assert len(set(words)) == len(words) == 7
    assert f"half 0 is {PENDING}" == "half 0 is sent"


def test_calls_move_a_half_from_state_to_state() -> None:
    with serial("probe", {}, num_envs=2) as vec:
        assert vec.turns.state == [IDLE]
        vec.async_reset(0)
        assert vec.turns.state == [PENDING]
        vec.recv()
        assert vec.turns.state == [HELD]
        saved = vec.save()
        vec.send([0, 0])
        assert vec.turns.state == [PENDING]
        vec.async_reset(0)
        assert vec.turns.state == [PENDING]
        vec.recv()
        vec.load(saved)
        assert vec.turns.state == [READY]
        vec.recv()
        assert vec.turns.state == [HELD]
        vec.reset(mask=np.array([True, False]))
        assert vec.turns.state == [HELD]
    assert vec.turns.state == [CLOSED]


def test_each_state_refuses_in_its_words() -> None:
    import puffervec

    with puffervec.make("probe", backend=ManyInOne) as vec:
        with pytest.raises(CallOrderError, match=f"half 0 is {IDLE}"):
            vec.recv()
        vec.reset(0)
        with pytest.raises(CallOrderError, match=f"half 0 is {HELD}: call send first"):
            vec.recv()
        vec.load(vec.save())
        with pytest.raises(CallOrderError, match=f"half 0 is {READY}: call recv first"):
            vec.send([0])
        vec.recv()
        vec.serving = "none"
        vec.send([0])
        with pytest.raises(CallOrderError, match=f"half 0 is {PENDING}: call recv first"):
            vec.send([0])
        vec.serving = "all"
        vec.workers.sent(0)
        vec.recv()
    with pytest.raises(ClosedError, match=CLOSED):
        vec.recv()
