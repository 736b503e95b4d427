# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""`puffer-train [VERB] TARGET [flags]`: a thin caller of the trainer and the evaluation; table.py has the other table.

Arguments are checked before torch is imported, and everything is checked before a worker starts. Exit codes: 0 done, 1 the run
failed, 2 bad input (one line on standard error), 130 and 143 stopped by Ctrl-C and SIGTERM: in training after saving a
checkpoint, else at once.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Protocol

import puffervec
from puffervec import extras
from puffervec.errors import CheckpointError, ConfigError, MissingExtraError, PuffervecError, SceneError
from puffervec.host.output import printable, steady_output
from puffervec.train.config import flags
from puffervec.train.config.sections import TrainConfig
from puffervec.train.device import job
from puffervec.train.verbs import evaluate, settings_help, table

if TYPE_CHECKING:
    from puffervec.train.run.trainer import Trainer

USAGE = """\
usage: puffer-train [train] ENV [flags]         train a policy in ENV
       puffer-train eval RUN|ENV [flags]        rates of a trained policy, or of a baseline
       puffer-train list                        the envs, policies, memories, optimizers and presets there are
       puffer-train plot RUN... [flags]         curves of one or several runs as a picture
       puffer-train export RUN [flags]          a run's policies as ONNX or torch.export files
       puffer-train sweep ENV [flags]           many runs: settings that give most score for least time
       puffer-train bench ENV [flags]           speed and time split of a short run
       puffer-train cache [--clear]             where compiled scenes are kept, and how much room they take
       puffer-train completion SHELL            what completes these commands in bash, zsh or fish
       puffer-train --version

  ENV is a C env (drive, tag_grid, cartpole, probe, or one of an installed package), a Gymnasium id, or module:factory, where
  factory is a function or class of yours that makes a gymnasium.Env or a PettingZoo ParallelEnv

  puffer-train drive                            train on the scenes that come with the project
  puffer-train drive --scenes FOLDER            ... on your own
  puffer-train CartPole-v1                      train in a registered Gymnasium env
  puffer-train my_envs:make --env.size 8        ... in what my_envs.make(size=8) makes; my_envs.py may lie in this folder
  puffer-train ENV --help                       the settings that people change most; --help-all: every one
  puffer-train VERB --help                      the flags of a verb

  --config FILE.toml    tables [env] [vec] [train] [policy] [log] with the same keys as the flags
  --resume RUN|latest   go on from the newest checkpoint of a run folder
"""
BAD_INPUT = (ConfigError, SceneError, CheckpointError, MissingExtraError)
EXIT_FAILED, EXIT_BAD_INPUT = 1, 2
HELP = {"-h", "--help", "--help-all"}
LONGEST = 4000  # Characters of a message; names in it may be a stranger's.


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    with steady_output() as output:
        code, trains = _run(list(sys.argv[1:] if argv is None else argv))
        output.flush()
        if output.lost is None or code != 0:
            return code
        if not isinstance(output.lost, BrokenPipeError):  # Who closes a pipe knows.
            _say(f"some of the output was lost: {getattr(output.lost, 'strerror', None) or output.lost}")
        return 0 if trains else EXIT_FAILED


def _say(text: str) -> None:
    print(f"puffer-train: {printable(text[:LONGEST])}{'...' if len(text) > LONGEST else ''}", file=sys.stderr, flush=True)


def _run(args: list[str]) -> tuple[int, bool]:
    """Run a verb; return the exit code, and whether it is one that trains: its files are what it is for, not its output."""
    if not args or args[0] in ("-h", "--help", "help"):
        print(USAGE)
        return 0, False
    if args == ["--version"]:
        print(f"puffervec {puffervec.__version__}")
        return 0, False
    verb = args.pop(0) if args[0] in VERBS else "train"
    run = VERBS[verb]
    if verb in WITH_TARGET and not args:
        print(usages()[verb], file=sys.stderr)
        return EXIT_BAD_INPUT, False
    if run is not run_train and int(os.environ.get("WORLD_SIZE", "1")) > 1 and job.under_torchrun():
        _say("torchrun is for training only: give this verb without torchrun")
        return EXIT_BAD_INPUT, False
    return _guarded(run, args), run in (run_train, table.run_sweep)


def _guarded(run: Callable[[list[str], StopSignals], int], args: list[str]) -> int:
    with StopSignals() as signals:
        try:
            if run not in WITHOUT_TRAINER and not HELP & set(args):
                extras.require("the trainer", *extras.TRAINER)
            return run(args, signals)
        except BAD_INPUT as error:
            _say(" ".join(str(error).split()))
            return EXIT_BAD_INPUT
        except PuffervecError as error:
            _say(str(error))
            return EXIT_FAILED
        except KeyboardInterrupt:
            return 128 + (signals.received or signal.SIGINT)


class Stoppable(Protocol):
    """A trainer, or a sweep of them."""

    def request_stop(self) -> None:
        """Come to an end soon. Safe in a signal handler."""


