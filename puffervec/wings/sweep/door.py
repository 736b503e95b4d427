# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""`puffer-train sweep`: many runs with settings that Optuna chooses, to compare score and cost.

    runs/NAME/   study.db (SQLite)   trials/0000 ... (run folders)   summary.json   pareto.png
                 parallel.png

A process runs trials one after the other; other processes may work on the same study (study.py).
The two objectives are the last value of the env's metric, which is maximized, and the seconds of
the run, which are minimized. A trial that fails or diverges is recorded with the reason and the
sweep continues; one that was stopped or killed is repeated with the same values. Runs in the
learner.
"""

from __future__ import annotations

import datetime
import json
import math
import os
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from puffervec.commands.plot import new_figure, save, style_axis
from puffervec.commands.train import code_flags
from puffervec.commands.verb import Stoppable, StopSignals, Verb
from puffervec.contract.drawing import BLUE
from puffervec.errors import ConfigError, MissingExtraError
from puffervec.system import extras
from puffervec.system.arguments import Parser
from puffervec.system.folder import Folder, describe_error, replace_file
from puffervec.system.output import printable, table_lines
from puffervec.train.config import flags
from puffervec.train.config.ranges import (
    PREFIX,
    Choices,
    Domain,
    Space,
    Values,
    as_text,
    build_space,
    draw,
    parse,
    place,
    with_values,
)
from puffervec.train.config.sections import LogSection, TrainConfig
from puffervec.train.config.target import env_spec, training_of
from puffervec.train.metrics import keys
from puffervec.train.metrics.tables import print_command
from puffervec.wings.sweep.study import (
    REASON,
    SQLITE,
    WHERE,
    Study,
    SweepError,
    TrialFailed,
    TrialStopped,
    check_storage,
    place_of,
    shown_url,
)

ABOUT = """\
puffer-train sweep --name NAME [flags] resumes a sweep, also after Ctrl-C or a crash.

