# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""`make docs`: the pages as a site in build/site, without a network.

The pages stay as they are in the repository, where they read well too. A copy of them is laid out
in build/pages: links to other files lead to their pages, or to the repository; scripts and the
notebook become pages; the reference is made from docstrings (docs/reference.toml) and from what the
commands print; a baseline of drive plays in replay.html. The navigation is docs/README.md. mkdocs builds that, strictly, and `check` then
looks at every link and at everything that a page would fetch.
"""

from __future__ import annotations

import html.parser
import json
import logging
import os
import re
import shutil
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parent.parent
PAGES, SITE = ROOT / "build" / "pages", ROOT / "build" / "site"
INDEX = "docs/README.md"
LINK = re.compile(r"(\]\()([^)\s]+)(\))")
CODE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
FENCE = re.compile(r"^```(\w+) ([^\n]+)$", re.MULTILINE)
RAW = re.compile(
    r"```|\|\s*:?--|\n\s*(?:[-*]|\d+\.) |\n#+ |\]\(|\n::: "
)  # Markdown that was not understood.
# Pages that do not lie in docs/, by their place in the site.
OTHERS = {
    "README.md": "index.md",
    INDEX: "pages.md",
    "ARCHITECTURE.md": "architecture.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "bench/README.md": "bench.md",
}
BACKGROUND = ("ARCHITECTURE.md", "CONTRIBUTING.md", "bench/README.md", "CHANGELOG.md")
# ---------------------------------------------------------------------------------------------------- pages


def places() -> dict[str, str]:
    """Return the page of the site for each file of the repository that has one."""
    found = dict(OTHERS)
    for path in sorted((ROOT / "docs").rglob("*")):
        name = path.relative_to(ROOT).as_posix()
        if path.is_file() and path.suffix not in (".yml", ".toml") and name not in found:
            inside = path.relative_to(ROOT / "docs").as_posix()
            found[name] = (
                inside.removesuffix(".ipynb") + ".md" if path.suffix == ".ipynb" else inside
            )
    for path in sorted((ROOT / "examples").glob("*.py")):
        found[f"examples/{path.name}"] = f"examples/{path.stem}.md"
    return found


def home_of_repository() -> str:
    """Return the URL of the repository."""
    return str(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]["Homepage"])


def relinked(text: str, file: str, where: Mapping[str, str]) -> str:
    """Return a page with its links leading to pages of the site, else to the repository. Args:
    file: its path there.
    """
    code = [found.span() for found in CODE.finditer(text)]

    def link(found: re.Match[str]) -> str:
        target, mark, part = found[2].partition("#")
        if (
            not target
            or "://" in target
            or target.startswith("mailto:")
            or any(a <= found.start() < b for a, b in code)
        ):
            return found[0]
        name = os.path.normpath(os.path.join(os.path.dirname(file), target))
        if name in where:
            to = os.path.relpath(where[name], os.path.dirname(where[file]) or ".")
        else:
            to = (
                f"{home_of_repository()}/{'tree' if (ROOT / name).is_dir() else 'blob'}/main/{name}"
            )
        return f"{found[1]}{to}{mark}{part}{found[3]}"

    return LINK.sub(link, text)


def page_of(file: str, where: Mapping[str, str]) -> str:
    """Return the Markdown of a file of the repository: a page, a script or a notebook."""
    text = (ROOT / file).read_text(encoding="utf-8")
    if file.endswith(".py"):
        return f"# {Path(file).name}\n\n```python\n{text}```\n"
    if file.endswith(".ipynb"):
        parts = [f"[The notebook as a file]({Path(file).name})\n"]
        for cell in json.loads(text)["cells"]:
            source = "".join(cell["source"])
            parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        title, *rest = parts[1:]
        text = "\n\n".join([title, parts[0], *rest]) + "\n"
        return text
    return relinked(FENCE.sub(_fence, text), file, where)


def _fence(found: re.Match[str]) -> str:
    """Notes behind a fence's language are for the tests of the pages; of them only titles are
    shown.
    """
    title = re.search(r'title="[^"]*"', found[2])
    return f"```{found[1]}{' ' + title[0] if title else ''}"


def lay_out(out: Path) -> dict[str, str]:
    """Write all pages of the repository to `out`; return their places."""
    shutil.rmtree(out, ignore_errors=True)
    where = places()
    for file, place in where.items():
        target = out / place
        target.parent.mkdir(parents=True, exist_ok=True)
        if place.endswith(".md"):
            target.write_text(page_of(file, where), encoding="utf-8")
        else:
            shutil.copyfile(ROOT / file, target)
        if file.endswith(".ipynb"):
            shutil.copyfile(ROOT / file, target.with_name(Path(file).name))
    (out / "site.css").write_text(STYLE)
    return where


STYLE = """\
.md-typeset table:not([class]) { display: table; font-size: .68rem; }
.md-typeset table:not([class]) th { min-width: 0; }
.md-typeset__table { display: block; overflow-x: auto; }
.md-typeset code { word-break: normal; overflow-wrap: break-word; }
.md-grid { max-width: 72rem; }
@media screen and (min-width: 76.25em) { .md-typeset pre > code { font-size: .6rem; } }
.doc-heading code { font-size: .8em; }
.doc-contents { padding-left: .8rem; border-left: .1rem solid var(--md-default-fg-color--lightest); }
"""


# ---------------------------------------------------------------------------------------------------- reference


def reference(out: Path) -> dict[str, str]:
    """Write the pages of the reference; return title: place."""
    folder = out / "reference"
    folder.mkdir(parents=True)
    found = {}
    for page in tomllib.loads((ROOT / "docs" / "reference.toml").read_text(encoding="utf-8"))[
        "page"
    ]:
        title, modules = page["title"], page.get("modules", [])
        lines = [
            f"# {title}",
            "",
            page["about"],
            "",
            *(f"::: {name}\n" for name in page.get("names", [])),
        ]
        for module in modules:
            lines += [
                f"## {module}\n" if len(modules) > 1 or "names" in page else "",
                f"::: {module}",
                *MODULE_OPTIONS,
                "",
            ]
        found[title] = f"reference/{title.replace(' ', '-').lower()}.md"
        (out / found[title]).write_text("\n".join(lines), encoding="utf-8")
    found["Commands"] = "reference/commands.md"
    (folder / "commands.md").write_text(_commands(), encoding="utf-8")
    found["Settings"] = "reference/settings.md"
    (folder / "settings.md").write_text(_settings(), encoding="utf-8")
    return found


MODULE_OPTIONS = (
    "    options:",
    "      show_root_heading: false",
    "      show_root_toc_entry: false",
    "      heading_level: 2",
)


def _commands() -> str:
    import argparse

    from drive_env.cli import parser
    from puffervec.commands import cli

    os.environ["COLUMNS"] = "120"  # argparse folds its lines by it.
    top = parser()
    (parts,) = (action for action in top._actions if isinstance(action, argparse._SubParsersAction))
    scenes = "".join(
        f"## puffer-scenes {name}\n\n{_shown(part.format_help())}"
        for name, part in parts.choices.items()
    )

    verbs = "".join(
        f"## puffer-train {name}\n\n```text\n{verb.usage.strip(chr(10))}\n```\n\n"
        for name, verb in cli.VERBS.items()
    )
    return f"# Commands\n\nWhat `--help` prints.\n\n{_shown(cli.usage())}{verbs}{scenes}"


def _shown(text: str) -> str:
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text).strip("\n")
    return f"```text\n{plain}\n```\n\n"


def _settings() -> str:
    from puffervec.commands import settings_help
    from puffervec.train import TrainConfig

    envs = ("drive", "CartPole-v1")
    parts = "".join(
        f"## {env}\n\n{_shown(settings_help.full_help(TrainConfig.of(env)))}" for env in envs
    )
    about = (
        "What `puffer-train ENV --help-all` prints: all settings with the defaults that the env "
        "gives them."
    )
    return f"# Settings\n\n{about}\n\n{parts}"


# ---------------------------------------------------------------------------------------------------- navigation


def navigation(where: Mapping[str, str], made: Mapping[str, str]) -> list[Any]:
    """Return mkdocs' navigation: the sections of docs/README.md, with the reference and what lies
    beside docs/.
    """
    text = (ROOT / INDEX).read_text(encoding="utf-8")
    sections: list[Any] = [{"Home": [{"Overview": "index.md"}, {"All pages": "pages.md"}]}]
    for part in text.split("\n## ")[1:]:
        title, _, rest = part.partition("\n")
        links = re.findall(r"^\| \[([^\]]+)\]\(([^)#]+)\)", rest, re.MULTILINE)
        pages = [{name: where[os.path.normpath(f"docs/{target}")]} for name, target in links]
        if title == "Reference":
            pages += [{name: place} for name, place in made.items()]
        if title == "Background":
            pages += [{_title(file): where[file]} for file in BACKGROUND]
        if title == "Scripts to begin with":
            sections[1]["Tutorials"] += pages
        else:
            sections.append({title: pages})
    return sections


def _title(file: str) -> str:
    found = re.search(r"^# (.+)$", (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE)
    assert found is not None
    return found[1]


def build() -> None:
    """Lay out the pages and let mkdocs build them. Raises: mkdocs' Abort where anything is not as
    it should be.
    """
    from mkdocs.commands.build import build as mkdocs_build
    from mkdocs.config import load_config

    logging.basicConfig(format="%(levelname)s: %(message)s", level=logging.WARNING)
    os.chdir(ROOT)
    where = lay_out(PAGES)
    nav = navigation(where, reference(PAGES))
    config = load_config(
        str(ROOT / "docs" / "mkdocs.yml"), docs_dir=str(PAGES), site_dir=str(SITE), nav=nav, strict=True,
        exclude_docs="", site_url="",
    )  # fmt: skip
    mkdocs_build(config)


# ---------------------------------------------------------------------------------------------------- check


class _Page(html.parser.HTMLParser):
    """What a built page links to, what it fetches, and its ids."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.ids: set[str] = set()
        self.raw: list[str] = []
        self._inside, self._code, self._paragraph = False, 0, ""
        self.feed(text)

    def handle_data(self, data: str) -> None:
        self._paragraph += data if self._inside and not self._code else ""

    def handle_endtag(self, tag: str) -> None:
        self._code -= tag == "code"
        if tag in ("p", "td"):
            found = RAW.search(self._paragraph)
            if found is not None:
                self.raw.append(self._paragraph[found.start() :].strip()[:60])
            self._inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._code += tag == "code"
        if tag in ("p", "td"):
            self._inside, self._paragraph = True, ""
        values = {name: value or "" for name, value in attrs}
        self.ids |= {values[name] for name in ("id", "name") if values.get(name)}
        if tag in ("a", "area") and "href" in values:
            self.links.append(values["href"])
        elif (
            tag == "link"
            and "href" in values
            and values.get("rel") not in ("canonical", "prev", "next")
        ):
            self.fetched.append(values["href"])
        for name in ("src", "srcset", "poster", "data", "action"):
            if name in values:
                self.fetched.append(values[name])


