# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""puffervec/wings/sweep/study.py: several processes share a study, in files and on a server."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from puffervec.errors import ConfigError
from puffervec.wings.sweep import study
from puffervec.wings.sweep.study import (
    Study,
    SweepError,
    TrialFailed,
    TrialStopped,
    check_storage,
    shown_url,
)
from tests.helpers import slow_but

pytest.importorskip("optuna")

# A worker without a trainer: what it ran, as JSON lines. "server" has Optuna's heartbeats in place
# of locks on a file.
WORKER = """
import json, sys, time
from puffervec.wings.sweep import study
kind, url, most, seconds = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
if kind == "server":
    study.file_of = lambda storage: None
    study.BEAT_S, study.LOST_S = 1, 2

def objective(trial):
    x = trial.suggest_float("x", 0.0, 1.0)
    print(json.dumps([trial.number, x]), flush=True)
    time.sleep(seconds)
    return x, 1.0

opened = study.Study(url, "s")
while (came_to := opened.run_next(most, 0, objective)) != "done":
    time.sleep(0.1 if came_to == "wait" else 0.0)
opened.close()
"""


def url_of(kind: str, folder: Path) -> str:
    return f"journal:///{folder}/s.log" if kind == "journal" else f"sqlite:///{folder}/s.db"


def start(kind: str, folder: Path, most: int, seconds: float) -> subprocess.Popen[str]:
    Study(
        url_of(kind, folder), "s"
    ).close()  # Two that make tables at the same moment are SQLAlchemy's matter.
    args = [sys.executable, "-c", WORKER, kind, url_of(kind, folder), str(most), str(seconds)]
    return subprocess.Popen(args, stdout=subprocess.PIPE, text=True)


def lines(out: str) -> list[Any]:
    return [json.loads(line) for line in out.splitlines()]


KINDS = ["journal", "sqlite", "server"]


@pytest.mark.parametrize("kind", slow_but(["journal"], KINDS))
def test_two_processes_share_the_trials(kind: str, tmp_path: Path) -> None:
    workers = [start(kind, tmp_path, 6, 0.05) for _ in range(2)]
    ran = [lines(worker.communicate(timeout=60)[0]) for worker in workers]
    assert [worker.returncode for worker in workers] == [0, 0]
    opened = Study(url_of(kind, tmp_path), "s")
    ended = opened.ended()
    opened.close()
    assert len(ended) == 6 and len({trial.params["x"] for trial in ended}) == 6
    numbers = [number for own in ran for number, _ in own]
    assert sorted(numbers) == sorted(trial.number for trial in ended)  # Each was given out once.


@pytest.mark.parametrize("kind", slow_but(["server"], KINDS))
def test_the_trial_of_a_killed_process_is_given_out_again(kind: str, tmp_path: Path) -> None:
    killed = start(kind, tmp_path, 1, 600.0)
    assert killed.stdout is not None
    number, x = json.loads(killed.stdout.readline())
    other = start(kind, tmp_path, 1, 0.0)
    time.sleep(0.5)
    assert other.poll() is None  # It waits: the trial is being run.
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    assert [again for _, again in lines(other.communicate(timeout=60)[0])] == [
        x
    ] and other.returncode == 0
    opened = Study(url_of(kind, tmp_path), "s")
    assert [trial.params["x"] for trial in opened.ended()] == [x] and opened.trials[
        number
    ].state.name == "FAIL"
    opened.close()


def test_who_was_taken_for_lost_goes_on_with_another_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import optuna

    monkeypatch.setattr(study, "file_of", lambda storage: None)
    opened = Study(url_of("sqlite", tmp_path), "s")

    def late(trial: Any) -> tuple[float, float]:
        opened._study.tell(trial.number, state=optuna.trial.TrialState.FAIL)
        return 1.0, 1.0

    assert opened.run_next(1, 0, late) == "ran" and opened.ended() == []
    assert opened.run_next(1, 0, lambda trial: (2.0, 1.0)) == "ran"
    assert opened.run_next(1, 0, late) == "done" and [trial.number for trial in opened.ended()] == [
        1
    ]


@pytest.mark.filterwarnings("ignore:Heartbeat of storage")
def test_of_two_that_take_the_last_trial_one_gives_it_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(study, "file_of", lambda storage: None)
    monkeypatch.setattr(study.random, "random", lambda: 0.0)
    mine, other = (Study(url_of("sqlite", tmp_path), "s") for _ in range(2))
    optimize = mine._study.optimize

    def between(objective: Any, **options: Any) -> None:  # The other asks after mine has looked.
        other._study.ask()
        optimize(objective, **options)

    monkeypatch.setattr(mine._study, "optimize", between)
    assert mine.run_next(1, 0, lambda trial: pytest.fail("it ran")) == "ran"
    assert [trial.state.name for trial in mine.trials] == ["RUNNING", "FAIL"] and len(
        other.running()
    ) == 1


