# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""puffervec/system/command.py: exit codes and messages, with their output lost and without."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable

import pytest

from puffervec.errors import CheckpointError, ConfigError, MissingExtraError, SceneError, WorkerDied
from puffervec.system.command import LONGEST, run_command


def failing(error: BaseException) -> Callable[[], int]:
    def work() -> int:
        raise error

    return work


@pytest.mark.parametrize("kind", [ConfigError, SceneError, CheckpointError, MissingExtraError])
def test_bad_input_is_one_short_line(
    kind: type[Exception], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command("tool", failing(kind("a\n  b\x1b[2J " + "c" * LONGEST))) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("tool: a b\\x1b[2J ccc") and err.endswith("c...\n")
    assert err.count("\n") == 1 and len(err) < LONGEST + 20


def test_failures(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command("tool", failing(WorkerDied("lost\nand why"))) == 1
    assert capsys.readouterr().err == "tool: lost\nand why\n"
    assert run_command("tool", failing(KeyboardInterrupt())) == 130
    assert run_command("tool", lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):  # A defect shows where it is.
        run_command("tool", failing(ZeroDivisionError()))


@pytest.mark.parametrize(
    ("error", "said"),
    [(OSError(28, "No space left"), "tool: some of the output was lost: No space left\n"),
     (BrokenPipeError(32, "Broken pipe"), "")],
)  # fmt: skip
def test_lost_output_fails_a_command_that_only_prints(
    error: OSError, said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Full(io.StringIO):
        def write(self, text: str) -> int:
            raise error

    def work() -> int:
        print("a line")
        return 0

    monkeypatch.setattr(sys, "stdout", Full())
    assert run_command("tool", work) == 1
    assert capsys.readouterr().err == said
    assert run_command("tool", work, writes_files=True) == 0
