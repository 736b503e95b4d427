# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Compare the vector envs of puffervec and other libraries on equal envs.

The other libraries are Gymnasium, Stable-Baselines3, EnvPool, PufferLib, TorchRL and Tianshou.

    python bench/peers.py                                     all workloads
    python bench/peers.py --workloads cartpole,cartpole_c
    python bench/peers.py --pufferlib-python ~/puffer/bin/python
    python bench/peers.py --quick    checks that everything runs; its figures mean nothing

Every sample is a fresh process that makes the vector env, warms up, steps without a policy and
counts env-steps. With next-step autoreset, the row after a done row is only a reset. Some libraries
do not have it (SB3 resets within the step), so such rows are never counted, but the time of resets
always is. Libraries run with their default settings.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import common
from bench.common import Figure
from bench.rivals import sample, scenarios
from bench.rivals.runner import Job
from bench.rivals.scenarios import Scenario, Variant
from puffervec.errors import ConfigError
from puffervec.system.cores import usable_cores

SAMPLE_LIMIT_S = 120.0
QUICK = {"seconds": 0.05, "warmup": 0.02, "repeats": 1}


@dataclasses.dataclass(frozen=True)
class Row:
    """A line of a table; its figures are None if it was skipped.

    Attributes:
        bound: whether it is a plain loop, for comparison.
        pufferlib: whether it ran in PufferLib's interpreter.
        best_peer: ratio to the fastest peer.
        of_loop: ratio to one plain loop in the same interpreter.
        skipped: reason why there are no figures.
    """

    scenario: str
    label: str
    kind: str
    rival: str
    num_envs: int
    settings: Mapping[str, Any]
    env_steps_per_s: Figure | None = None
    rows_per_turn: float | None = None
    best_peer: Figure | None = None
    of_loop: Figure | None = None
    skipped: str = ""
    bound: bool = False
    pufferlib: bool = False
    versions: Mapping[str, str] | None = None

    @property
    def ours(self) -> bool:
        return self.rival == scenarios.OURS

    @property
    def speed(self) -> float:
        return self.env_steps_per_s.median if self.env_steps_per_s is not None else 0.0


@dataclasses.dataclass(frozen=True)
class Target:
    """A target and the measured ratio: over / under, repeat by repeat."""

    text: str
    over: str
    under: str
    wanted: float
    ratio: Figure

    @property
    def met(self) -> bool:
        return self.ratio.median >= self.wanted


# ---- samples -------------------------------------------------------------------------------------


class Sampler:
    """A sampler that uses fresh processes and remembers which libraries cannot run."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._folder = (
            tempfile.TemporaryDirectory()
        )  # Some libraries leave files in the current folder.
        self.skipped: dict[str, str] = {}  # Reasons by label.

    def close(self) -> None:
        """Remove the files that libraries left."""
        self._folder.cleanup()

    def take(self, variant: Variant) -> dict[str, Any] | None:
        """Return the result of sample.py, None if the library cannot run or could not before.

        Raises:
            ConfigError: puffervec itself failed.
        """
        if variant.label in self.skipped:
            return None
        options = self._options
        job = dataclasses.replace(variant.job, seconds=options.seconds, warmup_s=options.warmup)
        result = self._run(job)
        if "missing" not in result:
            return result
        if variant.ours:
            raise ConfigError(f"{variant.label} failed: {result['missing']}")
        self.skipped[variant.label] = str(result["missing"])
        return None

    def _run(self, job: Job) -> dict[str, Any]:
        other = self._options.pufferlib_python if job.pufferlib else None
        if job.pufferlib and other is None:
            return {
                "missing": "needs a separate interpreter: see bench/README.md, --pufferlib-python"
            }
        command = [other or sys.executable, *sample.arguments_of(job)]
        folder = Path(self._folder.name)
        # Files, not pipes: a worker that outlives its sample would keep a pipe open.
        with (folder / "output").open("w+") as output, (folder / "errors").open("w+") as errors:
            process = subprocess.Popen(
                command, stdout=output, stderr=errors, cwd=folder, start_new_session=True,
                env={**os.environ, "PYTHONPATH": str(common.ROOT)},
            )  # fmt: skip
            try:
                process.wait(timeout=SAMPLE_LIMIT_S)
            except subprocess.TimeoutExpired:
                return {"missing": f"no answer in {SAMPLE_LIMIT_S:g} s"}
            finally:
                _end_group(process)
            lines, trouble = _lines(output), _lines(errors)
        if process.returncode or not lines:
            message = trouble[-1] if trouble else "no message"
            return {"missing": f"exit status {process.returncode}: {message}"}
        result: dict[str, Any] = json.loads(lines[-1])
        return result


def _lines(file: TextIO) -> list[str]:
    file.seek(0)
    return file.read().strip().splitlines()


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """Kill the remaining processes of a sample, which has its own session."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    finally:
        process.wait()


