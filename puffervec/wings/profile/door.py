# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The command line of `puffer-train profile`.

targets.py makes what is measured; the other files of puffervec/wings/profile measure it. torch is
imported only when the command runs.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from puffervec.commands.outputs import check_output, save_output
from puffervec.commands.players import add_code, is_env
from puffervec.commands.verb import StopSignals, Verb
from puffervec.errors import ConfigError, PuffervecError
from puffervec.system import extras
from puffervec.system.arguments import Parser
from puffervec.system.output import printable
from puffervec.train.config import flags
from puffervec.train.config.sections import TrainConfig
from puffervec.train.metrics.tables import note

if TYPE_CHECKING:
    from puffervec.wings.profile.sweep import Sweep
    from puffervec.wings.profile.targets import Subject
    from puffervec.wings.profile.timing import Timing

ABOUT = """\
Times a policy, a callable of yours, or the phases of training; finds what waits for the device;
compares reports. The target is an env (its policy with new weights), a run, or
MODULE:FUNCTION, which returns what is to be called. Instead of a target, --compare and --nsys-csv
read files; with the latter --iterations is the number of recorded inferences, where no NVTX summary
tells it."""
LOOP = "loop"
DEFAULTS = {LOOP: (20, 5), "": (100, 10)}
_MODES = ("policy", "model", LOOP)


class Exceeded(PuffervecError):
    """Synchronisations were found, or a limit is exceeded: exit code 1."""


@dataclasses.dataclass(frozen=True)
class Request:
    """The flags of `puffer-train profile TARGET`; see ABOUT."""

    target: str
    mode: str
    batch: int | None
    iterations: int
    warmup: int
    seed: int
    settings: dict[str, Any]
    sweep: tuple[str, tuple[int, ...]] | None
    syncs: bool
    ablation: bool
    json: Path | None
    out: Path | None
    trace: Path | None
    nvtx: bool
    code: tuple[str | None, ...]
    left: tuple[str, ...] = ()  # The remaining flags, which are those of a run.

    def timing(self, device: Any) -> Timing:
        """Return the settings for timing calls."""
        from puffervec.wings.profile import nsys
        from puffervec.wings.profile.timing import Timing

        plain = Timing(self.iterations, self.warmup, self.seed, device)
        if not self.nvtx:
            return plain
        # Nsight Systems and torch.profiler cannot both trace the device.
        return dataclasses.replace(plain, counts=False, marks=nsys.nvtx_range, window=nsys.window)


def options(parser: Parser) -> None:
    """Declare the flags of profile beside those of a run."""
    # fmt: off
    flag = parser.flag
    flag("--mode MODE", "policy: from rows to actions; model: the network alone; loop: the phases "
         "of training [default: %(default)s]", choices=_MODES, default=_MODES[0])
    flag("--batch N", "rows that a policy gets per call [default: 64]", type=flags.at_least(1))
    flag("--iterations N", "timed calls, or iterations of the loop [default: 100; loop: 20]",
         type=flags.at_least(1))
    flag("--warmup N", "calls or iterations before them [default: 10; loop: 5]",
         type=flags.at_least(0))
    flag("--set NAME=VALUE", "an argument of FUNCTION; any number of these",
         action="append", default=[])
    flag("--sweep KNOB=N,N,...", "fit T = a + b n: batch, agents, layers; of a loop also horizon "
         "and envs; of FUNCTION its own arguments")
    flag("--syncs", "name the lines that wait for the device; exit code 1 if there are any")
    flag("--ablation", "the same call eager, compiled and as a CUDA graph; of a policy the "
         "network, also with planned memory")
    flag("--json FILE", "write the report, for --compare; with --syncs and --ablation what they "
         "found", type=Path)
    flag("--out FILE", "draw it, as .png or .svg", type=Path)
    flag("--trace FILE", "also record a Chrome trace", type=Path)
    flag("--nvtx", "mark ranges for Nsight Systems, and print the commands that record and read "
         "them")
    add_code(parser)
    flag("--compare FILE", "compare two reports, BEFORE.json AFTER.json", nargs=2)
    flag("--limit NAME=NUMBER", "with --compare: exit code 1 if it is exceeded: a, b, median, "
         "p95, p99 in percent of growth; launches, copies, synchronisations: more per call; "
         "actions: largest difference. Any number of these", action="append", default=[])
    flag("--nsys-csv FILE", "read the files that nsys stats --format csv wrote", nargs="+")
    # fmt: on


