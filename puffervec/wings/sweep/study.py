# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The study of a sweep: an Optuna study in a storage that several processes and machines may use at
the same time.

    sqlite:///FILE.db       SQLite, for processes of one machine
    journal:///FILE.log     Optuna's journal, also for machines that share a disk
    postgresql://, mysql:// and what else SQLAlchemy knows: a database server

Who runs which trial must be known, or a dead process would keep its trial for ever. With a file,
whoever runs trial N holds a lock on byte N + 1 of FILE.running, which the kernel lets go of when
the process ends, however that happens. With a server, Optuna's heartbeats say it. Byte 0 is held
while a trial is given out.
"""

from __future__ import annotations

import fcntl
import os
import random
import socket
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from puffervec.errors import ConfigError, PuffervecError
from puffervec.system.folder import folder_of, said

SQLITE, JOURNAL = "sqlite:///", "journal:///"
BEAT_S, LOST_S = (
    30,
    120,
)  # Between two heartbeats, and after how long without one a trial counts as lost.
REASON = "reason"  # Of a failure, kept with the trial; one that was stopped or killed has none.
WHERE = "where"  # HOST:FOLDER of the trial's run.

Objective = Callable[[Any], tuple[float, float]]


class SweepError(PuffervecError):
    """Nothing that was tried could be run, or the storage is gone."""


class CutOff(Exception):
    """Raised in an objective: the trial is not to blame for its end and has to be given out again."""


class Failed(Exception):
    """Raised in an objective: the trial failed; its reason is kept with it."""


class Study:
    """A study that is open."""

    def __init__(self, storage: str, name: str) -> None:
        """Open the study of that name, made if it is missing. Raises: ConfigError."""
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self.url = shown_url(storage)
        self._locks: _Locks | None = None
        self._held: int | None = None
        file = file_of(storage)
        try:
            if file is not None:
                self._locks = _Locks(file)
            with self.alone():
                directions = [
                    optuna.study.StudyDirection.MAXIMIZE,
                    optuna.study.StudyDirection.MINIMIZE,
                ]
                self._study = _at_the_third_try(
                    lambda: optuna.create_study(
                        storage=_backend(storage, file),
                        study_name=name,
                        load_if_exists=True,
                        directions=directions,
                    )
                )
            if self._study.directions != directions:
                raise ConfigError(
                    f"the study {name} in {self.url} is no sweep of puffer-train: use another "
                    "--name"
                )
        except ConfigError:
            self.close()
            raise
        except Exception as error:
            self.close()
            raise ConfigError(f"cannot open the study in {self.url}: {_words(error)}") from error

    @property
    def plan(self) -> Any:
        """What the sweep was begun with, JSON values; None where it was not begun."""
        with self._usable():
            return self._study.user_attrs.get("plan")

    def begin(self, plan: dict[str, Any]) -> None:
        """Keep the plan with the study. Raises: ConfigError where it has trials of somebody else."""
        if self._study.trials:
            raise ConfigError(
                f"the study {self._study.study_name} in {self.url} is no sweep of puffer-train: "
                "use another --name"
            )
        self._study.set_user_attr("plan", plan)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """While no other process begins a sweep or is given a trial; with a server this waits for
        nobody.
        """
        if self._locks is not None:
            self._locks.give()
        try:
            yield
        finally:
            if self._locks is not None:
                self._locks.given()

    @property
    def trials(self) -> list[Any]:
        """Optuna's records of all trials, in order."""
        with self._usable():
            return list(self._study.trials)

    def ended(self) -> list[Any]:
        """Return the records of the trials that came to an end by themselves, in order."""
        return _ended(self.trials)

    def running(self) -> list[Any]:
        """Return the records of the trials that are being run, as far as is known."""
        return _running(self.trials)

    def front(self) -> list[Any]:
        """Return the records of the trials that no other beats in both score and cost, the cheapest
        first.
        """
        with self._usable():
            return sorted(self._study.best_trials, key=lambda trial: float(trial.values[1]))

    def run_next(
        self, most: int, seed: int, objective: Objective
    ) -> Literal["ran", "wait", "done"]:
        """Run one trial if there is one to give out.

        Args: most: trials of the study in all; seed: of the sweep; objective: told the trial,
            returns (score, seconds) or raises Failed or CutOff.
        Returns: "ran"; "wait": others run the rest; "done": all have ended.
        Raises: SweepError: the storage is gone.
        """
        with self._usable():
            try:
                return self._run_next(most, seed, objective)
            finally:
                self._let_go()

    @contextmanager
    def _usable(self) -> Iterator[None]:
        """Raise SweepError where the storage fails."""
        try:
            yield
        except PuffervecError:
            raise
        except Exception as error:
            raise SweepError(
                f"the study in {self.url} cannot be used any more: {_words(error)}; trials that "
                "have ended are kept: give the same command again"
            ) from error

    def _run_next(
        self, most: int, seed: int, objective: Objective
    ) -> Literal["ran", "wait", "done"]:
        import optuna

        if self._locks is not None:
            self._locks.give()
        self._give_lost_again()
        trials = self.trials
        ended, running = _ended(trials), _running(trials)
        if len(ended) >= most:
            return "done"
        if len(ended) + len(running) >= most:
            return "wait"
        # What one process draws is the same each time. Processes with a server would draw the same
        # at the same moment.
        own = seed + len(trials) if self._locks is not None else None
        self._study.sampler = optuna.samplers.TPESampler(seed=own)
        given: list[Any] = []

        def begin(trial: Any) -> tuple[float, float]:
            given.append(trial)
            if self._locks is not None:
                self._locks.take(trial.number)
                self._held = trial.number
                self._locks.given()
            elif (
                len(_ended(self.trials)) + len(_running(self.trials)) > most
            ):  # Somebody else was given the last one too.
                raise CutOff
            return objective(trial)

        try:
            self._study.optimize(begin, n_trials=1)
        except CutOff:
            _again(self._study, given[0])
            if self._locks is None:
                time.sleep(random.random())
        except Failed:
            pass
        except (
            optuna.exceptions.UpdateFinishedTrialError,
            ValueError,
            AssertionError,
        ):  # As Optuna's version has it.
            if self._locks is not None or not any(
                trial.state == optuna.trial.TrialState.FAIL for trial in self._records(given)
            ):
                raise
            # It was taken for lost meanwhile, and given to somebody else.
        return "ran"

    def _records(self, given: list[Any]) -> list[Any]:
        numbers = [trial.number for trial in given]
        return [trial for trial in self.trials if trial.number in numbers]

    def _give_lost_again(self) -> None:
        """Put the trials of dead processes in line again."""
        import optuna

        if self._locks is None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
                optuna.storages.fail_stale_trials(self._study)  # Calls _again for each.
            return
        free = [trial for trial in _running(self.trials) if not self._locks.taken(trial.number)]
        for trial in _running(
            self._records(free)
        ):  # Who ends a trial says so before it lets go of the lock.
            self._study.tell(trial.number, state=optuna.trial.TrialState.FAIL)
            _again(self._study, trial)

    def _let_go(self) -> None:
        if self._locks is not None:
            if self._held is not None:
                self._locks.let_go(self._held)
            self._held = None
            self._locks.given()

    def close(self) -> None:
        """Let go of the storage; may be called twice."""
        if self._locks is not None:
            self._locks.close()


