# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""`puffer-train sweep`: many runs, with settings that Optuna chooses; sweeping.py does the work."""

from __future__ import annotations

from pathlib import Path

from puffervec.errors import ConfigError
from puffervec.train.config import flags
from puffervec.train.config.sections import LogSection, TrainConfig
from puffervec.train.verbs.commands import print_command
from puffervec.train.verbs.signals import StopSignals
from puffervec.train.verbs.verb import Verb

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


def run(args: list[str], signals: StopSignals) -> None:
    """`puffer-train sweep ENV`."""
    target = flags.take_target(args)
    values = {name: flags.take_option(args, f"--{name}") for name in ("name", "metric", "storage", "parameters")}
    trials = flags.whole("--trials", flags.take_option(args, "--trials"), 1) or 20
    from puffervec.train.config.ranges import build_space, take_ranges

    ranges = take_ranges(args)
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
    from puffervec.train.verbs.report import own_code
    from puffervec.train.verbs.sweeping import Sweep, SweepRequest

    name, metric, storage = values["name"], values["metric"], values["storage"]
    request = SweepRequest(config, folder, ranges, parameters, trials, name, metric, storage)
    with Sweep(request) as sweep, signals.training(sweep):
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
