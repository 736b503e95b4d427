# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Measure the figures of README and docs with the commands of figures.toml, and write the pages.

    make figures                                 measure everything again and rewrite the pages
    make figures RUNS="latency sps-tag"          only these runs
    python bench/figures.py --write              rewrite the pages from the existing JSON
    python bench/figures.py                      check the pages (tests/bench/test_figures.py does)
    python bench/figures.py --most-commits 60    also refuse older figures in README (make release)

`make figures` takes hours and needs a quiet machine.

figures.toml lists the runs, the figures (a run and a JMESPath expression for a value in its JSON),
the quotes: lines of pages in which {name} stands for a figure, and {name_95} for its interval; and
the tables: pages that show all results of a run. A page has a place for each of its tables, `<!--
table RUN -->` to `<!-- end -->`; `markdown(results)` of the benchmark writes its contents, with a
line below that names machine, commit, day and load. docs/figures.md has all figures with spread,
command, machine, load and commit. A run's result is the newest of its name, from any machine.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import jmespath

from bench import common
from puffervec.errors import ConfigError

TABLE = common.ROOT / "bench" / "figures.toml"
PAGE = "docs/figures.md"
FEWEST_SAMPLES = 5
MOST_COMMITS = 60  # Largest age of a figure of README at a release.
MEASURES_ALL = 2  # First schema version whose foreign_load counts all other programs.
INTERVAL = "_95"  # Suffix of a figure's name that stands for its interval.
DISTURBED = "†"
PLACE = re.compile(r"\{([^{}]+)\}")
OWN_PATH = re.compile(r"(^|[\s='\"])(/(home|root|tmp|work|Users|mnt|srv|opt)/|\.\./|~/)")
_SHARE = f"{100 * common.FOREIGN_LIMIT:.0f} %"
HEAD = f"""# Figures

This page lists every measured figure, with its command, the machine, and the commit that was
measured; only those of `gpu` come from a GPU. Figures are medians; the spread is half the distance
between the quartiles, and the interval is a 95 % interval over scenes. {DISTURBED} marks a figure
for which other processes took more than {_SHARE} of the machine, or for which their share is
unknown: until 24 November 2026 short programs could be missed. `make figures` measures everything
again and rewrites the pages. [bench/README.md](../bench/README.md) explains the terms.
"""


@dataclasses.dataclass(frozen=True)
class Entry:
    """A figure.

    Attributes:
        value: JMESPath expression into the run's JSON.
        over: another such expression, by which the samples are divided.
        show: format of the number; see Number.
        samples: required number of samples; fewer than five need a reason.
        interval: JMESPath expression of a pair of numbers, the ends of the 95 % interval.
        counted: whether it is a count, of bytes or steps, which does not depend on the machine's
            load: it has no mark.
        item: the object in which the expressions are evaluated, if it is not the whole JSON; see
            `Figures.entries_of`.
    """

    name: str
    section: str
    what: str
    run: str
    value: str
    show: str = "{}"
    over: str = ""
    samples: int = FEWEST_SAMPLES
    reason: str = ""
    interval: str = ""
    counted: bool = False
    item: Mapping[str, Any] | None = None


class Number(float):
    """A float for format strings.

    "{:3s}" has three significant digits and k, M or G; "{:p}" is a percentage; other formats are
    those of floats.

    >>> "{:3s} {:2s} {:p} {:.1f}".format(Number(1234567), Number(0.26), Number(0.873), Number(1.26))
    '1.23 M 0.26 87 % 1.3'
    """

    def __format__(self, spec: str) -> str:
        if spec == "p":
            return f"{100 * float(self):.0f} %"
        if not spec.endswith("s"):
            return float.__format__(float(self), spec)
        value, unit = float(self), ""
        for limit, letter in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
            if abs(value) >= limit:
                value, unit = value / limit, letter
                break
        digits = int(spec[:-1])
        rounded = float(f"{value:.{digits}g}")
        return (
            f"{rounded:,.0f}" if abs(rounded) >= 10 ** (digits - 1) else f"{rounded:.{digits}g}"
        ) + unit


