# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Runs whose output is lost: a full disk, a closed pipe, a closed terminal
(puffervec/system/output.py). They train to their end and leave a checkpoint; a command whose output
is all it is for says that it failed.
"""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from puffervec.commands import cli
from puffervec.train.run import checkpoint as ckpt
from tests.faults.trainers import ROOT, SMALL, WAIT_S
from tests.helpers import thinned

PROGRAM = "import sys; from puffervec.commands.cli import main; sys.exit(main(sys.argv[1:]))"
COMMAND = [sys.executable, "-c", PROGRAM]
STEPS = 2000
TRAIN = [
    "probe",
    *SMALL,
    "--total-timesteps",
    str(STEPS),
    "--train.horizon",
    "64",
    "--run-name",
    "r",
    "--log.folder",
]


def trained(folder: Path) -> bool:
    """True where the run has come to its end."""
    found = ckpt.newest(folder / "r" / "checkpoints")
    return found is not None and ckpt.read_manifest(found)["counters"]["agent_steps"] >= STEPS


@pytest.mark.slow
@pytest.mark.parametrize(
    ("where", "dashboard"), thinned(2, [("closed pipe", "rich"), ("full disk", "plain")])
)
def test_output_that_cannot_be_written(
    where: str,
    dashboard: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if where == "full disk":
        end = os.open("/dev/full", os.O_WRONLY | os.O_CLOEXEC)
    else:
        reader, end = os.pipe()
        os.close(reader)
    with os.fdopen(end, "w") as out:
        monkeypatch.setattr(sys, "stdout", out)
        assert cli.main([*TRAIN, str(tmp_path), "--log.dashboard", dashboard]) == 0
        assert trained(tmp_path)
        assert cli.main(["list"]) == 1  # Its output was all that it is for.
    said = "puffer-train: some of the output was lost: No space left on device\n"
    assert capsys.readouterr().err == (2 * said if where == "full disk" else "")


@pytest.mark.slow
def test_everything_on_a_full_disk(tmp_path: Path) -> None:
    """To the very end of the process, where Python flushes what is left."""
    with open("/dev/full", "w") as full:
        done = subprocess.run([*COMMAND, *TRAIN, str(tmp_path)], stdout=full, stderr=full, cwd=ROOT)
    assert (done.returncode, trained(tmp_path)) == (0, True)


@pytest.mark.slow
def test_closed_descriptors(tmp_path: Path) -> None:
    """No file of the run gets the number of a stream, and with it what is printed."""
    command = ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "-", *COMMAND, *TRAIN, str(tmp_path)]
    assert (subprocess.run(command, cwd=ROOT).returncode, trained(tmp_path)) == (0, True)
    lines = (tmp_path / "r" / "metrics.jsonl").read_text().splitlines()
    assert all(isinstance(json.loads(line), dict) for line in lines)
    assert (tmp_path / "r" / "run.lock").read_text().startswith("pid ")


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["serial", "multiprocessing"])
def test_a_terminal_that_is_closed(tmp_path: Path, backend: str) -> None:
    """The kernel sends SIGHUP, and each write after it fails; the run, in its own session as a
    terminal has it, goes on.
    """
    master, slave = pty.openpty()
    steal = "import fcntl, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
    args = [
        *TRAIN,
        str(tmp_path),
        "--backend",
        backend,
        "--log.dashboard",
        "rich",
        "--total-timesteps",
        str(3 * STEPS),
    ]
    command = [sys.executable, "-c", steal + PROGRAM, *args]
    run = subprocess.Popen(
        command, stdin=slave, stdout=slave, stderr=slave, start_new_session=True, cwd=ROOT
    )
    os.close(slave)
    try:
        seen = b""
        while b"agent-steps/s" not in seen:
            seen += os.read(master, 10_000)
        assert run.poll() is None
        os.close(master)
        assert (run.wait(WAIT_S), trained(tmp_path)) == (0, True)
    finally:
        run.kill()
        run.wait()


def test_names_of_a_stranger_are_shown_as_escapes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    evil = str(tmp_path / "\x1b]0;owned\x07")
    assert cli.main(["--resume", evil]) == 2
    err = capsys.readouterr().err
    assert "\\x1b]0;owned\\x07" in err and err.strip().isprintable()
