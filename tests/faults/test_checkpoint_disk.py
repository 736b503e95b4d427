# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""puffervec/train/run/checkpoint.py and folder.py on a disk that fails: each call in turn, full
disks, size limits.

An old or the new checkpoint always loads, the next save cleans up, and the message says what to do.
"""

from __future__ import annotations

import errno
import os
import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from puffervec.train.run import checkpoint as ckpt
from puffervec.train.run.checkpoint import SaveError
from tests.faults.disk import Failing, half_writes
from tests.train.saved import some, value_of

pytestmark = pytest.mark.usefixtures("no_leaks")
ROOT = Path(__file__).resolve().parents[2]
WORDS = {
    errno.ENOSPC: r"disk full \(No space left on device\): free \d+ MiB at ",
    errno.EIO: "Input/output error: the disk of .* is failing, see dmesg",
}


@pytest.mark.parametrize(
    ("for_ever", "number"),
    [
        pytest.param(False, errno.EIO, id="once-broken"),
        pytest.param(True, errno.ENOSPC, id="for ever-full"),
        pytest.param(False, errno.ENOSPC, id="once-full", marks=pytest.mark.slow),
        pytest.param(True, errno.EIO, id="for ever-broken", marks=pytest.mark.slow),
    ],
)
def test_any_call_may_fail(
    tmp_path: Path, for_ever: bool, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The n-th call fails, for all n: what loads is the old one or, after a save that said yes, the
    new one.
    """
    monkeypatch.setattr(
        os, "fsync", lambda fd: None
    )  # Nothing here needs to wait for the real disk.
    folder = tmp_path / "checkpoints"
    ckpt.write(folder, some(1, 0.0), keep=1)
    with Failing() as counter:
        ckpt.write(folder, some(2, 0.0), keep=1)
    assert counter.count > 30
    refused = 0
    for nth in range(1, counter.count + 1):
        old, new, step = float(2 * nth), float(2 * nth + 1), 10 * nth
        ckpt.write(folder, some(step, old), keep=1)
        assert len(list(folder.iterdir())) == 1  # Nothing is left of the failure before.
        try:
            with Failing(nth, for_ever, number):
                ckpt.write(folder, some(step + 1, new), keep=1)
        except SaveError as error:
            refused += 1
            assert re.match(f"cannot save a checkpoint: {WORDS[number]}", str(error)), error
            assert value_of(ckpt.newest(folder)) in (old, new)
        else:
            assert value_of(ckpt.newest(folder)) == new
    assert (
        15 < refused < counter.count
    )  # Most of them are before the new one is safe; a removal that fails is no failure.


def test_the_message_names_what_is_kept(tmp_path: Path) -> None:
    for nth, words in ((1, "earlier ones are untouched"), (12, "there is no earlier one")):
        with pytest.raises(SaveError, match=words), Failing(nth, for_ever=True):
            ckpt.write(tmp_path, some(1), keep=1)
    old = ckpt.write(tmp_path, some(1), keep=1)
    with (
        pytest.raises(SaveError, match=f"the checkpoint {old} is kept"),
        Failing(12, for_ever=True),
    ):
        ckpt.write(tmp_path, some(2), keep=1)


def test_short_writes_are_completed(tmp_path: Path) -> None:
    with half_writes():
        path = ckpt.write(tmp_path, some(1, 7.0, size=1000), keep=1)
    assert value_of(path) == 7.0


def test_a_limit_on_file_sizes_is_named(tmp_path: Path) -> None:
    """RLIMIT_FSIZE, for real: the kernel refuses the write half-way."""
    ckpt.write(tmp_path, some(1, 1.0), keep=1)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        with pytest.raises(SaveError, match=r"raise the file-size limit \(ulimit -f\) to 1 MiB"):
            ckpt.write(tmp_path, some(2, 2.0, size=10_000), keep=1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [path.name for path in tmp_path.iterdir()] == ["000000000001"] and value_of(
        ckpt.newest(tmp_path)
    ) == 1.0


def test_a_folder_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").touch()
    with pytest.raises(SaveError, match=f"Not a directory: check {tmp_path}/checkpoints"):
        ckpt.write(tmp_path / "checkpoints", some(1), keep=1)


def test_litter_that_cannot_be_removed_is_no_obstacle(tmp_path: Path) -> None:
    """Leftovers under the very names that a save uses: links, files, full folders."""
    mine = tmp_path / f".partial-{os.getpid()}"
    mine.mkdir()
    (mine / "default.safetensors").mkdir()
    (tmp_path / ".removed-000000000001").symlink_to(tmp_path / "nowhere")
    (tmp_path / "000000000005").symlink_to(tmp_path / "nowhere")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ckpt.Folder, "sweep", lambda *_: None)
        ckpt.write(tmp_path, some(1, 1.0), keep=1)
        ckpt.write(tmp_path, some(5, 2.0), keep=1)
    assert value_of(ckpt.newest(tmp_path)) == 2.0
    ckpt.write(tmp_path, some(6, 3.0), keep=1)
    assert value_of(ckpt.newest(tmp_path)) == 3.0
    assert {path.name for path in tmp_path.iterdir()} == {
        "000000000006",
        "000000000005",
    }  # Links are not ours: left alone.


IN_A_SMALL_FILE_SYSTEM = """
import sys
from pathlib import Path
from puffervec.train.run import checkpoint as ckpt
from tests.train.saved import some, value_of
folder = Path(sys.argv[1]) / "checkpoints"
ckpt.write(folder, some(1, 1.0, 50_000), keep=2)  # 0.4 MiB
for step in range(2, 12):  # With two kept, a third one of 0.8 MiB does not fit.
    try:
        ckpt.write(folder, some(step, float(step), 100_000), keep=2)
        last = step
    except ckpt.SaveError as error:
        print(error)
assert value_of(ckpt.newest(folder)) == last, last
ckpt.write(folder, some(20, 20.0, 10_000), keep=1)
assert [path.name for path in folder.iterdir()] == ["000000000020"]
print("well")
"""


@pytest.mark.slow
def test_a_file_system_of_two_mib(tmp_path: Path) -> None:
    command = (
        f"mount -t tmpfs -o size=2m none {tmp_path} && exec {sys.executable} -c "
        f"'{IN_A_SMALL_FILE_SYSTEM}' {tmp_path}"
    )
    if subprocess.run(
        ["unshare", "-m", "mount", "-t", "tmpfs", "none", str(tmp_path)], capture_output=True
    ).returncode:
        pytest.skip("mounting needs privileges (unshare -m) that this process does not have")
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", command], capture_output=True, text=True, cwd=ROOT
    )
    assert done.returncode == 0 and done.stderr == "", done.stderr
    assert (
        done.stdout.endswith("well\n")
        and "disk full (No space left on device): free " in done.stdout
    ), done.stdout
