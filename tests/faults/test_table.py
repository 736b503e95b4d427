# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The eleven rows of the fault table (bench/fault_table.py): this library passes all, with Python
envs and with C envs.
"""

from __future__ import annotations

import re

import pytest

from bench.fault_table import ROWS, play

# What the exception says, by row.
SAYS = {
    "init": r"WorkerError: worker 1, env 1: .*told to fail",
    "raise": r"WorkerError: worker 1, env 1, step 2: .*told to fail",
    "kill": r"WorkerDied: worker 1 was ended by SIGKILL .*in step 2 of env 1",
    "idle": r"WorkerDied: worker 1 was ended by SIGKILL .*while it was idle",
    "exit": r"WorkerDied: worker 1 ended with exit status 3 in step 2 of env 1",
    "ctrl-c": r"KeyboardInterrupt: ",
    "hang": r"WorkerTimeout: worker 1 gave no answer in 2 s: an env hangs \(in step 2 of env 1[,)]",
}


@pytest.mark.parametrize("library", ["puffervec", "puffervec-c"])
@pytest.mark.parametrize(
    "row", [row if row == "kill" else pytest.param(row, marks=pytest.mark.slow) for row in ROWS]
)
def test_a_row_of_the_table_is_passed(row: str, library: str) -> None:
    outcome = play(library, row)
    assert outcome.passed, outcome
    assert (outcome.hung, outcome.left) == ("", 0)
    said = ": ".join(outcome.raised) if outcome.raised is not None else ""
    if row in SAYS:
        assert re.match(SAYS[row], said), said
    else:
        assert said == ""
    if row == "none":
        assert outcome.later is not None and outcome.later[0] == "ClosedError"
