# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""puffervec/train/verbs/commands.py: what is copied from a narrow terminal runs as it would from a wide one."""

from __future__ import annotations

import io
import subprocess

import pytest

from puffervec.train.verbs import commands

WORDS = ["puffer-train", "my_envs:make", "--resume", "runs/it's a run", "--total-timesteps", "2000", "--env.on", "true"]


@pytest.mark.parametrize("width", [None, 200, 80, 40, 20, 1])
def test_a_shell_reads_the_same_words(width: int | None) -> None:
    lines = commands.in_lines(WORDS, width)
    script = "\n".join(lines).replace("puffer-train", "printf '%s\\n' puffer-train", 1)
    assert subprocess.run(["sh", "-c", script], capture_output=True, text=True).stdout.splitlines() == WORDS
    assert (len(lines) == 1) == (width in (None, 200))
    if width == 40:
        assert max(map(len, lines)) <= 40 and len(lines) > 1
    for line in lines:  # A flag stays with its value.
        assert not line.rstrip(" \\").endswith(("--resume", "--total-timesteps", "--env.on"))


def test_only_a_terminal_is_narrow(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    commands.print_command(*WORDS)
    assert capsys.readouterr().out.count("\n") == 1
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: True)
    monkeypatch.setattr("sys.stdout", stream)
    commands.print_command(*WORDS)
    assert stream.getvalue().count("\n") == len(commands.in_lines(WORDS, 30)) > 1
