# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""An Optuna study in a storage that several processes and machines may use simultaneously.

    sqlite:///FILE.db       SQLite, for processes of one machine
    journal:///FILE.log     Optuna's journal, also for machines that share a disk
    postgresql://, mysql:// and other URLs of SQLAlchemy: a database server

The study must know which process runs which trial, or a dead process would keep its trial for
ever. With a file, the process that runs trial N holds a lock on byte N + 1 of FILE.running, which
the kernel releases when the process ends in any way; byte 0 is locked while a trial is assigned.
With a server, Optuna's heartbeats show which trials are running.
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
from puffervec.system.folder import describe_error, folder_of

SQLITE, JOURNAL = "sqlite:///", "journal:///"
BEAT_S, LOST_S = 30, 120  # Time between heartbeats; time without one until a trial counts as lost.
REASON = "reason"  # Key of a failure's reason, stored with the trial; stopped trials have none.
WHERE = "where"  # Key of HOST:FOLDER of the trial's run.

Objective = Callable[[Any], tuple[float, float]]


class SweepError(PuffervecError):
    """No trial could be run, or the storage is gone."""


class TrialStopped(Exception):
    """Raised in an objective: the trial was interrupted and has to be assigned again."""


class TrialFailed(Exception):
    """Raised in an objective: the trial failed; its reason is stored with it."""


class Study:
    """An open study."""

    def __init__(self, storage: str, name: str) -> None:
        """Open the study of that name; create it if it is missing. Raises: ConfigError."""
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
                self._study = _retry_create(
                    lambda: optuna.create_study(
                        storage=_backend(storage, file),
                        study_name=name,
                        load_if_exists=True,
                        directions=directions,
                    )
                )
            if self._study.directions != directions:
                raise ConfigError(
                    f"the study {name} in {self.url} is not a sweep of puffer-train: use another "
                    "--name"
                )
        except ConfigError:
            self.close()
            raise
        except Exception as error:
            self.close()
            raise ConfigError(f"cannot open the study in {self.url}: {_reason(error)}") from error

    @property
    def plan(self) -> Any:
        """The settings of the sweep as JSON values; None if no sweep has begun."""
        with self._usable():
            return self._study.user_attrs.get("plan")

    def begin(self, plan: dict[str, Any]) -> None:
        """Store the plan. Raises: ConfigError: the study has trials of another program."""
        if self._study.trials:
            raise ConfigError(
                f"the study {self._study.study_name} in {self.url} is not a sweep of puffer-train: "
                "use another --name"
            )
        self._study.set_user_attr("plan", plan)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep other processes from beginning a sweep or being assigned a trial.

        With a server this does nothing.
        """
        if self._locks is not None:
            self._locks.lock_assignment()
        try:
            yield
        finally:
            if self._locks is not None:
                self._locks.unlock_assignment()

    @property
    def trials(self) -> list[Any]:
        """Optuna's records of all trials, in order."""
        with self._usable():
            return list(self._study.trials)

    def ended(self) -> list[Any]:
        """Return the records of the trials that have ended and were not stopped, in order."""
        return _ended(self.trials)

    def running(self) -> list[Any]:
        """Return the records of the trials that are running, as far as is known."""
        return _running(self.trials)

    def front(self) -> list[Any]:
        """Return the records of the trials on the Pareto front, the cheapest first."""
        with self._usable():
            return sorted(self._study.best_trials, key=lambda trial: float(trial.values[1]))

    def run_next(
        self, most: int, seed: int, objective: Objective
    ) -> Literal["ran", "wait", "done"]:
        """Run one trial, if there is one left.

        Args:
            most: total number of trials of the study.
            seed: seed of the sweep.
            objective: called with the trial; returns (score, seconds) or raises TrialFailed or
                TrialStopped.

        Returns: "ran": this process ran one; "wait": other processes run the rest; "done": all have
        ended.

        Raises:
            SweepError: the storage is gone.
        """
        with self._usable():
            try:
                return self._run_next(most, seed, objective)
            finally:
                self._release()

    @contextmanager
    def _usable(self) -> Iterator[None]:
        """Raise SweepError if the storage fails in the block."""
        try:
            yield
        except PuffervecError:
            raise
        except Exception as error:
            raise SweepError(
                f"the study in {self.url} cannot be used any more: {_reason(error)}; its finished "
                "trials are stored: give the same command again"
            ) from error

    def _run_next(
        self, most: int, seed: int, objective: Objective
    ) -> Literal["ran", "wait", "done"]:
        import optuna

        if self._locks is not None:
            self._locks.lock_assignment()
        self._requeue_lost()
        trials = self.trials
        ended, running = _ended(trials), _running(trials)
        if len(ended) >= most:
            return "done"
        if len(ended) + len(running) >= most:
            return "wait"
        # With a file the draws are reproducible. Processes with a server must not have the same
        # seed, since they would draw the same values simultaneously.
        own = seed + len(trials) if self._locks is not None else None
        self._study.sampler = optuna.samplers.TPESampler(seed=own)
        assigned: list[Any] = []

        def begin(trial: Any) -> tuple[float, float]:
            assigned.append(trial)
            if self._locks is not None:
                self._locks.take(trial.number)
                self._held = trial.number
                self._locks.unlock_assignment()
            # Another process may have been assigned the last trial at the same time.
            elif len(_ended(self.trials)) + len(_running(self.trials)) > most:
                raise TrialStopped
            return objective(trial)

        try:
            self._study.optimize(begin, n_trials=1)
        except TrialStopped:
            _requeue(self._study, assigned[0])
            if self._locks is None:
                time.sleep(random.random())
        except TrialFailed:
            pass
        except (
            optuna.exceptions.UpdateFinishedTrialError,
            ValueError,
            AssertionError,
        ):  # The type depends on Optuna's version.
            # Another process may have considered the trial lost meanwhile, and run it again.
            if self._locks is not None or not any(
                trial.state == optuna.trial.TrialState.FAIL for trial in self._records(assigned)
            ):
                raise
        return "ran"

    def _records(self, trials: list[Any]) -> list[Any]:
        numbers = [trial.number for trial in trials]
        return [trial for trial in self.trials if trial.number in numbers]

    def _requeue_lost(self) -> None:
        """Queue the trials of dead processes again."""
        import optuna

        if self._locks is None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
                optuna.storages.fail_stale_trials(self._study)  # Calls _requeue for each.
            return
        free = [
            trial for trial in _running(self.trials) if not self._locks.is_running(trial.number)
        ]
        # A process records the end of its trial before it releases the lock, so the trial may have
        # ended since: read the records again.
        for trial in _running(self._records(free)):
            self._study.tell(trial.number, state=optuna.trial.TrialState.FAIL)
            _requeue(self._study, trial)

    def _release(self) -> None:
        if self._locks is not None:
            if self._held is not None:
                self._locks.release(self._held)
            self._held = None
            self._locks.unlock_assignment()

    def close(self) -> None:
        """Close the storage; may be called twice."""
        if self._locks is not None:
            self._locks.close()


