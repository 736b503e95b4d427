# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""`puffer-train [VERB] TARGET [flags]`: a thin caller of the trainer and the evaluation.

Arguments are checked before torch is imported, and everything is checked before a worker starts. Exit codes: 0 done, 1 the run
failed, 2 bad input (one line on standard error), 130 and 143 stopped by Ctrl-C and SIGTERM after saving.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from puffervec.errors import CheckpointError, ConfigError, MissingExtraError, PuffervecError, SceneError
from puffervec.train import flags
from puffervec.train.config import TrainConfig

if TYPE_CHECKING:
    from puffervec.train.loop import Trainer

USAGE = """\
usage: puffer-train [train] ENV [flags]         train a policy in ENV
       puffer-train eval RUN|ENV [flags]        rates of a trained policy, or of a baseline

  ENV is a C env (drive, tag_grid, cartpole, probe, or one of an installed package), a Gymnasium id, or module:factory, where
  factory is a function or class of yours that makes a gymnasium.Env or a PettingZoo ParallelEnv

  puffer-train drive                            train on the scenes that come with the project
  puffer-train drive --scenes FOLDER            ... on your own
  puffer-train CartPole-v1                      train in a registered Gymnasium env
  puffer-train my_envs:make --env.size 8        ... in what my_envs.make(size=8) makes; my_envs.py may lie in this folder
  puffer-train ENV --help                       every setting with its default
  puffer-train eval --help                      the flags of eval

  --config FILE.toml    tables [env] [vec] [train] [policy] [log] with the same keys as the flags
  --resume RUN|latest   go on from the newest checkpoint of a run folder
"""
BAD_INPUT = (ConfigError, SceneError, CheckpointError, MissingExtraError)
EXIT_FAILED, EXIT_BAD_INPUT = 1, 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    args = list(sys.argv[1:] if argv is None else argv)
    verbs: dict[str, Callable[[list[str]], int]] = {"train": run_train, "eval": run_eval}
    if not args or args[0] in ("-h", "--help", "help"):
        print(USAGE)
        return 0
    run = verbs[args.pop(0)] if args[0] in verbs else run_train
    try:
        return run(args)
    except BAD_INPUT as error:
        print(f"puffer-train: {' '.join(str(error).split())}", file=sys.stderr)
        return EXIT_BAD_INPUT
    except PuffervecError as error:
        print(f"puffer-train: {error}", file=sys.stderr)
        return EXIT_FAILED
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except BrokenPipeError:  # The reader of our output is gone.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_FAILED


def take_target(args: list[str]) -> str | None:
    """Remove and return the first argument if it is no flag."""
    return args.pop(0) if args and not args[0].startswith("-") else None


# ---------------------------------------------------------------------------------------------------- train


def parse_train(args: list[str]) -> tuple[TrainConfig, Path | None]:
    """Return the config of a run and the checkpoint to go on from.

    Raises: ConfigError, CheckpointError: bad input, in one line.
    """
    target = take_target(args)
    resume, file = flags.take_option(args, "--resume"), flags.take_option(args, "--config")
    checkpoint: Path | None = None
    if resume is not None:
        from puffervec.train import checkpoint as ckpt
        from puffervec.train.rundir import config_from_tables, find_checkpoint

        checkpoint = find_checkpoint(resume, _runs_folder(args))
        config = config_from_tables(ckpt.read_manifest(checkpoint)["config"])
        if target is not None and target != config.target:
            raise ConfigError(f"--resume {resume} is a run of {config.target!r}, not of {target!r}")
    elif target is None:
        raise ConfigError("which env? For example: puffer-train drive (puffer-train --help shows more)")
    else:
        config = TrainConfig.of(target)
    if file is not None:
        config = flags.apply_config_file(config, Path(file))
    config = flags.apply_flags(config, args)
    config.check()
    return config, checkpoint


