# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""docs/sharded.md: its script runs in one process and under torchrun, and the other block prints
what it shows.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs import pages

PAGE = (pages.ROOT / "docs/sharded.md").read_text(encoding="utf-8")
(SCRIPT, _), (CHECK, SHOWN) = pages.examples(PAGE)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def test_the_script_runs_as_the_only_rank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rank = {
        "RANK": "0",
        "WORLD_SIZE": "1",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
    }
    for name, value in rank.items():
        monkeypatch.setenv(name, value)
    script = tmp_path / "train.py"
    script.write_text(SCRIPT.text)
    assert pages.run_script(script) == "rank 0 has columns (0, 128)\n"


def test_what_can_be_split_is_told(tmp_path: Path) -> None:
    script = tmp_path / "check.py"
    script.write_text(CHECK.text)
    assert SHOWN is not None and pages.run_script(script) == SHOWN.text


@pytest.mark.slow
def test_the_script_runs_on_two_ranks(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT.text)
    torchrun = [
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--local-addr",
        "127.0.0.1",
        "--nproc-per-node",
        "2",
        "--redirects",  # to a file per rank: both write at any time, piece by piece
        "3",
        "--log-dir",
        str(tmp_path / "logs"),
    ]
    done = subprocess.run(
        [sys.executable, *torchrun, "train.py"], cwd=tmp_path, capture_output=True, text=True,
        timeout=120, env={**os.environ, "PYTHONPATH": str(pages.ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    outputs = sorted((tmp_path / "logs").rglob("stdout.log"))
    assert [output.read_text() for output in outputs] == [
        "rank 0 has columns (0, 64)\n",
        "rank 1 has columns (64, 128)\n",
    ]