Trains run after run with settings that Optuna chooses (needs puffervec[sweep]) for a high score at
a low cost in seconds. The flags of puffer-train train are what the runs share: set a budget
(--total-timesteps). Results: FOLDER/NAME/ with summary.json, pareto.png, parallel.png, and the run
folders in trials."""
FAILURES_AT_START = 5  # If the first trials all fail, this many of them, the sweep ends.
WAIT_S = 2.0  # Time between two checks of other processes' trials.
MOST_ROWS = 20  # Limit for the rows of the printed table, which shows the best trials.
SUMMARY_FILE, STUDY_FILE, TRIALS = "summary.json", "study.db", "trials"
PICTURES = ("pareto.png", "parallel.png")


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
    ) -> None:
        """Begin a sweep, or open the existing one of that name.

        Args:
            config: config that all trials share; None: that of the existing sweep.
            folder: where the sweep's folder is or will be.
            ranges: texts of ranges by key (ranges.py).
            parameters: keys of the ranges that are searched; None: all.
            trials: the total number of trials, including those of earlier sessions.
            name: name of the sweep and its folder; None: made from env and date.
            metric: metric that is the score; None: the env's metric.
            storage: URL (study.py) to use instead of the SQLite file in the folder.

        Raises:
            ConfigError, SceneError, MissingExtraError: bad input; no trial was run.
        """
        extras.require("sweep", "optuna")
        self.trials, self.stopped = trials, False
        self._trainer: Stoppable | None = None
        self.name = name or _new_name(config)
        self.folder = folder / self.name
        plan = None if config is None else _make_plan(config, ranges, parameters, metric)
        if storage is not None:
            check_storage(storage)
        elif config is None and not os.path.lexists(self.folder / STUDY_FILE):
            raise ConfigError(
                f"the sweep {self.folder} does not exist: name an env to begin one (puffer-train "
                "sweep ENV)"
            )
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with Folder(self.folder) as opened:
                opened.refuse_odd(SUMMARY_FILE, *PICTURES)
                if opened.kind(STUDY_FILE) != "nothing":
                    # SQLite itself would follow a link with this name.
                    os.close(opened.open(STUDY_FILE, os.O_RDWR))
                opened.made(TRIALS).close()
        except OSError as error:
            raise ConfigError(
                f"cannot make the sweep's folder {self.folder}: {describe_error(error)}"
            ) from error
        self._study = Study(storage or f"{SQLITE}{self.folder / STUDY_FILE}", self.name)
        try:
            with self._study.alone():
                self._resume(plan, config)
        except BaseException:
            self._study.close()
            raise

    def _resume(self, plan: dict[str, Any] | None, config: TrainConfig | None) -> None:
        """Use the plan that is stored with the study, or store this one."""
        from puffervec.train.run.rundir import config_from_tables

        stored = self._study.plan
        if stored is not None:
            _refuse_other(self.name, stored, plan or stored)
            plan = dict(stored)
        elif plan is not None:
            self._study.begin(plan)
        else:
            raise ConfigError(
                f"{self._study.url} has no sweep {self.name}: name an env to begin one "
                "(puffer-train sweep ENV)"
            )
        self.plan = plan
        self.metric = str(plan["metric"])
        named = (
            () if config is None else (config.target, config.policy.kind, config.train.algorithm)
        )
        self.config = config_from_tables(plan["config"], named)
        self.space: Space = {
            key: parse(self.config, key, text) for key, text in plan["space"].items()
        }

    # ------------------------------------------------------------------------------------- running

    def request_stop(self) -> None:
        """End the current trial and the sweep. May be called in a signal handler."""
        self.stopped = True
        trainer = self._trainer
        if trainer is not None:
            trainer.request_stop()

    def run(self) -> dict[str, Any]:
        """Run trials until the total is reached or a stop is requested; write the summary.

        While other processes run the last trials, this one waits, to repeat the trial of a process
        that dies.

        Returns: the summary.

        Raises:
            SweepError: all trials fail from the start, or the storage is gone.
        """
        waiting = False
        while not self.stopped:
            # Two processes may have begun at the same moment with different settings.
            _refuse_other(self.name, self._study.plan or {}, self.plan)
            outcome = self._study.run_next(self.trials, self.config.train.seed, self._objective)
            if outcome == "done":
                break
            if outcome == "wait":
                if not waiting:
                    print("waiting for trials that others run; Ctrl-C leaves them alone")
                time.sleep(WAIT_S)
            waiting = outcome == "wait"
            ended = self._study.ended()
            if len(ended) >= min(FAILURES_AT_START, self.trials) and not any(
                trial.values for trial in ended
            ):
                self.write_summary()
                raise SweepError(
                    f"all {len(ended)} trials failed, the last one: {ended[-1].user_attrs[REASON]}"
                )
        return self.write_summary()

    def _objective(self, trial: Any) -> tuple[float, float]:
        values = draw(trial, self.space)
        trial.set_user_attr(WHERE, place_of(self._run_folder(trial.number)))
        try:
            score, cost = self._train(trial.number, values)
        except Exception as error:  # Any error of an env or a setting: the next trial may succeed.
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            trial.set_user_attr(REASON, reason)
            print(f"trial {trial.number}: failed, {reason}; {_format_values(values)}")
            raise TrialFailed from error
        if self.stopped:
            raise TrialStopped
        print(
            f"trial {trial.number}: {self.metric} {score:.3f} in {cost:.1f} s; "
            f"{_format_values(values)}"
        )
        return score, cost

    def _run_folder(self, number: int) -> Path:
        return self.folder / TRIALS / f"{number:04d}"

    def _train(self, number: int, values: Values) -> tuple[float, float]:
        """Train one run and return its score and seconds.

        Raises:
            SweepError: the run has no score.
            Exception: whatever a run raises.
        """
        from puffervec.train.run.trainer import Trainer

        config, path = with_values(self.config, values), self._run_folder(number)
        with Folder(self.folder) as folder, folder.below(TRIALS) as trials:
            trials.made(path.name).close()
        with Trainer(config, folder=path) as trainer:
            self._trainer = trainer
            try:
                if self.stopped:  # The stop was requested while the workers started.
                    trainer.request_stop()
                metrics = trainer.train()
            finally:
                self._trainer = None
        score = metrics.get(self.metric)
        if self.stopped:
            return math.nan, math.nan
        if score is None or not math.isfinite(score):
            names = (
                ", ".join(key for key in metrics if key.startswith((keys.EPISODE, keys.ENV)))
                or "none, as no episode ended"
            )
            raise SweepError(f"the run has no finite {self.metric}; its metrics: {names}")
        return float(score), float(metrics[keys.ELAPSED_S])

    # ------------------------------------------------------------------------------------- results

    def write_summary(self) -> dict[str, Any]:
        """Write summary.json, and the pictures if at least two trials have a score.

        Returns: the summary.
        """
        ended, front = self._study.ended(), self._study.front()
        best = front[-1].number if front else None  # The costliest of the front scores highest.
        trials = [
            {
                "number": trial.number,
                "values": trial.params,
                "score": trial.values[0] if trial.values else None,
                "cost_s": trial.values[1] if trial.values else None,
                "reason": trial.user_attrs.get(REASON, ""),
                "run": f"{TRIALS}/{trial.number:04d}",
                "where": trial.user_attrs.get(WHERE, ""),
            }
            for trial in ended
        ]
        summary = {
            "name": self.name,
            "env": self.config.target,
            "metric": self.metric,
            "space": {key: as_text(domain) for key, domain in self.space.items()},
            "best": best,
            "pareto": [trial.number for trial in front],
            "running": len(self._study.running()),
            "failed": [trial.number for trial in ended if not trial.values],
            "trials": trials,
        }
        replace_file(self.folder / SUMMARY_FILE, (json.dumps(summary, indent=2) + "\n").encode())
        if sum(bool(trial.values) for trial in ended) >= 2:
            self._draw(ended, front)
        return summary

    def _draw(self, ended: list[Any], front: list[Any]) -> None:
        try:
            extras.require("a picture of the sweep", "matplotlib")
        except MissingExtraError as error:
            print(str(error))
            return
        title = f"{self.config.target}, sweep {self.name}"
        save(draw_pareto(ended, front, self.metric, title), self.folder / PICTURES[0])
        save(draw_parallel(ended, self.space, self.metric, title), self.folder / PICTURES[1])

    def close(self) -> None:
        """Close the study; may be called twice."""
        self._study.close()

    def __enter__(self) -> Sweep:
        """Return the sweep."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close."""
        self.close()