def test_what_failed_counts_and_what_was_cut_off_comes_next(tmp_path: Path) -> None:
    opened = Study(url_of("journal", tmp_path), "s")
    drawn: list[float] = []

    def draws(trial: Any, error: type[Exception] | None = None) -> tuple[float, float]:
        drawn.append(trial.suggest_float("x", 0.0, 1.0))
        if error is TrialFailed:
            trial.set_user_attr("reason", "it failed")
        if error is not None:
            raise error
        return 1.0, 1.0

    assert opened.run_next(2, 0, lambda trial: draws(trial, TrialFailed)) == "ran"
    assert opened.run_next(2, 0, lambda trial: draws(trial, TrialStopped)) == "ran"
    assert opened.run_next(2, 0, draws) == "ran" and drawn[2] == drawn[1] != drawn[0]
    assert opened.run_next(2, 0, draws) == "done" and [
        trial.number for trial in opened.ended()
    ] == [0, 2]
    opened.close()
    opened.close()


def test_a_storage_that_is_lost(tmp_path: Path) -> None:
    opened = Study(url_of("sqlite", tmp_path), "s")

    def loses(trial: Any) -> tuple[float, float]:
        (tmp_path / "s.db").write_bytes(b"no database" * 1000)
        return 1.0, 1.0

    with pytest.raises(
        SweepError,
        match="sqlite:////.*/s.db cannot be used any more: .*give the same command again",
    ):
        opened.run_next(2, 0, loses)
    opened.close()


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("x.db", "'x.db': give journal:///FILE.log"),
        ("sqlite://", "give journal:///FILE.log, sqlite:///FILE.db, or a server"),
        ("sqlite:///none/there.db", "the folder .*/none does not exist"),
        ("journal:///none/there.log", "the folder .*/none does not exist"),
        ("journal:///", "the folder .* does not exist"),
    ],
)
def test_storages_that_cannot_be(url: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        check_storage(url)


NO_DRIVER = r"its driver is missing: pip install \w+"


@pytest.mark.parametrize(
    ("url", "words"),
    [
        (
            "nothing://u:secret@host/d",
            r"cannot open the study in nothing://u:\*\*\*@host/d: .*nothing",
        ),
        (
            "postgresql://u:secret@127.0.0.1:9/d",
            rf"postgresql://u:\*\*\*@127.0.0.1:9/d: ({NO_DRIVER}|.*refused)",
        ),
        (
            "mysql+pymysql://u:secret@127.0.0.1:9/d",
            rf"mysql\+pymysql://u:\*\*\*@.*: ({NO_DRIVER}|.*refused)",
        ),
    ],
)
def test_servers_that_are_not_there(url: str, words: str) -> None:
    check_storage(url)
    with pytest.raises(ConfigError, match=words) as raised:
        Study(url, "s")
    assert "secret" not in str(raised.value) and "\n" not in str(raised.value)


def test_a_study_of_somebody_else(tmp_path: Path) -> None:
    import optuna

    url = url_of("sqlite", tmp_path)
    optuna.create_study(storage=url, study_name="one").ask()
    optuna.create_study(storage=url, study_name="two", directions=["maximize", "minimize"]).ask()
    with pytest.raises(ConfigError, match="the study one in .* is not a sweep of puffer-train"):
        Study(url, "one")
    opened = Study(url, "two")
    with pytest.raises(ConfigError, match="the study two in .* is not a sweep of puffer-train"):
        opened.begin({"config": {}})
    opened.close()


def test_who_makes_the_tables_at_the_same_moment_as_another_tries_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sqlalchemy.exc import OperationalError, ProgrammingError

    tries, real = [], study._backend

    def backend(*args: Any) -> Any:
        tries.append(1)
        if len(tries) < 3:
            kind = (ProgrammingError, OperationalError)[len(tries) % 2]  # PostgreSQL's and MySQL's.
            raise kind("CREATE TABLE studies", (), Exception("studies already exists"))
        return real(*args)

    monkeypatch.setattr(study, "_backend", backend)
    monkeypatch.setattr(study.time, "sleep", lambda seconds: None)
    Study(url_of("sqlite", tmp_path), "s").close()
    assert len(tries) == 3
    tries[:] = [1] * 10
    real = lambda *args: (_ for _ in ()).throw(ProgrammingError("x", (), Exception("for ever")))  # noqa: E731
    with pytest.raises(ConfigError, match="for ever"):
        Study(url_of("sqlite", tmp_path), "s")
    assert len(tries) == 13


def test_links_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("canary")
    for name in ("s.log", "s.log.running"):
        (tmp_path / name).unlink(missing_ok=True)
        (tmp_path / name).symlink_to(tmp_path / "elsewhere")
        with pytest.raises(ConfigError, match="it is a link"):
            Study(url_of("journal", tmp_path), "s")
        (tmp_path / name).unlink()
    assert (tmp_path / "elsewhere").read_text() == "canary"


def test_shown_url() -> None:
    assert shown_url("mysql://me:p@ss@host:1/d") == "mysql://me:***@host:1/d"
    assert (
        shown_url("mysql://me@host/d") == "mysql://me@host/d"
        and shown_url("journal:///a.log") == "journal:///a.log"
    )
