# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""`puffer-train sweep`: many runs with settings that Optuna chooses, for score against cost. Runs in the learner.

    runs/NAME/   study.db (SQLite)   trials/0000 ... (run folders)   summary.json   pareto.png   parallel.png

Each trial is a run of this process, one after the other. Two objectives: the last value of the env's metric, to be large, and
the seconds of the run, to be small. A trial that fails or diverges is recorded with the reason and the sweep goes on; one that
was stopped or killed is done again with the same values when the sweep is resumed by its name.
"""

from __future__ import annotations

import datetime
import json
import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from puffervec import extras
from puffervec.errors import ConfigError, MissingExtraError, PuffervecError
from puffervec.host.folder import Folder, replace_file, said
from puffervec.train.config import flags
from puffervec.train.config.ranges import (
    PREFIX,
    Choices,
    Searched,
    Space,
    Values,
    as_text,
    build_space,
    draw,
    parse,
    place,
    with_values,
)  # fmt: skip
from puffervec.train.config.sections import LogSection, TrainConfig
from puffervec.train.config.target import env_spec, training_of
from puffervec.train.metrics import keys
from puffervec.train.metrics.tables import print_command
from puffervec.train.verbs.plot import COLOURS, new_figure, save
from puffervec.train.verbs.train import own_code
from puffervec.train.verbs.verb import Stoppable, StopSignals, Verb

ABOUT = """\
  puffer-train sweep --name NAME [flags] goes on with a sweep, also after Ctrl-C or a crash.

  Trains run after run with settings that Optuna chooses (needs puffervec[sweep]) for much score at little cost in seconds.
  Results: FOLDER/NAME/ with summary.json, pareto.png, parallel.png, and the run folders in trials.

  --trials N            in all, those of earlier sessions too [default: 20]
  --name NAME           of the sweep and its folder [default: env and date]
  --sweep.KEY RANGE     what to search instead of the env's usual settings: LOW:HIGH, LOW:HIGH:log, or A/B/C
                        (--sweep.train.lr 1e-4:1e-2:log --sweep.policy.hidden 64,64/128,128)
  --parameters KEYS     of the usual settings and the given ones search only these: train.lr,train.gamma
  --metric KEY          of metrics.jsonl; the score [default: the env's own, else episode/return]
  --storage URL         sqlite:///FILE.db [default: study.db in the sweep's folder]
  --config FILE.toml    and all flags of puffer-train train: what the runs share; set a budget (--total-timesteps)
"""
FAILURES_AT_START = 5  # Trials; where all of the first fail, the next will too.
REASON = "reason"  # Of a failure, kept with the trial; one that was stopped or killed has none.
SUMMARY_FILE, STUDY_FILE, TRIALS = "summary.json", "study.db", "trials"
PICTURES = ("pareto.png", "parallel.png")


class SweepError(PuffervecError):
    """Nothing that was tried could be run."""


class Sweep:
    """A study and its folder."""

    def __init__(
        self,
        config: TrainConfig | None,
        folder: Path,
        ranges: Mapping[str, str],
        parameters: tuple[str, ...] | None = None,
        trials: int = 20,
        name: str | None = None,
        metric: str | None = None,
        storage: str | None = None,
        say: Callable[[str], None] = print,
    ) -> None:
        """Begin a sweep, or open the one of that name.

        Args:
            config: what all trials share; None: as the sweep of that name has it.
            ranges: texts by key (ranges.py). parameters: keys of the ranges that are searched, None for all.
            trials: how many there shall be in all, those of earlier sessions too.
            name: of the sweep and its folder below `folder`; None: by env and date.
            metric: key of the log that is the score; None: the env's. say: told of every trial.
            storage: URL of another SQLite file than the folder's.
        Raises: ConfigError, SceneError, MissingExtraError: bad input; no trial was run.
        """
        extras.require("sweep", "optuna")
        self.trials, self._say, self.stopped = trials, say, False
        self._trainer: Stoppable | None = None
        self.name = name or _fresh_name(config)
        self.folder = folder / self.name
        plan = None if config is None else _plan_of(config, ranges, parameters, metric)
        if storage is not None:
            _check_storage(storage)
        elif config is None and not os.path.lexists(self.folder / STUDY_FILE):
            raise ConfigError(f"there is no sweep {self.folder}: name an env to begin one (puffer-train sweep ENV)")
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with Folder(self.folder) as opened:
                opened.refuse_odd(SUMMARY_FILE, *PICTURES)
                if opened.kind(STUDY_FILE) != "nothing":
                    os.close(opened.open(STUDY_FILE, os.O_RDWR))  # SQLite itself follows a link in that place.
                opened.made(TRIALS).close()
        except OSError as error:
            raise ConfigError(f"cannot make the sweep's folder {self.folder}: {said(error)}") from error
        from puffervec.train.run.rundir import RunLock

        self._lock = RunLock(self.folder)
        try:
            self._study = _open_study(storage or f"sqlite:///{self.folder / STUDY_FILE}", self.name)
            self._resume(plan, config)
        except BaseException:
            self._lock.close()
            raise

    def _resume(self, plan: dict[str, Any] | None, given: TrainConfig | None) -> None:
        """Take over what the study was begun with, or leave it there; do again what was cut off. given: by the user."""
        import optuna

        from puffervec.train.run.rundir import config_from_tables

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
        while not self.stopped and len(self.ended()) < self.trials:
            self._run_one()
            found = self.ended()
            if len(found) >= min(FAILURES_AT_START, self.trials) and not any(trial.values for trial in found):
                self.write_summary()
                raise SweepError(f"all {len(found)} trials failed, the last one: {found[-1].user_attrs[REASON]}")
        return self.write_summary()

    def _run_one(self) -> None:
        import optuna

        trial = self._study.ask()
        values = draw(trial, self.space)
        try:
            score, cost = self._train(trial.number, values)
        except Exception as error:  # Whatever an env or a setting does: the next trial may do better.
            reason = " ".join(f"{type(error).__name__}: {error}".split())
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
        from puffervec.train.run.trainer import Trainer

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

    def ended(self) -> list[Any]:
        """Return Optuna's records of the trials that came to an end by themselves, in order."""
        return [trial for trial in self._study.trials if trial.values or REASON in trial.user_attrs]

    def write_summary(self) -> dict[str, Any]:
        """Write summary.json, and the pictures where two trials or more have a score; return what the file says."""
        found, front = self.ended(), sorted(self._study.best_trials, key=lambda trial: trial.values[1])
        best = front[-1].number if front else None  # The dearest one of the front has the highest score.
        trials = [
            {
                "number": trial.number,
                "values": trial.params,
                "score": trial.values[0] if trial.values else None,
                "cost_s": trial.values[1] if trial.values else None,
                "reason": trial.user_attrs.get(REASON, ""),
                "run": f"{TRIALS}/{trial.number:04d}",
            }
            for trial in found
        ]
        summary = {
            "name": self.name,
            "env": self.config.target,
            "metric": self.metric,
            "space": {key: as_text(searched) for key, searched in self.space.items()},
            "best": best,
            "pareto": [trial.number for trial in front],
            "failed": [trial.number for trial in found if not trial.values],
            "trials": trials,
        }
        replace_file(self.folder / SUMMARY_FILE, (json.dumps(summary, indent=2) + "\n").encode())
        if sum(bool(trial.values) for trial in found) >= 2:
            self._draw(found, front)
        return summary

    def _draw(self, found: list[Any], front: list[Any]) -> None:
        try:
            extras.require("a picture of the sweep", "matplotlib")
        except MissingExtraError as error:
            self._say(str(error))
            return
        title = f"{self.config.target}, sweep {self.name}"
        save(draw_pareto(found, front, self.metric, title), self.folder / PICTURES[0])
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


def _plan_of(
    config: TrainConfig, ranges: Mapping[str, str], parameters: tuple[str, ...] | None, metric: str | None
) -> dict[str, Any]:
    """What a sweep is begun with, as JSON values."""
    config = config.merged({"log": {"dashboard": "off", "name": "", "checkpoint_interval_s": 3600.0, "keep_checkpoints": 1}})
    config.check()
    env_spec(config)  # Refuses what cannot be made.
    if config.creator is not None:
        raise ConfigError(
            f"{config.target} cannot be found by name, so a sweep of it could not be resumed: use module:function"
        )
    plan = {
        "config": {"target": config.target, **config.tables()},
        "space": {key: as_text(searched) for key, searched in build_space(config, ranges, parameters).items()},
        "metric": metric or training_of(config.target).metric,
    }
    plain: dict[str, Any] = json.loads(json.dumps(plan))
    return plain


def _fresh_name(config: TrainConfig | None) -> str:
    if config is None:
        raise ConfigError(
            "which env? For example: puffer-train sweep cartpole; to go on with a sweep: puffer-train sweep --name NAME"
        )
    env = re.sub(r"[^\w.-]+", "-", config.target)
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


# ---------------------------------------------------------------------------------------------------- pictures


def draw_pareto(found: Sequence[Any], front: Sequence[Any], metric: str, title: str) -> Any:
    """Return a figure of score against seconds; trials that failed are counted only: what they would have cost is not known.

    Args: found: Optuna's trials with values (score, seconds), None where they failed; front: those on the Pareto front.
    """
    done = [trial for trial in found if trial.values]
    figure = new_figure(7, 4.5)
    axis = figure.subplots()
    scores, costs = zip(*(trial.values for trial in done), strict=True)
    axis.plot(costs, scores, "o", color="0.65", ms=5, label=f"{len(done)} trials")
    scores, costs = zip(*(trial.values for trial in front), strict=True)
    label = "Pareto front: no other trial is both cheaper and better"
    axis.plot(costs, scores, "o-", color=COLOURS[0], ms=7, drawstyle="steps-post", label=label)
    for trial in front:
        axis.annotate(str(trial.number), trial.values[::-1], (5, -11), textcoords="offset points", fontsize=8)
    failed = len(found) - len(done)
    if failed:
        axis.plot([], [], " ", label=f"{failed} failed")
    axis.set(xlabel="seconds of training", ylabel=metric, title=title)
    axis.grid(alpha=0.25)
    axis.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=8)
    return figure


