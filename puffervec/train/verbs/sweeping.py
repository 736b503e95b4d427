# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""`puffer-train sweep`: many runs with settings that Optuna chooses, for score against cost. Runs in the learner.

    runs/NAME/   study.db (SQLite)   trials/0000 ... (run folders)   summary.json   pareto.png   parallel.png

Each trial is a run of this process, one after the other. Two objectives: the last value of the env's metric, to be large, and
the seconds of the run, to be small. A trial that fails or diverges is recorded with the reason and the sweep goes on; one that
was stopped or killed is done again with the same values when the sweep is resumed by its name.
"""

from __future__ import annotations

import dataclasses
import datetime
import json
import math
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from puffervec import extras
from puffervec.errors import ConfigError, MissingExtraError, PuffervecError
from puffervec.host.folder import Folder, replace_file, said
from puffervec.train.config.ranges import Space, Values, as_text, build_space, draw, parse, with_values
from puffervec.train.config.sections import TrainConfig
from puffervec.train.config.target import env_spec, training_of
from puffervec.train.metrics import keys
from puffervec.train.run.diverged import Diverged
from puffervec.train.run.rundir import RunLock, config_from_tables
from puffervec.train.run.trainer import Trainer

FAILURES_AT_START = 5  # Trials; where all of the first fail, the next will too.
REASON = "reason"  # Of a failure, kept with the trial; one that was stopped or killed has none.
SUMMARY_FILE, STUDY_FILE, TRIALS = "summary.json", "study.db", "trials"
PICTURES = ("pareto.png", "parallel.png")


class SweepError(PuffervecError):
    """Nothing that was tried could be run."""


@dataclasses.dataclass(frozen=True)
class SweepRequest:
    """What a sweep was asked for.

    Attributes:
        config: what all trials share. None: as the sweep of that name has it.
        ranges: texts by key (ranges.py). parameters: keys of the ranges that are searched, None for all.
        trials: how many there shall be in all, those of earlier sessions too.
        name: of the sweep and its folder; None: by env and date. metric: key of the log that is the score; None: the env's.
        storage: URL of another SQLite file than the folder's.
    """

    config: TrainConfig | None
    folder: Path
    ranges: Mapping[str, str] = dataclasses.field(default_factory=dict)
    parameters: tuple[str, ...] | None = None
    trials: int = 20
    name: str | None = None
    metric: str | None = None
    storage: str | None = None


@dataclasses.dataclass(frozen=True)
class Outcome:
    """One trial. score and cost_s are None where it failed; reason says why."""

    number: int
    values: Values
    score: float | None
    cost_s: float | None
    reason: str

    @property
    def done(self) -> bool:
        """True where the run came to its end."""
        return self.score is not None


class Sweep:
    """A study and its folder."""

    def __init__(self, request: SweepRequest, say: Callable[[str], None] = print) -> None:
        """Begin a sweep, or open the one of that name. Args: say: told of every trial.

        Raises: ConfigError, SceneError, MissingExtraError: bad input; no trial was run.
        """
        extras.require("sweep", "optuna")
        self.trials, self._say, self.stopped = request.trials, say, False
        self._trainer: Trainer | None = None
        self.name = request.name or _fresh_name(request)
        self.folder = request.folder / self.name
        plan = None if request.config is None else _plan_of(request.config, request)
        storage = request.storage or f"sqlite:///{self.folder / STUDY_FILE}"
        if request.storage is not None:
            _check_storage(storage)
        if request.config is None and request.storage is None and not os.path.lexists(self.folder / STUDY_FILE):
            raise ConfigError(f"there is no sweep {self.folder}: name an env to begin one (puffer-train sweep ENV)")
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with Folder(self.folder) as folder:
                folder.refuse_odd(SUMMARY_FILE, *PICTURES)
                if folder.kind(STUDY_FILE) != "nothing":
                    os.close(folder.open(STUDY_FILE, os.O_RDWR))  # SQLite itself follows a link in that place.
                folder.made(TRIALS).close()
        except OSError as error:
            raise ConfigError(f"cannot make the sweep's folder {self.folder}: {said(error)}") from error
        self._lock = RunLock(self.folder)
        try:
            self._study = _open_study(storage, self.name)
            self._resume(plan, request.config)
        except BaseException:
            self._lock.close()
            raise

    def _resume(self, plan: dict[str, Any] | None, given: TrainConfig | None) -> None:
        """Take over what the study was begun with, or leave it there; do again what was cut off. given: by the user."""
        import optuna

        kept = self._study.user_attrs.get("plan")
        if kept is None and plan is None:
            raise ConfigError(
                f"there is no sweep {self.name} in that storage: name an env to begin one (puffer-train sweep ENV)"
            )
        if kept is None:
            self._study.set_user_attr("plan", plan)
        elif plan is not None and plan != kept:
            changed = ", ".join(_differences(kept, plan))
            raise ConfigError(
                f"the sweep {self.name} was begun with other settings ({changed}): use another --name, or no flags"
            )
        self.plan = plan = kept or plan
        assert plan is not None
        self.metric = str(plan["metric"])
        named = () if given is None else (given.target, given.policy.kind, given.train.algorithm)
        self.config = config_from_tables(plan["config"], named)
        self.space: Space = {key: parse(self.config, key, text) for key, text in plan["space"].items()}
        for trial in self._study.trials:
            if trial.state == optuna.trial.TrialState.RUNNING:  # Its process is gone: no other has the lock.
                self._cut_off(trial)
        # Another seed for each session, or a resumed sweep would draw what was drawn before.
        seed = self.config.train.seed + len(self._study.trials)
        self._study.sampler = optuna.samplers.TPESampler(seed=seed)

    # ------------------------------------------------------------------------------------------------ running

    def request_stop(self) -> None:
        """End the trial that runs, and the sweep. Safe in a signal handler."""
        self.stopped = True
        trainer = self._trainer
        if trainer is not None:
            trainer.request_stop()

    def run(self) -> dict[str, Any]:
        """Run trials until there are as many as asked for or a stop is requested; write and return the summary.

        Raises: SweepError where all trials fail from the start.
        """
        while not self.stopped and len(self.outcomes()) < self.trials:
            self._run_one()
            found = self.outcomes()
            if len(found) >= min(FAILURES_AT_START, self.trials) and not any(o.done for o in found):
                self.write_summary()
                raise SweepError(f"all {len(found)} trials failed, the last one: {found[-1].reason}")
        return self.write_summary()

    def _run_one(self) -> None:
        import optuna

        trial = self._study.ask()
        values = draw(trial, self.space)
        try:
            score, cost = self._train(trial.number, values)
        except Exception as error:  # Whatever an env or a setting does: the next trial may do better.
            words = " ".join(str(error).split())
            reason = f"diverged: {words}" if isinstance(error, Diverged) else f"{type(error).__name__}: {words}"
            trial.set_user_attr(REASON, reason)
            self._study.tell(trial, state=optuna.trial.TrialState.FAIL)
            self._say(f"trial {trial.number}: failed, {reason}; {_in_words(values)}")
            return
        if self.stopped:
            self._cut_off(trial)
            return
        self._study.tell(trial, [score, cost])
        self._say(f"trial {trial.number}: {self.metric} {score:.3f} in {cost:.1f} s; {_in_words(values)}")

    def _cut_off(self, trial: Any) -> None:
        """Close a trial that is not to blame for its end, and put its values in line again."""
        import optuna

        self._study.enqueue_trial(dict(trial.params))
        self._study.tell(trial.number, state=optuna.trial.TrialState.FAIL)

    def _train(self, number: int, values: Values) -> tuple[float, float]:
        """Train one run and return its score and seconds. Raises: what a run raises; SweepError where it has no score."""
        config, name = with_values(self.config, values), f"{number:04d}"
        with Folder(self.folder) as folder, folder.below(TRIALS) as trials:
            trials.made(name).close()
        with Trainer(config, folder=self.folder / TRIALS / name) as trainer:
            self._trainer = trainer
            try:
                if self.stopped:  # While the workers started.
                    trainer.request_stop()
                metrics = trainer.train()
            finally:
                self._trainer = None
        score = metrics.get(self.metric)
        if self.stopped:
            return math.nan, math.nan
        if score is None or not math.isfinite(score):
            has = ", ".join(key for key in metrics if key.startswith((keys.EPISODE, keys.ENV))) or "no rates: no episode ended"
            raise SweepError(f"the run has no {self.metric}; it has {has}")
        return float(score), float(metrics[keys.ELAPSED_S])

    # ------------------------------------------------------------------------------------------------ results

    def outcomes(self) -> list[Outcome]:
        """Return the trials that came to an end by themselves, in order."""
        found = []
        for trial in self._study.trials:
            score, cost = trial.values or (None, None)
            reason = str(trial.user_attrs.get(REASON, ""))
            if score is not None or reason:
                found.append(Outcome(trial.number, dict(trial.params), score, cost, reason))
        return found

    def write_summary(self) -> dict[str, Any]:
        """Write summary.json, and the pictures where two trials or more have a score; return what the file says."""
        found = self.outcomes()
        best = max((o for o in found if o.done), key=lambda o: -math.inf if o.score is None else o.score, default=None)
        summary = {
            "name": self.name,
            "env": self.config.target,
            "metric": self.metric,
            "space": {key: as_text(searched) for key, searched in self.space.items()},
            "best": None if best is None else best.number,
            "pareto": [o.number for o in pareto(found)],
            "failed": [o.number for o in found if not o.done],
            "trials": [{**dataclasses.asdict(o), "run": f"{TRIALS}/{o.number:04d}"} for o in found],
        }
        replace_file(self.folder / SUMMARY_FILE, (json.dumps(summary, indent=2) + "\n").encode())
        if sum(o.done for o in found) >= 2:
            self._draw(found)
        return summary

    def _draw(self, found: list[Outcome]) -> None:
        try:
            extras.require("a picture of the sweep", "matplotlib")
        except MissingExtraError as error:
            self._say(str(error))
            return
        from puffervec.train.metrics.plot import save
        from puffervec.train.verbs.sweep_picture import draw_parallel, draw_pareto

        title = f"{self.config.target}, sweep {self.name}"
        save(draw_pareto(found, pareto(found), self.metric, title), self.folder / PICTURES[0])
        save(draw_parallel(found, self.space, self.metric, title), self.folder / PICTURES[1])

    def close(self) -> None:
        """Let go of the folder; may be called twice."""
        self._lock.close()

    def __enter__(self) -> Sweep:
        """Return itself."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close."""
        self.close()


