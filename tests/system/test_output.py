# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""puffervec/system/output.py; whole runs whose output is lost are in
tests/faults/test_lost_output.py.
"""

from __future__ import annotations

import io
import subprocess
import sys

import pytest

from puffervec.system.output import Steady, printable, steady

pytestmark = pytest.mark.usefixtures("no_leaks")


def test_what_works_is_written() -> None:
    stream = io.StringIO()
    out = Steady(stream)
    print("a", "b", file=out, flush=True)
    out.writelines(["c", "d"])
    assert stream.getvalue() == "a b\ncd" and out.lost is None and not out.isatty()
    assert steady(out) is out and out.getvalue() == stream.getvalue()


def test_what_fails_is_dropped_and_tried_again() -> None:
    class Disk(io.StringIO):
        full = True

        def write(self, text: str) -> int:
            if self.full:
                raise OSError(28, "No space left on device")
            return super().write(text)

    disk = Disk()
    out = Steady(disk)
    print("lost", file=out)
    disk.full = False
    print("kept", file=out)
    assert disk.getvalue() == "kept\n" and "No space left" in str(out.lost)
    disk.close()
    print("lost", file=out, flush=True)
    assert isinstance(out.lost, ValueError) and not out.isatty()


def test_letters_that_the_terminal_lacks() -> None:
    data = io.BytesIO()
    out = Steady(io.TextIOWrapper(data, "ascii"))
    print("caf\xe9", file=out, flush=True)
    assert data.getvalue() == b"caf\\xe9\n" and out.lost is None


def test_characters_that_a_terminal_would_act_on() -> None:
    assert printable("a\nb\tc\x1b[31m\x9b\u202e\ud800") == "a\nb\\tc\\x1b[31m\\x9b\\u202e\\ud800"
    assert printable("caf\xe9 \u4e2d") == "caf\xe9 \u4e2d"


PRINTING = """
import gymnasium, puffervec

class Chatty(gymnasium.Wrapper):
    def step(self, action):
        print("stepping", flush=True)
        return self.env.step(action)

make = lambda: Chatty(gymnasium.make("CartPole-v1"))
with puffervec.make(make, num_envs=2, num_workers=1) as vec:
    vec.reset(seed=0)
    for _ in range(3):
        vec.step([0, 1])
raise SystemExit(7)
"""


@pytest.mark.slow
def test_what_an_env_prints_in_a_worker_ends_no_run() -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-c", PRINTING],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
        )
    assert (done.returncode, done.stderr) == (7, "")