def _make_plan(
    config: TrainConfig,
    ranges: Mapping[str, str],
    parameters: tuple[str, ...] | None,
    metric: str | None,
) -> dict[str, Any]:
    """Return the settings with which a sweep begins, as JSON values."""
    config = config.merged(
        {
            "log": {
                "dashboard": "off",
                "name": "",
                "checkpoint_interval_s": 3600.0,
                "keep_checkpoints": 1,
            }
        }
    )
    config = config.merged({"log": {"folder": str(LogSection().folder)}})  # Machines differ in it.
    config.check()
    env_spec(config)  # Raises if the env cannot be made.
    if config.creator is not None:
        raise ConfigError(
            f"{config.target} cannot be found by name, so a sweep of it could not be resumed: use "
            "module:function"
        )
    plan = {
        "config": {"target": config.target, **config.tables()},
        "space": {
            key: as_text(domain) for key, domain in build_space(config, ranges, parameters).items()
        },
        "metric": metric or training_of(config.target).metric,
    }
    plain: dict[str, Any] = json.loads(json.dumps(plan))
    return plain


def _new_name(config: TrainConfig | None) -> str:
    if config is None:
        raise ConfigError(
            "which env? For example: puffer-train sweep cartpole; to resume a sweep: "
            "puffer-train sweep --name NAME"
        )
    env = re.sub(r"[^\w.-]+", "-", config.target)
    return f"sweep-{env}-{datetime.datetime.now():%Y%m%d-%H%M%S}"


def _differences(stored: Mapping[str, Any], wanted: Mapping[str, Any], path: str = "") -> list[str]:
    """Return the paths of the values that differ between two tables."""
    paths: list[str] = []
    for key in {**stored, **wanted}:
        a, b = stored.get(key), wanted.get(key)
        if isinstance(a, dict) and isinstance(b, dict):
            paths += _differences(a, b, f"{path}{key}.")
        elif a != b:
            paths.append(f"{path}{key}".removeprefix("config."))
    return paths


