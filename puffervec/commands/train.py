# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""`puffer-train [train] ENV`: train a policy. Arguments are checked before torch is imported."""

from __future__ import annotations

import dataclasses
import textwrap
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import puffervec.envs
from puffervec.commands import settings_help
from puffervec.commands.eval import EvalRequest, run_evaluation
from puffervec.commands.verb import StopSignals, Verb
from puffervec.doors import door
from puffervec.errors import ConfigError, SceneWarning
from puffervec.system.arguments import Parser
from puffervec.system.output import table_lines
from puffervec.train.config import flags
from puffervec.train.config.sections import LogSection, TrainConfig
from puffervec.train.config.target import native_env, own_evaluation, training_of
from puffervec.train.metrics import keys
from puffervec.train.metrics.dashboard import clock, time_split
from puffervec.train.metrics.tables import note, print_command

if TYPE_CHECKING:
    from puffervec.train.run.trainer import Trainer

ABOUT = """\
ENV is a C env (the line below), a Gymnasium id, or module:factory, where factory is a function or
class of yours that makes a gymnasium.Env or a PettingZoo ParallelEnv.

  puffer-train drive                        train on generated scenes
  puffer-train drive --scenes FOLDER        train on your own scenes
  puffer-train CartPole-v1                  train in a registered Gymnasium env
  puffer-train my_envs:make --env.size 8    train in the env that my_envs.make(size=8) returns;
                                            my_envs.py may be in the current folder
  puffer-train ENV --help                   the most used settings; --help-all: all settings
  puffer-train VERB --help                  the flags of a verb"""


def options(parser: Parser) -> None:
    """Declare the flags of train that determine how a run starts."""
    # fmt: off
    add = parser.add_mutually_exclusive_group().add_argument
    add("--resume", metavar="RUN|latest", help="resume a run from its newest checkpoint")
    add("--init-from", metavar="RUN",
        help="start a new run with the policies of another one: a run or a checkpoint")
    add("--warpdrive", metavar="FILE.yaml", type=Path,
        help="use a run config of WarpDrive; ENV may be omitted if the name in the file implies it")
    # fmt: on


def help_text(usage: str | None = None) -> str:
    """Return the text of --help with the names of all C envs; `usage` replaces the usual one."""
    parser = VERB.parser()
    parser.usage = usage or parser.usage
    first, rest = ABOUT.split("\n\n", 1)
    known = textwrap.fill(
        ", ".join(puffervec.envs.names()), 100, initial_indent="C envs: ", subsequent_indent=" " * 8
    )
    parser.description = f"{first}\n{known}\n\n{rest}"
    return parser.format_help()


def parse_train(args: list[str]) -> tuple[TrainConfig, Path | None, Path | None]:
    """Return a run's config, the checkpoint to resume, and the checkpoint to take policies from.

    Raises: ConfigError, CheckpointError: bad input, in one line.
    """
    parsed = VERB.parse(args)
    target, args = parsed.target, parsed.settings
    checkpoint: Path | None = None
    if parsed.resume is not None:
        from puffervec.train.run.find import run_folder_of

        checkpoint, config = _load_config(parsed.resume, target, args)
        # A checkpoint outside a run folder starts a new run, whose folder it must not choose.
        if run_folder_of(checkpoint) is None:
            config = dataclasses.replace(config, log=LogSection())
        if target is not None and target != config.target:
            which = (
                f"{parsed.resume} ({run_folder_of(checkpoint) or checkpoint})"
                if parsed.resume == "latest"
                else parsed.resume
            )
            raise ConfigError(f"--resume {which} is a run of {config.target!r}, not of {target!r}")
    elif parsed.init_from is not None:
        source, before = _load_config(parsed.init_from, target, args)
        config = dataclasses.replace(TrainConfig.of(target or before.target), policy=before.policy)
        return flags.build_config(config, args, VERB.parser().long_flags()), None, source
    elif parsed.warpdrive is not None:
        config = _read_warpdrive(parsed.warpdrive, target)
    elif target is None:
        raise VERB.no_target()
    else:
        config = TrainConfig.of(target)
    return flags.build_config(config, args, VERB.parser().long_flags()), checkpoint, None


