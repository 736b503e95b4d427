# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The figures of README and docs: measures them with the commands of figures.toml and writes them into the pages.

    make figures                                   measure everything again and rewrite the pages (hours, on a quiet machine)
    make figures RUNS="latency sps-tag"            only these runs
    python bench/figures.py --write                rewrite the pages from the existing JSON
    python bench/figures.py                        check the pages, as tests/bench/test_figures.py does

figures.toml lists the runs, the figures (a run and a JMESPath expression for a value in its JSON), and the quotes: lines of
pages in which {name} stands for a figure. docs/figures.md has all figures with spread, command and commit.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import jmespath

from bench import common
from puffervec.errors import ConfigError

TABLE = common.ROOT / "bench" / "figures.toml"
PAGE = "docs/figures.md"
FEWEST_SAMPLES = 5
DISTURBED = "†"
PLACE = re.compile(r"\{(\w+)\}")
HEAD = f"""# Figures

Every measured figure, with its command and the commit that was measured, on two cores of an AMD EPYC without a GPU. Figures
are medians; the spread is half the distance between the quartiles. {DISTURBED} marks a figure during which other processes
took more than {100 * common.FOREIGN_LIMIT:.0f} % of the machine. `make figures` measures all anew and rewrites the pages.
[bench/README.md](../bench/README.md) explains the words.
"""


@dataclasses.dataclass(frozen=True)
class Entry:
    """A figure. value: JMESPath expression into the run's JSON; over: another one, by which it is divided sample by sample.

    show: format of the number; see Number. samples: how many there must be; fewer than five need a reason.
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


class Number(float):
    """A float for format strings: "{:3s}" has three significant digits and k, M or G; "{:p}" is a percentage; else as a float.

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
        return (f"{rounded:,.0f}" if abs(rounded) >= 10 ** (digits - 1) else f"{rounded:.{digits}g}") + unit


