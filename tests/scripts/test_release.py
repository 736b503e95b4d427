# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""scripts/release.py and scripts/api.py, on small repositories with tags; nothing is built."""

from __future__ import annotations

import doctest
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from scripts import api, release
from scripts.release import NotReady, Release

pytest.importorskip("griffe")
PACKAGE = """
__version__ = "0.1.0"
__all__ = ["Env", "make"]
from puffervec.inner import Env
def make(env, num_envs=1): ...
def not_listed(): ...
"""
INNER = """
class Env:
    def step(self, actions): ...
    def _own(self): ...
"""
PYPROJECT = (
    '[project]\nname = "puffervec"\n[tool.setuptools.dynamic]\nversion = { attr = '
    '"puffervec.__version__" }\n'
)
Edit = Callable[[str, str, str], None]


def git(root: Path, *arguments: str) -> None:
    subprocess.run(
        ["git", "-C", str(root), "-c", "user.name=a", "-c", "user.email=a@b.c", *arguments],
        check=True,
        timeout=30,
    )


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A small package whose last commit is version 0.1.0, not tagged."""
    (tmp_path / "puffervec").mkdir()
    (tmp_path / "puffervec/__init__.py").write_text(PACKAGE)
    (tmp_path / "puffervec/inner.py").write_text(INNER)
    (tmp_path / "pyproject.toml").write_text(PYPROJECT)
    (tmp_path / "CHANGELOG.md").write_text(
        "# Changelog\n\n## 0.1.0 (2026-11-24)\n\nThe first version.\n"
    )
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "first")
    return tmp_path


@pytest.fixture
def edit(repository: Path) -> Edit:
    """Replaces text in a file, which must be there, and commits."""

    def change(name: str, old: str, new: str) -> None:
        text = (repository / name).read_text()
        assert old in text
        (repository / name).write_text(text.replace(old, new))
        git(repository, "commit", "-qam", "a change")

    return change


def test_doctests() -> None:
    assert doctest.testmod(release).failed == 0


def test_what_is_not_committed_is_named(repository: Path) -> None:
    assert Release(repository).check_tree().endswith("nothing uncommitted")
    (repository / "puffervec/inner.py").write_text("")
    with pytest.raises(NotReady, match="1 files are not committed, puffervec/inner.py first"):
        Release(repository).check_tree()


def test_version_and_tag_agree(repository: Path, edit: Edit) -> None:
    ready = Release(repository)
    assert ready.check_version() == "0.1.0, not tagged yet: git tag v0.1.0"
    git(repository, "tag", "v0.1.0")
    assert ready.check_version() == "0.1.0, tag v0.1.0"
    edit("CHANGELOG.md", "first", "second")
    with pytest.raises(NotReady, match="v0.1.0 is the tag of another commit: raise __version__"):
        ready.check_version()
    git(repository, "tag", "v0.3.0")
    with pytest.raises(NotReady, match="the version is 0.1.0, but this commit has the tags v0.3.0"):
        ready.check_version()
    edit("puffervec/__init__.py", '"0.1.0"', '"0.2.0"')
    with pytest.raises(NotReady, match="the version is 0.2.0, but v0.3.0 is released"):
        ready.check_version()


@pytest.mark.parametrize(
    "line", ['__version__ = "0.1"', "", '__version__ = "0.1.0"\n__version__ = "0.1.0"']
)
def test_the_version_stands_there_once(edit: Edit, repository: Path, line: str) -> None:
    edit("puffervec/__init__.py", '__version__ = "0.1.0"', line)
    with pytest.raises(NotReady, match="it must be there once, as in 1.2.3"):
        Release(repository).version()


def test_another_version_in_pyproject_is_refused(edit: Edit, repository: Path) -> None:
    edit("pyproject.toml", 'name = "puffervec"', 'name = "puffervec"\nversion = "0.1.0"')
    with pytest.raises(NotReady, match="a version of its own"):
        Release(repository).check_version()


@pytest.mark.parametrize(
    ("heading", "said"),
    [
        ("## 0.1.0 (unreleased)", "says 0.1.0 .unreleased.: write the day of the release"),
        ("## 0.2.0 (2026-11-24)", "has 0.2.0 first: it must begin with ## 0.1.0"),
        ("0.1.0", "has no entry: it must begin with ## 0.1.0"),
    ],
)
def test_the_changelog_has_a_dated_entry(
    edit: Edit, repository: Path, heading: str, said: str
) -> None:
    assert Release(repository).check_changelog() == "0.1.0 of 2026-11-24"
    edit("CHANGELOG.md", "## 0.1.0 (2026-11-24)", heading)
    with pytest.raises(NotReady, match=said):
        Release(repository).check_changelog()


TABLE = """
[runs]
speed = "python bench/speed.py"
[[section]]
title = "Speed"
figure = [{ name = "rate", what = "steps per second", run = "speed", value = "results" }]
[[quote]]
page = "README.md"
text = "| {rate} steps/s |"
"""


@pytest.mark.slow
def test_old_figures_of_readme_are_named(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ready = Release(repository)
    head = ready.git("rev-parse", "HEAD")
    (repository / "bench/results/box").mkdir(parents=True)
    (repository / "bench/figures.toml").write_text(TABLE)
    (repository / "bench/results/box/2026-01-02-speed.json").write_text(
        f'{{"machine": {{"commit": "{head}"}}, "results": 7}}'
    )
    assert ready.check_figures() == "those of README are at most 60 commits old"
    for number in range(61):
        git(repository, "commit", "-q", "--allow-empty", "-m", str(number))
    with pytest.raises(NotReady, match="1 runs that README quotes are old"):
        ready.check_figures()
    assert "speed was measured 61 commits ago" in capsys.readouterr().out


@pytest.mark.slow
def test_the_api_is_compared_with_the_last_tag(
    edit: Edit, repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ready = Release(repository, ["puffervec"])
    assert ready.check_api() == "no release before this one to compare with"
    git(repository, "tag", "v0.1.0")
    assert (
        ready.check_api() == "no release before this one to compare with"
    )  # the tag is this version's own
    edit("puffervec/__init__.py", '"0.1.0"', '"0.1.1"')
    edit("puffervec/__init__.py", "not_listed", "another")
    edit("puffervec/inner.py", "_own", "_another")
    git(repository, "tag", "v0.1.1")
    edit("puffervec/__init__.py", '"0.1.1"', '"0.1.2"')
    assert ready.check_api() == "0 changes since v0.1.1 that break code"
    edit("puffervec/__init__.py", "num_envs=1", "count=1")
    edit("puffervec/inner.py", "def step(self, actions)", "def step(self, actions, more)")
    with pytest.raises(
        NotReady, match="2 changes since v0.1.1 break code of users, which 0.1.2 must not"
    ):
        ready.check_api()
    said = capsys.readouterr().out
    assert (
        "make(num_envs): Parameter was removed" in said
        and "Env.step(more): Parameter was added as required" in said
    )
    edit("puffervec/__init__.py", '"0.1.2"', '"0.2.0"')
    assert ready.check_api() == "2 changes since v0.1.1 that break code, which this version may"
    edit("puffervec/__init__.py", '"Env", ', "")
    assert "puffervec.Env: gone" in list(api.breakages(repository, "v0.1.1", ["puffervec"]))


def test_a_tag_that_is_not_there(repository: Path) -> None:
    with pytest.raises(RuntimeError, match="v9 holds no puffervec to compare with"):
        list(api.breakages(repository, "v9", ["puffervec"]))


@pytest.mark.slow
def test_every_public_module_offers_something() -> None:
    import griffe

    package = griffe.load(
        "puffervec", search_paths=[str(api.ROOT)], allow_inspection=False, resolve_aliases=True
    )
    assert [module for module in api.PUBLIC if not api.public_members(package, module)] == []
    assert isinstance(api.target(api.public_members(package, "puffervec")["make"]), griffe.Function)


def test_it_stops_at_the_first_thing_that_is_wrong(
    edit: Edit, repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (repository / "tests/train/golden").mkdir(parents=True)
    assert release.main(Release(repository, ["puffervec"])) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines[:5]] == [
        ["holds", "tree"], ["holds", "version"], ["holds", "changelog"], ["holds", "api"],
        ["WRONG", "checkpoints"],
    ]  # fmt: skip
    assert "tests/train/golden/0.1.0 is missing: python scripts/golden_checkpoints.py" in lines[4]
    assert lines[5] == "not ready: figures, docs, dist not looked at"
    edit("CHANGELOG.md", "2026-11-24", "unreleased")
    assert release.main(Release(repository, ["puffervec"])) == 1
    assert (
        capsys.readouterr().out.splitlines()[-1]
        == "not ready: api, checkpoints, figures, docs, dist not looked at"
    )


def test_a_command_that_fails_shows_its_last_lines(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(
        NotReady, match="sh -c echo no; exit 3 ended with 3: see build/release-docs.log"
    ):
        Release(repository).run("docs", "sh", "-c", "echo no; exit 3")
    assert capsys.readouterr().out == "            no\n"
    Release(repository).run("docs", "true")


def test_what_is_packed_is_of_this_version_and_what_is_missing_is_named(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Release, "run", lambda *_: None)
    ready, dist = Release(repository), repository / "dist"
    dist.mkdir()
    (dist / "puffervec-0.1.0.tar.gz").touch()
    with pytest.raises(NotReady, match="an sdist and manylinux wheels of 0.1.0 are wanted"):
        ready.check_dist()
    (dist / "puffervec-0.1.0-cp311-abi3-manylinux_2_28_x86_64.whl").touch()
    assert ready.check_dist().endswith(
        ".tar.gz; to be built elsewhere: Linux on aarch64, macOS on arm64"
    )
    for platform in ("manylinux_2_28_aarch64", "macosx_12_0_arm64"):
        (dist / f"puffervec-0.1.0-cp311-abi3-{platform}.whl").touch()
    assert "elsewhere" not in ready.check_dist()
    (dist / "puffervec-0.0.9.tar.gz").touch()
    with pytest.raises(NotReady, match="puffervec-0.0.9.tar.gz"):
        ready.check_dist()