class StopSignals:
    """What Ctrl-C and SIGTERM do within the block, by the phase of the command.

    Nothing is held (imports, evaluation): end at once. Starting: KeyboardInterrupt, so that what was begun is undone. Training:
    stop it, which saves. A second signal ends the process at once in all phases; workers end by themselves when it is gone.
    A terminal that is closed (SIGHUP) is no reason to stop what is being trained; without a trainer it ends the process.
    """

    def __init__(self) -> None:
        self.received = 0  # The number of the first signal.
        self.starting = False
        self.trainer: Stoppable | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> StopSignals:
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._handle) for number in (signal.SIGINT, signal.SIGTERM)}
            if signal.getsignal(signal.SIGHUP) == signal.SIG_DFL:  # Else it is ignored already, as under nohup.
                self._before[signal.SIGHUP] = signal.signal(signal.SIGHUP, self._hang_up)
        return self

    def __exit__(self, *error: object) -> None:
        """Set back what was there before, unless a signal came: then the process is about to end, without a traceback."""
        for number, handler in self._before.items() if not self.received else ():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.received or (self.trainer is None and not self.starting):
            os._exit(128 + number)
        self.received = number
        if self.trainer is None:
            raise KeyboardInterrupt
        self.trainer.request_stop()
        with contextlib.suppress(OSError):
            os.write(2, b"\nstopping: saving a checkpoint (once more to quit at once)\n")

    def _hang_up(self, number: int, frame: FrameType | None) -> None:
        if self.trainer is None and not self.starting:
            os._exit(128 + number)

    def start(self, make: Callable[[], Trainer]) -> Trainer:
        """Make a trainer. Raises: KeyboardInterrupt where a signal came meanwhile."""
        self.starting = True
        try:
            trainer = make()
        except Exception:
            if self.received:  # What the interrupted code made of it.
                raise KeyboardInterrupt from None
            raise
        finally:
            self.starting = False
        if self.received:  # It was lost in a callback.
            trainer.close()
            raise KeyboardInterrupt
        return trainer

    @contextlib.contextmanager
    def training(self, trainer: Stoppable) -> Iterator[None]:
        """Within the block the first signal stops the trainer."""
        self.trainer = trainer
        try:
            yield
        finally:
            self.trainer = None


# ---------------------------------------------------------------------------------------------------- train


def parse_train(args: list[str]) -> tuple[TrainConfig, Path | None]:
    """Return the config of a run and the checkpoint to go on from.

    Raises: ConfigError, CheckpointError: bad input, in one line.
    """
    target = flags.take_target(args)
    resume = flags.take_option(args, "--resume")
    checkpoint: Path | None = None
    if resume is not None:
        from puffervec.train.config.sections import LogSection
        from puffervec.train.run import checkpoint as ckpt
        from puffervec.train.run.find import find_checkpoint, run_folder_of
        from puffervec.train.run.rundir import config_from_tables

        checkpoint = find_checkpoint(resume, _runs_folder(args), lambda text: _say(f"note: {text}"))
        config = config_from_tables(ckpt.read_manifest(checkpoint)["config"], (target, flags.peek(args, "--policy.kind")))
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
    from puffervec.train.config.sections import LogSection

    value = flags.peek(args, "--log.folder")
    return LogSection().folder if value is None else Path(value)


def run_train(args: list[str], signals: StopSignals) -> int:
    """`puffer-train [train] ENV`."""
    if HELP & set(args):
        target = flags.take_target(args)
        if target is None:
            print(USAGE)
        else:
            config = TrainConfig.of(target)
            print(USAGE + settings_help.full_help(config) if "--help-all" in args else settings_help.short_help(config))
        return 0
    config, checkpoint = parse_train(args)
    from puffervec.train.verbs.report import print_scenes, print_summary

    with signals.start(lambda: _make_trainer(config, checkpoint)) as trainer, signals.training(trainer):
        if trainer.ranks.first:
            print_scenes(config)
            print(*trainer.chosen.lines, trainer.describe(), sep="\n")
            print(f"run folder: {trainer.folder}", flush=True)
        metrics = trainer.train()
    trainer.ranks.close()
    if not trainer.ranks.first:
        return 128 + signals.received if signals.received else 0
    print_summary(config, trainer.folder, metrics, final_eval=config.train.final_eval and not signals.received)
    return 128 + signals.received if signals.received else 0


def _make_trainer(config: TrainConfig, checkpoint: Path | None) -> Trainer:
    """Make the trainer; where torchrun has started the ranks again, in the run folder that they had."""
    from puffervec.train.device import ranks
    from puffervec.train.run.trainer import Trainer

    peers = ranks.of_environment(config.train.rank_timeout_s)
    from puffervec.train.run.find import find_job

    before = find_job(config.log.folder, peers.job) if peers.first else None
    folder, checkpoint = before or (None, checkpoint)
    return Trainer(config, checkpoint=checkpoint, folder=folder, ranks=peers)


def run_completion(args: list[str], signals: StopSignals) -> int:
    """`puffer-train completion SHELL`; with `-- WORD...`, what the printed scripts ask at each TAB."""
    from puffervec.train.verbs.completion import SCRIPTS, candidates

    if args[:1] == ["--"]:
        print(*candidates(args[1:], usages()), sep="\n")
        return 0
    if not args or HELP & set(args):
        print(table.COMPLETION_USAGE)
        return 0
    shell = flags.take_target(args)
    flags.refuse_left(args, "completion")
    if shell not in SCRIPTS:
        raise ConfigError(f"completion: {shell!r} is not known: use {', '.join(SCRIPTS)}")
    print(SCRIPTS[shell], end="")
    return 0


VERBS: dict[str, Callable[[list[str], StopSignals], int]] = {
    "train": run_train,
    "eval": table.run_eval,
    "list": table.run_list,
    "plot": table.run_plot,
    "export": table.run_export,
    "sweep": table.run_sweep,
    "bench": table.run_bench,
    "cache": table.run_cache,
    "completion": run_completion,
}
WITHOUT_TRAINER = (table.run_plot, table.run_cache, run_completion)
WITH_TARGET = ("eval", "plot", "export", "sweep", "bench", "completion")  # Without arguments they show their help.


def usages() -> dict[str, str]:
    """Return what each verb prints for --help."""
    return {
        "train": USAGE,
        "eval": evaluate.USAGE,
        **{name: getattr(table, f"{name.upper()}_USAGE") for name in VERBS if name not in ("train", "eval")},
    }


if __name__ == "__main__":
    sys.exit(main())