class _Locks:
    """Locks on single bytes of FILE.running. They are held by the process, not by its children, and
    work over NFS.
    """

    def __init__(self, file: Path) -> None:
        self.path = file.with_name(file.name + ".running")
        try:
            with folder_of(self.path) as (folder, name):
                self._fd = folder.open(name, os.O_RDWR | os.O_CREAT)
        except OSError as error:
            raise ConfigError(f"cannot write {self.path}: {said(error)}") from error

    def _lock(self, how: int, byte: int) -> None:
        try:
            fcntl.lockf(self._fd, how, 1, byte)
        except BlockingIOError:
            raise
        except OSError as error:
            raise ConfigError(
                f"cannot lock {self.path}: {error.strerror}; the storage must be on a disk that can"
            ) from error

    def give(self) -> None:
        """Wait until no other process gives out a trial."""
        self._lock(fcntl.LOCK_EX, 0)

    def given(self) -> None:
        """Let others give."""
        self._lock(fcntl.LOCK_UN, 0)

    def take(self, number: int) -> None:
        """Say that this process runs that trial."""
        self._lock(fcntl.LOCK_EX, number + 1)

    def let_go(self, number: int) -> None:
        """Say that it has ended."""
        self._lock(fcntl.LOCK_UN, number + 1)

    def taken(self, number: int) -> bool:
        """Return whether another process runs that trial."""
        try:
            self._lock(fcntl.LOCK_EX | fcntl.LOCK_NB, number + 1)
        except (BlockingIOError, PermissionError):
            return True
        self.let_go(number)
        return False

    def close(self) -> None:
        """Let go of everything."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


def check_storage(storage: str) -> None:
    """Raises: ConfigError unless it is a file in a folder that exists, or the URL of a server."""
    file = file_of(storage)
    if file is not None:
        if not file.name or not file.absolute().parent.is_dir():
            raise ConfigError(f"--storage {storage}: there is no folder {file.absolute().parent}")
    elif "://" not in storage or storage.startswith(("sqlite:", "journal:")):
        raise ConfigError(
            f"--storage is {shown_url(storage)!r}: give {JOURNAL}FILE.log, {SQLITE}FILE.db, or a "
            "server as postgresql://USER:PASSWORD@HOST/DATABASE or mysql://..."
        )


def file_of(storage: str) -> Path | None:
    """Return the file of a storage; None for a server. Like SQLAlchemy's, four slashes begin an
    absolute path.
    """
    for prefix in (SQLITE, JOURNAL):
        if storage.startswith(prefix):
            return Path(storage.removeprefix(prefix))
    return None


def shown_url(storage: str) -> str:
    """Return a URL without its password."""
    scheme, mark, rest = storage.partition("://")
    user, at, host = rest.rpartition("@")
    if not mark or not at:
        return storage
    return f"{scheme}://{user.partition(':')[0]}{':***' if ':' in user else ''}@{host}"


def place_of(folder: Path) -> str:
    """Return HOST:FOLDER."""
    return f"{socket.gethostname()}:{folder.absolute()}"


def _backend(storage: str, file: Path | None) -> Any:
    import optuna
    from optuna.storages import JournalStorage, RDBStorage
    from optuna.storages.journal import JournalFileBackend

    if storage.startswith(JOURNAL):
        assert file is not None
        with folder_of(file) as (folder, name):
            os.close(
                folder.open(name, os.O_RDWR | os.O_CREAT)
            )  # Optuna itself follows a link in that place.
        return JournalStorage(JournalFileBackend(str(file)))
    if file is not None:
        return RDBStorage(storage)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        return RDBStorage(
            storage,
            heartbeat_interval=BEAT_S,
            grace_period=LOST_S,
            heartbeat_stale_trial_callback=_again,
        )


def _at_the_third_try(make: Callable[[], Any]) -> Any:
    """Make something in a database, again where others are making the same tables at the same
    moment.
    """
    from sqlalchemy.exc import IntegrityError, OperationalError, ProgrammingError

    for _ in range(2):
        try:
            return make()
        except (IntegrityError, OperationalError, ProgrammingError) as error:
            # MySQL's kind of error for a table that is there, and everybody's for a server that is
            # not.
            if isinstance(error, OperationalError) and "already exists" not in str(error):
                raise
            time.sleep(0.5 + random.random())
    return make()


def _again(study: Any, trial: Any) -> None:
    """Put the values of a trial in line again."""
    if trial.params:
        study.enqueue_trial(dict(trial.params))


def _ended(trials: list[Any]) -> list[Any]:
    return [trial for trial in trials if trial.values or REASON in trial.user_attrs]


def _running(trials: list[Any]) -> list[Any]:
    return [trial for trial in trials if trial.state.name == "RUNNING"]


def _words(error: Exception) -> str:
    """Return the first line of what went wrong, with what to install where a driver is missing."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ModuleNotFoundError):
            return f"there is no driver for it: pip install {cause.name}"
        cause = cause.__cause__ or cause.__context__
    return (str(error).strip() or type(error).__name__).splitlines()[0]