def _load_config(run: str, target: str | None, args: list[str]) -> tuple[Path, TrainConfig]:
    """Return the checkpoint that `run` refers to, and the config of its run.

    Only code that the arguments name may be imported.
    """
    from puffervec.train.run import checkpoint as ckpt
    from puffervec.train.run.find import find_checkpoint
    from puffervec.train.run.rundir import config_from_tables

    checkpoint = find_checkpoint(run, _runs_folder(args), note)
    named = (
        target,
        *(
            flags.peek(args, flag)
            for flag in ("--policy.kind", "--train.algorithm", "--policy.map")
        ),
    )
    single = flags.take_policies(list(args)).values()
    named += tuple(table.get(key) for table in single for key in ("kind", "algorithm"))
    return checkpoint, config_from_tables(
        ckpt.read_manifest(checkpoint)["config"], named
    ).without_ray()


def _read_warpdrive(path: Path, target: str | None) -> TrainConfig:
    """Return the config that a WarpDrive file describes, and print the keys that are left out.

    Raises: ConfigError.
    """
    converted = door("warpdrive", "--warpdrive").read(path, target)
    for line in converted.lines:
        note(line)
    config: TrainConfig = converted.config
    return config


def _runs_folder(args: Sequence[str]) -> Path:
    """Return the folder in which `latest` is searched: --log.folder if set, else the default."""
    value = flags.peek(args, "--log.folder")
    return LogSection().folder if value is None else Path(value)


def run(args: list[str], signals: StopSignals) -> None:
    """Train and print a summary."""
    config, checkpoint, source = parse_train(args)
    warnings.simplefilter("ignore", SceneWarning)  # `describe_data` prints the same warnings.
    # Import torch before the start phase, in which a signal raises KeyboardInterrupt: in the import
    # of torch, that would end the process by SIGABRT.
    import puffervec.train.run.trainer  # noqa: F401

    with (
        signals.start(lambda: _make_trainer(config, checkpoint, source)) as trainer,
        signals.training(trainer),
    ):
        if trainer.ranks.first:
            print(
                *describe_data(config),
                *_notes(config),
                *trainer.chosen.lines,
                trainer.describe(),
                sep="\n",
            )
            print(f"run folder: {trainer.folder}", flush=True)
        metrics = trainer.train()
    trainer.ranks.close()
    if trainer.ranks.first:
        steps, final_eval = (
            trainer.counters.agent_steps,
            config.train.final_eval and not signals.received,
        )
        print_summary(config, trainer.folder, steps, metrics, final_eval)


def settings(args: list[str]) -> str:
    """Return help on the env's most used settings, or on all of them with --help-all."""
    target = flags.take_target(args)
    if target is None:
        return help_text()
    config = flags.of_algorithm(TrainConfig.of(target), args)
    return (
        help_text() + settings_help.full_help(config)
        if "--help-all" in args
        else settings_help.short_help(config)
    )


def _make_trainer(config: TrainConfig, checkpoint: Path | None, source: Path | None) -> Trainer:
    """Make the trainer; if torchrun has restarted the ranks, reuse their run folder."""
    from puffervec.train.device import ranks
    from puffervec.train.run.trained import initial_policies
    from puffervec.train.run.trainer import Trainer

    peers = ranks.from_environment(config.train.rank_timeout_s)
    from puffervec.train.run.find import find_job

    before = find_job(config.log.folder, peers.job) if peers.first else None
    folder, checkpoint = before or (None, checkpoint)
    policies = (
        initial_policies(source, config) if source is not None and checkpoint is None else None
    )
    kind = door("ray", "ray.address").trainer_class() if config.ray.address else Trainer
    trainer: Trainer = kind(
        config, policies=policies, checkpoint=checkpoint, folder=folder, ranks=peers
    )
    return trainer


def describe_data(config: TrainConfig) -> list[str]:
    """Return the env's description of its training data; empty if it has none."""
    own = own_evaluation(config.target)
    return [] if own is None or own.describe is None else [own.describe(config.env)]