def _refuse_other(name: str, stored: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    if wanted != stored:
        changed = ", ".join(_differences(stored, wanted))
        raise ConfigError(
            f"the sweep {name} was begun with other settings ({changed}): use another --name, or "
            "no flags"
        )


def _format_values(values: Values) -> str:
    return ", ".join(
        f"{key} {value:.4g}" if isinstance(value, float) else f"{key} {value}"
        for key, value in values.items()
    )


# ---------------------------------------------------------------------------------------- pictures


def draw_pareto(ended: Sequence[Any], front: Sequence[Any], metric: str, title: str) -> Any:
    """Return a figure of score against seconds.

    Failed trials are only counted, because their cost is unknown.

    Args:
        ended: Optuna's trials with values (score, seconds), or None for failed ones.
        front: the trials on the Pareto front.
        metric: label of the scores.
        title: title of the figure.
    """
    done = [trial for trial in ended if trial.values]
    figure = new_figure(7, 4.5)
    axis = figure.subplots()
    scores, costs = zip(*(trial.values for trial in done), strict=True)
    axis.plot(costs, scores, "o", color="0.65", ms=5, label=f"{len(done)} trials")
    scores, costs = zip(*(trial.values for trial in front), strict=True)
    label = "Pareto front: no other trial is both cheaper and better"
    axis.plot(costs, scores, "o-", color=BLUE, ms=7, drawstyle="steps-post", label=label)
    for trial in front:
        axis.annotate(
            str(trial.number), trial.values[::-1], (5, -11), textcoords="offset points", fontsize=8
        )
    failed = len(ended) - len(done)
    if failed:
        axis.plot([], [], " ", label=f"{failed} failed")
    axis.set(xlabel="seconds of training", ylabel=metric, title=title)
    style_axis(axis)
    figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=8)
    return figure


def draw_parallel(ended: Sequence[Any], space: Space, metric: str, title: str) -> Any:
    """Return a figure with an axis per setting, then cost and score.

    Each trial is a line, coloured by its score.
    """
    from matplotlib import cm, colors

    done = sorted((trial for trial in ended if trial.values), key=lambda trial: trial.values)
    scores, costs = (
        colors.Normalize(*_span(values))
        for values in zip(*(trial.values for trial in done), strict=True)
    )
    figure = new_figure(1.6 * (len(space) + 2) + 1, 4.5)
    axis = figure.subplots()
    for trial in done:  # The best are drawn last, on top.
        score, cost = trial.values
        heights = [place(domain, trial.params[key]) for key, domain in space.items()]
        heights += [float(costs(cost)), float(scores(score))]
        axis.plot(range(len(heights)), heights, color=cm.viridis(scores(score)), alpha=0.8, lw=1.5)
    ends = [*(_marks(domain) for domain in space.values())]
    ends += [[(0.0, f"{scale.vmin:.3g}"), (1.0, f"{scale.vmax:.3g}")] for scale in (costs, scores)]
    for at, marks in enumerate(ends):
        axis.axvline(at, color="0.3", lw=0.8)
        for height, text in marks:
            axis.annotate(
                text,
                (at, height),
                (4, 0),
                textcoords="offset points",
                fontsize=8,
                va="center",
                bbox={"facecolor": "white", "alpha": 0.7, "lw": 0, "pad": 1},
            )
    axis.set_xticks(
        range(len(ends)), [*space, "seconds", metric], fontsize=8, rotation=20, ha="right"
    )
    axis.set(yticks=[], ylim=(-0.05, 1.05), xlim=(-0.3, len(ends) - 0.4), title=title)
    axis.spines[:].set_visible(False)
    figure.colorbar(
        cm.ScalarMappable(scores, cm.viridis), ax=axis, label=metric, fraction=0.03, pad=0.01
    )
    return figure


def _span(values: Sequence[float]) -> tuple[float, float]:
    """Return the minimum and the maximum, moved a little apart if they are equal."""
    low, high = min(values), max(values)
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def _marks(domain: Domain) -> list[tuple[float, str]]:
    """Return the labels on an axis as (height, text)."""
    if isinstance(domain, Choices):
        return [(place(domain, option), option) for option in domain.options]
    log = " (log)" if domain.log else ""
    return [(0.0, f"{domain.low:g}"), (1.0, f"{domain.high:g}{log}")]