def draw_parallel(found: Sequence[Any], space: Space, metric: str, title: str) -> Any:
    """Return a figure with an axis per setting, then cost and score; a line per trial, coloured by its score."""
    from matplotlib import cm, colors

    done = sorted((trial for trial in found if trial.values), key=lambda trial: trial.values)
    scores, costs = (colors.Normalize(*_span(values)) for values in zip(*(trial.values for trial in done), strict=True))
    figure = new_figure(1.6 * (len(space) + 2) + 1, 4.5)
    axis = figure.subplots()
    for trial in done:  # The best are drawn last, on top.
        score, cost = trial.values
        heights = [place(searched, trial.params[key]) for key, searched in space.items()]
        heights += [float(costs(cost)), float(scores(score))]
        axis.plot(range(len(heights)), heights, color=cm.viridis(scores(score)), alpha=0.8, lw=1.5)
    ends = [*(_marks(searched) for searched in space.values())]
    ends += [[(0.0, f"{scale.vmin:.3g}"), (1.0, f"{scale.vmax:.3g}")] for scale in (costs, scores)]
    for at, marks in enumerate(ends):
        axis.axvline(at, color="0.3", lw=0.8)
        for height, text in marks:
            axis.annotate(text, (at, height), (4, 0), textcoords="offset points", fontsize=8, va="center",
                          bbox={"facecolor": "white", "alpha": 0.7, "lw": 0, "pad": 1})  # fmt: skip
    axis.set_xticks(range(len(ends)), [*space, "seconds", metric], fontsize=8, rotation=20, ha="right")
    axis.set(yticks=[], ylim=(-0.05, 1.05), xlim=(-0.3, len(ends) - 0.4), title=title)
    axis.spines[:].set_visible(False)
    figure.colorbar(cm.ScalarMappable(scores, cm.viridis), ax=axis, label=metric, fraction=0.03, pad=0.01)
    return figure