def _notes(config: TrainConfig) -> list[str]:
    """Return a line that counts the notes of the env."""
    notes = training_of(config.target).notes if config.creator is None else ()
    if not notes:
        return []
    return [
        f"settings of the env's files without effect here: {len(notes)} (puffer-train "
        f"{config.target} --help lists them)"
    ]


def print_summary(
    config: TrainConfig, folder: Path, steps: int, metrics: Mapping[str, float], final_eval: bool
) -> None:
    """Print a run's last metrics, evaluate it if the env has an evaluation, and suggest next steps.

    Args:
        config: config of the run.
        folder: the run folder.
        steps: agent-steps of the whole run.
        metrics: metrics of the last update; empty if there was no update.
        final_eval: whether to evaluate.
    """
    if metrics:
        rows = [
            ("agent-steps", f"{metrics[keys.STEP]:,.0f}"),
            ("time", clock(metrics[keys.ELAPSED_S])),
            (
                "agent-steps/s, whole run",
                f"{metrics[keys.STEP] / max(metrics[keys.ELAPSED_S], 1e-9):,.0f}",
            ),
            *(
                (key.partition("/")[2], f"{metrics[key]:.3f}")
                for key in metrics
                if key.startswith((keys.EPISODE, keys.ENV))
            ),
        ]
        print("\nTraining, means over the latest episodes", *table_lines(rows), sep="\n")
        print(f"  time split of the last update: {time_split(metrics)}")
    else:
        print(f"Nothing was trained; the run has {steps:,} agent-steps.")
    if metrics and final_eval:
        _evaluate_at_the_end(config, folder)
    print("\nTry next:")
    print_command(
        "puffer-train",
        "eval",
        folder,
        *code_flags(config),
        *(["--png", "picture.png"] if _can_draw(config) else []),
    )
    native = native_env(config.target)
    if native is not None and native.drawing is not None:
        print_command("puffer-train", "render", folder, *code_flags(config))
    classes = (("--policy.kind", config.policy.kind), ("--train.algorithm", config.train.algorithm))
    # The user's code is imported only if the command names it.
    code = [word for flag, name in classes if ":" in name for word in (flag, name)]
    print_command(
        "puffer-train", config.target, "--resume", folder, *code, *_double_budget(config, steps)
    )


def _can_draw(config: TrainConfig) -> bool:
    """Return whether the env's evaluation draws pictures."""
    try:
        own = own_evaluation(config.target)
    except ConfigError:  # The evaluation cannot be loaded; the error was printed before.
        return False
    return own is not None and own.draw is not None


def _evaluate_at_the_end(config: TrainConfig, folder: Path) -> None:
    """Evaluate a finished and saved run if its env has an evaluation.

    The run has succeeded even if the evaluation fails.
    """
    try:
        if own_evaluation(config.target) is not None:
            run_evaluation(EvalRequest(str(folder), code=_code(config)), parts=False)
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        note(
            f"the run is saved, but its evaluation failed: {reason}; for more: puffer-train eval "
            f"{folder}"
        )


def _code(config: TrainConfig) -> tuple[str, ...]:
    return config.target, config.policy.kind


def code_flags(config: TrainConfig) -> list[str]:
    """Return the flags that allow eval and export to import the user's code of a run."""
    code = zip(("--env", "--policy"), _code(config), strict=True)
    return [word for flag, name in code if ":" in name for word in (flag, name)]


def _double_budget(config: TrainConfig, steps: int) -> list[str]:
    """Return flags that double the budget that ended the run: its time or its agent-steps."""
    section = config.train
    if section.time_limit_s > 0 and steps < section.total_timesteps:
        return ["--time-limit-s", f"{2 * section.time_limit_s:g}"]
    return ["--total-timesteps", str(2 * max(section.total_timesteps, steps))]


VERB = Verb(
    "train",
    "ENV [flags]",
    "train a policy in ENV; `train` may be omitted",
    ABOUT,
    run,
    options,
    settings,
    configured=True,
    targetless=True,
    trains=True,
)