def check(site: Path) -> list[str]:
    """Return what is wrong with a built site: links that lead nowhere, and what a page would fetch
    from elsewhere.
    """
    pages = {path: _Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    wrong = []
    for path, page in pages.items():
        name = path.relative_to(site).as_posix()
        wrong += [f"{name} shows Markdown as it is: {raw!r}" for raw in page.raw]
        for url in [*page.links, *page.fetched]:
            parts = urlsplit(url)
            if parts.scheme or parts.netloc:
                if url in page.fetched and parts.scheme != "data":
                    wrong.append(f"{name} fetches {url}")
                continue
            base = (
                site if parts.path.startswith("/") else path.parent
            )  # 404.html is shown for any address.
            target = (base / unquote(parts.path).lstrip("/")).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            if not target.is_file():
                wrong.append(f"{name} links to {url}, which is not there")
            elif (
                parts.fragment
                and target in pages
                and not _has(pages[target], unquote(parts.fragment))
            ):
                wrong.append(f"{name} links to {url}, which has no such part")
    return wrong + [f"{path.relative_to(site)} fetches {url}" for path, url in _of_styles(site)]


def _has(page: _Page, part: str) -> bool:
    return part in page.ids or part.startswith("__")  # Material's own, as __toc.


def _of_styles(site: Path) -> Iterator[tuple[Path, str]]:
    for path in sorted(site.rglob("*.css")):
        for url in re.findall(
            r"(?:@import\s+|url\()[\"']?(https?:[^\"')\s]+|//[^\"')\s]+)",
            path.read_text(encoding="utf-8"),
        ):
            yield path, url


def main() -> int:
    """Build and check. Returns the exit code."""
    try:
        import mkdocs.exceptions
        import mkdocstrings  # noqa: F401
    except ModuleNotFoundError as error:
        how = "pip install -c constraints.txt mkdocs-material 'mkdocstrings[python]'"
        print(f"docs_site.py: {error.name} is missing: {how}", file=sys.stderr)
        return 2
    try:
        build()
    except mkdocs.exceptions.MkDocsException as error:
        print(f"docs_site.py: {error}", file=sys.stderr)
        return 1
    wrong = check(SITE)
    print(
        *wrong,
        f"{SITE.relative_to(ROOT)}: {len(list(SITE.rglob('*.html')))} pages, {len(wrong)} faults",
        sep="\n",
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
