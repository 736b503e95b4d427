# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""A trainer whose run folder fails it: full, read-only, a file, deleted under it, used by another
(puffervec/train/run/rundir.py, log.py, loop.py). Bad input is one line and exit code 2; what
happens under way is said, and the run continues.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from puffervec.commands import cli
from puffervec.errors import ConfigError
from puffervec.train import TrainConfig, Trainer
from puffervec.train.metrics.log import read_metrics
from puffervec.train.run import checkpoint as ckpt
from puffervec.train.run import rundir
from tests.faults.trainers import SMALL, Notes, start
from tests.fixtures.training import small, torch_state
from tests.train.saved import fill_up

__all__ = ["small", "torch_state"]  # Fixtures.
pytestmark = pytest.mark.usefixtures("no_leaks")
ROOT = Path(__file__).resolve().parents[2]
Small = Callable[..., TrainConfig]


def refused(args: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """Run the command line, which must refuse with one line; return it."""
    assert cli.main(["probe", *SMALL, *args]) == 2
    out, err = capsys.readouterr()
    assert err.startswith("puffer-train: ") and err.count("\n") == 1 and out == ""
    return err


# ---- before the start ----------------------------------------------------------------------------


def test_a_run_folder_that_is_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], small: Small
) -> None:
    (tmp_path / "r").touch()
    assert "r exists already: choose another name" in refused(
        ["--log.folder", str(tmp_path), "--run-name", "r"], capsys
    )
    assert f"cannot create {tmp_path}/r/" in refused(["--log.folder", str(tmp_path / "r")], capsys)
    with pytest.raises(ConfigError, match="cannot write to the run folder .*r: File exists"):
        Trainer(small(), folder=tmp_path / "r")