class _Locks:
    """Locks on single bytes of FILE.running.

    The process holds them, not its children, and they work over NFS.
    """

    def __init__(self, file: Path) -> None:
        self.path = file.with_name(file.name + ".running")
        try:
            with folder_of(self.path) as (folder, name):
                self._fd = folder.open(name, os.O_RDWR | os.O_CREAT)
        except OSError as error:
            raise ConfigError(f"cannot write {self.path}: {describe_error(error)}") from error

    def _lock(self, how: int, byte: int) -> None:
        try:
            fcntl.lockf(self._fd, how, 1, byte)
        except BlockingIOError:
            raise
        except OSError as error:
            raise ConfigError(
                f"cannot lock {self.path}: {error.strerror}; the storage must be on a disk that can"
            ) from error

    def lock_assignment(self) -> None:
        """Wait until no other process assigns a trial, and lock."""
        self._lock(fcntl.LOCK_EX, 0)

    def unlock_assignment(self) -> None:
        """Let other processes assign trials."""
        self._lock(fcntl.LOCK_UN, 0)

    def take(self, number: int) -> None:
        """Lock a trial that this process runs."""
        self._lock(fcntl.LOCK_EX, number + 1)

    def release(self, number: int) -> None:
        """Unlock a trial that has ended."""
        self._lock(fcntl.LOCK_UN, number + 1)

    def is_running(self, number: int) -> bool:
        """Return whether another process runs a trial."""
        try:
            self._lock(fcntl.LOCK_EX | fcntl.LOCK_NB, number + 1)
        except (BlockingIOError, PermissionError):
            return True
        self.release(number)
        return False

    def close(self) -> None:
        """Release all locks."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


def check_storage(storage: str) -> None:
    """Raise ConfigError unless `storage` is a file in an existing folder, or a server's URL."""
    file = file_of(storage)
    if file is not None:
        if not file.name or not file.absolute().parent.is_dir():
            raise ConfigError(
                f"--storage {storage}: the folder {file.absolute().parent} does not exist"
            )
    elif "://" not in storage or storage.startswith(("sqlite:", "journal:")):
        raise ConfigError(
            f"--storage is {shown_url(storage)!r}: give {JOURNAL}FILE.log, {SQLITE}FILE.db, or a "
            "server as postgresql://USER:PASSWORD@HOST/DATABASE or mysql://..."
        )


def file_of(storage: str) -> Path | None:
    """Return the file of a storage; None for a server.

    As in SQLAlchemy's URLs, four slashes begin an absolute path.
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
            # Optuna itself would follow a link with this name.
            os.close(folder.open(name, os.O_RDWR | os.O_CREAT))
        return JournalStorage(JournalFileBackend(str(file)))
    if file is not None:
        return RDBStorage(storage)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        return RDBStorage(
            storage,
            heartbeat_interval=BEAT_S,
            grace_period=LOST_S,
            heartbeat_stale_trial_callback=_requeue,
        )


def _retry_create(create: Callable[[], Any]) -> Any:
    """Call `create`; retry if another process creates the same tables simultaneously."""
    from sqlalchemy.exc import IntegrityError, OperationalError, ProgrammingError

    for _ in range(2):
        try:
            return create()
        except (IntegrityError, OperationalError, ProgrammingError) as error:
            # MySQL raises OperationalError for a table that exists, and all databases raise it if
            # the server does not answer.
            if isinstance(error, OperationalError) and "already exists" not in str(error):
                raise
            time.sleep(0.5 + random.random())
    return create()


def _requeue(study: Any, trial: Any) -> None:
    """Queue the values of a trial again."""
    if trial.params:
        study.enqueue_trial(dict(trial.params))


def _ended(trials: list[Any]) -> list[Any]:
    return [trial for trial in trials if trial.values or REASON in trial.user_attrs]


def _running(trials: list[Any]) -> list[Any]:
    return [trial for trial in trials if trial.state.name == "RUNNING"]


def _reason(error: Exception) -> str:
    """Return the first line of an error, or which driver to install if one is missing."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ModuleNotFoundError):
            return f"its driver is missing: pip install {cause.name}"
        cause = cause.__cause__ or cause.__context__
    return (str(error).strip() or type(error).__name__).splitlines()[0]