class Figures:
    """The contents of figures.toml ("the table") and the existing JSON results."""

    def __init__(self, table: Path = TABLE, root: Path = common.ROOT) -> None:
        """Read the table. Raises: ConfigError: it is faulty."""
        document = tomllib.loads(table.read_text())
        self.root, self.results = root, root / "bench" / "results"
        self.runs: dict[str, str] = document["runs"]
        self.sections: list[dict[str, Any]] = document["section"]
        self.quotes: list[dict[str, str]] = document.get("quote", [])
        self.tables: dict[str, str] = document.get("tables", {})
        # Runs that do not depend on the machine's load.
        self.untimed: list[str] = document.get("untimed", [])
        entries = [
            entry
            for part in self.sections
            for figure in part["figure"]
            for entry in self.entries_of(part, figure)
        ]
        self.entries = {entry.name: entry for entry in entries}
        if len(self.entries) < len(entries):
            raise ConfigError("two figures have the same name")

    def entries_of(self, section: Mapping[str, Any], figure: Mapping[str, Any]) -> list[Entry]:
        """Return the figures that a table of the document describes, one per item of `each`.

        Without `each` the table describes a single figure. `each` is a JMESPath expression of a
        list of objects in the run's JSON, or of an object: then its values are the items, with
        their names as `key`, and with `value` for a value that is not an object. {words} in name
        and what are replaced by values of an item.

        Raises:
            ConfigError: the run does not exist, or `each` matches nothing.
        """
        words = dict(figure)
        each = words.pop("each", None)
        if words["run"] not in self.runs:
            raise ConfigError(
                f"figure {words['name']}: no run is called {words['run']!r}: use "
                f"{', '.join(self.runs)}"
            )
        if each is None:
            return [Entry(section=section["title"], **words)]
        items = jmespath.search(each, self.document(words["run"]) or {})
        if isinstance(items, Mapping):
            items = [
                {**(one if isinstance(one, Mapping) else {"value": one}), "key": key}
                for key, one in items.items()
            ]
        if not items:
            raise ConfigError(f"figure {words['name']}: {each} finds nothing in {words['run']}")
        return [
            Entry(
                section=section["title"],
                item=item,
                **words | {key: words[key].format(**item) for key in ("name", "what")},
            )
            for item in items
        ]

    def path(self, run: str) -> Path | None:
        """Return the newest result of a run on any machine, or None."""
        return max(
            self.results.glob(f"*/????-??-??-{run}.json"), key=lambda path: path.name, default=None
        )

    @functools.cache  # noqa: B019  (one object per call of the command)
    def document(self, run: str) -> dict[str, Any] | None:
        """Return the newest result of a run, or None."""
        path = self.path(run)
        return None if path is None else dict(json.loads(path.read_text()))

    def figure(self, entry: Entry) -> common.Figure:
        """Return the measured figure. Raises: ConfigError: there is none."""
        samples = self._samples(entry, entry.value)
        return (
            common.ratio(samples, self._samples(entry, entry.over))
            if entry.over
            else common.figure(samples)
        )

    def _samples(self, entry: Entry, expression: str) -> list[float]:
        value = self._search(entry, expression)
        if isinstance(value, Mapping) and "samples" in value:
            value = value["samples"]
        samples = value if isinstance(value, list) else [value]
        if not samples or not all(isinstance(sample, int | float) for sample in samples):
            raise ConfigError(
                f"figure {entry.name}: {expression} finds {value!r} in {entry.run}, which is no "
                "number"
            )
        return [float(sample) for sample in samples]

    def _search(self, entry: Entry, expression: str) -> Any:
        item = self._result(entry.run) if entry.item is None else entry.item
        return jmespath.search(expression, item)

    def _result(self, run: str) -> dict[str, Any]:
        document = self.document(run)
        if document is None:
            raise ConfigError(f"no result of {run!r}: run make figures RUNS={run}")
        return document

    def foreign(self, run: str) -> float | None:
        """Return the share of the machine that others took during a run, None if unknown."""
        document = self.document(run) or {}
        share = document.get("machine", {}).get("foreign_load")
        return None if share is None or document["schema_version"] < MEASURES_ALL else float(share)

    def runs_shown(self) -> list[str]:
        """Return the runs that pages show, in the order of the table."""
        return [*dict.fromkeys([*(entry.run for entry in self.entries.values()), *self.tables])]

    def disturbed(self, run: str) -> bool:
        """Return whether others took too much of the machine during a run, or an unknown share."""
        share = self.foreign(run)
        return share is None or share > common.FOREIGN_LIMIT

    def text(self, name: str) -> str:
        """Return the text of a figure, or of its interval, on pages.

        Raises:
            ConfigError: the figure does not exist.
        """
        if name not in self.entries and name.removesuffix(INTERVAL) in self.entries:
            return self.interval(self.entries[name.removesuffix(INTERVAL)])
        if name not in self.entries:
            raise ConfigError(f"no figure is called {name!r}")
        entry = self.entries[name]
        number = entry.show.format(Number(self.figure(entry).median))
        return number + (f" {DISTURBED}" if self.disturbed(entry.run) and not entry.counted else "")

    def interval(self, entry: Entry) -> str:
        """Return the text of a figure's 95 % interval on pages, "-" if it has none.

        Raises:
            ConfigError: the interval is faulty.
        """
        if not entry.interval:
            return "-"
        ends = self._search(entry, entry.interval)
        if not (
            isinstance(ends, list)
            and len(ends) == 2
            and all(isinstance(end, int | float) for end in ends)
        ):
            raise ConfigError(
                f"figure {entry.name}: {entry.interval} finds {ends!r} in {entry.run}, which are "
                "no two numbers"
            )
        return "[" + ", ".join(entry.show.format(Number(end)) for end in ends) + "]"

    # ---- pages -----------------------------------------------------------------------------------

    def page(self) -> str:
        """Return the text of docs/figures.md."""
        parts = [HEAD]
        for section in self.sections:
            parts += [
                f"## {section['title']}\n",
                *([f"{section['note'].strip()}\n"] if "note" in section else []),
            ]
            parts.append(
                "| figure | median | interval | spread | samples | run |\n| --- | --- | --- | --- "
                "| --- | --- |"
            )
            parts += [
                self._row(entry)
                for entry in self.entries.values()
                if entry.section == section["title"]
            ]
            parts.append("")
        parts += ["## Tables\n", "Other pages show all results of these runs:\n"]
        for run, page in self.tables.items():
            parts.append(f"- [{run}]({os.path.relpath(page, 'docs')})")
        parts.append("")
        parts.append(
            "## Runs\n\n*Others*: the share of the machine that other processes took, and the "
            "load average if it was recorded.\n"
        )
        parts.append(
            "| run | command | machine | versions | others; load | commit | day |"
            + "\n|"
            + " --- |" * 7
        )
        parts += [self._run_row(run) for run in self.runs_shown()]
        return "\n".join(parts) + "\n"

    def _run_row(self, run: str) -> str:
        document = self._result(run)
        facts, share = document["machine"], self.foreign(run)
        command = [f"`{document['command']}`"] if document.get("command") else []
        command += [f"({document['doubt']})"] if "doubt" in document else []
        others = (
            f"{'not known' if share is None else f'{100 * share:.0f} %'}; {facts['load'][0]:.1f}"
        )
        machine = common.short_machine(facts)
        known = [
            f"{name} {version}"
            for name, version in facts["versions"].items()
            if version and name != "puffervec"
        ]
        cells = (
            " ".join(command),
            machine,
            ", ".join(known),
            others,
            facts["commit"],
            facts["date"][:10],
        )
        return f"| {run} | {' | '.join(cells)} |"

    def _row(self, entry: Entry) -> str:
        figure = self.figure(entry)
        spread = f"±{100 * figure.spread:.0f} %" if len(figure.samples) > 1 else "-"
        note = f" ({entry.reason})" if entry.reason else ""
        cells = (
            entry.what,
            self.text(entry.name),
            self.interval(entry),
            spread,
            f"{len(figure.samples)}{note}",
            entry.run,
        )
        return f"| {' | '.join(cells)} |"

    def quoted(self, quote: Mapping[str, str]) -> str:
        """Return a quote's text with its figures."""
        return PLACE.sub(lambda place: self.text(place[1]), quote["text"].strip("\n"))

    def table(self, run: str) -> str:
        """Return all results of a run as a Markdown table, and the facts of the measurement.

        Raises:
            ConfigError: the run has no result.
        """
        document, share = self._result(run), self.foreign(run)
        origin = common.origin(document["machine"])
        if run not in self.untimed:
            others = "the load of other programs is not known"
            if share is not None:
                others = f"other programs took {100 * share:.0f} %"
            origin += f"; {others}" + (f" {DISTURBED}" if self.disturbed(run) else "")
        script = Path(shlex.split(self.runs[run])[1])
        benchmark = importlib.import_module(".".join(script.with_suffix("").parts))
        table = benchmark.markdown(document["results"])
        return f"{table}\n\n*[{run}](figures.md#runs): {origin}.*\n"

    def write(self) -> list[str]:
        """Write the figures into the pages; return the pages that changed."""
        changed = []
        for name in self.pages():
            path = self.root / name
            before = path.read_text() if path.exists() else ""
            after = self.page() if name == PAGE else before
            for quote in self.quotes:
                if quote["page"] == name:
                    after = self._put(after, quote)
            for run, page in self.tables.items():
                if page == name:
                    after = self._fill(after, run)
            if after != before:
                path.write_text(after)
                changed.append(name)
        return changed

    def pages(self) -> list[str]:
        """Return the pages with figures, by their paths from the root."""
        quoting_pages = [quote["page"] for quote in self.quotes]
        return [*dict.fromkeys([PAGE, *quoting_pages, *self.tables.values()])]

    def _fill(self, page: str, run: str) -> str:
        filled = common.filled(page, f"table {run}", self.table(run))
        if filled is None:
            place = f"one place, <!-- table {run} --> to <!-- end -->"
            raise ConfigError(f"{self.tables[run]}: give the table of {run} {place}")
        return filled

    def _put(self, page: str, quote: Mapping[str, str]) -> str:
        words = PLACE.split(quote["text"].strip("\n"))[::2]  # The text between the figures.
        if not (words[0] and words[-1]):
            raise ConfigError(
                f"{quote['page']}: {quote['text'].strip()!r}: begin and end with text: where does "
                "a figure end?"
            )
        pattern = re.compile("[^|]{1,30}?".join(re.escape(word) for word in words))
        if len(pattern.findall(page)) != 1:
            raise ConfigError(
                f"{quote['page']}: {quote['text'].strip()!r} should occur there once, with "
                "figures for the names"
            )
        return pattern.sub(lambda _: self.quoted(quote), page)

    def problems(self) -> list[str]:
        """Return the faults of the pages and their results, one line each."""
        faults = []
        for run in self.runs_shown():
            commit = ((self.document(run) or {}).get("machine") or {}).get("commit", "")
            if not re.fullmatch(r"[0-9a-f]+", commit):
                faults.append(
                    f"{run}: measured on {commit or 'no commit'}: commit first, then make figures "
                    f"RUNS={run}"
                )
        try:
            for entry in self.entries.values():
                count = len(self.figure(entry).samples)
                if count < entry.samples or (entry.samples < FEWEST_SAMPLES and not entry.reason):
                    faults.append(
                        f"{entry.name}: {count} samples, {FEWEST_SAMPLES} wanted; fewer need a "
                        "reason in the table"
                    )
            if not (self.root / PAGE).exists() or (self.root / PAGE).read_text() != self.page():
                faults.append(f"{PAGE} does not show the results: python bench/figures.py --write")
            for quote in self.quotes:
                text = (self.root / quote["page"]).read_text()
                if self.quoted(quote) not in text or self._put(text, quote) != text:
                    faults.append(
                        f"{quote['page']} does not say {self.quoted(quote)!r}: python "
                        "bench/figures.py --write"
                    )
            for run, name in self.tables.items():
                text = (self.root / name).read_text()
                if self._fill(text, run) != text:
                    written = "python bench/figures.py --write"
                    faults.append(f"{name} does not show the table of {run}: {written}")
            for name in self.pages():
                if name != PAGE and "figures.md" not in (self.root / name).read_text():
                    faults.append(
                        f"{name} has figures and no link to figures.md, where readers find how "
                        "they were measured"
                    )
        except ConfigError as error:
            faults.append(str(error))
        return faults

    def untraceable(self) -> list[str]:
        """Return the faults of results whose measurement cannot be traced, one line each.

        A result must have its own command, as `common.report` writes it, and a commit of this
        history; or describe its problem in `doubt`. It must not name a folder or a machine's owner.
        """
        problems, history = [], common.has_history(self.root)
        for path in sorted(self.results.glob("*/*.json")):
            document = json.loads(path.read_text())
            faults = [] if "doubt" in document else list(self._lost(document, history))
            facts = document.get("machine", {})
            if not re.fullmatch(r"\w+( [\d.]+)?", facts.get("system", "")):
                faults.append(
                    f"its system is {facts.get('system')!r}: write the kernel's version alone, as "
                    "common.system does"
                )
            if owned := next((text for text in _texts(document) if OWN_PATH.search(text)), None):
                faults.append(f"it has a path of a machine, {owned!r}: see common.without_path")
            problems += [f"{path.relative_to(self.root)}: {fault}" for fault in faults]
        return problems

    def _lost(self, document: Mapping[str, Any], history: bool) -> Iterator[str]:
        words = shlex.split(document.get("command") or "")
        if not words:
            yield "it has no command: write results with common.report"
        settings = document.get("settings") or {}
        files = {
            words[i].removeprefix("--"): words[i + 1]
            for i in range(len(words) - 1)
            if words[i] in ("--json", "--png")
        }
        for name in ("json", "png") if words and "--" not in words else ():
            if name in settings and settings[name] != files.get(name):
                edit = f"has --{name} {files.get(name)}, its settings have {settings[name]}"
                yield f"its command {edit}: it was edited after the run"
        commit = document["machine"]["commit"].removesuffix("+")
        if history and common.commits_since(commit, self.root) is None:
            yield f"its commit {commit} is no ancestor of this one: measure it again"

    def old(self, page: str, most: int) -> list[str]:
        """Return a line for each run on a page that was measured more than `most` commits ago.

        Raises:
            ConfigError: the history is missing, as in a shallow clone.
        """
        names = {
            name
            for quote in self.quotes
            if quote["page"] == page
            for name in PLACE.findall(quote["text"])
        }
        runs = [
            entry.run
            for entry in self.entries.values()
            if names & {entry.name, entry.name + INTERVAL}
        ]
        faults = []
        for run in dict.fromkeys(runs):
            commit = str(
                (self.document(run) or {}).get("machine", {}).get("commit", "")
            ).removesuffix("+")
            age = common.commits_since(commit, self.root)
            if age is None:
                faults.append(
                    f"{page}: {run} was measured on {commit or 'no commit'}, which is not an "
                    f"ancestor of this commit: make figures RUNS={run}"
                )
            elif age > most:
                faults.append(
                    f"{page}: {run} was measured {age} commits ago, at most {most} are allowed: "
                    f"make figures RUNS={run}"
                )
        return faults

    # ---- measuring -------------------------------------------------------------------------------

    def measure(self, names: Sequence[str], values: Mapping[str, str]) -> None:
        """Run the commands of these runs; each result replaces the previous one.

        Args:
            names: names of the runs.
            values: values of {real} and the other names in braces in the commands.

        Raises:
            ConfigError: an unknown run, a run that fails, or a working tree with changes.
        """
        for name in names:
            if name not in self.runs:
                raise ConfigError(f"no run is called {name!r}: use {', '.join(self.runs)}")
        if common.commit().endswith("+"):
            raise ConfigError(
                "the working tree has changes: commit them first, since results name the measured "
                "commit"
            )
        for name in names:
            old, new = self.path(name), common.results_path(name, common.machine(), self.results)
            command = shlex.split(self.runs[name].format(**values))
            print(f"{name}: {shlex.join(command)}", flush=True)
            done = subprocess.run([sys.executable, *command[1:], "--json", str(new)], cwd=self.root)
            if done.returncode:
                raise ConfigError(
                    f"{name} failed with status {done.returncode}; earlier results are as they were"
                )
            if old is not None and old != new:
                old.unlink()
        type(self).document.cache_clear()