def options(parser: Parser) -> None:
    """Declare the flags of sweep beside those of a run."""
    # fmt: off
    flag = parser.flag
    flag("--trials N", "in all, those of earlier sessions too [default: %(default)s]",
         type=flags.at_least(1), default=20)
    flag("--name NAME", "of the sweep and its folder [default: env and date]")
    flag("--sweep.KEY RANGE", "what to search instead of the env's usual settings: LOW:HIGH, "
         "LOW:HIGH:log, or A/B/C (--sweep.train.lr 1e-4:1e-2:log --sweep.policy.hidden "
         "64,64/128,128)")
    flag("--parameters KEYS", "search only these of the usual and the given settings: "
         "train.lr,train.gamma")
    flag("--metric NAME", "of metrics.jsonl; the score [default: the env's own, else "
         "episode/return]")
    flag("--storage URL", "journal:///FILE.log on a shared disk, postgresql://... or mysql://..., "
         "for several machines: all of them give the same URL and --name [default: study.db in "
         "the sweep's folder]")
    flag("--results", "only print the results so far, also while others are at work")
    # fmt: on


def run(args: list[str], signals: StopSignals) -> None:
    """Run `puffer-train sweep ENV`."""
    parsed = VERB.parse(args)
    left, trials, results = parsed.settings, parsed.trials, parsed.results
    ranges = flags.take_prefixed(left, PREFIX)
    parameters = parsed.parameters and tuple(parsed.parameters.replace("-", "_").split(","))
    config = None
    folder = LogSection().folder
    if parsed.target is None:
        log = flags.take_prefixed(left, "--log.")
        folder = Path(log.pop("folder", folder))
        if left or log or ranges or parameters or parsed.metric:
            raise ConfigError(
                "which env? To resume a sweep, give --name and no settings: it has its own"
            )
    else:
        config = flags.build_config(TrainConfig.of(parsed.target), left, VERB.parser().long_flags())
        folder = config.log.folder
        build_space(config, ranges, parameters)
    name, metric, storage = parsed.name, parsed.metric, parsed.storage
    with (
        Sweep(config, folder, ranges, parameters, trials, name, metric, storage) as sweep,
        signals.training(sweep),
    ):
        print(
            f"sweep {sweep.folder}: {sweep.metric} against seconds over {', '.join(sweep.space)}",
            flush=True,
        )
        summary = sweep.write_summary() if results else sweep.run()
    print_results(summary, sweep.config)
    where = [] if folder == LogSection().folder else ["--log.folder", folder]
    where += [] if storage is None else ["--storage", shown_url(storage)]
    more = [] if results else ["--trials", 2 * trials]
    print_command("puffer-train", "sweep", "--name", sweep.name, *where, *more)


def print_results(summary: Mapping[str, Any], config: TrainConfig) -> None:
    """Print the best trials, the best settings as flags, and commands that use them."""
    trials, best = summary["trials"], summary["best"]
    scored = sorted(
        (trial for trial in trials if trial["score"] is not None), key=lambda trial: -trial["score"]
    )
    running = f", {summary['running']} running" if summary["running"] else ""
    failed = f"{len(summary['failed'])} of them failed"
    print(
        f"\n{len(trials)} trials, {failed}{running}; best {best}, Pareto front {summary['pareto']}"
    )
    if best is None:
        return
    cells = [("trial", summary["metric"], "seconds", *summary["space"], "run")]
    for trial in scored[:MOST_ROWS]:
        values = [_format_values({"": trial["values"][key]}).strip() for key in summary["space"]]
        cells.append(
            (
                str(trial["number"]),
                f"{trial['score']:.3f}",
                f"{trial['cost_s']:.1f}",
                *values,
                trial["where"],
            )
        )
    print("\n" + printable("\n".join(table_lines(cells))))
    if len(scored) > MOST_ROWS:
        print(f"  ... and {len(scored) - MOST_ROWS} more: see summary.json")
    print("\nTry next:")
    winner = next(trial for trial in trials if trial["number"] == best)
    best_flags = [
        word
        for key, value in winner["values"].items()
        for word in (f"--{key.replace('_', '-')}", *str(value).split(","))
    ]
    print_command("puffer-train", config.target, *best_flags)
    print_command(
        "puffer-train",
        "eval",
        winner["where"].partition(":")[2] or winner["run"],
        *code_flags(config),
    )


VERB = Verb(
    "sweep", "ENV [flags]",
    "many runs: settings with the highest score for the least time", ABOUT, run,
    options, configured=True, targetless=True, trains=True,
)  # fmt: skip
