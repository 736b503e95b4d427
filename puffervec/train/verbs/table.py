# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The verbs of `puffer-train` beside train and eval: their flags, and what they print. Called by cli.py.

Unknown flags are refused before anything heavy is imported; each function returns the exit code and raises as cli.main says.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from puffervec.errors import ConfigError
from puffervec.train.config import flags
from puffervec.train.config.sections import LogSection, TrainConfig
from puffervec.train.verbs import evaluate
from puffervec.train.verbs.commands import print_command

if TYPE_CHECKING:
    from puffervec.train.cli import StopSignals

LIST_USAGE = """\
usage: puffer-train list [--json]

  Prints the envs, policies, memories, optimizers and presets there are, with what they are.

  --json                one JSON object instead of tables
"""

PLOT_USAGE = """\
usage: puffer-train plot RUN... [flags]

  Draws metrics of runs: the env's own records, return, losses, speed and time split. RUN is a run folder or a metrics.jsonl.
  Each env has its own axes. Runs that differ in the seed alone are one line, their mean, in a band from lowest to highest.

  --metrics KEYS        a panel each: env/score,return,losses/*; with + in one panel: score+goal,time [default: the usual ones]
  --x WHAT              steps or minutes [default: steps]
  --smooth PERCENT      bold: mean over this share of the run; faint: as logged; 0: only as logged [default: 3]
  --apart               a line for each run, also where only seeds differ
  --out FILE.png        [default: plot.png in the run folder; of several runs, here]
"""

EXPORT_USAGE = """\
usage: puffer-train export RUN|CHECKPOINT|latest [flags]

  Writes the policies of a run as graphs with a free number of rows, after checking them against the run for random rows.

  --format NAME         onnx (needs puffervec[onnx]) or pt2, the archive of torch.export [default: onnx, or as FILE ends]
  --out FILE            [default: policy.onnx or policy.pt2 in the run folder; several policies: policy-NAME.onnx]
  --env MODULE:FACTORY  the run's env where it is code of yours, which export imports only if you name it
  --policy MODULE:CLASS the run's policy, likewise
"""

SWEEP_USAGE = """\
usage: puffer-train sweep ENV [flags]           begin a sweep
       puffer-train sweep --name NAME [flags]   go on with one, also after Ctrl-C or a crash

  Trains run after run with settings that Optuna chooses (needs puffervec[sweep]) for much score at little cost in seconds.
  Results: FOLDER/NAME/ with summary.json, pareto.png, parallel.png, and the run folders in trials.

  --trials N            in all, those of earlier sessions too [default: 20]
  --name NAME           of the sweep and its folder [default: env and date]
  --sweep.KEY RANGE     what to search instead of the env's usual settings: LOW:HIGH, LOW:HIGH:log, or A/B/C
                        (--sweep.train.lr 1e-4:1e-2:log --sweep.policy.hidden 64,64/128,128)
  --parameters KEYS     of the usual settings and the given ones search only these: train.lr,train.gamma
  --metric KEY          of metrics.jsonl; the score [default: env/score for drive, else episode/return]
  --storage URL         sqlite:///FILE.db [default: study.db in the sweep's folder]
  --config FILE.toml    and all flags of puffer-train train: what the runs share; set a budget (--total-timesteps)
"""

BENCH_USAGE = """\
usage: puffer-train bench ENV [flags]

  Trains for a few seconds and prints agent-steps/s, env-steps/s and where the time goes. Keeps nothing.

  --seconds N           to measure, after a warm-up of a third of that [default: 10]
  --json                one JSON object instead of a table
  --config FILE.toml    and all flags of puffer-train train
"""

CACHE_USAGE = """\
usage: puffer-train cache [--clear]

  Shows where compiled scenes are kept between runs, and how much room they take. PUFFERVEC_CACHE names another folder.

  --clear               remove them; the next run makes those that it needs again
"""


COMPLETION_USAGE = """\
usage: puffer-train completion bash|zsh|fish

  Prints a script that completes verbs, envs, runs, flags and their values. To have it in every new shell:

  bash    echo 'eval "$(puffer-train completion bash)"' >> ~/.bashrc
  zsh     echo 'eval "$(puffer-train completion zsh)"' >> ~/.zshrc       (behind compinit)
  fish    puffer-train completion fish > ~/.config/fish/completions/puffer-train.fish
"""