def _request(parsed: argparse.Namespace) -> Request:
    """Return the request of parsed arguments; a run's arguments are in its `left`."""
    if parsed.target is None:
        raise VERB.no_target()
    if parsed.nvtx and parsed.sweep:
        raise ConfigError("--nvtx records one measurement: leave --sweep out")
    more = [name for name in ("sweep", "out", "trace") if getattr(parsed, name) is not None]
    if (parsed.syncs or parsed.ablation) and more:
        raise ConfigError(
            f"--syncs and --ablation print a table, or with --json a file: leave --{more[0]} out"
        )
    iterations, warmup = DEFAULTS.get(parsed.mode, DEFAULTS[""])
    taken = ("target", "mode", "batch", "syncs", "ablation", "nvtx")
    return Request(
        **{name: getattr(parsed, name) for name in taken},
        iterations=parsed.iterations or iterations,
        warmup=warmup if parsed.warmup is None else parsed.warmup,
        seed=_seed_and_device(parsed.settings)[0].seed,
        settings=_pairs(parsed.set, "--set"),
        sweep=_knob(parsed.sweep),
        json=_output("json", parsed.json),
        out=_output("out", parsed.out),
        trace=_output("trace", parsed.trace),
        code=(parsed.env, parsed.policy),
        left=tuple(parsed.settings),
    )