def run(
    scenario: Scenario, options: argparse.Namespace, note: Callable[[str], None]
) -> tuple[list[Row], float]:
    """Measure a scenario's variants in turns; return its rows and the share of foreign load."""
    sampler = Sampler(options)
    variants = {variant.label: (lambda v=variant: sampler.take(v)) for variant in scenario.variants}
    try:
        runs = common.interleave(
            variants,
            options.repeats,
            lambda text: note(f"{scenario.name}: {text}"),
            options.attempts,
        )
    finally:
        sampler.close()
    rows = [
        _row(scenario, variant, runs.results[variant.label], sampler.skipped.get(variant.label, ""))
        for variant in scenario.variants
    ]
    peer = best([row for row in rows if not row.ours and not row.bound])
    loops = {
        row.pufferlib: row
        for row in rows
        if row.label in (scenarios.LOOP, scenarios.PUFFERLIB_LOOP)
    }
    return [
        dataclasses.replace(
            row, best_peer=_ratio(row, peer), of_loop=_ratio(row, loops.get(row.pufferlib))
        )
        for row in rows
    ], runs.foreign


def _ratio(over: Row, under: Row | None) -> Figure | None:
    """Return the ratio of two rows' speeds, repeat by repeat; None if one has no figures."""
    if under is None or over.env_steps_per_s is None or under.env_steps_per_s is None:
        return None
    return common.ratio(over.env_steps_per_s.samples, under.env_steps_per_s.samples)


def _row(
    scenario: Scenario, variant: Variant, results: Sequence[dict[str, Any] | None], skipped: str
) -> Row:
    job = variant.job
    row = Row(
        scenario.name, variant.label, variant.kind, job.rival, job.num_envs, job.settings,
        skipped=skipped, bound=variant.bound, pufferlib=job.pufferlib,
    )  # fmt: skip
    complete = [result for result in results if result is not None]
    if skipped:
        return row
    return dataclasses.replace(
        row,
        env_steps_per_s=common.figure(
            result["env_steps"] / result["seconds"] for result in complete
        ),
        rows_per_turn=complete[0]["rows"] / complete[0]["turns"],
        versions=complete[0]["versions"],
    )


# ---- verdicts ------------------------------------------------------------------------------------


def best(rows: Sequence[Row]) -> Row | None:
    """Return the fastest of the rows that have figures."""
    return max(
        (row for row in rows if row.env_steps_per_s is not None),
        key=lambda row: row.speed,
        default=None,
    )


def losses(rows: Sequence[Row]) -> list[str]:
    """Return a line for each peer that is faster than puffervec's fastest variant of its kind.

    The env's own cost differs between interpreters, so a peer from PufferLib's is compared by its
    share of a plain loop there.
    """
    lines = []
    for peer in rows:
        ours = best(
            [
                row
                for row in rows
                if row.ours and row.scenario == peer.scenario and row.kind == peer.kind
            ]
        )
        if peer.ours or peer.bound or ours is None:
            continue
        ratio, by = _ratio(ours, peer), ""
        if peer.pufferlib and peer.of_loop is not None and ours.of_loop is not None:
            ratio = common.ratio(ours.of_loop.samples, peer.of_loop.samples)
            by = ", as shares of a plain loop in each one's interpreter"
        if ratio is not None and ratio.median < 1:
            lines.append(
                f"puffervec is slower than {peer.label} on {peer.scenario} ({peer.kind}): "
                f"{ours.label} reaches {ratio.median:.2f}x ±{100 * ratio.spread:.0f}%{by}"
            )
    return lines


def targets(rows: Sequence[Row]) -> list[Target]:
    """Return the targets that these rows decide, with their results."""
    result = []
    light = {row.label: row for row in rows if row.scenario == "cartpole x64"}
    one, cores = scenarios.workers_label(1), usable_cores()
    at_once, workers = scenarios.loops_label(cores), scenarios.workers_label(cores)
    cases = [
        (
            "CartPole-v1 in Python: one worker against a plain loop over one env",
            one,
            scenarios.LOOP,
            0.9,
        ),
        (
            f"CartPole-v1 in Python: {cores} workers against as many plain loops at once",
            workers,
            at_once,
            0.9,
        ),
        *(
            (
                f"CartPole-v1 in Python: {n} workers against Gymnasium sync",
                scenarios.workers_label(n),
                scenarios.GYM_SYNC,
                1.0,
            )
            for n in (4, 8)
        ),
    ]
    for text, over, under, least in cases:
        if over in light and under in light:
            result.append(_target(text, light[over], light[under], least))
    native = [row for row in rows if row.scenario == "cartpole_c"]
    ours = best([row for row in native if row.ours])
    pool = best([row for row in native if row.rival == "envpool_vec"])
    if ours is not None and pool is not None:
        result.append(
            _target("CartPole in C against EnvPool's, the best of each", ours, pool, 10.0)
        )
    return [target for target in result if target is not None]


def _target(text: str, over: Row, under: Row, wanted: float) -> Target | None:
    ratio = _ratio(over, under)
    return None if ratio is None else Target(text, over.label, under.label, wanted, ratio)


