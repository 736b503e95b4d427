# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""`puffer-train eval`: evaluate a run or a baseline; print the results and write them to files.

It checks as much as possible before it imports torch.
"""

from __future__ import annotations

import dataclasses
import json
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from puffervec.commands.comparison import find_other, side_by_side, split_request
from puffervec.commands.outputs import check_output, save_output
from puffervec.commands.players import (
    PlayerRequest,
    add_player,
    find_other_side,
    find_player,
    player_fields,
    progress_of,
    with_named_policy,
)
from puffervec.commands.verb import StopSignals, Verb
from puffervec.contract.evaluation import Actor, Evaluation, Report
from puffervec.errors import ConfigError, SceneWarning
from puffervec.system import extras
from puffervec.system.arguments import Parser
from puffervec.train.config import flags
from puffervec.train.config.sections import TrainConfig
from puffervec.train.config.target import evaluation_config, own_evaluation
from puffervec.train.metrics.tables import print_report

ABOUT = """\
Evaluates a run; or, for an ENV, a baseline that needs no training (--baseline).

--baseline takes several names separated by commas, including other runs and checkpoints: they are
evaluated in the same way and listed below the run, with a remark whether the intervals of the
scores overlap. Pictures are drawn from separate episodes with the same seeds; unless actions are
sampled, these are the evaluated episodes."""
EPISODES = 100  # For envs without their own evaluation.
DRAWN = "worst:10"
SUITE_OPTIONS = ("wosac", "submission", "against")  # flags that not every suite takes


@dataclass(frozen=True)
class EvalRequest(PlayerRequest):
    """The arguments of `puffer-train eval`."""

    suite: str | None = None
    episodes: int | None = None
    seeds: int | None = None
    png: Path | None = None
    draw: str | None = None
    json: Path | None = None
    csv: Path | None = None
    every: bool = False
    failures: bool = False
    wosac: str | None = None
    submission: Path | None = None
    against: Sequence[str] | None = None  # Runs whose policies drive other agents.


def options(parser: Parser) -> None:
    """Declare the flags of eval."""
    # fmt: off
    flag = parser.flag
    flag("--suite NAME", "another evaluation of the env (drive: generated, real, self-play, "
         "human-replay, idm, traffic, realism)")
    flag("--against WHO", "run or checkpoint whose policy drives the other agents, in a suite that "
         "has them (drive: traffic); repeatable", action="append")
    flag("--episodes N", "number of episodes, as the env's evaluation counts them (drive: per "
         "scene) [default: 100, or the env's own]", type=flags.at_least(1))
    flag("--seeds N", "evaluate with N seeds; intervals are over parts and seeds, if the env's "
         "evaluation supports it (drive)", type=flags.at_least(1))
    flag("--json FILE", "also write the results as JSON", type=Path)
    flag("--csv FILE", "also write the results as CSV, one line per part (agent type; drive: "
         "scene); further tables in FILE.TABLE.csv", type=Path)
    flag("--png FILE|FOLDER", "draw episodes, if the env supports it", type=Path)
    flag("--draw WHICH", "parts to draw: part:NAME, worst:N (by score) or all [default: worst:10 "
         "into a folder]")
    flag("--all", "print every part, instead of the total and the parts with the lowest scores "
         "where there are more than 20")
    flag("--failures", "print every line and column of the table of failures, if the evaluation "
         "has one")
    flag("--wosac YEAR", "weights of the suite realism: those of the sim agents challenge of 2025 "
         "or 2024 [default: 2025]")
    flag("--submission FILE", "also write the rollouts of the suite realism, as a submission to "
         "that challenge", type=Path)
    add_player(parser)
    # fmt: on


def parse(args: list[str]) -> EvalRequest:
    """Return the request that the arguments describe.

    Raises: ConfigError: an unknown flag or an invalid value; one line.
    """
    parsed = VERB.parse(args)
    if parsed.draw is not None and parsed.png is None:
        raise ConfigError(f"--draw {parsed.draw} needs --png FILE or --png FOLDER")
    own = (
        *("suite", "episodes", "seeds", "png", "draw", "json", "csv", "failures"),
        *SUITE_OPTIONS,
    )
    request = EvalRequest(
        parsed.target,
        **player_fields(parsed),
        **{name: getattr(parsed, name) for name in own},
        every=parsed.all,
    )
    return with_named_policy(request)


def run_evaluation(request: EvalRequest, parts: bool = True) -> None:
    """Evaluate a run, a checkpoint or a baseline, print the table and write the requested files.

    Args: parts: False for the total alone.
    Raises: ConfigError, CheckpointError, SceneError: bad input, before anything runs.
    """
    _check_outputs(request)
    warnings.simplefilter("ignore", SceneWarning)  # The report contains the same warnings.
    single, compared = split_request(request)
    player = find_player(single, lambda config: adapt_config(config, request))
    others = [find_other(request, who, player) for who in compared]
    config, own = player.config, own_evaluation(player.config.target)
    report = evaluate(config, own, player.actor, request)
    if own is not None and own.seen is not None and player.trained is not None:
        seen = own.seen(player.trained.env, config.env)
        remarks = [seen, *report.remarks] if seen else report.remarks
        report = dataclasses.replace(report, remarks=remarks)
    if others:
        # Only the player itself is submitted.
        alike = dataclasses.replace(request, submission=None)
        reports = [
            (other.label, evaluate(other.config, own, other.actor, alike)) for other in others
        ]
        report = side_by_side(report, player.label, reports)
    levels = [
        f" on {getattr(config.env, name)}"
        for name in flags.ENV_ALIASES.values()
        if hasattr(config.env, name)
    ]
    whole = ("failures",) if request.failures else ()
    print_report(
        report, f"{config.target}: {player.label}{''.join(levels)}", parts, request.every, whole
    )
    _write(request, report, config, player.label)
    if request.png is not None:
        _draw(request, own, report, config, player.actor)


def adapt_config(config: TrainConfig, request: EvalRequest) -> TrainConfig:
    """Return a run's config with the changes that the suite requires.

    Raises: ConfigError: the env does not have the requested pictures or suite, or the suite does
        not support an option.
    """
    own = own_evaluation(config.target)
    suites = {} if own is None else own.suites
    if request.suite is not None and request.suite not in suites:
        has = ", ".join(f"{name} ({suite.about})" for name, suite in suites.items()) or "none"
        raise ConfigError(f"--suite {request.suite}: the suites of {config.target} are: {has}")
    takes = () if request.suite is None else suites[request.suite].options
    for name in SUITE_OPTIONS:
        value = getattr(request, name)
        if value is not None and name not in takes:
            able = [f"--suite {suite}" for suite, one in suites.items() if name in one.options]
            remedy = f"add {' or '.join(able)}" if able else f"{config.target} has no such suite"
            first = value if isinstance(value, (str, Path)) else value[0]
            raise ConfigError(f"--{name} {first}: {remedy}")
    if request.png is not None and (own is None or own.draw is None):
        raise ConfigError(f"--png {request.png}: {config.target} draws no pictures")
    config = evaluation_config(config)
    settings = None if request.suite is None else suites[request.suite].settings
    return config if settings is None else dataclasses.replace(config, env=settings(config.env))


def evaluate(
    config: TrainConfig, own: Evaluation | None, actor: Actor, request: EvalRequest
) -> Report:
    """Evaluate the actor and return the report.

    Raises: ConfigError: the env's own evaluation refuses the request, or returns no report.
    """
    if own is not None:
        suite = own if request.suite is None else own.suites[request.suite]
        further = {
            name: getattr(request, name)
            for name in ("seeds", *SUITE_OPTIONS)
            if getattr(request, name) is not None
        }
        if request.against is not None:
            further["against"] = {
                who: find_other_side(who, config, request, "--against") for who in request.against
            }
        report = suite.evaluate(
            actor,
            config.env,
            episodes=request.episodes or suite.episodes,
            seed=request.seed,
            **further,
        )
        if not isinstance(report, Report):
            raise ConfigError(
                f"the evaluation of {config.target} returned {report!r}: it must return a "
                "puffervec.contract.evaluation.Report"
            )
        return report
    if request.seeds is not None:
        raise ConfigError(
            f"--seeds {request.seeds}: {config.target} has no evaluation of its own: give "
            "--episodes"
        )
    from puffervec.train.act.evaluate import evaluate_any

    return evaluate_any(config, actor, request.episodes or EPISODES, request.seed)


def _check_outputs(request: EvalRequest) -> None:
    """Refuse files that could not be written, before the time for the evaluation is spent."""
    for name in ("json", "csv", "submission", "png"):
        path = getattr(request, name)
        if path is not None and not (name == "png" and path.is_dir()):
            check_output(f"--{name}", path)
    if request.png is None:
        return
    extras.require("--png", "PIL")
    which = request.draw or DRAWN
    if not re.fullmatch(r"all|worst:[1-9][0-9]*|part:.+", which):
        raise ConfigError(f"--draw {which}: give part:NAME, worst:N or all")
    if request.png.exists() and not request.png.is_dir() and request.png.suffix.lower() != ".png":
        raise ConfigError(
            f"--png {request.png}: is a file: give a name that ends in .png, or a folder"
        )
    if (
        _is_file(request.png)
        and request.draw is not None
        and not which.startswith("part:")
        and which != "worst:1"
    ):
        raise ConfigError(
            f"--png {request.png} is one picture and --draw {which} are several: give a folder"
        )


def _is_file(path: Path) -> bool:
    return path.suffix.lower() == ".png" and not path.is_dir()


def _write(request: EvalRequest, report: Report, config: TrainConfig, label: str) -> None:
    about = {
        "schema_version": 1,
        "env": config.target,
        "settings": config.tables()["env"],
        "policy": label,
        "seed": request.seed,
        "score": report.score,
        "shown": list(report.shown),
        "columns": {name: list(columns) for name, columns in report.columns.items()},
    }
    _save_text(
        request.json, json.dumps({**about, **report.to_json()}, indent=2, allow_nan=False) + "\n"
    )
    _save_text(request.csv, report.to_csv())
    for name, rows in report.tables.items():
        if request.csv is not None and rows:
            _save_text(request.csv.with_suffix(f".{name}.csv"), report.to_csv(name))


def _save_text(path: Path | None, text: str) -> None:
    if path is not None:
        save_output(path, text.encode())
        print(f"{path}: written")


def _draw(
    request: EvalRequest, own: Evaluation | None, report: Report, config: TrainConfig, actor: Actor
) -> None:
    """Draw pictures of the chosen parts, write them and print their paths."""
    assert request.png is not None and own is not None and own.draw is not None
    chosen = choose_parts(report, request.draw, _is_file(request.png))
    if not chosen:
        raise ConfigError("there is nothing to draw: no part of the report has a score")
    if not _is_file(request.png):
        request.png.mkdir(exist_ok=True)
    ranked = not (request.draw or DRAWN).startswith(("all", "part:"))
    for number, (name, picture) in enumerate(
        own.draw(actor, config.env, chosen, seed=request.seed), 1
    ):
        stem = re.sub(r"[^\w.-]+", "-", name.removesuffix(".json")).lstrip(".-") or "unnamed"
        path = request.png
        if not _is_file(path):
            path /= f"{number:02d}-{stem}.png" if ranked else f"{stem}.png"
        save_output(path, picture)
        print(f"{path}: {name}", flush=True)


def choose_parts(report: Report, which: str | None, one: bool) -> list[str]:
    """Return the names of the parts to draw.

    Args: which: the value of --draw; one: whether to draw a single picture.
    Raises: ConfigError: no such part exists.
    """
    if which is None and one:
        return [name for name in (report.drawn, *report.worst(1)) if name is not None][:1]
    return report.chosen(which or DRAWN)


def run(args: list[str], signals: StopSignals) -> None:
    """`puffer-train eval RUN`."""
    request = parse(args)
    with progress_of(request):
        run_evaluation(request)


VERB = Verb(
    "eval", "RUN|CHECKPOINT|latest|ENV [flags]",
    "rates of a trained policy or a baseline", ABOUT,
    run, options,
)  # fmt: skip