class Figures:
    """The table and the existing JSON."""

    def __init__(self, table: Path = TABLE, root: Path = common.ROOT) -> None:
        """Read the table. Raises: ConfigError for a faulty one."""
        document = tomllib.loads(table.read_text())
        self.root, self.folder = root, root / "bench" / "results" / document["machine"]
        self.runs: dict[str, str] = document["runs"]
        self.sections: list[dict[str, Any]] = document["section"]
        self.quotes: list[dict[str, str]] = document.get("quote", [])
        entries = [Entry(section=part["title"], **figure) for part in self.sections for figure in part["figure"]]
        self.entries = {entry.name: entry for entry in entries}
        for entry in entries:
            if entry.run not in self.runs:
                raise ConfigError(f"figure {entry.name}: no run is called {entry.run!r}: use {', '.join(self.runs)}")
        if len(self.entries) < len(entries):
            raise ConfigError("two figures have the same name")

    def path(self, run: str) -> Path | None:
        """Return the newest result of a run, or None."""
        return max(self.folder.glob(f"????-??-??-{run}.json"), default=None)

    @functools.cache  # noqa: B019  (one object per call of the command)
    def document(self, run: str) -> dict[str, Any] | None:
        """Return the newest result of a run, or None."""
        path = self.path(run)
        return None if path is None else dict(json.loads(path.read_text()))

    def figure(self, entry: Entry) -> common.Figure:
        """Return the measured figure. Raises: ConfigError if there is none."""
        found = self._samples(entry, entry.value)
        return common.ratio(found, self._samples(entry, entry.over)) if entry.over else common.figure(found)

    def _samples(self, entry: Entry, expression: str) -> list[float]:
        document = self.document(entry.run)
        if document is None:
            raise ConfigError(f"figure {entry.name}: no result of {entry.run!r}: run make figures RUNS={entry.run}")
        found = jmespath.search(expression, document)
        if isinstance(found, Mapping) and "samples" in found:
            found = found["samples"]
        samples = found if isinstance(found, list) else [found]
        if not samples or not all(isinstance(sample, int | float) for sample in samples):
            raise ConfigError(f"figure {entry.name}: {expression} finds {found!r} in {entry.run}, which is no number")
        return [float(sample) for sample in samples]

    def disturbed(self, run: str) -> bool:
        """Whether others took more of the machine during a run than they should."""
        document = self.document(run) or {"machine": {}}
        return float(document["machine"].get("foreign_load") or 0.0) > common.FOREIGN_LIMIT

    def text(self, name: str) -> str:
        """Return a figure as pages show it. Raises: ConfigError for an unknown one."""
        if name not in self.entries:
            raise ConfigError(f"no figure is called {name!r}")
        entry = self.entries[name]
        shown = entry.show.format(Number(self.figure(entry).median))
        return shown + (f" {DISTURBED}" if self.disturbed(entry.run) else "")

    # ---- pages ---------------------------------------------------------------------------------------------

    def page(self) -> str:
        """Return docs/figures.md."""
        parts = [HEAD]
        for section in self.sections:
            parts += [f"## {section['title']}\n", *([f"{section['note'].strip()}\n"] if "note" in section else [])]
            parts.append("| figure | median | spread | samples | run |\n| --- | --- | --- | --- | --- |")
            parts += [self._row(self.entries[figure["name"]]) for figure in section["figure"]]
            parts.append("")
        parts += ["## Runs\n", "| run | command | commit | day |\n| --- | --- | --- | --- |"]
        for run in dict.fromkeys(entry.run for entry in self.entries.values()):
            document = self.document(run)
            assert document is not None
            facts = document["machine"]
            parts.append(f"| {run} | `{document['command']}` | {facts['commit']} | {facts['date'][:10]} |")
        return "\n".join(parts) + "\n"

    def _row(self, entry: Entry) -> str:
        figure = self.figure(entry)
        spread = f"±{100 * figure.spread:.0f} %" if len(figure.samples) > 1 else "-"
        note = f" ({entry.reason})" if entry.reason else ""
        return f"| {entry.what} | {self.text(entry.name)} | {spread} | {len(figure.samples)}{note} | {entry.run} |"

    def quoted(self, quote: Mapping[str, str]) -> str:
        """Return a quote's text with its figures."""
        return PLACE.sub(lambda found: self.text(found[1]), quote["text"].strip("\n"))

    def write(self) -> list[str]:
        """Write the figures into the pages. Returns the pages that changed."""
        changed = []
        for name in dict.fromkeys([PAGE, *(quote["page"] for quote in self.quotes)]):
            path = self.root / name
            before = path.read_text() if path.exists() else ""
            after = self.page() if name == PAGE else before
            for quote in self.quotes:
                if quote["page"] == name:
                    after = self._put(after, quote)
            if after != before:
                path.write_text(after)
                changed.append(name)
        return changed

    def _put(self, page: str, quote: Mapping[str, str]) -> str:
        words = PLACE.split(quote["text"].strip("\n"))[::2]  # the text between the figures
        if not (words[0] and words[-1]):
            raise ConfigError(f"{quote['page']}: {quote['text'].strip()!r}: begin and end with text: where does a figure end?")
        pattern = re.compile("[^|]{1,30}?".join(re.escape(word) for word in words))
        if len(pattern.findall(page)) != 1:
            raise ConfigError(f"{quote['page']}: {quote['text'].strip()!r} should occur there once, with figures for the names")
        return pattern.sub(lambda _: self.quoted(quote), page)

    def problems(self) -> list[str]:
        """Return what is wrong with the pages and their results, one line per fault."""
        found = []
        for run in dict.fromkeys(entry.run for entry in self.entries.values()):
            commit = ((self.document(run) or {}).get("machine") or {}).get("commit", "")
            if not re.fullmatch(r"[0-9a-f]+", commit):
                found.append(f"{run}: measured on {commit or 'no commit'}: commit first, then make figures RUNS={run}")
        try:
            for entry in self.entries.values():
                count = len(self.figure(entry).samples)
                if count < entry.samples or (entry.samples < FEWEST_SAMPLES and not entry.reason):
                    found.append(f"{entry.name}: {count} samples, {FEWEST_SAMPLES} wanted; fewer need a reason in the table")
            if not (self.root / PAGE).exists() or (self.root / PAGE).read_text() != self.page():
                found.append(f"{PAGE} does not show the results: python bench/figures.py --write")
            for quote in self.quotes:
                if self.quoted(quote) not in (self.root / quote["page"]).read_text():
                    found.append(f"{quote['page']} does not say {self.quoted(quote)!r}: python bench/figures.py --write")
        except ConfigError as error:
            found.append(str(error))
        return found

    # ---- measuring -----------------------------------------------------------------------------------------

    def measure(self, names: Sequence[str], values: Mapping[str, str]) -> None:
        """Run the commands of these runs; each result replaces the one before.

        Args: values: of {real} and the other names in braces in the commands.
        Raises: ConfigError for an unknown run, a run that fails, and a working tree with changes.
        """
        for name in names:
            if name not in self.runs:
                raise ConfigError(f"no run is called {name!r}: use {', '.join(self.runs)}")
        if common.commit().endswith("+"):
            raise ConfigError("the working tree has changes: commit them first, since results name the measured commit")
        for name in names:
            old = self.path(name)
            new = self.folder / f"{datetime.now(UTC):%Y-%m-%d}-{name}.json"
            command = shlex.split(self.runs[name].format(**values))
            print(f"{name}: {shlex.join(command)}", flush=True)
            done = subprocess.run([sys.executable, *command[1:], "--json", str(new)], cwd=self.root)
            if done.returncode:
                raise ConfigError(f"{name} failed with status {done.returncode}; earlier results are as they were")
            if old is not None and old != new:
                old.unlink()
        type(self).document.cache_clear()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status: 0, 1 if pages are wrong, 2 for bad input."""
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--run", nargs="*", metavar="RUN", help="measure these runs, or all, and rewrite the pages")
    flags.add_argument("--write", action="store_true", help="rewrite the pages from the existing results")
    flags.add_argument("--real", default="../shared/data/scenes", help="folder of real scenes (default: %(default)s)")
    flags.add_argument("--pufferdrive", default="pufferdrive", help="folder of PufferDrive's C sources (default: %(default)s)")
    flags.add_argument("--pufferlib-python", default=os.environ.get("PUFFERLIB_PYTHON", "python3"), help="see bench/README.md")
    options = flags.parse_args(arguments)
    try:
        figures = Figures()
        if options.run is not None:
            values = {"real": options.real, "pufferlib": options.pufferlib_python, "pufferdrive": options.pufferdrive}
            figures.measure(options.run or list(figures.runs), values)
        if options.write or options.run is not None:
            print("changed:", ", ".join(figures.write()) or "nothing")
        problems = figures.problems()
    except ConfigError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print("\n".join(problems) or "the pages show what was measured")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