# ---- output --------------------------------------------------------------------------------------


def show(scenario: Scenario, rows: Sequence[Row]) -> None:
    """Print the table of a scenario: variants by kind, the slowest first."""
    kinds = list(dict.fromkeys(row.kind for row in rows))
    cells = [
        (row.label, row.kind, str(row.num_envs), str(row.env_steps_per_s or "skipped"),
         _us(row), _times(row.of_loop), _times(row.best_peer))
        for row in sorted(rows, key=lambda row: (kinds.index(row.kind), row.speed))
    ]  # fmt: skip
    notes = [
        scenario.note,
        *(f"skipped: {row.label}: {row.skipped}" for row in rows if row.skipped),
    ]
    columns = (
        "variant",
        "kind",
        "envs",
        "env-steps/s",
        "us/env-step",
        "x plain loop",
        "x best peer",
    )
    common.print_table(
        f"{scenario.name}: median ± half the distance of the quartiles", columns, cells, notes
    )


def _us(row: Row) -> str:
    return common.number(1e6 / row.speed) if row.speed else "-"


def _times(figure: Figure | None) -> str:
    return "-" if figure is None else f"{figure.median:.2f} ±{100 * figure.spread:.0f}%"


def show_verdict(rows: Sequence[Row]) -> None:
    """Print the cases in which puffervec is slower, and the targets."""
    print("\n".join(losses(rows)) or "puffervec is slower than no peer of the same kind")
    for target in targets(rows):
        word = "met" if target.met else "MISSED"
        print(
            f"target {word}: {target.text}: {_times(target.ratio)}, wanted {target.wanted:g} "
            f"({target.over} / {target.under})"
        )


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    words = list(dict.fromkeys(scenario.word for scenario in scenarios.scenarios(usable_cores())))
    flags = common.parser(__doc__)
    flags.add_argument(
        "--workloads", default=",".join(words), help="comma-separated, of: %(default)s"
    )
    flags.add_argument(
        "--variants",
        help="comma-separated words; only variants whose label contains one of them are run",
    )
    flags.add_argument("--quick", action="store_true", help=f"one short sample each: {QUICK}")
    flags.add_argument(
        "--warmup",
        type=float,
        default=0.15,
        help="seconds before each sample (default: %(default)s)",
    )
    flags.add_argument(
        "--pufferlib-python", help="an interpreter that has PufferLib, NumPy 1 and Gymnasium 0.29"
    )
    common.add_flags(flags, "peers", 0.4)
    flags.add_argument("--out", dest="json", type=Path, help="the same as --json")
    return flags


def choose(options: argparse.Namespace) -> list[Scenario]:
    """Return the chosen scenarios.

    Raises: ConfigError: a bad flag, or no scenario matches.
    """
    if options.pufferlib_python and shutil.which(options.pufferlib_python) is None:
        raise ConfigError(f"--pufferlib-python is {options.pufferlib_python!r}: no such program")
    among, words = scenarios.scenarios(usable_cores()), options.workloads.split(",")
    known = {scenario.word for scenario in among}
    for word in words:
        if word not in known:
            raise ConfigError(f"no workload is called {word!r}: use {', '.join(sorted(known))}")
    parts = options.variants.split(",") if options.variants else [""]
    result = []
    for scenario in among:
        chosen = tuple(v for v in scenario.variants if any(part in v.label for part in parts))
        if scenario.word in words and chosen and _installed(scenario):
            result.append(dataclasses.replace(scenario, variants=chosen))
    if not result:
        raise ConfigError(
            f"nothing to measure: --variants {options.variants!r} in --workloads "
            f"{options.workloads}, without what is skipped"
        )
    return result


def _installed(scenario: Scenario) -> bool:
    """Return whether the required module is installed; print its name if not."""
    installed = importlib.util.find_spec(scenario.needs) is not None
    if not installed:
        print(
            f"skipped: {scenario.name}: the module {scenario.needs} is not installed",
            file=sys.stderr,
        )
    return installed


@common.command
def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command."""
    options = parser().parse_args(arguments)
    if options.quick:
        vars(options).update(QUICK)
    facts, progress = common.machine(), common.Progress()
    rows: list[Row] = []
    foreign = 0.0
    for scenario in choose(options):
        table, share = run(scenario, options, progress)
        show(scenario, table)
        rows, foreign = rows + table, max(foreign, share)
    show_verdict(rows)
    theirs = [row.versions for row in rows if row.versions and row.pufferlib]
    facts["versions"]["pufferlib"] = theirs[0].get("pufferlib", "") if theirs else ""
    results = {
        "rows": [dataclasses.asdict(row) for row in rows],
        "slower_than": losses(rows),
        "targets": [{**dataclasses.asdict(target), "met": target.met} for target in targets(rows)],
    }
    common.finish("peers", options, facts, foreign, results)


if __name__ == "__main__":
    sys.exit(main())