def _asks_help(args: Sequence[str]) -> bool:
    return "-h" in args or "--help" in args


def _take_switch(args: list[str], flag: str) -> bool:
    found = flag in args
    while flag in args:
        args.remove(flag)
    return found


def run_list(args: list[str], signals: StopSignals) -> int:
    """`puffer-train list`."""
    if _asks_help(args):
        print(LIST_USAGE)
        return 0
    as_json = _take_switch(args, "--json")
    flags.refuse_left(args, "list")
    from puffervec.train.verbs.listing import as_tables, everything

    if as_json:
        import json

        print(json.dumps(everything(), indent=2))
    else:
        print(as_tables(everything()))
    return 0


def run_plot(args: list[str], signals: StopSignals) -> int:
    """`puffer-train plot RUN...`."""
    if not args or _asks_help(args):
        print(PLOT_USAGE)
        return 0
    out, x, metrics, smooth = (flags.take_option(args, flag) for flag in ("--out", "--x", "--metrics", "--smooth"))
    apart = _take_switch(args, "--apart")
    runs = [arg for arg in args if not arg.startswith("-")]
    flags.refuse_left([arg for arg in args if arg.startswith("-")], "plot")
    from puffervec.train.metrics.plot import SMOOTH_PERCENT, Request, plot_runs

    width = SMOOTH_PERCENT if smooth is None else flags.number("--smooth", smooth)
    print(plot_runs(runs, None if out is None else Path(out), Request(x or "steps", metrics, width, not apart)))
    return 0


def run_export(args: list[str], signals: StopSignals) -> int:
    """`puffer-train export RUN`."""
    if not args or _asks_help(args):
        print(EXPORT_USAGE)
        return 0
    target = flags.take_target(args)
    kind, out, *code = (flags.take_option(args, flag) for flag in ("--format", "--out", "--env", "--policy"))
    flags.refuse_left(args, "export")
    if target is None:
        raise ConfigError("which run? For example: puffer-train export latest (puffer-train export --help shows more)")
    from puffervec.train.verbs.export import export_run
    from puffervec.train.verbs.report import note

    for done in export_run(target, kind, None if out is None else Path(out), note, code):
        print(done.text())
    return 0


def run_sweep(args: list[str], signals: StopSignals) -> int:
    """`puffer-train sweep ENV`."""
    if not args or _asks_help(args):
        print(SWEEP_USAGE)
        return 0
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
    from puffervec.train.verbs.sweep import Sweep, SweepRequest

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
    return 128 + signals.received if signals.received else 0


def run_bench(args: list[str], signals: StopSignals) -> int:
    """`puffer-train bench ENV`."""
    if not args or _asks_help(args):
        print(BENCH_USAGE)
        return 0
    target = flags.take_target(args)
    seconds = flags.whole("--seconds", flags.take_option(args, "--seconds"), 1) or 10
    as_json = _take_switch(args, "--json")
    if target is None:
        raise ConfigError("which env? For example: puffer-train bench drive (puffer-train bench --help shows more)")
    config = flags.settled(TrainConfig.of(target), args)
    from puffervec.train.verbs.speed import measure

    found = measure(config, float(seconds), signals)
    if found is not None:
        print(found.as_json() if as_json else found.text())
    return 128 + signals.received if signals.received else 0


def run_eval(args: list[str], signals: StopSignals) -> int:
    """`puffer-train eval RUN|ENV`."""
    if not args or _asks_help(args):
        print(evaluate.USAGE)
        return 0
    request = evaluate.parse(args)
    from puffervec.train.verbs.evaluation_run import run_evaluation

    return run_evaluation(request)


def run_cache(args: list[str], signals: StopSignals) -> int:
    """`puffer-train cache`."""
    if _asks_help(args):
        print(CACHE_USAGE)
        return 0
    clear = _take_switch(args, "--clear")
    flags.refuse_left(args, "cache")
    from puffervec.host import cache

    found = cache.entries()
    size = sum(path.stat().st_size for path in found)
    print(f"{cache.cache_folder()}: {len(found)} files of compiled scenes, {size / 2**20:,.1f} MiB")
    if clear:
        print(f"removed {cache.clear() / 2**20:,.1f} MiB")
    return 0