def pareto(found: list[Outcome]) -> list[Outcome]:
    """Return the trials that no other beats in score without costing more, cheapest first."""
    front: list[Outcome] = []
    best = -math.inf
    done = [(o.cost_s, o.score, o) for o in found if o.score is not None and o.cost_s is not None]
    for _, score, outcome in sorted(done, key=lambda item: (item[0], -item[1], item[2].number)):
        if not front or score > best:
            front.append(outcome)
            best = score
    return front


def _plan_of(config: TrainConfig, request: SweepRequest) -> dict[str, Any]:
    """What a sweep is begun with, as JSON values."""
    config = config.merged({"log": {"dashboard": "off", "name": "", "checkpoint_interval_s": 3600.0, "keep_checkpoints": 1}})
    config.check()
    env_spec(config)  # Refuses what cannot be made.
    if config.creator is not None:
        raise ConfigError(
            f"{config.target} cannot be found by name, so a sweep of it could not be resumed: use module:function"
        )
    space = build_space(config, request.ranges, request.parameters)
    metric = request.metric or training_of(config.target).metric
    plan = {
        "config": {"target": config.target, **config.tables()},
        "space": {key: as_text(searched) for key, searched in space.items()},
        "metric": metric,
    }
    plain: dict[str, Any] = json.loads(json.dumps(plan))
    return plain


