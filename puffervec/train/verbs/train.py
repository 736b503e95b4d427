# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""`puffer-train [train] ENV`: trains a policy. Arguments are checked before torch is imported."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from puffervec.errors import ConfigError
from puffervec.train.config import flags
from puffervec.train.config.sections import LogSection, TrainConfig
from puffervec.train.verbs import settings_help
from puffervec.train.verbs.signals import StopSignals
from puffervec.train.verbs.verb import Verb

if TYPE_CHECKING:
    from puffervec.train.run.trainer import Trainer

ABOUT = """\
  ENV is a C env (drive, tag_grid, cartpole, probe, or one of an installed package), a Gymnasium id, or module:factory, where
  factory is a function or class of yours that makes a gymnasium.Env or a PettingZoo ParallelEnv

  puffer-train drive                            train on generated scenes
  puffer-train drive --scenes FOLDER            ... on your own
  puffer-train CartPole-v1                      train in a registered Gymnasium env
  puffer-train my_envs:make --env.size 8        ... in what my_envs.make(size=8) makes; my_envs.py may lie in this folder
  puffer-train ENV --help                       the settings that people change most; --help-all: every one
  puffer-train VERB --help                      the flags of a verb

  --config FILE.toml    tables [env] [vec] [train] [policy] [log] with the same keys as the flags
  --resume RUN|latest   go on from the newest checkpoint of a run folder
"""


def parse_train(args: list[str]) -> tuple[TrainConfig, Path | None]:
    """Return the config of a run and the checkpoint to go on from.

    Raises: ConfigError, CheckpointError: bad input, in one line.
    """
    target = flags.take_target(args)
    resume = flags.take_option(args, "--resume")
    checkpoint: Path | None = None
    if resume is not None:
        from puffervec.train.metrics.tables import note
        from puffervec.train.run import checkpoint as ckpt
        from puffervec.train.run.find import find_checkpoint, run_folder_of
        from puffervec.train.run.rundir import config_from_tables

        checkpoint = find_checkpoint(resume, _runs_folder(args), note)
        named = target, *(flags.peek(args, flag) for flag in ("--policy.kind", "--train.algorithm"))
        config = config_from_tables(ckpt.read_manifest(checkpoint)["config"], named)
        if run_folder_of(checkpoint) is None:  # A new run begins: where, is not for the checkpoint's maker to say.
            config = dataclasses.replace(config, log=LogSection())
        if target is not None and target != config.target:
            raise ConfigError(f"--resume {resume} is a run of {config.target!r}, not of {target!r}")
    elif target is None:
        raise ConfigError("which env? For example: puffer-train drive (puffer-train --help shows more)")
    else:
        config = TrainConfig.of(target)
    return flags.settled(config, args), checkpoint


def _runs_folder(args: Sequence[str]) -> Path:
    """Where `latest` is looked for: --log.folder where it is given, else the default."""
    value = flags.peek(args, "--log.folder")
    return LogSection().folder if value is None else Path(value)


def run(args: list[str], signals: StopSignals) -> None:
    """Train, and say what came of it."""
    config, checkpoint = parse_train(args)
    from puffervec.train.verbs.report import print_summary, what_there_is

    with signals.start(lambda: _make_trainer(config, checkpoint)) as trainer, signals.training(trainer):
        if trainer.ranks.first:
            print(*what_there_is(config), *trainer.chosen.lines, trainer.describe(), sep="\n")
            print(f"run folder: {trainer.folder}", flush=True)
        metrics = trainer.train()
    trainer.ranks.close()
    if trainer.ranks.first:
        steps, final_eval = trainer.counters.agent_steps, config.train.final_eval and not signals.received
        print_summary(config, trainer.folder, steps, metrics, final_eval)


def settings(args: list[str]) -> str:
    """Return the settings of the env that is named: those that people change most, or with --help-all every one."""
    target = flags.take_target(args)
    if target is None:
        return VERB.usage
    config = flags.of_algorithm(TrainConfig.of(target), args)
    return VERB.usage + settings_help.full_help(config) if "--help-all" in args else settings_help.short_help(config)


def _make_trainer(config: TrainConfig, checkpoint: Path | None) -> Trainer:
    """Make the trainer; where torchrun has started the ranks again, in the run folder that they had."""
    from puffervec.train.device import ranks
    from puffervec.train.run.trainer import Trainer

    peers = ranks.of_environment(config.train.rank_timeout_s)
    from puffervec.train.run.find import find_job

    before = find_job(config.log.folder, peers.job) if peers.first else None
    folder, checkpoint = before or (None, checkpoint)
    return Trainer(config, checkpoint=checkpoint, folder=folder, ranks=peers)


VERB = Verb(
    "train", "ENV [flags]", "train a policy in ENV; `train` may be left out", ABOUT, run, settings, configured=True, trains=True
)
