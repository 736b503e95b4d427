# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Shared parts of all benchmarks: machine facts, interleaved repeats, tables, JSON files.

A figure has one sample per repeat. Each repeat starts all measured processes anew; the variants
take turns within it, so that a slow minute of the machine affects all of them.
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
import json
import os
import platform
import re
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ParamSpec

from bench.foreign import foreign_load
from puffervec.errors import ConfigError, PuffervecError
from puffervec.system.cores import affinity, cpu_quota, usable_cores

P = ParamSpec("P")
ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results"
SCHEMA_VERSION = 2  # In version 1, foreign_load may miss short-lived programs.
FOREIGN_LIMIT = 0.05  # Share of the machine for other processes above which a run is disturbed.
# Packages on which a figure may depend; those that are not installed have no version.
PACKAGES = (
    "puffervec", "numpy", "cffi", "torch", "gymnasium", "stable-baselines3", "envpool", "ale-py",
    "minigrid", "mujoco", "torchrl", "tianshou", "ray",
)  # fmt: skip


# ---- statistics ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Figure:
    """A measured number: the median of the repeats, and their spread.

    Attributes:
        spread: half the distance between the quartiles, as a share of the median (0.02 is 2 %); 0
            for a single sample.
        samples: one number per repeat, in order.
    """

    median: float
    spread: float
    samples: tuple[float, ...]

    def __str__(self) -> str:
        return f"{number(self.median)} ±{100 * self.spread:.0f}%"


def figure(samples: Iterable[float]) -> Figure:
    """Return the median and spread of samples (at least one).

    >>> figure([1.0, 2.0, 3.0]).median
    2.0
    """
    values = tuple(float(sample) for sample in samples)
    middle = statistics.median(values)
    if len(values) < 2 or middle == 0:
        return Figure(middle, 0.0, values)
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return Figure(middle, (high - low) / 2 / abs(middle), values)


def ratio(over: Sequence[float], under: Sequence[float]) -> Figure:
    """Return the figure of the ratios over[i] / under[i].

    Dividing samples of the same repeat cancels drift.
    """
    return figure(a / b for a, b in zip(over, under, strict=True))


@dataclass(frozen=True)
class Runs:
    """The samples of all variants.

    Attributes:
        results: results by variant, one per repeat.
        foreign: highest share of the machine that other processes took during one of these runs.
    """

    results: dict[str, list[Any]]
    foreign: float


def interleave(
    variants: Mapping[str, Callable[[], Any]],
    repeats: int,
    note: Callable[[str], None] | None = None,
    attempts: int = 1,
) -> Runs:
    """Run each variant `repeats` times, taking turns, in alternating order.

    Args:
        note: called with a line of progress before each run.
        attempts: largest number of attempts per sample while other processes use more than
            FOREIGN_LIMIT of the machine; the least disturbed sample counts.
    """
    results: dict[str, list[Any]] = {name: [] for name in variants}
    worst = 0.0
    for repeat in range(repeats):
        order = list(variants) if repeat % 2 == 0 else list(variants)[::-1]
        for name in order:
            best: tuple[Any, float] | None = None
            for _ in range(attempts):
                if note is not None:
                    note(f"repeat {repeat + 1}/{repeats}: {name}")
                sample = foreign_load(variants[name])
                best = sample if best is None or sample[1] < best[1] else best
                if best[1] <= FOREIGN_LIMIT:
                    break
            assert best is not None
            results[name].append(best[0])
            worst = max(worst, best[1])
    return Runs(results, worst)


def foreign_note(share: float | None) -> str:
    """Return a line about the load by other processes; None: it was not measured."""
    if share is None:
        return "how much of the machine other processes took was not measured"
    word = (
        "quiet enough"
        if share <= FOREIGN_LIMIT
        else "NOT QUIET: run it again, or with --attempts 5"
    )
    return f"other processes took at most {100 * share:.0f}% of the machine during a sample: {word}"


# ---- the machine ---------------------------------------------------------------------------------


