# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from puffervec.commands import cli
from puffervec.train.device import ranks
from puffervec.train.metrics.log import read_metrics
from puffervec.train.run import checkpoint as ckpt
from puffervec.train.run import find, provenance
from tests.helpers import eventually
from tests.train.saved import some

GIVEN = {"TORCHELASTIC_RUN_ID": "none", "RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0"}


@pytest.fixture
def torchrun(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Set what torchrun sets: torchrun(TORCHELASTIC_RUN_ID="mine")."""

    def give(**variables: str) -> None:
        for name, value in {**GIVEN, **variables}.items():
            monkeypatch.setenv(name, value)

    return give


def run_of(folder: Path, names: list[str], checkpoints: int = 1) -> Path:
    """A run folder of a job."""
    folder.mkdir(parents=True)
    provenance.record_start(folder, {"env": "probe"})
    provenance.record_start(folder, {"env": "probe", "job": names})
    for steps in range(checkpoints):
        ckpt.write(folder / "checkpoints", some(steps), 3)
    return folder


def test_names(torchrun: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in GIVEN:
        monkeypatch.delenv(name, raising=False)
    assert ranks.job_names() == [] and not ranks.under_torchrun() and not ranks.is_restart()
    torchrun()
    (agent,) = ranks.job_names()
    assert (
        str(os.getppid()) in agent
        and ranks.job_names() == [agent]
        and ranks.under_torchrun()
        and not ranks.is_restart()
    )
    torchrun(TORCHELASTIC_RUN_ID="mine", TORCHELASTIC_RESTART_COUNT="2")
    assert ranks.job_names() == [agent, "id mine"] and ranks.is_restart()


def test_find(torchrun: Any, tmp_path: Path) -> None:
    """By the agent always, by the id only after a failure; other jobs, runs of no job and damaged
    files are passed over.
    """
    mine = run_of(tmp_path / "mine", ["agent a 1 1.00", "agent b 2 2.00", "id x"], checkpoints=2)
    run_of(tmp_path / "other", ["agent c 3 3.00"])
    bare = run_of(tmp_path / "bare", ["agent d 4 4.00"], checkpoints=0)
    (tmp_path / "none").mkdir()
    for number, text in enumerate(
        ('{"starts": 3}', '{"starts": [3, {"job": 1}, {"job": [1]}]}', "[", "{}")
    ):
        (tmp_path / f"bad{number}").mkdir()
        (tmp_path / f"bad{number}" / "run.json").write_text(text)
    torchrun()
    assert find.find_job(tmp_path, ["agent b 2 2.00", "agent new 9 9.00"]) == (
        mine,
        mine / "checkpoints" / "000000000001",
    )
    assert find.find_job(tmp_path, ["agent d 4 4.00"]) == (bare, None)
    assert (
        find.find_job(tmp_path, []) is None and find.find_job(tmp_path, ["agent e 5 5.00"]) is None
    )
    assert find.find_job(tmp_path, ["agent e 5 5.00", "id x"]) is None
    torchrun(TORCHELASTIC_RESTART_COUNT="1")
    found = find.find_job(tmp_path, ["agent e 5 5.00", "id x"])
    assert found is not None and found[0] == mine
    assert find.find_job(tmp_path / "nowhere", ["id x"]) is None


@pytest.mark.slow
def test_a_restarted_rank_goes_on_in_the_same_folder(
    torchrun: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """One rank under one agent, three times: stopped before its first checkpoint, stopped after
    one, and to the end.
    """
    torchrun(WORLD_SIZE="1")
    monkeypatch.chdir(tmp_path)
    common = (
        "probe --backend serial --num-envs 4 --train.horizon 8 --policy.hidden 8 --device cpu "
        "--train.threads 1"
    )
    args = [*common.split(), "--log.name", "j", "--log.dashboard", "off"]
    (tmp_path / "runs" / "j").mkdir(parents=True)
    provenance.record_start(tmp_path / "runs" / "j", {"env": "probe", "job": ranks.job_names()})
    steps = []
    for total in ("100", "200"):
        assert cli.main([*args, "--total-timesteps", total]) == 0
        steps.append(next(reversed(list(read_metrics(Path("runs/j/metrics.jsonl")))))["step"])
    starts = json.loads(Path("runs/j/run.json").read_text())["starts"]
    assert steps[0] >= 100 and steps[1] >= 200 and [p.name for p in Path("runs").iterdir()] == ["j"]
    assert (
        starts[1]["resumed_from"] is None
        and starts[2]["resumed_from"] == f"{steps[0]:012d}"
        and starts[2]["ranks"] == 1
    )
    capsys.readouterr()


def test_other_verbs_refuse_several_ranks(
    torchrun: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    torchrun()
    assert cli.main(["list"]) == 2
    assert "training only" in capsys.readouterr().err
    torchrun(WORLD_SIZE="1")
    assert cli.main(["list", "--json"]) == 0
    capsys.readouterr()


# ---- with torchrun -------------------------------------------------------------------------------


@pytest.fixture
def started(tmp_path: Path) -> Iterator[psutil.Popen]:
    """Two ranks that train for ever and save after every update, once there are two checkpoints."""
    script = tmp_path / "train.py"
    script.write_text("import sys\nfrom puffervec.commands.cli import main\nsys.exit(main())\n")
    settings = (
        "probe --backend serial --num-envs 4 --train.horizon 32 --policy.hidden 8 --device cpu "
        "--train.threads 1 --log.name j --log.dashboard plain --log.checkpoint-interval-s 0 "
        "--total-timesteps 1000000000"
    )
    torchrun = [
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--local-addr",
        "127.0.0.1",
        "--nproc-per-node",
        "2",
    ]
    command = [sys.executable, *torchrun, "--max-restarts", "3", str(script), *settings.split()]
    root = str(Path(__file__).resolve().parents[2])
    with open(tmp_path / "out.txt", "wb") as out:
        process = psutil.Popen(
            command,
            cwd=tmp_path,
            stdout=out,
            stderr=out,
            env={**os.environ, "PYTHONPATH": root},
            start_new_session=True,
        )
    try:
        eventually(
            lambda: len(list(tmp_path.glob("runs/j/checkpoints/0*"))) >= 2, "two checkpoints"
        )
        yield process
    finally:
        with contextlib.suppress(psutil.NoSuchProcess):
            for child in [*process.children(recursive=True), process]:
                child.kill()
        process.wait()


def starts(folder: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((folder / "runs/j/run.json").read_text())["starts"]
    return found


def ranks_of(process: psutil.Popen) -> list[psutil.Process]:
    """The ranks, by number."""
    children = [child for child in process.children() if "RANK" in child.environ()]
    return sorted(children, key=lambda child: int(child.environ()["RANK"]))


@pytest.mark.slow
@pytest.mark.parametrize("victim", [0, 1])
def test_a_killed_rank_does_not_end_the_job(
    victim: int, started: psutil.Popen, tmp_path: Path
) -> None:
    before = ranks_of(started)
    before[victim].kill()
    eventually(lambda: len(starts(tmp_path)) == 2, "a second start")
    at = int(starts(tmp_path)[1]["resumed_from"].partition("-")[0])
    assert at > 0 and starts(tmp_path)[1]["ranks"] == 2

    def newest() -> int:
        path = ckpt.newest(tmp_path / "runs/j/checkpoints")
        return 0 if path is None else int(path.name.partition("-")[0])

    eventually(lambda: newest() > at, "a checkpoint further on")
    assert [folder.name for folder in (tmp_path / "runs").iterdir()] == ["j"]
    assert not any(rank.is_running() for rank in before)
    steps = [line["step"] for line in read_metrics(tmp_path / "runs/j/metrics.jsonl")]
    assert steps == sorted(set(steps))


@pytest.mark.slow
def test_sigterm_saves_once_and_ends_all(started: psutil.Popen, tmp_path: Path) -> None:
    ranks = ranks_of(started)
    started.send_signal(signal.SIGTERM)
    started.wait(60)
    assert len(ranks) == 2 and not any(rank.is_running() for rank in ranks)
    steps = list(read_metrics(tmp_path / "runs/j/metrics.jsonl"))[-1]["step"]
    path = ckpt.newest(tmp_path / "runs/j/checkpoints")
    assert path is not None and int(path.name.partition("-")[0]) == steps
    assert "/puffervec/train/" not in (tmp_path / "out.txt").read_text()  # Of no rank's traceback.