def _fresh_name(request: SweepRequest) -> str:
    if request.config is None:
        raise ConfigError(
            "which env? For example: puffer-train sweep cartpole; to go on with a sweep: puffer-train sweep --name NAME"
        )
    env = re.sub(r"[^\w.-]+", "-", request.config.target)
    return f"sweep-{env}-{datetime.datetime.now():%Y%m%d-%H%M%S}"


def _differences(kept: Mapping[str, Any], given: Mapping[str, Any], path: str = "") -> list[str]:
    """Return the paths of what differs between two tables."""
    found: list[str] = []
    for key in {**kept, **given}:
        a, b = kept.get(key), given.get(key)
        if isinstance(a, dict) and isinstance(b, dict):
            found += _differences(a, b, f"{path}{key}.")
        elif a != b:
            found.append(f"{path}{key}".removeprefix("config."))
    return found


def _check_storage(storage: str) -> None:
    """Raises: ConfigError unless it is an SQLite file in a folder that exists."""
    if not storage.startswith("sqlite:///"):
        raise ConfigError(f"--storage is {storage!r}: give a local file as sqlite:///FILE.db")
    file = Path(storage.removeprefix("sqlite:///"))
    if not file.absolute().parent.is_dir():
        raise ConfigError(f"--storage {storage}: there is no folder {file.absolute().parent}")


def _open_study(storage: str, name: str) -> Any:
    """Return the Optuna study of that name, made if it is missing. Raises: ConfigError."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        directions = (optuna.study.StudyDirection.MAXIMIZE, optuna.study.StudyDirection.MINIMIZE)
        return optuna.create_study(storage=storage, study_name=name, load_if_exists=True, directions=directions)
    except Exception as error:
        words = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise ConfigError(f"cannot open the study in {storage}: {words}") from error


def _in_words(values: Values) -> str:
    return ", ".join(f"{key} {value:.4g}" if isinstance(value, float) else f"{key} {value}" for key, value in values.items())