def _read(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""


def cpu_model() -> str:
    """Return the CPU's name from the system."""
    for pattern in (r"^model name\s*:\s*(.+)$", r"^Hardware\s*:\s*(.+)$"):
        match = re.search(pattern, _read("/proc/cpuinfo"), re.MULTILINE)
        if match:
            return match.group(1).strip()
    return platform.processor() or platform.machine()


def system() -> str:
    """Return the system and the version of its kernel, without suffixes of this machine."""
    number = re.match(r"\d+(\.\d+)*", platform.release())
    return f"{platform.system()} {number[0] if number else ''}".strip()


def _git(*arguments: str, root: Path = ROOT) -> subprocess.CompletedProcess[str] | None:
    """Run a git command in a folder and return the finished process; None if it could not run."""
    try:
        return subprocess.run(
            ["git", "-C", str(root), *arguments], capture_output=True, text=True, timeout=10
        )
    except (OSError, subprocess.SubprocessError):
        return None


def _output_of(done: subprocess.CompletedProcess[str] | None) -> str:
    return done.stdout.strip() if done is not None and done.returncode == 0 else ""


def commit() -> str:
    """Return the short commit of the source tree, "" outside git.

    A "+" follows it if code has changed since.
    """
    name = _output_of(_git("rev-parse", "--short=12", "HEAD"))
    changed = name and _output_of(
        _git(
            "status",
            "--porcelain",
            "--untracked-files=no",
            "--",
            ".",
            ":!bench/results",
            ":!docs",
            ":!*.md",
        )
    )
    return name + "+" if changed else name


def has_history(root: Path = ROOT) -> bool:
    """Return whether a folder is the top of a git repository with its whole history."""
    return (
        _output_of(_git("rev-parse", "--show-cdup", "--is-shallow-repository", root=root))
        == "false"
    )


def commits_since(commit: str, root: Path = ROOT) -> int | None:
    """Return the number of commits since `commit`; None if it is not an ancestor of HEAD.

    Raises: ConfigError: the history is missing, as in a shallow clone or an unpacked source
        package.
    """
    if not has_history(root):
        raise ConfigError(
            f"{root} has no complete git history: clone it whole, or git fetch --unshallow"
        )
    ancestor = bool(commit) and _git("merge-base", "--is-ancestor", commit, "HEAD", root=root)
    if not ancestor or ancestor.returncode:
        return None
    return int(_output_of(_git("rev-list", "--count", f"{commit}..HEAD", root=root)))


def build_flags() -> list[str]:
    """Return the compiler flags of csrc/build_ffi.py here, [] if that file is missing."""
    spec = importlib.util.spec_from_file_location(
        "puffervec_build_ffi", ROOT / "csrc" / "build_ffi.py"
    )
    if spec is None or spec.loader is None:
        return []
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except (OSError, ImportError):
        return []
    return [str(flag) for flag in module.compile_arguments()]


def versions() -> dict[str, str]:
    """Return the versions of Python and of the relevant packages, without importing them."""
    from importlib import metadata

    releases = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            releases[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            releases[package] = ""
    return releases


def machine() -> dict[str, Any]:
    """Return the facts on which a figure depends.

    These are CPU, cores, affinity, quota, governor, load, commit, build flags and versions.
    """
    return {
        "cpu": cpu_model(),
        "architecture": platform.machine(),
        "cores": os.cpu_count() or 1,
        "affinity": affinity(),
        "cpu_quota": cpu_quota(),
        "usable_cores": usable_cores(),
        "governor": _read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor") or "unknown",
        "load": list(os.getloadavg()),
        "system": system(),
        "commit": commit(),
        "build_flags": build_flags(),
        "versions": versions(),
        "date": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }


def machine_line(facts: Mapping[str, Any]) -> str:
    """Return the line of facts that is printed below every table."""
    flags = (
        " ".join(
            flag
            for flag in facts["build_flags"]
            if flag.startswith(("-O", "-march", "-ffp", "-fsanitize"))
        )
        or "unknown flags"
    )
    return (
        f"{facts['cpu']}, {facts['usable_cores']} of {facts['cores']} cores, governor "
        f"{facts['governor']}, load {facts['load'][0]:.2f}, commit "
        f"{facts['commit'] or 'unknown'}, {flags}"
    )


def short_machine(facts: Mapping[str, Any]) -> str:
    """Return the name of the machine on pages. Args: facts: see `machine`."""
    gpu = f", {facts['gpu']['name']}" if "gpu" in facts else ""
    return f"{facts['cpu']}, {facts['usable_cores']} cores{gpu}"


def origin(facts: Mapping[str, Any]) -> str:
    """Return the machine, commit and day of a measurement. Args: facts: see `machine`."""
    return f"{short_machine(facts)}; commit {facts['commit']}; {facts['date'][:10]}"


# ---- reports -------------------------------------------------------------------------------------


def command_line() -> str:
    """Return the running command as typed in the project's folder; see `without_path`."""
    script = Path(sys.argv[0])
    try:
        name = str(script.resolve().relative_to(ROOT))
    except ValueError:
        name = script.name
    return shlex.join(["python", name, *map(without_path, sys.argv[1:])])


def without_path(argument: str) -> str:
    """Return a word of a command for results, without paths of this machine.

    Paths outside the project become FOLDER or FILE, those inside become relative.

    >>> without_path("--real=/home/me/x.json"), without_path("tag_grid,drive")
    ('--real=FILE', 'tag_grid,drive')
    """
    flag, equals, value = (
        argument.partition("=") if argument.startswith("--") else ("", "", argument)
    )
    path = Path(value)
    if not (
        path.is_absolute() or value.startswith(("..", "~")) or ("/" in value and path.exists())
    ):
        return argument
    path = path.expanduser().resolve()
    place = (
        str(path.relative_to(ROOT))
        if path.is_relative_to(ROOT)
        else "FOLDER"
        if path.is_dir()
        else "FILE"
    )
    return flag + equals + place


def _without_paths(setting: Any) -> Any:
    if isinstance(setting, list | tuple):
        return [_without_paths(one) for one in setting]
    return without_path(str(setting)) if isinstance(setting, str | Path) else setting


def slug(text: str) -> str:
    """Convert text to a file name: lower case, with "-" between words.

    >>> slug("AMD EPYC 9B14 (2 cores)")
    'amd-epyc-9b14-2-cores'
    """
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "unknown"


def results_path(name: str, facts: Mapping[str, Any], folder: Path = RESULTS) -> Path:
    """Return the default place of a result: folder/<CPU>-<usable cores>/<day>-<name>.json."""
    return (
        folder
        / f"{slug(facts['cpu'])}-{facts['usable_cores']}"
        / f"{facts['date'][:10]}-{name}.json"
    )


def report(
    name: str, facts: Mapping[str, Any], settings: Mapping[str, Any], results: Any
) -> dict[str, Any]:
    """Return the JSON document of a benchmark."""
    return {
        "schema_version": SCHEMA_VERSION,
        "benchmark": name,
        "command": command_line(),
        "machine": dict(facts),
        "settings": {name: _without_paths(setting) for name, setting in settings.items()},
        "results": results,
    }


def command(main: Callable[P, int | None]) -> Callable[P, int]:
    """Make the function of a command return its exit status.

    Bad input, or a call that the system refuses, gives one line on stderr and status 2.
    """

    @functools.wraps(main)
    def run(*arguments: P.args, **more: P.kwargs) -> int:
        try:
            return main(*arguments, **more) or 0
        except (PuffervecError, OSError, subprocess.TimeoutExpired) as error:
            Progress().clear()
            print(f"error: {error}", file=sys.stderr)
            return 2

    return run


def parser(text: str | None) -> argparse.ArgumentParser:
    """Return a parser of flags whose help begins with a docstring as it stands."""
    raw = argparse.RawDescriptionHelpFormatter
    return argparse.ArgumentParser(description=text, formatter_class=raw)


def names(flag: str, text: str, known: Iterable[str]) -> list[str]:
    """Return the names in a comma-separated flag. Raises: ConfigError: one of them is unknown."""
    found = [name for name in text.split(",") if name]
    for name in found:
        if name not in known:
            raise ConfigError(f"{flag} has {name!r}: use some of {', '.join(known)}")
    return found


def add_json(flags: argparse.ArgumentParser, name: str) -> None:
    """Declare the flag for the path of the results."""
    place = f"bench/results/<CPU>/<day>-{name}.json"
    flags.add_argument("--json", type=Path, help=f"path of the results (default: {place})")


def add_flags(flags: argparse.ArgumentParser, name: str, seconds: float) -> None:
    """Declare the flags that all benchmarks have."""
    flags.add_argument(
        "--seconds",
        type=float,
        default=seconds,
        help="approximate length of a sample (default: %(default)s)",
    )
    flags.add_argument(
        "--repeats",
        type=int,
        default=5,
        help="samples; each is a fresh start (default: %(default)s)",
    )
    flags.add_argument(
        "--attempts",
        type=int,
        default=1,
        help="largest number of attempts per sample while other processes disturb it",
    )
    add_json(flags, name)


def finish(
    name: str,
    options: argparse.Namespace,
    facts: Mapping[str, Any],
    foreign: float | None,
    results: Any,
) -> None:
    """Write the JSON and print the lines that end a benchmark's output."""
    path = options.json or results_path(name, facts)
    write_json(path, report(name, {**facts, "foreign_load": foreign}, vars(options), results))
    print(foreign_note(foreign))
    print(machine_line(facts))
    print(f"results: {path}")


def _plain(value: Any) -> Any:
    if isinstance(value, Figure):
        return asdict(value)
    if isinstance(value, Path):
        return str(value)
    if hasattr(value, "item"):
        return value.item()
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")


def write_json(path: Path, document: Any) -> None:
    """Write a JSON document by way of a temporary file, so that `path` is never half-written.

    Paths within the project, as in tracebacks, become relative to it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    text = json.dumps(document, indent=1, default=_plain)
    temporary.write_text(text.replace(f"{ROOT}/", "") + "\n")
    os.replace(temporary, path)


def number(value: float | None, unit: str = "") -> str:
    """Format a number for a table: at most four digits, with k, M or G; "-" for None.

    >>> number(1234567.0), number(0.5), number(12.34), number(None)
    ('1.235M', '0.5', '12.34', '-')
    """
    if value is None:
        return "-"
    for limit, letter in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= limit:
            return f"{value / (limit if letter != 'k' else 1e3):.4g}{letter}{unit}"
    return f"{value:.4g}{unit}"


def print_table(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], notes: Sequence[str] = ()
) -> None:
    """Print a table and its notes; outside a terminal its width is fixed and large.

    A line of progress is removed.
    """
    from rich.console import Console
    from rich.table import Table

    Progress().clear()
    console = Console(width=None if sys.stdout.isatty() else 200, highlight=False)
    table = Table(title=title, title_justify="left")
    for index, column in enumerate(columns):
        table.add_column(column, justify="left" if index < 2 else "right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    console.print(table)
    for note in notes:
        console.print(note, style="dim", markup=False, soft_wrap=True)


def markdown(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table. Columns whose name begins with ">" are aligned to the right.

    >>> print(markdown(("env", ">us"), [("drive", "12")]))
    | env | us |
    | --- | --: |
    | drive | 12 |
    """
    lines = [
        [column.removeprefix(">") for column in columns],
        ["--:" if column.startswith(">") else "---" for column in columns],
        *rows,
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def filled(page: str, place: str, text: str) -> str | None:
    """Return a Markdown page with `text` from `<!-- PLACE -->` to the next `<!-- end -->`.

    The result is None if the page has no such place, or two of that name.

    >>> filled("<!-- t -->\\nold\\n<!-- end -->", "t", "new\\n")
    '<!-- t -->\\nnew\\n<!-- end -->'
    """
    begin, end = f"<!-- {place} -->\n", "<!-- end -->"
    before, marker, rest = page.partition(begin)
    _, ended, after = rest.partition(end)
    return f"{before}{begin}{text}{end}{after}" if marker and ended and begin not in after else None


class Progress:
    """A line on stderr that names the current run; silent if stderr is not a terminal."""

    def __init__(self) -> None:
        self._visible = sys.stderr.isatty()
        self._since = time.monotonic()

    def __call__(self, text: str) -> None:
        if self._visible:
            sys.stderr.write(f"\r\033[K[{time.monotonic() - self._since:5.0f} s] {text}")
            sys.stderr.flush()

    def clear(self) -> None:
        """Remove the line."""
        if self._visible:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()