def _runs_folder(args: Sequence[str]) -> Path:
    """Where `latest` is looked for: --log.folder where it is given, else the default."""
    from puffervec.train.config import LogSection

    value = flags.take_option(list(args), "--log.folder")
    return LogSection().folder if value is None else Path(value)


def run_train(args: list[str]) -> int:
    """`puffer-train [train] ENV`."""
    if "-h" in args or "--help" in args:
        target = take_target(args)
        print(USAGE if target is None else USAGE + flags.help_text(TrainConfig.of(target)))
        return 0
    config, checkpoint = parse_train(args)
    from puffervec.train.loop import Trainer
    from puffervec.train.report import print_scenes, print_summary

    with Trainer(config, checkpoint=checkpoint) as trainer:
        print_scenes(config)
        print(trainer.describe())
        print(f"run folder: {trainer.folder}", flush=True)
        with stop_on_signals(trainer) as received:
            metrics = trainer.train()
        if trainer.dashboard is not None:
            trainer.dashboard.close()
    print_summary(config, trainer.folder, metrics, final_eval=config.train.final_eval and not received)
    return 128 + received[0] if received else 0


@contextlib.contextmanager
def stop_on_signals(trainer: Trainer) -> Iterator[list[int]]:
    """Let the first Ctrl-C or SIGTERM stop the trainer, which then saves; a second one ends the process at once.

    Yields: a list that receives the signal's number. The handlers that were there before are set back.
    """
    received: list[int] = []

    def handle(number: int, frame: FrameType | None) -> None:
        if received:
            os._exit(128 + number)  # Workers end by themselves when their parent is gone.
        received.append(number)
        trainer.request_stop()
        os.write(2, b"\nstopping: saving a checkpoint (once more to quit at once)\n")

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


# ---------------------------------------------------------------------------------------------------- eval

EVAL_USAGE = """\
usage: puffer-train eval RUN|CHECKPOINT|latest [flags]
       puffer-train eval ENV --baseline NAME [flags]

  --episodes N          episodes (drive: of each scene) [default: 1 for drive, 100 else]
  --scenes WHAT         drive: generated, held-out or a folder of scenes [default: held-out]
  --baseline NAME       instead of a policy: random; drive also stop, lane-follow, log
  --png FILE            drive: draw a scene with the driven paths
  --seed N              of envs and of drawn actions [default: 0]
  --device NAME         auto, cpu, cuda or cuda:N [default: cpu]
  --sample              draw actions instead of taking the likeliest one
"""


def run_eval(args: list[str]) -> int:
    """`puffer-train eval RUN|ENV`."""
    if not args or "-h" in args or "--help" in args:
        print(EVAL_USAGE)
        return 0
    target = take_target(args)
    if target is None:
        raise ConfigError("which run? For example: puffer-train eval latest (puffer-train eval --help shows more)")
    values = {
        name: flags.take_option(args, f"--{name}") for name in ("episodes", "scenes", "baseline", "png", "seed", "device")
    }
    sampled = "--sample" in args
    left = [arg for arg in args if arg != "--sample"]
    if left:
        raise ConfigError(f"unknown argument {left[0]}: puffer-train eval --help lists the flags")
    from puffervec.train.report import EvalRequest, run_evaluation

    return run_evaluation(
        EvalRequest(
            target=target,
            episodes=_whole("--episodes", values["episodes"], 1),
            scenes=values["scenes"],
            baseline=values["baseline"],
            png=None if values["png"] is None else Path(values["png"]),
            seed=_whole("--seed", values["seed"], 0) or 0,
            device=values["device"] or "cpu",
            deterministic=not sampled,
        )
    )


def _whole(flag: str, text: str | None, least: int) -> int | None:
    if text is None:
        return None
    try:
        value = int(text)
    except ValueError:
        value = least - 1
    if value < least:
        raise ConfigError(f"{flag} is {text!r}: must be a whole number of at least {least}")
    return value


if __name__ == "__main__":
    sys.exit(main())