def _span(values: Sequence[float]) -> tuple[float, float]:
    """Return least and largest, a little apart where they are the same."""
    low, high = min(values), max(values)
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def _marks(searched: Searched) -> list[tuple[float, str]]:
    """Return (height, text) of the labels on an axis."""
    if isinstance(searched, Choices):
        return [(place(searched, option), option) for option in searched.options]
    log = " (log)" if searched.log else ""
    return [(0.0, f"{searched.low:g}"), (1.0, f"{searched.high:g}{log}")]


def run(args: list[str], signals: StopSignals) -> None:
    """`puffer-train sweep ENV`."""
    target = flags.take_target(args)
    values = {name: flags.take_option(args, f"--{name}") for name in ("name", "metric", "storage", "parameters")}
    trials = flags.whole("--trials", flags.take_option(args, "--trials"), 1) or 20
    ranges = flags.take_prefixed(args, PREFIX)
    parameters = None if values["parameters"] is None else tuple(values["parameters"].replace("-", "_").split(","))
    config = None
    folder = LogSection().folder
    if target is None:
        folder = Path(flags.take_option(args, "--log.folder") or folder)
        if args or ranges or parameters or values["metric"]:
            raise ConfigError("which env? Or, to go on with a sweep, give --name and no settings: it has its own")
    else:
        config = flags.settled(TrainConfig.of(target), args)
        folder = config.log.folder
        build_space(config, ranges, parameters)
    name, metric, storage = values["name"], values["metric"], values["storage"]
    with Sweep(config, folder, ranges, parameters, trials, name, metric, storage) as sweep, signals.training(sweep):
        print(f"sweep {sweep.folder}: {sweep.metric} against seconds over {', '.join(sweep.space)}", flush=True)
        summary = sweep.run()
    print(f"\n{len(summary['trials'])} trials, {len(summary['failed'])} of them failed; best {summary['best']},", end=" ")
    print(f"Pareto front {summary['pareto']}: see {sweep.folder}")
    if summary["best"] is not None:
        print("\nTry next:")
        print_command("puffer-train", "eval", f"{sweep.folder}/trials/{summary['best']:04d}", *own_code(sweep.config))
    where = [] if folder == LogSection().folder else ["--log.folder", folder]
    print_command("puffer-train", "sweep", "--name", sweep.name, *where, "--trials", 2 * trials)


VERB = Verb(
    "sweep", "ENV [flags]", "many runs: settings that give most score for least time", ABOUT, run,
    configured=True, trains=True,
)  # fmt: skip
