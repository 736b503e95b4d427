# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""`make release`: check whether the last commit is ready, and stop at the first problem.

It uploads nothing and makes no tag. If all checks pass, dist/ has the files to upload.
"""

from __future__ import annotations

import ast
import fnmatch
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bench import figures  # noqa: E402
from puffervec.errors import ConfigError  # noqa: E402
from scripts import api  # noqa: E402

WHEELS = {
    "Linux on x86-64": "*manylinux*_x86_64.whl",
    "Linux on aarch64": "*manylinux*_aarch64.whl",
    "macOS on arm64": "*macosx*_arm64.whl",
}
HEADING = re.compile(r"^## (\S+) \(([^)]*)\)$", re.MULTILINE)


class NotReady(Exception):
    """A problem and its remedy, in one line."""


@dataclass(frozen=True)
class Release:
    """The folder to release."""

    root: Path = ROOT
    modules: Sequence[str] = api.PUBLIC

    def git(self, *arguments: str) -> str:
        """Return the output of a git command. Raises: NotReady: it fails."""
        done = subprocess.run(
            ["git", "-C", str(self.root), *arguments], capture_output=True, text=True, timeout=60
        )
        if done.returncode:
            raise NotReady(f"git {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout.strip()

    def version(self) -> str:
        """Return the version, from puffervec/__init__.py."""
        tree = ast.parse((self.root / "puffervec" / "__init__.py").read_text())
        constants = [
            node
            for node in tree.body
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        ]
        versions = [
            ast.literal_eval(node.value)
            for node in constants
            if ast.unparse(node.targets[0]) == "__version__"
        ]
        if len(versions) != 1 or not re.fullmatch(r"\d+\.\d+\.\d+", str(versions[0])):
            raise NotReady(
                f"puffervec/__init__.py has __version__ {versions}: it must be there once, as in "
                "1.2.3"
            )
        return str(versions[0])

    def tags(self) -> list[str]:
        """Return the tags of versions, oldest first."""
        return self.git("tag", "--list", "v[0-9]*", "--sort=version:refname").split()

    def last(self) -> str | None:
        """Return the tag of the last release before this version, None if there is none."""
        earlier = [tag for tag in self.tags() if numbers(tag) < numbers(self.version())]
        return earlier[-1] if earlier else None

    # ---- checks: each returns a line about the result, or raises NotReady ------------------------

    def check_tree(self) -> str:
        """Check that all changes of tracked files are committed."""
        changed = self.git("status", "--porcelain", "--untracked-files=no").splitlines()
        if changed:
            raise NotReady(
                f"{len(changed)} files are not committed, {changed[0].split()[-1]} first: commit "
                "or drop them"
            )
        return f"commit {self.git('rev-parse', '--short=12', 'HEAD')}, nothing uncommitted"

    def check_version(self) -> str:
        """Check that the version occurs once, and agrees with the tags of it and of this commit."""
        version = self.version()
        project = tomllib.loads((self.root / "pyproject.toml").read_text())
        dynamic = project.get("tool", {}).get("setuptools", {}).get("dynamic", {}).get("version")
        if "version" in project["project"] or dynamic != {"attr": "puffervec.__version__"}:
            raise NotReady(
                "pyproject.toml has a version of its own: take it from puffervec.__version__"
            )
        here = [
            tag for tag in self.git("tag", "--points-at", "HEAD").split() if tag.startswith("v")
        ]
        if here and here != [f"v{version}"]:
            raise NotReady(
                f"the version is {version}, but this commit has the tags {', '.join(here)}: make "
                "them agree"
            )
        if not here and f"v{version}" in self.tags():
            raise NotReady(
                f"v{version} is the tag of another commit: raise __version__ in "
                "puffervec/__init__.py"
            )
        later = [tag for tag in self.tags() if numbers(tag) > numbers(version)]
        if later:
            raise NotReady(
                f"the version is {version}, but {later[-1]} is released: raise __version__ in "
                "puffervec/__init__.py"
            )
        return f"{version}, " + (
            f"tag {here[0]}" if here else f"not tagged yet: git tag v{version}"
        )

    def check_changelog(self) -> str:
        """Check that the newest entry is that of this version and has a date."""
        version = self.version()
        match = HEADING.search((self.root / "CHANGELOG.md").read_text(encoding="utf-8"))
        if match is None or match.group(1) != version:
            state = "no entry" if match is None else f"{match.group(1)} first"
            raise NotReady(
                f"CHANGELOG.md has {state}: it must begin with ## {version} (YYYY-MM-DD)"
            )
        try:
            day = date.fromisoformat(match.group(2))
        except ValueError:
            entry = f"{version} ({match.group(2)})"
            raise NotReady(
                f"CHANGELOG.md says {entry}: write the day of the release, YYYY-MM-DD"
            ) from None
        return f"{version} of {day}"

    def check_figures(self) -> str:
        """Check that the figures of README come from a recent commit."""
        try:
            lines = figures.Figures(self.root / "bench" / "figures.toml", self.root).old(
                "README.md", figures.MOST_COMMITS
            )
        except ConfigError as error:
            raise NotReady(str(error)) from error
        for line in lines:
            print(f"            {line}")
        if lines:
            raise NotReady(
                f"{len(lines)} runs that README quotes are old: measure them again, on a quiet "
                "machine, as it says above"
            )
        return f"those of README are at most {figures.MOST_COMMITS} commits old"

    def check_api(self) -> str:
        """Check that the public API has not lost or changed names, unless the version allows it."""
        last, version = self.last(), self.version()
        if last is None:
            return "no release before this one to compare with"
        try:
            lines = list(api.breakages(self.root, last, self.modules))
        except RuntimeError as error:
            raise NotReady(str(error)) from error
        for line in lines:
            print(f"            {line}")
        if lines and not may_break(last, version):
            raise NotReady(
                f"{len(lines)} changes since {last} break code of users, which {version} must "
                "not: see above"
            )
        return f"{len(lines)} changes since {last} that break code" + (
            ", which this version may" if lines else ""
        )

    def check_checkpoints(self) -> str:
        """Check that checkpoints of all versions, including this one, load and act as before."""
        folder = self.root / "tests" / "train" / "golden" / self.version()
        if not folder.is_dir():
            raise NotReady(
                f"{folder.relative_to(self.root)} is missing: python "
                "scripts/golden_checkpoints.py, and commit it"
            )
        self.run("checkpoints", sys.executable, "-m", "pytest", "-q", "tests/train/test_golden.py")
        versions = sorted(path.name for path in folder.parent.iterdir() if path.is_dir())
        return f"those of {', '.join(versions)} load and act alike"

    def check_docs(self) -> str:
        """Build the site in strict mode."""
        self.run("docs", "make", "-s", "docs")
        return "built in build/site, all links lead somewhere"

    def check_dist(self) -> str:
        """Build sdist and wheels, check them for upload, and test them in empty environments."""
        self.run("dist", "make", "-s", "package")
        names = sorted(path.name for path in (self.root / "dist").iterdir())
        strange = [name for name in names if not name.startswith(f"puffervec-{self.version()}")]
        if (
            strange
            or not any(name.endswith(".tar.gz") for name in names)
            or not any("manylinux" in name for name in names)
        ):
            raise NotReady(
                f"dist/ holds {', '.join(names)}: an sdist and manylinux wheels of "
                f"{self.version()} are wanted"
            )
        missing = [
            platform for platform, pattern in WHEELS.items() if not fnmatch.filter(names, pattern)
        ]
        return ", ".join(names) + (
            f"; to be built elsewhere: {', '.join(missing)}" if missing else ""
        )

    def run(self, what: str, *command: str) -> None:
        """Run a command, with its output in build/release-<what>.log.

        Raises:
            NotReady: it fails; has the last lines.
        """
        log = self.root / "build" / f"release-{what}.log"
        log.parent.mkdir(exist_ok=True)
        with log.open("w") as file:
            status = subprocess.run(
                command, cwd=self.root, stdout=file, stderr=subprocess.STDOUT
            ).returncode
        if status:
            for line in log.read_text(errors="replace").splitlines()[-15:]:
                print(f"            {line}")
            raise NotReady(
                f"{' '.join(command)} ended with {status}: see {log.relative_to(self.root)}"
            )

    def steps(self) -> dict[str, Callable[[], str]]:
        """Return the checks by name, the quick ones first."""
        return {
            "tree": self.check_tree,
            "version": self.check_version,
            "changelog": self.check_changelog,
            "api": self.check_api,
            "checkpoints": self.check_checkpoints,
            "figures": self.check_figures,
            "docs": self.check_docs,
            "dist": self.check_dist,
        }


def numbers(version: str) -> tuple[int, ...]:
    """Convert a version or its tag to numbers, for comparison.

    >>> numbers("v0.10.0") > numbers("0.9.1")
    True
    """
    return tuple(map(int, re.findall(r"\d+", version)))


def may_break(last: str, version: str) -> bool:
    """Return whether a version may break code that ran with the last one.

    Before 1.0 the second number must increase for that, then the first.

    >>> may_break("v0.1.0", "0.2.0"), may_break("v1.1.0", "1.2.0")
    (True, False)
    """
    first = numbers(version)
    count = 2 if first[0] == 0 else 1
    return first[:count] > numbers(last)[:count]


def main(release: Release | None = None) -> int:
    """Run all checks in turn; return the exit status, which is 1 after the first problem."""
    steps = (release or Release()).steps()
    for number, (name, check) in enumerate(steps.items()):
        try:
            print(f"holds       {name:12} {check()}", flush=True)
        except NotReady as wrong:
            print(f"WRONG       {name:12} {wrong}")
            print(
                f"not ready: {', '.join(list(steps)[number + 1 :]) or 'nothing else'} not looked at"
            )
            return 1
    print("ready; nothing was uploaded")
    return 0


if __name__ == "__main__":
    sys.exit(main())