def test_a_full_disk_at_the_start(
    tmp_path: Path, small: Small, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lock's file is closed, as `no_leaks` sees."""
    full = os.open("/dev/full", os.O_WRONLY | os.O_CLOEXEC)
    monkeypatch.setattr(rundir.RunLock, "_sign", lambda self: os.write(full, b"x"))
    with pytest.raises(ConfigError, match="cannot lock .*run.lock: No space left on device"):
        rundir.RunLock(tmp_path)
    os.close(full)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that other users may enter, unlike those of pytest."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def as_nobody(folder: Path) -> list[str]:
    """What runs a command without root's right to write everywhere."""
    wrapper = ["setpriv", "--reuid", "65534", "--clear-groups"]
    if subprocess.run([*wrapper, "true"], capture_output=True).returncode:
        pytest.skip(
            "becoming another user (setpriv --reuid) needs privileges that this process does not "
            "have"
        )
    if subprocess.run(
        [*wrapper, sys.executable, "-c", "import puffervec._ffi"], capture_output=True, cwd=ROOT
    ).returncode:
        pytest.skip("another user may not read the sources")
    return wrapper


def read_only(folder: Path) -> list[str]:
    """What runs a command with `folder` mounted read-only."""
    wrapper = [
        "unshare",
        "-m",
        "sh",
        "-c",
        f'mount --bind {folder} {folder} && mount -o remount,ro,bind {folder} && exec "$@"',
        "-",
    ]
    if subprocess.run([*wrapper, "true"], capture_output=True).returncode:
        pytest.skip("mounting needs privileges (unshare -m) that this process does not have")
    return wrapper


TRAIN = (
    "import sys; sys.dont_write_bytecode = True; from puffervec.commands.cli import main; "
    "sys.exit(main(sys.argv[1:]))"
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("wrap", "words"), [(as_nobody, "Permission denied"), (read_only, "Read-only file system")]
)
@pytest.mark.parametrize("resumed", [False, True], ids=["new", "resumed"])
def test_a_folder_that_cannot_be_written(
    open_folder: Path, wrap: Callable[[Path], list[str]], words: str, resumed: bool, small: Small
) -> None:
    folder, target = open_folder, ["probe"]
    if resumed:
        with Trainer(small(log={"folder": str(folder), "name": "r"})) as trainer:
            trainer.save()
        target = ["--resume", str(folder / "r")]
    command = [
        *wrap(folder),
        sys.executable,
        "-c",
        TRAIN,
        *target,
        *SMALL,
        "--log.folder",
        str(folder),
    ]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert re.fullmatch(f"puffer-train: .*{folder}.*: {words}\n", done.stderr)


# ---- under way -----------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_run_survives_the_loss_of_its_log(small: Small) -> None:
    notes = Notes()
    with Trainer(small(), dashboard=notes) as trainer:
        assert trainer.files.log is not None
        os.close(fill_up(trainer.files.log))
        metrics = trainer.train()
        assert metrics["update"] == trainer.files.log.dropped > 2
    first, last = notes.notes
    assert re.match(
        r"cannot write metrics to .*metrics.jsonl: disk full .*: free \d+ MiB at .*; "
        r"the run continues",
        first,
    )
    assert last.startswith(f"{trainer.files.log.dropped} lines of metrics were dropped")


@pytest.mark.slow
def test_a_log_that_comes_back_is_whole(small: Small) -> None:
    notes = Notes()
    with Trainer(small(train={"total_timesteps": 10**9}), dashboard=notes) as trainer:
        assert trainer.files.log is not None
        for full in (False, True, True, False):
            if full:
                good = fill_up(trainer.files.log)
            trainer.collect()
            trainer.report(trainer.update())
            if full:
                assert trainer.files.log._file is not None
                os.dup2(good, trainer.files.log._file._fd, inheritable=False)
                os.close(good)
        assert [line["update"] for line in read_metrics(trainer.files.log.path)] == [1, 4]
    assert (
        len(notes.notes) == 2
        and notes.notes[1] == "metrics are written again; 2 lines were dropped"
    )


@pytest.mark.slow
def test_a_run_that_is_deleted_under_its_trainer(small: Small) -> None:
    """What was learned is saved all the same, in a folder made and locked again."""
    notes = Notes()
    config = small(log={"checkpoint_interval_s": 0})
    with Trainer(config, dashboard=notes) as trainer:
        trainer.collect()
        trainer.update()
        trainer.save()
        subprocess.run(["rm", "-r", str(trainer.folder)], check=True)
        trainer.train()
        with pytest.raises(ConfigError, match=f"another trainer is using {trainer.folder}"):
            rundir.RunLock(trainer.folder)
    said = [note for note in notes.notes if "was deleted" in note]
    assert said == [
        f"the run folder {trainer.folder} was deleted: it was recreated without its old content"
    ]
    found = ckpt.newest(trainer.folder / "checkpoints")
    assert (
        found is not None
        and ckpt.read(found).manifest["counters"]["agent_steps"] == trainer.counters.agent_steps
    )
    assert json.loads((trainer.folder / "config.json").read_text())["target"] == "probe"
    lines = list(read_metrics(trainer.folder / "metrics.jsonl"))
    assert lines[-1]["update"] == trainer.counters.updates


FULL = """
mount -t tmpfs -o size=256k none "$1" && shift && exec "$@"
"""


@pytest.mark.slow
def test_a_disk_that_fills_up_under_the_run(tmp_path: Path) -> None:
    """A real, tiny file system: the run learns to its end, says what it could not save, and what
    was saved loads.
    """
    if subprocess.run(
        ["unshare", "-m", "mount", "-t", "tmpfs", "none", str(tmp_path)], capture_output=True
    ).returncode:
        pytest.skip("mounting needs privileges (unshare -m) that this process does not have")
    check = TRAIN.replace("sys.exit(main(sys.argv[1:]))", "code = main(sys.argv[1:])") + (
        "; from pathlib import Path; from puffervec.train.run.checkpoint import read; from "
        "puffervec.train.run.find import find_checkpoint; print('loads', "
        f"read(find_checkpoint('latest', Path('{tmp_path}'))).manifest['counters']['updates']); "
        "sys.exit(code)"
    )
    flags = [
        "--policy.hidden",
        "128",
        "--train.total-timesteps",
        "2000",
        "--log.checkpoint-interval-s",
        "0",
    ]
    flags += ["--log.keep-checkpoints", "9", "--log.folder", str(tmp_path)]
    command = [
        "unshare",
        "-m",
        "sh",
        "-c",
        FULL,
        "-",
        str(tmp_path),
        sys.executable,
        "-c",
        check,
        "probe",
        *SMALL,
        *flags,
    ]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert (
        "cannot save a checkpoint: disk full (No space left on device): free 1 MiB at "
        in done.stdout + done.stderr
    )
    assert done.returncode == 1 and "the run continues" in done.stdout
    assert "Traceback" not in done.stderr
    assert re.search(r"^loads [1-9]", done.stdout, re.MULTILINE)


# ---- one trainer per run folder ------------------------------------------------------------------


@pytest.mark.slow
def test_a_second_trainer_is_refused_and_starts_when_the_first_is_gone(
    small: Small, capsys: pytest.CaptureFixture[str]
) -> None:
    config = small(vec={"backend": "multiprocessing", "num_workers": 2})
    with Trainer(config) as trainer:
        trainer.collect()
        trainer.save()
        resume = ["--resume", str(trainer.folder)]
        assert cli.main(resume) == 2
        said = capsys.readouterr().err
        assert said.count("\n") == 1
        assert re.search(
            rf"another trainer is using {trainer.folder}: pid {os.getpid()}, host \S+, started 20",
            said,
        )
        for (
            worker
        ) in trainer.vec.processes:  # Not even a worker that outlives the learner holds the lock.
            held = [
                os.readlink(path)
                for path in Path(f"/proc/{worker.pid}/fd").iterdir()
                if path.is_symlink()
            ]
            assert held and not any(name.endswith("run.lock") for name in held)
    assert cli.main(resume) == 0
    capsys.readouterr()


@pytest.mark.parametrize("end", ["killed", "closed"])
def test_a_forked_child_does_not_hold_the_lock(tmp_path: Path, end: str) -> None:
    """A lock belongs to the open file, which a fork shares."""
    lock = rundir.RunLock(tmp_path)
    here, stay = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:  # Says that it runs, and lives until the parent closes its pipe.
        os.close(stay[1])
        os.write(here[1], b"x")
        os.read(stay[0], 1)
        os._exit(0)
    try:
        os.read(here[0], 1)
        with pytest.raises(
            ConfigError, match="another trainer"
        ):  # It has not let go of it for the parent.
            rundir.RunLock(tmp_path)
        lock.close() if end == "closed" else lock._finalizer()
        rundir.RunLock(tmp_path).close()
    finally:
        for fd in (*here, *stay):
            os.close(fd)
        os.waitpid(child, 0)


@pytest.mark.slow
def test_killed_and_started_again_at_once(tmp_path: Path) -> None:
    """SIGKILL, with its workers stopped so that they are still there: the lock is free all the
    same.
    """
    flags = [
        "--backend",
        "multiprocessing",
        "--num-workers",
        "2",
        "--run-name",
        "r",
        "--log.checkpoint-interval-s",
        "0",
    ]
    run = start([*flags, "--total-timesteps", str(10**12)], tmp_path)
    workers: list[Any] = []
    try:
        for _ in range(2):  # The first is saved when the second is shown.
            run.wait_for("agent-steps/s")
        workers = psutil.Process(run.pid).children(recursive=True)
        for worker in workers:
            worker.send_signal(signal.SIGSTOP)
        run.send(signal.SIGKILL)
        run.end()
        assert any(worker.is_running() for worker in workers)
        rundir.RunLock(tmp_path / "r").close()
    finally:
        for worker in workers:
            worker.kill()
        run.kill()
    assert ckpt.newest(tmp_path / "r" / "checkpoints") is not None
