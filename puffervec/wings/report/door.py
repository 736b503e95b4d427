# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""`puffer-train report`: write a page about a run, in one file that can be shared."""

from __future__ import annotations

import datetime
import re
from pathlib import Path

from puffervec.commands.comparison import find_other, side_by_side, split_request
from puffervec.commands.eval import EvalRequest, adapt_config, evaluate
from puffervec.commands.outputs import check_output, save_output
from puffervec.commands.players import add_player, find_player, is_env, player_fields
from puffervec.commands.verb import StopSignals, Verb
from puffervec.errors import ConfigError
from puffervec.system.arguments import Parser
from puffervec.train.config import flags
from puffervec.train.config.target import native_env, own_evaluation

ABOUT = """\
Evaluates the newest checkpoint of a run and writes a page in one file that needs no network: how
the run was trained, its score next to that of a baseline on the same episodes, the tables of the
evaluation with the meanings of their columns, replays of the worst and the median scene, curves,
how the time was spent, and all settings. It is compared with random (drive: idm) unless --baseline
names others."""
REPORT_FILE = "report.html"


def write_report(
    request: EvalRequest, out: Path | None, replays: bool, date: str, compare: bool = True
) -> Path:
    """Evaluate a run, write its page and return the path of the page.

    Args:
        request: what to evaluate; its baselines are compared with the run, where None means those
            that the env names.
        out: path of the page; None: a file in the run folder.
        replays: play and show episodes.
        date: date to show.
        compare: compare with baselines.

    Raises:
        ConfigError, CheckpointError, SceneError: bad input.
    """
    from puffervec.viewing.web.board import name_of
    from puffervec.wings.report.page import Evaluation, report_page, worst_and_median

    if is_env(request.target):
        raise ConfigError(f"{request.target} is an env: give the folder of a run")
    alone, compared = split_request(request)
    player = find_player(alone, lambda config: adapt_config(config, request))
    if player.folder is None:
        raise ConfigError(f"{request.target} is not in a run folder: give the folder of a run")
    config, path = player.config, out or player.folder / REPORT_FILE
    check_output("--out", path, ".html")
    own, native = own_evaluation(config.target), native_env(config.target)
    if request.baseline is None:
        compared = list(own.compared) if own is not None else ["random"]
    others = [find_other(request, who, player) for who in compared if compare]
    report = evaluate(config, own, player.actor, request)
    if others:
        baselines = [
            (other.label, evaluate(other.config, own, other.actor, request)) for other in others
        ]
        report = side_by_side(report, name_of(player.folder), baselines)
    drawn = replays and native is not None and native.drawing is not None
    played = list(worst_and_median(config, player.actor, report, request.seed)) if drawn else []
    evaluation = Evaluation(report, player.checkpoint, config.tables()["env"], request.seed)
    text = report_page(player.folder, config, evaluation, played, date)
    save_output(path, text.encode())
    return path


def options(parser: Parser) -> None:
    """Declare the flags of report."""
    flag = parser.flag
    flag("--out FILE.html", "[default: report.html in the run folder]", type=Path)
    flag("--no-replays", "without replays")
    flag("--no-baseline", "without a baseline")
    flag("--date TEXT", "date shown on the page [default: today]")
    flag("--suite NAME", "another evaluation of the env")
    flag("--episodes N", "episodes of the evaluation, as eval counts them", type=flags.at_least(1))
    add_player(parser)


def run(args: list[str], signals: StopSignals) -> None:
    """`puffer-train report RUN`."""
    parsed = VERB.parse(args)
    request = EvalRequest(
        parsed.target, **player_fields(parsed), suite=parsed.suite, episodes=parsed.episodes
    )
    date = re.sub(r"\s+", " ", parsed.date or f"{datetime.date.today():%Y-%m-%d}")
    path = write_report(request, parsed.out, not parsed.no_replays, date, not parsed.no_baseline)
    print(f"{path}: {path.stat().st_size / 1e6:.1f} MB")


VERB = Verb(
    "report", "RUN|latest [flags]", "one page for sharing: evaluation, replays, curves, settings",
    ABOUT, run, options,
)  # fmt: skip