def _seed_and_device(settings: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    """Parse --seed and --device for a target without a run's settings; also return other flags."""
    parser = Parser(prog="puffer-train profile", add_help=False)
    parser.add_argument("--seed", type=flags.at_least(0), default=0)
    parser.add_argument("--device", default="auto")
    return parser.parse_known_args(settings)


def _pairs(texts: list[str], flag: str) -> dict[str, Any]:
    pairs = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.isidentifier():
            raise ConfigError(f"{flag} {text}: use {flag} NAME=VALUE")
        pairs[name] = flags.plain_value(value)
    return pairs


def _knob(text: str | None) -> tuple[str, tuple[int, ...]] | None:
    if text is None:
        return None
    knob, _, values = text.partition("=")
    try:
        numbers = [flags.at_least(1)(word) for word in values.split(",") if values]
    except argparse.ArgumentTypeError as error:
        raise ConfigError(f"--sweep {knob}: {error}") from None
    if not knob.isidentifier() or len(set(numbers)) < 2:
        raise ConfigError(
            f"--sweep {text}: use a knob and at least two numbers, as in --sweep batch=1,2,4,8"
        )
    return knob, tuple(numbers)


def _output(flag: str, path: Path | None) -> Path | None:
    """Return a path for output. Raises: ConfigError: it cannot be written."""
    if path is not None:
        check_output(f"--{flag}", path, *((".png", ".svg") if flag == "out" else ()))
    if path is not None and flag == "out":
        extras.require("--out", "matplotlib")
    return path


def run(args: list[str], signals: StopSignals) -> None:
    """Run `puffer-train profile TARGET`."""
    words = ["puffer-train", "profile", *args]
    parsed = VERB.parse(args)
    if parsed.compare:
        return _compare(parsed)
    if parsed.nsys_csv:
        return _read_nsys(parsed)
    request = _request(parsed)
    subject, config = _subject(request)
    if request.nvtx:
        _print_nsys(words)
    if subject is not None and request.syncs:
        return _show_syncs(subject, request)
    if subject is not None and request.ablation:
        return _show_ablation(subject, request)
    if config is not None:
        return _profile_loop(config, request, signals)
    assert subject is not None
    _profile_calls(subject, request)


def _subject(request: Request) -> tuple[Subject | None, TrainConfig | None]:
    """Return (subject to profile, config of the loop to profile), one of which may be None."""
    own, unknown = _seed_and_device(request.left)
    if (
        ":" in request.target
        and request.mode != LOOP
        and not any(arg.startswith("--env.") for arg in request.left)
    ):
        from puffervec.wings.profile import targets as profiling

        subject = profiling.callable_subject(
            request.target, request.settings, own.device, request.batch
        )
        if subject is not None:
            VERB.refuse(unknown)
            return subject, None
    if request.settings:
        raise ConfigError(f"--set is for MODULE:FUNCTION, which {request.target} is not")
    config = None
    if is_env(request.target):
        config = flags.build_config(
            TrainConfig.of(request.target), request.left, VERB.parser().long_flags()
        )
    if config is not None and request.mode == LOOP:
        return None, config
    if request.mode == LOOP:
        raise ConfigError(
            "--mode loop trains: give an env, with the settings of the run as --config"
        )
    from puffervec.wings.profile import targets as profiling

    if config is not None:
        return profiling.env_subject(config, request.mode, request.batch), None
    VERB.refuse(unknown)
    return profiling.run_subject(
        request.target, request.mode, request.batch, own.device, request.code, note
    ), None


def _profile_calls(subject: Subject, request: Request) -> None:
    from puffervec.wings.profile.report import Report, about
    from puffervec.wings.profile.sweep import sweep
    from puffervec.wings.profile.timing import latencies
    from puffervec.wings.profile.trace import chrome_trace

    timing = request.timing(subject.device)
    if request.sweep is not None:
        # Raises for an unknown knob before time is spent.
        subject.whole({request.sweep[0]: request.sweep[1][0]})
    times = latencies(subject.make({}), timing)
    swept = None
    if request.sweep is not None:
        knob, values = request.sweep
        swept = sweep(lambda value: subject.whole({knob: value}), knob, values, timing)
    facts = about(
        subject.device,
        **subject.about,
        seed=request.seed,
        iterations=request.iterations,
        warmup=request.warmup,
    )
    _show(Report(facts, tuple(times), swept), request)
    if request.trace is not None:
        print(f"{chrome_trace(subject.whole({}), request.trace, device=subject.device)}: written")


def _profile_loop(config: TrainConfig, request: Request, signals: StopSignals) -> None:
    from puffervec.train.device.device import choose_device
    from puffervec.wings.profile import targets as profiling
    from puffervec.wings.profile.report import Report, about

    if request.syncs or request.ablation or request.trace:
        raise ConfigError("--syncs, --ablation and --trace are for --mode policy and --mode model")
    device = choose_device(config.train.device)
    timing = request.timing(device)
    try:
        phases = profiling.profile_loop(config, timing, signals)
        swept = None if request.sweep is None else _sweep_loop(config, request, timing, signals)
    except profiling.Stopped:
        return
    facts = {
        "target": config.target,
        "mode": LOOP,
        "seed": config.train.seed,
        "iterations": request.iterations,
    }
    _show(Report(about(device, **facts, warmup=request.warmup), tuple(phases), swept), request)


def _sweep_loop(
    config: TrainConfig, request: Request, timing: Timing, signals: StopSignals
) -> Sweep:
    """Train again for each value of a knob."""
    from puffervec.wings.profile import targets as profiling
    from puffervec.wings.profile.sweep import Sweep, check_values

    assert request.sweep is not None
    knob, values = request.sweep[0], check_values(*request.sweep)
    points = []
    for value in values:
        whole, *_ = profiling.profile_loop(
            profiling.with_knob(config, knob, value), timing, signals
        )
        points.append(dataclasses.replace(whole, name=f"{knob}={value}"))
    return Sweep(knob, values, tuple(points))


def _show(report: Any, request: Request) -> None:
    print(f"{report.about['target']}, {report.about['mode']} on {report.about['device']}\n{report}")
    if request.json is not None:
        report.save(request.json)
        print(f"{request.json}: written")
    if request.out is not None:
        from puffervec.wings.profile.pictures import picture

        print(f"{picture(report, request.out)}: written")


def _write_tables(path: Path | None, tables: Any) -> None:
    if path is not None:
        save_output(path, json.dumps(tables, indent=1).encode())
        print(f"{path}: written")


def _show_syncs(subject: Subject, request: Request) -> None:
    from puffervec.train.device.syncs import count_of

    count, by_work = 0, subject.syncs()
    for name, reports in by_work.items():
        print(
            f"{name}:",
            *(f"  {line}" for report in reports for line in str(report).splitlines()),
            sep="\n",
        )
        count += max(len(report.found) for report in reports)
    _write_tables(
        request.json,
        {name: [report.as_json() for report in reports] for name, reports in by_work.items()},
    )
    if count:
        raise Exceeded(f"{count_of(count)} in a call: the lines above wait for the device")


def _show_ablation(subject: Subject, request: Request) -> None:
    from puffervec.wings.profile.ablation import ablation_table

    by_work = subject.ablate(request.timing(subject.device))
    for name, entries in by_work.items():
        print(f"{name}\n{ablation_table(entries)}")
    _write_tables(
        request.json,
        {name: [entry.as_json() for entry in entries] for name, entries in by_work.items()},
    )


def _print_nsys(words: list[str]) -> None:
    import torch

    from puffervec.wings.profile import nsys

    print("To record and read back:", *nsys.command_lines(words), sep="\n  ")
    print(f"note: {nsys.ENQUEUE_ONLY}")
    if not torch.cuda.is_available():
        note("this machine has no GPU: nothing is marked")


def _compare(parsed: argparse.Namespace) -> None:
    from puffervec.wings.profile.compare import LIMITS, compare
    from puffervec.wings.profile.pictures import picture
    from puffervec.wings.profile.report import read_report

    limits = {}
    for key, value in _pairs(parsed.limit, "--limit").items():
        if key not in LIMITS:
            raise ConfigError(f"--limit {key}: can be {', '.join(LIMITS)}")
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise ConfigError(f"--limit {key} is {value!r}: must be a number")
        limits[key] = float(value)
    out = _output("out", parsed.out)
    VERB.refuse(parsed.settings)
    reports = [read_report(file) for file in parsed.compare]
    comparison = compare(*reports)
    print(printable(str(comparison)))  # The files may be untrusted.
    if out is not None:
        print(f"{picture(reports, out, ('before', 'after'))}: written")
    if exceeded := comparison.above(limits):
        raise Exceeded("; ".join(exceeded))


def _read_nsys(parsed: argparse.Namespace) -> None:
    from puffervec.wings.profile.nsys import read_csv

    VERB.refuse(parsed.settings)
    print(printable(str(read_csv(parsed.nsys_csv, parsed.iterations))))


VERB = Verb(
    "profile", "ENV|RUN|latest|MODULE:FUNCTION [flags]",
    "times of a policy or of training, and what waits",
    ABOUT, run, options, configured=True, targetless=True,
)  # fmt: skip
