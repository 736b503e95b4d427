# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""What people read at the end: what a run trains on, the table of a finished run, the commands to try next."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from puffervec.errors import ConfigError
from puffervec.train.config.sections import TrainConfig
from puffervec.train.config.target import own_evaluation
from puffervec.train.metrics import keys
from puffervec.train.metrics.dashboard import clock, time_split
from puffervec.train.metrics.tables import note, print_command, print_table
from puffervec.train.verbs.eval import EvalRequest, run_evaluation


def what_there_is(config: TrainConfig) -> list[str]:
    """Return what the env says about what there is to train on, where it says anything."""
    own = own_evaluation(config.target)
    return [] if own is None or own.describe is None else [own.describe(config.env)]


def print_summary(config: TrainConfig, folder: Path, steps: int, metrics: Mapping[str, float], final_eval: bool) -> None:
    """Print the last rates of a run, evaluate it where the env has an evaluation of its own, and say what to try next.

    Args: steps: agent-steps of the whole run; metrics: of the last update, empty where there was none.
    """
    if metrics:
        rows = [
            ("agent-steps", f"{metrics[keys.STEP]:,.0f}"),
            ("time", clock(metrics[keys.ELAPSED_S])),
            ("agent-steps/s, whole run", f"{metrics[keys.STEP] / max(metrics[keys.ELAPSED_S], 1e-9):,.0f}"),
            *((key.partition("/")[2], f"{metrics[key]:.3f}") for key in metrics if key.startswith((keys.EPISODE, keys.ENV))),
        ]
        print_table("Training, means over the latest episodes", ("", ""), rows)
        print(f"  time split of the last update: {time_split(metrics)}")
    else:
        print(f"Nothing was trained; the run has {steps:,} agent-steps.")
    if metrics and final_eval:
        _evaluate_at_the_end(config, folder)
    print("\nTry next:")
    print_command("puffer-train", "eval", folder, *own_code(config), *(["--png", "picture.png"] if _draws(config) else []))
    classes = (("--policy.kind", config.policy.kind), ("--train.algorithm", config.train.algorithm))
    named = [word for flag, name in classes if ":" in name for word in (flag, name)]  # Code that is imported only if named.
    print_command("puffer-train", config.target, "--resume", folder, *named, *_longer(config, steps))


def _draws(config: TrainConfig) -> bool:
    try:
        own = own_evaluation(config.target)
    except ConfigError:  # It cannot be loaded, which was said.
        return False
    return own is not None and own.draw is not None


def _evaluate_at_the_end(config: TrainConfig, folder: Path) -> None:
    """Evaluate a run that is finished and saved, where its env has an evaluation: whatever that does, the run has succeeded."""
    try:
        if own_evaluation(config.target) is not None:
            run_evaluation(EvalRequest(str(folder), code=_code(config)), parts=False)
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        note(f"the run is saved, but its evaluation failed: {reason}; for more: puffer-train eval {folder}")


def _code(config: TrainConfig) -> tuple[str, ...]:
    return config.target, config.policy.kind


def own_code(config: TrainConfig) -> list[str]:
    """Return the flags with which eval and export may import what a run of this config uses."""
    named = zip(("--env", "--policy"), _code(config), strict=True)
    return [word for flag, name in named if ":" in name for word in (flag, name)]


def _longer(config: TrainConfig, steps: int) -> list[str]:
    """Flags for a run twice as long, by the budget that ended this one."""
    section = config.train
    if section.time_limit_s > 0 and steps < section.total_timesteps:
        return ["--time-limit-s", f"{2 * section.time_limit_s:g}"]
    return ["--total-timesteps", str(2 * max(section.total_timesteps, steps))]