def _texts(value: Any) -> Iterator[str]:
    """Yield all strings of a JSON document, keys included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield key
            yield from _texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)


@common.command
def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status: 0, 1 if pages are wrong, 2 for bad input."""
    flags = common.parser(__doc__)
    flags.add_argument(
        "--run", nargs="*", metavar="RUN", help="measure these runs, or all, and rewrite the pages"
    )
    flags.add_argument(
        "--write", action="store_true", help="rewrite the pages from the existing results"
    )
    flags.add_argument(
        "--most-commits",
        type=int,
        metavar="N",
        help="no figure of README may be of an older commit",
    )
    flags.add_argument(
        "--real",
        default="../shared/data/scenes",
        help="folder of real scenes (default: %(default)s)",
    )
    flags.add_argument(
        "--more",
        default="../shared/data/real",
        help="another folder of real scenes (default: %(default)s)",
    )
    flags.add_argument(
        "--pufferdrive",
        default="pufferdrive",
        help="folder of PufferDrive's C sources (default: %(default)s)",
    )
    flags.add_argument(
        "--pufferlib-python",
        default=os.environ.get("PUFFERLIB_PYTHON", "python3"),
        help="see bench/README.md",
    )
    options = flags.parse_args(arguments)
    figures = Figures()
    if options.run is not None:
        values = {name: getattr(options, name) for name in ("real", "more", "pufferdrive")}
        values["pufferlib"] = options.pufferlib_python
        figures.measure(options.run or list(figures.runs), values)
    if options.write or options.run is not None:
        print("changed:", ", ".join(figures.write()) or "nothing")
    problems = figures.problems() + figures.untraceable()
    if options.most_commits is not None:
        problems += figures.old("README.md", options.most_commits)
    print("\n".join(problems) or "the pages show what was measured")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
